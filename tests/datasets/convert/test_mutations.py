"""Inputs of importers with one thing changed: a valid dataset, or an error that names the file."""

from __future__ import annotations

import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from wmtk.datasets import Dataset, validate
from wmtk.datasets.convert import FORMATS, export_dataset, import_dataset
from wmtk.errors import WmtkError

Change = Callable[[Path, Any, random.Random], str]


# --- what is changed --------------------------------------------------------------------------


def files(source: Path) -> list[Path]:
    return [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())


def change_bytes(source: Path, mutations: Any, rng: random.Random) -> str:
    path = rng.choice(files(source))
    data, what = mutations.damaged(path.read_bytes(), rng)
    path.write_bytes(data)
    return f"{path.name}: {what}"


def change_json(source: Path, mutations: Any, rng: random.Random) -> str:
    """Also inside of JSON that is a text in JSON, as Minari keeps its spaces."""
    names = (".json", ".zarray", ".zattrs", ".zgroup")
    found = [path for path in files(source) if path.name.endswith(names)]
    if not found:
        return change_bytes(source, mutations, rng)
    path = rng.choice(found)
    document = json.loads(path.read_bytes())
    inner = [key for key, value in document.items() if str(value).startswith('{"')]
    if inner and rng.random() < 0.5:
        key = rng.choice(inner)
        changed, what = mutations.mutated(json.loads(document[key]), rng, sealable=False)
        document[key] = json.dumps(changed)
    else:
        document, what = mutations.mutated(document or {"a": 1}, rng, sealable=False)
    path.write_text(json.dumps(document))
    return f"{path.name}: {what}"


def odd_arrays(rng: random.Random, like: Any) -> Any:
    rows = np.asarray(like)
    candidates: list[Any] = [
        np.zeros((), rows.dtype),
        np.zeros((0, *rows.shape[1:]), rows.dtype),
        rows[:-1],
        rows[..., None],
        rows.reshape(-1),
        np.asfortranarray(rows),
        rows.astype("f8"),
        rows.astype("f2"),
        rows.astype("i1"),
        rows.astype("u8"),
        rows.astype("c8"),
        rows.astype(">f4"),
        rows.astype("S3"),
        rows != 0,
        np.full(rows.shape, np.nan),
        np.full(rows.shape, np.inf, "f4"),
        np.full(rows.shape, 2**63 - 1),
        np.zeros(rows.shape, "M8[s]"),
        np.zeros(rows.shape, [("a", "f4")]),
        np.zeros((len(rows), *[1] * 20), rows.dtype) if rows.ndim else rows,
    ]
    return rng.choice(candidates)


def change_npz(source: Path, mutations: Any, rng: random.Random) -> str:
    """Members that are exchanged, doubled, left out or lie in their headers."""
    path = rng.choice([path for path in files(source) if path.suffix == ".npz"])
    with np.load(path) as npz:
        arrays = dict(npz)
    key = rng.choice(sorted(arrays))
    how = rng.choice(["array", "array", "header", "drop", "extra", "double", "method", "pickle"])
    members = [(name, npy(rows)) for name, rows in arrays.items()]
    at = [name for name, _ in members].index(key)
    if how == "array":
        members[at] = key, npy(odd_arrays(rng, arrays[key]))
    elif how == "header":
        header = {"descr": arrays[key].dtype.str, "fortran_order": False, "shape": (1,)}
        changed, _ = mutations.mutated({**header, "shape": list(arrays[key].shape)}, rng)
        if isinstance(changed, dict) and isinstance(changed.get("shape"), list):
            changed["shape"] = tuple(changed["shape"])
        members[at] = key, raw_npy(changed, arrays[key].tobytes())
    elif how == "drop":
        del members[at]
    elif how == "extra":
        members.append(
            (rng.choice(["../x", "a b", "log", "é", "info/x", "x/../y"]), members[at][1])
        )
    elif how == "double":
        members.append(members[at])
    elif how == "pickle":
        members[at] = key, npy(np.array([{}, key], object))
    method = rng.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]) if how == "method" else 0
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = method
            archive.writestr(info, data)
    return f"{path.name}: {how} {key}"


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array))
    return buffer.getvalue()


def raw_npy(header: Any, data: bytes) -> bytes:
    text = repr(header).encode("utf-8", "replace")
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n" + data


