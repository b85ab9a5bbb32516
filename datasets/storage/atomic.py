"""Atomic writes: a crash or a power cut leaves either the old content or the new one."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from wmtk.errors import (
    CorruptDatasetError,
    DatasetError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    UsageError,
    WmtkError,
)

_STARTED = Path.cwd() if os.access(os.curdir, os.F_OK) else None
SYNC_THREADS = 8
_STAGED = re.compile(r"\..+\.[0-9a-f]{8}")  # see _staging_name
# The hint of errors about damaged files.
REPAIR_HINT = "Run `wmtk data validate` for the whole extent, then `wmtk data repair`."
MAX_JSON_BYTES = 64 * 2**20
MAX_STATE_BYTES = 256 * 2**20  # a snapshot or a tag: all parts of a version
MAX_MARKER_BYTES = 2**20  # the zarr.json of an array or of a plain group
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNREADABLE = {errno.ELOOP, errno.EIO, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENXIO}
_UNREADABLE |= {errno.ENAMETOOLONG}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}
_IMPOSSIBLE = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP, errno.EINVAL}
_FAILING = {errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.ETIMEDOUT}


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """The absolute path, which stays valid when the current folder changes.

    Raises UsageError for a path that no file system can have.
    """
    try:
        absolute = Path(path).absolute()
    except OSError as error:
        raise UsageError(
            f"{path} is relative to a deleted folder.", "Change to a folder that exists."
        ) from error
    try:
        absolute.lstat()
    except ValueError as error:
        raise UsageError(f"{os.fspath(path)!r} is not a path ({error}).") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _invalid_path(absolute, error) from error
    return absolute


def portable_path(path: Path) -> str:
    """A path to store in files: relative if it is inside the folder that the program started in.

    A folder with data and runs can then be moved.
    """
    here = Path.cwd()
    return str(path.relative_to(here) if here == _STARTED and here in path.parents else path)


def _invalid_path(path: Path, error: OSError) -> UsageError:
    text = str(path)
    if error.errno == errno.ENAMETOOLONG:
        excerpt = text if len(text) <= 100 else f"{text[:50]}…{text[-40:]}"
        return UsageError(
            f"The path {excerpt} is too long ({len(os.fsencode(text)):,} bytes).",
            "File systems allow 255 bytes per name, some of which wmtk needs for temporary names, "
            "and 4,095 per path: choose a shorter one.",
        )
    if error.errno == errno.ENOTDIR:
        parent = next((p for p in (path, *path.parents) if p.is_file()), path.parent)
        return UsageError(
            f"{text} cannot be created: {parent} is not a folder.", "Choose another path."
        )
    return UsageError(f"{text} cannot be created ({error.strerror}).", "Choose another path.")


@contextlib.contextmanager
def translate_os_errors(root: Path) -> Iterator[None]:
    """Raise WmtkErrors with hints in the place of OSErrors of failed writes.

    FileExistsError, and FileNotFoundError if `root` exists, are raised unchanged.
    """
    try:
        yield
    except OSError as error:
        translated = _translated(root, error)
        if translated is None:
            raise
        raise translated from error


def _translated(root: Path, error: OSError) -> WmtkError | None:
    if error.errno in _FULL:
        return StorageFullError(
            f"No space left to write to {root} ({error.strerror}).",
            "All earlier commits are intact. Free some space and run it again.",
            root,
        )
    if error.errno in _READ_ONLY:
        place = next((p for p in (root, *root.parents) if p.exists()), root)
        return ReadOnlyError(
            f"{root} cannot be written: {place} is not writable ({error.strerror}).",
            "Check the permissions, or choose a writable place.",
            root,
        )
    if error.errno in _IMPOSSIBLE:
        return _invalid_path(root, error)
    if error.errno in _FAILING:
        return StorageError(
            f"The storage of {root} failed ({error.strerror}).",
            "All earlier commits are intact. Check the disk or the network, then run it again.",
            root,
        )
    if isinstance(error, FileNotFoundError) and not root.exists():
        return moved_error(root)
    return None


def moved_error(root: Path) -> StorageError:
    """The error for a dataset or run whose folder does not exist any more."""
    return StorageError(
        f"{root} is gone: it was renamed, moved or removed while it was in use.",
        "Move it back, or use the new path; it holds everything written until then.",
        root,
    )


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Make everything below a folder durable.

    Files are synced in parallel: the file system then commits its journal once or twice instead of
    once per file, which is many times faster on a busy disk.
    """
    with ThreadPoolExecutor(SYNC_THREADS) as pool:
        list(pool.map(sync, [*path.rglob("*"), path]))


def write_file(path: Path, data: bytes, *, durably: bool = True) -> None:
    """Create a file with this content, synced if `durably`; its folder is not synced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durably:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_to_append(path: Path) -> TextIO:
    """Open a text file for appending; links and pipes are refused."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.fdopen(os.open(path, flags, 0o644), "a", encoding="utf-8")
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        message = f"{path} is a link or a pipe, not a regular file."
        raise DatasetError(
            message, "Put a regular file in its place, or delete it.", path
        ) from error


