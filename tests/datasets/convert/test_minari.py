"""Both directions with Minari itself: its collector's datasets in, our export out."""

from __future__ import annotations

import json
import warnings

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces

from wmtk.datasets import Dataset
from wmtk.datasets.convert import detect_format, export_dataset, import_dataset
from wmtk.datasets.convert.minari.space_json import nested
from wmtk.envs import resolve, task_of
from wmtk.errors import ConversionError, MissingDependencyError, UsageError
from wmtk.spaces import flatten_space, flatten_value, unflatten_value


class Nested(gym.Env):
    """Dict and Tuple observations with an image, infos, a multi-discrete action."""

    def __init__(self, image=(4, 4, 3)):
        self.observation_space = spaces.Dict(
            {
                "camera": spaces.Dict({"front": spaces.Box(0, 255, image, np.uint8)}),
                "pair": spaces.Tuple([spaces.Discrete(5), spaces.Box(-1, 1, (2,), np.float64)]),
            }
        )
        self.action_space = spaces.MultiDiscrete([2, 3])

    def _step(self):
        self.steps += 1
        info = {"count": self.steps, "nested": {"half": np.full(2, self.steps / 2)}, "name": "x"}
        return self.observation_space.sample(), info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = -1
        return self._step()

    def step(self, action):
        obs, info = self._step()
        return obs, float(self.steps), self.steps == 4, False, info


