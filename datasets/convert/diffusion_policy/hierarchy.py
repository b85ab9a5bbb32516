"""Files of a zarr hierarchy in a folder or a zip archive; links and escaping names are refused."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Protocol

from wmtk.datasets.convert.untrusted import DAMAGED_ZIP, MAX_FILES, read_file, refuse_link
from wmtk.errors import ConversionError


class Hierarchy(Protocol):
    path: Path

    def read(self, key: str, limit: int) -> bytes | None:
        """The content of a file of at most `limit` bytes; None if it does not exist."""

    def names(self, folder: str) -> list[str]:
        """The sorted names of the entries of a folder."""

    def size(self, folder: str) -> int:
        """The stored bytes of all files in a folder."""


def _refused(path: Path, problem: str) -> ConversionError:
    return ConversionError(f"{path} {problem}.", "The file is untrusted and was not read.", path)


class FolderHierarchy:
    def __init__(self, path: Path) -> None:
        self.path = refuse_link(path)

    def read(self, key: str, limit: int) -> bytes | None:
        path = self._locate(key)
        if not os.path.lexists(path):
            return None
        return read_file(path, limit, "its content")

    def names(self, folder: str) -> list[str]:
        path = self._locate(folder)
        names = sorted(os.listdir(path)) if path.is_dir() else []
        if len(names) > MAX_FILES:
            raise _refused(path, f"holds {len(names):,} files")
        return names

    def size(self, folder: str) -> int:
        path = self._locate(folder)
        return sum(self._stored_bytes(path / name) for name in self.names(folder))

    def _locate(self, key: str) -> Path:
        path = self.path
        for component in key.split("/") if key else []:
            assert component not in ("", ".", ".."), key
            path = refuse_link(path / component)
        return path

    @staticmethod
    def _stored_bytes(path: Path) -> int:
        status = refuse_link(path).stat()
        return min(status.st_size, max(status.st_blocks, 8) * 512)


class ZipHierarchy:
    """Reads the archive in place; the hierarchy is the folder of it that contains `landmark`."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, landmark: str) -> None:
        self.path = path
        self._archive = archive
        roots = set()
        self._members = {}
        for member in archive.infolist():
            name = member.filename
            if name.startswith("/") or "\\" in name or ".." in name.split("/") or ":" in name:
                raise _refused(path, f"has a member named {name!r}")
            if name == landmark or name.endswith(f"/{landmark}"):
                roots.add(name.removesuffix(landmark))
            self._members[name] = member
        if len(roots) != 1:
            raise _refused(path, f"holds {len(roots)} hierarchies with {landmark} instead of one")
        self._root = roots.pop()

    def read(self, key: str, limit: int) -> bytes | None:
        member = self._members.get(self._root + key)
        if member is None:
            return None
        if member.file_size > limit:
            raise _refused(self.path, f"unpacks {key!r} to {member.file_size:,} bytes")
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
