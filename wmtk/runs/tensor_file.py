"""Reads safetensors files that may be damaged or malicious: checks sizes and checksum first."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Annotated

from pydantic import Field
from safetensors.torch import load
from torch import Tensor

from wmtk.datasets.storage import atomic
from wmtk.documents import Document
from wmtk.errors import CheckpointError, CorruptDatasetError, WmtkError

MAX_HEADER_BYTES = 2**24
Size = Annotated[int, Field(ge=0, lt=2**53)]


class TensorEntry(Document):
    """A tensor in the header of a file."""

    shape: list[Size]
    data_offsets: Annotated[list[Size], Field(min_length=2, max_length=2)]

    @classmethod
    def corrupt(cls, message: str, hint: str, path: Path) -> WmtkError:
        return CheckpointError(message, hint)


def read(path: Path, *, sha256: str, size: int | None) -> dict[str, Tensor]:
    """Read all tensors of a file; raises CheckpointError unless it has this checksum."""
    with _open(path, size) as file:
        _require_hash(path, file, sha256)
        file.seek(0)
        data = file.read()
    try:
        return load(data)
    except Exception as error:  # the checksum matches, so the file was invalid when written
        raise CheckpointError(f"{path} contains no tensors ({error}).") from error


def verify(path: Path, *, sha256: str, size: int | None) -> None:
    """Raise unless the file has this checksum."""
    with _open(path, size) as file:
        _require_hash(path, file, sha256)


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor, from the header alone."""
    with _open(path, None) as file:
        header = _header(path, file)
    return {name: tuple(entry.shape) for name, entry in header.items()}


@contextmanager
def _open(path: Path, size: int | None) -> Iterator[BufferedReader]:
    """Open a file after comparing its size with `size` and with its header."""
    try:
        with os.fdopen(atomic.open_regular(path), "rb") as file:
            actual = os.fstat(file.fileno()).st_size
            if size is not None and actual != size:
                raise CheckpointError(f"{path} has {actual} bytes instead of {size}.")
            declared = _declared(path, file)
            if actual != declared:
                raise CheckpointError(f"{path} has {actual} bytes; its header declares {declared}.")
            file.seek(0)
            yield file
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing.") from error
    except CorruptDatasetError as error:
        raise CheckpointError(error.message) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}).") from error


def _declared(path: Path, file: BufferedReader) -> int:
    """The size of the file that its header declares."""
    header = _header(path, file)
    ends = [entry.data_offsets[-1] for entry in header.values()]
    return file.tell() + max(ends, default=0)


def _header(path: Path, file: BufferedReader) -> dict[str, TensorEntry]:
    """The entry of each tensor; moves the file to the first tensor."""
    file.seek(0)
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    if length > MAX_HEADER_BYTES:
        raise CheckpointError(f"{path} has a header of {length} bytes.")
    header = atomic.parse_json(file.read(length), path)
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} has no header.")
    header.pop("__metadata__", None)
    return {name: TensorEntry.read(entry, path) for name, entry in header.items()}


def _require_hash(path: Path, file: BufferedReader, sha256: str) -> None:
    if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
        raise CheckpointError(f"{path} was altered: its checksum is wrong.")
