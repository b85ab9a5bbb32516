"""The one thread in which models compute: for all pages, and for metrics in between."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, TypeVar

from wmtk.errors import FOREIGN
from wmtk.viz.live import protocol
from wmtk.viz.live.catalog import Catalog
from wmtk.viz.live.model_pool import ModelPool
from wmtk.viz.live.player import Page, Play
from wmtk.viz.live.recorder import Recorder

T = TypeVar("T")

TURNS = 4  # steps of play for each job that waits, at most
_logger = logging.getLogger(__name__)


class Seat:
    """A page's place at the engine. Of messages of a kind only the newest waits."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.mailbox: dict[str, protocol.Incoming] = {}
        self.leaving = False

    def next_message(self) -> protocol.Incoming | None:
        return self.mailbox.pop(next(iter(self.mailbox))) if self.mailbox else None


class Engine:
    """Serves the seats in turn: messages first, then the step that is due longest."""

    def __init__(self, catalog: Catalog) -> None:
        self.shelf = ModelPool(catalog)
        self._catalog = catalog
        self._recorder = None if catalog.target is None else Recorder(catalog.target)
        self._seats: list[Seat] = []
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._steps = 0  # since the last job
        self._stopping = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="wmtk-inference", daemon=True)
        self._thread.start()

    # --- from other threads ---

    def enter(self, page: Page) -> Seat:
        with self._change:
            seat = Seat(Play(self._catalog, self.shelf, self._recorder, page))
            self._seats.append(seat)
        return seat

    def post(self, seat: Seat, message: protocol.Incoming) -> None:
        """Leave a message; one of its kind that still waits is forgotten."""
        with self._change:
            seat.mailbox.pop(message.kind, None)
            seat.mailbox[message.kind] = message
            self._change.notify()

    def leave(self, seat: Seat) -> None:
        """The page is closed: free what it held."""
        with self._change:
            seat.leaving = True
            self._change.notify()

    def call(self, work: Callable[[], T]) -> T:
        """Let something be computed in the thread, and wait for it."""
        done: Future[T] = Future()
        with self._change:
            if self._stopping:
                raise CancelledError
            self._jobs.append((done, work))
            self._change.notify()
        return done.result()

    def stop(self) -> None:
        with self._change:
            self._stopping = True
            self._change.notify()
        self._thread.join()

    @property
    def seats(self) -> int:
        return len(self._seats)

    # --- in the thread ---

    def _run(self) -> None:
        while True:
            with self._change:
                work = self._next()
                while work is None and not self._stopping:
                    self._change.wait(self._pause())
                    work = self._next()
                if self._stopping:
                    break
            assert work is not None
            work()
        for seat in self._seats:
            seat.play.close()
        self._seats.clear()
        for done, _ in self._jobs:
            done.cancel()

    def _pause(self) -> float | None:
        """How long nothing is to be done; None for as long as nobody says anything."""
        due = min((seat.play.due for seat in self._seats), default=math.inf)
        return None if math.isinf(due) else max(0.0, due - time.monotonic())

    def _next(self) -> Callable[[], Any] | None:
        """What to do next, if anything."""
        for seat in self._seats:
            if seat.leaving:
                self._seats.remove(seat)
                return seat.play.close
        for seat in self._seats:
            message = seat.next_message()
            if message is not None:
                return partial(self._guarded, seat, partial(seat.play.handle, message))
        now = time.monotonic()
        due = [seat for seat in self._seats if seat.play.due <= now]
        if due and not (self._jobs and self._steps >= TURNS):
            first = min(due, key=lambda seat: seat.play.due)
            self._steps += 1
            return partial(self._guarded, first, first.play.tick)
        if self._jobs:
            self._steps = 0
            return partial(_fulfil, *self._jobs.popleft())
        return None

    def _guarded(self, seat: Seat, work: Callable[[], None]) -> None:
        """A failure ends one page's play, and nothing else."""
        try:
            work()
        except FOREIGN as error:
            _logger.debug("a play failed", exc_info=error)
            seat.play.fail(error)


def _fulfil(done: Future[Any], work: Callable[[], Any]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)
