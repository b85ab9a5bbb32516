"""The inference thread, which serves all pages and, in between, jobs such as metrics."""

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
from wmtk.viz.live.catalog import Catalog, ModelPool
from wmtk.viz.live.player import Page, Player
from wmtk.viz.live.real_env import Recorder

T = TypeVar("T")

TURNS = 4  # steps per waiting job, at most
_logger = logging.getLogger(__name__)


class Client:
    """A connected page. The mailbox keeps only the newest message of each kind."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.mailbox: dict[str, protocol.Incoming] = {}
        self.is_leaving = False

    def next_message(self) -> protocol.Incoming | None:
        return self.mailbox.pop(next(iter(self.mailbox))) if self.mailbox else None


class Engine:
    """Serves messages first, then the step that has been due longest, then jobs."""

    def __init__(self, catalog: Catalog) -> None:
        self.models = ModelPool(catalog)
        self._catalog = catalog
        self._recorder = None if catalog.target is None else Recorder(catalog.target)
        self._clients: list[Client] = []
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._steps = 0  # since the last job
        self._stopping = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="wmtk-inference", daemon=True)
        self._thread.start()

    # --- from other threads ---

    def connect(self, page: Page) -> Client:
        with self._change:
            client = Client(Player(self._catalog, self.models, self._recorder, page))
            self._clients.append(client)
        return client

    def post(self, client: Client, message: protocol.Incoming) -> None:
        """Queue a message; it replaces a waiting one of the same kind."""
        with self._change:
            client.mailbox.pop(message.kind, None)
            client.mailbox[message.kind] = message
            self._change.notify()

    def disconnect(self, client: Client) -> None:
        """Free the resources of a page that was closed."""
        with self._change:
            client.is_leaving = True
            self._change.notify()

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` in the inference thread and return its result."""
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
    def clients(self) -> int:
        return len(self._clients)

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
        for client in self._clients:
            client.player.close()
        self._clients.clear()
        for done, _ in self._jobs:
            done.cancel()

    def _pause(self) -> float | None:
        """Seconds until the next step is due; None if there is none."""
        due = min((client.player.due for client in self._clients), default=math.inf)
        return None if math.isinf(due) else max(0.0, due - time.monotonic())

    def _next(self) -> Callable[[], Any] | None:
        """The next piece of work, if any."""
        for client in self._clients:
            if client.is_leaving:
                self._clients.remove(client)
                return client.player.close
        for client in self._clients:
            message = client.next_message()
            if message is not None:
                return partial(self._guarded, client, partial(client.player.handle, message))
        now = time.monotonic()
        due = [client for client in self._clients if client.player.due <= now]
        if due and not (self._jobs and self._steps >= TURNS):
            first = min(due, key=lambda client: client.player.due)
            self._steps += 1
            return partial(self._guarded, first, first.player.tick)
        if self._jobs:
            self._steps = 0
            return partial(_complete, *self._jobs.popleft())
        return None

    def _guarded(self, client: Client, work: Callable[[], None]) -> None:
        """Run `work`; an error stops the player of this page only."""
        try:
            work()
        except FOREIGN as error:
            _logger.debug("player failed", exc_info=error)
            client.player.fail(error)


def _complete(done: Future[Any], work: Callable[[], Any]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)
