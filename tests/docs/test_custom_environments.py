"""docs/custom-environments.md: its files and commands work as documented."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wmtk.datasets import Dataset

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reader(read: Callable[[str], Any]) -> Any:
    return read("custom-environments.md")


def test_the_page_has_all_that_it_should(reader: Any) -> None:
    files = {path.name for path in reader.folder.iterdir() if path.is_file()}
    assert {"my_envs.py", "my_policies.py", "odd_envs.py", "flaky_envs.py", "record.py"} <= files
    assert len(reader.ran) >= 20


def test_a_dict_observation_becomes_arrays_by_key(reader: Any) -> None:
    dataset = Dataset.open(reader.folder / "drone.zarr")
    assert {key: spec.shape for key, spec in dataset.schema.obs.items()} == {
        "camera": (64, 64, 3),
        "motion": (4,),
    }
    assert dataset.num_steps >= 500
    camera = dataset[0].obs["camera"]
    assert (camera.reshape(-1, 3).max(axis=0) == 255).all()  # the pad and the drone are visible
    windy = Dataset.open(reader.folder / "windy.zarr")
    assert windy.schema.obs["camera"].shape == (32, 32, 3)
    assert windy[0].provenance.env_kwargs["kwargs"] == {"wind": 0.05}


def test_several_discrete_actions_are_one_array(reader: Any) -> None:
    dataset = Dataset.open(reader.folder / "signals.zarr")
    assert dataset.schema.action.kind == "multi_discrete"
    assert set(dataset.schema.obs) == {"_index_0", "_index_1"}
    episode = dataset[0]
    assert episode.action.shape == (144, 2)
    assert np.unique(episode.action).tolist() == [0, 1, 2]
    assert (dataset.episodes.end == 2).all()  # by truncation


def test_keys_are_chosen(reader: Any) -> None:
    assert list(Dataset.open(reader.folder / "camera.zarr").schema.obs) == ["camera"]


def test_info_is_kept_where_it_was_asked_for(reader: Any) -> None:
    pad = Dataset.open(reader.folder / "factors.zarr")[0].info["pad"]
    assert (pad == pad[0]).all()
    assert not Dataset.open(reader.folder / "drone.zarr")[0].info


def test_the_experts_are_better_than_chance(reader: Any) -> None:
    for random, expert in (("drone", "expert"), ("signals", "longest")):
        returns = [
            Dataset.open(reader.folder / f"{name}.zarr").episodes.total_reward
            for name in (random, expert)
        ]
        assert returns[1].mean() > returns[0].max()
    policy = Dataset.open(reader.folder / "expert.zarr")[0].provenance.policy
    assert policy == "my_policies:expert ε=0.1"


def test_entry_points_give_names(reader: Any) -> None:
    provenance = Dataset.open(reader.folder / "named.zarr")[0].provenance
    assert provenance.env_id == "drone"
    assert provenance.env_versions["my-envs"] == "0.1"


def test_refusals_say_why_and_leave_nothing(reader: Any) -> None:
    refused = {name: done for name, done in reader.ran.items() if "odd_envs:" in name}
    assert len(refused) == 7
    for command, done in refused.items():
        assert done.returncode in (1, 2), command
        # Settings, no time limit, error, what to do; and one for each key.
        lines = 5 if "Errand" in command else 4
        assert len(done.stderr.splitlines()) == lines, done.stderr
    assert not (reader.folder / "x.zarr").exists()


def test_misbehaving_environments_cost_only_their_episodes(reader: Any) -> None:
    for name, episodes in (("flaky", 12), ("nan", 12), ("hang", 6)):
        dataset = Dataset.open(reader.folder / f"{name}.zarr")
        assert dataset.num_episodes == episodes
        assert (dataset.episodes.length == 10).all()
        assert all(np.isfinite(episode.obs["state"]).all() for episode in dataset)
    broken = next(done for command, done in reader.ran.items() if "broken.zarr" in command)
    assert broken.returncode == 1


def test_python_does_what_the_command_does(reader: Any) -> None:
    dataset = Dataset.open(reader.folder / "python.zarr")
    assert dataset.num_episodes == 6
    assert dataset[0].provenance.policy == "expert ε=0.1"
    assert set(dataset.schema.info) == {"pad"}
