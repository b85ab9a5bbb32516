"""The same windows of the same episodes, stored and read as others would.

Every reader answers `batch(windows)` with arrays (B, L, …) equal to those of the sampler: it is
given the windows, so that only storage and reading differ. Each is written the way a careful user
of its library would do it: handles that can stay open do, indices are computed beforehand.
"""

from __future__ import annotations

import os
import shutil
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Batch, Dataset, Episode, SequenceSampler

Arrays = dict[str, NDArray[Any]]
PATHS = {
    "image": "obs/image",
    "action": "action",
    "reward": "reward",
    "terminated": "terminated",
    "truncated": "truncated",
}
SCALAR_ROWS = 8192  # in a chunk of the flat zarr layout: generous to it, 64 would be slower


@dataclass(frozen=True)
class Windows:
    """What a batch consists of; each column (B,)."""

    episode: list[int]
    start: list[int]
    rows: list[int]

    @classmethod
    def of(cls, batch: Batch) -> Windows:
        rows = batch.mask.sum(axis=1)
        return cls(batch.episode.tolist(), batch.start.tolist(), rows.tolist())


def arrays_of(batch: Batch) -> Arrays:
    return {
        "image": batch.obs["image"],
        "action": batch.action,
        "reward": batch.reward,
        "terminated": batch.terminated,
        "truncated": batch.truncated,
    }


def columns(episode: Episode) -> Arrays:
    stored = episode.arrays()
    return {key: stored[path] for key, path in PATHS.items()}


class Reader(ABC):
    """One way to store a dataset and to read windows from it."""

    name: str
    suffix = ""  # of the copy in this format; empty if the dataset itself is read

    def __init__(self, source: Path, folder: Path, length: int) -> None:
        self.path = folder / f"{source.stem}.{self.suffix}" if self.suffix else source
        self.length = length
        self.dataset = Dataset.open(source)

    def store(self) -> None:
        """Write the source's episodes in this format, unless that was done before."""
        if not self.path.exists():
            staging = self.path.with_name(self.path.name + ".part")
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
            self._store(staging)
            staging.rename(self.path)

    def _store(self, folder: Path) -> None:
        raise AssertionError("the dataset itself is read")

    @abstractmethod
    def open(self) -> None:
        """Start from nothing, as a new process does."""

    @abstractmethod
    def batch(self, windows: Windows) -> Arrays: ...

    def _fill(self, windows: Windows, read: Callable[[int, int, int], Arrays]) -> Arrays:
        """A batch from a function that reads one window: (episode, first row, end row)."""
        out: Arrays = {}
        spans = zip(windows.episode, windows.start, windows.rows, strict=True)
        for b, (episode, start, rows) in enumerate(spans):
            for key, values in read(episode, start, start + rows).items():
                if key not in out:
                    shape = (len(windows.rows), self.length, *values.shape[1:])
                    out[key] = np.zeros(shape, values.dtype)
                out[key][b, :rows] = values
        return out


class Ours(Reader):
    """The sampler itself; it draws the windows that the others are given."""

    name = "wmtk, 512 MB"
    memory = 512 * 2**20

    def open(self) -> None:
        self.sampler = sampler(Dataset.open(self.path), self.length, self.memory)

    def batch(self, windows: Windows) -> Arrays:
        raise AssertionError("use sampler.sample")


class OursSmall(Ours):
    """With room for the scalars only: every frame is decoded at every use."""

    name = "wmtk, 32 MB"
    memory = 32 * 2**20


def sampler(dataset: Dataset, length: int, memory: int, batch_size: int = 50) -> SequenceSampler:
    return SequenceSampler(
        dataset, batch_size=batch_size, length=length, uniform_over="steps", memory=memory
    )


class ZarrParts(Reader):
    """zarr-python on the very files of the dataset, arrays opened once."""

    name = "zarr-python, our files"

    def open(self) -> None:
        import zarr

        self._group = zarr.open_group(self.path, mode="r")
        self._opened: dict[int, dict[str, Any]] = {}

    def batch(self, windows: Windows) -> Arrays:
        table = self.dataset.episodes

        def read(episode: int, start: int, stop: int) -> Arrays:
            part, first = int(table.part[episode]), int(table.start[episode])
            opened = self._opened.get(part)
            if opened is None:
                name = table.parts[part].part
                opened = {k: self._group[f"parts/{name}/{path}"] for k, path in PATHS.items()}
                self._opened[part] = opened
            return {key: array[first + start : first + stop] for key, array in opened.items()}

        return self._fill(windows, read)


class ZarrFlat(Reader):
    """zarr-python on one flat array per key, frames in chunks of 64, zarr's default codec."""

    name = "zarr-python, flat array"
    suffix = "flat"

    def _store(self, folder: Path) -> None:
        import zarr

        rows = int((self.dataset.episodes.length + 1).sum())
        group = zarr.open_group(folder, mode="w")
        specs = dict(self.dataset.schema.arrays())
        for key, path in PATHS.items():
            spec = specs[path]
            chunk = 64 if key == "image" else SCALAR_ROWS
            shape, chunks = (rows, *spec.shape), (min(chunk, rows), *spec.shape)
            group.create_array(key, shape=shape, chunks=chunks, dtype=spec.dtype)
        base = 0
        for entry in self.dataset.parts:  # by parts: fewer rewrites of half-filled chunks
            part = self.dataset.open_part(entry)
            for key, path in PATHS.items():
                array: Any = group[key]
                array[base : base + entry.rows] = part.rows(path, 0, entry.rows)
            base += entry.rows

    def open(self) -> None:
        import zarr

        group = zarr.open_group(self.path, mode="r")
        self._arrays: dict[str, Any] = {key: group[key] for key in PATHS}
        self._first = first_rows(self.dataset)

    def batch(self, windows: Windows) -> Arrays:
        def read(episode: int, start: int, stop: int) -> Arrays:
            first = int(self._first[episode])
            return {k: array[first + start : first + stop] for k, array in self._arrays.items()}

        return self._fill(windows, read)


