"""Long episodes take little memory: their rows are compressed while they are played."""

from __future__ import annotations

import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from wmtk.collecting import collect_episodes, dataset_for, evaluate_policy, load_policy
from wmtk.datasets import Dataset, Episode, Schema
from wmtk.datasets.integrity.validate import validate
from wmtk.datasets.storage import packed_rows
from wmtk.datasets.storage.packed_rows import PackedRows, RowBuffer
from wmtk.envs import resolve
from wmtk.errors import EpisodeError
from wmtk.spaces import ArraySpec

SIDE, STEPS = 64, 20_000  # 246 MB of pictures

CODE = f"""
import sys
import gymnasium as gym
import numpy as np
from wmtk.collecting import collect_episodes, dataset_for, load_policy
from wmtk.envs import resolve


class Film(gym.Env):
    observation_space = gym.spaces.Box(0, 255, ({SIDE}, {SIDE}, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.picture(), {{}}

    def picture(self):
        picture = np.zeros(({SIDE}, {SIDE}, 3), np.uint8)
        picture[self.t % 60 : self.t % 60 + 4, self.t // 60 % 60] = self.t % 251
        return picture

    def step(self, action):
        self.t += 1
        return self.picture(), 0.0, False, False, {{}}


def play(path, steps):
    task = resolve("Film-v0", time_limit=steps)
    with dataset_for(task, path) as dataset:
        policy = load_policy("random", dataset.schema.action, [0])
        collect_episodes(task, dataset, policy, seed=0, episodes=1, workers=0)


def peak():  # kB; that of this process alone
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


gym.register("Film-v0", entry_point=Film)
play(sys.argv[1] + "/warm", 2000)
before = peak()
play(sys.argv[1] + "/long", {STEPS})
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_long_episode_takes_a_fraction_of_its_pictures(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    raw = STEPS * SIDE * SIDE * 3
    grown = int(done.stdout) * 1024
    assert grown < raw / 5, f"{grown / 1e6:.0f} MB of {raw / 1e6:.0f} MB"
    dataset = Dataset.open(tmp_path / "long")
    assert dataset.episodes.length.tolist() == [STEPS]
    picture = dataset[0].obs["image"][STEPS - 1]
    assert picture.max() == (STEPS - 1) % 251


class Vectors(gym.Env):
    observation_space = gym.spaces.Dict(
        {"a": gym.spaces.Box(-1, 1, (3,), np.float32), "b": gym.spaces.Discrete(1000)}
    )
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._obs(), {"t": np.float32(0)}

    def _obs(self):
        return {
            "a": self.np_random.uniform(-1, 1, 3).astype(np.float32),
            "b": np.int64(self.np_random.integers(1000)),
        }

    def step(self, action):
        return self._obs(), 1.0, False, False, {"t": np.float32(1)}


gym.register("Vectors-v0", entry_point=Vectors, max_episode_steps=157)


def test_an_episode_is_the_same_however_it_is_held(tmp_path, monkeypatch) -> None:
    """In blocks of a few rows, and joined with others in a part."""
    ids = []
    for size in (packed_rows.BLOCK_BYTES, 2048):
        monkeypatch.setattr(packed_rows, "BLOCK_BYTES", size)
        task = resolve("Vectors-v0")
        with dataset_for(task, tmp_path / str(size), store_info=["t"]) as dataset:
            policy = load_policy("random", dataset.schema.action, [0])
            collect_episodes(task, dataset, policy, seed=0, episodes=5, workers=0)
        assert not validate(tmp_path / str(size)).problems
        ids.append([episode.id for episode in Dataset.open(tmp_path / str(size))])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 5
    report = evaluate_policy(task, policy, episodes=1, seed=0, workers=0, record=True)
    assert report.lengths == (157,)


@pytest.mark.parametrize(("value", "told"), [(np.nan, "not a finite number"), (3, "beyond its")])
def test_wrong_rows_are_found_in_any_block(monkeypatch, value, told) -> None:
    monkeypatch.setattr(packed_rows, "BLOCK_BYTES", 1000)
    spec = ArraySpec("box", (2,), "float32", -1, 1)
    buffer = RowBuffer(spec)
    for number in range(50):
        buffer.append(np.full(2, value if number == 41 else 0, np.float32))
    zeros = np.zeros(50)
    schema = Schema({"a": spec}, ArraySpec("discrete", (), "int64", 0, 1))
    episode = Episode({"a": buffer.rows()}, zeros.astype(np.int64), zeros, True, False)
    with pytest.raises(EpisodeError, match=f"obs/a .*{told}") as caught:
        episode.check(schema)
    assert "step 41" in str(caught.value)
    with pytest.raises(EpisodeError, match="49 rows"):
        Episode({"a": buffer.rows()}, zeros[1:].astype(np.int64), zeros[1:], True, False).check(
            schema
        )


def test_packed_rows_read_like_an_array(monkeypatch) -> None:
    monkeypatch.setattr(packed_rows, "BLOCK_BYTES", 1000)
    spec = ArraySpec("box", (2, 3), "float32")
    plain = np.random.default_rng(0).normal(size=(57, 2, 3)).astype(np.float32)
    buffer = RowBuffer(spec)
    for row in plain:
        buffer.append(row)
    rows = pickle.loads(pickle.dumps(buffer.rows()))
    assert isinstance(rows, PackedRows)
    assert len(list(rows.blocks())) > 5
    assert (rows.shape, rows.dtype, rows.ndim, len(rows)) == ((57, 2, 3), np.float32, 3, 57)
    np.testing.assert_array_equal(np.asarray(rows), plain)
    np.testing.assert_array_equal(np.concatenate([rows, rows]), np.concatenate([plain, plain]))
    for key in (0, 56, -1, -57, np.int64(9), slice(3, 40), slice(None, None, 7)):
        np.testing.assert_array_equal(rows[key], plain[key])
    for key in (57, -58):
        with pytest.raises(IndexError):
            rows[key]
    short = RowBuffer(spec)
    short.append(plain[0])
    assert isinstance(short.rows(), np.ndarray)
