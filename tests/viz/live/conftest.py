"""A server with a model made of numpy: a dream that is known, and quick."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmtk.agent.outputs import LatentState, Prediction
from wmtk.collecting import RandomPolicy, collect_episodes, dataset_for
from wmtk.datasets import Dataset
from wmtk.envs import resolve
from wmtk.viz.live import protocol
from wmtk.viz.live.catalog import Catalog, DataEntry, RecordingTarget, RunEntry
from wmtk.viz.live.server import Server
from wmtk.viz.windows import held_out

TASK = "wmtk/Catch-v0"
VARIABLES, CLASSES = 4, 8


class Toy:
    """Dreams of Catch: a bright square that actions move, in a shade that codes decide.

    `deter` is the number of steps and the place of the square.
    """

    latent = "categorical"
    opened = 0

    def __init__(self, schema: Any, *, acts: bool = True) -> None:
        self.schema, self.has_actor = schema, acts
        self.loaded: Any = None
        self.seen_rows: list[int] = []
        Toy.opened += 1

    def preprocess(self, obs: Any) -> Any:
        return obs

    def observe(self, batch: Any, seed: list[int]) -> LatentState:
        self.seen_rows.append(batch.reward.shape[1])
        return LatentState(np.array([[0, 20]], np.float32), self._codes(1, seed))

    def initial_state(self, seed: list[int], temperature: float = 1.0) -> LatentState:
        return LatentState(np.array([[0, 40]], np.float32), self._codes(1, seed))

    def _codes(self, futures: int, seed: list[int]) -> Any:
        rng = np.random.default_rng(seed)
        return rng.integers(0, CLASSES, (futures, VARIABLES)).astype(np.int16)

    def step(
        self, state: LatentState, actions: Any, *, seed: list[int], temperature: float = 1.0
    ) -> LatentState:
        moved = state.deter + np.stack([np.ones(len(actions)), 2.0 * (actions - 1)], 1)
        moved[:, 1] = np.clip(moved[:, 1], 0, 56)
        codes = self._codes(len(actions), seed)
        if temperature == 0:
            codes[:] = 0
        return LatentState(moved.astype(np.float32), codes)

    def act(self, state: LatentState, *, seed: list[int], sample: bool = True) -> Any:
        return np.full(len(state.deter), 2)

    def transform_reward(self, reward: float) -> float:
        return reward

    def decode(self, state: LatentState) -> dict[str, Any]:
        image = np.zeros((len(state.deter), 64, 64, 1), np.uint8)
        for future, (deter, codes) in enumerate(zip(state.deter, state.codes, strict=True)):
            left = int(deter[1])
            image[future, 40:48, left : left + 8] = 100 + 19 * codes[0]
            image[future, 4:8, : int(deter[0]) % 64 + 1] = 200
        return {"image": image}

    def predict(self, state: LatentState) -> Prediction:
        if (state.codes >= CLASSES).any():  # as a real model
            raise RuntimeError("Class values must be smaller than num_classes.")
        S = len(state.deter)
        prior = np.full((S, VARIABLES, CLASSES), 1 / CLASSES, np.float32)
        return Prediction(
            obs=self.decode(state),
            reward=(state.deter[:, 0] % 10 == 9).astype(np.float32),
            discount=np.full(S, 0.99, np.float32),
            value=state.deter[:, 1] / 10 if self.has_actor else None,
            prior=prior,
            entropy=np.full(S, VARIABLES * np.log(CLASSES), np.float32),
        )


@pytest.fixture(scope="session")
def catch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "catch.zarr"
    task = resolve(TASK)
    with dataset_for(task, path, store_info=["ball"]) as dataset:
        collect_episodes(
            task, dataset, RandomPolicy(dataset.schema.action, [0]), seed=0, episodes=6
        )
    return path


@pytest.fixture
def make_catalog(catch: Path, tmp_path: Path) -> Callable[..., Catalog]:
    def make(*, record: bool = False, acts: bool = True, runs: int = 1) -> Catalog:
        dataset, task = Dataset.open(catch), resolve(TASK)
        about = {"env": task.settings, "data": [], "created": "2026-01-01T00:00:00"}
        entries = [
            RunEntry(
                name=f"toy{number}",
                kind="policy" if acts else "model",
                update=7,
                about=about,
                schema=dataset.schema,
                config={},
                open=lambda: Toy(dataset.schema, acts=acts),
                task=lambda: task,
                held_out=lambda dataset: held_out(dataset, about),
            )
            for number in range(runs)
        ]
        target = None
        if record:
            kept = dataset_for(task, tmp_path / "mine.zarr", store_info=["ball"])
            target = RecordingTarget(task, kept, seed=5)
        return Catalog(entries, [DataEntry("catch.zarr", dataset)], target)

    return make


@pytest.fixture
def serve(make_catalog: Callable[..., Catalog]) -> Iterator[Callable[..., Server]]:
    """Start servers in threads; they are stopped at the end."""
    running: list[tuple[Server, threading.Thread]] = []

    def start(catalog: Catalog | None = None, **options: Any) -> Server:
        server = Server(catalog or make_catalog(), "127.0.0.1", 0, **options)
        thread = threading.Thread(target=server.run)
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.stop()
        thread.join(120)
        assert not thread.is_alive()


@dataclass
class FakePage:
    """Keeps what would be sent."""

    frames: list[protocol.Frame] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    owing: float = 0.0

    def send_frame(self, frame: protocol.Frame) -> None:
        self.frames.append(frame)

    def send_event(self, kind: str, **about: Any) -> None:
        self.events.append((kind, about))

    def seconds_behind(self) -> float:
        return self.owing

    @property
    def last(self) -> protocol.Frame:
        return self.frames[-1]

    @property
    def step(self) -> int:
        return int(self.last.header["step"])

    def picture(self, role: str = "dream0") -> Any:
        return next(pixels for about, pixels in self.last.tiles if about["role"] == role)

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [about for name, about in self.events if name == kind]


@pytest.fixture
def page() -> FakePage:
    return FakePage()


def wait_until(true: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def until() -> Callable[..., None]:
    return wait_until
