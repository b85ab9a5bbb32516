"""What is played in: a dream, the real environment, or both in lock-step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import LatentState, Prediction
from wmtk.datasets import Batch, Episode, Schema
from wmtk.errors import UsageError
from wmtk.viz.live.branches import KEPT, Observation, Step
from wmtk.viz.live.catalog import DataEntry, Dreamer
from wmtk.viz.live.real_env import CONTEXT, RealWorld, window
from wmtk.viz.windows import Window, read_windows

Codes = Mapping[int, int]  # by variable, the class that a person chose


@dataclass(frozen=True)
class Recording:
    """The rows of an episode that a dream begins in, from some rows before its start."""

    batch: Batch
    start: int  # index of the row that the dream begins with

    @classmethod
    def read(cls, entry: DataEntry, episode: int, step: int) -> Recording:
        with entry.lock:
            table = entry.dataset.episodes
            if episode >= len(table) or step > int(table.length[episode]):
                raise UsageError(
                    f"{entry.name} has no step {step} in an episode {episode}.",
                    "Choose one from the page on data.",
                )
            first = max(0, step - CONTEXT + 1)
            rows = min(int(table.length[episode]) + 1 - first, CONTEXT + KEPT)
            batch = read_windows(entry.dataset, [Window(episode, first, rows)], rows)
        return cls(batch, step - first)

    @property
    def seen(self) -> Batch:
        """The rows up to the start."""
        end, first = self.start + 1, int(self.batch.start[0])
        obs = {key: rows[0, :end] for key, rows in self.batch.obs.items()}
        return window(obs, self.batch.action[0, :end], self.batch.reward[0, :end], first)

    def obs(self, step: int) -> Observation | None:
        """What was recorded `step` steps after the start."""
        row = self.start + step
        if row >= self.batch.reward.shape[1]:
            return None
        return {key: rows[0, row] for key, rows in self.batch.obs.items()}

    def action(self, step: int) -> NDArray[Any] | None:
        """The action that led there."""
        row = self.start + step
        return None if row >= self.batch.reward.shape[1] else np.asarray(self.batch.action[0, row])

    def reward(self, step: int) -> float:
        return float(self.batch.reward[0, self.start + step])


@dataclass
class Session:
    """A model, an environment, a recording: whatever of these there is."""

    schema: Schema  # of what is shown: what the model sees, if there is one
    seed: int
    dreamer: Dreamer | None = None
    real: RealWorld | None = None
    recording: Recording | None = None

    def begin(self, futures: int, temperature: float) -> tuple[Step, Prediction | None]:
        """The first moment."""
        truth, batch = None, None
        if self.real is not None:
            truth = self.real.begin()
            batch = self.real.recent()
        elif self.recording is not None:
            truth, batch = self.recording.obs(0), self.recording.seen
        if self.dreamer is None:
            return Step("start", None, truth=truth), None
        truth = None if truth is None else self.dreamer.preprocess(truth)
        if batch is not None:
            mind = self.dreamer.observe(batch, [self.seed])
        else:
            mind = self.dreamer.initial_state([self.seed], temperature)
        mind = spread(mind, futures)
        look = self.dreamer.predict(mind)
        seen = batch is not None
        return _moment("start", None, mind, None, look, truth=truth, synced=seen), look

    def actions(
        self, moment: Step, actor: str, held: NDArray[Any], step: int, dice: int, futures: int
    ) -> NDArray[Any] | None:
        """What is done next in each future, (S, …); None if the recording is over."""
        if actor == "policy" and self.dreamer is not None and moment.mind is not None:
            mind = spread(moment.mind, futures)
            return self.dreamer.act(mind, seed=[self.seed, dice, step, 1])
        action: NDArray[Any] | None = held
        if actor == "recorded":
            action = None if self.recording is None else self.recording.action(step)
        return None if action is None else np.repeat(action[None], futures, 0)

    def follow(
        self,
        moment: Step,
        actions: NDArray[Any],
        by: str,
        *,
        step: int,
        dice: int,
        temperature: float,
        forced: Codes,
    ) -> tuple[Step, Prediction | None, Episode | None]:
        """The moment after actions (S, …), and the real episode if this is its end."""
        truth, reward, episode = None, None, None
        if self.real is not None:
            truth, reward, episode = self.real.step(actions[0], by)
        elif self.recording is not None and by == "recorded" and moment.truth is not None:
            truth, reward = self.recording.obs(step), self.recording.reward(step)
        if self.dreamer is None or moment.mind is None:
            return Step(by, actions, truth=truth, true_reward=reward), None, episode
        truth = None if truth is None else self.dreamer.preprocess(truth)
        reward = None if reward is None else self.dreamer.transform_reward(reward)
        before = spread(self.forced(moment, forced), len(actions))
        free = self.dreamer.step(
            before, actions, seed=[self.seed, dice, step], temperature=temperature
        )
        mind = with_codes(free, forced)
        look = self.dreamer.predict(mind)
        kept = free if forced else None
        made = _moment(by, actions, mind, kept, look, truth=truth, true_reward=reward)
        return made, look, episode

    def synchronize(self, moment: Step) -> tuple[Step, Prediction]:
        """The same moment after the model has seen the last real rows."""
        assert self.dreamer is not None
        assert self.real is not None
        assert moment.mind is not None
        mind = self.dreamer.observe(self.real.recent(), [self.seed, self.real.steps])
        mind = spread(mind, len(moment.mind.deter))
        look = self.dreamer.predict(mind)
        made = _moment(
            moment.by,
            moment.action,
            mind,
            None,
            look,
            truth=moment.truth,
            true_reward=moment.true_reward,
            synced=True,
        )
        return made, look

    def forced(self, moment: Step, codes: Codes) -> LatentState:
        """A moment's state with the codes that are forced now, and none of those before."""
        assert moment.mind is not None
        return with_codes(moment.free or moment.mind, codes)

    def close(self) -> None:
        if self.real is not None:
            self.real.close()


def _moment(
    by: str,
    action: NDArray[Any] | None,
    mind: LatentState,
    free: LatentState | None,
    look: Prediction,
    **rest: Any,
) -> Step:
    return Step(
        by, action, mind, free, look.reward, look.discount, look.value, look.entropy, **rest
    )


def spread(mind: LatentState, futures: int) -> LatentState:
    """As many states as there are futures: further ones begin as the first one does."""
    if len(mind.deter) == futures:
        return mind
    which = [number if number < len(mind.deter) else 0 for number in range(futures)]
    return LatentState(mind.deter[which], mind.codes[which])


def with_codes(mind: LatentState, codes: Codes) -> LatentState:
    """The same states with some variables set to classes."""
    known = {v: k for v, k in codes.items() if v < mind.codes.shape[1]}
    if not known or mind.codes.dtype.kind == "f":
        return mind
    changed = mind.codes.copy()
    for variable, code in known.items():
        changed[:, variable] = code
    return replace(mind, codes=changed)
