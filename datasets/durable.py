"""Writing files so that a crash or a power cut leaves either the old state or the new one."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wmtk.errors import CorruptDatasetError, DatasetError, ReadOnlyError, StorageFullError

SYNC_THREADS = 8
# What to do about damage, whichever file has it.
HINT = "Run `wmtk data validate` for the whole extent, then `wmtk data repair`."
MAX_JSON_BYTES = 256 * 2**20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNREADABLE = {errno.ELOOP, errno.EIO, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENXIO}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextlib.contextmanager
def writing(root: Path) -> Iterator[None]:
    """Turn the operating system's refusals of a write into errors that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError(
                f"No room left to write to {root} ({error.strerror}).",
                "Everything acknowledged before is intact. Free some space and run it again.",
                root,
            ) from error
        if error.errno in _READ_ONLY:
            raise ReadOnlyError(
                f"{root} cannot be written ({error.strerror}).",
                "Check the permissions, or copy the dataset to a place that can be written.",
                root,
            ) from error
        raise


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Make everything below a folder durable.

    At once rather than one after the other: the file system then commits its journal once or
    twice instead of once per file, which is many times faster on a busy disk.
    """
    with ThreadPoolExecutor(SYNC_THREADS) as pool:
        list(pool.map(sync, [*path.rglob("*"), path]))


def write_file(path: Path, data: bytes, *, durably: bool = True) -> None:
    """Write a file that nobody looks at yet; its content is durable unless that is put off."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durably:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _staging_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def replace_file(path: Path, data: bytes) -> None:
    """Give `path` a new content in one step: a reader sees the old one or the new one."""
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

    A hard link to a finished file is the one portable call that does both: it never replaces
    an existing name, and what it makes visible is complete.
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


@contextlib.contextmanager
def staged(target: Path, *, replacing: bool = False) -> Iterator[Path]:
    """A path in a hidden folder beside `target` that takes its place at the end.

    A failure leaves what was there; a kill leaves also the hidden folder.
    """
    holder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    with writing(target.parent):
        holder.mkdir(parents=True)
    try:
        yield holder / target.name
        with writing(target):
            if replacing:
                target.rename(holder / "old")
            (holder / target.name).rename(target)
            sync(target.absolute().parent)
    finally:
        remove_tree(holder)


def now() -> str:
    """The time for people to read; nothing is ever ordered by it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def remove_tree(path: Path) -> None:
    """Delete a folder; files that vanish meanwhile are fine."""
    shutil.rmtree(path, ignore_errors=True)


class lock_held:  # noqa: N801 — used like the function it would be, `with lock_held(…):`
    """A lock on a file or folder; it ends with the process, killed or not.

    Entering says whether it was granted, which it always is to those who wait. An object rather
    than a generator, so that one that is never left goes quietly when Python ends.
    """

    def __init__(self, path: Path, *, exclusive: bool, wait: bool = False) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
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


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the checksum of its content added."""
    return {**document, "checksum": _digest(document)}


def unsealed(document: Any, path: Path) -> dict[str, Any]:
    """The document without its checksum, which must be right."""
    if not isinstance(document, dict):
        raise CorruptDatasetError(f"{path} is not a JSON object.", HINT, path)
    content = {key: value for key, value in document.items() if key != "checksum"}
    try:
        intact = document.get("checksum") == _digest(content)
    except (ValueError, RecursionError):
        intact = False
    if not intact:
        raise CorruptDatasetError(f"{path} was altered: its checksum is wrong.", HINT, path)
    return content


def to_bytes(document: dict[str, Any], *, indent: int | None = None) -> bytes:
    # Python's encoder is ten times slower with an indent: only for what is written once.
    return json.dumps(document, indent=indent, allow_nan=False).encode() + b"\n"


def open_regular(path: Path) -> int:
    """A descriptor to read a file of a dataset; links, folders and devices are refused."""
    try:
        # Without waiting: a pipe would have us wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _UNREADABLE:
            raise unreadable(path, error) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CorruptDatasetError(f"{path} is not a regular file.", HINT, path)
    return descriptor


def unreadable(path: Path, error: OSError) -> CorruptDatasetError:
    what = "is a symbolic link, which a dataset never contains"
    if error.errno != errno.ELOOP:
        what = f"cannot be read ({error.strerror})"
    return CorruptDatasetError(f"{path} {what}.", HINT, path)


def read_bytes(path: Path) -> bytes:
    """A small file's content; links are not followed, absurd sizes are refused."""
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > MAX_JSON_BYTES:
            raise CorruptDatasetError(
                f"{path} has {size} bytes, more than any metadata file of a dataset.", HINT, path
            )
        blocks = []
        while block := os.read(descriptor, 2**20):
            blocks.append(block)
        return b"".join(blocks)
    except OSError as error:
        if error.errno in _UNREADABLE:
            raise unreadable(path, error) from error
        raise
    finally:
        os.close(descriptor)


def parse(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptDatasetError(f"{path} is not valid JSON ({error}).", HINT, path) from error
