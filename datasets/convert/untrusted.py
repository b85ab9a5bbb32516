"""Reading files that others made: nothing is trusted before it has been checked."""

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
MAX_ARRAY_BYTES = 64 * 2**30  # of one array of one episode, or one chunk's worth of a flat one
# Real data seldom compresses beyond 500:1 (frames of Atari: 130:1); past this, and past
# MAX_FREE_BYTES, a declared size is taken for a trap. Deflate reaches 1,030:1 on zeros.
MAX_RATIO = 500
MAX_FREE_BYTES = 64 * 2**20
# zipfile unpacks the others without a limit, whatever size an entry declares.
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What zipfile and numpy's header reader raise on damaged files, encrypted members included.
DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # and with it NotImplementedError
    LookupError,
    TypeError,
    SyntaxError,
    MemoryError,
    OverflowError,
)


class ForeignDocument(Document):
    """Base of the documents in files of other formats."""

    @classmethod
    def corrupt(cls, message: str, hint: str, path: Path) -> WmtkError:
        return ConversionError(message, hint, path)


def refuse_link(path: Path) -> Path:
    """Return `path` unless it is a symbolic link, which could lead anywhere."""
    if path.is_symlink():
        raise ConversionError(
            f"{path} is a symbolic link, which is not followed.",
            "Replace it by the file itself if you trust it.",
            path,
        )
    return path


def open_file(path: Path) -> BinaryIO:
    """A regular file, open for reading: links, pipes and devices are refused at once."""
    try:
        return os.fdopen(atomic.open_regular(refuse_link(path)), "rb")
    except CorruptDatasetError as error:
        raise ConversionError(error.message, "Replace it by the file itself.", path) from error
    except OSError as error:
        raise ConversionError(f"{path} cannot be read ({error.strerror}).", "", path) from error


def stored_bytes(file: BinaryIO) -> int:
    """What a file occupies on its disk: the holes of a sparse file do not count."""
    status = os.fstat(file.fileno())
    return min(status.st_size, max(status.st_blocks, 8) * 512)


def check_size(nbytes: int, stored: int, what: str, path: Path) -> None:
    """Refuse an array whose declared size its stored bytes cannot explain."""
    explained = max(MAX_FREE_BYTES, stored * MAX_RATIO)
    if nbytes > min(explained, MAX_ARRAY_BYTES):
        raise ConversionError(
            f"{what} in {path} declares {nbytes:,} bytes, but {stored:,} are stored.",
            "The file is damaged or was made to exhaust memory; it was not read.",
            path,
        )


@contextlib.contextmanager
def open_zip(path: Path, most: int) -> Iterator[zipfile.ZipFile]:
    """A zip archive of at most `most` members, whose declared sizes are all believable."""

    def refused(problem: str) -> ConversionError:
        return ConversionError(f"{path} {problem}.", "Copy it again from its source.", path)

    with open_file(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except DAMAGED_ZIP as error:
            raise refused(f"is no readable zip archive ({error})") from error
        members = archive.infolist()
        if len(members) > most:
            raise refused(f"has {len(members):,} members")
        for member in members:
            if member.compress_type not in ZIP_METHODS:
                raise refused(f"packs {member.filename!r} in a way that is not read")
        stored = stored_bytes(file)
        if sum(member.compress_size for member in members) > os.fstat(file.fileno()).st_size:
            raise refused("has members that overlap")
        check_size(sum(member.file_size for member in members), stored, "The archive", path)
        with archive:
            yield archive


def native_dtype(dtype: np.dtype[Any], what: str, path: Path) -> np.dtype[Any]:
    """The dtype in this machine's byte order, if datasets can hold it."""
    if dtype.fields is not None or dtype.name not in DTYPES:
        raise ConversionError(
            f"{what} in {path} has dtype {dtype}, which a dataset cannot hold.",
            f"Convert it to one of: {', '.join(sorted(DTYPES))}.",
            path,
        )
    return dtype.newbyteorder("=")


def read_file(path: Path, limit: int, what: str) -> bytes:
    """A file of at most `limit` bytes."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ConversionError(f"{path} has {size:,} bytes: too many for {what}.", "", path)
        try:
            return file.read(limit)
        except OSError as error:
            raise ConversionError(f"{path} cannot be read ({error.strerror}).", "", path) from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a regular file that is not absurdly large."""
    return parse_json(read_file(path, MAX_JSON_BYTES, "metadata"), path)


def parse_json(data: bytes | str, path: Path) -> dict[str, Any]:
    try:
        document = check_depth(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise ConversionError(
            f"{path} is not valid JSON ({error}).", "Copy it again from its source.", path
        ) from error
    if not isinstance(document, dict):
        raise ConversionError(f"{path} holds no JSON object.", "Copy it again.", path)
    return document


def plain(value: Any) -> Any:
    """An attribute as JSON can hold it: numpy's scalars and arrays, bytes and sets made plain."""
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
