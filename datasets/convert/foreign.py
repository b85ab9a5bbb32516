"""Reading files that others made: nothing is trusted before it has been checked."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from wmtk.errors import ConversionError
from wmtk.spaces import DTYPES

MAX_JSON_BYTES = 256 * 2**20
MAX_FILES = 2_000_000  # entries of one folder or archive
MAX_ARRAY_BYTES = 64 * 2**30  # of one array of one episode, or one chunk's worth of a flat one
# Real data seldom compresses beyond 1,000:1 (frames of Atari: 130:1); past this, and past
# MAX_FREE_BYTES, a declared size is taken for a trap.
MAX_RATIO = 20_000
MAX_FREE_BYTES = 64 * 2**20
# What zipfile and numpy's header reader raise on damaged files, encrypted members included.
DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # and with it NotImplementedError
)


def refuse_link(path: Path) -> Path:
    """Return `path` unless it is a symbolic link, which could lead anywhere."""
    if path.is_symlink():
        raise ConversionError(
            f"{path} is a symbolic link, which is not followed.",
            "Replace it by the file itself if you trust it.",
            path,
        )
    return path


def check_size(nbytes: int, stored: int, what: str, path: Path) -> None:
    """Refuse an array whose declared size its stored bytes cannot explain."""
    explained = max(MAX_FREE_BYTES, stored * MAX_RATIO)
    if nbytes > min(explained, MAX_ARRAY_BYTES):
        raise ConversionError(
            f"{what} in {path} declares {nbytes:,} bytes, but {stored:,} are stored.",
            "The file is damaged or was made to exhaust memory; it was not read.",
            path,
        )


def native_dtype(dtype: np.dtype[Any], what: str, path: Path) -> np.dtype[Any]:
    """The dtype in this machine's byte order, if datasets can hold it."""
    if dtype.fields is not None or dtype.name not in DTYPES:
        raise ConversionError(
            f"{what} in {path} has dtype {dtype}, which a dataset cannot hold.",
            f"Convert it to one of: {', '.join(sorted(DTYPES))}.",
            path,
        )
    return dtype.newbyteorder("=")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file that is not a link and not absurdly large."""
    try:
        size = refuse_link(path).stat().st_size
        if size > MAX_JSON_BYTES:
            raise ConversionError(f"{path} has {size:,} bytes: too many for metadata.", "", path)
        data = path.read_bytes()
    except OSError as error:
        raise ConversionError(f"{path} cannot be read ({error.strerror}).", "", path) from error
    return parse_json(data, path)


def parse_json(data: bytes | str, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(data)
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
