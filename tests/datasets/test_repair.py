"""`repair`: after it a dataset is whole again, and no intact episode is lost."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

from wmtk.datasets import Dataset, Provenance
from wmtk.datasets.integrity.repair import RepairReport, repair
from wmtk.datasets.integrity.validate import validate
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.commit_log import CommitLog
from wmtk.datasets.storage.part import new_part_id, write_part
from wmtk.datasets.storage.shard import APPEND_LEVEL
from wmtk.errors import CorruptDatasetError, DatasetError, NotADatasetError, SchemaMismatchError


def flip(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def spoil(path: Path) -> None:
    """Cut a file in half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def ids(root: Path, tag: str | None = None) -> list[str]:
    with Dataset.open(root, tag=tag) as dataset:
        return [name for entry in dataset.parts for name in entry.ids]


def repair_and_check(root: Path) -> RepairReport:
    """Repair; a dry run before it must report the same and change nothing."""
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    plan = repair(root, dry_run=True)
    assert {p: p.read_bytes() for p in root.rglob("*") if p.is_file()} == before
    report = repair(root)
    assert [(a.path, a.lost) for a in plan.actions] == [(a.path, a.lost) for a in report.actions]
    assert validate(root).problems == ()
    assert repair(root).actions == ()
    with Dataset.open(root) as dataset:
        assert [episode.id for episode in dataset] == ids(root)
    return report


@pytest.fixture
def root(make_dataset) -> Path:
    with make_dataset([10, 20, 30, 40]) as dataset:
        return dataset.path


@pytest.fixture
def big(make_dataset) -> Path:
    """One part of eight episodes, each about as long as a chunk of images."""
    with make_dataset([1000] * 8, at_once=True) as dataset:
        return dataset.path


def image_of(root: Path, number: int = 0) -> Path:
    return sorted(root.glob("parts/p*/obs/image/c.*"))[number]


def test_a_whole_dataset_is_left_alone(root):
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    assert repair(root).actions == ()
    assert {p: p.read_bytes() for p in root.rglob("*") if p.is_file()} == before


# --- parts ---


