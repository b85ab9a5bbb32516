"""Baselines of a run: returns of the random policy and of the data, and the task's threshold.

They are stored in `baselines.json` of the run directory, so that the random policy is evaluated
only once.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from wmtk.collecting import RandomPolicy, evaluate_policy, schema_of
from wmtk.collecting.env_setup import EnvSetup, longest_episode
from wmtk.collecting.evaluator import EVALUATION
from wmtk.datasets import Dataset, Source
from wmtk.datasets.storage import atomic
from wmtk.envs.known_returns import known_returns, reward_threshold
from wmtk.errors import EnvironmentFailedError
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.records import RunDocument
from wmtk.runs.run_directory import Run
from wmtk.scores import (
    Baselines,
    MeanReturn,
    ReturnComparison,
    compare_return,
    summarize_returns,
)

FILE = "baselines.json"
EVAL_EPISODES = 10  # of the random policy, if it has to be evaluated
MIN_RANDOM_EPISODES = 2  # in the data; with fewer, the random policy is evaluated
MAX_RANDOM_EPISODES = 100  # of each dataset that enter the mean
RESAMPLES = 1000  # of the bootstrap


class Mean(RunDocument):
    """A stored `MeanReturn`."""

    mean: float
    low: float | None
    high: float | None
    episodes: int | None

    def value(self) -> MeanReturn:
        return MeanReturn(self.mean, self.low, self.high, self.episodes)


class BaselinesFile(RunDocument):
    """The content of baselines.json."""

    random: Mean | None
    data: Mean | None
    threshold: float | None
    longest: int | None = None  # files of earlier versions lack it

    def value(self) -> Baselines:
        random, data = (None if mean is None else mean.value() for mean in (self.random, self.data))
        return Baselines(random, data, self.threshold, self.longest)


def read_baselines(folder: Path) -> Baselines | None:
    """The baselines of a run directory; None if none are stored."""
    path = folder / FILE
    return BaselinesFile.open(path)[0].value() if os.path.lexists(path) else None


def store_baselines(run: Run, sources: Sequence[Source], env: EnvSetup | None) -> None:
    """Store the baselines of a run; a stored return of the random policy is not measured again.

    The return of the random policy is the known one of the task, else that of the random episodes
    of the data, else that of EVAL_EPISODES episodes in `env`, if that is given.
    """
    stored = read_baselines(run.path)
    random = stored.random if stored else None
    if random is None:
        random = _random(sources, env)
    returns = np.concatenate([source.table().total_reward for source in sources])
    threshold = reward_threshold(env.task) if env else None
    baselines = Baselines(random, _mean(returns), threshold, longest_episode(sources))
    with atomic.translate_os_errors(run.path):
        document = atomic.with_checksum(dataclasses.asdict(baselines))
        atomic.replace_file(run.path / FILE, atomic.json_bytes(document))


def _random(sources: Sequence[Source], env: EnvSetup | None) -> MeanReturn | None:
    known = known_returns(env.task) if env else {}
    if known:
        return MeanReturn(known["random"])
    returns = [
        x
        for source in sources
        for x in islice(_random_episodes(source.dataset), MAX_RANDOM_EPISODES)
    ]
    if len(returns) >= MIN_RANDOM_EPISODES or env is None:
        return _mean(returns)
    try:
        return _mean(_evaluate_random(env.with_limit_of(sources)))
    except EnvironmentFailedError as error:
        env.on_message(f"Random play failed: {error.message}")
        return None


def _random_episodes(dataset: Dataset) -> Iterator[float]:
    """The returns of all random episodes, also of those not selected for training."""
    for record in dataset.describe():
        if record["provenance"].get("policy") == RandomPolicy.name:
            yield float(record["return"])


def _evaluate_random(env: EnvSetup) -> Sequence[float]:
    schema = schema_of(env.task)

    def stop(_: object) -> None:
        if env.stop():
            raise KeyboardInterrupt

    report = evaluate_policy(
        env.task,
        RandomPolicy(schema.action, [env.seed, EVALUATION]),
        episodes=EVAL_EPISODES,
        seed=env.seed,
        envs=EVAL_EPISODES,
        workers=env.workers,
        timeout=env.timeout,
        schema=schema,
        max_episode_steps=env.max_episode_steps,
        on_progress=stop,
        on_message=env.on_message,
    )
    # The episodes that end first are short: those of an interrupted evaluation are biased.
    return () if report.interrupted else report.returns


def _mean(returns: Any) -> MeanReturn | None:
    if not len(returns) or not np.isfinite(returns).all():
        return None
    return MeanReturn.of(summarize_returns(returns, resamples=RESAMPLES))


# --- comparison ---


def last_evaluation(reports: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest evaluation among the lines of metrics.jsonl."""
    evaluations = [report for report in reports if report.get("eval/return") is not None]
    return evaluations[-1] if evaluations else None


def compare_run(run: Run) -> ReturnComparison | None:
    """Compare the last evaluation of a run, or for a world model its data, with the baselines."""
    baselines = read_baselines(run.path) or Baselines()
    if run.kind == "model":
        if baselines.data is None:
            return None
        return compare_return(baselines.data, dataclasses.replace(baselines, data=None))
    report = last_evaluation(read_metrics(run.path))
    if report is None:
        return None
    low, high = (report.get(f"eval/return_{name}") for name in ("low", "high"))
    result = MeanReturn(report["eval/return"], low, high, report.get("eval/episodes"))
    return compare_return(result, baselines)
