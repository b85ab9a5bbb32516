"""The real environment, stepped on demand, and the recorder of its episodes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.collecting.env_setup import EpisodePlan
from wmtk.collecting.episode_recorder import EpisodeRecorder
from wmtk.datasets import Batch, Episode, Provenance, Schema
from wmtk.envs import ResolvedTask
from wmtk.version import code_version
from wmtk.viz.live.catalog import RecordingTarget

MOST_UNSAVED = 8  # episodes that wait for disk space
CONTEXT = 32  # rows that a model observes before imagination starts

Observation = Mapping[str, NDArray[Any]]


class RealEnv:
    """An environment and its current episode."""

    def __init__(
        self,
        task: ResolvedTask,
        schema: Schema,
        seed: Sequence[int],
        names: Mapping[str, str],
    ) -> None:
        self.task, self.schema = task, schema
        self._names = names  # the policy name in provenance, by actor
        self._recorder = EpisodeRecorder(
            EpisodePlan(
                env_index=0,
                task=task,
                schema=schema,
                provenance=Provenance(
                    env_id=task.env_id,
                    env_kwargs=task.kwargs,
                    env_versions=task.versions,
                    code_version=code_version(),
                ),
                seed=tuple(seed),
                steps=None,
                episodes=1,
            )
        )
        self._rows: deque[tuple[Observation, NDArray[Any], float]] = deque(maxlen=CONTEXT)
        self._actors: set[str] = set()
        self.steps = 0
        self.total = 0.0
        self.ended = ""  # "terminated" or "truncated" after the end

    def begin(self) -> Observation:
        """The first observation of the next episode."""
        self._recorder.episodes_left = 1
        obs = self._recorder.reset()
        self._rows.clear()
        self._actors.clear()
        self._rows.append((obs, self.schema.action.zeros(1)[0], 0.0))
        self.steps, self.total, self.ended = 0, 0.0, ""
        return obs

    def step(self, action: NDArray[Any], by: str) -> tuple[Observation, float, Episode | None]:
        """The observation and reward of an action, and the episode if it ends."""
        assert not self.ended, "begin() comes first"
        obs, episode = self._recorder.step(np.asarray(action, self.schema.action.dtype))
        reward = self._recorder.reward
        self._rows.append((obs, action, reward))
        self._actors.add(self._names.get(by, by))
        self.steps += 1
        self.total += reward
        if episode is None:
            return obs, reward, None
        self.ended = "terminated" if episode.terminated else "truncated"
        provenance = replace(episode.provenance, policy="+".join(sorted(self._actors)))
        return obs, reward, replace(episode, provenance=provenance)

    def recent(self) -> Batch:
        """The latest rows as a window of batch size one."""
        obs, actions, rewards = zip(*self._rows, strict=True)
        rows = {key: np.stack([one[key] for one in obs]) for key in self.schema.obs}
        return window(rows, np.stack(actions), np.array(rewards), self.steps - len(obs) + 1)

    def close(self) -> None:
        self._recorder.close()


def window(obs: Observation, action: NDArray[Any], reward: NDArray[Any], start: int) -> Batch:
    """Rows (T, …) of an episode from row `start` on, as a batch of one."""
    T = len(reward)
    nothing = np.zeros((1, T), bool)
    return Batch(
        obs={key: rows[None] for key, rows in obs.items()},
        action=action[None],
        reward=reward[None].astype(np.float32),
        terminated=nothing,
        truncated=nothing,
        is_first=(start + np.arange(T) == 0)[None],
        mask=~nothing,
        info={},
        source=np.zeros(1, np.int64),
        episode=np.zeros(1, np.int64),
        start=np.array([start]),
        step=0,
        versions=(),
    )


class Recorder:
    """Appends episodes to the dataset; those that could not be written are retried."""

    def __init__(self, target: RecordingTarget) -> None:
        self.target = target
        self.saved = 0
        self.steps = 0
        self._waiting: list[Episode] = []
        self._lock = threading.Lock()  # two pages may record at once

    @property
    def name(self) -> str:
        return self.target.dataset.path.name

    def save(self, episode: Episode) -> int:
        """Commit an episode and those that could not be written before; returns their number."""
        with self._lock:
            self._waiting = [*self._waiting, episode][-MOST_UNSAVED:]
            self.target.dataset.append(self._waiting)
            done, self._waiting = self._waiting, []
            self.saved += len(done)
            self.steps += sum(saved.length for saved in done)
            return len(done)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "task": self.target.task.task,
            "saved": self.saved,
            "steps": self.steps,
            "waiting": len(self._waiting),
        }
