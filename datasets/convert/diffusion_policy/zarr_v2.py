"""Read and write arrays of zarr v2 with zarr-python.

For untrusted arrays, zarr-python reads from a store that checks the metadata and unpacks the
chunks itself, so that zarr reads an uncompressed array of known size. On its own, zarr loads any
codec that the metadata names, and its codecs unpack without a limit: a chunk of 90 declared bytes
with 261 kB of zlib data took 512 MiB of memory before the size was compared. Here only the codecs
of `DECODERS` are used, and no chunk unpacks to more than its declared size.
"""

from __future__ import annotations

import bz2
import json
import math
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import zarr
from numcodecs.blosc import Blosc
from numcodecs.lz4 import LZ4
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from pydantic import Field
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype

from wmtk.datasets.convert.diffusion_policy.hierarchy import Hierarchy
from wmtk.datasets.convert.untrusted import (
    MAX_JSON_BYTES,
    ForeignDocument,
    check_size,
    native_dtype,
    parse_json,
)
from wmtk.datasets.storage.shard import chunk_rows
from wmtk.documents import Items
from wmtk.errors import ConversionError
from wmtk.spaces import ArraySpec

MAX_CHUNK_BYTES = 2**30
MAX_CHUNKS = 2**16  # that are read at once
COMPRESSOR = Blosc(cname="zstd", clevel=5, shuffle=Blosc.SHUFFLE)


def _blosc(data: bytes, size: int) -> bytes:
    declared, stored = (int.from_bytes(data[at : at + 4], "little") for at in (4, 12))
    if len(data) < 16 or (declared, stored) != (size, len(data)):
        raise ValueError("the blosc header has another size")
    return bytes(Blosc().decode(data))


def _lz4(data: bytes, size: int) -> bytes:
    if int.from_bytes(data[:4], "little") != size:
        raise ValueError("the lz4 header has another size")
    return bytes(LZ4().decode(data))


def _zstd(data: bytes, size: int) -> bytes:
    return bytes(Zstd().decode(data, np.empty(size, np.uint8)))


def _deflate(data: bytes, size: int) -> bytes:
    return zlib.decompressobj(wbits=47).decompress(data, size + 1)  # zlib or gzip, by its header


def _bz2(data: bytes, size: int) -> bytes:
    return bz2.BZ2Decompressor().decompress(data, size + 1)


# Functions of a chunk and its declared size, which unpack to at most one byte more.
DECODERS: dict[str | None, Callable[[bytes, int], bytes]] = {
    None: lambda data, _: data,
    "blosc": _blosc,
    "lz4": _lz4,
    "zstd": _zstd,
    "zlib": _deflate,
    "gzip": _deflate,
    "bz2": _bz2,
}


class _Compressor(ForeignDocument):
    id: str


class ZarrV2Array(ForeignDocument):
    """The .zarray of an array."""

    zarr_format: Literal[2]
    shape: Annotated[Items[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=32)]
    chunks: Items[Annotated[int, Field(ge=1)]]
    dtype: str
    compressor: _Compressor | None = None
    filters: Any = None
    order: Literal["C", "F"]
    fill_value: Any = None
    dimension_separator: Literal[".", "/"] = "."

    @property
    def codec(self) -> str | None:
        return self.compressor.id if self.compressor else None

    def check(self, path: Path) -> np.dtype[Any]:
        """The dtype; raises ConversionError unless codec, dtype and chunks are supported."""
        try:
            dtype = np.dtype(self.dtype)
        except (TypeError, ValueError, SyntaxError) as error:
            message = f"{path} declares the unknown dtype {self.dtype!r}."
            raise ConversionError(message, "It is damaged: copy it again.", path) from error
        if len(self.shape) != len(self.chunks):
            message = f"{path} has shape {self.shape}, but chunks of {self.chunks}."
            raise ConversionError(message, "It is damaged: copy it again.", path)
        native_dtype(dtype, "The array", path)
        if self.codec not in DECODERS or self.filters:
            supported = ", ".join(name for name in DECODERS if name)
            what = f"the codec {self.codec!r}" if self.codec not in DECODERS else "filters"
            raise ConversionError(
                f"{path} uses {what}, which is not supported.",
                f"Supported: {supported}, without filters. Re-encode the array with one of them.",
                path,
            )
        return dtype

    def uncompressed(self, dtype: np.dtype[Any]) -> dict[str, Any]:
        """The metadata of the same array without compression."""
        fill: Any = 0
        if isinstance(self.fill_value, int | float | bool):
            with np.errstate(all="ignore"):
                fill = np.array(self.fill_value).astype(dtype).item()
        if isinstance(fill, float) and not math.isfinite(fill):
            fill = "NaN" if math.isnan(fill) else "Infinity" if fill > 0 else "-Infinity"
        return {
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": dtype.str,
            "compressor": None,
            "filters": None,
            "fill_value": fill,
            "order": self.order,
            "dimension_separator": self.dimension_separator,
        }


