"""One environment and the episode that is being recorded in it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Episode, Provenance, Schema
from wmtk.datasets.storage.packed_rows import RowBuffer
from wmtk.envs import ResolvedTask
from wmtk.errors import FOREIGN, EpisodeError
from wmtk.spaces import ArraySpec, flatten_value


@dataclass(frozen=True)
class SlotPlan:
    """What a slot has to do: picklable, so that a worker process can do it."""

    number: int
    task: ResolvedTask
    schema: Schema
    provenance: Provenance
    seed: tuple[int, ...]
    steps: int | None  # go on until this many steps are recorded, in whole episodes
    episodes: int | None  # or this many episodes
    # Steps after which an episode is cut, as it also is once `steps` are recorded: for tasks
    # without a time limit, whose episodes may never end.
    longest: int | None = None
    stored: bool = True  # whether the episodes go into a dataset, whose bounds they must keep
    attempt: int = 0  # how often the environment was made anew: each has another seed

    @property
    def env_seed(self) -> int:
        sequence = np.random.SeedSequence([*self.seed, self.number, self.attempt])
        return int(sequence.generate_state(1)[0] >> 1)  # gymnasium and ALE want 31 bits


class EnvSlot:
    """Plays until its plan is fulfilled. Only the first episode is seeded, the rest go on from it.

    An environment's seed decides all its episodes, and some (ALE) load a ROM to be seeded.
    """

    def __init__(self, plan: SlotPlan) -> None:
        self.plan = plan
        self.steps_left = plan.steps
        self.episodes_left = plan.episodes
        self._env: gym.Env[Any, Any] | None = None
        self.begun = False

    @property
    def done(self) -> bool:
        return (self.steps_left is not None and self.steps_left <= 0) or (
            self.episodes_left is not None and self.episodes_left <= 0
        )

    @property
    def _must_cut(self) -> bool:
        """Whether the episode is to end here, though its environment goes on."""
        limits = (self.plan.longest, self.steps_left)
        return limits[0] is not None and any(
            limit is not None and self.under_way >= limit for limit in limits
        )

    @property
    def under_way(self) -> int:
        """Steps of the episode that is being recorded."""
        return len(self._actions)

    @property
    def reward(self) -> float:
        """That of the last step."""
        return self._rewards[-1] if self._rewards else 0.0

    def begin(self) -> Mapping[str, NDArray[Any]]:
        """Reset the environment, making it if need be; the first observation."""
        seed = None
        if self._env is None:
            self._env = self.plan.task.make()
            seed = self.plan.env_seed
        obs, info = self._env.reset(seed=seed)
        schema = self.plan.schema
        self._obs = {key: RowBuffer(spec) for key, spec in schema.obs.items()}
        self._infos = {key: RowBuffer(spec) for key, spec in schema.info.items()}
        self._actions: list[Any] = []
        self._rewards: list[float] = []
        self.begun = True
        return self._record(obs, info)

    def _record(self, obs: Any, info: Mapping[str, Any]) -> Mapping[str, NDArray[Any]]:
        """Keep one row, refusing what is not as the environment's space declares it."""
        schema, step = self.plan.schema, len(self._actions)
        assert schema.structure is not None
        try:
            leaves = flatten_value(schema.structure, obs)
        except (KeyError, TypeError, ValueError) as error:
            raise EpisodeError(f"The observation at step {step} lacks {error}.") from error
        kept = {
            key: _checked(f"obs/{key}", leaves[key], spec, step) for key, spec in schema.obs.items()
        }
        for key, row in kept.items():
            self._obs[key].append(row)
        if schema.info:
            if missing := [key for key in schema.info if key not in info]:
                raise EpisodeError(f"The info at step {step} lacks {missing}.")
            for key, spec in schema.info.items():
                row = np.array(info[key], spec.dtype)
                if row.shape != spec.shape:
                    raise EpisodeError(
                        f"info/{key} at step {step} has shape {row.shape}, not {spec.shape}."
                    )
                self._infos[key].append(row)
        return kept

    def step(self, action: NDArray[Any]) -> tuple[Mapping[str, NDArray[Any]], Episode | None]:
        """One step: the observation to act on next, and the episode if it has ended by this."""
        assert self._env is not None, "begin() comes first"
        discrete = self.plan.schema.action.kind == "discrete"
        result = self._env.step(int(action) if discrete else action)
        obs, reward, terminated, truncated, info = result
        self._actions.append(action)
        self._rewards.append(float(reward))
        if not np.isfinite(self._rewards[-1]):
            raise EpisodeError(f"The reward at step {len(self._actions)} is {reward}.")
        seen = self._record(obs, info)
        truncated = truncated or (not terminated and self._must_cut)
        if not (terminated or truncated):
            return seen, None
        episode = self._episode(terminated=bool(terminated), truncated=bool(truncated))
        if self.steps_left is not None:
            self.steps_left -= episode.length
        if self.episodes_left is not None:
            self.episodes_left -= 1
        return (seen if self.done else self.begin()), episode

    def _episode(self, *, terminated: bool, truncated: bool) -> Episode:
        """What was recorded; rows that are many stay compressed."""
        schema = self.plan.schema
        action, reward = (spec.zeros(self.under_way + 1) for spec in (schema.action, schema.reward))
        action[1:] = np.asarray(self._actions).reshape(action[1:].shape)
        reward[1:] = self._rewards
        episode = Episode(
            obs={key: buffer.rows() for key, buffer in self._obs.items()},
            action=action,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info={key: buffer.rows() for key, buffer in self._infos.items()},
            seed=self.plan.env_seed,
            provenance=self.plan.provenance,
        )
        episode.check_form(schema)
        if self.plan.stored:
            episode.check_bounds(schema)
        return episode

    def close(self) -> None:
        """Close the environment; how it takes that does not matter any more."""
        if self._env is not None:
            with contextlib.suppress(*FOREIGN):
                self._env.close()
            self._env = None


def _checked(path: str, value: Any, spec: ArraySpec, step: int) -> NDArray[Any]:
    """A copy of an array that is as declared: environments may reuse their buffers."""
    array = np.array(value)
    if array.shape == spec.shape:
        if array.dtype == spec.dtype:
            return array
        if array.dtype.name == spec.dtype:  # slow: only where the byte order is a foreign one
            return array.astype(spec.dtype)
    if not array.shape and not spec.shape:  # plain numbers have no dtype of their own
        return np.asarray(value, spec.dtype)
    raise EpisodeError(
        f"{path} at step {step} has shape {array.shape} and dtype {array.dtype.name}, but the "
        f"environment's space declares {spec.shape} and {spec.dtype}."
    )
