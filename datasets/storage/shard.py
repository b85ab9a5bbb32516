"""Arrays of parts as single zarr v3 shards, read and written without zarr-python.

Reading: zarr-python reads the shard index at every access and decodes one chunk after the other.
Parts never change, so that here the index is read once and a chunk costs one pread, one crc32c and
one zstd decode: 10 to 46 times faster for batches of windows (docs/benchmarks.md).

Writing: zarr-python writes the same bytes, which a test compares, in 1.6 to 9 times the time. With
it the rate of `wmtk collect` decreases by 0.4% for Pong, but by more than 5% for fast environments
(5.3% for CartPole, more for Catch: `python benchmarks/shard_writers.py`). It also takes all rows of
a shard uncompressed, so that a long episode would have to fit into memory.

File: the encoded chunks one after another, then the index: (offset, size) per chunk as little
endian uint64, then the crc32c of the index. An encoded chunk: a zstd frame, then its crc32c.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import google_crc32c
import numpy as np
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from wmtk.datasets.storage.atomic import (
    MAX_MARKER_BYTES,
    REPAIR_HINT,
    json_bytes,
    open_regular,
    read_blocks,
    read_prefix,
    unreadable_error,
    write_file,
)
from wmtk.datasets.storage.packed_rows import blocks_of
from wmtk.documents import Document, Items
from wmtk.errors import CorruptDatasetError
from wmtk.spaces import ArraySpec

APPEND_LEVEL = 3  # zstd: 3 times as fast as level 5, and 1% larger; compaction packs tighter
COMPACT_LEVEL = 9  # 2–4% smaller at half the speed; decoding is as fast
CHUNK_ROWS = 64  # see docs/dataset-format.md for the measurements behind these
CHUNK_BYTES = 256 * 2**10
MAX_CHUNK_BYTES = 64 * 2**20
SMALL_FILE = 32 * 2**10  # bytes: read at once, index and chunks
MAX_RATIO = 2**16  # zstd reaches half of it, on blocks of one repeated byte
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # the first bytes of every zstd frame
_CRC = struct.Struct("<I")


def chunk_rows(spec: ArraySpec, rows: int) -> int:
    """Rows per chunk: 64 of a small image, more of small rows, fewer of huge ones."""
    if spec.row_bytes * CHUNK_ROWS > 16 * CHUNK_BYTES:
        size = max(1, 16 * CHUNK_BYTES // spec.row_bytes)
    else:
        size = max(CHUNK_ROWS, CHUNK_BYTES // spec.row_bytes)
    return min(size, rows)


def data_file(spec: ArraySpec) -> str:
    """The name of the shard inside the array's folder: chunk (0, 0, …) of the grid."""
    return "c" + ".0" * (1 + len(spec.shape))


def frame_content_size(frame: bytes) -> int | None:
    """The decoded size in the header of a zstd frame (RFC 8878, 3.1.1.1); None if it has none.

    The decoder does not report frames that are shorter than the buffer.
    """
    if len(frame) < 6 or frame[:4] != ZSTD_MAGIC:
        return None
    descriptor = frame[4]
    single = descriptor >> 5 & 1
    width = (single, 2, 4, 8)[descriptor >> 6]
    begin = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    value = int.from_bytes(frame[begin : begin + width], "little")
    if not width:
        return None
    return value + 256 if width == 2 else value


def _metadata(spec: ArraySpec, rows: int, chunk: int, level: int) -> dict[str, Any]:
    """The array's zarr.json."""
    shard_rows = -(-rows // chunk) * chunk
    endian = {"configuration": {"endian": "little"}} if np.dtype(spec.dtype).itemsize > 1 else {}
    index_codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    chunk_codecs = [
        {"name": "bytes", **endian},
        {"name": "zstd", "configuration": {"level": level, "checksum": False}},
        {"name": "crc32c"},
    ]
    sharding = {
        "chunk_shape": [chunk, *spec.shape],
        "codecs": chunk_codecs,
        "index_codecs": index_codecs,
        "index_location": "end",
    }
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [rows, *spec.shape],
        "data_type": spec.dtype,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [shard_rows, *spec.shape]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": False if spec.dtype == "bool" else 0,
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        "dimension_names": ["row", *[None] * len(spec.shape)],
        "attributes": {},
    }


