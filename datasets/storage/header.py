"""The header of a dataset: schema, task and settings in the attributes of the root group."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from wmtk.datasets.schema import ALIGNMENT, Schema, SchemaDocument
from wmtk.datasets.storage import atomic, hosts
from wmtk.documents import Document, FreeForm, Text
from wmtk.errors import (
    CorruptDatasetError,
    DatasetError,
    FormatVersionError,
    NotADatasetError,
    SpaceError,
)

FORMAT = 1
GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}
_COPY = "The dataset is damaged or was not written by wmtk; copy it again."
_STAGED = ".zarr.json."  # prefix of the temporary name of zarr.json
QUARANTINE = "quarantine"
# Folders without zarr data have the metadata of an empty array, so that zarr-python lists the
# hierarchy without warnings about the files in them.
FOLDERS = {
    "log": "Commit records: one JSON file per version, and snapshots of the whole state.",
    "tags": "Named versions: one JSON file per tag.",
    "tmp": "Parts that are being written.",
    "trash": "Parts that are being deleted.",
}


def write_header(
    root: Path,
    schema: Schema,
    env: Mapping[str, Any],
    capacity: int | None,
    attributes: Mapping[str, Any],
) -> None:
    """Create an empty dataset; the root's zarr.json is written last."""
    header = {
        "format": FORMAT,
        "id": uuid.uuid4().hex,
        "schema": schema.to_json(),
        "env": dict(env),
        "capacity": capacity,
        "alignment": ALIGNMENT,
        "attributes": dict(attributes),
    }
    try:
        with atomic.translate_os_errors(root):
            atomic.make_folder(root)
            make_folders(root)
            atomic.create_exclusively(root / "zarr.json", header_bytes(header, indent=1))
    except FileExistsError as error:
        raise DatasetError(
            f"{root} was created by another process at the same time.",
            "Open the dataset to append to it, or choose another path.",
            root,
        ) from error


def make_folders(root: Path) -> None:
    """Create the missing folders of a dataset; copies may omit empty ones."""
    for name in ("parts", *FOLDERS):
        make_folder(root, name)


def make_folder(root: Path, name: str) -> None:
    """Create one folder of a dataset with its zarr.json, unless both exist."""
    if not (root / name / "zarr.json").exists():
        (root / name).mkdir(exist_ok=True)
        atomic.replace_file(root / name / "zarr.json", atomic.json_bytes(folder_metadata(name)))


def folder_metadata(name: str) -> dict[str, Any]:
    """The zarr.json of a folder of a dataset."""
    if name == "parts":
        return GROUP
    return empty_array(FOLDERS.get(name, "Damaged files that repair has set aside."))


def is_vacant(root: Path) -> bool:
    """Whether a dataset can be created here: only files of an interrupted creation may exist."""
    if not root.is_dir():
        return not root.exists()
    for path in root.iterdir():
        if path.name in {"parts", *FOLDERS} and path.is_dir() and not path.is_symlink():
            if not all(_is_marker(inner.name) for inner in path.iterdir()):
                return False
        elif not path.name.startswith(_STAGED):
            return False
    return True


def _is_marker(name: str) -> bool:
    return name in {"zarr.json", hosts.OWNER} or name.startswith((_STAGED, hosts.WRITER))


def empty_array(description: str) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [0],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "attributes": {"description": description},
    }


class DatasetHeader(Document):
    """Schema of the `wmtk` attributes of the root group."""

    format: Annotated[int, Field(ge=1)]
    id: Text
    schema_: SchemaDocument = Field(alias="schema")
    env: FreeForm
    capacity: Annotated[int, Field(ge=1)] | None
    attributes: FreeForm


def header_bytes(header: dict[str, Any], *, indent: int | None = None) -> bytes:
    """The root's zarr.json with this header."""
    attributes = {"wmtk": atomic.with_checksum(header)}
    return atomic.json_bytes({**GROUP, "attributes": attributes}, indent=indent)


def read_header(root: Path) -> dict[str, Any]:
    """The header of a dataset whose folders are all there.

    Raises NotADatasetError, FormatVersionError or CorruptDatasetError.
    """
    header = load_header(root)
    for name in ("parts", *FOLDERS):
        folder = root / name
        required = name in {"parts", "log"}  # copies may omit empty folders
        if folder.is_symlink() or ((folder.exists() or required) and not folder.is_dir()):
            raise CorruptDatasetError(
                f"{folder} is missing or not a folder.",
                "Copy the dataset again from its source.",
                folder,
            )
    return header


def load_header(root: Path) -> dict[str, Any]:
    """The header from the root's zarr.json; other files of the dataset are not checked."""
    path = root / "zarr.json"
    hint = "Pass the path of a dataset folder; `wmtk data list` lists those below a folder."
    if (root / "run.json").is_file():
        replay = root / "replay.zarr"
        hint = "It is a run directory. " + (
            f"Its episodes are in {replay}." if replay.is_dir() else "Pass its dataset."
        )
    if not root.is_dir():
        raise NotADatasetError(f"{root} is not a folder.", hint, root)
    if (root / ".zgroup").exists() or (root / ".zarray").exists():
        raise NotADatasetError(
            f"{root} is a zarr v2 store, not a wmtk dataset.",
            "Convert it with `wmtk data import`.",
            root,
        )
    try:
        document = atomic.parse_json(atomic.read_bytes(path), path)
    except FileNotFoundError as error:
        raise NotADatasetError(f"{root} holds no dataset: no zarr.json.", hint, root) from error
    stored = atomic.attributes_in(document)
    if not isinstance(stored, dict):
        raise NotADatasetError(
            f"{root} is a zarr store, but not a wmtk dataset.",
            "Convert it with `wmtk data import`.",
            root,
        )
    header = atomic.verify_checksum(stored, path)
    written_with = header.get("format")
    if isinstance(written_with, int) and written_with > FORMAT:
        raise FormatVersionError(
            f"{root} has format version {written_with}, this wmtk reads up to {FORMAT}.",
            "Update it with: pip install --upgrade wmtk",
            root,
        )
    try:
        DatasetHeader.read(header, path, _COPY).schema_.value()
    except SpaceError as error:
        message = f"{path} declares impossible arrays: {error}"
        raise CorruptDatasetError(message, _COPY, path) from error
    return header
