"""Real Atari episodes for the measurements: random play, kept as datasets of one game each.

The rules are those of the DreamerV2 paper, which `wmtk.envs.atari` implements: 18 actions, sticky
with probability 0.25, repeated 4 times, the maximum of the last two frames, resized through 84 × 84
to 64 × 64. Playing takes a few minutes; what was played is used again.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wmtk.datasets import Dataset, Episode, Provenance, Schema
from wmtk.spaces import ArraySpec

if TYPE_CHECKING:
    from wmtk.envs.atari import AtariEnv

# From nearly still pictures (Pong) to ones that move as a whole (Enduro).
GAMES = ("pong", "breakout", "ms_pacman", "seaquest", "qbert", "enduro")
COLORS = {"gray": 1, "rgb": 3}  # channels
ACTION = ArraySpec("discrete", (), "int64", 0, 17)
APPENDED_STEPS = 1000  # at least, in one append


def schema(color: str) -> Schema:
    image = ArraySpec("box", (64, 64, COLORS[color]), "uint8", 0, 255)
    return Schema({"image": image}, ACTION)


def game_datasets(folder: Path, color: str, steps: int) -> dict[str, Path]:
    """One dataset per game with together at least `steps` steps, played unless they exist."""
    each = -(-steps // len(GAMES))
    paths = {game: folder / f"{game}-{color}-{each}.zarr" for game in GAMES}
    todo = [(game, path) for game, path in paths.items() if not path.exists()]
    if todo:
        folder.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            tasks = [pool.submit(_play, game, path, color, each) for game, path in todo]
            for task in tasks:
                task.result()
    return paths


def _play(game: str, path: Path, color: str, steps: int) -> None:
    from wmtk.envs.atari import AtariEnv
    from wmtk.envs.task_options import AtariOptions

    env = AtariEnv(game, AtariOptions(rgb=color == "rgb"))
    rng = np.random.default_rng(0)
    staging = path.with_suffix(".part")
    shutil.rmtree(staging, ignore_errors=True)
    with Dataset.create(staging, schema(color), env={"id": game}) as dataset:
        seed: int | None = 0  # seeds the emulator; later episodes go on from there
        while dataset.num_steps < steps:
            dataset.append(_episode(env, game, rng, seed, steps - dataset.num_steps))
            seed = None
        dataset.compact()
    staging.rename(path)


def _episode(
    env: AtariEnv, game: str, rng: np.random.Generator, seed: int | None, limit: int
) -> Episode:
    images = [env.reset(seed=seed)[0]]
    actions, rewards = [0], [0.0]
    terminated = truncated = False
    while not (terminated or truncated):
        action = int(rng.integers(18))
        image, reward, terminated, truncated, _ = env.step(action)
        images.append(image)
        actions.append(action)
        rewards.append(reward)
        truncated = truncated or len(actions) > limit
    return Episode(
        obs={"image": np.stack(images)},
        action=np.array(actions),
        reward=np.array(rewards),
        terminated=terminated,
        truncated=truncated and not terminated,
        seed=seed,
        provenance=Provenance(env_id=f"atari_{game}", policy="random"),
    )


def mixed(datasets: Sequence[Dataset]) -> Iterator[Episode]:
    """The episodes of all datasets, each time one of the dataset that has given fewest steps."""
    waiting = [(0, number, iter(dataset)) for number, dataset in enumerate(datasets)]
    while waiting:
        given, number, episodes = min(waiting, key=lambda item: item[:2])
        waiting.remove((given, number, episodes))
        if (episode := next(episodes, None)) is not None:
            waiting.append((given + episode.length, number, episodes))
            yield episode


def in_batches(episodes: Iterable[Episode], steps: int = APPENDED_STEPS) -> Iterator[list[Episode]]:
    """Groups of episodes of at least `steps` steps, as a collector appends them."""
    batch: list[Episode] = []
    for episode in episodes:
        batch.append(episode)
        if sum(map(len, batch)) >= steps:
            yield batch
            batch = []
    if batch:
        yield batch


def build(path: Path, color: str, episodes: Iterable[Episode]) -> None:
    """A dataset of `episodes` at `path`, appended and compacted as in a long run."""
    if path.exists():
        return
    staging = path.with_suffix(".part")
    shutil.rmtree(staging, ignore_errors=True)
    with Dataset.create(staging, schema(color)) as dataset:
        for batch in in_batches(episodes):
            dataset.append(batch)
        dataset.compact()
    staging.rename(path)


def variations(path: Path, steps: int) -> Iterator[Episode]:
    """Episodes of the dataset at `path`, again and again until there are `steps` steps.

    Each pass shifts the pictures sideways by another number of pixels: as hard to compress as the
    real ones, but no two episodes are the same.
    """
    dataset = Dataset.open(path)
    given = 0
    for shift in itertools.count():
        assert shift < 64, "more passes than there are shifts"
        for episode in dataset:
            if given >= steps:
                return
            image = np.roll(episode.obs["image"], shift, axis=2)
            yield Episode(
                {"image": image},
                episode.action,
                episode.reward,
                episode.terminated,
                episode.truncated,
                provenance=episode.provenance,
            )
            given += episode.length
