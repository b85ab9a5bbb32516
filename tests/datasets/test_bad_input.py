"""Hostile and mistaken input: names, links, absurd sizes, foreign stores, wrong episodes.

Whoever makes a dataset can make its checksums too, so metadata is attacked with right ones.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
from numcodecs.zstd import Zstd

from wmtk.datasets import Dataset, Episode, Provenance, Schema, SequenceSampler, repair
from wmtk.datasets.integrity.validate import part_problems, validate
from wmtk.datasets.storage import atomic
from wmtk.errors import (
    CorruptDatasetError,
    DatasetError,
    EpisodeError,
    FormatVersionError,
    NotADatasetError,
    SpaceError,
    TagError,
)
from wmtk.spaces import ArraySpec

BAD_NAMES = [
    "..",
    "../x",
    "a/../b",
    "/etc/passwd",
    ".hidden",
    "",
    "a" * 65,
    "a b",
    "a\0b",
    "ä",
    "a\n",
]
Edit = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is not the matter here, and hundreds of datasets are made."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_could_leave_the_dataset_are_refused(make_dataset, schema, name) -> None:
    dataset = make_dataset([2])
    with pytest.raises(TagError, match="is not a valid name"):
        dataset.tag(name)
    with pytest.raises(TagError):
        Dataset.open(dataset.path, tag=name)
    for field in ("obs", "info"):
        with pytest.raises(SpaceError, match="is not a valid name"):
            Schema(**{"obs": schema.obs, "action": schema.action, field: {name: FLOAT}})
    assert sorted(os.listdir(dataset.path / "tags")) == ["zarr.json"]


FLOAT = ArraySpec("box", (), "float32")


@pytest.mark.parametrize("key", ["zarr.json", "a/zarr.json", "c", "c/x"])
def test_keys_that_clash_with_zarr_are_refused(schema, key) -> None:
    with pytest.raises(SpaceError, match="clashes"):
        Schema(obs={key: FLOAT}, action=schema.action)


def test_a_key_inside_an_array_is_refused(schema) -> None:
    with pytest.raises(SpaceError, match="lies inside"):
        Schema(obs={"a": FLOAT, "a/b": FLOAT}, action=schema.action)


# --- files that are rewritten with right checksums --------------------------------------------


def reseal_header(root: Path, edit: Edit) -> None:
    path = root / "zarr.json"
    document = json.loads(path.read_bytes())
    header = document["attributes"]["wmtk"]
    header.pop("checksum")
    document["attributes"]["wmtk"] = atomic.with_checksum(edit(header) or header)
    path.write_bytes(atomic.json_bytes(document))


def reseal(path: Path, edit: Edit) -> None:
    document = json.loads(path.read_bytes())
    document.pop("checksum")
    path.write_bytes(atomic.json_bytes(atomic.with_checksum(edit(document) or document)))


def newest_record(root: Path) -> Path:
    return max((root / "log").glob("0*.json"))


def reseal_part(root: Path, edit: Edit) -> None:
    """Rewrite the metadata of the newest part and its digest in the log."""
    part = max((root / "parts").glob("p*"))
    document = json.loads((part / "zarr.json").read_bytes())
    edited = edit(document["attributes"]["wmtk"])
    if edited is not None:
        document["attributes"]["wmtk"] = edited
    data = atomic.json_bytes(document)
    (part / "zarr.json").write_bytes(data)

    def digest(record: dict[str, Any]) -> None:
        record["add"][0]["digest"] = hashlib.sha256(data).hexdigest()

    reseal(newest_record(root), digest)


def reseal_shard(root: Path, array: str, data: bytes) -> None:
    """Replace the data of an array of the newest part."""
    part = max((root / "parts").glob("p*"))
    file = next((part / array).glob("c*"))
    file.write_bytes(data)

    def sizes(attributes: dict[str, Any]) -> None:
        attributes["arrays"][array] |= {"bytes": len(data), "crc32c": google_crc32c.value(data)}
        attributes["arrays"][array]["chunks"] = None  # as in older parts: not refused for these

    reseal_part(root, sizes)


def read_everything(root: Path) -> None:
    with Dataset.open(root) as dataset:
        for _ in dataset:
            pass
        list(dataset.describe())
        SequenceSampler(dataset, batch_size=4, length=4, info=list(dataset.schema.info)).sample()


def assert_refused(root: Path, *, naming: str = "") -> None:
    """Everything that reads raises a typed error that says where and what next, and uses no
    memory to speak of."""
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError) as caught:
            read_everything(root)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    assert caught.value.path is not None
    assert str(root) in str(caught.value)
    assert naming in str(caught.value)
    assert caught.value.hint
    writer: DatasetError | None = None
    try:
        Dataset.open(root, "a").close()
    except DatasetError as error:
        writer = error
    assert writer is None or writer.hint


def put(*keys: Any) -> Edit:
    """An edit that sets document[keys…] to the last one."""
    *path, last, value = keys

    def edit(document: Any) -> None:
        for key in path:
            document = document[key]
        if value is ...:
            del document[last]
        else:
            document[last] = value

    return edit


HUGE = 10**13
IMAGE = ("schema", "obs", "image")


@pytest.mark.parametrize(
    "edit",
    [
        put("schema", ...),
        put("schema", []),
        put("schema", "obs", {}),
        put("schema", "obs", {"../x": {"kind": "box", "shape": [], "dtype": "uint8"}}),
        put(*IMAGE, "shape", [HUGE, HUGE]),
        put(*IMAGE, "shape", [16, 16, 2**30]),
        put(*IMAGE, "shape", [-16, 16, 1]),
        put(*IMAGE, "shape", "999"),
        put(*IMAGE, "shape", [None]),
        put(*IMAGE, "shape", [16.5, 16, 1]),
        put(*IMAGE, "shape", [1] * 100),
        put(*IMAGE, "dtype", "object"),
        put(*IMAGE, "dtype", "|V99"),
        put(*IMAGE, "dtype", ["uint8"]),
        put(*IMAGE, "kind", "graph"),
        put(*IMAGE, "kind", []),
        put(*IMAGE, "low", [0, 1]),
        put(*IMAGE, "low", "0"),
        put(*IMAGE, "high", 256),
        put("schema", "action", "low", None),
        put("schema", "action", "high", [3]),
        put("schema", "action", "shape", [2]),
        put("schema", "action", "dtype", "float32"),
        put("schema", "reward", "dtype", "int8"),
        put("schema", "structure", "nowhere"),
        put("schema", "structure", {"dict": {"a": "image"}}),
        put("schema", "structure", {"dict": 1}),
        put("schema", "structure", [[[[]]]]),
        put(
            "schema",
            "info",
            {f"k{n}": {"kind": "box", "shape": [], "dtype": "bool"} for n in range(300)},
        ),
        put("capacity", -1),
        put("capacity", "1"),
        put("capacity", ...),
        put("env", None),
        put("id", 7),
        put("format", "1"),
        put("format", 0),
    ],
)
def test_an_impossible_header_is_refused(make_dataset, edit) -> None:
    root = make_dataset([3]).path
    reseal_header(root, edit)
    assert_refused(root, naming="zarr.json")


@pytest.mark.parametrize(
    "edit",
    [
        put("add", ...),
        put("add", "x"),
        put("add", [1]),
        put("add", ["part"]),
        put("remove", None),
        put("remove", ["../../x"]),
        put("remove", [".."]),
        put("remove", [7]),
        put("version", 7),
        put("version", "1"),
        put("add", 0, "part", "../../x"),
        put("add", 0, "part", "/etc"),
        put("add", 0, "part", "p00000001"),
        put("add", 0, "first", -1),
        put("add", 0, "first", HUGE**3),
        put("add", 0, "first", 0.5),
        put("add", 0, "first", False),
        put("add", 0, "first", 1),
        put("add", []),
        put("why", "evict"),
        put("add", 0, "bytes", -1),
        put("add", 0, "digest", None),
        put("add", 0, "ids", ["zz"]),
        put("add", 0, "ids", ["0" * 99]),
        put("add", 0, "ids", []),
        put("add", 0, "lengths", [HUGE]),
        put("add", 0, "lengths", [2**31 - 1]),
        put("add", 0, "lengths", [0]),
        put("add", 0, "lengths", [-3]),
        put("add", 0, "lengths", [4]),
        put("add", 0, "lengths", [[3]]),
        put("add", 0, "returns", ["nan"]),
        put("add", 0, "returns", [None]),
        put("add", 0, "ends", [9]),
    ],
)
def test_an_impossible_log_record_is_refused(make_dataset, edit) -> None:
    root = make_dataset([3]).path
    reseal(newest_record(root), edit)
    assert_refused(root)


@pytest.mark.parametrize(
    "edit",
    [
        put("parts", ...),
        put("parts", {}),
        put("removed", ["/"]),
        put("next_episode", "x"),
        put("next_episode", ...),
        put("version", 2),
    ],
)
def test_an_impossible_snapshot_is_refused(make_dataset, edit) -> None:
    dataset = make_dataset([3])
    dataset._log.snapshot(dataset._state)
    reseal(dataset.path / "log" / "00000001.snapshot.json", edit)
    assert_refused(dataset.path, naming="00000001.snapshot.json")


@pytest.mark.parametrize(
    "edit",
    [
        put("parts", ...),
        put("parts", [{}]),
        put("parts", 0, "part", "../x"),
        put("version", "1"),
        put("note", 3),
        put("tag", "other"),
    ],
)
def test_an_impossible_tag_is_refused(make_dataset, edit) -> None:
    dataset = make_dataset([3])
    dataset.tag("t")
    reseal(dataset.path / "tags" / "t.json", edit)
    with pytest.raises(CorruptDatasetError, match=r"t\.json"):
        Dataset.open(dataset.path, tag="t")
    with pytest.raises(CorruptDatasetError, match=r"t\.json"):
        dataset.evict(1) or dataset.tags()


@pytest.mark.parametrize("totals", [True, False])
def test_a_snapshot_that_leaves_out_a_part_is_refused(make_dataset, totals) -> None:
    """Also one of an earlier version, without totals: the records before it name the part."""
    dataset = make_dataset([3, 4, 5])
    dataset._log.snapshot(dataset._state)
    snapshot = dataset.path / "log" / "00000003.snapshot.json"

    def leave_out(document: Any) -> None:
        del document["parts"][1]
        if not totals:
            del document["totals"]

    reseal(snapshot, leave_out)
    assert_refused(dataset.path, naming="log")
    assert any(snapshot == problem.path for problem in validate(dataset.path).errors)
    dataset.close()
    repair(dataset.path)
    with Dataset.open(dataset.path) as repaired:
        assert [episode.length for episode in repaired] == [3, 4, 5]


def test_records_that_do_not_follow_from_each_other_are_refused(make_dataset) -> None:
    root = make_dataset([3, 4, 5]).path
    reseal(root / "log" / "00000002.json", put("add", 0, "first", 0))
    assert_refused(root, naming="00000002.json does not follow from version 1")


@pytest.mark.parametrize(
    ("key", "changes"),
    [("robot/pos", {"dtype": "int32"}), ("image", {"shape": [16, 1, 16]})],
)
def test_a_header_that_reads_the_same_bytes_otherwise_is_refused(
    make_dataset, key, changes
) -> None:
    root = make_dataset([3]).path
    reseal_header(root, lambda header: header["schema"]["obs"][key].update(changes))
    assert_refused(root, naming=f"obs/{key}/zarr.json")


ARRAY = ("arrays", "obs/image")


@pytest.mark.parametrize(
    "edit",
    [
        lambda _: [],
        put("arrays", ...),
        put("arrays", []),
        put("arrays", {}),
        put(*ARRAY, ...),
        put(*ARRAY, {}),
        put(*ARRAY, "rows", HUGE),
        put(*ARRAY, "rows", "4"),
        put(*ARRAY, "chunk_rows", HUGE),
        put(*ARRAY, "chunk_rows", 0),
        put(*ARRAY, "chunk_rows", -1),
        put(*ARRAY, "chunk_rows", 1),
        put(*ARRAY, "chunk_rows", 2.5),
        put(*ARRAY, "bytes", HUGE),
        put(*ARRAY, "bytes", None),
        put(
            "arrays",
            "../../../x",
            {"rows": 4, "chunk_rows": 4, "bytes": 1, "crc32c": 0, "metadata_crc32c": 0},
        ),
        put("episodes", ...),
        put("episodes", []),
        put("episodes", 0, "start", -2),
        put("episodes", 0, "start", 1),
        put("episodes", 0, "length", HUGE),
        put("episodes", 0, "length", 2),
        put("episodes", 0, "id", "0" * 16),
        put("episodes", 0, "seed", "x"),
        put("episodes", 0, "seed", True),
        put("episodes", 0, "return", 0.25),
        put("episodes", 0, "truncated", True),
        put("episodes", 0, "provenance", -1),
        put("episodes", 0, "provenance", 5),
        put("episodes", 0, "provenance", "x"),
        put("provenance", []),
        put("provenance", 0, 3),
    ],
)
def test_impossible_part_metadata_is_refused(make_dataset, edit) -> None:
    root = make_dataset([3]).path
    reseal_part(root, edit)
    assert_refused(root, naming="p00000001")


def crc(data: bytes) -> bytes:
    return struct.pack("<I", google_crc32c.value(data))


def shard(frames: list[bytes], index: list[tuple[int, int]] | None = None) -> bytes:
    """A shard file of the given zstd frames, all checksums right."""
    blobs = [frame + crc(frame) for frame in frames]
    ends = np.cumsum([0, *[len(blob) for blob in blobs]]).tolist()
    index = index or [(at, len(blob)) for at, blob in zip(ends, blobs, strict=False)]
    table = b"".join(struct.pack("<QQ", *row) for row in index)
    return b"".join(blobs) + table + crc(table)


def claims(size: int) -> bytes:
    """A frame with the content of a true one whose header claims `size` bytes."""
    frame = bytes(Zstd().encode(bytes(4 * 256)))
    header = b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little")
    return header + frame[7:]  # after a two-byte content size


TRUE_SIZE = 4 * 256  # four rows of 16 × 16
BOMB = bytes(Zstd(level=19).encode(bytes(2**28)))


@pytest.mark.parametrize(
    "data",
    [
        shard([claims(10**13)]),
        shard([claims(2**64 - 1)]),
        shard([claims(TRUE_SIZE - 1)]),
        shard([bytes(Zstd().encode(bytes(TRUE_SIZE - 10)))]),  # the rest would be left as it was
        shard([bytes(Zstd().encode(bytes(TRUE_SIZE + 10)))]),
        shard([bytes(Zstd().encode(bytes(TRUE_SIZE // 2))) * 2]),
        shard([BOMB]),
        shard([b"\x28\xb5\x2f\xfd\x00\x58" + b"\x01\x00\x00"]),  # of unknown size
        shard([b"no frame at all"]),
        shard([b""]),
        shard([], [(0, 0)]),
        shard([], [(2**64 - 1, 2**64 - 1)]),
        shard([bytes(Zstd().encode(bytes(TRUE_SIZE)))], [(0, 10**15)]),
        shard([bytes(Zstd().encode(bytes(TRUE_SIZE)))], [(5, 20)]),
        b"",
    ],
)
def test_a_crafted_shard_is_refused(make_dataset, data) -> None:
    root = make_dataset([3]).path
    reseal_shard(root, "obs/image", data)
    assert_refused(root, naming="obs/image/c.0.0.0.0")


def test_chunks_that_share_their_bytes_are_refused(make_dataset) -> None:
    """Otherwise a small file with a long index decodes to terabytes."""
    root = make_dataset([3]).path
    frame = bytes(Zstd().encode(bytes(256)))
    data = shard([frame], [(0, len(frame) + 4)] * 4)

    def rows_of_one(attributes: dict[str, Any]) -> None:
        attributes["arrays"]["obs/image"]["chunk_rows"] = 1

    reseal_shard(root, "obs/image", data)
    reseal_part(root, rows_of_one)
    assert_refused(root, naming="obs/image/c.0.0.0.0")


def test_billions_of_declared_rows_are_refused_before_they_are_allocated(make_dataset) -> None:
    root = make_dataset([3]).path
    rows = 2**31

    def absurd(attributes: dict[str, Any]) -> None:
        attributes["episodes"][0]["length"] = rows - 1
        for record in attributes["arrays"].values():
            record |= {"rows": rows, "chunk_rows": 2**16}

    reseal_part(root, absurd)
    reseal(newest_record(root), put("add", 0, "lengths", [rows - 1]))
    assert_refused(root, naming="p00000001")


def test_real_data_compresses_less_than_what_is_refused() -> None:
    """The limit on the ratio must not refuse what zstd really makes of constant frames."""
    from wmtk.datasets.storage.shard import COMPACT_LEVEL, MAX_CHUNK_BYTES, MAX_RATIO

    for size in (4096, 2**20, MAX_CHUNK_BYTES):
        assert len(Zstd(level=COMPACT_LEVEL).encode(bytes(size))) > size // MAX_RATIO + 1


# --- links and special files ------------------------------------------------------------------


def replace_by_link(path: Path, target: Path) -> None:
    path.rename(target)
    path.symlink_to(target)


@pytest.mark.parametrize(
    "inner",
    [
        "zarr.json",
        "parts",
        "log",
        "tags",
        "tmp",
        "trash",
        "parts/{part}",
        "parts/{part}/zarr.json",
        "parts/{part}/obs",
        "parts/{part}/obs/robot",
        "parts/{part}/obs/image",
        "parts/{part}/obs/image/c.0.0.0.0",
        "parts/{part}/action",
        "log/00000001.json",
    ],
)
def test_links_are_not_followed(make_dataset, tmp_path, inner) -> None:
    root = make_dataset([3]).path
    part = max((root / "parts").glob("p*")).name
    path = root / inner.format(part=part)
    replace_by_link(path, tmp_path / "elsewhere")
    assert_refused(root, naming=path.name)


def test_a_link_as_long_as_the_file_it_replaces_is_not_followed(make_dataset, tmp_path) -> None:
    """A link has the size of its target's path: here that of the declared file."""
    root = make_dataset([3]).path
    file = next((max((root / "parts").glob("p*")) / "obs" / "image").glob("c*"))
    size = file.stat().st_size
    target = tmp_path / ("x" if (size - len(str(tmp_path))) % 2 == 0 else "xx")
    padding = "./" * ((size - len(str(target))) // 2)
    file.rename(target)
    file.symlink_to(f"{tmp_path}/{padding}{target.name}")
    assert file.lstat().st_size == size
    assert file.stat().st_size == size
    assert_refused(root, naming=file.name)


@pytest.mark.parametrize("folder", ["tmp", "trash"])
def test_cleaning_up_never_leaves_the_dataset(make_dataset, tmp_path, folder) -> None:
    """Folders outside of the dataset that links point to are not deleted."""
    root = make_dataset([3]).path
    precious = tmp_path / "home" / "p00000009-00000000"
    precious.mkdir(parents=True)
    (precious / "thesis").write_text("years of work")
    (root / folder / "p00000009-00000000").symlink_to(precious)
    Dataset.open(root, "a").close()
    (root / folder / "zarr.json").unlink()
    (root / folder / "p00000009-00000000").unlink()
    (root / folder).rmdir()
    (root / folder).symlink_to(tmp_path / "home")
    with pytest.raises(CorruptDatasetError, match=folder):
        Dataset.open(root, "a")
    assert (precious / "thesis").read_text() == "years of work"


@pytest.mark.parametrize("name", ["zarr.json", "log/00000001.json", "parts/{part}/zarr.json"])
def test_a_pipe_in_the_place_of_a_file_does_not_block(make_dataset, name) -> None:
    root = make_dataset([3]).path
    path = root / name.format(part=max((root / "parts").glob("p*")).name)
    path.unlink()
    os.mkfifo(path)
    assert_refused(root, naming="not a regular file")
    path.unlink()
    path.mkdir()
    assert_refused(root, naming=path.name)


# --- what is not a dataset of ours ------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_foreign_store_is_refused(tmp_path, zarr_format) -> None:
    group = zarr.create_group(tmp_path / "f.zarr", zarr_format=zarr_format)
    group.create_array("action", shape=(4,), dtype="int64")
    with pytest.raises(NotADatasetError, match=r"wmtk data import|not a wmtk dataset"):
        Dataset.open(tmp_path / "f.zarr")


def test_nothing_and_a_file_are_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("nothing", "file", "."):
        with pytest.raises(NotADatasetError) as caught:
            Dataset.open(tmp_path / name)
        assert caught.value.hint


def test_a_newer_format_is_refused_with_the_way_out(make_dataset) -> None:
    root = make_dataset([3]).path
    reseal_header(root, put("format", 2))
    for mode in ("r", "a"):
        with pytest.raises(FormatVersionError, match=r"version 2.*reads up to 1(.|\n)*upgrade"):
            Dataset.open(root, mode)


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        NESTED,
        '{"attributes": {"wmtk": ' + '{"a":' * 400 + "1" + "}" * 400 + "}}",
        '{"attributes": {"wmtk": {"format": 1, "n": ' + "9" * 100_000 + "}}}",
        '{"attributes": {"wmtk": {"format": 1, "n": NaN, "checksum": "sha256:0"}}}',
        '{"attributes": {"wmtk": {"format": 1, "n": 1e999}}}',
        '{"attributes": {"wmtk": []}}',
        "\xff\xfe",
    ],
)
def test_metadata_that_is_no_or_absurd_json_is_refused(make_dataset, text) -> None:
    root = make_dataset([3]).path
    for name in ("zarr.json", "log/00000001.json"):
        original = (root / name).read_bytes()
        (root / name).write_bytes(text.encode("latin-1"))
        assert_refused(root, naming=str(root))
        (root / name).write_bytes(original)
    read_everything(root)


