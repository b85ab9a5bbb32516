"""`PackedRows`: the rows of one array of a long episode, compressed while it is collected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numcodecs.zstd import Zstd
from numpy.typing import NDArray

from wmtk.spaces import ArraySpec

BLOCK_BYTES = 8 * 2**20  # uncompressed rows per array
ROW_OVERHEAD = 128  # bytes that a row costs as an object of its own
LEVEL = 3  # of zstd


class PackedRows:
    """Compressed rows with the interface of an array (rows, …): len, shape, dtype, indexing.

    `np.asarray` decompresses all rows, `blocks` one block at a time.
    """

    def __init__(self, spec: ArraySpec) -> None:
        self.dtype = np.dtype(spec.dtype)
        self._row_shape = spec.shape
        self._blocks: list[bytes] = []
        self._counts: list[int] = []

    def add(self, rows: NDArray[Any]) -> None:
        """Append a block of rows."""
        self._blocks.append(bytes(Zstd(level=LEVEL).encode(np.ascontiguousarray(rows))))
        self._counts.append(len(rows))

    def __len__(self) -> int:
        return sum(self._counts)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self._row_shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _block(self, number: int) -> NDArray[Any]:
        rows = np.empty((self._counts[number], *self._row_shape), self.dtype)
        Zstd().decode(self._blocks[number], rows)
        return rows

    def blocks(self) -> Iterator[NDArray[Any]]:
        for number in range(len(self._blocks)):
            yield self._block(number)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        if not isinstance(key, int | np.integer):
            rows: NDArray[Any] = np.asarray(self)[key]
            return rows
        index = int(key) + (len(self) if key < 0 else 0)
        for number, count in enumerate(self._counts):
            if 0 <= index < count:
                row: NDArray[Any] = self._block(number)[index]
                return row
            index -= count
        raise IndexError(f"row {key} of {len(self)}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        rows = np.empty(self.shape, self.dtype)
        start = 0
        for block in self.blocks():
            rows[start : start + len(block)] = block
            start += len(block)
        return rows if dtype is None else rows.astype(dtype, copy=False)


class RowBuffer:
    """Collects the rows of one array; full blocks are compressed."""

    def __init__(self, spec: ArraySpec) -> None:
        self._spec = spec
        self._most = max(1, BLOCK_BYTES // (spec.row_bytes + ROW_OVERHEAD))
        self._pending: list[NDArray[Any]] = []
        self._packed: PackedRows | None = None

    def append(self, row: NDArray[Any]) -> None:
        self._pending.append(row)
        if len(self._pending) >= self._most:
            self._pack()

    def _pack(self) -> None:
        self._packed = self._packed or PackedRows(self._spec)
        self._packed.add(self._stacked())
        self._pending = []

    def _stacked(self) -> NDArray[Any]:
        shape = (len(self._pending), *self._spec.shape)
        return np.asarray(self._pending, self._spec.dtype).reshape(shape)

    def rows(self) -> Any:
        """All rows: an array, or PackedRows once a block was filled."""
        if self._packed is None:
            return self._stacked()
        if self._pending:
            self._pack()
        return self._packed


def blocks_of(rows: Any) -> Iterator[NDArray[Any]]:
    """The rows of an array or of PackedRows, in order, one block at a time."""
    if isinstance(rows, PackedRows):
        yield from rows.blocks()
    else:
        yield rows
