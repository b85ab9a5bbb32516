"""Those whose speed `collect.py` compares: each plays Pong at random with the same rules."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import shutil
import sys
import time
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
from timing import size

from wmtk.collecting import RolloutProgress, collect_episodes, dataset_for, load_policy
from wmtk.envs import resolve

TASK = "atari_pong"


@dataclass(frozen=True)
class Measured:
    """One run. `seconds` and `cpu` begin when all environments are ready and have been reset."""

    steps: int
    startup: float
    seconds: float
    cpu: float  # of all processes
    stored: int = 0  # bytes
    playing: float = 0.0  # steps per second while every environment is still needed

    @property
    def rate(self) -> float:
        return self.steps / self.seconds

    @property
    def total(self) -> float:
        return self.steps / (self.seconds + self.startup)

    @property
    def cpu_rate(self) -> float:
        return self.steps / self.cpu


def children() -> list[psutil.Process]:
    """Of this process. Finding them takes long: not to be done while something is measured."""
    return list(psutil.Process().children(recursive=True))


def cpu_of(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return float(sum(spent.user + spent.system for spent in times))


# --- the contenders ---------------------------------------------------------------------------


def ours(envs: int, steps: int, folder: Path) -> Measured:
    """`wmtk collect` with its default number of workers; everything is on disk at the end."""
    path = folder / "ours.zarr"
    shutil.rmtree(path, ignore_errors=True)
    marks: list[tuple[float, float, float, int]] = []  # wall, own and workers' time, played
    workers: list[psutil.Process] = []

    def mark(progress: RolloutProgress) -> None:
        if not marks:
            workers.extend(children())
        spent = time.process_time(), cpu_of(workers)
        marks.append((time.perf_counter(), *spent, progress.steps_taken))

    began = time.perf_counter()
    task = resolve(TASK)
    with dataset_for(task, path) as dataset:
        policy = load_policy("random", dataset.schema.action, [0, 0])
        report = collect_episodes(
            task, dataset, policy, seed=0, steps=steps, envs=envs, on_progress=mark
        )
    ended, own = time.perf_counter(), time.process_time()
    ready = marks[0]
    # All environments are stepped in step, so that none is done before this.
    share = next(m for m in marks if m[3] >= steps)
    return Measured(
        steps=report.steps,
        startup=ready[0] - began,
        seconds=ended - ready[0],
        cpu=own - ready[1] + marks[-1][2] - ready[2],
        stored=size(path),
        playing=share[3] / (share[0] - ready[0]),
    )


def bare(envs: int, steps: int, folder: Path) -> Measured:
    """The same environments in as many processes, stepped at random; nothing is kept or sent."""
    count = min(envs, os.cpu_count() or 1)
    context = multiprocessing.get_context("spawn")
    began = time.perf_counter()
    players = []
    for number in range(count):
        here, there = context.Pipe()
        seeds = list(range(number, envs, count))
        process = context.Process(target=_play, args=(there, seeds, steps // envs), daemon=True)
        process.start()
        players.append((here, process))
    for pipe, _ in players:
        pipe.recv()  # it is ready
    ready = time.perf_counter()
    for pipe, _ in players:
        pipe.send("go")
    cpu = sum(pipe.recv() for pipe, _ in players)
    ended = time.perf_counter()
    for _, process in players:
        process.join()
    return Measured(steps // envs * envs, ready - began, ended - ready, cpu)


def _play(pipe: Connection, seeds: list[int], steps: int) -> None:
    games = [resolve(TASK).make() for _ in seeds]
    for seed, game in zip(seeds, games, strict=True):
        game.reset(seed=seed)
    rng = np.random.default_rng(seeds)
    actions = int(getattr(games[0].action_space, "n", 0))
    pipe.send("ready")
    pipe.recv()
    began = time.process_time()
    for _ in range(steps):
        for game in games:
            _, _, terminated, truncated, _ = game.step(int(rng.integers(actions)))
            if terminated or truncated:
                game.reset()
    pipe.send(time.process_time() - began)


def vector(envs: int, steps: int, folder: Path) -> Measured:
    """gymnasium's AsyncVectorEnv of the same environments: a process for each."""
    began = time.perf_counter()
    makers = [resolve(TASK).make for _ in range(envs)]
    games = gym.vector.AsyncVectorEnv(makers, context="spawn")
    games.reset(seed=0)
    games.action_space.seed(0)
    players = children()
    ready, own, theirs = time.perf_counter(), time.process_time(), cpu_of(players)
    for _ in range(steps // envs):
        games.step(games.action_space.sample())
    ended = time.perf_counter()
    cpu = time.process_time() - own + cpu_of(players) - theirs
    games.close()
    return Measured(steps // envs * envs, ready - began, ended - ready, cpu)


def minari(obs_type: str, steps: int, folder: Path) -> Measured:
    """AtariPreprocessing with our rules in Minari's DataCollector, whole episodes, lossless."""
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    shutil.rmtree(folder / "minari", ignore_errors=True)
    (folder / "minari").mkdir()
    began = time.perf_counter()
    _provide_tree_map()
    import ale_py
    from gymnasium.wrappers import AtariPreprocessing
    from minari import DataCollector

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gym.register_envs(ale_py)
    game: gym.Env[Any, Any] = gym.make(
        "ALE/Pong-v5",
        obs_type=obs_type,
        frameskip=1,
        repeat_action_probability=0.25,
        full_action_space=True,
    )
    game = AtariPreprocessing(game, screen_size=64, grayscale_newaxis=True)
    collector = DataCollector(game, jpeg_encoding=False)
    collector.reset(seed=0)
    collector.action_space.seed(0)
    ready, own = time.perf_counter(), time.process_time()
    played, over = 0, False
    while played < steps or not over:
        if over:
            collector.reset()
        _, _, terminated, truncated, _ = collector.step(collector.action_space.sample())
        over = terminated or truncated
        played += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for author, algorithm and the like
        collector.create_dataset("benchmark-v0")
    collector.close()
    ended, cpu = time.perf_counter(), time.process_time() - own
    return Measured(played, ready - began, ended - ready, cpu, size(folder / "minari"))


def _provide_tree_map() -> None:
    """The one function of jax that Minari's collector calls, where jax is not installed."""
    if "jax" in sys.modules or importlib.util.find_spec("jax") is not None:
        return

    def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
        if isinstance(tree, dict):
            return {k: tree_map(function, v, *[o[k] for o in others]) for k, v in tree.items()}
        if isinstance(tree, tuple):
            return tuple(tree_map(function, *part) for part in zip(tree, *others, strict=True))
        return function(tree, *others)

    jax, tree_util = types.ModuleType("jax"), types.ModuleType("jax.tree_util")
    vars(tree_util)["tree_map"] = tree_map
    vars(jax)["tree_util"] = tree_util
    sys.modules |= {"jax": jax, "jax.tree_util": tree_util}
