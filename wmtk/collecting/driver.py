"""Rounds of play: a policy acts in all environments until each has fulfilled its plan."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wmtk.collecting.env_slot import SlotPlan
from wmtk.collecting.policies import Observation, Policy
from wmtk.collecting.workers import LocalWorker, ProcessWorker, Round, Worker
from wmtk.datasets import Episode, Provenance, Schema
from wmtk.envs import ResolvedTask
from wmtk.envs.task import LONGEST_EPISODE
from wmtk.errors import EnvironmentFailedError, UsageError
from wmtk.version import code_version

ROUND_SECONDS = 0.3  # how long a policy that looks at nothing is left to play at a time
LONGEST_ROUND = 512  # steps
FAILURES_IN_A_ROW = 5
RECENT = 100  # episodes whose mean return is shown


@dataclass(frozen=True)
class PlayProgress:
    """How far playing is, handed to `on_progress` after every round."""

    episodes: int
    steps: int  # of whole episodes
    played: int  # steps taken, those of unfinished episodes too
    mean_return: float  # of the last hundred episodes


def make_plans(
    task: ResolvedTask,
    schema: Schema,
    policy: Policy,
    *,
    seed: tuple[int, ...],
    steps: int | None = None,
    episodes: int | None = None,
    envs: int = 1,
    stored: bool = True,
    longest: int | None = None,
) -> list[SlotPlan]:
    """An equal share of the work for each of `envs` environments, or of fewer, if that is enough.

    Taking the first episodes to end would favor short ones; equal shares do not. A task
    without a time limit may never end: its episodes are cut (see `most_steps`), after `longest`
    steps or, by default, LONGEST_EPISODE.
    """
    if min(seed) < 0:
        raise UsageError(f"The seed {min(seed)} makes no sense.", "Use 0 or more.")
    envs = min(envs, episodes or envs)
    provenance = Provenance(
        env_id=task.env_id,
        env_kwargs=task.kwargs,
        env_versions=task.versions,
        policy=policy.name,
        checkpoint=policy.checkpoint,
        code_version=code_version(),
    )
    return [
        SlotPlan(
            number=number,
            stored=stored,
            task=task,
            schema=schema,
            provenance=provenance,
            seed=seed,
            steps=None if steps is None else -(-steps // envs),
            episodes=None if episodes is None else (episodes + envs - 1 - number) // envs,
            longest=(longest or LONGEST_EPISODE) if task.time_limit is None else None,
        )
        for number in range(envs)
    ]


def most_steps(task: ResolvedTask, steps: int, envs: int) -> int:
    """How many steps are played at most to record `steps` steps in `envs` environments.

    With a time limit the episodes that run in the end are finished. Without one they are cut and
    recorded as truncated.
    """
    return envs * (-(-steps // envs) + (task.time_limit or 1) - 1)


class Sink(Protocol):
    """Where the episodes go."""

    def add(self, slot: int, episode: Episode) -> None:
        """An episode has ended; the policy has not yet heard that the slot's next one begins."""

    def flush_if_due(self) -> None:
        """A round is over."""

    def close(self) -> None:
        """No more will come."""


