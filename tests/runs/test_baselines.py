"""Baselines of a run: random play, the data, the threshold; the best score is confirmed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from wmtk.collecting import CallablePolicy, RandomPolicy, collect_episodes, dataset_for
from wmtk.collecting.env_setup import EnvSetup
from wmtk.datasets import Dataset, Source
from wmtk.envs import resolve
from wmtk.envs.known_returns import reward_threshold
from wmtk.errors import TaskError
from wmtk.runs.baselines import compare_run, read_baselines, store_baselines
from wmtk.runs.listing import summarize_run
from wmtk.runs.metrics_log import MetricsLog, read_metrics
from wmtk.runs.run_directory import Run
from wmtk.scores import MeanReturn
from wmtk.training.health import collapsed_latents
from wmtk.training.model_stage import train_model
from wmtk.training.online.train import online

CARTPOLE = resolve("CartPole-v1")
ONLINE = {
    "behavior.layers": 1,
    "behavior.units": 8,
    "behavior.horizon": 2,
    "online.prefill": 60,
    "online.pretrain": 2,
    "online.train_every": 32,
    "online.envs": 2,
    "online.evaluate": 32,
    "online.episodes": 2,
}


def left(obs):
    return 0


@pytest.fixture
def cartpole(tmp_path):
    """Makes datasets of CartPole by one policy or the other."""

    def make(name: str, *, random: bool = True, episodes: int = 4) -> Dataset:
        with dataset_for(CARTPOLE, tmp_path / name) as dataset:
            action = dataset.schema.action
            policy = RandomPolicy(action, [0]) if random else CallablePolicy(left, action)
            collect_episodes(CARTPOLE, dataset, policy, seed=0, episodes=episodes, workers=0)
        return Dataset.open(tmp_path / name)

    return make


@pytest.mark.parametrize(
    ("task", "options", "threshold"),
    [
        ("CartPole-v1", {}, 475.0),
        ("CartPole-v1", {"time_limit": 100}, None),
        ("CartPole-v1", {"repeat": 2}, None),
        ("Pendulum-v1", {}, None),
        ("wmtk/Catch-v0", {}, None),
        ("gymnasium.envs:CartPole-v1", {}, 475.0),
    ],
)
def test_a_threshold_is_that_of_gymnasium_for_the_plain_task(task, options, threshold) -> None:
    assert reward_threshold(resolve(task, **options)) == threshold


def test_random_play_is_measured_once(cartpole, config, tmp_path, monkeypatch) -> None:
    source = Source(cartpole("left.zarr", random=False))
    run = train_model(
        [source], tmp_path / "run", config, updates=1, val_fraction=0.0, task=CARTPOLE
    )
    stored = read_baselines(run.path)
    assert stored is not None
    assert stored.random is not None
    assert stored.random.episodes == 10
    assert 12 < stored.random.mean < 40
    assert stored.data.episodes == 4
    assert stored.threshold == 475.0
    said = compare_run(run).sentence("The data's mean return")
    assert said.startswith("The data's mean return 9")
    assert said.endswith("solved at 475: worse than random play, not solved.")

    def never(*_) -> None:
        raise AssertionError("random play was measured already")

    monkeypatch.setattr("wmtk.runs.baselines._evaluate_random", never)
    store_baselines(run, [source], EnvSetup(CARTPOLE, 0, workers=0))
    assert read_baselines(run.path) == stored


def test_random_episodes_of_the_data_are_random_play(cartpole, config, tmp_path) -> None:
    random, other = cartpole("random.zarr"), cartpole("left.zarr", random=False)
    # What is selected to be learned from is no fair sample of random play.
    best = Source(random, select=lambda table: table.total_reward == table.total_reward.max())
    run = train_model([best, Source(other)], tmp_path / "run", config, updates=1, val_fraction=0.0)
    stored = read_baselines(run.path)
    assert stored.random.mean == pytest.approx(random.episodes.total_reward.mean())
    assert stored.random.episodes == 4
    assert stored.data.episodes == 5
    assert stored.threshold == 475.0  # of the recorded task


def test_an_online_run_is_compared_and_its_best_is_confirmed(config, tmp_path) -> None:
    task = resolve("wmtk/Catch-v0", time_limit=8)  # of which nothing is known
    run = online(task, tmp_path / "run", config.override(ONLINE), steps=300)
    stored = read_baselines(run.path)
    assert stored.random.episodes >= 2  # the prefill
    assert stored.data.episodes > stored.random.episodes
    tests = [r for r in read_metrics(run.path) if "eval/return" in r]
    confirmed = [r for r in tests if "eval/confirmed_return" in r]
    assert len(tests) > 3
    assert confirmed[0] == tests[0]  # the first is the best so far
    best, expected = None, []
    for test in tests:
        if best is None or test["eval/return"] > best:
            expected.append(test)
            best = max(test["eval/confirmed_return"], best if best is not None else -9e9)
    assert confirmed == expected
    pointer = int(run.checkpoints.pointer("best"))
    chosen = next(r for r in confirmed if r["step"] == pointer)
    assert chosen["eval/confirmed_return"] == best
    assert run.checkpoints.document("best")["state"]["best"] == -best
    line = summarize_run(run.path)
    assert (line.last, line.best) == (tests[-1]["eval/return"], best)
    assert "random" in line.comparison["references"]
    comparison = compare_run(run)
    assert comparison.result.episodes == 2
    assert comparison.against_random is not None


def test_a_lucky_first_set_does_not_become_the_best(config, tmp_path, monkeypatch) -> None:
    """The score of the best checkpoint is that of episodes that did not choose it."""
    from wmtk.training.online import agent_trainer as module

    means = iter([5.0, 1.0, 3.0, 0.0, 0.5, 2.0, 1.5])  # first 5, second set 1; 3, then 0; 0.5; …
    asked = []

    def run_eval(env, schema, policy, episodes, seed=None):
        report = original(env, schema, policy, episodes, seed)
        asked.append(seed)
        mean = next(means, 0.0)
        results = tuple(replace(x, total_reward=mean) for x in report.results)
        return replace(report, results=results)

    original = module.run_eval
    monkeypatch.setattr(module, "run_eval", run_eval)
    task = resolve("wmtk/Catch-v0", time_limit=8)
    run = online(task, tmp_path / "run", config.override(ONLINE), steps=240)
    tests = [r for r in read_metrics(run.path) if "eval/return" in r]
    assert [(t["eval/return"], t.get("eval/confirmed_return")) for t in tests][:4] == [
        (5.0, 1.0),
        (3.0, 0.0),
        (0.5, None),
        (2.0, 1.5),
    ]
    assert int(run.checkpoints.pointer("best")) == tests[3]["step"]
    seeds = [seed for seed in asked if seed is not None]
    assert len(set(seeds)) == len(seeds) >= 3


@pytest.mark.parametrize("damage", ["{", "{}", '{"random": 1}'])
def test_damaged_baselines_take_nothing_else_with_them(cartpole, config, tmp_path, damage) -> None:
    source = Source(cartpole("random.zarr"))
    run = train_model([source], tmp_path / "run", config, updates=1, val_fraction=0.0)
    (run.path / "baselines.json").write_text(damage)
    line = summarize_run(run.path)
    assert (line.state, line.comparison) == ("finished", None)


def test_old_tests_without_an_interval_are_not_judged(
    cartpole, config, tmp_path, monkeypatch
) -> None:
    def missing(*_, **__) -> None:
        raise TaskError("There is no such task.")

    monkeypatch.setattr("wmtk.training.run_setup.task_of", missing)  # and so no threshold
    source = Source(cartpole("random.zarr"))
    run = train_model([source], tmp_path / "run", config, updates=1, val_fraction=0.0)
    about = json.loads((run.path / "run.json").read_text())
    run.about = {**about, "kind": "policy"}
    log = MetricsLog(run.path)
    spread = {f"eval/return_{name}": 30.0 for name in ("std", "min", "max")}
    log.scalars(1, {"eval/return": 30.0, "eval/length": 30.0, **spread})
    log.close()
    comparison = compare_run(run)
    assert isinstance(run, Run)
    assert comparison.result == MeanReturn(30.0)
    assert comparison.judgment == ""
    assert comparison.sentence().startswith("Mean return 30: random ")


@pytest.mark.parametrize("side", ["val", "train"])
@pytest.mark.parametrize(
    ("kl", "entropy", "updates", "stuck"),
    [
        (0.002, 40.0, 500, False),
        (0.002, 0.02, 500, True),
        (0.002, 0.02, 499, None),
        (0.20, 0.02, 500, None),
    ],
)
def test_collapsed_latents(side, kl, entropy, updates, stuck) -> None:
    codes = {f"{side}/entropy/posterior": entropy, f"{side}/codes/perplexity": 1.0}
    reports = [{f"{side}/kl": 3 * kl, **codes}, *[{f"{side}/kl": kl, **codes}] * 5, {}]
    collapse = collapsed_latents(reports, updates)
    assert (collapse is None) == (stuck is None)
    if collapse:
        assert (collapse.kl, collapse.stuck) == (pytest.approx(kl), stuck)
    assert collapsed_latents([], updates) is None
