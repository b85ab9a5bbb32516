"""Getting whole episodes out of a damaged part, and single flipped bits back.

A shard is a row of chunks, each with its own checksum, so damage costs only the episodes whose
rows it touches. What is put together again counts only if it has the episode's content id.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numcodecs.zstd import Zstd
from numpy.typing import NDArray

from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.part import MAX_ARRAY_BYTES, PartAttributes, PartEntry
from wmtk.datasets.storage.shard import MAX_CHUNK_BYTES, chunk_rows, data_file
from wmtk.errors import DatasetError
from wmtk.spaces import ArraySpec

# Trying all bits of a file takes a time that grows with its square: seconds at these sizes.
MAX_HEALED_JSON = 6 * 2**10
MAX_HEALED_BYTES = 16 * 2**10
_CRC = struct.Struct("<I")
_FRAME = b"\x28\xb5\x2f\xfd"  # how every zstd frame begins
_FLAGS = ("terminated", "truncated")  # the commit log has them too

Rows = list[NDArray[Any] | None]  # the chunks of an array, None where one is lost


@dataclass(frozen=True)
class Salvage:
    """What a damaged part still holds."""

    episodes: tuple[Episode, ...]
    lost: tuple[str, ...]  # ids of the episodes that are not whole any more
    note: str = ""  # what is not as sure as the content: who made the episodes


def salvage(root: Path, schema: Schema, entry: PartEntry) -> Salvage:
    """The episodes of a part that are whole, whatever became of its other files."""
    folder = root / "parts" / entry.part
    attributes, note = _description(folder, entry)
    arrays = {
        path: _chunks(folder / path, spec, entry, _chunk_size(attributes, path, spec, entry))
        for path, spec in schema.arrays()
        if path not in _FLAGS
    }
    found, lost = [], []
    start = 0
    for number, name in enumerate(entry.ids):
        stop = start + entry.lengths[number] + 1
        rows = {path: _span(chunks, start, stop) for path, chunks in arrays.items()}
        episode = _episode(rows, attributes, entry, number)
        if episode is not None and _is_whole(episode, schema, name):
            found.append(episode)
        else:
            lost.append(name)
        start = stop
    return Salvage(tuple(found), tuple(lost), note if found else "")


def _is_whole(episode: Episode, schema: Schema, name: str) -> bool:
    try:
        episode.check_form(schema)
    except DatasetError:
        return False
    return episode.id == name


def _description(folder: Path, entry: PartEntry) -> tuple[PartAttributes | None, str]:
    """The part's own metadata if it can be used, and what is to be said about that."""
    path = folder / "zarr.json"
    unknown = "seeds and provenance are lost, as the part's zarr.json is"
    try:
        data = atomic.read_bytes(path)
        attributes = PartAttributes.parse(data, path)
        if tuple(row.id for row in attributes.episodes) != entry.ids:
            return None, unknown
    except (OSError, DatasetError):
        return None, unknown
    if hashlib.sha256(data).hexdigest() == entry.digest:
        return attributes, ""
    return attributes, "seeds and provenance come from an altered zarr.json"


def _chunk_size(
    attributes: PartAttributes | None, path: str, spec: ArraySpec, entry: PartEntry
) -> int:
    record = attributes.arrays.get(path) if attributes else None
    fits = record is not None and record.rows == entry.rows
    return record.chunk_rows if record and fits else chunk_rows(spec, entry.rows)


def _episode(
    rows: Mapping[str, NDArray[Any] | None],
    attributes: PartAttributes | None,
    entry: PartEntry,
    number: int,
) -> Episode | None:
    whole = {path: array for path, array in rows.items() if array is not None}
    if len(whole) < len(rows):
        return None
    seed, maker = attributes.origin(number) if attributes else (None, Provenance())
    last = np.arange(entry.lengths[number] + 1) == entry.lengths[number]
    end = entry.ends[number]
    flags = {"terminated": last & bool(end & 1), "truncated": last & bool(end & 2)}
    return Episode.from_arrays({**whole, **flags}, seed, maker)


