"""Read untrusted files: regular files only, bounded sizes, checked zip archives and JSON."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wmtk.datasets.storage import atomic
from wmtk.documents import Document, check_depth
from wmtk.errors import ConversionError, CorruptDatasetError, WmtkError
from wmtk.spaces import DTYPES

MAX_JSON_BYTES = 64 * 2**20
MAX_FILES = 2_000_000  # entries of one folder or archive
MAX_ARRAY_BYTES = 64 * 2**30  # of one array of an episode, or of one chunk of a flat array
# Real data rarely compresses beyond 500:1 (frames of Atari: 130:1, zeros with deflate: 1,030:1).
# Larger ratios above MAX_FREE_BYTES are refused as decompression bombs.
MAX_RATIO = 500
MAX_FREE_BYTES = 64 * 2**20
# zipfile unpacks other methods without a limit, regardless of the declared size.
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Exceptions of zipfile and of numpy's header reader on damaged or encrypted files.
DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # includes NotImplementedError
    LookupError,
    TypeError,
    SyntaxError,
    MemoryError,
    OverflowError,
)


class ForeignDocument(Document):
    """Base class of documents in files of other formats."""

    @classmethod
    def corrupt(cls, message: str, hint: str, path: Path) -> WmtkError:
        return ConversionError(message, hint, path)


def refuse_link(path: Path) -> Path:
    """Return `path`; symbolic links are refused, as they may lead anywhere."""
    if path.is_symlink():
        raise ConversionError(
            f"{path} is a symbolic link, which is not followed.",
            "Replace it by its target if you trust it.",
            path,
        )
    return path


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; links, pipes and devices are refused."""
    try:
        return os.fdopen(atomic.open_regular(refuse_link(path)), "rb")
    except CorruptDatasetError as error:
        raise ConversionError(error.message, "Replace it by the file itself.", path) from error
    except OSError as error:
        raise ConversionError(f"{path} cannot be read ({error.strerror}).", "", path) from error


def stored_bytes(file: BinaryIO) -> int:
    """The disk usage of a file in bytes, without the holes of a sparse file."""
    status = os.fstat(file.fileno())
    return min(status.st_size, max(status.st_blocks, 8) * 512)


def check_size(nbytes: int, stored: int, what: str, path: Path) -> None:
    """Refuse an array whose declared size is implausible for its stored bytes."""
    plausible = max(MAX_FREE_BYTES, stored * MAX_RATIO)
    if nbytes > min(plausible, MAX_ARRAY_BYTES):
        raise ConversionError(
            f"{what} in {path} declares {nbytes:,} bytes, but {stored:,} are stored.",
            "The file is damaged or malicious; it was not read.",
            path,
        )


@contextlib.contextmanager
def open_zip(path: Path, most: int) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive of at most `most` members of plausible sizes."""

    def refused(problem: str) -> ConversionError:
        return ConversionError(f"{path} {problem}.", "Copy it again from its source.", path)

    with open_file(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except DAMAGED_ZIP as error:
            raise refused(f"is not a readable zip archive ({error})") from error
        members = archive.infolist()
        if len(members) > most:
            raise refused(f"has {len(members):,} members")
        for member in members:
            if member.compress_type not in ZIP_METHODS:
                raise refused(f"packs {member.filename!r} with an unsupported method")
        stored = stored_bytes(file)
        if sum(member.compress_size for member in members) > os.fstat(file.fileno()).st_size:
            raise refused("has members that overlap")
        check_size(sum(member.file_size for member in members), stored, "The archive", path)
        with archive:
            yield archive


def native_dtype(dtype: np.dtype[Any], what: str, path: Path) -> np.dtype[Any]:
    """The dtype in native byte order; dtypes that datasets cannot store are refused."""
    if dtype.fields is not None or dtype.name not in DTYPES:
        raise ConversionError(
            f"{what} in {path} has dtype {dtype}, which a dataset cannot store.",
            f"Convert it to one of: {', '.join(sorted(DTYPES))}.",
            path,
        )
    return dtype.newbyteorder("=")


def read_file(path: Path, limit: int, what: str) -> bytes:
    """Read a file of at most `limit` bytes."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ConversionError(f"{path} has {size:,} bytes: too many for {what}.", "", path)
        try:
            return file.read(limit)
        except OSError as error:
            raise ConversionError(f"{path} cannot be read ({error.strerror}).", "", path) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a regular file of bounded size."""
    return parse_json(read_file(path, MAX_JSON_BYTES, "metadata"), path)


def parse_json(data: bytes | str, path: Path) -> dict[str, Any]:
    try:
        document = check_depth(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise ConversionError(
            f"{path} is not valid JSON ({error}).", "Copy it again from its source.", path
        ) from error
    if not isinstance(document, dict):
        raise ConversionError(f"{path} is not a JSON object.", "Copy it again.", path)
    return document


def plain(value: Any) -> Any:
    """Convert an attribute to JSON data: numpy scalars and arrays, bytes, sets, NaN."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(key): plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(element) for element in value]
    if isinstance(value, float) and not np.isfinite(value):
        return repr(value)  # JSON has no NaN and no infinity
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
