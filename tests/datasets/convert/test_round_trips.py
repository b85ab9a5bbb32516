"""Ours → theirs → ours, over every format and kind of space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wmtk.datasets import Dataset
from wmtk.datasets.convert import FORMATS, detect_format, export_dataset, import_dataset
from wmtk.datasets.convert.alignment import FINAL_OBSERVATION, REPEATED
from wmtk.errors import ConversionError, UsageError

LOSSLESS = ("minari", "d4rl", "dreamer-npz")


@pytest.mark.parametrize("name", LOSSLESS)
def test_a_round_trip_is_lossless(dataset, tmp_path, name):
    report = export_dataset(dataset, tmp_path / "theirs-v0", name)
    assert (report.format, report.episodes, report.steps) == (name, 4, 18)
    assert detect_format(tmp_path / "theirs-v0") == name
    back_report = import_dataset(tmp_path / "theirs-v0", tmp_path / "back")
    assert back_report == replace(back_report, format=name, episodes=4, steps=18, losses=())
    back = Dataset.open(tmp_path / "back")
    assert back.schema == dataset.schema
    assert back.env == dataset.env
    assert back.header["attributes"] == dataset.header["attributes"]
    assert back.episodes.id.tolist() == dataset.episodes.id.tolist()
    for ours, theirs in zip(dataset, back, strict=True):
        assert (theirs.seed, theirs.provenance) == (ours.seed, ours.provenance)


def test_diffusion_zarr_loses_what_it_says(dataset, tmp_path):
    report = export_dataset(dataset, tmp_path / "theirs.zarr", "diffusion-zarr")
    assert any("final observations: those of 4 episodes" in line for line in report.losses)
    assert any("infos" in line for line in report.losses) == bool(dataset.schema.info)
    back_report = import_dataset(tmp_path / "theirs.zarr", tmp_path / "back")
    assert back_report.format == "diffusion-zarr"
    assert ["in 4 episodes the last one repeats" in line for line in back_report.losses] == [True]
    back = Dataset.open(tmp_path / "back")
    assert back.schema == replace(dataset.schema, info={})
    for ours, theirs in zip(dataset, back, strict=True):
        assert (theirs.terminated, theirs.truncated) == (ours.terminated, ours.truncated)
        assert theirs.seed == ours.seed
        assert theirs.provenance.extra == {**ours.provenance.extra, FINAL_OBSERVATION: REPEATED}
        np.testing.assert_array_equal(theirs.action, ours.action)
        np.testing.assert_array_equal(theirs.reward, ours.reward)
        for key, rows in ours.obs.items():
            np.testing.assert_array_equal(theirs.obs[key][:-1], rows[:-1])
            np.testing.assert_array_equal(theirs.obs[key][-1], rows[-2])


@pytest.mark.parametrize("name", FORMATS)
def test_progress_counts_episodes_up_to_the_total(vectors, tmp_path, name):
    for move in (
        lambda tick: export_dataset(vectors, tmp_path / "x", name, progress=tick),
        lambda tick: import_dataset(tmp_path / "x", tmp_path / "back", progress=tick),
    ):
        seen = []
        move(lambda done, total, seen=seen: seen.append((done, total)))
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_dataset_may_be_given_by_its_path(vectors, tmp_path, name):
    report = export_dataset(vectors.path, tmp_path / "x", name)
    assert report.path == tmp_path / "x"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ours", "x"]


@pytest.mark.parametrize("name", FORMATS)
def test_existing_targets_are_refused(vectors, tmp_path, name):
    export_dataset(vectors, tmp_path / "x", name)
    with pytest.raises(ConversionError, match="exists already"):
        export_dataset(vectors, tmp_path / "x", name)
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConversionError, match="exists already") as caught:
        import_dataset(tmp_path / "x", tmp_path / "taken")
    assert caught.value.path == tmp_path / "taken"
    assert list((tmp_path / "taken").iterdir()) == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_failure_leaves_nothing_behind(vectors, tmp_path, name):
    def fail(done, total):
        if done == 3:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        export_dataset(vectors, tmp_path / "x", name, progress=fail)
    assert [p.name for p in tmp_path.iterdir()] == ["ours"]
    export_dataset(vectors, tmp_path / "x", name)
    with pytest.raises(RuntimeError, match="stopped"):
        import_dataset(tmp_path / "x", tmp_path / "back", progress=fail)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ours", "x"]


@pytest.mark.parametrize("name", FORMATS)
def test_unknown_options_are_named_with_the_known_ones(vectors, tmp_path, name):
    with pytest.raises(UsageError, match="sped"):
        export_dataset(vectors, tmp_path / "x", name, sped=1)
    export_dataset(vectors, tmp_path / "x", name)
    with pytest.raises(UsageError, match="sped"):
        import_dataset(tmp_path / "x", tmp_path / "back", sped=1)


def test_unknown_formats_and_sources(vectors, tmp_path):
    with pytest.raises(UsageError, match="dreamer-npz"):
        export_dataset(vectors, tmp_path / "x", "rlds")
    with pytest.raises(ConversionError, match="does not exist"):
        detect_format(tmp_path / "nothing")
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "text", tmp_path):
        with pytest.raises(ConversionError) as caught:
            detect_format(path)
        assert all(name in str(caught.value) for name in FORMATS)
        assert caught.value.path == path
    with pytest.raises(ConversionError, match="needs no import"):
        detect_format(vectors.path)


def test_an_empty_dataset_is_not_exported(vectors, tmp_path):
    empty = Dataset.create(tmp_path / "empty", vectors.schema)
    with pytest.raises(ConversionError, match="no episode"):
        export_dataset(empty, tmp_path / "x", "d4rl")


def test_large_imports_are_appended_in_batches(vectors, tmp_path, monkeypatch):
    from wmtk.datasets.convert import transfer

    monkeypatch.setattr(transfer, "BATCH_STEPS", 6)
    sizes = []
    append = Dataset.append

    def counting(self, episodes, **options):
        sizes.append(len(episodes))
        return append(self, episodes, **options)

    monkeypatch.setattr(Dataset, "append", counting)
    export_dataset(vectors, tmp_path / "x", "d4rl")
    import_dataset(tmp_path / "x", tmp_path / "back")
    assert sizes == [2, 1, 1]  # 5 + 1 steps, 9 steps, the rest


def test_large_parts_are_exported_episode_by_episode(vectors, tmp_path, monkeypatch):
    from wmtk.datasets.convert import transfer

    export_dataset(vectors, tmp_path / "x", "dreamer-npz")
    monkeypatch.setattr(transfer, "BATCH_BYTES", 1)
    export_dataset(vectors, tmp_path / "y", "dreamer-npz")
    names = [sorted(p.name for p in (tmp_path / folder).iterdir()) for folder in "xy"]
    assert names[0] == names[1]
