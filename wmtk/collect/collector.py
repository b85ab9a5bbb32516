"""The collecting stage: a task and a policy in, whole episodes in a dataset out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.collect.policy import Observation, Policy
from wmtk.collect.slot import SlotPlan
from wmtk.collect.workers import LocalWorker, ProcessWorker, Round, Worker
from wmtk.collect.writer import BackgroundWriter
from wmtk.datasets import Dataset, Provenance
from wmtk.envs import ResolvedTask
from wmtk.errors import EnvironmentFailedError, UsageError
from wmtk.version import code_version

ROUND_SECONDS = 0.3  # how long a policy that looks at nothing is left to play at a time
LONGEST_ROUND = 512  # steps
FAILURES_IN_A_ROW = 5
RECENT = 100  # episodes whose mean return is shown


@dataclass(frozen=True)
class CollectReport:
    """What was collected."""

    path: Path
    version: int
    seed: int
    episodes: int
    steps: int
    frames: int  # steps × action repeat
    mean_return: float
    std_return: float
    dropped: int  # episodes that a failing environment spoiled
    seconds: float
    interrupted: bool

    @property
    def steps_per_second(self) -> float:
        return self.steps / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class CollectProgress:
    """How far a collection is, handed to `on_progress` after every round."""

    episodes: int
    steps: int  # of whole episodes
    played: int  # steps taken, those of unfinished episodes too
    mean_return: float  # of the last hundred episodes


def collect(
    task: ResolvedTask,
    dataset: Dataset,
    policy: Policy,
    *,
    seed: int,
    steps: int | None = None,
    episodes: int | None = None,
    envs: int = 1,
    workers: int | None = None,
    timeout: float = 60.0,
    on_progress: Callable[[CollectProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> CollectReport:
    """Play `steps` steps (in whole episodes, so a few more) or `episodes` episodes.

    Each of `envs` environments plays an equal share to the end of its last episode: nothing is
    cut off, so that long episodes are not rarer than they should be. The environments are spread
    over `workers` processes; 0 keeps them in this one. The same seed gives the same episodes in
    the same order, however many workers there are. Ctrl-C commits what is whole and returns.
    """
    if (steps is None) == (episodes is None) or min(steps or 1, episodes or 1, envs) < 1:
        raise UsageError("Say how many steps or how many episodes to collect, 1 or more of either.")
    envs = min(envs, episodes or envs)
    plans = _plans(task, dataset, policy, seed, steps, episodes, envs)
    count = min(default_workers(task) if workers is None else workers, envs)
    team: list[Worker] = []
    collection = _Collection(BackgroundWriter(dataset), policy, on_progress, on_message)
    try:
        if count == 0:
            team.append(LocalWorker(plans, policy.needs_obs))
        for number in range(count):
            team.append(ProcessWorker(plans[number::count], policy.needs_obs, timeout))
        interrupted = collection.run(team)
    finally:
        for worker in team:
            worker.close()
    returns = collection.returns
    return CollectReport(
        path=dataset.path,
        version=dataset.version,
        seed=seed,
        episodes=len(returns),
        steps=collection.steps,
        frames=collection.steps * task.action_repeat,
        mean_return=float(np.mean(returns)) if returns else float("nan"),
        std_return=float(np.std(returns)) if returns else float("nan"),
        dropped=collection.dropped,
        seconds=collection.seconds,
        interrupted=interrupted,
    )


def default_workers(task: ResolvedTask) -> int:
    """As many as there are cores; the embedded environments are quicker than any message."""
    return 0 if task.env_id.startswith("wmtk/") else os.cpu_count() or 1


def _plans(
    task: ResolvedTask,
    dataset: Dataset,
    policy: Policy,
    seed: int,
    steps: int | None,
    episodes: int | None,
    envs: int,
) -> list[SlotPlan]:
    """An equal share of the work for each environment."""
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
            task=task,
            schema=dataset.schema,
            provenance=provenance,
            # Going on with the same seed must not play the same episodes again.
            seed=(seed, dataset.next_episode),
            steps=None if steps is None else -(-steps // envs),
            episodes=None if episodes is None else (episodes + envs - 1 - number) // envs,
        )
        for number in range(envs)
    ]


class _Collection:
    """Rounds of actions for all environments, and what came of them."""

    def __init__(
        self,
        writer: BackgroundWriter,
        policy: Policy,
        on_progress: Callable[[CollectProgress], None],
        on_message: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._policy = policy
        self._on_progress = on_progress
        self._on_message = on_message
        self._obs: dict[int, Observation] = {}
        self._failures_in_a_row = 0
        self._began = time.monotonic()
        self.returns: list[float] = []
        self.steps = self.played = self.dropped = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def run(self, team: Sequence[Worker]) -> bool:
        """Play until every slot is done; returns whether Ctrl-C ended it before."""
        todo = {slot for worker in team for slot in worker.slots}
        length = 0  # the first round only resets
        try:
            while todo:
                began = time.monotonic()
                todo -= self._round(team, sorted(todo), length)
                pace = (time.monotonic() - began) / max(length, 1)
                longest = 1 if self._policy.needs_obs else LONGEST_ROUND
                length = max(1, min(longest, 2 * length, int(ROUND_SECONDS / max(pace, 1e-6))))
        except KeyboardInterrupt:
            return True
        finally:
            self._writer.close()
        return False

    def _actions(self, slots: Sequence[int], length: int) -> dict[int, list[NDArray[Any]]]:
        """The actions of a round; slots whose observation is unknown only begin an episode."""
        policy = self._policy
        if not policy.needs_obs:
            return {slot: [policy.act([slot], [])[0] for _ in range(length)] for slot in slots}
        ready = [slot for slot in slots if slot in self._obs and length]
        chosen = policy.act(ready, [self._obs[slot] for slot in ready]) if ready else []
        actions: dict[int, list[NDArray[Any]]] = {slot: [] for slot in slots}
        return actions | {slot: [a] for slot, a in zip(ready, chosen, strict=True)}

    def _round(self, team: Sequence[Worker], slots: Sequence[int], length: int) -> set[int]:
        """One round for all; returns the slots that are done."""
        actions = self._actions(slots, length)
        busy = [worker for worker in team if any(slot in actions for slot in worker.slots)]
        for worker in busy:
            worker.send({slot: actions[slot] for slot in worker.slots if slot in actions})
        results = [worker.receive() for worker in busy]
        done: set[int] = set()
        for result in results:
            self._take(result)
            done |= result.done
        # In the order in which they ended, whichever process they come from.
        ended = sorted((e for r in results for e in r.episodes), key=lambda e: (e[0], e[1]))
        for _, _, episode in ended:
            self._writer.add(episode)
            self.returns.append(episode.total_reward)
            self.steps += episode.length
            self._failures_in_a_row = 0
        self._writer.flush_if_due()
        recent = float(np.mean(self.returns[-RECENT:])) if self.returns else float("nan")
        self._on_progress(CollectProgress(len(self.returns), self.steps, self.played, recent))
        return done

    def _take(self, result: Round) -> None:
        self.played += result.steps
        self._obs |= result.obs
        for slot in result.began:
            self._policy.begin(slot)
        for slot, reason in result.failures.items():
            self._obs.pop(slot, None)
            self.dropped += 1
            self._on_message(f"environment {slot}: episode dropped: {reason}")
        self._failures_in_a_row += result.incidents
        if result.failures and self._failures_in_a_row >= FAILURES_IN_A_ROW:
            raise EnvironmentFailedError(
                f"The environment failed {self._failures_in_a_row} times without finishing an "
                f"episode; the last time: {reason}",
                "What was whole before is in the dataset. Mend the environment; "
                "`--workers 0` runs it in this process, where a debugger can follow it.",
            )
