"""Read untrusted npz files: no pickle, and declared sizes are checked before unpacking."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.convert.untrusted import DAMAGED_ZIP, check_size, native_dtype, open_zip
from wmtk.errors import ConversionError

MAX_MEMBERS = 1024


@dataclass(frozen=True)
class NpyHeader:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


class NpzFile:
    """The arrays of one npz file, read on access."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self._members = {}
        for member in archive.infolist():
            name = member.filename
            if not name.endswith(".npy") or name.startswith("/") or ".." in name or "\\" in name:
                raise self._refused(f"has a member named {name!r}")
            self._members[name.removesuffix(".npy")] = member

    def _refused(self, problem: str) -> ConversionError:
        return ConversionError(
            f"{self.path} {problem}.", "It is damaged or not an episode.", self.path
        )

    @property
    def keys(self) -> list[str]:
        return list(self._members)

    def header(self, key: str) -> NpyHeader:
        """The shape and dtype of an array, without reading it."""
        with self._open(key) as file:
            return self._header(key, file)

    def read(self, key: str) -> NDArray[Any]:
        with self._open(key) as file:
            header = self._header(key, file)
            size = header.dtype.itemsize * int(np.prod(header.shape, dtype=np.int64))
            data = file.read(size)
            if len(data) != size or file.read(1):  # reading to the end verifies the checksum
                raise self._refused(f"ends inside or goes on after the array {key!r}")
        order = "F" if header.fortran else "C"
        rows = np.frombuffer(data, header.dtype).reshape(header.shape, order=order)  # type: ignore[call-overload]
        return np.ascontiguousarray(rows, header.dtype.newbyteorder("="))

    @contextlib.contextmanager
    def _open(self, key: str) -> Iterator[IO[bytes]]:
        try:
            with self._archive.open(self._members[key]) as file:
                yield file
        except KeyError:
            raise self._refused(f"has no array {key!r}") from None
        except DAMAGED_ZIP as error:
            raise self._refused(f"cannot be read at {key!r} ({error})") from error

    def _header(self, key: str, file: IO[bytes]) -> NpyHeader:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        native_dtype(dtype, repr(key), self.path)
        if any(length < 0 for length in shape):
            raise self._refused(f"declares an impossible shape of {key!r}")
        size = dtype.itemsize
        for length in shape:
            size *= length
        check_size(size, self._members[key].compress_size, repr(key), self.path)
        return NpyHeader(tuple(shape), dtype, bool(fortran))


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[NpzFile]:
    with open_zip(path, MAX_MEMBERS) as archive:
        yield NpzFile(path, archive)
