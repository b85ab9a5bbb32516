"""Files of a zarr hierarchy in a folder or a zip archive, by keys that cannot lead elsewhere."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Protocol

from wmtk.datasets.convert.foreign import (
    DAMAGED_ZIP,
    MAX_FILES,
    MAX_FREE_BYTES,
    MAX_RATIO,
    refuse_link,
)
from wmtk.errors import ConversionError

MAX_FILE_BYTES = 2 * 2**30  # one chunk as stored


class Store(Protocol):
    path: Path

    def read(self, key: str) -> bytes | None: ...

    def names(self, folder: str) -> list[str]: ...

    def size(self, folder: str) -> int: ...


def _refused(path: Path, problem: str) -> ConversionError:
    return ConversionError(f"{path} {problem}.", "It was not read: it cannot be trusted.", path)


class FolderStore:
    """A folder; links in it are refused."""

    def __init__(self, path: Path) -> None:
        self.path = refuse_link(path)

    def _locate(self, key: str) -> Path:
        path = self.path
        for component in key.split("/") if key else []:
            assert component not in ("", ".", ".."), key
            path = refuse_link(path / component)
        return path

    def read(self, key: str) -> bytes | None:
        path = self._locate(key)
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise _refused(path, "is too large for a chunk")
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(path, f"cannot be read ({error.strerror})") from error

    def names(self, folder: str) -> list[str]:
        path = self._locate(folder)
        found = sorted(os.listdir(path)) if path.is_dir() else []
        if len(found) > MAX_FILES:
            raise _refused(path, f"holds {len(found):,} files")
        return found

    def size(self, folder: str) -> int:
        path = self._locate(folder)
        return sum(refuse_link(path / name).stat().st_size for name in self.names(folder))


class ZipStore:
    """A zip archive, read in place; the hierarchy may lie inside a folder of it."""

    def __init__(self, path: Path, landmark: str) -> None:
        self.path = refuse_link(path)
        try:
            self._archive = zipfile.ZipFile(path)
        except DAMAGED_ZIP as error:
            raise _refused(path, f"is no readable zip archive ({error})") from error
        members = self._archive.infolist()
        if len(members) > MAX_FILES:
            raise _refused(path, f"holds {len(members):,} files")
        roots = set()
        self._members = {}
        for member in members:
            name = member.filename
            if name.startswith("/") or "\\" in name or ".." in name.split("/") or ":" in name:
                raise _refused(path, f"has a member named {name!r}")
            limit = max(MAX_FREE_BYTES, member.compress_size * MAX_RATIO)
            if member.file_size > min(limit, MAX_FILE_BYTES):
                raise _refused(path, f"unpacks {name!r} to {member.file_size:,} bytes")
            if name == landmark or name.endswith(f"/{landmark}"):
                roots.add(name.removesuffix(landmark))
            self._members[name] = member
        if len(roots) != 1:
            raise _refused(path, f"holds {len(roots)} hierarchies with {landmark} instead of one")
        self._root = roots.pop()

    def read(self, key: str) -> bytes | None:
        member = self._members.get(self._root + key)
        if member is None:
            return None
        try:
            with self._archive.open(member) as file:
                return file.read(member.file_size)
        except DAMAGED_ZIP as error:
            raise _refused(self.path, f"cannot be read at {key!r} ({error})") from error

    def names(self, folder: str) -> list[str]:
        prefix = f"{self._root}{folder}/" if folder else self._root
        inside = (name[len(prefix) :] for name in self._members if name.startswith(prefix))
        return sorted({name.split("/")[0] for name in inside if name})

    def size(self, folder: str) -> int:
        prefix = f"{self._root}{folder}/"
        members = self._members.items()
        return sum(member.file_size for name, member in members if name.startswith(prefix))

    def close(self) -> None:
        self._archive.close()
