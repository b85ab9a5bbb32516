"""The online agent: what it plays and learns, when, and from what."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch

from wmtk.agent.device import tuned_threads
from wmtk.agent.load import load
from wmtk.collecting import task_of
from wmtk.datasets import Dataset, SequenceSampler, Source
from wmtk.datasets.integrity.validate import validate
from wmtk.envs import resolve
from wmtk.errors import RunError, UsageError
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.replay import Replay, open_replay, replay_steps
from wmtk.runs.run_directory import Run
from wmtk.training.model_stage import train_model
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.online.initialization import require_data, require_updates, steps_of
from wmtk.training.online.train import online
from wmtk.training.policy_stage import train_policy
from wmtk.training.policy_trainer import PolicyTrainer
from wmtk.training.presets import PRESETS, training_config
from wmtk.training.samplers import make_sampler

CATCH = resolve("wmtk/Catch-v0")
STEPS = 240  # three episodes
FIXED = {"online.prefill": 0, "online.episodes": 0}  # with --data and no steps


@pytest.fixture
def config(config):
    """An update every 16 steps after one episode of random play."""
    changes = {
        "behavior.layers": 1,
        "behavior.units": 8,
        "behavior.horizon": 2,
        "online.prefill": 60,
        "online.pretrain": 2,
        "online.train_every": 16,
        "online.envs": 1,
        "online.evaluate": 160,
        "online.episodes": 1,
    }
    return config.override(changes)


class Watcher:
    """Keeps what a run tells, and may stop it."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.told = []
        self.stop_at = stop_at

    def __call__(self, progress) -> None:
        self.told.append(replace(progress, returns=list(progress.returns)))

    def stop(self) -> bool:
        return self.stop_at is not None and len(self.told) >= self.stop_at

    def updates(self):
        """What was told after each update."""
        pairs = zip(self.told, self.told[1:], strict=False)
        return [after for before, after in pairs if after.updates > before.updates]


def require_same_weights(one: Run, other: Run, *prefixes: str) -> None:
    ours, theirs = one.checkpoints.load().tensors, other.checkpoints.load().tensors
    names = [name for name in ours if name.startswith(prefixes)]
    assert len(names) > 10
    assert set(names) == {name for name in theirs if name.startswith(prefixes)}
    for name in names:
        assert torch.equal(ours[name], theirs[name]), name


