"""Run one environment and record its episodes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from wmtk.collecting.env_setup import EpisodePlan
from wmtk.datasets import Episode
from wmtk.datasets.storage.packed_rows import RowBuffer
from wmtk.errors import FOREIGN, EpisodeError
from wmtk.spaces import ArraySpec, flatten_value


class EpisodeRecorder:
    """Runs an environment until its plan is complete, and records each episode.

    Only the first reset passes a seed: it determines all episodes of the environment, and some
    environments (ALE) load a ROM for each seed.
    """

    def __init__(self, plan: EpisodePlan) -> None:
        self.plan = plan
        self.steps_left = plan.steps
        self.episodes_left = plan.episodes
        self.started = False
        self._env: gym.Env[Any, Any] | None = None

    @property
    def done(self) -> bool:
        """Whether the plan is complete."""
        return (self.steps_left is not None and self.steps_left <= 0) or (
            self.episodes_left is not None and self.episodes_left <= 0
        )

    @property
    def episode_steps(self) -> int:
        """Steps of the current episode."""
        return len(self._actions)

    @property
    def reward(self) -> float:
        """The reward of the last step."""
        return self._rewards[-1] if self._rewards else 0.0

    @property
    def _reached_limit(self) -> bool:
        """Whether the plan truncates the episode after the last step."""
        limits = (self.plan.max_episode_steps, self.steps_left)
        return limits[0] is not None and any(
            limit is not None and self.episode_steps >= limit for limit in limits
        )

    def reset(self) -> Mapping[str, NDArray[Any]]:
        """Start an episode and return its first observation; builds the environment if needed."""
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
        self.started = True
        return self._record(obs, info)

    def step(self, action: NDArray[Any]) -> tuple[Mapping[str, NDArray[Any]], Episode | None]:
        """Take one step; returns the next observation for the policy, and the episode if it ended.

        After the end of an episode the next one is started, unless the plan is complete.
        """
        assert self._env is not None, "reset() comes first"
        discrete = self.plan.schema.action.kind == "discrete"
        result = self._env.step(int(action) if discrete else action)
        obs, reward, terminated, truncated, info = result
        self._actions.append(action)
        self._rewards.append(float(reward))
        if not np.isfinite(self._rewards[-1]):
            raise EpisodeError(f"The reward at step {len(self._actions)} is {reward}.")
        leaves = self._record(obs, info)
        truncated = truncated or (not terminated and self._reached_limit)
        if not (terminated or truncated):
            return leaves, None
        episode = self._episode(terminated=bool(terminated), truncated=bool(truncated))
        if self.steps_left is not None:
            self.steps_left -= episode.length
        if self.episodes_left is not None:
            self.episodes_left -= 1
        return (leaves if self.done else self.reset()), episode

    def _record(self, obs: Any, info: Mapping[str, Any]) -> Mapping[str, NDArray[Any]]:
        """Record one row; raises for values that do not match the spaces of the environment."""
        schema, step = self.plan.schema, len(self._actions)
        assert schema.structure is not None
        try:
            leaves = flatten_value(schema.structure, obs)
        except (KeyError, TypeError, ValueError) as error:
            raise EpisodeError(f"The observation at step {step} lacks {error}.") from error
        rows = {
            key: _checked(f"obs/{key}", leaves[key], spec, step) for key, spec in schema.obs.items()
        }
        for key, row in rows.items():
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
        return rows

    def _episode(self, *, terminated: bool, truncated: bool) -> Episode:
        """The recorded episode; long arrays remain compressed."""
        schema, rows = self.plan.schema, self.episode_steps + 1
        action, reward = (spec.zeros(rows) for spec in (schema.action, schema.reward))
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
        """Close the environment and ignore its errors."""
        if self._env is not None:
            with contextlib.suppress(*FOREIGN):
                self._env.close()
            self._env = None


def _checked(path: str, value: Any, spec: ArraySpec, step: int) -> NDArray[Any]:
    """Copy a value, since environments may reuse buffers; raises for other shapes and dtypes."""
    array = np.array(value)
    if array.shape == spec.shape:
        if array.dtype == spec.dtype:
            return array
        if array.dtype.name == spec.dtype:  # another byte order; astype is slow
            return array.astype(spec.dtype)
    if not array.shape and not spec.shape:  # a Python number has no dtype
        return np.asarray(value, spec.dtype)
    raise EpisodeError(
        f"{path} at step {step} has shape {array.shape} and dtype {array.dtype.name}, but the "
        f"environment's space declares {spec.shape} and {spec.dtype}."
    )
