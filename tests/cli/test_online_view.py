"""What `wmtk online` shows while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from wmtk.cli.common import console, online_dashboard
from wmtk.cli.common.online_dashboard import View, sparkline
from wmtk.cli.common.training_summary import render_online, time_line
from wmtk.runs.training_config import OnlineConfig
from wmtk.training.online.progress import OnlineProgress, Score

PACE = OnlineConfig(prefill=1000, pretrain=100, train_every=4, envs=4)


def progress(**changes) -> OnlineProgress:
    told = {
        "steps": 3000,
        "action_repeat": 4,
        "updates": 600,
        "returns": [-3.0, -1.0, 2.0, 4.0],
        "episodes": 38,
        "scores": [Score(2000, 1.5, 0.9, 0.5), Score(2800, 4.25, 1.25, 0.75)],
        "losses": {"loss": 18.21, "image": 16.7},
        "shares": {"saving": 0.01, "model": 0.6, "collect": 0.05, "behavior": 0.24},
    }
    return OnlineProgress(**{**told, **changes})


@pytest.fixture
def clock(monkeypatch):
    """A clock that somebody sets."""

    class Clock:
        now = 100.0

    monkeypatch.setattr(online_dashboard.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(online_dashboard, "note", lines.append)
    return lines


def test_a_sparkline_shows_means_from_the_lowest_to_the_highest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([-1, -1, 5, 5], width=2) == "▁█"
    assert sparkline([2.5, 2.5]) == "▁▁"
    assert len(sparkline(range(1000))) == 24


def test_a_line_says_how_far_and_how_good(clock) -> None:
    view = View("wmtk/Catch-v0", PACE, 40, 10_000)
    assert view.line() == "wmtk/Catch-v0: starting"
    view.update(progress(steps=2960, updates=590))
    clock.now += 10
    view.update(progress())
    assert view.line() == (
        "wmtk/Catch-v0: 3,000 of 10,000 steps (30%), 600 updates, return 0.5, tested 4.25, "
        "loss 18.2, image 16.7, 4 steps/s, 29:10 left"  # 1,750 updates of a second each
    )


def test_before_the_first_update_steps_tell_how_long_random_play_takes(clock) -> None:
    view = View("wmtk/Catch-v0", PACE, 40, 10_000)
    nothing = {"updates": 0, "returns": [], "scores": [], "losses": {}}
    view.update(progress(steps=0, **nothing))
    assert "left" not in view.line()
    clock.now += 10
    view.update(progress(steps=250, **nothing))
    assert view.line() == (
        "wmtk/Catch-v0: 250 of 10,000 steps (2%), 0 updates, 25 steps/s, "
        "0:30 of random steps left"  # 750 steps
    )
    clock.now += 32
    view.update(progress(steps=1050, **nothing))  # to the end of an episode
    assert "left" not in view.line()


def test_lines_become_rare(clock, said) -> None:
    view = View("wmtk/Catch-v0", PACE, 40, 10_000)
    times = []
    for second in range(4000):
        clock.now = 100.0 + second
        before = len(said)
        view.update(progress())
        times += [second] * (len(said) - before)
    assert times[0] == 5
    assert times[1] == 10
    assert times[-1] - times[-2] == 60
    assert len(times) < 130


def test_the_dashboard(clock) -> None:
    view = View("wmtk/Catch-v0", PACE, 40, 10_000)
    shown = Console(file=io.StringIO(), width=100)
    shown.print(view.panel())
    view.update(progress(updates=0, returns=[], scores=[], losses={}))
    shown.print(view.panel())
    text = shown.file.getvalue()
    for words in (
        "starting",
        "no episode yet",
        "not yet",
        "none before 1,000 random steps",
    ):
        assert words in text
    clock.now += 75
    view.update(progress(updates=675))
    shown.print(view.panel())
    text = " ".join(shown.file.getvalue().split())
    for words in (
        "3,000 of 10,000 steps (30%)",
        "3,000 agent steps = 12,000 frames, 38 episodes",
        "675, one every 4 steps: 10 replayed steps per step",
        "▁▃▆█ recent 0.5, best 4",
        "▁█ 4.25 at 2,800 steps, best 4.25",
        "loss 18.2 image 16.7",
        "collect 5% model 60% behavior 24% saving 1%",
        "1:15",
    ):
        assert words in text, words


def test_on_a_terminal_the_dashboard_is_live(monkeypatch) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(console, "err", terminal)
    with online_dashboard.dashboard("wmtk/Catch-v0", PACE, 40, 10_000) as view:
        view.update(progress())
    assert "10 replayed steps per step" in terminal.file.getvalue()


def test_the_end_says_where_the_time_went() -> None:
    shares = {"model": 0.6, "behavior": 0.25, "collect": 0.08, "data wait": 0.01, "other": 0.06}
    assert time_line(shares) == (
        "93.0% work: model 60.0%, behavior 25.0%, collect 8.0%, other 6.0%, data wait 1.0%"
    )
    tested = {"step": 600, "eval/return": 4.5, "eval/return_std": 0.5}
    result = {"run": "r", "steps": 3160, "frames": 12640, "updates": 600, "tested": tested}
    shown = Console(file=io.StringIO(), width=100)
    shown.print(render_online({**result, "best": None, "time": shares}))
    text = " ".join(shown.file.getvalue().split())
    assert "3,160, 12,640 frames" in text
    assert "return 4.5 ± 0.5, at update 600" in text
    assert "wmtk eval r" in text


def test_the_name_of_a_task_is_text(capsys, clock) -> None:
    view = View("[/x]\x1b[31m\u202e", PACE, 40, 10_000)
    console.err.print(view.panel())
    view.update(progress())
    console.err.print(view.panel())
    assert capsys.readouterr().err.count(r"─ [/x]\x1b[31m\u202e ─") == 2
