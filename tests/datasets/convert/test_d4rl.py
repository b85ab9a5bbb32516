"""D4RL-style files: where episodes end, what the final observation is, what is passed through."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from wmtk.datasets import Dataset
from wmtk.datasets.convert import export_dataset, import_dataset
from wmtk.datasets.convert.alignment import DROPPED, FINAL_OBSERVATION, REPEATED
from wmtk.errors import UsageError

T = 10


@pytest.fixture
def arrays():
    """Ten rows as d4rl has them: terminal after row 3, timeout after row 6, then a rest."""
    observations = np.arange(T * 2, dtype=np.float32).reshape(T, 2)
    return {
        "observations": observations,
        "actions": np.linspace(-1, 1, T, dtype=np.float32).reshape(T, 1),
        "rewards": np.arange(1, T + 1, dtype=np.float32),
        "terminals": np.arange(T) == 3,
        "timeouts": np.arange(T) == 6,
    }


def imported(path, arrays, target, **options):
    with h5py.File(path, "w") as file:
        for name, rows in arrays.items():
            file[name] = rows
    report = import_dataset(path, target, **options)
    return report, Dataset.open(target)


def test_rows_are_shifted_and_missing_final_observations_repeated(tmp_path, arrays):
    arrays["infos/qpos"] = arrays["observations"] * 10
    report, data = imported(tmp_path / "x.hdf5", arrays, tmp_path / "ours")
    assert [e.length for e in data] == [4, 3, 3]
    assert [(e.terminated, e.truncated) for e in data] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    first = data[0]
    np.testing.assert_array_equal(first.obs["state"][:, 0], [0, 2, 4, 6, 6])
    np.testing.assert_array_equal(first.info["qpos"][:, 0], [0, 20, 40, 60, 60])
    np.testing.assert_array_equal(first.reward, [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(first.action[1:], arrays["actions"][:4])
    assert data.schema.reward.dtype == "float32"
    assert first.provenance.extra == {FINAL_OBSERVATION: REPEATED}
    assert report.losses == (
        "The source has no final observations: in 3 episodes the last one repeats the one before "
        "(provenance extra 'final_observation': 'missing, repeated').",
        "infos have no row for the final observation: their last row repeats.",
    )
    assert data.header["attributes"]["source"]["format"] == "d4rl"


def test_the_last_step_can_be_dropped_instead(tmp_path, arrays):
    arrays["timeouts"] = np.isin(np.arange(T), (4, 6))  # an episode of one step
    report, data = imported(
        tmp_path / "x.hdf5", arrays, tmp_path / "ours", final_observation="drop"
    )
    assert [e.length for e in data] == [3, 1, 2]
    assert not any(e.terminated or e.truncated for e in data)
    np.testing.assert_array_equal(data[0].obs["state"][:, 0], [0, 2, 4, 6])
    np.testing.assert_array_equal(data[0].reward, [0, 1, 2, 3])
    assert data[0].provenance.extra == {FINAL_OBSERVATION: DROPPED}
    assert "the last step of 4 episodes" in report.losses[0]


def test_next_observations_give_the_final_one(tmp_path, arrays):
    following = np.roll(arrays["observations"], -1, axis=0)
    following[[3, 6, 9]] = 99
    arrays["next_observations"] = following
    report, data = imported(tmp_path / "x.hdf5", arrays, tmp_path / "ours")
    assert report.losses == ()
    for episode in data:
        assert episode.obs["state"][-1].tolist() == [99, 99]
        assert episode.provenance.extra == {}
    arrays["next_observations"][1] = -5
    report, _ = imported(tmp_path / "y.hdf5", arrays, tmp_path / "other")
    assert report.losses == (
        "At 1 steps next_observations is not the observation that follows: the latter is used.",
    )


def test_files_without_timeouts(tmp_path, arrays):
    del arrays["timeouts"]
    report, data = imported(tmp_path / "a.hdf5", arrays, tmp_path / "a")
    assert [e.length for e in data] == [4, 6]
    assert "no timeouts" in report.losses[0]
    report, data = imported(tmp_path / "b.hdf5", arrays, tmp_path / "b", max_episode_steps=4)
    assert [e.length for e in data] == [4, 4, 2]
    ends = [(e.terminated, e.truncated) for e in data]
    assert ends == [(True, False), (False, True), (False, False)]
    following = np.roll(arrays["observations"], -1, axis=0)
    following[[3, 7, 9]] = 99
    arrays["next_observations"] = following
    report, data = imported(tmp_path / "c.hdf5", arrays, tmp_path / "c")
    assert [e.length for e in data] == [4, 4, 2]
    assert any("At 1 steps" in line and "a new episode begins" in line for line in report.losses)


def test_integer_actions_images_and_float_flags(tmp_path, arrays):
    arrays["observations"] = np.arange(T * 12, dtype=np.uint8).reshape(T, 2, 2, 3)
    arrays["actions"] = np.arange(T) % 5
    arrays["terminals"] = arrays["terminals"].astype(np.float32).reshape(T, 1)
    arrays["rewards"] = arrays["rewards"].reshape(T, 1).astype(">f8")
    report, data = imported(tmp_path / "x.hdf5", arrays, tmp_path / "ours")
    assert list(data.schema.obs) == ["image"]
    assert str(data.schema.action) == "discrete(5)"
    assert data.schema.reward.dtype == "float64"
    assert any("the number of actions" in line for line in report.losses)
    assert data[0].terminated


def test_metadata_is_passed_through_and_the_rest_is_named(tmp_path, arrays):
    arrays["metadata/algorithm"] = "SAC"
    arrays["metadata/policy/weight"] = np.zeros((100, 100))
    arrays["infos/label"] = np.array([b"a"] * T)
    arrays["infos/ragged"] = np.zeros(3)
    arrays["extra"] = np.zeros(T)
    report, data = imported(tmp_path / "x.hdf5", arrays, tmp_path / "ours")
    said = "\n".join(report.losses)
    for name in ("metadata/policy/weight", "infos/label", "infos/ragged", "extra"):
        assert name in said
    assert data.header["attributes"]["d4rl"]["metadata"] == {"algorithm": "SAC"}
    export_dataset(data, tmp_path / "back.hdf5", "d4rl")
    with h5py.File(tmp_path / "back.hdf5") as file:
        assert file["metadata/algorithm"][()] == b"SAC"


def test_the_export_is_what_d4rl_readers_expect(vectors, tmp_path):
    report = export_dataset(vectors, tmp_path / "x.hdf5", "d4rl")
    assert report.losses == (
        "1 episodes without an end are marked as timeouts; only wmtk restores them.",
    )
    with h5py.File(tmp_path / "x.hdf5") as file:
        flat = {name: file[name][()] for name in file if name != "metadata"}
    assert {len(rows) for rows in flat.values()} == {vectors.num_steps}
    ends = np.flatnonzero(flat["terminals"] | flat["timeouts"]) + 1
    assert ends.tolist() == [5, 6, 15, 18]
    np.testing.assert_array_equal(flat["terminals"].nonzero()[0], [4, 17])
    episode = vectors[2]
    np.testing.assert_array_equal(flat["observations"][6:15], episode.obs["state"][:-1])
    np.testing.assert_array_equal(flat["next_observations"][6:15], episode.obs["state"][1:])
    np.testing.assert_array_equal(flat["actions"][6:15], episode.action[1:])
    np.testing.assert_array_equal(flat["rewards"][6:15], episode.reward[1:])


def test_an_export_without_next_observations_says_what_is_lost(vectors, tmp_path):
    report = export_dataset(vectors, tmp_path / "x", "d4rl", next_observations=False)
    assert "The final observations of 4 episodes were left out." in report.losses
    import_dataset(tmp_path / "x", tmp_path / "back")
    back = Dataset.open(tmp_path / "back")
    assert [e.seed for e in back] == [e.seed for e in vectors]
    assert back[0].provenance.extra[FINAL_OBSERVATION] == REPEATED
    np.testing.assert_array_equal(back[0].obs["state"][:-1], vectors[0].obs["state"][:-1])


def test_several_observation_keys_become_a_group(tmp_path, make_dataset):
    report = export_dataset(make_dataset(tmp_path / "o", "nested"), tmp_path / "x", "d4rl")
    assert any("one observations array" in line for line in report.losses)


@pytest.mark.parametrize(
    "options",
    [{"final_observation": "guess"}, {"max_episode_steps": 0}],
)
def test_bad_options_are_refused(tmp_path, arrays, options):
    with pytest.raises(UsageError):
        imported(tmp_path / "x.hdf5", arrays, tmp_path / "ours", **options)


def test_bad_compression_is_refused(vectors, tmp_path):
    with pytest.raises(UsageError, match="gzip"):
        export_dataset(vectors, tmp_path / "x", "d4rl", compression="zip")