class EpisodeDriver:
    """Rounds of actions for all environments, and what came of them."""

    def __init__(
        self,
        policy: Policy,
        sink: Sink,
        on_progress: Callable[[PlayProgress], None] = lambda _: None,
        on_message: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._policy = policy
        self._sink = sink
        self._on_progress = on_progress
        self._on_message = on_message
        self._obs: dict[int, Observation] = {}
        self._under_way: dict[int, int] = {}  # by slot, steps
        self._failures_in_a_row = 0
        self._told: set[str] = set()  # arrays beyond their bounds
        self._began = time.monotonic()
        self.returns: list[float] = []
        self.steps = self.played = self.dropped = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def under_way(self) -> int:
        """Steps of the episodes that have not ended yet."""
        return sum(self._under_way.values())

    def run(self, plans: Sequence[SlotPlan], workers: int | None, timeout: float) -> bool:
        """Fulfil all plans; returns whether Ctrl-C ended it before.

        The environments are spread over `workers` processes; 0 keeps them in this one. A process
        that makes no step for `timeout` seconds is replaced.
        """
        try:
            with closing(self.rounds(plans, workers, timeout)) as rounds:
                for _ in rounds:
                    pass
        except KeyboardInterrupt:
            return True
        return False

    def rounds(
        self,
        plans: Sequence[SlotPlan],
        workers: int | None,
        timeout: float,
        longest: int = LONGEST_ROUND,
    ) -> Generator[None]:
        """The same round by round, for those who do something else in between.

        A round is one step in each environment or, if the policy need not see what comes of it,
        up to `longest`. Whoever closes the generator gives up the episodes that are under way.
        """
        count = default_workers(plans[0].task) if workers is None else workers
        count = min(count, len(plans))
        needs_obs = self._policy.needs_obs
        team: list[Worker] = []
        try:
            if count == 0:
                team.append(LocalWorker(plans, needs_obs))
            for number in range(count):
                team.append(ProcessWorker(plans[number::count], needs_obs, timeout))
            yield from self._rounds(team, 1 if needs_obs else longest)
        finally:
            try:
                self._sink.close()
            finally:
                for worker in team:
                    worker.close()

    def _rounds(self, team: Sequence[Worker], longest: int) -> Iterator[None]:
        todo = {slot for worker in team for slot in worker.slots}
        # Who needs no observations can say what to do next while that before is still played.
        ahead = longest > 1 and not any(isinstance(worker, LocalWorker) for worker in team)
        length = following = 0  # steps; the first round only resets
        busy = self._send(team, todo, length)
        ended = time.monotonic()
        while todo:
            following = max(1, min(longest, 2 * length or 1, following or 1))
            next_busy = self._send(team, todo, following) if ahead else []
            todo -= self._receive(busy)
            began, ended = ended, time.monotonic()
            pace = (ended - began) / max(length, 1)
            yield
            busy = next_busy or self._send(team, todo, following)
            length, following = following, int(ROUND_SECONDS / max(pace, 1e-6))

    def _actions(self, slots: Sequence[int], length: int) -> dict[int, list[NDArray[Any]]]:
        """The actions of a round; slots whose observation is unknown only begin an episode."""
        policy = self._policy
        if not policy.needs_obs:
            return {slot: [policy.act([slot], [])[0] for _ in range(length)] for slot in slots}
        ready = [slot for slot in slots if slot in self._obs and length]
        chosen = policy.act(ready, [self._obs[slot] for slot in ready]) if ready else []
        actions: dict[int, list[NDArray[Any]]] = {slot: [] for slot in slots}
        return actions | {slot: [a] for slot, a in zip(ready, chosen, strict=True)}

    def _send(self, team: Sequence[Worker], todo: set[int], length: int) -> list[Worker]:
        """Let a round be played; returns who plays it."""
        actions = self._actions(sorted(todo), length)
        busy = [worker for worker in team if any(slot in actions for slot in worker.slots)]
        for worker in busy:
            worker.send({slot: actions[slot] for slot in worker.slots if slot in actions})
        return busy

    def _receive(self, busy: Sequence[Worker]) -> set[int]:
        """What came of the oldest round that was sent; returns the slots that are done."""
        results = [worker.receive() for worker in busy]
        # In the order in which they ended, whichever process they come from.
        ended = sorted((e for r in results for e in r.episodes), key=lambda e: (e[0], e[1]))
        for _, slot, episode in ended:
            self._sink.add(slot, episode)
            self.returns.append(episode.total_reward)
            self.steps += episode.length
        done: set[int] = set()
        for result in results:
            self._take(result)
            done |= result.done
        if ended:
            self._failures_in_a_row = 0
        self._sink.flush_if_due()
        recent = float(np.mean(self.returns[-RECENT:])) if self.returns else float("nan")
        self._on_progress(PlayProgress(len(self.returns), self.steps, self.played, recent))
        return done

    def _take(self, result: Round) -> None:
        self.played += result.steps
        self._obs |= result.obs
        self._under_way |= result.under_way
        for slot in result.began:
            self._policy.begin(slot)
        for slot, reason in result.failures.items():
            self._obs.pop(slot, None)
            self._under_way.pop(slot, None)
            self.dropped += 1
            key = result.beyond.get(slot)  # an environment that breaks its space does it often
            if key is None or key not in self._told:
                self._on_message(f"environment {slot}: episode dropped: {reason}")
            if key is not None:
                self._told.add(key)
        self._failures_in_a_row += result.incidents
        if result.failures and self._failures_in_a_row >= FAILURES_IN_A_ROW:
            if key == "action":
                raise EnvironmentFailedError(
                    f"The policy chose actions out of bounds in {self._failures_in_a_row} episodes "
                    f"in a row; the last time: {reason}",
                    "Let the policy return actions within env.action_space.",
                )
            raise EnvironmentFailedError(
                f"The environment failed {self._failures_in_a_row} times without finishing an "
                f"episode; the last time: {reason}",
                "Fix the environment; `--workers 0` runs it in this process, where a debugger can "
                "follow it.",
            )


def default_workers(task: ResolvedTask) -> int:
    """As many as there are cores; the embedded environments are quicker than any message."""
    return 0 if task.env_id.startswith("wmtk/") else os.cpu_count() or 1
