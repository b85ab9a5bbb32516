"""Images of any size: training, acting and looking at a model see the same of them."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from wmtk.agent.load import load
from wmtk.agent.stepper import ModelStepper
from wmtk.datasets import Batch, Dataset, Prefetcher, SequenceSampler, Source
from wmtk.errors import ConfigError, SchemaMismatchError
from wmtk.observations import ObsCodec
from wmtk.spaces import ArraySpec
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy
from wmtk.viz.evaluation.measurements import measure
from wmtk.viz.live.catalog import DataEntry
from wmtk.viz.live.frame_painter import FramePainter
from wmtk.viz.live.session import RecordedRows, Session
from wmtk.viz.rollouts import open_loop_rollouts, reconstruction_rollouts
from wmtk.viz.windows import Window, read_windows

LARGE = ArraySpec("box", (40, 50, 3), "uint8", 0, 255)
FLOAT = ArraySpec("box", (3, 40, 40), "float32", 0.0, 1.0)
GRID = ArraySpec("box", (5, 5, 3), "uint8", 0, 255)
VECTOR = ArraySpec("box", (3,), "float64")
CHANGES = {"behavior.layers": 1, "behavior.units": 8, "behavior.horizon": 2}


@pytest.fixture
def trained(make_dataset, config, tmp_path):
    """A model and a policy of noise in which every kind of observation occurs."""

    def train(obs: dict[str, ArraySpec], **changes: object):
        dataset = make_dataset(obs=obs)
        settings = config.override({**CHANGES, **changes})
        notes: list[str] = []
        model = tmp_path / "model"
        train_model([Source(dataset)], model, settings, updates=1, on_note=notes.append)
        train_policy(model, tmp_path / "policy", updates=1, episodes=0)
        return load(tmp_path / "policy"), dataset, notes

    return train


def test_a_run_acts_on_the_frames_of_its_environment(trained) -> None:
    agent, dataset, notes = trained({"front": LARGE, "wrist": FLOAT, "grid": GRID, "state": VECTOR})
    assert [note.partition(" of ")[0] for note in notes] == [
        "Images 'front'",
        "Images 'wrist'",
        "grid: 5×5×3 uint8 is learned as a vector",
    ]
    assert list(agent.model.images) == ["front", "wrist"]
    assert agent.model.vector_size == 75 + 3
    episode = dataset[0]
    policy = agent.make_policy(sample=False)
    policy.begin()
    seen: list[dict[str, np.ndarray]] = []
    encode = agent.model.encode

    def spy(obs):
        seen.append({key: rows[0, 0].numpy() for key, rows in obs.items()})
        return encode(obs)

    agent.model.encode = spy
    for row in range(3):
        policy({key: rows[row] for key, rows in episode.obs.items()})
    agent.model.encode = encode
    # What the actor saw of raw frames is, byte for byte, what training sees of the episode.
    inputs = agent.episode_inputs(episode)
    for row, obs in enumerate(seen):
        for key in dataset.schema.obs:
            np.testing.assert_array_equal(obs[key], inputs.obs[key][0, row].numpy())


def test_what_a_model_shows_stands_beside_what_it_saw(trained) -> None:
    agent, dataset, _ = trained({"front": LARGE, "grid": GRID})
    shapes = {key: rows.shape for key, rows in agent.reconstruct(dataset[0]).items()}
    assert shapes == {"front": (13, 64, 64, 3), "grid": (13, 75)}
    assert agent.predict(dataset[0], context=3, horizon=4).obs["front"].shape[-3:] == (64, 64, 3)
    assert agent.schema.obs["front"].shape == (64, 64, 3)
    assert agent.data_schema.obs == dataset.schema.obs
    raw = read_windows(dataset, [Window(0, 0, 8), Window(1, 2, 8)], 8)
    true = ObsCodec(dataset.schema.obs).rows("front", raw.obs["front"])
    imagined = open_loop_rollouts(agent, raw, context=3)
    for rollout in (*imagined, *reconstruction_rollouts(agent, raw)):
        assert rollout.truth["front"].shape == rollout.predicted["front"].shape[1:]
    np.testing.assert_array_equal(imagined[1].truth["front"], true[1])
    found = measure(agent, [raw], context=3, samples=2)
    assert found.images == {"front"}
    assert np.isfinite(found.obs["front"].error).all()


def test_small_images_are_learned_as_images_where_they_are_named(trained) -> None:
    agent, dataset, notes = trained({"image": GRID}, **{"data.as_image": "image"})
    assert notes == ["Images of 5×5 are resized to 64×64 (data.image_size)."]
    assert agent.config.data.as_image == ("image",)
    assert agent.reconstruct(dataset[0])["image"].shape == (13, 64, 64, 3)


def test_keys_that_a_model_does_not_see_may_be_anything(trained, make_dataset) -> None:
    agent, dataset, notes = trained(
        {"image": LARGE, "state": VECTOR}, **{"data.obs_keys": "-state"}
    )
    assert notes == ["Images of 40×50 are resized to 64×64 (data.image_size)."]
    assert list(agent.model.images) == ["image"]
    assert not agent.model.vectors
    agent.policy({key: rows[0] for key, rows in dataset[0].obs.items()})
    agent.require_fit(make_dataset("without.zarr", obs={"image": LARGE}))
    with pytest.raises(SchemaMismatchError, match="obs/image"):
        agent.require_fit(make_dataset("other.zarr", obs={"state": VECTOR}))


def test_a_policy_sees_what_its_model_was_trained_on(trained, tmp_path) -> None:
    agent, dataset, _ = trained({"image": LARGE, "state": VECTOR})
    other = agent.config.override({"data.obs_keys": ["image"]})
    with pytest.raises(ConfigError, match=r"data\.obs_keys is"):
        train_policy(tmp_path / "model", tmp_path / "new", updates=1, config=other, episodes=0)
    with pytest.raises(ConfigError, match=r"data\.obs_keys is"):
        train_model([Source(dataset)], tmp_path / "model", other, updates=2, resume=True)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"data.image_size": 48}, "the networks take 64×64"),
        ({"data.obs_keys": ["imag"]}, "no observation key 'imag'"),
        ({"data.as_image": ["state"]}, "cannot be used as an image"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    make_dataset, config, tmp_path, changes, text
) -> None:
    dataset = make_dataset(obs={"image": LARGE, "state": VECTOR})
    with pytest.raises(ConfigError, match=text):
        train_model([Source(dataset)], tmp_path / "run", config.override(changes), updates=1)
    assert not (tmp_path / "run").exists()


def batch_of(dataset: Dataset, memory: int, codec: ObsCodec | None) -> Batch:
    sampler = SequenceSampler(
        dataset, batch_size=4, length=5, seed=3, memory=memory, observations=codec
    )
    return sampler.sample(7)


@pytest.mark.parametrize("memory", [0, 2**30], ids=["streamed", "resident"])
def test_batches_hold_what_the_model_sees(make_dataset, memory) -> None:
    obs = {"front": LARGE, "wrist": FLOAT, "grid": GRID, "state": VECTOR}
    dataset = make_dataset(obs=obs, lengths=(3, 12, 9))
    codec = ObsCodec(obs, obs_keys=["-state"], as_image=["grid"])
    raw, seen = batch_of(dataset, memory, None), batch_of(dataset, memory, codec)
    assert list(seen.obs) == ["front", "wrist", "grid"]
    for key, rows in codec(raw.obs).items():
        np.testing.assert_array_equal(seen.obs[key][seen.mask], rows[raw.mask])
        assert not seen.obs[key][~seen.mask].any()
    np.testing.assert_array_equal(seen.action, raw.action)


def test_images_are_converted_once_while_data_grows(make_dataset, monkeypatch) -> None:
    dataset = make_dataset(obs={"image": LARGE})
    codec = ObsCodec(dataset.schema.obs)
    sampler = SequenceSampler(dataset, batch_size=20, length=5, observations=codec)
    sampler.sample()
    rows, counted = codec.rows, []
    monkeypatch.setattr(codec, "rows", lambda key, x: counted.append(len(x)) or rows(key, x))
    with Dataset.open(dataset.path, "a") as more:
        more.append(dataset[0])
    assert sampler.refresh()
    for _ in range(5):
        sampler.sample()
    assert counted == [13], "the new episode, and nothing of the others"


def test_images_are_converted_once_by_batches_that_are_read_at_once(
    make_dataset, monkeypatch
) -> None:
    dataset = make_dataset(obs={"image": LARGE}, lengths=(12, 11, 10, 9))
    codec = ObsCodec(dataset.schema.obs)
    rows, counted = codec.rows, []

    def slowly(key, values):
        counted.append(len(values))
        time.sleep(0.05)  # so that all batches need a part that none has yet
        return rows(key, values)

    monkeypatch.setattr(codec, "rows", slowly)
    sampler = SequenceSampler(dataset, batch_size=20, length=5, observations=codec)
    with Prefetcher(sampler, depth=4, threads=4) as batches:
        for _ in range(8):
            next(batches)
    assert sorted(counted) == [10, 11, 12, 13]


def test_the_commands_say_what_becomes_of_images(run_wmtk, make_dataset, small, tmp_path) -> None:
    dataset = make_dataset(obs={"image": LARGE, "state": VECTOR})
    given = [dataset.path, "--out", tmp_path / "run", "--device", "cpu", "--updates", 1, *small]
    done = run_wmtk("train-model", *given, "--obs-keys", "-state", "--json")
    assert done.exit_code == 0, done.stderr
    assert "Images of 40×50 are resized to 64×64 (data.image_size).\n" in done.stderr
    assert json.loads(done.stdout)["updates"] == 1
    assert load(tmp_path / "run").config.data.obs_keys == ("-state",)
    other = run_wmtk("train-model", *given, "--out", tmp_path / "other", "--obs-keys", "stat")
    assert other.exit_code == 2
    assert "Did you mean 'state'?" in other.stderr


def test_the_live_page_shows_what_the_model_sees(trained) -> None:
    agent, dataset, _ = trained({"camera": FLOAT, "state": VECTOR}, **{"data.obs_keys": "camera"})
    dreamer = ModelStepper(agent)
    recording = RecordedRows.read(DataEntry("noise", dataset), 0, 4)
    world = Session(dreamer.schema, 0, dreamer, recording=recording)
    moment, look = world.begin(2, 1.0)
    assert moment.truth is not None
    np.testing.assert_array_equal(
        moment.truth["camera"], agent.observations.rows("camera", dataset[0].obs["camera"][4])
    )
    tiles, _ = FramePainter(world.schema).paint(look, moment.truth, None)
    assert [pixels.shape for _, pixels in tiles] == [(64, 64, 3)] * 3
    after, _, _ = world.advance(
        moment, np.zeros(2, np.int64), "recorded", step=1, branch_seed=0, temperature=1.0, forced={}
    )
    assert after.truth is not None
    assert after.truth["camera"].shape == (64, 64, 3)
