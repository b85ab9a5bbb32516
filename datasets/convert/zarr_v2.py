"""Arrays of zarr v2, read and written directly.

zarr-python would look up any codec that the metadata names and trust any size in it. Here only
known codecs and dtypes are read, and a chunk never unpacks to more than it declares.
"""

from __future__ import annotations

import bz2
import itertools
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numcodecs.blosc import Blosc
from numcodecs.lz4 import LZ4
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from pydantic import Field

from wmtk.datasets.convert.foreign import (
    MAX_JSON_BYTES,
    ForeignDocument,
    check_size,
    native_dtype,
    parse_json,
)
from wmtk.datasets.convert.stores import Store
from wmtk.datasets.storage.shard import chunk_rows
from wmtk.documents import Items
from wmtk.errors import ConversionError
from wmtk.spaces import ArraySpec

MAX_CHUNK_BYTES = 2**30
COMPRESSOR = {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}


def _blosc(data: bytes, size: int) -> bytes:
    declared, stored = (int.from_bytes(data[at : at + 4], "little") for at in (4, 12))
    if len(data) < 16 or (declared, stored) != (size, len(data)):
        raise ValueError("a blosc header that does not fit")
    return bytes(Blosc().decode(data))


def _lz4(data: bytes, size: int) -> bytes:
    if int.from_bytes(data[:4], "little") != size:
        raise ValueError("an lz4 header that does not fit")
    return bytes(LZ4().decode(data))


def _zstd(data: bytes, size: int) -> bytes:
    return bytes(Zstd().decode(data, np.empty(size, np.uint8)))


def _deflate(data: bytes, size: int) -> bytes:
    return zlib.decompressobj(wbits=47).decompress(data, size + 1)  # zlib or gzip, by its header


def _bz2(data: bytes, size: int) -> bytes:
    return bz2.BZ2Decompressor().decompress(data, size + 1)


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


