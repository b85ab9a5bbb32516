"""A small world whose right predictions are known: a dot that actions move along a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import OpenLoop, Posterior
from wmtk.datasets import Batch, Schema
from wmtk.spaces import ArraySpec

SIDE, PLACES = 16, 8  # pixels, and where the dot can be
SCHEMA = Schema(
    obs={"image": ArraySpec("box", (SIDE, SIDE, 1), "uint8", 0, 255)},
    action=ArraySpec("discrete", (), "int64", 0, 2),
    info={"place": ArraySpec("box", (), "float32")},
)


def draw(places: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Pictures (…, SIDE, SIDE, 1) with a dot of 4 × 2 pixels."""
    frames = np.zeros((*places.shape, SIDE, SIDE, 1), np.uint8)
    for index in np.ndindex(places.shape):
        left = 2 * places[index]
        frames[index][6:10, left : left + 2] = 255
    return frames


def find(frames: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The places of dots in pictures."""
    return frames[..., 8, ::2, 0].argmax(-1)


def move(place: NDArray[np.int64], action: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.clip(place + action - 1, 0, PLACES - 1)


def rewarded(place: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(place == PLACES - 1, 1.0, 0.0)


def record(windows: int = 24, rows: int = 20, seed: int = 0) -> Batch:
    """Windows of random walks, each of an episode of its own; half of them end with the task."""
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 3, (windows, rows))
    action[:, 0] = 0
    place = np.empty((windows, rows), np.int64)
    place[:, 0] = rng.integers(0, PLACES, windows)
    for t in range(1, rows):
        place[:, t] = move(place[:, t - 1], action[:, t])
    reward = rewarded(place)
    reward[:, 0] = 0
    last = np.zeros((windows, rows), bool)
    last[:, -1] = True
    terminal = last & (np.arange(windows) % 2 == 0)[:, None]
    return Batch(
        obs={"image": draw(place)},
        action=action,
        reward=reward.astype(np.float32),
        terminated=terminal,
        truncated=last & ~terminal,
        is_first=np.arange(rows)[None] == np.zeros((windows, 1)),
        mask=np.ones((windows, rows), bool),
        info={"place": place.astype(np.float32)},
        source=np.zeros(windows, np.int64),
        episode=np.arange(windows),
        start=np.zeros(windows, np.int64),
        step=0,
        versions=(1,),
    )


@dataclass
class DotModel:
    """Right about everything, unless told to be wrong."""

    blind_to_actions: bool = False
    frozen_decoder: bool = False
    collapsed: bool = False
    lying_reward: bool = False
    schema: Schema = SCHEMA
    gamma: float | None = 0.9
    policy_horizon: int = 15

    def preprocess(self, batch: Batch) -> Batch:
        return batch

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        place = find(batch.obs["image"])
        codes = np.eye(PLACES, dtype=np.float32)[place][:, :, None]  # one variable
        even = np.full_like(codes, 1 / PLACES)
        sure = np.roll(codes, 1, 1)  # a prior that expects what was there before
        noise = np.random.default_rng(seed).random((*place.shape, 3)).astype(np.float32)
        return Posterior(
            obs={"image": self._show(place)},
            reward=np.where(batch.is_first, 0, self._reward(place)),  # nothing came before
            discount=self._discount(batch.terminated),
            deter=noise if self.collapsed else np.concatenate([noise, codes[:, :, 0]], -1),
            stoch=even[:, :, 0] if self.collapsed else codes[:, :, 0],
            latent="categorical",
            posterior=even if self.collapsed else codes,
            prior=even if self.collapsed else 0.5 * sure + 0.5 * even,
        )

    def predict_batch(
        self, batch: Batch, *, context: int, horizon: int, samples: int = 1, seed: int = 0
    ) -> OpenLoop:
        place = find(batch.obs["image"][:, context - 1])
        action = batch.action[:, context : context + horizon]
        if self.blind_to_actions:
            rng = np.random.default_rng(seed)
            action = rng.integers(0, 3, action.shape)
        places = []
        for t in range(horizon):
            place = move(place, action[:, t])
            places.append(place)
        found = np.stack(places, 1)[:, None].repeat(samples, 1)  # (N, S, H)
        ends = batch.terminated[:, None, context : context + horizon].repeat(samples, 1)
        return OpenLoop({"image": self._show(found)}, self._reward(found), self._discount(ends))

    def _show(self, place: NDArray[np.int64]) -> NDArray[np.uint8]:
        return draw(np.full_like(place, 3) if self.frozen_decoder else place)

    def _reward(self, place: NDArray[np.int64]) -> NDArray[np.float32]:
        true = rewarded(place)
        return (1 - true if self.lying_reward else true).astype(np.float32)

    def _discount(self, ends: NDArray[np.bool_]) -> NDArray[np.float32]:
        return np.where(ends, 0.0, 0.9).astype(np.float32)
