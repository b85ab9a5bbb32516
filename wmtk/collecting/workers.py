"""Where the environments run: in this process, or in others that are watched and replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wmtk.collecting.env_slot import EnvSlot, SlotPlan
from wmtk.datasets import Episode
from wmtk.errors import FOREIGN, BoundsError, WmtkError
from wmtk.escaping import make_streams_safe

SAFE_PATH, HERE = "PYTHONSAFEPATH", "wmtk"  # the value tells that it was set here
START = 60.0  # seconds that a process may take to start, before any environment can hang
Actions = Mapping[int, Sequence[NDArray[Any]]]  # for each slot, the actions of the round


@dataclass
class Round:
    """What came of a round of actions."""

    episodes: list[tuple[int, int, Episode]] = field(default_factory=list)  # (when, slot, …)
    obs: dict[int, Mapping[str, NDArray[Any]]] = field(default_factory=dict)  # to act on next
    began: set[int] = field(default_factory=set)  # slots that are in a new episode
    done: set[int] = field(default_factory=set)  # slots whose plan is fulfilled
    failures: dict[int, str] = field(default_factory=dict)  # slots whose episode was dropped
    beyond: dict[int, str] = field(default_factory=dict)  # of these, the array beyond its bounds
    incidents: int = 0  # faults behind them: a process that dies takes all its slots along
    under_way: dict[int, int] = field(default_factory=dict)  # steps of episodes that go on
    steps: int = 0


class SlotGroup:
    """Plays the slots of one process."""

    def __init__(
        self, plans: Sequence[SlotPlan], needs_obs: bool, beat: Callable[[], None]
    ) -> None:
        self._slots = {plan.number: EnvSlot(plan) for plan in plans}
        self._needs_obs = needs_obs
        self._beat = beat

    def run(self, actions: Actions) -> Round:
        """Play every slot's actions, first beginning an episode where there is none.

        An empty sequence of actions only begins the episode.
        """
        result = Round()
        for number, sequence in actions.items():
            try:
                self._play(number, sequence, result)
            except FOREIGN as error:  # whatever an environment raises
                self._replace(number)
                result.incidents += 1
                result.failures[number] = _reason(error)
                if isinstance(error, BoundsError):
                    result.beyond[number] = error.key
        return result

    def _play(self, number: int, sequence: Sequence[NDArray[Any]], result: Round) -> None:
        if self._slots[number].done:  # by the round before, not yet known when this one was sent
            return
        slot = self._slots[number]
        obs = None
        if not slot.begun:
            self._beat()
            obs = slot.begin()
            result.began.add(number)
        for when, action in enumerate(sequence):
            self._beat()
            obs, episode = slot.step(action)
            result.steps += 1
            if episode is not None:
                result.episodes.append((when, number, episode))
                result.began.add(number)
                if slot.done:
                    result.done.add(number)
                    result.under_way[number] = 0
                    return
        result.under_way[number] = slot.under_way
        if self._needs_obs and obs is not None:
            result.obs[number] = obs

    def _replace(self, number: int) -> None:
        """Give up an environment that failed; the next has the rest of the plan to fulfil."""
        old = self._slots[number]
        plan = replace(
            old.plan,
            steps=old.steps_left,
            episodes=old.episodes_left,
            attempt=old.plan.attempt + 1,
        )
        self._slots[number] = EnvSlot(plan)
        old.close()

    def close(self) -> None:
        for slot in self._slots.values():
            slot.close()


def _reason(error: BaseException) -> str:
    if isinstance(error, BoundsError):
        return f"{error.message} {error.hint}"
    return error.message if isinstance(error, WmtkError) else f"{type(error).__name__}: {error}"


class Worker(Protocol):
    """Plays some of the slots: `send` the actions of a round, then `receive` what came of it.

    In processes of their own, further rounds can be sent before the first is received.
    """

    slots: list[int]

    def send(self, actions: Actions) -> None: ...

    def receive(self) -> Round: ...

    def close(self) -> None: ...


class LocalWorker:
    """Plays in this process: no overhead, but an environment that hangs hangs everything."""

    def __init__(self, plans: Sequence[SlotPlan], needs_obs: bool) -> None:
        self.slots = [plan.number for plan in plans]
        self._group = SlotGroup(plans, needs_obs, lambda: None)
        self._actions: Actions = {}

    def send(self, actions: Actions) -> None:
        self._actions = actions

    def receive(self) -> Round:
        return self._group.run(self._actions)

    def close(self) -> None:
        self._group.close()


class ProcessWorker:
    """Plays in another process, which is replaced when it dies or makes no step for `timeout` s."""

    def __init__(self, plans: Sequence[SlotPlan], needs_obs: bool, timeout: float) -> None:
        self.slots = [plan.number for plan in plans]
        self._plans = {plan.number: plan for plan in plans}
        self._needs_obs = needs_obs
        self._timeout = timeout
        self._sent: deque[Actions] = deque()  # rounds whose results have not been received
        self._lost = 0  # of them, those that died with a process
        self._start()

    def _start(self) -> None:
        # Not forked: this process has threads, and may have a GPU.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._beats = context.RawValue("Q", 0)
        arguments = (theirs, list(self._plans.values()), self._needs_obs, self._beats)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        with starting_process():
            self._process.start()
        theirs.close()

    def send(self, actions: Actions) -> None:
        self._sent.append(actions)
        # One array a slot: hundreds of small ones take longer to send than to play.
        packed: dict[int, Any] = {
            slot: np.stack(chosen) if chosen else [] for slot, chosen in actions.items()
        }
        with contextlib.suppress(OSError):  # if it died, receive() finds out
            self._connection.send(packed)

    def receive(self) -> Round:
        played = self._sent.popleft()
        if self._lost:
            self._lost -= 1
            return Round()
        try:
            result = self._wait()
        except (EOFError, ConnectionError):
            self._process.join(5)
            return self._restart(played, f"its process died (exit code {self._process.exitcode})")
        except TimeoutError:
            return self._restart(played, f"it made no step for {self._timeout:g} s")
        for _, number, episode in result.episodes:
            self._plans[number] = _without(self._plans[number], episode)
        for number in result.failures:
            self._plans[number] = _retried(self._plans[number])
        return result

    def _wait(self) -> Round:
        seen, since = self._beats.value, time.monotonic()
        while not self._connection.poll(0.2):
            if not self._process.is_alive() and not self._connection.poll(0):
                raise EOFError
            if self._beats.value != seen:
                seen, since = self._beats.value, time.monotonic()
            elif time.monotonic() - since > (self._timeout if seen else max(self._timeout, START)):
                raise TimeoutError
        result = self._connection.recv()
        assert isinstance(result, Round), result
        return result

    def _restart(self, played: Actions, reason: str) -> Round:
        """Replace the process: the episodes that were under way in it are lost."""
        self._kill()
        self._lost = len(self._sent)
        for number in played:
            self._plans[number] = _retried(self._plans[number])
        self._start()
        failures = dict.fromkeys(played, f"the environment failed: {reason}")
        return Round(failures=failures, incidents=1)

    def _kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.send(None)
            self._process.join(5)
        self._kill()


def _without(plan: SlotPlan, episode: Episode) -> SlotPlan:
    """What is left of a plan once an episode is recorded."""
    return replace(
        plan,
        steps=None if plan.steps is None else plan.steps - episode.length,
        episodes=None if plan.episodes is None else plan.episodes - 1,
    )


def _retried(plan: SlotPlan) -> SlotPlan:
    return replace(plan, attempt=plan.attempt + 1)


@contextlib.contextmanager
def starting_process() -> Iterator[None]:
    """Hold back Ctrl-C, and the current folder, from a process that starts.

    Ctrl-C goes to every process of a terminal, and one that is starting dies of it noisily. It
    inherits that the signal is held back, until `process_started` ignores it.

    `python -c …`, as which processes are spawned, imports modules of the current folder before
    those of Python, and that folder may hold the files of a stranger.
    """
    given = os.environ.setdefault(SAFE_PATH, HERE)
    try:
        resource_tracker.ensure_running()  # else the first start does it, and lets signals through
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    finally:
        if given == HERE:
            os.environ.pop(SAFE_PATH, None)


def process_started() -> None:
    """What the process itself does first: Ctrl-C is for its parent to handle.

    It shares the terminal of its parent, where environments may print what a file told them.
    """
    make_streams_safe()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.environ.get(SAFE_PATH) == HERE:  # what an environment starts is its own affair
        del os.environ[SAFE_PATH]


def _serve(connection: Connection, plans: list[SlotPlan], needs_obs: bool, beats: Any) -> None:
    """The life of a worker process."""
    process_started()

    def beat() -> None:
        beats.value += 1

    beat()
    group = SlotGroup(plans, needs_obs, beat)
    while True:
        try:
            actions = connection.recv()
        except (EOFError, OSError):
            return  # the parent is gone
        if actions is None:
            group.close()
            return
        connection.send(group.run(actions))
