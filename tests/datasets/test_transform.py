"""Merge, split and filter: whole new datasets, or nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wmtk.datasets import Dataset, Provenance, Schema, select, transform
from wmtk.datasets.integrity.validate import validate
from wmtk.datasets.summary import find_datasets, summarize
from wmtk.datasets.transform import all_of, by_provenance, filter_episodes, merge, split
from wmtk.errors import DatasetError, NotADatasetError, SchemaMismatchError, UsageError
from wmtk.spaces import ArraySpec


def ids(path: Path) -> list[str]:
    with Dataset.open(path) as dataset:
        return [episode.id for episode in dataset]


@pytest.fixture
def mixed(make_dataset, make_episode) -> Path:
    """Twelve episodes of two policies and three endings."""
    endings = itertools.cycle([(True, False), (False, True), (False, False)])
    policies = itertools.cycle(["random", "dreamer-1", "dreamer-2"])
    with make_dataset([10, 20]) as dataset:
        for seed in range(10, 20):
            terminated, truncated = next(endings)
            dataset.append(
                make_episode(
                    seed,
                    seed=seed,
                    terminated=terminated,
                    truncated=truncated,
                    provenance=Provenance("test/Env-v0", policy=next(policies), code_version="1"),
                )
            )
        return dataset.path


def test_merge_keeps_everything_in_order(make_dataset, tmp_path):
    with make_dataset([10, 20], "a.zarr") as a, make_dataset([30, 20], "b.zarr") as b:
        b.evict(20)
    report = merge([a.path, b.path, a.path], tmp_path / "m.zarr")
    assert (report.episodes, report.steps) == (5, 80)
    assert ids(tmp_path / "m.zarr") == [*ids(a.path), *ids(b.path), *ids(a.path)]
    assert validate(tmp_path / "m.zarr").problems == ()
    with Dataset.open(tmp_path / "m.zarr") as merged, Dataset.open(a.path) as source:
        assert merged.capacity is None
        assert merged[0].provenance == source[0].provenance
        assert merged[0].seed == source[0].seed
        assert merged.env == source.env
        assert merged.header["attributes"]["made_by"] == "merge"
        first, second, _ = merged.header["attributes"]["sources"]
        assert (first["id"], first["version"]) == (source.id, 2)
        assert (second["name"], second["version"], second["episodes"]) == ("b.zarr", 3, 1)


def test_a_tagged_version_can_be_merged(make_dataset, tmp_path):
    with make_dataset([10, 20, 30]) as dataset:
        dataset.tag("all")
        dataset.evict(30)
    merge([Dataset.open(dataset.path, tag="all")], tmp_path / "m.zarr")
    assert len(ids(tmp_path / "m.zarr")) == 3


def test_sources_of_sources_are_remembered(make_dataset, tmp_path):
    with make_dataset([10, 20]) as dataset:
        pass
    merge([dataset.path], tmp_path / "m.zarr")
    filter_episodes(tmp_path / "m.zarr", tmp_path / "f.zarr", select(min_length=20))
    with Dataset.open(tmp_path / "f.zarr") as filtered:
        (source,) = filtered.header["attributes"]["sources"]
    assert source["sources"][0]["id"] == dataset.id


def test_attributes_and_env_that_differ_are_not_claimed(schema, make_episode, tmp_path):
    for name, game in (("a", "pong"), ("b", "tetris")):
        with Dataset.create(
            tmp_path / name,
            schema,
            env={"id": game, "size": 16},
            attributes={"fps": 60, "who": name},
        ) as dataset:
            dataset.append(make_episode(5))
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m")
    with Dataset.open(tmp_path / "m") as merged:
        assert merged.env == {"size": 16}
        assert merged.header["attributes"]["fps"] == 60
        assert "who" not in merged.header["attributes"]


def with_actions(schema: Schema, **changes: object) -> Schema:
    return replace(schema, action=replace(schema.action, **changes))


def test_the_wider_bounds_are_declared(schema, make_episode, tmp_path):
    wide = with_actions(schema, high=9)
    for name, declared in (("a", schema), ("b", wide)):
        with Dataset.create(tmp_path / name, declared) as dataset:
            action = np.full(6, declared.action.high)
            action[0] = 0
            dataset.append(make_episode(5, action=action))
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m")
    with Dataset.open(tmp_path / "m") as merged:
        assert merged.schema.action.n == 10
        assert len(merged) == 2


@pytest.mark.parametrize(
    ("one", "other", "low"),
    [
        (0, 0, 0),
        (0, None, None),
        (0, -1, -1),
        ((0, 1), 0, (0, 0)),
        (-1, (0, None), (-1, None)),
        ((0, 1), (1, 0), (0, 0)),
    ],
)
def test_wider_bounds(one, other, low):
    assert transform._wider(one, other, min) == low
    assert transform._wider(other, one, min) == low


def test_different_arrays_are_refused(schema, make_dataset, make_episode, tmp_path):
    with make_dataset([5]) as dataset:
        pass
    box = replace(schema, action=ArraySpec("box", (), "int64", 0, 3))
    Dataset.create(tmp_path / "kind", box).close()
    with pytest.raises(SchemaMismatchError, match="action: discrete"):
        merge([dataset.path, tmp_path / "kind"], tmp_path / "m")
    fewer = replace(schema, info={})
    Dataset.create(tmp_path / "fewer", fewer).close()
    with pytest.raises(SchemaMismatchError, match="info/ball"):
        merge([dataset.path, tmp_path / "fewer"], tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_nothing_is_left_of_a_failure(make_dataset, tmp_path):
    with make_dataset([10, 20], "a.zarr") as dataset:
        pass
    next(dataset.path.glob("parts/p*/reward/c.0")).unlink()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DatasetError):
        merge([dataset.path], tmp_path / "m.zarr")
    assert sorted(tmp_path.iterdir()) == before


def test_large_parts_in_bounded_batches(make_dataset, monkeypatch, tmp_path):
    monkeypatch.setattr(transform, "TARGET_STEPS", 50)
    with make_dataset([20] * 10) as dataset:
        pass
    seen = []
    merge([dataset.path], tmp_path / "m", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(3, 10), (6, 10), (9, 10), (10, 10)]
    monkeypatch.setattr(transform, "MAX_BATCH_BYTES", 1)
    merge([dataset.path], tmp_path / "n")
    assert ids(tmp_path / "n") == ids(dataset.path)


def test_existing_targets(make_dataset, tmp_path):
    with make_dataset([10], "a.zarr") as a, make_dataset([20], "b.zarr") as b:
        pass
    with pytest.raises(DatasetError, match="exists already"):
        merge([a.path], b.path)
    merge([a.path, b.path], b.path, overwrite=True)
    assert len(ids(b.path)) == 2
    (tmp_path / "folder").mkdir()
    merge([a.path], tmp_path / "folder")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(NotADatasetError):
        merge([a.path], tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_split(mixed, tmp_path):
    train, val = split(mixed, tmp_path / "t", tmp_path / "v", 0.3, seed=1)
    assert train.episodes + val.episodes == 12
    assert 0 < val.episodes < 12
    assert set(ids(tmp_path / "t")) | set(ids(tmp_path / "v")) == set(ids(mixed))
    assert not set(ids(tmp_path / "t")) & set(ids(tmp_path / "v"))
    split(mixed, tmp_path / "t2", tmp_path / "v2", 0.3, seed=1)
    assert ids(tmp_path / "v2") == ids(tmp_path / "v")
    split(mixed, tmp_path / "t3", tmp_path / "v3", 0.3, seed=2)
    assert ids(tmp_path / "v3") != ids(tmp_path / "v")


def test_splits_that_make_no_sense(make_dataset, mixed, tmp_path):
    with make_dataset([10], "one.zarr") as one:
        pass
    with pytest.raises(UsageError, match="empty"):
        split(one.path, tmp_path / "t", tmp_path / "v", 0.5)
    with pytest.raises(UsageError, match=r"1\.5"):
        split(mixed, tmp_path / "t", tmp_path / "v", 1.5)
    with pytest.raises(UsageError, match="same path"):
        split(mixed, tmp_path / "t", tmp_path / "t", 0.5)
    assert not (tmp_path / "t").exists()


def test_filter_by_provenance(mixed, tmp_path):
    with Dataset.open(mixed) as dataset:
        agent = by_provenance(dataset, policy="dreamer-*")
        report = filter_episodes(dataset, tmp_path / "f", agent)
        assert (report.episodes, report.dropped) == (6, 6)
        both = all_of(agent, select(ended="truncated"), by_provenance(dataset, env_id="test/*"))
        filter_episodes(dataset, tmp_path / "g", both)
        # A selection also works on a part of the table.
        table = dataset.episodes.where(dataset.episodes.length > 15)
        assert agent(table).sum() == sum(dataset.episodes.length[agent(dataset.episodes)] > 15)
        assert by_provenance(dataset)(table).all()
    with Dataset.open(tmp_path / "g") as dataset:
        assert {e.provenance.policy for e in dataset} == {"dreamer-1"}
        assert all(e.truncated for e in dataset)


def test_a_filter_that_nothing_passes(mixed, tmp_path):
    with pytest.raises(UsageError, match="None of the 12 episodes"):
        filter_episodes(mixed, tmp_path / "f", select(min_return=1e9))
    assert not (tmp_path / "f").exists()


def test_merging_nothing(tmp_path):
    with pytest.raises(UsageError):
        merge([], tmp_path / "m")


# --- summaries ---


def test_summary(mixed):
    with Dataset.open(mixed) as dataset:
        dataset.tag("now", "a note")
        summary = summarize(dataset)
        returns = dataset.episodes.total_reward
    assert (summary.episodes, summary.steps, summary.parts) == (12, 175, 12)
    assert summary.returns.mean == pytest.approx(returns.mean())
    assert summary.lengths.max == 20
    assert summary.ends == {"cut": 3, "terminated": 6, "truncated": 3, "both": 0}
    assert sum(summary.histogram) == 12
    assert [(m.policy, m.episodes) for m in summary.provenance] == [
        ("random", 2),
        ("random", 4),
        ("dreamer-1", 3),
        ("dreamer-2", 3),
    ]
    assert summary.provenance[0].seeds == [0, 1]
    assert summary.tags[0].note == "a note"
    assert summary.ratio == pytest.approx(summary.raw_bytes / summary.stored_bytes)


def test_summary_of_an_empty_dataset(schema, tmp_path):
    with Dataset.create(tmp_path / "d", schema) as dataset:
        summary = summarize(dataset)
    assert summary.returns is None
    assert summary.histogram == ()
    assert summary.ratio == 1


def test_datasets_are_found(make_dataset, tmp_path):
    with make_dataset([5], "runs/a.zarr"), make_dataset([5], "runs/deep/b.zarr") as b:
        pass
    (b.path / "zarr.json").unlink()  # damaged, but still to be seen
    (tmp_path / "runs" / "link").symlink_to(b.path)
    merge([tmp_path / "runs" / "a.zarr"], tmp_path / "runs" / ".hidden")
    found = [path.relative_to(tmp_path).as_posix() for path in find_datasets(tmp_path)]
    assert found == ["runs/a.zarr", "runs/deep/b.zarr"]
    assert list(find_datasets(b.path)) == [b.path]