def test_it_plays_learns_and_is_tested(config, tmp_path) -> None:
    watcher = Watcher()
    run = online(CATCH, tmp_path / "run", config, steps=STEPS, on_progress=watcher)
    assert run.kind == "online"
    assert run.step == 2 + (STEPS - 60) // 16
    dataset = open_replay(run.path)
    assert replay_steps(run.path) == dataset.num_steps >= STEPS
    assert len(dataset) == -(-STEPS // 79) == watcher.told[-1].episodes
    policies = [episode.provenance.policy for episode in dataset]
    assert policies[0] == "random"
    assert policies[1].startswith("run@")
    reports = read_metrics(run.path)
    tested = [report for report in reports if "eval/return" in report]
    assert [t["step"] for t in tested] == [9, run.step]  # the first after 160 steps, the last
    assert [score.mean_return for score in watcher.told[-1].scores] == [
        report["eval/return"] for report in tested
    ]
    assert [r["step"] for r in reports if "train/loss/critic" in r and "train/kl" in r][:2] == [
        2,
        4,
    ]
    assert {report["steps/frames"] for report in reports if "steps/frames" in report} >= {79}
    assert watcher.told[-1].returns == dataset.episodes.total_reward.tolist()
    assert set(watcher.told[-1].shares) >= {"collect", "model", "behavior", "eval", "data wait"}
    assert (run.path / "images").exists()
    agent = load(run.path)
    agent.policy.begin()
    assert agent.policy(dataset[0].obs["image"][0]).shape == ()
    assert task_of(run.about["env"]).env_id == CATCH.env_id


@pytest.mark.parametrize(("every", "envs"), [(16, 1), (5.5, 2)])
def test_every_update_waits_for_its_steps_and_no_step_for_an_update(
    config, tmp_path, every, envs
) -> None:
    other = config.override(
        {"online.train_every": every, "online.envs": envs, "online.episodes": 0}
    )
    pace, watcher = other.online, Watcher()
    run = online(CATCH, tmp_path / "run", other, steps=STEPS, on_progress=watcher)
    assert run.step == pace.updates_at(STEPS)
    updates = watcher.updates()
    assert [p.updates for p in updates] == list(range(1, run.step + 1))
    random_steps = 79 * envs  # in whole episodes
    for progress in updates:
        waited_for = pace.steps_for(progress.updates)
        assert waited_for <= progress.steps < max(waited_for, random_steps + 1) + envs
    steps = [progress.steps for progress in watcher.told]
    assert steps == sorted(steps)


def test_the_seed_decides_everything(config, tmp_path) -> None:
    runs = [
        online(CATCH, tmp_path / name, config, steps=STEPS, seed=seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    one, same, other = (run.checkpoints.load() for run in runs)
    assert one.hash == same.hash != other.hash
    ids = [[e.arrays()["action"].tolist() for e in open_replay(run.path)] for run in runs]
    assert ids[0] == ids[1] != ids[2]
    returns = [[r.get("eval/return") for r in read_metrics(run.path)] for run in runs]
    assert returns[0] == returns[1]


# --- the same objects as in the stages ---


def test_the_model_learns_as_in_train_model(config, dataset, tmp_path) -> None:
    """Whether or not a policy learns beside it."""
    source = Source(dataset)
    model = train_model([source], tmp_path / "model", config, updates=6, val_fraction=0.0)
    fixed = config.override({**FIXED, "online.pretrain": 6})
    both = online(CATCH, tmp_path / "both", fixed, steps=0, datasets=[source])
    assert both.step == 6
    assert len(open_replay(both.path)) == 0
    require_same_weights(model, both, "model/", "adam/model/")
    alone = fixed.override({"online.learn_behavior": False})
    alone = online(CATCH, tmp_path / "alone", alone, steps=0, datasets=[source])
    require_same_weights(model, alone, "model/", "adam/model/")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_behavior_learns_as_in_train_policy(config, dataset, tmp_path, precision) -> None:
    """In a model that stays as it is."""
    source = Source(dataset)
    config = config.override({"precision": precision})
    model = train_model([source], tmp_path / "model", config, updates=3, val_fraction=0.0)
    policy = train_policy(
        model.path, tmp_path / "policy", updates=5, datasets=[source], config=config, episodes=0
    )
    fixed = config.override({**FIXED, "online.pretrain": 5, "online.learn_model": False})
    agent = online(CATCH, tmp_path / "agent", fixed, steps=0, datasets=[source], init=model.path)
    names = ("model/", "behavior/", "adam/actor/", "adam/critic/", "behavior_updates")
    require_same_weights(policy, agent, *names)


def test_both_together_are_the_two_in_turns(config, dataset, tmp_path) -> None:
    """The policy dreams from the states that the model has just found in the same batch."""
    source, schema = Source(dataset), dataset.schema
    fixed = config.override({**FIXED, "online.pretrain": 4})
    run = online(CATCH, tmp_path / "run", fixed, steps=0, datasets=[source], seed=1)

    torch.manual_seed(1)
    model = ModelTrainer(fixed, schema, torch.device("cpu"))
    models = torch.get_rng_state()
    policy = PolicyTrainer(fixed, schema, model.model)
    policies = torch.get_rng_state()
    sampler = make_sampler(fixed.data, [source], 1)
    with tuned_threads(fixed.data.batch_size * fixed.data.length, fixed.model.cnn_depth):
        for step in range(1, 5):
            inputs = model.inputs(sampler.sample())
            torch.set_rng_state(models)
            post, _ = model.update(inputs, step)
            models = torch.get_rng_state()
            torch.set_rng_state(policies)
            policy.update(inputs, step, post)
            policies = torch.get_rng_state()
    saved = run.checkpoints.load().tensors
    for name, tensor in (model.state_dict() | policy.state_dict()).items():
        assert torch.equal(tensor, saved[name]), name


# --- stopping and going on ---


@pytest.mark.parametrize("stop_at", [1, 30, 85, 130, 200])
def test_stopping_loses_and_doubles_no_step(config, tmp_path, stop_at) -> None:
    """In random play, in the middle of an episode, and at an update."""
    out, watcher = tmp_path / "run", Watcher(stop_at)
    stopped = online(CATCH, out, config, steps=STEPS, on_progress=watcher, stop=watcher.stop)
    before = open_replay(out).episodes.id.tolist()
    assert replay_steps(out) == open_replay(out).num_steps < STEPS
    assert stopped.step <= config.online.updates_at(watcher.told[-1].steps)
    if stop_at > 100:
        assert stopped.step == watcher.told[-1].updates > 0
    again = Watcher()
    run = online(CATCH, out, config, steps=STEPS, on_progress=again, resume=True)
    assert run.step == config.online.updates_at(STEPS)
    dataset = open_replay(out)
    assert replay_steps(out) == dataset.num_steps >= STEPS
    assert len(dataset) == -(-STEPS // 79)  # as if nothing had happened
    ids = dataset.episodes.id.tolist()
    assert ids[: len(before)] == before
    assert len(set(ids)) == len(ids)
    for progress in again.updates():
        assert progress.steps >= config.online.steps_for(progress.updates)
    seen = [r["step"] for r in read_metrics(out) if "train/kl" in r]
    assert seen == sorted(set(seen))


def test_a_crash_between_a_commit_and_its_count(config, tmp_path, monkeypatch) -> None:
    class Crash(BaseException):
        pass

    whole = Replay._write

    def write(self) -> None:
        if self.returns[2:]:
            raise Crash
        whole(self)

    monkeypatch.setattr(Replay, "_write", write)
    with pytest.raises(Crash):
        online(CATCH, tmp_path / "run", config, steps=STEPS)
    assert replay_steps(tmp_path / "run") == 2 * 79
    assert open_replay(tmp_path / "run").num_steps == 3 * 79
    monkeypatch.undo()
    run = online(CATCH, tmp_path / "run", config, steps=STEPS, resume=True)
    assert run.step == config.online.updates_at(STEPS)
    assert replay_steps(run.path) == open_replay(run.path).num_steps == 4 * 79


def test_the_oldest_episodes_go_and_are_still_counted(config, tmp_path) -> None:
    small = config.override({"online.capacity": 170, "online.episodes": 0})
    out = tmp_path / "run"
    online(CATCH, out, small, steps=4 * 79)
    assert open_replay(out).num_steps == 158
    assert replay_steps(out) == 4 * 79
    run = online(CATCH, out, small, steps=6 * 79, resume=True)
    assert replay_steps(out) == 6 * 79
    assert open_replay(out).num_steps == 158
    assert run.step == small.online.updates_at(6 * 79)


def test_a_longer_run_goes_on_and_a_finished_one_has_nothing_to_do(config, tmp_path) -> None:
    out = tmp_path / "run"
    first = online(CATCH, out, config, steps=STEPS).checkpoints.load()
    with pytest.raises(RunError, match="exists already"):
        online(CATCH, out, config, steps=STEPS)
    again = online(CATCH, out, config, steps=STEPS, resume=True)
    assert again.checkpoints.load().hash == first.hash
    assert replay_steps(out) == 4 * 79
    more = online(CATCH, out, config, steps=STEPS + 160, resume=True)
    assert more.step == config.online.updates_at(STEPS + 160)
    with pytest.raises(RunError, match="size"):
        online(resolve("wmtk/Catch-v0", size=96), out, config, steps=STEPS, resume=True)


# --- what it begins with ---


def test_a_warm_start_learns_from_both(config, dataset, tmp_path) -> None:
    warm = config.override({"online.prefill": 0, "online.pretrain": 2, "online.episodes": 0})
    out = tmp_path / "run"
    run = online(CATCH, out, warm, steps=160, datasets=[Source(dataset, 3.0)])
    assert run.step == 2 + 160 // 16
    assert {e.provenance.policy.split("@")[0] for e in open_replay(out)} == {"run"}
    assert run.about["data"][0]["weight"] == 3.0
    assert run.about["data"][0]["version"] == dataset.version
    with pytest.raises(RunError, match="other data"):
        online(CATCH, out, warm, steps=200, resume=True)
    more = online(CATCH, out, warm, steps=200, datasets=[Source(dataset, 3.0)], resume=True)
    assert more.step == 2 + 200 // 16


def test_a_trained_model_and_a_trained_policy_to_begin_with(config, dataset, tmp_path) -> None:
    source = Source(dataset)
    model = train_model([source], tmp_path / "model", config, updates=2, val_fraction=0.0)
    policy = train_policy(model.path, tmp_path / "policy", updates=2, config=config, episodes=0)
    fixed = config.override({**FIXED, "online.pretrain": 1, "online.learn_model": False})
    one = online(CATCH, tmp_path / "a", fixed, steps=0, datasets=[source], init=model.path)
    require_same_weights(model, one, "model/", "adam/model/")
    assert one.about["init"]["hash"] == model.checkpoints.load().hash
    frozen = fixed.override({"online.learn_model": True, "online.learn_behavior": False})
    two = online(CATCH, tmp_path / "b", frozen, steps=0, datasets=[source], init=policy.path)
    require_same_weights(policy, two, "behavior/", "adam/actor/")
    # One update of a model that is taken over is a small one: nothing begins anew.
    before, after = (run.checkpoints.load().tensors for run in (policy, two))
    for name in (name for name in before if name.startswith("model/")):
        torch.testing.assert_close(after[name], before[name], rtol=0, atol=1e-4)


def test_a_kill_before_the_first_checkpoint_forgets_no_beginning(config, dataset, tmp_path) -> None:
    source = Source(dataset)
    model = train_model([source], tmp_path / "model", config, updates=2, val_fraction=0.0)
    still = config.override({"online.learn_model": False, "online.episodes": 0})
    out, watcher = tmp_path / "run", Watcher(1)
    options = {"steps": STEPS, "init": model.path}
    run = online(CATCH, out, still, on_progress=watcher, stop=watcher.stop, **options)
    assert run.step == 0
    with pytest.raises(RunError, match="was started from"):
        online(CATCH, out, still, steps=STEPS, init=tmp_path / "other", resume=True)
    run = online(CATCH, out, still, steps=STEPS, resume=True)
    require_same_weights(model, run, "model/")


def test_what_cannot_work_is_refused_and_leaves_nothing(config, tmp_path) -> None:
    out = tmp_path / "run"
    with pytest.raises(UsageError, match="first one is due after 76"):
        online(CATCH, out, config.override({"online.pretrain": 0}), steps=75)
    with pytest.raises(UsageError, match="no data for the first update"):
        online(CATCH, out, config.override({"online.prefill": 0}), steps=STEPS)
    assert not out.exists()


@pytest.mark.parametrize(
    ("steps", "changes"),
    [
        (75, {"online.pretrain": 0}),
        (900, {"online.prefill": 1000}),
        (1000, {"online.prefill": 1000, "online.pretrain": 0}),
        (1, {"online.prefill": 1000, "online.pretrain": 1}),
        (10, {"online.pretrain": 0}),
    ],
)
def test_hints_fit_the_settings_and_work(config, steps, changes) -> None:
    config = config.override(changes)
    with pytest.raises(UsageError) as caught:
        require_updates(config, steps)
    options = dict(re.findall(r"(\S+?)=(\d+)", caught.value.hint))
    assert require_updates(config, int(options.pop("steps"))) > 0
    for name, value in options.items():
        assert int(value) not in (config.online.prefill, 0)
        assert require_updates(config.override({name: int(value)}), steps) > 0
    assert bool(options) == (steps > 10 or bool(config.online.pretrain))
    with pytest.raises(UsageError) as caught:
        require_data(config.override({"online.prefill": 0}), [], steps)
    (value,) = re.findall(r"online.prefill=(\d+)", caught.value.hint)
    assert 0 < int(value) <= max(steps, 1)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_default_steps_are_enough_for_each_preset(preset) -> None:
    for changes in ({}, {"online.prefill": 123_456}):
        config = training_config(preset, overrides=changes)
        steps = steps_of(None, config.online)
        assert require_updates(config, steps) > 1000
        assert steps <= max(20_000, 10 * config.online.prefill)


ENDLESS = """
import gymnasium as gym
import numpy as np


class Endless(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), 1.0, False, False, {}
"""


@pytest.mark.parametrize("background", [False, True])
def test_an_endless_task_is_played_for_so_many_steps(
    config, tmp_path, monkeypatch, run_wmtk, background
) -> None:
    """Also by random play, by the tests, after resuming, and by `wmtk eval`."""
    monkeypatch.setattr("wmtk.collecting.env_setup.MAX_EPISODE_STEPS", 90)
    (tmp_path / "endless_envs.py").write_text(ENDLESS)
    monkeypatch.syspath_prepend(tmp_path)
    task = resolve("endless_envs:Endless")
    small = config.override({"online.envs": 2, "online.pretrain": 1})
    out = tmp_path / "run"
    online(task, out, small, steps=140, workers=0, background=background)
    assert replay_steps(out) == open_replay(out).num_steps == 140
    assert (open_replay(out).episodes.end == 2).all()
    assert max(open_replay(out).episodes.length) <= 90
    tests = [r["eval/length"] for r in read_metrics(out) if "eval/length" in r]
    longest = max(open_replay(out).episodes.length)
    assert tests
    assert max(tests) <= longest < 90, "tests are no longer than the data"
    trusted = ("--trust-env", "endless_envs:Endless", "--episodes", 2, "--workers", 0)
    done = run_wmtk("eval", out, *trusted, "--json")
    assert json.loads(done.stdout)["length"]["mean"] == longest, done.stderr
    assert f"after {longest} steps, the length of the longest episode" in done.stderr
    online(task, out, small, steps=180, workers=0, background=background, resume=True)
    assert replay_steps(out) == 180


# --- while it runs ---


def test_the_time_of_random_play_is_that_of_collecting(config, tmp_path) -> None:
    shares = []

    def watch(progress) -> None:
        if progress.updates == 0:
            time.sleep(0.2)  # as in a slow environment
        shares.append(progress.shares)

    random = config.override({"online.prefill": 230, "online.pretrain": 1, "online.episodes": 0})
    online(CATCH, tmp_path / "run", random, steps=230, on_progress=watch)
    playing = shares[-2]
    assert set(playing) == {"collect", "other"}
    assert playing["collect"] > playing["other"]  # already before it is over
    assert shares[-1]["collect"] > 0


def test_the_returns_of_random_play_are_reported_too(config, tmp_path) -> None:
    """All of them, if a run was stopped before any report; after a report only new ones are."""
    logged = config.override({"logging.log_every": 1, "online.prefill": 200, "online.episodes": 0})
    out, watcher = tmp_path / "run", Watcher(7)
    online(CATCH, out, logged, steps=400, on_progress=watcher, stop=watcher.stop)
    assert len(open_replay(out)) < 3  # stopped in random play

    def reported() -> list[float]:
        return [r["return/train"] for r in read_metrics(out) if "return/train" in r]

    def returns() -> list[float]:
        return open_replay(out).episodes.total_reward.tolist()

    online(CATCH, out, logged, steps=400, resume=True)
    # Three episodes at once, then one; two more end after the last update.
    assert len(returns()) == 6
    assert reported() == pytest.approx([fmean(returns()[:3]), returns()[3], fmean(returns()[4:])])
    lines = (out / "metrics.jsonl").read_text()
    online(CATCH, out, logged, steps=400, resume=True)
    assert (out / "metrics.jsonl").read_text() == lines  # each episode once
    online(CATCH, out, logged, steps=600, resume=True)
    assert len(returns()) == 8
    assert reported()[3:] == pytest.approx(returns()[6:])


def test_others_use_the_replay_meanwhile(config, tmp_path) -> None:
    out, seen = tmp_path / "run", []

    def use(progress) -> None:
        if progress.updates != 10 or seen:
            return
        with Dataset.open(out / "replay.zarr", "a") as dataset:
            dataset.tag("early")
        report = validate(out / "replay.zarr")
        assert not report.errors
        batch = SequenceSampler(dataset, batch_size=2, length=5).sample()
        other = tmp_path / "other"
        model = train_model([Source(dataset)], other, config, updates=1, val_fraction=0.0)
        seen.append((batch.reward.shape, model.step, dataset.num_episodes))

    small = config.override({"online.capacity": 170})
    run = online(CATCH, out, small, steps=5 * 79, on_progress=use)
    assert seen == [((2, 5), 1, 2)]
    assert run.step == small.online.updates_at(5 * 79)
    tagged = Dataset.open(out / "replay.zarr", tag="early")
    assert [episode.length for episode in tagged] == [79, 79]  # which a tag keeps
    assert replay_steps(out) == 5 * 79


def test_random_data_is_an_ablation(config, tmp_path) -> None:
    run = online(CATCH, tmp_path / "run", config.override({"online.actor": "random"}), steps=STEPS)
    episodes = list(open_replay(run.path))
    assert not np.array_equal(episodes[0].action, episodes[1].action)
    assert run.step == config.online.updates_at(STEPS)


def test_an_explorer_plays_where_there_is_one(config, tmp_path, monkeypatch) -> None:
    from wmtk.training.online.agent_trainer import AgentTrainer

    asked = []
    original = AgentTrainer.collection_policy

    def watched(self, seed):
        asked.append(original(self, seed))
        assert asked[-1].actor_critic is self.policy.explorer
        return asked[-1]

    monkeypatch.setattr(AgentTrainer, "collection_policy", watched)
    curious = config.override({"behavior.explore": "disagreement"})
    run = online(CATCH, tmp_path / "run", curious, steps=STEPS)
    assert asked
    assert any(name.startswith("explorer/") for name in run.checkpoints.load().tensors)
    before = run.step
    assert online(CATCH, run.path, curious, steps=STEPS + 80, resume=True).step > before