# --- shards -----------------------------------------------------------------------------------


def _chunks(folder: Path, spec: ArraySpec, entry: PartEntry, size: int) -> Rows:
    """Every chunk of an array that can be decoded."""
    count = -(-entry.rows // size)
    if size * spec.row_bytes > MAX_CHUNK_BYTES or entry.rows * spec.row_bytes > MAX_ARRAY_BYTES:
        return [None] * count
    try:
        data = atomic.read_prefix(folder / data_file(spec), entry.bytes)
    except (OSError, DatasetError):
        return [None] * count
    index = _index(data, count) or _walk(data, count)
    found = [_decode(data[start:stop], spec, size) for start, stop in index]
    return found + [None] * (count - len(found))


def _index(data: bytes, count: int) -> list[tuple[int, int]]:
    """Where the chunks begin and end by the index at the end of the file; empty if altered."""
    length = 16 * count + _CRC.size
    table, crc = data[-length : -_CRC.size], data[-_CRC.size :]
    if len(data) < length or _CRC.pack(google_crc32c.value(table)) != crc:
        return []
    return [(a, a + n) for a, n in struct.iter_unpack("<QQ", table)]


def _walk(data: bytes, count: int) -> list[tuple[int, int]]:
    """The same without an index: from chunk to chunk as long as the checksums are right."""
    found: list[tuple[int, int]] = []
    start = 0
    while len(found) < count:
        stop = next((end for end in _ends(data, start, count) if _intact(data[start:end])), None)
        if stop is None:
            break
        found.append((start, stop))
        start = stop
    return found


def _ends(data: bytes, start: int, count: int) -> list[int]:
    """Where the chunk that begins at `start` may end: before a frame, or close to the tail."""
    ends = []
    position = start
    while (position := data.find(_FRAME, position + 1)) >= 0:
        ends.append(position)
    tail = max(start + 1, len(data) - 16 * count - _CRC.size)
    return ends or list(range(tail, len(data) + 1))


def _intact(blob: bytes) -> bool:
    return len(blob) > _CRC.size and (
        _CRC.pack(google_crc32c.value(blob[: -_CRC.size])) == blob[-_CRC.size :]
    )


def _decode(blob: bytes, spec: ArraySpec, size: int) -> NDArray[Any] | None:
    if not _intact(blob):
        return None
    out = np.empty((size, *spec.shape), np.dtype(spec.dtype).newbyteorder("<"))
    try:
        Zstd().decode(blob[: -_CRC.size], out)
    except (RuntimeError, ValueError):
        return None
    return out.astype(spec.dtype, copy=False)


def _span(chunks: Rows, start: int, stop: int) -> NDArray[Any] | None:
    """Rows [start, stop), or None if one of their chunks is lost."""
    size = next((len(chunk) for chunk in chunks if chunk is not None), 0)
    if not size:
        return None
    first = start // size
    pieces = [chunk for chunk in chunks[first : -(-stop // size)] if chunk is not None]
    if len(pieces) < -(-stop // size) - first:
        return None
    return np.concatenate(pieces)[start - first * size : stop - first * size]


# --- flipped bits -----------------------------------------------------------------------------


def unflipped(
    data: bytes, is_right: Callable[[bytes], bool], limit: int = MAX_HEALED_BYTES
) -> bytes | None:
    """The content before one of its bits flipped, if that is what happened to a small file.

    There are few enough bits to try them all, and the checksum says which one it was.
    """
    if len(data) > limit:
        return None
    trial = bytearray(data)
    for place in range(len(data)):
        for bit in range(8):
            trial[place] ^= 1 << bit
            if is_right(bytes(trial)):
                return bytes(trial)
            trial[place] ^= 1 << bit
    return None


def marked(episode: Episode, note: str) -> Episode:
    """The episode with a remark in its provenance."""
    if not note:
        return episode
    extra = {**episode.provenance.extra, "repair": note}
    return replace(episode, provenance=replace(episode.provenance, extra=extra))