def _staging_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def remove_staged(folder: Path) -> None:
    """Delete temporary files that a killed `replace_file` left; no other process may write."""
    for path in folder.glob(".*.????????"):
        if _STAGED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of a file in one step: readers get the old or the new content."""
    staged = _staging_name(path)
    try:
        write_file(staged, data)
        staged.rename(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    sync(path.parent)


def create_exclusively(path: Path, data: bytes) -> None:
    """Create `path` with its whole content in one step, or raise FileExistsError.

    A hard link to a complete file is the one portable call that does both: it never replaces an
    existing name, and the file that appears is complete.
    """
    staged = _staging_name(path)
    try:
        write_file(staged, data)
        try:
            path.hardlink_to(staged)
        except OSError as error:
            if error.errno in {errno.ENOTSUP, errno.EMLINK, errno.EXDEV}:
                raise DatasetError(
                    f"The file system of {path.parent} has no hard links, which commits need.",
                    "Keep datasets that are written to on a local file system.",
                    path,
                ) from error
            raise
    finally:
        staged.unlink(missing_ok=True)
    sync(path.parent)


def make_folder(folder: Path, target: Path | None = None) -> None:
    """Create a folder and its parents; errors name `target`, by default the folder."""
    target = target or folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:  # as in /proc, where no folder can be made
        place = next(each for each in target.parents if each.exists())
        raise ReadOnlyError(
            f"{target} cannot be written: no folder can be created in {place}.",
            "Choose another place.",
            target,
        ) from error


@contextlib.contextmanager
def staged(target: Path, *, replacing: bool = False) -> Iterator[Path]:
    """A temporary path beside `target`, which is renamed to `target` at the end.

    An exception leaves `target` unchanged; a kill also leaves the temporary folder.
    """
    holder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    with translate_os_errors(target.parent):
        make_folder(holder, target)
    try:
        yield holder / target.name
        with translate_os_errors(target):
            if replacing:
                target.rename(holder / "old")
            (holder / target.name).rename(target)
            sync(target.absolute().parent)
    finally:
        remove_tree(holder)


def timestamp() -> str:
    """The current time in UTC as ISO 8601, for display only."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def remove_tree(path: Path) -> None:
    """Delete a folder, a file or a link (not its target); missing files are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


class FolderLock:
    """A lock (`flock`) on a folder, released at the latest when the process ends.

    `with FolderLock(…) as granted` yields whether the lock was granted; with `wait` it always is.
    """

    def __init__(self, path: Path, *, exclusive: bool, wait: bool = False) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        self._mode = mode if wait else mode | fcntl.LOCK_NB

    def __enter__(self) -> bool:
        try:
            fcntl.flock(self._descriptor, self._mode)
        except BlockingIOError:
            return False
        return True

    def __exit__(self, *_: object) -> None:
        self._release()

    def _release(self, close: Callable[[int], None] = os.close) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self._release()


# --- JSON with a checksum ---------------------------------------------------------------------


def _digest(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def with_checksum(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the checksum of its content added."""
    return {**document, "checksum": _digest(document)}


def verify_checksum(document: Any, path: Path) -> dict[str, Any]:
    """The document without its checksum; raises CorruptDatasetError unless it is correct."""
    if not isinstance(document, dict):
        raise CorruptDatasetError(f"{path} is not a JSON object.", REPAIR_HINT, path)
    content = {key: value for key, value in document.items() if key != "checksum"}
    try:
        intact = document.get("checksum") == _digest(content)
    except (ValueError, RecursionError):
        intact = False
    if not intact:
        raise CorruptDatasetError(f"{path} was altered: its checksum is wrong.", REPAIR_HINT, path)
    return content


def json_bytes(document: dict[str, Any], *, indent: int | None = None) -> bytes:
    # Python's encoder is ten times slower with an indent: only for files that are written once.
    return json.dumps(document, indent=indent, allow_nan=False).encode() + b"\n"


def open_regular(path: Path) -> int:
    """A descriptor to read a regular file; links, folders and devices are refused."""
    try:
        # O_NONBLOCK: opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _UNREADABLE:
            raise unreadable_error(path, error) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CorruptDatasetError(f"{path} is not a regular file.", REPAIR_HINT, path)
    return descriptor


def unreadable_error(path: Path, error: OSError) -> CorruptDatasetError:
    what = "is a symbolic link, which a dataset never contains"
    if error.errno != errno.ELOOP:
        what = f"cannot be read ({error.strerror})"
    return CorruptDatasetError(f"{path} {what}.", REPAIR_HINT, path)


def read_blocks(path: Path, *, limit: int) -> Iterator[bytes]:
    """The content of a regular file of at most `limit` bytes; links are not followed."""
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size
        if size <= limit:  # compared before reading: a sparse file may declare gigabytes
            size = 0
            while size <= limit and (block := os.read(descriptor, 2**20)):
                size += len(block)
                yield block
        if size > limit:
            raise CorruptDatasetError(
                f"{path} has {size} bytes; at most {limit} are expected.", REPAIR_HINT, path
            )
    except OSError as error:
        if error.errno in _UNREADABLE:
            raise unreadable_error(path, error) from error
        raise
    finally:
        os.close(descriptor)


def read_prefix(path: Path, size: int) -> bytes:
    """At most the first `size` bytes of a regular file."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(size)


def read_bytes(path: Path, *, limit: int = MAX_JSON_BYTES) -> bytes:
    """The whole content of a small file; see `read_blocks`."""
    return b"".join(read_blocks(path, limit=limit))


def parse_json(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptDatasetError(
            f"{path} is not valid JSON ({error}).", REPAIR_HINT, path
        ) from error


def attributes_in(document: Any) -> Any:
    """The `wmtk` attributes of a zarr.json, or None."""
    attributes = document.get("attributes") if isinstance(document, dict) else None
    return attributes.get("wmtk") if isinstance(attributes, dict) else None
