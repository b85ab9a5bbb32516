"""The error for HDF5 files of unknown formats: their arrays, and Python code to import them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmtk.datasets.convert import hdf5
from wmtk.errors import ConversionError, MissingDependencyError

NEEDED = ("observations", "actions", "rewards", "terminals")
LISTED, VISITED = 30, 1000  # arrays
EPISODE = re.compile(r"(?P<parent>.*/)?(?P<episode>[^/]*\d)/(?P<array>.+)")
OBSERVATION = re.compile(r"obs|state|image|pixel|frame|camera|qpos|qvel", re.IGNORECASE)
ACTION = re.compile(r"act", re.IGNORECASE)
REWARD = re.compile(r"rew|(^|/)r$", re.IGNORECASE)
END = re.compile(r"term|done|(^|/)ends?$", re.IGNORECASE)
CUT = re.compile(r"trunc|time_?out", re.IGNORECASE)
OTHERS = (ACTION, REWARD, END, CUT)


@dataclass(frozen=True)
class Roles:
    """The guessed role of each array; `parent` is the group that contains one group per episode."""

    observations: tuple[str, ...]  # empty if unknown
    action: str | None
    reward: str | None
    end: str | None
    cut: str | None
    parent: str | None

    @property
    def missing(self) -> list[str]:
        """Roles without an array, as named in the Python code."""
        return [
            *([] if self.observations else ["observations"]),
            *([] if self.action else ["actions"]),
        ]


def unknown_hdf5(path: Path, formats: str) -> ConversionError:
    """The error for an HDF5 file without a known format."""
    try:
        with hdf5.open_hdf5(path) as file, hdf5.guarded(path):
            arrays = _arrays(file)
    except (ConversionError, MissingDependencyError) as error:
        return ConversionError(error.message, error.hint, path)
    lines = [f"  {name!r}: {shape}, {dtype}" for name, (shape, dtype) in arrays.items()]
    more = f"\n  … and {len(lines) - LISTED:,} more" if len(lines) > LISTED else ""
    listed = "\n".join(lines[:LISTED]) + more if lines else "  no array"
    missing = [name for name in NEEDED if name not in arrays]
    message = (
        f"{path} is an HDF5 file, but has none of the supported formats. It contains:\n"
        f"{listed}\nThe format d4rl needs {', '.join(NEEDED)}, with one row per step; missing: "
        f"{', '.join(missing)}."
    )
    if not arrays:
        return ConversionError(message, f"The formats are:\n{formats}", path)
    roles = _roles(arrays)
    check = "check the names"
    if unknown := roles.missing:
        names = " and ".join(repr(name) for name in unknown)
        check = f"write the names of its arrays in place of {names}"
        message += f"\nThe formats are:\n{formats}"
    hint = f"This Python code imports it; {check}:\n\n{python_lines(path, roles)}"
    return ConversionError(message, hint, path)


def _arrays(file: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each array by its path; links are not followed."""
    arrays: dict[str, tuple[tuple[int, ...], str]] = {}

    def visit(name: str, node: Any) -> bool | None:
        if not hdf5.is_group(node) and node.shape is not None:
            arrays[name] = tuple(node.shape), str(node.dtype)
        return True if len(arrays) >= VISITED else None

    file.visititems(visit)
    return arrays


def _roles(arrays: Mapping[str, tuple[tuple[int, ...], str]]) -> Roles:
    """Guess the roles from the names."""
    rows = {name: kind for name, kind in arrays.items() if kind[0] and kind[1] != "object"}
    matches = [match for name in rows if (match := EPISODE.fullmatch(name))]
    parent = None
    if 2 * len(matches) > len(rows):
        parent = (matches[0]["parent"] or "").rstrip("/")
        episode = matches[0]["episode"]
        inside = [m["array"] for m in matches if m["episode"] == episode]
    else:
        inside = list(rows)
    inside = [name for name in inside if "next" not in name.lower()]
    action, reward, end, cut = (_first(kind, inside) for kind in OTHERS)
    obs = tuple(n for n in inside if OBSERVATION.search(n) and not _is_other(n))
    return Roles(obs, action, reward, end, cut, parent)


def _is_other(name: str) -> bool:
    return any(kind.search(name) for kind in OTHERS)


def _first(pattern: re.Pattern[str], names: Iterable[str]) -> str | None:
    return next((name for name in names if pattern.search(name)), None)


def python_lines(path: Path, roles: Roles) -> str:
    """Python code that imports the episodes of the file."""
    observations = roles.observations or ("observations",)
    keys = {name: _key(name, observations) for name in observations}
    obs = ", ".join(f"{key!r}: group[{name!r}][()]" for name, key in keys.items())
    reward = f"group[{roles.reward!r}][()].reshape(-1)" if roles.reward else "np.zeros(len(action))"
    end = f"group[{roles.end!r}][()].reshape(-1)" if roles.end else "np.zeros(len(action))"
    cut = f"group[{roles.cut!r}][()].reshape(-1)" if roles.cut else "np.zeros(len(action))"
    groups = "[file]"
    if roles.parent is not None:
        top = f"file[{roles.parent!r}]" if roles.parent else "file"
        groups = f"{top}.values()"
    return f"""\
import h5py
import numpy as np
from wmtk.datasets import Dataset, Episode, Schema
from wmtk.spaces import ArraySpec

def episodes(file):
    for group in {groups}:
        obs = {{{obs}}}
        action = group[{roles.action or "actions"!r}][()]
        reward = {reward}
        terminated = {end} > 0  # at the last step of an episode whose task ended
        truncated = {cut} > 0  # at the last step of an episode that a time limit ended
        last = len(action) - 1
        stored = min(len(values) for values in obs.values())
        start = 0
        for stop in sorted({{*np.flatnonzero(terminated | truncated).tolist(), last}}):
            rows = list(range(start, stop + 2))  # T+1 observations
            if stop < last or stored == len(action):
                rows[-1] = stop  # the final observation is missing: repeat the last one
            frames = [{{key: values[t] for key, values in obs.items()}} for t in rows]
            ends = {{"terminated": bool(terminated[stop]), "truncated": bool(truncated[stop])}}
            yield frames, action[start:stop + 1], reward[start:stop + 1], ends
            start = stop + 1

with h5py.File({str(path)!r}) as file:
    first, action, *_ = next(episodes(file))
    spec = ArraySpec("box", action.shape[1:], action.dtype.name)
    if action.ndim == 1 and action.dtype.kind in "iu":  # give the number of actions if known
        count = max(int(a.max()) for _, a, *_ in episodes(file)) + 1
        spec = ArraySpec("discrete", (), action.dtype.name, 0, count - 1)
    obs = {{k: ArraySpec("box", v.shape, v.dtype.name) for k, v in first[0].items()}}
    schema = Schema(obs, spec)
    with Dataset.create({str(path.with_suffix(".zarr"))!r}, schema) as dataset:
        for frames, action, reward, ends in episodes(file):
            dataset.append(Episode.from_transitions(schema, frames, action, reward, **ends))
"""


def _key(name: str, names: Iterable[str]) -> str:
    """The observation key of an array: the last part of its name if unique."""
    short = name.rpartition("/")[2]
    same = [other for other in names if other.rpartition("/")[2] == short]
    key = name if len(same) > 1 else short
    return re.sub(r"[^\w/]", "_", key, flags=re.ASCII)
