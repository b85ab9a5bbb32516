"""Workers that run environments in this process or in processes, which are replaced on failure."""

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

from wmtk.collecting.env_setup import EpisodePlan
from wmtk.collecting.episode_recorder import EpisodeRecorder
from wmtk.datasets import Episode
from wmtk.errors import FOREIGN, BoundsError, EnvironmentApiError, WmtkError
from wmtk.escaping import make_streams_safe

SAFE_PATH, SET_BY_WMTK = "PYTHONSAFEPATH", "wmtk"
START_TIMEOUT = 60.0  # seconds for the start of a process
Actions = Mapping[int, Sequence[NDArray[Any]]]  # of a rollout, by environment


@dataclass
class RolloutResult:
    """The outcome of a rollout in some environments; keys are their indices."""

    episodes: list[tuple[int, int, Episode]] = field(default_factory=list)  # (step, index, …)
    obs: dict[int, Mapping[str, NDArray[Any]]] = field(default_factory=dict)  # the last ones
    began: set[int] = field(default_factory=set)  # a new episode began
    done: set[int] = field(default_factory=set)  # the plan is complete
    failures: dict[int, str] = field(default_factory=dict)  # the episode was dropped: reason
    out_of_bounds: dict[int, str] = field(default_factory=dict)  # of these: key of the array
    incidents: int = 0  # causes of failures: one if a process dies with all of its environments
    unfinished: dict[int, int] = field(default_factory=dict)  # steps of the running episode
    steps: int = 0
    api_error: EnvironmentApiError | None = None  # raised at once, since it would repeat


class EnvGroup:
    """The environments of one process."""

    def __init__(
        self, plans: Sequence[EpisodePlan], needs_obs: bool, heartbeat: Callable[[], None]
    ) -> None:
        self._recorders = {plan.env_index: EpisodeRecorder(plan) for plan in plans}
        self._needs_obs = needs_obs
        self._heartbeat = heartbeat

    def run(self, actions: Actions) -> RolloutResult:
        """Apply the actions in each environment, and reset those without a running episode first.

        With an empty sequence of actions, an environment is only reset.
        """
        result = RolloutResult()
        for index, sequence in actions.items():
            try:
                self._run(index, sequence, result)
            except EnvironmentApiError as error:
                result.api_error = error
            except FOREIGN as error:  # of the environment's code
                self._replace(index)
                result.incidents += 1
                result.failures[index] = _reason(error)
                if isinstance(error, BoundsError):
                    result.out_of_bounds[index] = error.key
        return result

    def _run(self, index: int, sequence: Sequence[NDArray[Any]], result: RolloutResult) -> None:
        if self._recorders[index].done:  # in the previous rollout, sent before its result
            return
        recorder = self._recorders[index]
        obs = None
        if not recorder.started:
            self._heartbeat()
            obs = recorder.reset()
            result.began.add(index)
        for step, action in enumerate(sequence):
            self._heartbeat()
            obs, episode = recorder.step(action)
            result.steps += 1
            if episode is not None:
                result.episodes.append((step, index, episode))
                result.began.add(index)
                if recorder.done:
                    result.done.add(index)
                    result.unfinished[index] = 0
                    return
        result.unfinished[index] = recorder.episode_steps
        if self._needs_obs and obs is not None:
            result.obs[index] = obs

    def _replace(self, index: int) -> None:
        """Discard a failed environment; a new one completes the rest of the plan."""
        failed = self._recorders[index]
        plan = replace(
            failed.plan,
            steps=failed.steps_left,
            episodes=failed.episodes_left,
            attempt=failed.plan.attempt + 1,
        )
        self._recorders[index] = EpisodeRecorder(plan)
        failed.close()

    def close(self) -> None:
        for recorder in self._recorders.values():
            recorder.close()


def _reason(error: BaseException) -> str:
    if isinstance(error, BoundsError):
        return f"{error.message} {error.hint}"
    return error.message if isinstance(error, WmtkError) else f"{type(error).__name__}: {error}"


class EnvWorker(Protocol):
    """Runs some of the environments: `send` the actions of a rollout, then `receive` its result.

    A worker process accepts further rollouts before the first result is received.
    """

    env_indices: list[int]

    def send(self, actions: Actions) -> None: ...

    def receive(self) -> RolloutResult: ...

    def close(self) -> None: ...


class LocalWorker:
    """Runs environments in this process: no overhead, but an environment that hangs blocks it."""

    def __init__(self, plans: Sequence[EpisodePlan], needs_obs: bool) -> None:
        self.env_indices = [plan.env_index for plan in plans]
        self._group = EnvGroup(plans, needs_obs, lambda: None)
        self._actions: Actions = {}

    def send(self, actions: Actions) -> None:
        self._actions = actions

    def receive(self) -> RolloutResult:
        return self._group.run(self._actions)

    def close(self) -> None:
        self._group.close()