def _pieces(columns: Sequence[Any], chunk: int) -> Iterator[NDArray[Any]]:
    """The concatenated rows of all columns, `chunk` rows at a time; the last piece is shorter."""
    blocks: list[NDArray[Any]] = []
    count = 0
    for column in columns:
        for block in blocks_of(column):
            start = 0
            while start < len(block):
                rows = block[start : start + chunk - count]
                blocks.append(rows)
                start, count = start + len(rows), count + len(rows)
                if count == chunk:
                    yield blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
                    blocks, count = [], 0
    if blocks:
        yield np.concatenate(blocks)


def _encode(
    columns: Sequence[Any], rows: int, spec: ArraySpec, chunk: int, level: int
) -> tuple[bytes, tuple[int, ...]]:
    """The content of the shard, and the crc32c of each chunk."""
    codec = Zstd(level=level)
    little = np.dtype(spec.dtype).newbyteorder("<")
    blobs: list[bytes] = []
    crcs: list[int] = []
    index = np.empty((-(-rows // chunk), 2), "<u8")
    offset = 0
    for number, rows_of_chunk in enumerate(_pieces(columns, chunk)):
        piece = rows_of_chunk.astype(little, copy=False)
        if len(piece) < chunk:  # zarr stores whole chunks, padded with the fill value
            full = np.zeros((chunk, *spec.shape), little)
            full[: len(piece)] = piece
            piece = full
        frame = bytes(codec.encode(np.ascontiguousarray(piece)))
        crcs.append(google_crc32c.value(frame))
        blobs += [frame, _CRC.pack(crcs[-1])]
        index[number] = offset, len(frame) + _CRC.size
        offset += len(frame) + _CRC.size
    table = index.tobytes()
    return b"".join([*blobs, table, _CRC.pack(google_crc32c.value(table))]), tuple(crcs)


Crc = Annotated[int, Field(ge=0, lt=2**32)]


class ArrayRecord(Document):
    """An array in the attributes of its part: enough to read and verify its files."""

    rows: Annotated[int, Field(ge=1, lt=2**32)]
    chunk_rows: Annotated[int, Field(ge=1)]
    bytes: Annotated[int, Field(ge=0, lt=2**62)]
    crc32c: Crc
    metadata_crc32c: Crc  # of the array's zarr.json
    # The checksums of the chunks; older parts have none. Data followed by its own crc32c always has
    # the same crc32c, so that the file's checksum detects damage, but not an exchanged file.
    chunks: Items[Crc] | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.chunk_rows > self.rows:
            raise ValueError("chunks of more rows than there are")
        if self.chunks is not None and len(self.chunks) != -(-self.rows // self.chunk_rows):
            raise ValueError("checksums of another number of chunks than there are")
        return self


class ArrayMetadata(Document):
    """The fields of an array's zarr.json that wmtk reads; the others are for zarr-python."""

    zarr_format: Literal[3]
    node_type: Literal["array"]
    shape: Annotated[Items[int], Field(min_length=1)]
    data_type: str


def write_array(folder: Path, columns: Sequence[Any], spec: ArraySpec, level: int) -> ArrayRecord:
    """Write the rows of `columns`, arrays or PackedRows, as one zarr array.

    `folder` is empty; the caller syncs it.
    """
    rows = sum(len(column) for column in columns)
    chunk = chunk_rows(spec, rows)
    data, crcs = _encode(columns, rows, spec, chunk, level)
    metadata = json_bytes(_metadata(spec, rows, chunk, level))
    write_file(folder / data_file(spec), data, durably=False)
    write_file(folder / "zarr.json", metadata, durably=False)
    return ArrayRecord(
        rows=rows,
        chunk_rows=chunk,
        bytes=len(data),
        crc32c=google_crc32c.value(data),
        metadata_crc32c=google_crc32c.value(metadata),
        chunks=crcs,
    )


class ShardReader:
    """Reads chunks of one array; safe to use from several threads.

    No file stays open: a dataset may have more files than a process may open, and opening one costs
    a tenth of decoding a chunk.
    """

    def __init__(self, folder: Path, spec: ArraySpec, record: ArrayRecord) -> None:
        self.path = folder / data_file(spec)
        self.spec = spec
        self.rows = record.rows
        self.chunk_rows = record.chunk_rows
        self._crcs = record.chunks
        if self.chunk_rows * spec.row_bytes > MAX_CHUNK_BYTES:
            raise self._corrupt("declares chunks larger than any that wmtk writes")
        self._codec = Zstd()
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._content: bytes | None = None  # of a small file, until all of it was decoded
        self._index = self._read_index(record.bytes)  # (chunks, 2): offset and size

    def _corrupt(self, problem: str) -> CorruptDatasetError:
        return CorruptDatasetError(f"{self.path} {problem}.", REPAIR_HINT, self.path)

    def _read(self, length: int, offset: int) -> bytes:
        content = self._content
        if content is not None:
            return content[offset : offset + length]
        descriptor = open_regular(self.path)
        try:
            return os.pread(descriptor, length, offset)
        except OSError as error:
            raise unreadable_error(self.path, error) from error
        finally:
            os.close(descriptor)

    def _read_index(self, declared_size: int) -> NDArray[np.uint64]:
        size = os.lstat(self.path).st_size
        if size != declared_size:
            raise self._corrupt(f"has {size} bytes instead of {declared_size}")
        count = -(-self.rows // self.chunk_rows)
        length = 16 * count + _CRC.size
        if length > size:
            raise self._corrupt("is too short to hold its index")
        if size <= SMALL_FILE:
            self._content = self._read(size, 0)
        data = self._read(length, size - length)
        table = data[: -_CRC.size]
        if len(data) != length or _CRC.pack(google_crc32c.value(table)) != data[-_CRC.size :]:
            raise self._corrupt("has an altered index (checksum mismatch)")
        index = np.frombuffer(table, "<u8").reshape(count, 2)
        self._check_index(index.tolist(), size - length)
        return index

    def _check_index(self, index: list[list[int]], end: int) -> None:
        """Raise unless the chunks are contiguous and large enough for their decoded size."""
        decoded = self.chunk_rows * self.spec.row_bytes
        least = max(1, decoded // MAX_RATIO) + _CRC.size
        expected = 0
        for offset, size in index:
            if offset != expected or size < least:
                raise self._corrupt("has an index that does not fit the file")
            expected += size
        if expected != end:
            raise self._corrupt("has an index that does not fit the file")

    def chunk(self, number: int) -> NDArray[Any]:
        """Decode one chunk: (chunk_rows, …), the last one padded with zeros."""
        offset, length = map(int, self._index[number])
        data = self._read(length, offset)
        frame = data[: -_CRC.size]
        where = f"chunk {number} (bytes {offset} to {offset + length})"
        if len(data) != length:
            raise self._corrupt(f"ends inside {where}")
        crc = google_crc32c.value(frame)
        if _CRC.pack(crc) != data[-_CRC.size :]:
            raise self._corrupt(f"has altered bytes in {where}: checksum mismatch")
        if self._crcs is not None and self._crcs[number] != crc:
            raise self._corrupt(f"is not the file that was recorded: it has another {where}")
        out = np.empty((self.chunk_rows, *self.spec.shape), self._dtype)
        if (size := frame_content_size(frame)) != out.nbytes:
            raise self._corrupt(f"decodes to {size} bytes instead of {out.nbytes} in {where}")
        try:
            self._codec.decode(frame, out)
        except (RuntimeError, ValueError) as error:
            raise self._corrupt(f"cannot be decoded in {where} ({error})") from error
        return out if out.dtype.isnative else out.astype(self.spec.dtype)

    def whole(self, out: NDArray[Any]) -> None:
        """Decode all rows into `out`."""
        for base in range(0, self.rows, self.chunk_rows):
            piece = out[base : base + self.chunk_rows]
            piece[...] = self.chunk(base // self.chunk_rows)[: len(piece)]
        self._content = None


def verify_files(folder: Path, spec: ArraySpec, record: ArrayRecord) -> Iterator[tuple[Path, str]]:
    """Compare an array's two files with the recorded checksums: (file, fault) of damaged ones."""
    for name, size, crc in (
        (data_file(spec), record.bytes, record.crc32c),
        ("zarr.json", None, record.metadata_crc32c),
    ):
        path = folder / name
        try:
            size_on_disk = path.lstat().st_size
            if size is not None and size_on_disk != size:
                yield path, f"has {size_on_disk} bytes instead of {size}"
                continue
            checksum = 0
            for block in read_blocks(path, limit=MAX_MARKER_BYTES if size is None else size):
                checksum = google_crc32c.extend(checksum, block)
        except FileNotFoundError:
            yield path, "is missing"
        except OSError as error:
            yield path, f"cannot be read ({error.strerror})"
        except CorruptDatasetError as error:
            yield path, error.message.removeprefix(f"{path} ").rstrip(".")
        else:
            if checksum != crc:
                yield path, "was altered (checksum mismatch)"


# --- damaged shards ---------------------------------------------------------------------------


def intact_chunks(
    folder: Path, spec: ArraySpec, rows: int, size: int, limit: int
) -> list[NDArray[Any] | None]:
    """Every chunk of `size` rows of an array, with None in the place of those that are damaged.

    Reads at most `limit` bytes.
    """
    count = -(-rows // size)
    if size * spec.row_bytes > MAX_CHUNK_BYTES:
        return [None] * count
    try:
        data = read_prefix(folder / data_file(spec), limit)
    except (OSError, CorruptDatasetError):
        return [None] * count
    chunks = [_decode_intact(data[start:stop], spec, size) for start, stop in _spans(data, count)]
    return chunks + [None] * (count - len(chunks))


def _spans(data: bytes, count: int) -> list[tuple[int, int]]:
    """The byte ranges of the chunks of a shard.

    If the index is damaged, they are determined from the checksum at the end of each chunk, up to
    the first damaged chunk.
    """
    length = 16 * count + _CRC.size
    if len(data) >= length and _is_intact(data[-length:]):
        index = struct.iter_unpack("<QQ", data[-length : -_CRC.size])
        return [(offset, offset + size) for offset, size in index]
    spans: list[tuple[int, int]] = []
    start = 0
    while len(spans) < count:
        # A chunk ends where the next zstd frame begins, the last one before the index.
        ends: list[int] = []
        while (position := data.find(ZSTD_MAGIC, (ends or [start])[-1] + 1)) >= 0:
            ends.append(position)
        ends = ends or list(range(max(start + 1, len(data) - length), len(data) + 1))
        stop = next((end for end in ends if _is_intact(data[start:end])), None)
        if stop is None:
            break
        spans.append((start, stop))
        start = stop
    return spans


def _is_intact(data: bytes) -> bool:
    """Whether data that ends with its crc32c is unaltered."""
    content, crc = data[: -_CRC.size], data[-_CRC.size :]
    return len(content) > 0 and _CRC.pack(google_crc32c.value(content)) == crc


def _decode_intact(chunk: bytes, spec: ArraySpec, size: int) -> NDArray[Any] | None:
    if not _is_intact(chunk):
        return None
    rows = np.empty((size, *spec.shape), np.dtype(spec.dtype).newbyteorder("<"))
    try:
        Zstd().decode(chunk[: -_CRC.size], rows)
    except (RuntimeError, ValueError):
        return None
    return rows.astype(spec.dtype, copy=False)