def test_a_flipped_bit_costs_only_the_episodes_it_touches(big):
    before = ids(big)
    with Dataset.open(big) as dataset:
        original = {episode.id: episode for episode in dataset}
        first = dataset.parts[0].first
    flip(image_of(big), image_of(big).stat().st_size // 2)
    report = repair_and_check(big)
    after = ids(big)
    assert 1 <= len(report.lost) <= 3
    assert after == [name for name in before if name not in report.lost]
    with Dataset.open(big) as dataset:
        assert dataset.parts[0].first == first
        for episode in dataset:
            assert episode.provenance == original[episode.id].provenance
            assert episode.seed == original[episode.id].seed
    assert len(list((big / "quarantine").glob("p*"))) == 1


def test_order_is_kept_around_a_salvaged_part(make_dataset, make_episode):
    with make_dataset([10]) as dataset:
        dataset.append([make_episode(1000, seed=n) for n in range(10, 18)])
        dataset.append(make_episode(10, seed=99))
        root = dataset.path
    before = ids(root)
    image = image_of(root, 1)
    flip(image, image.stat().st_size // 2)
    report = repair_and_check(root)
    assert ids(root) == [name for name in before if name not in report.lost]
    assert ids(root)[-1] == before[-1]


@pytest.mark.parametrize("keep", [0.999, 0.6])
def test_a_truncated_file_keeps_the_episodes_before_the_cut(big, keep):
    before = ids(big)
    image = image_of(big)
    image.write_bytes(image.read_bytes()[: int(image.stat().st_size * keep)])
    report = repair_and_check(big)
    after = ids(big)
    assert after == before[: len(after)]
    assert len(after) >= 8 * keep - 2
    assert set(report.lost) == set(before) - set(after)


def test_a_damaged_index_costs_nothing(big):
    before = ids(big)
    image = image_of(big)
    flip(image, image.stat().st_size - 10)
    assert repair_and_check(big).lost == ()
    assert ids(big) == before


@pytest.mark.parametrize("name", ["terminated/c.0", "truncated/c.0", "action/zarr.json"])
def test_what_can_be_derived_costs_nothing(big, name):
    before = ids(big)
    next(big.glob(f"parts/p*/{name}")).unlink()
    assert repair_and_check(big).lost == ()
    assert ids(big) == before


def errors_of(root: Path) -> list[Path]:
    return [error.path for error in validate(root).errors]


@pytest.mark.parametrize("place", [-3, 777, b"test/Env-v0", b"chunk_rows"])
def test_a_flipped_bit_in_the_metadata_of_a_part_costs_no_episode(root, place):
    before = ids(root)
    metadata = sorted(root.glob("parts/p*/zarr.json"))[1]
    data = metadata.read_bytes()
    flip(metadata, data.index(place) if isinstance(place, bytes) else place)
    damaged = metadata.read_bytes()
    assert errors_of(root) == [metadata]
    report = repair_and_check(root)
    assert report.lost == ()
    assert ids(root) == before
    (action,) = report.actions
    assert action.path == metadata.parent
    assert "seeds and provenance" in action.what
    assert "zarr.json" in action.what
    with Dataset.open(root) as dataset:
        notes = [episode.provenance.extra.get("repair") for episode in dataset]
        assert [note is not None for note in notes] == [False, True, False, False]
    aside = root / "quarantine" / metadata.parent.name
    assert (aside / "zarr.json").read_bytes() == damaged


def test_lost_metadata_of_a_part_costs_only_the_provenance(root):
    before = ids(root)
    sorted(root.glob("parts/p*/zarr.json"))[1].unlink()
    report = repair_and_check(root)
    assert report.lost == ()
    assert "provenance" in report.actions[0].what
    assert ids(root) == before
    with Dataset.open(root) as dataset:
        assert dataset[1].provenance.extra["repair"]
        assert dataset[1].provenance == Provenance(extra=dataset[1].provenance.extra)


def test_missing_parts_are_dropped_and_listed(root):
    before = ids(root)
    gone = sorted(root.glob("parts/p*"))[1:3]
    for part in gone:
        shutil.rmtree(part)
    with pytest.raises(CorruptDatasetError):
        Dataset.open(root)
    report = repair_and_check(root)
    assert ids(root) == [before[0], before[3]]
    assert report.lost == (before[1], before[2])


def test_a_part_without_a_whole_episode(root):
    before = ids(root)
    spoil(image_of(root, 0))
    assert repair_and_check(root).lost == (before[0],)
    assert ids(root) == before[1:]


def test_tagged_parts_are_salvaged_too(big, make_episode):
    with Dataset.open(big, "a") as dataset:
        dataset.tag("all")
        dataset.append(make_episode(10, seed=99))
        dataset.evict(10)
        live = ids(big)
    before = ids(big, "all")
    assert len(before) == 8
    image = image_of(big)
    flip(image, image.stat().st_size // 2)
    report = repair_and_check(big)
    assert ids(big) == live
    assert ids(big, "all") == [name for name in before if name not in report.lost]
    with Dataset.open(big, "a") as dataset:
        dataset.delete_tag("all")
    assert validate(big).problems == ()


def test_a_part_that_is_live_and_tagged(big):
    with Dataset.open(big, "a") as dataset:
        dataset.tag("all")
    image = image_of(big)
    flip(image, image.stat().st_size // 2)
    repair_and_check(big)
    assert ids(big, "all") == ids(big)
    assert len(list(big.glob("parts/p*"))) == 1


# --- orphans ---


def test_an_append_that_was_killed_before_its_commit_is_added(root, schema, make_episode):
    before = ids(root)
    episodes = [make_episode(7, seed=50), make_episode(8, seed=51)]
    write_part(root, new_part_id(5), schema, episodes, APPEND_LEVEL)
    assert validate(root).warnings
    repair_and_check(root)
    assert ids(root) == [*before, *[episode.id for episode in episodes]]


def test_whole_episodes_of_a_damaged_orphan_are_added(root, schema, make_episode):
    before = ids(root)
    episodes = [make_episode(1000, seed=seed) for seed in range(50, 58)]
    entry = write_part(root, new_part_id(5), schema, episodes, APPEND_LEVEL)
    image = next((root / "parts" / entry.part).glob("obs/image/c.*"))
    flip(image, image.stat().st_size // 2)
    report = repair_and_check(root)
    kept = [episode.id for episode in episodes if episode.id not in report.lost]
    assert 5 <= len(kept) <= 7
    assert ids(root) == before + kept
    assert (root / "quarantine" / entry.part).is_dir()


def test_an_orphan_without_metadata_is_set_aside(root, schema, make_episode):
    entry = write_part(root, new_part_id(5), schema, [make_episode(7)], APPEND_LEVEL)
    spoil(root / "parts" / entry.part / "zarr.json")
    before = ids(root)
    repair_and_check(root)
    assert ids(root) == before
    assert (root / "quarantine" / entry.part).is_dir()


def test_a_compaction_that_was_killed_before_its_commit_duplicates_nothing(root, schema):
    before = ids(root)
    with Dataset.open(root) as dataset:
        write_part(root, new_part_id(4), schema, list(dataset), APPEND_LEVEL)
    repair_and_check(root)
    assert ids(root) == before
    assert len(list(root.glob("parts/p*"))) == 1


def test_a_compaction_of_evicted_episodes_does_not_bring_them_back(root, schema):
    with Dataset.open(root) as dataset:
        write_part(root, new_part_id(4), schema, list(dataset)[:2], APPEND_LEVEL)
    with Dataset.open(root, "a") as dataset:
        dataset.evict(90)
    live = ids(root)
    repair_and_check(root)
    assert ids(root) == live


# --- log, tags, header ---


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("place", [12, 40, -90, -3])
def test_a_flipped_bit_in_a_log_record_costs_no_episode(root, version, place):
    before = ids(root)
    record = root / "log" / f"{version:08d}.json"
    flip(record, place)
    damaged = record.read_bytes()
    assert record in errors_of(root)
    report = repair_and_check(root)
    assert report.lost == ()
    assert any(record.name in action.what for action in report.actions)
    assert ids(root) == before
    with Dataset.open(root) as dataset:
        assert list(dataset.episodes.episode) == [0, 1, 2, 3]
    assert damaged in [path.read_bytes() for path in root.glob("quarantine/log-0*.json")]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("damage", [spoil, Path.unlink])
def test_no_episode_is_lost_with_a_log_record(root, version, damage):
    before = ids(root)
    damage(root / "log" / f"{version:08d}.json")
    report = repair_and_check(root)
    assert report.lost == ()
    assert ids(root) == before
    with Dataset.open(root) as dataset:
        assert list(dataset.episodes.episode) == [0, 1, 2, 3]
        assert dataset.version > 3


def test_no_episode_is_lost_with_the_whole_log(root):
    before = ids(root)
    shutil.rmtree(root / "log")
    assert repair_and_check(root).lost == ()
    assert ids(root) == before


def test_no_episode_is_lost_with_the_record_of_a_compaction(root, make_episode):
    before = ids(root)
    with Dataset.open(root, "a") as dataset:
        dataset.compact()
        dataset.append(make_episode(7, seed=50))
    after = ids(root)
    assert after[:4] == before
    spoil(root / "log" / "00000005.json")
    assert repair_and_check(root).lost == ()
    assert ids(root) == after


def test_a_compaction_of_tagged_sources_duplicates_nothing(root):
    before = ids(root)
    with Dataset.open(root, "a") as dataset:
        dataset.tag("small")
        dataset.compact()
    (root / "log" / "00000005.json").unlink()
    repair_and_check(root)
    assert ids(root) == before
    assert ids(root, "small") == before


def test_a_damaged_record_below_a_snapshot_costs_nothing(root, make_episode):
    log = CommitLog(root)
    log.snapshot(log.read())
    with Dataset.open(root, "a") as dataset:
        dataset.append(make_episode(7, seed=50))
    before = ids(root)
    spoil(root / "log" / "00000002.json")
    assert repair_and_check(root).lost == ()
    assert ids(root) == before
    assert (root / "quarantine" / "log-00000002.json").exists()


def test_the_records_replace_a_damaged_snapshot(root):
    before = ids(root)
    log = CommitLog(root)
    log.snapshot(log.read())
    spoil(log.snapshot_path(4))
    assert repair_and_check(root).lost == ()
    assert ids(root) == before


def test_a_lost_snapshot_without_records(root):
    before = ids(root)
    log = CommitLog(root)
    log.snapshot(log.read())
    for version in range(1, 5):
        log.record_path(version).unlink()
    spoil(log.snapshot_path(4))
    assert repair_and_check(root).lost == ()
    assert ids(root) == before


def test_a_damaged_tag_is_set_aside_with_what_it_kept(root, make_episode):
    with Dataset.open(root, "a") as dataset:
        dataset.tag("old")
        dataset.evict(50)
    live = ids(root)
    kept = len(list(root.glob("parts/p*")))
    spoil(root / "tags" / "old.json")
    repair_and_check(root)
    assert ids(root) == live
    assert len(list(root.glob("parts/p*")) + list(root.glob("quarantine/p*"))) == kept
    assert (root / "quarantine" / "tag-old.json").exists()


def test_a_flipped_bit_in_a_tag_costs_only_the_tag(root):
    before = ids(root)
    with Dataset.open(root, "a") as dataset:
        dataset.tag("all", "a note")
    tag = root / "tags" / "all.json"
    flip(tag, 50)
    damaged = tag.read_bytes()
    assert errors_of(root) == [tag]
    (action,) = repair_and_check(root).actions
    assert action.path == tag
    assert action.what.startswith("set aside the tag")
    assert ids(root) == before
    assert (root / "quarantine" / "tag-all.json").read_bytes() == damaged


def test_a_flipped_bit_in_the_header_is_named_and_costs_no_episode(root, tmp_path, schema):
    before = ids(root)
    header = root / "zarr.json"
    flip(header, header.read_bytes().index(b"test/Env-v0"))
    damaged = header.read_bytes()
    with pytest.raises(DatasetError):
        Dataset.open(root)
    assert errors_of(root) == [header]
    files = sorted(root.rglob("*"))
    with pytest.raises(CorruptDatasetError, match="--header-from") as caught:
        repair(root)
    assert caught.value.path == header
    assert sorted(root.rglob("*")) == files
    Dataset.create(tmp_path / "same.zarr", schema).close()
    assert repair(root, header_from=tmp_path / "same.zarr").lost == ()
    assert validate(root).problems == ()
    assert ids(root) == before
    assert (root / "quarantine" / "header.json").read_bytes() == damaged


def test_a_header_damaged_only_for_plain_zarr(root):
    content = json.loads((root / "zarr.json").read_text())["attributes"]
    document = {"zarr_format": 2, "node_type": "array", "attributes": content}
    (root / "zarr.json").write_text(json.dumps(document))
    assert errors_of(root) == [root / "zarr.json"]
    repair_and_check(root)
    written = json.loads((root / "zarr.json").read_text())
    assert written == {"zarr_format": 3, "node_type": "group", "attributes": content}


def test_a_lost_header_needs_one_of_the_same_task(root, tmp_path, schema):
    before = ids(root)
    with Dataset.open(root) as dataset:
        env = dict(dataset.env)
    (root / "zarr.json").unlink()
    with pytest.raises(CorruptDatasetError, match="--header-from"):
        repair(root)
    Dataset.create(tmp_path / "same.zarr", schema, env=env, capacity=5).close()
    repair(root, header_from=tmp_path / "same.zarr")
    assert validate(root).problems == ()
    assert ids(root) == before
    with Dataset.open(root) as dataset:
        assert dataset.env == env
        assert dataset.capacity is None


def test_a_header_of_another_task_is_refused(root, tmp_path, schema):
    from dataclasses import replace

    (root / "zarr.json").unlink()
    before = sorted(root.rglob("*"))
    other = replace(schema, info={}, structure=None)
    Dataset.create(tmp_path / "other.zarr", other).close()
    with pytest.raises(SchemaMismatchError, match="info/ball"):
        repair(root, header_from=tmp_path / "other.zarr")
    assert sorted(root.rglob("*")) == before


# --- the rest ---


def test_dead_staging_and_trash_are_deleted(root):
    part = next(root.glob("parts/p*"))
    shutil.copytree(part, root / "tmp" / "p00000099-00000000")
    shutil.copytree(part, root / "trash" / "p00000098-00000000")
    (root / "log" / ".00000009.json.abcd").write_text("{")
    before = ids(root)
    assert len(repair_and_check(root).actions) == 3
    assert ids(root) == before
    assert [p.name for p in (root / "tmp").iterdir()] == ["zarr.json"]


def test_markers_are_written_again_and_plain_zarr_reads_on(root):
    for path in ("parts/zarr.json", "log/zarr.json", "tmp/zarr.json"):
        (root / path).unlink()
    for path in root.glob("parts/p*/obs/zarr.json"):
        path.write_text("?")
    spoil(image_of(root, 0))
    repair_and_check(root)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = zarr.open_group(root, mode="r")
        names = [name for name, _ in group["parts"].members()]
        assert "quarantine" in [name for name, _ in group.members()]
    with Dataset.open(root) as dataset:
        part = dataset.parts[0].part
        assert part in names
        assert np.array_equal(group[f"parts/{part}/reward"][:], dataset[0].reward)


def test_a_writer_is_not_disturbed(make_dataset):
    with make_dataset([5]) as dataset:
        with pytest.raises(DatasetError, match="open for writing"):
            repair(dataset.path)
        with pytest.raises(DatasetError, match="open for writing"):
            repair(dataset.path, dry_run=True)
    repair(dataset.path)


def test_writers_wait_for_a_repair(root):
    with (
        atomic.FolderLock(root / "tmp", exclusive=True),
        pytest.raises(DatasetError, match="repaired"),
    ):
        Dataset.open(root, "a")


def test_links_are_never_followed(root, tmp_path):
    part = next(root.glob("parts/p*"))
    part.rename(tmp_path / "moved")
    part.symlink_to(tmp_path / "moved")
    with pytest.raises(CorruptDatasetError, match="symbolic link"):
        repair(root)


def test_what_is_not_a_dataset(tmp_path):
    with pytest.raises(NotADatasetError):
        repair(tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_costs_no_intact_episode(make_dataset, make_episode, seed):
    """Random damage to three files at once; a part's damage may cost that part's episodes only."""
    rng = np.random.default_rng(seed)
    with make_dataset([10, 20, 30, 40, 50]) as dataset:
        dataset.compact()
        dataset.tag("early")
        for number in range(5):
            dataset.append(make_episode(10, seed=100 + number))
        root = dataset.path
        owner = {name: entry.part for entry in dataset.parts for name in entry.ids}
    files = [p for p in sorted(root.rglob("*")) if p.is_file() and p != root / "zarr.json"]
    chosen = [files[i] for i in rng.choice(len(files), 3, replace=False)]
    for path in chosen:
        if rng.random() < 0.5:
            spoil(path)
        else:
            path.unlink()
    touched = {path.relative_to(root).parts[1] for path in chosen if "parts" in path.parts}
    repair(root)
    report = validate(root)
    assert report.problems == ()
    after = ids(root)
    assert len(after) == len(set(after))
    assert {name for name, part in owner.items() if part not in touched} <= set(after) <= set(owner)
    assert after == [name for name in owner if name in after]


def test_a_part_without_any_metadata_is_reported_as_unreadable(root, run_wmtk) -> None:
    """Both its log record and its own metadata are damaged: its episodes are unknown."""
    part = Dataset.open(root).parts[-1].part
    spoil(root / "parts" / part / "zarr.json")
    spoil(max((root / "log").glob("0*.json")))
    done = run_wmtk("data", "repair", root, "--yes")
    assert "no episode lost, besides those in 1 unreadable part." in " ".join(done.output.split())
    assert (root / "quarantine" / part).is_dir()
    assert len(ids(root)) == 3