class ProcessWorker:
    """Runs environments in another process.

    The process is replaced when it dies or takes no step for `timeout` seconds.
    """

    def __init__(self, plans: Sequence[EpisodePlan], needs_obs: bool, timeout: float) -> None:
        self.env_indices = [plan.env_index for plan in plans]
        self._plans = {plan.env_index: plan for plan in plans}
        self._needs_obs = needs_obs
        self._timeout = timeout
        self._sent: deque[Actions] = deque()  # rollouts whose results are not received yet
        self._lost = 0  # number of these that died with a process
        self._start()

    def _start(self) -> None:
        # Not "fork": this process has threads, and may use a GPU.
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        self._beats = context.RawValue("Q", 0)
        arguments = (child, list(self._plans.values()), self._needs_obs, self._beats)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        with starting_process():
            self._process.start()
        child.close()

    def send(self, actions: Actions) -> None:
        self._sent.append(actions)
        # One array per environment: sending hundreds of small arrays takes longer than the steps.
        packed: dict[int, Any] = {
            index: np.stack(sequence) if sequence else [] for index, sequence in actions.items()
        }
        with contextlib.suppress(OSError):  # if the process died, receive() handles it
            self._connection.send(packed)

    def receive(self) -> RolloutResult:
        actions = self._sent.popleft()
        if self._lost:
            self._lost -= 1
            return RolloutResult()
        try:
            result = self._wait()
        except (EOFError, ConnectionError):
            self._process.join(5)
            return self._restart(actions, f"its process died (exit code {self._process.exitcode})")
        except TimeoutError:
            return self._restart(actions, f"it took no step for {self._timeout:g} s")
        for _, index, episode in result.episodes:
            self._plans[index] = _without(self._plans[index], episode)
        for index in result.failures:
            self._plans[index] = _retried(self._plans[index])
        return result

    def _wait(self) -> RolloutResult:
        beats, since = self._beats.value, time.monotonic()
        while not self._connection.poll(0.2):
            if not self._process.is_alive() and not self._connection.poll(0):
                raise EOFError
            if self._beats.value != beats:
                beats, since = self._beats.value, time.monotonic()
            limit = self._timeout if beats else max(self._timeout, START_TIMEOUT)
            if time.monotonic() - since > limit:
                raise TimeoutError
        result = self._connection.recv()
        assert isinstance(result, RolloutResult), result
        return result

    def _restart(self, actions: Actions, reason: str) -> RolloutResult:
        """Replace the process; its running episodes are lost."""
        self._kill()
        self._lost = len(self._sent)
        for index in actions:
            self._plans[index] = _retried(self._plans[index])
        self._start()
        failures = dict.fromkeys(actions, f"the environment failed: {reason}")
        return RolloutResult(failures=failures, incidents=1)

    def _kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.send(None)
            self._process.join(5)
        self._kill()


def _without(plan: EpisodePlan, episode: Episode) -> EpisodePlan:
    """The rest of a plan after an episode."""
    return replace(
        plan,
        steps=None if plan.steps is None else plan.steps - episode.length,
        episodes=None if plan.episodes is None else plan.episodes - 1,
    )


def _retried(plan: EpisodePlan) -> EpisodePlan:
    return replace(plan, attempt=plan.attempt + 1)


@contextlib.contextmanager
def starting_process() -> Iterator[None]:
    """Protect processes that start within from Ctrl-C and from modules in the current folder.

    Ctrl-C reaches every process of a terminal and would end a starting one with a traceback. The
    process inherits the blocked signal until `process_started` ignores it.

    Processes are spawned as `python -c …`, which imports modules of the current folder before
    those of Python; that folder may contain untrusted files.
    """
    value = os.environ.setdefault(SAFE_PATH, SET_BY_WMTK)
    try:
        resource_tracker.ensure_running()  # otherwise the first start unblocks signals
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    finally:
        if value == SET_BY_WMTK:
            os.environ.pop(SAFE_PATH, None)


def process_started() -> None:
    """Set up a new process; call it first.

    Ignores Ctrl-C, which the parent handles, and escapes control characters in the output, since
    environments may print text from files.
    """
    make_streams_safe()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.environ.get(SAFE_PATH) == SET_BY_WMTK:  # processes of the environment do not inherit it
        del os.environ[SAFE_PATH]


def _serve(connection: Connection, plans: list[EpisodePlan], needs_obs: bool, beats: Any) -> None:
    """The main function of a worker process."""
    process_started()

    def heartbeat() -> None:
        beats.value += 1

    heartbeat()
    group = EnvGroup(plans, needs_obs, heartbeat)
    while True:
        try:
            actions = connection.recv()
        except (EOFError, OSError):
            return  # the parent has ended
        if actions is None:
            group.close()
            return
        connection.send(group.run(actions))
