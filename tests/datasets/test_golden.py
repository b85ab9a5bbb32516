"""The dataset in tests/golden, written by format version 1: it must read the same for ever."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import zarr

from wmtk.datasets import Dataset, SequenceSampler
from wmtk.datasets.integrity.validate import validate

FOLDER = Path(__file__).parents[1] / "golden"
ROOT = FOLDER / "v1.zarr"


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads((FOLDER / "v1.json").read_text())


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    """The script that made it, for the values of every row."""
    spec = importlib.util.spec_from_file_location("golden_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files_in(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(autouse=True, scope="module")
def unchanged() -> Any:
    before = files_in(FOLDER / "v1.zarr")
    yield
    assert files_in(FOLDER / "v1.zarr") == before


def test_it_is_small_and_whole() -> None:
    assert sum(len(data) for data in files_in(ROOT).values()) < 60_000
    assert validate(ROOT).problems == ()


def test_episodes(expected) -> None:
    with Dataset.open(ROOT) as dataset:
        assert dataset.header["format"] == expected["format"]
        assert dataset.version == expected["version"]
        assert [list(entry.ids) for entry in dataset.parts] == expected["parts"]
        assert dataset.capacity == 1000
        assert dataset.env == {"id": "golden/Arithmetic-v1", "kwargs": {"size": 8}}
        assert dataset.header["attributes"] == {"source": {"any": ["thing", 1, None]}}
        table = dataset.episodes
        assert table.episode.tolist() == [row["number"] for row in expected["episodes"]]
        assert table.length.tolist() == [row["length"] for row in expected["episodes"]]
        assert table.total_reward.tolist() == [row["return"] for row in expected["episodes"]]
        for row, episode in zip(expected["episodes"], dataset, strict=True):
            assert episode.id == row["id"]
            assert episode.total_reward == row["return"]
            assert (episode.terminated, episode.truncated) == (row["terminated"], row["truncated"])
            assert episode.seed == row["seed"]
            assert episode.obs["image"][-1, 7, 7].tolist() == row["last_image_pixel"]
            assert episode.obs["robot/arm/joints"][-1].tolist() == row["last_joints"]
            assert episode.action.tolist() == row["actions"]
            assert episode.provenance.policy == ("random" if row["number"] < 4 else "dreamer")
            assert episode.provenance.extra == {"note": "λ, 世界"}


def test_every_row_has_the_value_of_the_script(golden) -> None:
    with Dataset.open(ROOT) as dataset:
        assert dataset.schema == golden.SCHEMA
        for number, episode in zip(dataset.episodes.episode.tolist(), dataset, strict=True):
            true = golden.episode(number)
            assert episode.provenance == true.provenance
            for path, rows in true.arrays().items():
                found = episode.arrays()[path]
                assert found.dtype == rows.dtype
                assert np.array_equal(found, rows), (number, path)


def test_the_tag_and_the_old_versions(expected) -> None:
    with Dataset.open(ROOT, tag="published") as dataset:
        ids = [episode.id for episode in dataset]
        assert ids == expected["tags"]["published"]
        assert dataset.tags()[0].note == "as in the paper"
    with Dataset.open(ROOT, version=6) as dataset:  # the snapshot
        assert [episode.id for episode in dataset] == expected["parts"][0]


@pytest.mark.parametrize("memory", [0, 2**24])
def test_windows(golden, memory) -> None:
    with Dataset.open(ROOT) as dataset:
        sampler = SequenceSampler(
            dataset, batch_size=16, length=6, seed=3, info=["lives"], memory=memory
        )
        for _ in range(4):
            batch = sampler.sample()
            for b in range(16):
                true = golden.episode(int(batch.episode[b]))
                start, rows = int(batch.start[b]), int(batch.mask[b].sum())
                span = slice(start, start + rows)
                assert rows == min(6, true.length + 1)
                assert batch.is_first[b, 0] == (start == 0)
                assert np.array_equal(batch.action[b, :rows], true.action[span])
                assert np.array_equal(batch.reward[b, :rows], true.reward[span].astype("f4"))
                assert np.array_equal(batch.info["lives"][b, :rows], true.info["lives"][span])
                for key, values in true.obs.items():
                    assert np.array_equal(batch.obs[key][b, :rows], values[span]), key


def test_a_stranger_reads_it_with_plain_zarr(golden, expected) -> None:
    root = zarr.open_group(ROOT, mode="r")
    found = {}
    for part in root["parts"].group_keys():
        group = root["parts"][part]
        for row in group.attrs["wmtk"]["episodes"]:
            span = slice(row["start"], row["start"] + row["length"] + 1)
            number = row["seed"] - 1000
            found[number] = row["id"]
            for path, values in golden.episode(number).arrays().items():
                assert np.array_equal(group[path][span], values), (number, path)
    assert found == {row["number"]: row["id"] for row in expected["episodes"]}


def test_a_copy_can_be_appended_to_evicted_and_compacted(golden, expected, tmp_path) -> None:
    root = shutil.copytree(ROOT, tmp_path / "v1.zarr")
    before = [row["id"] for row in expected["episodes"]]
    with Dataset.open(root, "a") as dataset:
        dataset.append(golden.episode(0))
        assert [episode.id for episode in dataset] == [*before, golden.episode(0).id]
        dataset.compact()
        dataset.evict(40)
        kept = [episode.id for episode in dataset]
        assert kept == [*before, golden.episode(0).id][-len(kept) :]
    with Dataset.open(root, tag="published") as dataset:
        assert [episode.id for episode in dataset] == expected["tags"]["published"]
    assert not validate(root).errors


def test_the_script_still_writes_the_same_episodes(golden, expected, tmp_path) -> None:
    """Bytes may change with the compressor; what a reader gets may not."""
    with Dataset.open(golden.make(tmp_path)) as dataset:
        assert [list(entry.ids) for entry in dataset.parts] == expected["parts"]
    assert json.loads((tmp_path / "v1.json").read_text()) == expected