class _DecodedChunks(Store):
    """A read-only zarr store of one array, whose chunks are checked and unpacked."""

    def __init__(self, hierarchy: Hierarchy, key: str) -> None:
        super().__init__(read_only=True)
        self._hierarchy, self._key = hierarchy, key
        self.path = hierarchy.path / key
        document = hierarchy.read(f"{key}/.zarray", MAX_JSON_BYTES)
        if document is None:
            raise ConversionError(f"{self.path} is not an array.", "", self.path)
        content = parse_json(document, self.path / ".zarray")
        array = ZarrV2Array.read(content, self.path, "It is damaged: copy it again.")
        self.dtype = array.check(self.path)
        self.chunk_bytes = self.dtype.itemsize * math.prod(array.chunks)
        self.missing = 0  # chunks that are not stored and read as the fill value
        self._decode = DECODERS[array.codec]
        self._metadata = json.dumps(array.uncompressed(self.dtype)).encode()
        self._check_sizes(array)

    def _check_sizes(self, array: ZarrV2Array) -> None:
        per_row = [-(-n // chunk) for n, chunk in zip(array.shape, array.chunks, strict=True)][1:]
        if self.chunk_bytes > MAX_CHUNK_BYTES or math.prod(per_row) > MAX_CHUNKS:
            raise ConversionError(
                f"{self.path} declares {math.prod(per_row):,} chunks of {self.chunk_bytes:,} bytes "
                "per row.",
                f"Supported: {MAX_CHUNKS:,} chunks of {MAX_CHUNK_BYTES:,} bytes.",
                self.path,
            )
        stored = self._hierarchy.size(self._key)
        nbytes = self.dtype.itemsize * math.prod(array.shape)
        check_size(nbytes, stored, "The array", self.path)
        check_size(self.chunk_bytes, stored, "A chunk", self.path)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        assert byte_range is None, byte_range
        data = self._metadata if key == ".zarray" else None
        if not key.startswith("."):
            data = self._chunk(key)
        return None if data is None else prototype.buffer.from_bytes(data)

    def _chunk(self, name: str) -> bytes | None:
        # No codec makes random bytes longer than this.
        limit = self.chunk_bytes + self.chunk_bytes // 8 + 2**16
        data = self._hierarchy.read(f"{self._key}/{name}", limit)
        if data is None:
            self.missing += 1
            return None
        try:
            raw = self._decode(data, self.chunk_bytes)
            if len(raw) != self.chunk_bytes:
                raise ValueError(f"{len(raw):,} bytes instead of {self.chunk_bytes:,}")
        except (ValueError, RuntimeError, OSError, EOFError, zlib.error) as error:
            path = self.path / name
            raise ConversionError(
                f"{path} cannot be decoded ({error}).", "Copy it again from its source.", path
            ) from error
        return raw

    def __eq__(self, other: object) -> bool:
        return self is other

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        return self._hierarchy.read(f"{self._key}/{key}", MAX_CHUNK_BYTES) is not None

    supports_writes = supports_deletes = supports_listing = False

    async def set(self, key: str, value: Buffer) -> None:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    def list(self) -> AsyncIterator[str]:
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError


class ArrayReader:
    """Rows of one untrusted array. The chunks of the last rows are cached."""

    def __init__(self, hierarchy: Hierarchy, key: str) -> None:
        self._store = _DecodedChunks(hierarchy, key)
        self.path = self._store.path
        self._array = zarr.open_array(self._store, mode="r", zarr_format=2)
        self._cached: tuple[int, NDArray[Any]] | None = None

    @property
    def dtype(self) -> str:
        return self._store.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def missing(self) -> int:
        """The number of chunks that were not stored and read as the fill value."""
        return self._store.missing

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) in native byte order."""
        size = self._array.chunks[0]
        pieces = []
        for number in range(start // size, -(-stop // size)):
            first = number * size
            pieces.append(self._chunk_rows(number)[max(start - first, 0) : stop - first])
        return np.concatenate(pieces).astype(self._store.dtype.newbyteorder("="), copy=False)

    def _chunk_rows(self, number: int) -> NDArray[Any]:
        """The rows of all chunks with this index along the first axis."""
        if self._cached is None or self._cached[0] != number:
            size = self._array.chunks[0]
            rows = np.asarray(self._array[number * size : (number + 1) * size])
            self._cached = number, rows
        return self._cached[1]


class ArrayWriter:
    """Writes `total` rows in order, one chunk of rows at a time."""

    def __init__(self, group: zarr.Group, key: str, spec: ArraySpec, total: int) -> None:
        self._size = chunk_rows(spec, total)
        self._array = group.create_array(
            key,
            shape=(total, *spec.shape),
            chunks=(self._size, *spec.shape),
            dtype=np.dtype(spec.dtype).newbyteorder("<"),
            compressors=COMPRESSOR,
            filters=None,
            fill_value=0,
            config={"write_empty_chunks": True},
        )
        self._pending: list[NDArray[Any]] = []
        self._pending_rows = self._written = 0

    def append(self, rows: NDArray[Any]) -> None:
        self._pending.append(rows)
        self._pending_rows += len(rows)
        if self._pending_rows >= self._size:
            self._write(self._pending_rows // self._size * self._size)

    def close(self) -> None:
        """Write the remaining rows."""
        if self._pending_rows:
            self._write(self._pending_rows)

    def _write(self, count: int) -> None:
        rows = np.concatenate(self._pending)
        self._array[self._written : self._written + count] = rows[:count]
        self._pending, self._pending_rows = [rows[count:]], len(rows) - count
        self._written += count
