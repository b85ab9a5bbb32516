"""Read untrusted HDF5 files and write HDF5: links, implausible sizes and damage are refused."""

from __future__ import annotations

import contextlib
import math
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.convert.untrusted import check_size, native_dtype, open_file
from wmtk.datasets.storage.shard import chunk_rows
from wmtk.errors import ConversionError, MissingDependencyError, UsageError, WmtkError
from wmtk.spaces import DTYPES, ArraySpec

DEFLATE = 1  # id of HDF5's gzip filter, whose ratio is at most 1,032:1
HARMLESS_CHUNK = 2**18  # bytes of a gzip stream, which unpack to at most 256 MiB
MAX_DEPTH = 16  # of nested groups
SLACK = 1024  # bytes of a checksum before the compression
SIGNATURE = b"\x89HDF\r\n\x1a\n"


def load_h5py() -> ModuleType:
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError("h5py", "convert", "Reading and writing HDF5") from error
    module: ModuleType = h5py
    return module


def is_hdf5(path: Path) -> bool:
    if not path.is_file():
        return False
    with open_file(path) as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open an h5py.File for reading."""
    h5py = load_h5py()
    open_file(path).close()  # refuses other than regular files
    with guarded(path):
        file = h5py.File(path, "r")
    with file:
        yield file


@contextlib.contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Convert exceptions of h5py to ConversionError with the path."""
    try:
        yield
    except WmtkError:
        raise
    except Exception as error:  # h5py raises many types
        raise ConversionError(
            f"{path} is not a readable HDF5 file ({error}).",
            "It is damaged or incomplete: copy it again from its source.",
            path,
        ) from error


@contextlib.contextmanager
def create_hdf5(path: Path) -> Iterator[Any]:
    """Create an h5py.File in the format of HDF5 1.8, which has attributes beyond 64 kB."""
    try:
        with load_h5py().File(path, "w", libver=("v108", "v110")) as file:
            yield file
    except (OSError, RuntimeError) as error:
        # HDF5 reports the errno of a failed write only in its message.
        if match := re.search(r"errno = (\d+)", str(error)):
            number = int(match[1])
            raise OSError(number, os.strerror(number), str(path)) from error
        raise


def names(group: Any) -> list[str]:
    return [str(name) for name in group]


def child(group: Any, name: str, path: Path) -> Any | None:
    """The group or dataset of this name in the file, or None."""
    h5py = load_h5py()
    link = group.get(name, getlink=True)
    if link is None:
        return None
    if not isinstance(link, h5py.HardLink):
        raise ConversionError(
            f"{group.name}/{name} in {path} is a link, which is not followed.",
            "Copy the data into the file if you trust it.",
            path,
        )
    node = group[name]
    if isinstance(node, h5py.Dataset) and (node.external or node.is_virtual):
        raise ConversionError(
            f"{node.name} in {path} stores its data in other files, which are not read.",
            "Copy the data into the file if you trust it.",
            path,
        )
    return node


def is_group(node: Any) -> bool:
    return bool(isinstance(node, load_h5py().Group))


def is_numeric(node: Any) -> bool:
    """Whether a node is a dataset of a supported dtype."""
    return bool(isinstance(node, load_h5py().Dataset) and node.dtype.name in DTYPES)


def array(group: Any, name: str, path: Path) -> Any:
    """The numeric dataset of this name, after a check of its size."""
    node = child(group, name, path)
    if node is None or is_group(node):
        where = "" if group.name == "/" else f"{group.name}/"
        raise ConversionError(
            f"{path} has no array {where}{name}.", "It is not of this format, or damaged.", path
        )
    check_array(node, path)
    return node


def check_array(node: Any, path: Path) -> None:
    native_dtype(node.dtype, node.name, path)
    if node.ndim == 0:
        raise ConversionError(f"{node.name} in {path} is a single value.", "", path)
    stored = node.id.get_storage_size()
    check_size(node.nbytes, stored, node.name, path)
    if node.chunks is not None:  # HDF5 unpacks whole chunks, also beyond the array
        nbytes = math.prod(node.chunks) * node.dtype.itemsize
        check_size(nbytes, stored, f"A chunk of {node.name}", path)
        _check_chunks(node, nbytes, path)


def _check_chunks(node: Any, nbytes: int, path: Path) -> None:
    """Refuse chunks that unpack to more than their size: HDF5's gzip has no limit."""
    properties = node.id.get_create_plist()
    filters = [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]
    if filters.count(DEFLATE) == 0:
        return
    refused = ConversionError(
        f"{node.name} in {path} has chunks that unpack to more than their {nbytes:,} bytes.",
        "The file is damaged or malicious; it was not read.",
        path,
    )
    if filters.count(DEFLATE) > 1:
        raise refused
    for number in range(node.id.get_num_chunks()):
        chunk = node.id.get_chunk_info(number)
        if chunk.size <= HARMLESS_CHUNK:
            continue
        _, data = node.id.read_direct_chunk(chunk.chunk_offset)
        if len(zlib.decompressobj().decompress(data, nbytes + SLACK)) == nbytes + SLACK:
            raise refused


def rows(node: Any, start: int, stop: int, path: Path) -> NDArray[Any]:
    """Rows [start, stop) in native byte order."""
    with guarded(path):
        values = np.asarray(node[start:stop])
    return values.astype(native_dtype(values.dtype, node.name, path), copy=False)


def leaves(
    group: Any, path: Path, prefix: str = "", visited: set[int] | None = None
) -> Iterator[tuple[str, Any]]:
    """All datasets below a group with their '/'-separated names.

    Groups with several hard links are refused: they may form cycles, or exponentially many names.
    """
    visited = set() if visited is None else visited
    address = load_h5py().h5o.get_info(group.id).addr
    if address in visited:
        raise ConversionError(
            f"{group.name} in {path} is reached by several links.",
            "Copy the data into each place if you trust the file.",
            path,
        )
    visited.add(address)
    if prefix.count("/") > MAX_DEPTH:
        raise ConversionError(f"{group.name} in {path} is nested too deeply.", "", path)
    for name in names(group):
        node = child(group, name, path)
        if is_group(node):
            yield from leaves(node, path, f"{prefix}{name}/", visited)
        elif node is not None:
            yield f"{prefix}{name}", node


def create(
    group: Any, name: str, shape: tuple[int, ...], dtype: Any, compression: str | None
) -> Any:
    """Create a chunked dataset that can grow along its first axis."""
    spec = ArraySpec("box", shape[1:], np.dtype(dtype).name)
    return group.create_dataset(
        name,
        shape,
        dtype,
        chunks=(chunk_rows(spec, max(1, shape[0])), *shape[1:]),
        maxshape=(None, *shape[1:]),
        compression=compression,
        fletcher32=True,  # a checksum per chunk, supported by every build of HDF5
    )


def check_compression(choice: str | None) -> str | None:
    """Validate a compression filter; supported are those that every build of HDF5 includes."""
    if choice not in (None, "none", "gzip", "lzf"):
        raise UsageError(f"compression={choice!r} is unknown.", "Use 'gzip', 'lzf' or 'none'.")
    return None if choice == "none" else choice