def test_depths_at_the_limit_of_recursion_are_refused(make_dataset) -> None:
    root = make_dataset([3]).path
    for depth in range(100, 1100, 50):
        nested = "[" * depth + "]" * depth
        for name in ("zarr.json", "log/00000001.json"):
            original = (root / name).read_bytes()
            header = '{"attributes": {"wmtk": {"format": 1, "n": ' + nested + "}}}"
            (root / name).write_text(header)
            assert_refused(root)
            (root / name).write_bytes(original)


def test_a_metadata_file_of_gigabytes_is_not_read(make_dataset) -> None:
    root = make_dataset([3]).path
    for name in ("zarr.json", "log/00000001.json"):
        original = (root / name).read_bytes()
        os.truncate(root / name, 2**33)  # sparse
        assert_refused(root, naming=f"{2**33} bytes")
        (root / name).write_bytes(original)


def test_a_log_that_claims_a_huge_version_is_refused(make_dataset) -> None:
    root = make_dataset([3]).path
    (root / "log" / "99999999999999999999.json").write_bytes(newest_record(root).read_bytes())
    assert_refused(root, naming="00000002.json")


# --- episodes ---------------------------------------------------------------------------------


def refused(dataset: Dataset, episode: Episode | list[Episode], message: str) -> None:
    before = sorted(dataset.path.rglob("*"))
    with pytest.raises(EpisodeError, match=message) as caught:
        dataset.append(episode)
    assert caught.value.hint or episode == []
    assert sorted(dataset.path.rglob("*")) == before


