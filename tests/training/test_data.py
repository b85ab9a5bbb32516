"""The data of a run: enough of it, the same on resuming, drawn by weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wmtk.datasets import Dataset, Source, select
from wmtk.errors import RunError, UsageError
from wmtk.runs.training_config import DataConfig
from wmtk.training.model_stage import train_model
from wmtk.training.samplers import fixed_batches, make_sampler


def test_fewer_rows_than_a_window_are_too_few(make_dataset, config, tmp_path) -> None:
    data = make_dataset(lengths=(1, 1))
    with pytest.raises(UsageError, match=r"noise\.zarr: 4 rows .* one window of 6") as caught:
        train_model([Source(data)], tmp_path / "run", config, updates=1, val_fraction=0)
    assert "data.length=2" in caught.value.hint
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("lengths", [(12,), (15,), (20,)])  # on whichever side of the split
def test_one_episode_cannot_be_split(make_dataset, config, tmp_path, lengths) -> None:
    data = make_dataset(lengths=lengths)
    with pytest.raises(UsageError, match="too few episodes to hold some out") as caught:
        train_model([Source(data)], tmp_path / "run", config, updates=1, val_fraction=0.5)
    assert "val_fraction=0" in caught.value.hint
    assert not (tmp_path / "run").exists()
    train_model([Source(data)], tmp_path / "run", config, updates=1, val_fraction=0)


def test_a_short_episode_is_held_out_all_the_same(make_dataset, config, tmp_path) -> None:
    data = make_dataset(lengths=(2, 2, 2, 2))
    run = train_model([Source(data)], tmp_path / "run", config, updates=1, val_fraction=0.1)
    assert run.checkpoints.pointer("best") == "00000001"


def test_a_selection_of_nothing_is_named(make_dataset, config, tmp_path) -> None:
    source = Source(make_dataset(), select=select(min_length=100))
    with pytest.raises(UsageError, match=r"no episodes to train on \(4 before the selection"):
        train_model([source], tmp_path / "run", config, updates=1, val_fraction=0)


def test_held_out_episodes_are_never_learned_from(dataset) -> None:
    config = DataConfig(batch_size=8, length=6)
    held = fixed_batches(config, [Source(dataset)], 0, 0.3, 20)
    again = fixed_batches(config, [Source(dataset)], 0, 0.3, 20)
    sampler = make_sampler(config, [Source(dataset)], 0, val_fraction=0.3)
    learned = {int(e) for _ in range(20) for e in sampler.sample().episode}
    seen = {int(e) for batch in held for e in batch.episode}
    assert seen.isdisjoint(learned)
    assert len(seen | learned) == len(dataset)
    for one, other in zip(held, again, strict=True):
        np.testing.assert_array_equal(one.obs["image"], other.obs["image"])


def test_weights_decide_how_often_a_dataset_is_drawn(make_dataset) -> None:
    sources = [Source(make_dataset("a.zarr"), 1.0), Source(make_dataset("b.zarr"), 3.0)]
    sampler = make_sampler(DataConfig(batch_size=400, length=2), sources, 0)
    assert sampler.sample().source.mean() == pytest.approx(0.75, abs=0.05)


def test_data_that_has_grown_is_resumed_as_it_was(make_dataset, config, tmp_path) -> None:
    data = make_dataset()
    whole = train_model([Source(data)], tmp_path / "whole", config, updates=4).checkpoints.load()
    train_model([Source(data)], tmp_path / "run", config, updates=2)
    with Dataset.open(data.path, "a") as growing:
        growing.append(growing[0])
    grown = Dataset.open(data.path)
    assert grown.version > data.version
    run = train_model([Source(grown)], tmp_path / "run", config, updates=4, resume=True)
    assert run.checkpoints.load().hash == whole.hash
    assert run.checkpoints.load().state["data"][0]["version"] == data.version


def test_data_whose_version_is_gone_is_refused(make_dataset, config, tmp_path) -> None:
    data = make_dataset()
    train_model([Source(data)], tmp_path / "run", config, updates=2)
    with Dataset.open(data.path, "a") as growing:
        growing.evict(13)
    with pytest.raises(RunError, match=r"no longer has version \d+"):
        train_model(
            [Source(Dataset.open(data.path))], tmp_path / "run", config, updates=4, resume=True
        )


def test_another_weight_or_selection_is_refused_on_resuming(make_dataset, config, tmp_path) -> None:
    sources = [Source(make_dataset("a.zarr")), Source(make_dataset("b.zarr", lengths=(9,) * 4))]
    train_model(sources, tmp_path / "run", config, updates=2)
    heavier = [sources[0], replace(sources[1], weight=2.0)]
    with pytest.raises(RunError, match=r"(?s)weights differ.*weight 1,.*instead of.*weight 2,"):
        train_model(heavier, tmp_path / "run", config, updates=4, resume=True)
    fewer = [sources[0], replace(sources[1], select=lambda table: table.number >= 0)]
    train_model(fewer, tmp_path / "run", config, updates=3, resume=True)  # all of them, after all
    fewer = [sources[0], replace(sources[1], select=lambda table: table.episode > 0)]
    with pytest.raises(RunError, match=r"(?s)selections differ.*4 episodes.*3 episodes"):
        train_model(fewer, tmp_path / "run", config, updates=4, resume=True)
    with pytest.raises(RunError, match="datasets differ"):
        train_model(sources[::-1], tmp_path / "run", config, updates=4, resume=True)