@dataclass(frozen=True)
class Layout:
    """What a .zarray says, checked."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    compressor: str | None
    order: Literal["C", "F"]
    fill: Any
    separator: str

    @property
    def chunk_bytes(self) -> int:
        size = self.dtype.itemsize
        for length in self.chunks:
            size *= length
        return size

    @classmethod
    def parse(cls, document: dict[str, Any], path: Path) -> Layout:
        found = ZarrV2Array.read(document, path, "It is damaged: copy it again.")
        try:
            dtype = np.dtype(found.dtype)
        except (TypeError, ValueError, SyntaxError) as error:
            message = f"{path} declares the dtype {found.dtype!r}, which there is not."
            raise ConversionError(message, "It is damaged: copy it again.", path) from error
        if len(found.shape) != len(found.chunks):
            message = f"{path} has shape {found.shape}, but chunks of {found.chunks}."
            raise ConversionError(message, "It is damaged: copy it again.", path)
        compressor = found.compressor.id if found.compressor else None
        native_dtype(dtype, "The array", path)
        if compressor not in DECODERS or found.filters:
            known = ", ".join(name for name in DECODERS if name)
            what = f"the codec {compressor!r}" if compressor not in DECODERS else "filters"
            raise ConversionError(
                f"{path} uses {what}, which is not read here.",
                f"Read: {known}, without filters. Re-encode the array with one of them.",
                path,
            )
        fill = found.fill_value if isinstance(found.fill_value, int | float | bool) else 0
        return cls(
            found.shape,
            found.chunks,
            dtype,
            compressor,
            found.order,
            fill,
            found.dimension_separator,
        )


class ArrayReader:
    """Rows of one array; the chunks of the last rows read are kept for the next ones."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self.path = store.path / key
        document = store.read(f"{key}/.zarray", MAX_JSON_BYTES)
        if document is None:
            raise ConversionError(f"{self.path} is no array.", "", self.path)
        self.layout = Layout.parse(parse_json(document, self.path / ".zarray"), self.path)
        if self.layout.chunk_bytes > MAX_CHUNK_BYTES:
            raise ConversionError(
                f"{self.path} declares chunks of {self.layout.chunk_bytes:,} bytes.",
                f"At most {MAX_CHUNK_BYTES:,} are read.",
                self.path,
            )
        nbytes = self.layout.dtype.itemsize
        for length in self.layout.shape:
            nbytes *= length
        stored = store.size(key)
        check_size(nbytes, stored, "The array", self.path)
        check_size(self.layout.chunk_bytes, stored, "A chunk", self.path)
        self.missing = 0  # chunks that are not stored and read as the fill value
        self._cached: tuple[int, NDArray[Any]] | None = None

    @property
    def dtype(self) -> str:
        return self.layout.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        size = self.layout.chunks[0]
        pieces = []
        for number in range(start // size, -(-stop // size)):
            first = number * size
            pieces.append(self._slab(number)[max(start - first, 0) : stop - first])
        native = self.layout.dtype.newbyteorder("=")
        return np.concatenate(pieces).astype(native, copy=False)

    def _slab(self, number: int) -> NDArray[Any]:
        """All chunks with this index along the first axis, joined: (chunks[0], …)."""
        if self._cached is None or self._cached[0] != number:
            layout = self.layout
            slab = np.empty((layout.chunks[0], *layout.shape[1:]), layout.dtype)
            pairs = zip(layout.shape[1:], layout.chunks[1:], strict=True)
            grid = [range(-(-length // chunk)) for length, chunk in pairs]
            for index in itertools.product(*grid):
                chunk = self._chunk((number, *index))
                at = [
                    slice(i * n, (i + 1) * n) for i, n in zip(index, layout.chunks[1:], strict=True)
                ]
                target = slab[(slice(None), *at)]
                target[...] = chunk[tuple(slice(0, n) for n in target.shape)]
            self._cached = number, slab
        return self._cached[1]

    def _chunk(self, index: tuple[int, ...]) -> NDArray[Any]:
        layout = self.layout
        name = layout.separator.join(map(str, index))
        # No codec makes random bytes longer than this.
        limit = layout.chunk_bytes + layout.chunk_bytes // 8 + 2**16
        data = self._store.read(f"{self._key}/{name}", limit)
        if data is None:
            self.missing += 1
            return np.full(layout.chunks, layout.fill, layout.dtype)
        try:
            raw = DECODERS[layout.compressor](data, layout.chunk_bytes)
            if len(raw) != layout.chunk_bytes:
                raise ValueError(f"{len(raw):,} bytes instead of {layout.chunk_bytes:,}")
        except (ValueError, RuntimeError, OSError, EOFError, zlib.error) as error:
            path = self.path / name
            raise ConversionError(
                f"{path} cannot be decoded ({error}).", "Copy it again from its source.", path
            ) from error
        return np.frombuffer(raw, layout.dtype).reshape(layout.chunks, order=layout.order)


class ArrayWriter:
    """Writes `total` rows in order, a chunk whenever it is full."""

    def __init__(self, folder: Path, spec: ArraySpec, total: int) -> None:
        self._folder = folder
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._shape = spec.shape
        self._size = chunk_rows(spec, total)
        self._rows: list[NDArray[Any]] = []
        self._waiting = 0
        self._number = 0
        folder.mkdir(parents=True)
        document = {
            "zarr_format": 2,
            "shape": [total, *spec.shape],
            "chunks": [self._size, *spec.shape],
            "dtype": self._dtype.str,
            "compressor": COMPRESSOR,
            "fill_value": False if spec.dtype == "bool" else 0,
            "order": "C",
            "filters": None,
        }
        (folder / ".zarray").write_text(json.dumps(document, indent=1), "utf-8")

    def append(self, rows: NDArray[Any]) -> None:
        self._rows.append(rows)
        self._waiting += len(rows)
        if self._waiting >= self._size:
            joined = np.concatenate(self._rows)
            whole = len(joined) // self._size * self._size
            for start in range(0, whole, self._size):
                self._write(joined[start : start + self._size])
            self._rows, self._waiting = [joined[whole:]], len(joined) - whole

    def close(self) -> None:
        if self._waiting:
            padded = np.zeros((self._size, *self._shape), self._dtype)
            padded[: self._waiting] = np.concatenate(self._rows)
            self._write(padded)

    def _write(self, rows: NDArray[Any]) -> None:
        settings = {key: value for key, value in COMPRESSOR.items() if key != "id"}
        data = Blosc(**settings).encode(np.ascontiguousarray(rows, self._dtype))
        name = ".".join(map(str, (self._number, *[0] * len(self._shape))))
        (self._folder / name).write_bytes(data)
        self._number += 1
