"""EnvSetup in the background: as exact, and as deterministic, as in the foreground."""

from __future__ import annotations

import pytest

from wmtk.envs import resolve
from wmtk.errors import EnvironmentFailedError
from wmtk.runs.replay import open_replay, replay_steps
from wmtk.training.online.async_collector import AsyncCollector, CollectionResult
from wmtk.training.online.train import online

CATCH = resolve("wmtk/Catch-v0")
STEPS = 240


@pytest.fixture
def config(config):
    changes = {"behavior.layers": 1, "behavior.units": 8, "behavior.horizon": 2}
    changes |= {
        "online.prefill": 60,
        "online.pretrain": 1,
        "online.train_every": 8,
        "online.envs": 2,
    }
    return config.override({**changes, "online.episodes": 0})


@pytest.mark.slow
def test_the_train_ratio_is_kept_and_the_seed_decides(config, tmp_path) -> None:
    told = []
    runs = [
        online(
            CATCH,
            tmp_path / name,
            config,
            steps=STEPS,
            background=True,
            on_progress=lambda p: told.append((p.updates, p.steps)),
        )
        for name in ("a", "b")
    ]
    assert {run.step for run in runs} == {config.online.updates_at(STEPS)}
    assert all(steps >= config.online.steps_for(updates) for updates, steps in told if updates)
    # Never further ahead than what was asked for while the last was learned from.
    last = runs[0].step
    ahead = [
        steps - config.online.steps_for(updates + 1)
        for updates, steps in told
        if updates < last and steps > 158  # after random play, before the last episodes end
    ]
    assert max(ahead) <= 8 + 2
    assert runs[0].checkpoints.load().hash == runs[1].checkpoints.load().hash
    dataset = open_replay(runs[0].path)
    assert replay_steps(runs[0].path) == dataset.num_steps == 4 * 79
    assert dataset[3].provenance.policy.startswith("a@")


@pytest.mark.slow
def test_what_was_played_ahead_is_kept_when_it_stops(config, tmp_path) -> None:
    out, told = tmp_path / "run", []
    first = online(
        CATCH,
        out,
        config,
        steps=STEPS,
        background=True,
        on_progress=lambda p: told.append(p.updates),
        stop=lambda: bool(told) and told[-1] >= 12,
    )
    assert first.step == 13  # asked after an update, which ends with the next
    assert replay_steps(out) == open_replay(out).num_steps
    run = online(CATCH, out, config, steps=STEPS, background=True, resume=True)
    assert run.step == config.online.updates_at(STEPS)
    assert STEPS <= replay_steps(out) == open_replay(out).num_steps < STEPS + 2 * 79


class Line:
    """A connection and a process that give what they are told to."""

    exitcode = 7

    def __init__(self, *answers) -> None:
        self.answers = list(answers)

    def poll(self, _=0) -> bool:
        return bool(self.answers)

    def recv(self):
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)

    def is_alive(self) -> bool:
        return False

    def join(self, _=None) -> None:
        pass


class Bin:
    def __init__(self) -> None:
        self.episodes = []

    def add(self, env_index, episode) -> None:
        self.episodes.append((env_index, episode))


def test_a_process_that_dies_or_fails_is_told_of(config) -> None:
    from wmtk.collecting import RandomPolicy, schema_of
    from wmtk.collecting.env_setup import EnvSetup

    messages, sink = [], Bin()
    env = EnvSetup(CATCH, 0, on_message=messages.append)
    policy = RandomPolicy(schema_of(CATCH).action, [0])
    collector = AsyncCollector([], policy, env, sink, 8)
    with pytest.raises(EnvironmentFailedError, match="exit code 7"):
        collector._receive(Line(), Line())
    answer = CollectionResult([(1, "episode")], 5, ["a warning"], ("it broke", "fix it"))
    with pytest.raises(EnvironmentFailedError, match="it broke"):
        collector._store(collector._receive(Line(answer), Line()))
    assert sink.episodes == [(1, "episode")]
    assert (messages, collector.unfinished_steps) == (["a warning"], 5)