def with_value(array: np.ndarray, step: int, value: Any) -> np.ndarray:
    changed = copy.deepcopy(array)
    changed[step] = value
    return changed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_not_finite_is_refused_with_its_step(
    make_dataset, make_episode, value
) -> None:
    dataset, good = make_dataset([3]), make_episode(9)
    bad = make_episode(9, reward=with_value(good.reward, 7, value))
    refused(dataset, [good, bad], r"Episode 1 of 2: reward is not a finite number at step 7")


def test_rewards_whose_sum_overflows_are_refused(make_dataset, make_episode) -> None:
    refused(
        make_dataset([3]), make_episode(2, reward=np.array([0, 1.7e308, 1.7e308])), "sum is inf"
    )


def test_nan_observations_are_refused_infinite_ones_are_kept(make_dataset, make_episode) -> None:
    dataset, good = make_dataset([3]), make_episode(9)
    nan = good.obs | {"robot/pos": with_value(good.obs["robot/pos"], (4, 1), np.nan)}
    refused(dataset, make_episode(9, obs=nan), r"obs/robot/pos is not a finite number at step 4")
    far = good.obs | {"robot/pos": with_value(good.obs["robot/pos"], (4, 1), np.inf)}
    dataset.append(make_episode(9, obs=far))
    assert np.isinf(dataset[-1].obs["robot/pos"][4, 1])