def collect(env, name, episodes=3, **settings):
    """A Minari dataset made by Minari's own collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it asks for authors and links
        warnings.simplefilter("ignore", ResourceWarning)  # it forgets its temporary folders
        env = minari.DataCollector(env, **settings)
        env.action_space.seed(0)
        for seed in range(episodes):
            env.reset(seed=seed, options={"minari_autoseed": True})
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step(env.action_space.sample())
                over = terminated or truncated
        made = env.create_dataset(name, algorithm_name="random", author="someone")
        env.close()
        env._tmp_dir.cleanup()
    return made


def assert_same(ours, theirs, structure):
    """One episode of each, in their own alignments."""
    observations = flatten_value(structure, theirs.observations)
    assert observations.keys() == ours.obs.keys()
    for key, rows in observations.items():
        np.testing.assert_array_equal(ours.obs[key], rows)
        assert ours.obs[key].dtype == rows.dtype
    np.testing.assert_array_equal(ours.action[1:], theirs.actions)
    np.testing.assert_array_equal(ours.reward[1:], theirs.rewards)
    assert ours.terminated == theirs.terminations[-1]
    assert ours.truncated == theirs.truncations[-1]


ENVS = {
    "cartpole": lambda: gym.make("CartPole-v1"),
    "pendulum": lambda: gym.make("Pendulum-v1", max_episode_steps=12),
    "nested": Nested,
}


@pytest.mark.parametrize("kind", ENVS)
def test_what_the_collector_made_is_imported_and_goes_back_out(kind, minari_home, tmp_path):
    name = f"wmtk/{kind}-v3"
    theirs = collect(ENVS[kind](), name, record_infos=kind == "nested")
    assert detect_format(minari_home / name) == "minari"
    report = import_dataset(name, tmp_path / "ours")  # by its id
    assert (report.episodes, report.steps) == (3, theirs.total_steps)
    ours = Dataset.open(tmp_path / "ours")
    for episode, original in zip(ours, theirs, strict=True):
        assert_same(episode, original, ours.schema.structure)
    assert [episode.seed for episode in ours] == [0, 1, 2]
    assert ours[0].provenance.policy == "random"
    assert ours[0].provenance.extra["minari"]["options/minari_autoseed"] is True
    assert "rewards_sum" in ours[0].provenance.extra["minari"]
    assert ours.header["attributes"]["minari"]["author"] == ["someone"]

    target = tmp_path / "elsewhere" / "wmtk" / f"{kind}-v3"
    export_dataset(ours, target, "minari")
    again = minari.MinariDataset(target / "data")
    assert again.id == name
    assert again.observation_space == theirs.observation_space
    assert again.action_space == theirs.action_space
    assert again.env_spec == theirs.env_spec
    before, after = (ds.storage.metadata for ds in (theirs, again))
    changed = {"dataset_size", "jpeg_encoding", "wmtk"}
    assert {k: v for k, v in before.items() if k not in changed} == {
        k: v for k, v in after.items() if k not in changed
    }
    numbers = range(3)
    pairs = zip(
        theirs.storage.get_episode_metadata(numbers),
        again.storage.get_episode_metadata(numbers),
        strict=True,
    )
    assert all(old == {k: v for k, v in new.items() if k != "wmtk"} for old, new in pairs)


def test_env_and_spaces_of_an_import(minari_home, tmp_path):
    collect(ENVS["pendulum"](), "pendulum-v0")
    report = import_dataset(minari_home / "pendulum-v0" / "data", tmp_path / "ours")
    assert report.losses == ()
    ours = Dataset.open(tmp_path / "ours")
    assert ours[0].provenance.env_id == "Pendulum-v1"
    # As `wmtk collect` describes it, but for the versions, which are not those of then.
    task = resolve("Pendulum-v1", time_limit=12)
    described = task.settings
    assert dict(ours.env) == {key: described[key] for key in described if key != "versions"}
    assert task_of(ours.env) == task
    played = task.make()
    obs, action = flatten_space(played.observation_space)[1], played.action_space
    assert (obs, action) == (ours.schema.obs, ours.schema.action.to_gymnasium())
    env = gym.make("Pendulum-v1")
    assert ours.schema.obs["state"].to_gymnasium() == env.observation_space
    assert ours.schema.action.to_gymnasium() == env.action_space
    assert ours[0].truncated
    assert not ours[0].terminated
    assert ours.header["attributes"]["source"]["format"] == "minari"


def test_infos_are_imported_and_what_cannot_be_is_said(minari_home, tmp_path):
    collect(Nested(), "nested-v0", record_infos=True)
    report = import_dataset("nested-v0", tmp_path / "ours", format="minari")
    assert [line for line in report.losses if "infos/" in line] == [
        "infos/name is not one number or array of one shape per step in every episode: "
        "not imported."
    ]
    episode = Dataset.open(tmp_path / "ours")[0]
    np.testing.assert_array_equal(episode.info["count"], np.arange(5))
    np.testing.assert_array_equal(episode.info["nested/half"][:, 1], np.arange(5) / 2)


def test_minari_reads_our_export(dataset, minari_home):
    name = "space/ours-v7"
    report = export_dataset(dataset, minari_home / name, "minari", dataset_id=name)
    narrow = dataset.schema.action.dtype == "int32"  # a Discrete space, which Minari has as int64
    assert ["env_spec" in line for line in report.losses] == [False] * narrow + [True]
    theirs = minari.load_dataset(name)
    assert list(minari.list_local_datasets()) == [name]
    assert theirs.total_steps == dataset.num_steps
    assert (theirs.action_space == dataset.schema.action.to_gymnasium()) != narrow
    structure = nested(dataset.schema.structure)
    for number, original in enumerate(dataset):
        found = theirs[number]
        assert_same(original, found, structure)
        sample = unflatten_value(structure, {k: v[0] for k, v in original.obs.items()})
        assert theirs.observation_space.contains(sample)
        for key, rows in original.info.items():
            leaf = found.infos
            for part in key.split("/"):
                leaf = leaf[part]
            np.testing.assert_array_equal(leaf, rows)
    seeds = [m.get("seed") for m in theirs.storage.get_episode_metadata(range(4))]
    assert seeds == [episode.seed for episode in dataset]


def test_minari_can_append_to_and_filter_our_export(vectors, minari_home, tmp_path):
    export_dataset(vectors, minari_home / "ours-v0", "minari", compression="none")
    theirs = minari.load_dataset("ours-v0")
    assert len(theirs.filter_episodes(lambda episode: len(episode) > 4)) == 2
    found = theirs[0]
    buffer = minari.data_collector.EpisodeBuffer(
        observations=found.observations,
        actions=found.actions,
        rewards=found.rewards,
        terminations=found.terminations,
        truncations=found.truncations,
    )
    theirs.update_dataset_from_buffer([buffer])
    import_dataset("ours-v0", tmp_path / "back")
    back = Dataset.open(tmp_path / "back")
    assert back.episodes.id.tolist() == [*vectors.episodes.id.tolist(), int(vectors[0].id, 16)]
    assert back[4].seed is None


def test_jpeg_frames_are_decoded_and_called_lossy(minari_home, tmp_path):
    theirs = collect(Nested((40, 48, 3)), "frames-v0")
    report = import_dataset("frames-v0", tmp_path / "ours")
    assert any("obs/camera/front" in line and "JPEG" in line for line in report.losses)
    ours = Dataset.open(tmp_path / "ours")
    for episode, original in zip(ours, theirs, strict=True):
        assert_same(episode, original, ours.schema.structure)


def test_large_provenance_and_large_seeds_survive(vectors, tmp_path):
    from dataclasses import replace

    from wmtk.datasets import Provenance

    with Dataset.create(tmp_path / "big", vectors.schema) as big:
        provenance = Provenance(extra={"text": "x" * 200_000})
        big.append([replace(vectors[0], provenance=provenance, seed=2**70)])
    export_dataset(tmp_path / "big", tmp_path / "x", "minari")
    import_dataset(tmp_path / "x", tmp_path / "back")
    back = Dataset.open(tmp_path / "back")[0]
    assert back.provenance == provenance
    assert back.seed == 2**70


def edit_metadata(folder, **changes):
    path = folder / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    path.write_text(json.dumps({**metadata, **changes}))


def test_flags_inside_an_episode_and_short_infos_are_said(vectors, tmp_path):
    export_dataset(vectors, tmp_path / "x", "minari")
    with h5py.File(tmp_path / "x/data/main_data.hdf5", "a") as file:
        file["episode_0/terminations"][1] = True
        for number, steps in enumerate((5, 1, 9, 3)):
            file[f"episode_{number}/infos/late"] = np.arange(1, steps + 1)
    edit_metadata(tmp_path / "x", wmtk=None)
    report = import_dataset(tmp_path / "x", tmp_path / "back")
    assert report.losses == (
        "1 episodes have flags before their last step: only those of the last step were kept.",
        "infos/late has no entry for the reset: row 0 of it is zero.",
    )
    assert Dataset.open(tmp_path / "back")[3].info["late"].tolist() == [0, 1, 2, 3]


def test_an_edited_export_ignores_the_description(vectors, tmp_path):
    export_dataset(vectors, tmp_path / "x", "minari")
    with h5py.File(tmp_path / "x/data/main_data.hdf5", "a") as file:
        for number, steps in enumerate((5, 1, 9, 3)):
            file[f"episode_{number}/infos/new"] = np.zeros(steps + 1)
    report = import_dataset(tmp_path / "x", tmp_path / "back")
    assert any("does not match" in line for line in report.losses)
    assert list(Dataset.open(tmp_path / "back").schema.info) == ["new"]


@pytest.mark.parametrize("name", ["no version", "../up-v0", "a//b-v0", "x-v", "/abs-v0"])
def test_bad_dataset_ids_are_refused(vectors, tmp_path, name):
    with pytest.raises(UsageError, match="dataset id"):
        export_dataset(vectors, tmp_path / "x", "minari", dataset_id=name)


BOX = {"type": "Box", "dtype": "float32", "low": 0, "high": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_format": "arrow"}, "arrow"),
        ({"total_episodes": 9}, "no episode_4"),
        ({"total_episodes": "all"}, "valid MinariMetadata: total_episodes"),
        ({"observation_space": json.dumps({**BOX, "shape": [10**12]})}, "space"),
        (
            {
                "observation_space": json.dumps(
                    {
                        **BOX,
                        "shape": [],
                    }
                )
            },
            "declares",
        ),
        ({"observation_space": json.dumps({"type": "Text"})}, "Text"),
        ({"observation_space": "{"}, "space"),
        ({"action_space": json.dumps({"type": "Dict", "subspaces": {}})}, "cannot be imported"),
        ({"wmtk": {"version": 1}}, "not a valid SidecarDocument: schema"),
        ({"wmtk": {"version": 99}}, "newer"),
    ],
)
def test_bad_metadata_is_refused(vectors, tmp_path, changes, message):
    export_dataset(vectors, tmp_path / "x", "minari")
    edit_metadata(tmp_path / "x", **changes)
    with pytest.raises(ConversionError, match=message) as caught:
        import_dataset(tmp_path / "x", tmp_path / "back")
    assert caught.value.path is not None
    assert not (tmp_path / "back").exists()


def test_a_missing_library_is_named_with_its_extra(vectors, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(MissingDependencyError, match=r"wmtk\[convert\]"):
        export_dataset(vectors, tmp_path / "x", "minari")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingDependencyError, match=r"wmtk\[convert\]"):
        export_dataset(vectors, tmp_path / "x", "d4rl")


def test_values_beyond_the_declared_bounds_are_imported_and_told(vectors, tmp_path):
    export_dataset(vectors, tmp_path / "x", "minari")
    with h5py.File(tmp_path / "x/data/main_data.hdf5", "a") as file:
        file["episode_2/observations"][3, 1] = 99
    report = import_dataset(tmp_path / "x", tmp_path / "back")
    assert "In 1 episodes obs/state exceeds the bounds" in " ".join(report.losses)
    assert Dataset.open(tmp_path / "back")[2].obs["state"][3, 1] == 99
