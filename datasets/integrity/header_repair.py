"""Mending a dataset's header: the one file that the rest of a dataset cannot replace."""

from __future__ import annotations

import os
import shlex
import uuid
from pathlib import Path
from typing import Any

from wmtk.datasets.integrity.salvage import MAX_HEALED_JSON, unflipped
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.header import GROUP, checked_header, read_header
from wmtk.datasets.storage.shard import ArrayMetadata
from wmtk.errors import CorruptDatasetError, DatasetError, SchemaMismatchError


def whole_header(data: bytes) -> dict[str, Any] | None:
    """The header in the content of a zarr.json, or None if anything is wrong with it."""
    try:
        document = atomic.parse_json(data, Path())
        header = checked_header(atomic.attributes_in(document), Path())
    except DatasetError:
        return None
    is_group = document.get("zarr_format") == 3 and document.get("node_type") == "group"
    return header if is_group else None


def load_header(root: Path) -> dict[str, Any] | None:
    """The header of a dataset, or None if it is damaged."""
    try:
        return whole_header(atomic.read_bytes(root / "zarr.json"))
    except (OSError, DatasetError):
        return None


def mended_header(root: Path, header_from: Path | None) -> tuple[bytes, str]:
    """The content that the damaged header should have, and how it was found."""
    path = root / "zarr.json"
    try:
        data = atomic.read_bytes(path)
    except (OSError, DatasetError):
        data = b""
    if (unaltered := unflipped(data, _is_whole, MAX_HEALED_JSON)) is not None:
        return unaltered, "turn back the one bit that flipped"
    if (rewrapped := _rewrapped(data)) is not None:
        return rewrapped, "write it again around the dataset's description, which is whole"
    if header_from is None:
        raise CorruptDatasetError(
            f"{path} is damaged. Only it tells the spaces, their bounds and the task, so "
            "nothing else in the dataset can replace it.",
            "Copy it from a backup. Or give a dataset of the same task (an empty one will do): "
            f"wmtk data repair {shlex.quote(str(root))} --header-from OTHER",
            path,
        )
    return _borrowed(root, header_from), f"take the header of {header_from}"


def _is_whole(data: bytes) -> bool:
    return whole_header(data) is not None


def _rewrapped(data: bytes) -> bytes | None:
    """A zarr.json of which only what zarr itself reads is damaged."""
    try:
        header = atomic.verify_checksum(
            atomic.attributes_in(atomic.parse_json(data, Path())), Path()
        )
    except DatasetError:
        return None
    wrapped = atomic.json_bytes({**GROUP, "attributes": {"wmtk": atomic.with_checksum(header)}})
    return wrapped if _is_whole(wrapped) else None


def _borrowed(root: Path, other: Path) -> bytes:
    header = read_header(other)
    _require_fit(root, Schema.from_json(header["schema"]), other)
    own = {
        **header,
        "id": uuid.uuid4().hex,
        "capacity": None,  # the true one is lost, and a wrong one would evict
        "attributes": {"repair": f"header of dataset {header['id']}"},
    }
    return atomic.json_bytes({**GROUP, "attributes": {"wmtk": atomic.with_checksum(own)}})


def _require_fit(root: Path, schema: Schema, other: Path) -> None:
    """Raise if the arrays on disk are not those of the schema."""
    declared = {path: (spec.shape, spec.dtype) for path, spec in schema.arrays()}
    for part in sorted(os.listdir(root / "parts")) if (root / "parts").is_dir() else ():
        for file in (root / "parts" / part).rglob("zarr.json"):
            array = file.parent.relative_to(root / "parts" / part).as_posix()
            try:
                data = atomic.read_bytes(file, limit=atomic.MAX_MARKER_BYTES)
                metadata = ArrayMetadata.read(atomic.parse_json(data, file), file)
            except (OSError, DatasetError):
                continue  # a group, or damaged itself
            found = (metadata.shape[1:], metadata.data_type)
            if declared.get(array) != found:
                raise SchemaMismatchError(
                    f"{other} is not a dataset of the same task: {array} is {found} in {root}, "
                    f"but {declared.get(array, 'absent')} there.",
                    "Give one with the same observation keys, shapes and dtypes.",
                    other,
                )