def change_hdf5(source: Path, mutations: Any, rng: random.Random) -> str:
    """Nodes that are exchanged, moved, left out or of another kind."""
    path = next(path for path in files(source) if path.suffix == ".hdf5")
    with h5py.File(path, "a") as file:
        found: list[str] = []
        file.visit(found.append)
        name = rng.choice(found)
        node, parent = file[name], file[name].parent
        how = rng.choice(
            ["array", "array", "array", "drop", "move", "group", "empty", "text", "attr"]
        )
        how = rng.choice([how, how, "link", "huge", "ragged"])
        like = node[()] if isinstance(node, h5py.Dataset) else np.zeros(3)
        if how == "attr":
            where = rng.choice([node, parent, file])
            key = rng.choice([*where.attrs, "x"])
            values = [
                0,
                -1,
                2.5,
                np.nan,
                "x",
                b"\xff",
                "{",
                np.arange(3),
                h5py.Empty("f4"),
                2**63 - 1,
            ]
            where.attrs[key] = rng.choice(values)
            return f"{how} {key} of {name}"
        if how == "move":
            file.move(name, f"{name}x")
            return f"{how} {name}"
        del file[name]
        if how == "array":
            rows = odd_arrays(rng, like)
            try:
                file[name] = rows
            except TypeError:
                file[name] = np.zeros(3)
        elif how == "group":
            file.create_group(name).create_dataset("x", data=np.zeros(3))
        elif how == "empty":
            file[name] = h5py.Empty("f4")
        elif how == "text":
            file[name] = rng.choice(["text", ["a", "b"]])
        elif how == "link":
            file[name] = rng.choice([h5py.SoftLink("/nowhere"), h5py.ExternalLink("x", "/y")])
        elif how == "huge":
            shape = rng.choice([(2**40,), (10, 2**40), (2**31, 2**31)])
            file.create_dataset(name, shape, "f4", chunks=(1,) * len(shape))
        elif how == "ragged":
            kind = h5py.vlen_dtype(np.float32)
            file.create_dataset(name, (3,), kind)[0] = [1, 2, 3]
        return f"{how} {name}"


def change_zip(source: Path, mutations: Any, rng: random.Random) -> str:
    """The hierarchy in an archive, whose bytes or members are changed."""
    what = change_json(source, mutations, rng) if rng.random() < 0.5 else ""
    target = source.with_name("packed.zip")
    with zipfile.ZipFile(target, "w") as archive:
        for path in files(source):
            archive.write(path, path.relative_to(source))
    shutil.rmtree(source)
    target.rename(source)
    return what or change_bytes(source, mutations, rng)


CHANGES: dict[str, tuple[Change, ...]] = {
    "minari": (change_bytes, change_json, change_hdf5, change_hdf5),
    "d4rl": (change_bytes, change_hdf5, change_hdf5),
    "dreamer-npz": (change_bytes, change_json, change_npz, change_npz),
    "diffusion-zarr": (change_bytes, change_json, change_json, change_zip),
}
# In these a byte cannot change unnoticed: zip members and HDF5 chunks have checksums.
CHECKED = {"minari", "d4rl", "dreamer-npz"}


def bare(source: Path, name: str) -> None:
    """Take wmtk's own description out, as files of other programs have none."""
    if name == "d4rl":
        with h5py.File(source, "a") as file:
            del file["metadata"]
    elif name == "dreamer-npz":
        (source / "wmtk.json").unlink()
    elif name == "diffusion-zarr":
        (source / ".zattrs").write_text("{}")
    else:
        path = source / "data/metadata.json"
        document = json.loads(path.read_text())
        del document["wmtk"]
        path.write_text(json.dumps(document))


def trials(tmp_path: Path, make: Any, mutations: Any, name: str, seed: int, count: int) -> Iterator:
    rng = random.Random(f"{name} {seed}")
    kinds = ["vector", "image"] if name == "diffusion-zarr" else ["vector", "image", "nested"]
    for number in range(count):
        kind = rng.choice(kinds)
        pristine = tmp_path / f"pristine-{kind}"
        if not pristine.exists():
            ours = make(tmp_path / f"ours-{kind}", kind)
            export_dataset(ours, pristine / "x.hdf5" if name == "d4rl" else pristine / "x", name)
        work = tmp_path / f"work{number}"
        shutil.copytree(pristine, work)
        source = next(work.iterdir())
        if rng.random() < 0.5:
            bare(source, name)
        import_dataset(source, work / "before", format=name)
        with Dataset.open(work / "before") as before:
            truth = before.episodes.id.tolist()
        change = rng.choice(CHANGES[name])
        what = f"{number} of {name}, {kind}, seed {seed}: {change(source, mutations, rng)}"
        yield what, source, work, truth if change is change_bytes and name in CHECKED else None
        shutil.rmtree(work)


def attempt(source: Path, work: Path, name: str, truth: list[int] | None) -> str:
    target = work / "after"
    refusal = None
    try:
        import_dataset(source, target, format=name)
    except WmtkError as error:
        refusal = error
    if refusal is not None:
        assert str(work) in refusal.message
        assert not target.exists()
        return "error"
    assert validate(target).ok
    with Dataset.open(target) as after:
        ids = [episode.id for episode in after]
        if truth is not None:
            assert after.episodes.id.tolist() == truth
    assert ids
    return "read"


@pytest.mark.filterwarnings("ignore:Duplicate name")  # of a member of a zip archive
@pytest.mark.parametrize("name", FORMATS)
def test_changed_inputs_are_read_or_refused(name, tmp_path, make_dataset, mutations) -> None:
    outcomes = []
    for what, source, work, truth in trials(tmp_path, make_dataset, mutations, name, 0, 45):
        try:
            outcomes.append(attempt(source, work, name, truth))
        except BaseException as error:
            error.add_note(what)
            raise
    assert outcomes.count("error") > 10
    assert outcomes.count("read") > 3