@pytest.mark.parametrize("value", [4, -1, 2**40])
def test_actions_out_of_range_are_refused(make_dataset, make_episode, value) -> None:
    action = with_value(make_episode(9).action, 5, value)
    refused(make_dataset([3]), make_episode(9, action=action), f"action at step 5 is {value}")


def test_nan_continuous_actions_are_refused(tmp_path, make_episode, schema) -> None:
    box = ArraySpec("box", (2,), "float32", -1, 1)
    dataset = Dataset.create(tmp_path / "c.zarr", Schema(schema.obs, box, info=schema.info))
    action = np.zeros((4, 2), np.float32)
    action[2, 1] = np.nan
    refused(dataset, make_episode(3, action=action), "action is not a finite number at step 2")


@pytest.mark.parametrize("name", ["action", "reward"])
def test_row_zero_must_be_zero(make_dataset, make_episode, name) -> None:
    changed = with_value(getattr(make_episode(3), name), 0, 1)
    refused(make_dataset([3]), make_episode(3, **{name: changed}), f"{name} at row 0 is 1")


def test_wrong_dtypes_and_shapes_are_refused(make_dataset, make_episode) -> None:
    dataset, good = make_dataset([3]), make_episode(3)
    image, pos = good.obs["image"], good.obs["robot/pos"]
    for obs in (
        {"image": image.astype(np.float32)},
        {"image": image.astype(object)},
        {"image": image[:, :8]},
        {"image": image[..., 0]},
        {"image": image[:3]},
        {"image": image[:0]},
        {"image": image.tolist()},
        {"image": None},
        {"robot/pos": pos.astype(np.float64)},
        {"robot/pos": pos.astype("S4")},
    ):
        refused(dataset, make_episode(3, obs=good.obs | obs), f"obs/{next(iter(obs))}")
    for changes in (
        {"action": good.action.astype(np.int32)},
        {"action": good.action.astype(np.float64)},
        {"reward": good.reward.astype(np.float32)},
        {"reward": good.reward.tolist()},
        {"reward": np.float64(1)},
        {"reward": good.reward[:, None]},
        {"info": {"ball": good.info["ball"][:-1]}},
    ):
        refused(dataset, make_episode(3, **changes), next(iter(changes)))