class ZarrImages(ZarrFlat):
    """The same, leaving out everything but the frames."""

    name = "zarr-python, flat array, frames only"

    def open(self) -> None:
        super().open()
        self._arrays = {"image": self._arrays["image"]}


class Npz(Reader):
    """A compressed npz file per episode, loaded whole for each window, as DreamerV2 stores them."""

    name = "npz episodes"
    suffix = "npz"

    def _store(self, folder: Path) -> None:
        for number, episode in enumerate(self.dataset):
            write_npz(folder / f"{number:06d}.npz", episode)

    def open(self) -> None:
        pass

    def batch(self, windows: Windows) -> Arrays:
        def read(episode: int, start: int, stop: int) -> Arrays:
            with np.load(self.path / f"{episode:06d}.npz") as stored:
                return {key: stored[key][start:stop] for key in PATHS}

        return self._fill(windows, read)


def write_npz(path: Path, episode: Episode) -> None:
    arrays: Mapping[str, Any] = columns(episode)
    np.savez_compressed(path, **arrays)


class Minari(Reader):
    """Minari's own interface: `dataset[i]`, which loads the whole episode."""

    name = "Minari, dataset[i]"
    suffix = "minari"
    dataset_id = "benchmark/frames-v0"

    def _store(self, folder: Path) -> None:
        import minari
        from minari.data_collector import EpisodeBuffer

        schema = self.dataset.schema
        os.environ["MINARI_DATASETS_PATH"] = str(folder)
        stored = None
        for number, episode in enumerate(self.dataset):
            arrays = columns(episode)
            buffer = EpisodeBuffer(
                id=number,
                observations=arrays["image"],
                actions=arrays["action"][1:],
                rewards=arrays["reward"][1:],
                terminations=arrays["terminated"][1:],
                truncations=arrays["truncated"][1:],
            )
            if stored is None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # it asks for author, algorithm and the like
                    stored = minari.create_dataset_from_buffers(
                        self.dataset_id,
                        [buffer],
                        observation_space=schema.obs["image"].to_gymnasium(),
                        action_space=schema.action.to_gymnasium(),
                        jpeg_encoding=False,
                    )
            else:
                stored.storage.update_episodes([buffer])

    def open(self) -> None:
        import minari

        os.environ["MINARI_DATASETS_PATH"] = str(self.path)
        self._dataset = minari.load_dataset(self.dataset_id)

    def batch(self, windows: Windows) -> Arrays:
        def read(number: int, start: int, stop: int) -> Arrays:
            episode = self._dataset[number]
            return {
                "image": episode.observations[start:stop],
                "action": _shifted(episode.actions, start, stop),
                "reward": _shifted(episode.rewards, start, stop),
                "terminated": _shifted(episode.terminations, start, stop),
                "truncated": _shifted(episode.truncations, start, stop),
            }

        return self._fill(windows, read)


class MinariSlices(Minari):
    """Minari's file without Minari: h5py slices of an open file."""

    name = "Minari's file, h5py slices"

    def open(self) -> None:
        import h5py

        self._file = h5py.File(next(self.path.rglob("main_data.hdf5")), "r")

    def batch(self, windows: Windows) -> Arrays:
        def read(number: int, start: int, stop: int) -> Arrays:
            group = self._file[f"episode_{number}"]
            return {
                "image": group["observations"][start:stop],
                "action": _shifted(group["actions"], start, stop),
                "reward": _shifted(group["rewards"], start, stop),
                "terminated": _shifted(group["terminations"], start, stop),
                "truncated": _shifted(group["truncations"], start, stop),
            }

        return self._fill(windows, read)


def _shifted(values: Any, start: int, stop: int) -> NDArray[Any]:
    """Rows [start, stop) in our alignment of what Minari stores one row earlier."""
    if start > 0:
        rows: NDArray[Any] = values[start - 1 : stop - 1]
        return rows
    rows = values[: stop - 1]
    return np.concatenate([np.zeros(1, rows.dtype), rows])


def first_rows(dataset: Dataset) -> NDArray[np.int64]:
    """The first row of each episode if all are put one after another."""
    rows = dataset.episodes.length + 1
    return np.cumsum(rows) - rows


class NumpyGather:
    """One contiguous array per key in memory; padding points to a row of zeros at the end."""

    def __init__(self, dataset: Dataset, length: int) -> None:
        rows = int((dataset.episodes.length + 1).sum())
        specs = dict(dataset.schema.arrays())
        self.length = length
        self.arrays: Arrays = {key: specs[path].zeros(rows + 1) for key, path in PATHS.items()}
        base = 0
        for episode in dataset:
            for key, values in columns(episode).items():
                self.arrays[key][base : base + len(values)] = values
            base += episode.length + 1
        self._first = first_rows(dataset)
        self._zero_row = rows

    def index(self, windows: Windows) -> NDArray[np.int64]:
        """(B, L) row numbers."""
        within = np.arange(self.length)
        first = (self._first[windows.episode] + windows.start)[:, None] + within
        return np.where(within < np.array(windows.rows)[:, None], first, self._zero_row)

    def batch(self, index: NDArray[np.int64]) -> Arrays:
        return {key: array[index] for key, array in self.arrays.items()}


PEERS = (ZarrParts, ZarrFlat, ZarrImages, Minari, MinariSlices, Npz)
