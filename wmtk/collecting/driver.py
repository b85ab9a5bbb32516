"""Step all environments with the actions of a policy until each has completed its plan."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wmtk.collecting.env_setup import EpisodePlan
from wmtk.collecting.policies import Observation, Policy
from wmtk.collecting.workers import EnvWorker, LocalWorker, ProcessWorker, RolloutResult
from wmtk.datasets import Episode
from wmtk.envs import ResolvedTask
from wmtk.errors import EnvironmentFailedError

ROLLOUT_SECONDS = 0.3  # duration of a rollout with a policy that needs no observations
MAX_ROLLOUT_STEPS = 512  # per environment
MAX_FAILURES = 5  # without a finished episode in between
RECENT = 100  # episodes in the reported mean return


@dataclass(frozen=True)
class RolloutProgress:
    """Progress after a rollout, the argument of `on_progress`."""

    episodes: int
    steps: int  # of whole episodes
    steps_taken: int  # including those of unfinished episodes
    mean_return: float  # of the last hundred episodes


class EpisodeSink(Protocol):
    """Receives the episodes of an `EpisodeDriver`."""

    def add(self, env_index: int, episode: Episode) -> None:
        """Add an episode that ended in an environment, before `Policy.begin` of its next one."""

    def flush_if_due(self) -> None:
        """Called after each rollout."""

    def close(self) -> None:
        """Called after the last episode."""


class EpisodeDriver:
    """Runs a policy in several environments and passes the episodes to a sink."""

    def __init__(
        self,
        policy: Policy,
        sink: EpisodeSink,
        on_progress: Callable[[RolloutProgress], None] = lambda _: None,
        on_message: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._policy = policy
        self._sink = sink
        self._on_progress = on_progress
        self._on_message = on_message
        self._obs: dict[int, Observation] = {}  # by environment
        self._unfinished: dict[int, int] = {}  # steps of the running episode, by environment
        self._failures_in_a_row = 0
        self._reported: set[str] = set()  # arrays out of bounds
        self._start_time = time.monotonic()
        self.returns: list[float] = []
        self.steps = self.steps_taken = self.dropped = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start_time

    @property
    def unfinished_steps(self) -> int:
        """Steps of the running episodes."""
        return sum(self._unfinished.values())

    def run(self, plans: Sequence[EpisodePlan], workers: int | None, timeout: float) -> bool:
        """Complete all plans; returns whether Ctrl-C interrupted the run.

        The environments are divided among `workers` processes; 0 runs them in this process. A
        process that takes no step for `timeout` seconds is replaced.
        """
        try:
            with closing(self.rollouts(plans, workers, timeout)) as rollouts:
                for _ in rollouts:
                    pass
        except KeyboardInterrupt:
            return True
        return False

    def rollouts(
        self,
        plans: Sequence[EpisodePlan],
        workers: int | None,
        timeout: float,
        max_length: int = MAX_ROLLOUT_STEPS,
    ) -> Generator[None]:
        """Like `run`, but yields after each rollout.

        A rollout is one step in each environment, or up to `max_length` steps if the policy needs
        no observations. Closing the generator discards the running episodes.
        """
        count = default_workers(plans[0].task) if workers is None else workers
        count = min(count, len(plans))
        needs_obs = self._policy.needs_obs
        team: list[EnvWorker] = []
        try:
            if count == 0:
                team.append(LocalWorker(plans, needs_obs))
            for number in range(count):
                team.append(ProcessWorker(plans[number::count], needs_obs, timeout))
            yield from self._rollouts(team, 1 if needs_obs else max_length)
        finally:
            try:
                self._sink.close()
            finally:
                for worker in team:
                    worker.close()

    def _rollouts(self, team: Sequence[EnvWorker], max_length: int) -> Iterator[None]:
        todo = {index for worker in team for index in worker.env_indices}
        # Actions that need no observations are sent while the previous rollout still runs.
        ahead = max_length > 1 and not any(isinstance(worker, LocalWorker) for worker in team)
        length = next_length = 0  # steps; the first rollout only resets
        busy = self._send(team, todo, length)
        ended = time.monotonic()
        while todo:
            next_length = max(1, min(max_length, 2 * length or 1, next_length or 1))
            next_busy = self._send(team, todo, next_length) if ahead else []
            todo -= self._receive(busy)
            began, ended = ended, time.monotonic()
            step_seconds = (ended - began) / max(length, 1)
            yield
            busy = next_busy or self._send(team, todo, next_length)
            length, next_length = next_length, int(ROLLOUT_SECONDS / max(step_seconds, 1e-6))

    def _actions(self, indices: Sequence[int], length: int) -> dict[int, list[NDArray[Any]]]:
        """The actions of a rollout; none where the first observation is still unknown."""
        policy = self._policy
        if not policy.needs_obs:
            return {i: [policy.act([i], [])[0] for _ in range(length)] for i in indices}
        ready = [i for i in indices if i in self._obs and length]
        chosen = policy.act(ready, [self._obs[i] for i in ready]) if ready else []
        actions: dict[int, list[NDArray[Any]]] = {i: [] for i in indices}
        return actions | {i: [action] for i, action in zip(ready, chosen, strict=True)}

    def _send(self, team: Sequence[EnvWorker], todo: set[int], length: int) -> list[EnvWorker]:
        """Start a rollout; returns the workers that run it."""
        actions = self._actions(sorted(todo), length)
        busy = [worker for worker in team if any(i in actions for i in worker.env_indices)]
        for worker in busy:
            worker.send({i: actions[i] for i in worker.env_indices if i in actions})
        return busy

    def _receive(self, busy: Sequence[EnvWorker]) -> set[int]:
        """Process the oldest rollout; returns the environments that completed their plans."""
        results = [worker.receive() for worker in busy]
        # Sorted by the step of their end, so that the order does not depend on the processes.
        ended = sorted((e for r in results for e in r.episodes), key=lambda e: (e[0], e[1]))
        for _, index, episode in ended:
            self._sink.add(index, episode)
            self.returns.append(episode.total_reward)
            self.steps += episode.length
        done: set[int] = set()
        for result in results:
            self._update(result)
            done |= result.done
        if ended:
            self._failures_in_a_row = 0
        self._sink.flush_if_due()
        recent = float(np.mean(self.returns[-RECENT:])) if self.returns else float("nan")
        progress = RolloutProgress(len(self.returns), self.steps, self.steps_taken, recent)
        self._on_progress(progress)
        return done

    def _update(self, result: RolloutResult) -> None:
        if result.api_error is not None:
            raise result.api_error
        self.steps_taken += result.steps
        self._obs |= result.obs
        self._unfinished |= result.unfinished
        for index in result.began:
            self._policy.begin(index)
        for index, reason in result.failures.items():
            self._obs.pop(index, None)
            self._unfinished.pop(index, None)
            self.dropped += 1
            key = result.out_of_bounds.get(index)  # reported once per array, since it repeats
            if key is None or key not in self._reported:
                self._on_message(f"environment {index}: episode dropped: {reason}")
            if key is not None:
                self._reported.add(key)
        self._failures_in_a_row += result.incidents
        if result.failures and self._failures_in_a_row >= MAX_FAILURES:
            if key == "action":
                raise EnvironmentFailedError(
                    f"The policy chose actions out of bounds in {self._failures_in_a_row} episodes "
                    f"in a row; the last time: {reason}",
                    "Let the policy return actions within env.action_space.",
                )
            raise EnvironmentFailedError(
                f"The environment failed {self._failures_in_a_row} times without finishing an "
                f"episode; the last time: {reason}",
                "Fix the environment. With workers=0 it runs in this process, for debugging.",
            )


def default_workers(task: ResolvedTask) -> int:
    """One process per core; 0 for wmtk's environments, whose steps are faster than messages."""
    return 0 if task.env_id.startswith("wmtk/") else os.cpu_count() or 1