def test_missing_and_unknown_keys_are_named(make_dataset, make_episode) -> None:
    dataset, good = make_dataset([3]), make_episode(3)
    only = {"image": good.obs["image"]}
    refused(dataset, make_episode(3, obs=only), r"missing \['obs/robot/pos'\]")
    more = good.obs | {"../x": good.reward}
    refused(dataset, make_episode(3, obs=more), r"unknown \['obs/../x'\]")
    refused(dataset, make_episode(3, info={}), r"missing \['info/ball'\]")


def test_empty_episodes_are_refused_one_step_is_enough(make_dataset, make_episode) -> None:
    dataset = make_dataset([3])
    refused(dataset, [], "no episode")
    refused(dataset, make_episode(0), "at least one step, this one has 0")
    refused(dataset, make_episode(0, reward=np.zeros(0)), "at least one step, this one has 0")
    dataset.append(make_episode(1))
    assert dataset[-1].id == make_episode(1).id
    batch = SequenceSampler(dataset, batch_size=8, length=5).sample()
    assert set(batch.mask.sum(1).tolist()) == {2, 4}


@pytest.mark.parametrize(
    "provenance",
    [
        Provenance(env_kwargs={"x": object()}),
        Provenance(extra={"x": float("nan")}),
        Provenance(extra={"x": np.float32(1)}),
        Provenance(policy=b"bytes"),
    ],
)
def test_a_provenance_that_is_no_json_is_refused(make_dataset, make_episode, provenance) -> None:
    refused(make_dataset([3]), make_episode(3, provenance=provenance), "provenance cannot be")


def test_numpy_scalars_and_foreign_byte_order_are_stored(make_dataset, make_episode) -> None:
    dataset, good = make_dataset([3]), make_episode(3, seed=5)
    swapped = good.reward.astype(">f8")
    dataset.append(
        make_episode(3, seed=np.int64(5), reward=swapped, terminated=np.True_, truncated=np.False_)
    )
    found = dataset[-1]
    assert found.id == make_episode(3, seed=5).id == dataset.parts[-1].ids[0]
    assert (found.seed, found.terminated, found.truncated) == (5, True, False)
    assert part_problems(dataset.path, dataset.schema, dataset.parts[-1]) == []


def test_a_size_is_compared_before_a_file_is_read(tmp_path, monkeypatch) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(CorruptDatasetError, match="sparse has 1099511627776 bytes; at most 9"):
        atomic.read_bytes(path, limit=9)


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "long"])
def test_what_is_no_regular_file_is_refused_at_once(kind, tmp_path) -> None:
    path = tmp_path / ("x" * 300 if kind == "long" else "odd")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    with pytest.raises(CorruptDatasetError, match=path.name):
        atomic.read_bytes(path)
