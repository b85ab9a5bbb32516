"""Shards: zarr-python reads and writes the same files, and damage is found."""

import json
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import MemoryStore

from wmtk.datasets.storage.shard import (
    APPEND_LEVEL,
    COMPACT_LEVEL,
    ShardReader,
    chunk_rows,
    data_file,
    write_array,
)
from wmtk.errors import CorruptDatasetError
from wmtk.spaces import DTYPES, ArraySpec


def random_rows(spec: ArraySpec, rows: int) -> np.ndarray:
    data = np.random.default_rng(0).integers(0, 2**15, (rows, *spec.shape))
    return data.astype(spec.dtype)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize(("shape", "rows"), [((), 1), ((3,), 7), ((40, 40), 150)])
def test_zarr_reads_the_same(tmp_path, dtype, shape, rows) -> None:
    spec = ArraySpec("box", shape, dtype)
    data = random_rows(spec, rows)
    record = write_array(tmp_path, [data], spec, level=5)
    array = zarr.open_array(tmp_path, mode="r")
    assert array.dtype == data.dtype
    np.testing.assert_array_equal(array[:], data)
    out = np.empty_like(data)
    ShardReader(tmp_path, spec, record).whole(out)
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("level", [APPEND_LEVEL, COMPACT_LEVEL])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32", "int64"])
@pytest.mark.parametrize(("shape", "rows"), [((), 1), ((3,), 7), ((40, 40, 3), 150)])
def test_zarr_writes_the_same_bytes(tmp_path, level, dtype, shape, rows) -> None:
    spec = ArraySpec("box", shape, dtype)
    data = random_rows(spec, rows)
    record = write_array(tmp_path, [data[: rows // 2], data[rows // 2 :]], spec, level)
    chunk = record.chunk_rows
    files: dict[str, Any] = {}
    array = zarr.create_array(
        MemoryStore(files),
        shape=data.shape,
        dtype=dtype,
        chunks=(chunk, *shape),
        shards=(-(-rows // chunk) * chunk, *shape),
        filters=None,
        compressors=[ZstdCodec(level=level, checksum=False), Crc32cCodec()],
        fill_value=0,
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=["row", *[None] * len(shape)],
        config={"write_empty_chunks": True},
    )
    array[...] = data
    assert (tmp_path / data_file(spec)).read_bytes() == files[data_file(spec)].to_bytes()
    ours, theirs = (
        json.loads(text)
        for text in ((tmp_path / "zarr.json").read_bytes(), files["zarr.json"].to_bytes())
    )
    for document in (ours, theirs):  # whether an empty configuration is written does not matter
        for codec in document["codecs"][0]["configuration"]["codecs"]:
            codec.setdefault("configuration", {})
        for codec in document["codecs"][0]["configuration"]["index_codecs"]:
            codec.setdefault("configuration", {})
    theirs.pop("storage_transformers", None)
    assert ours == theirs


def test_chunks_are_64_frames_more_for_small_rows_fewer_for_huge_ones() -> None:
    assert chunk_rows(ArraySpec("box", (64, 64, 1), "uint8"), 10_000) == 64
    assert chunk_rows(ArraySpec("box", (64, 64, 3), "uint8"), 10_000) == 64
    assert chunk_rows(ArraySpec("box", (), "float64"), 10_000) == 10_000
    assert chunk_rows(ArraySpec("box", (1024, 1024, 3), "uint8"), 10_000) == 1
    assert chunk_rows(ArraySpec("box", (64, 64, 1), "uint8"), 20) == 20


def test_all_zero_chunks_are_written_not_left_out(tmp_path) -> None:
    spec = ArraySpec("box", (64, 64, 1), "uint8")
    write_array(tmp_path, [spec.zeros(200)], spec, level=5)
    file = tmp_path / data_file(spec)
    index = np.frombuffer(file.read_bytes()[-(16 * 4 + 4) : -4], "<u8").reshape(4, 2)
    assert (index[:, 1] > 4).all()


@pytest.mark.parametrize("where", [0, 50, -1, -30])
def test_a_flipped_bit_is_found(tmp_path, where) -> None:
    spec = ArraySpec("box", (64, 64, 1), "uint8")
    record = write_array(tmp_path, [random_rows(spec, 100)], spec, level=5)
    file = tmp_path / data_file(spec)
    data = bytearray(file.read_bytes())
    data[where] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptDatasetError, match=file.name):
        ShardReader(tmp_path, spec, record).whole(spec.zeros(100))


@pytest.mark.parametrize(("shape", "rows"), [((2,), 5), ((64, 64, 1), 200)])
def test_a_whole_file_of_another_part_is_not_taken_for_this_one(tmp_path, shape, rows) -> None:
    """Its own checksums are right, and noise, which does not shrink, has the same size."""
    spec = ArraySpec("box", shape, "uint8")
    rng = np.random.default_rng(0)
    folders = [tmp_path / name for name in ("ours", "theirs")]
    for folder in folders:
        folder.mkdir()
        noise = rng.integers(0, 256, (rows, *shape), np.uint8)
        record = write_array(folder, [noise], spec, level=5)
    ours, theirs = (folder / data_file(spec) for folder in folders)
    assert ours.stat().st_size == theirs.stat().st_size
    with pytest.raises(CorruptDatasetError, match="not the file"):
        ShardReader(folders[0], spec, record).whole(spec.zeros(rows))
