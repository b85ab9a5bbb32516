"""Playing: starting, acting, going back, forking, forcing, the real twin, recording."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import numpy as np
import pytest

from wmtk.collecting.env_setup import EpisodePlan
from wmtk.datasets import Dataset
from wmtk.errors import UsageError
from wmtk.viz.live import branches, protocol
from wmtk.viz.live.catalog import ModelPool
from wmtk.viz.live.player import Player
from wmtk.viz.live.real_env import Recorder


def send(play: Player, kind: str, **about: Any) -> None:
    play.handle(protocol._INCOMING.validate_python({"kind": kind, **about}))


def settings(play: Player, **changes: Any) -> None:
    values = {"playing": False, "actor": "person", "speed": 15, "temperature": 1, "futures": 1}
    send(play, "settings", **(values | changes))


@pytest.fixture
def make_play(make_catalog, page):
    def make(**options: Any) -> Player:
        catalog = make_catalog(**options)
        recorder = None if catalog.target is None else Recorder(catalog.target)
        return Player(catalog, ModelPool(catalog), recorder, page)

    return make


@pytest.fixture
def play(make_play) -> Player:
    made: Player = make_play()
    send(made, "start", source="data", run="r0", data="d0", episode=1, step=40)
    return made


def test_a_dream_begins_where_it_was_told_and_follows_the_keys(play, page) -> None:
    started = page.told("started")[0]
    assert [b["label"] for b in started["controls"]["buttons"]] == ["left", "stay", "right"]
    assert play._session.stepper.seen_rows == [32]  # of 41, as many as a model is shown
    before = page.picture()
    send(play, "keys", held=["right"])
    send(play, "step")
    assert page.step == 1
    assert not np.array_equal(before, page.picture())
    assert page.last.rows[0][:2] == ["person", "right"]
    send(play, "keys", held=["left"])
    send(play, "step")
    assert page.last.rows[0][:2] == ["person", "left"]
    assert page.last.first == 2  # only what the page does not have yet


def test_actors_can_be_changed_at_any_moment(play, page) -> None:
    for actor in ("policy", "recorded", "person"):
        settings(play, actor=actor)
        send(play, "step")
        assert page.last.rows[0][0] == actor
    recorded = play._catalog.data("d0").dataset[1]
    assert play._branch.at(2).action.tolist() == [recorded.action[42]]


def test_recorded_frames_are_shown_as_long_as_they_are_true(play, page) -> None:
    episode = play._catalog.data("d0").dataset[1]
    settings(play, actor="recorded")
    send(play, "step")
    np.testing.assert_array_equal(page.picture("truth"), episode.obs["image"][41])
    settings(play, actor="person")
    send(play, "step")
    settings(play, actor="recorded")
    send(play, "step")
    assert "truth" not in [about["role"] for about, _ in page.last.tiles]


def test_a_recording_comes_to_an_end(make_play, page) -> None:
    play = make_play()
    send(play, "start", source="data", run="r0", data="d0", episode=0, step=79)
    settings(play, actor="recorded", playing=True)
    play.tick()
    assert play.due == float("inf")
    assert "recording ends" in page.told("note")[-1]["text"]


def test_going_back_shows_the_same_and_playing_on_makes_a_line(play, page) -> None:
    send(play, "keys", held=["right"])
    pictures = []
    for _ in range(6):
        send(play, "step")
        pictures.append(page.picture())
    send(play, "goto", branch=0, step=3)
    assert page.step == 3
    np.testing.assert_array_equal(page.picture(), pictures[2])
    send(play, "step")  # the same action and the same branch_seed: the same future
    assert page.last.branch == 1
    np.testing.assert_array_equal(page.picture(), pictures[3])
    assert [one["number"] for one in page.last.header["branches"]] == [0, 1]
    assert page.last.header["branches"][1]["forkedAt"] == 3
    send(play, "goto", branch=0, step=6)
    np.testing.assert_array_equal(page.picture(), pictures[5])


def test_a_fork_has_other_dice(play, page) -> None:
    send(play, "step")
    codes = page.last.header["codes"]
    send(play, "goto", branch=0, step=0)
    send(play, "fork")
    assert page.last.branch == 1
    send(play, "step")
    assert page.last.header["codes"] != codes


def test_seed_and_temperature_decide(make_play, page) -> None:
    play = make_play()
    seen = []
    for seed in (3, 3, 4):
        send(play, "start", source="seed", run="r0", seed=seed)
        send(play, "step")
        seen.append(page.last.header["codes"])
    assert seen[0] == seen[1] != seen[2]
    settings(play, temperature=0)
    send(play, "step")
    assert page.last.header["codes"] == [0, 0, 0, 0]


@pytest.mark.parametrize("codes", [{"0": 8}, {"4": 0}, {"0": 2**31 - 1}, {"0": 1, "9999": 1}])
def test_a_code_that_is_not_there_is_refused(play, page, codes) -> None:
    with pytest.raises(UsageError, match=r"no class \d+ of variable \d+"):
        send(play, "force", codes=codes)
    send(play, "step")
    assert page.last.header["forced"] == {}


def test_a_moment_that_is_not_there_is_refused(play) -> None:
    for branch, step in ((7, 0), (0, 1)):
        with pytest.raises(UsageError, match=f"no step {step} on branch {branch}"):
            send(play, "goto", branch=branch, step=step)


def test_forcing_a_code_changes_the_picture_now_and_later(play, page) -> None:
    before = page.picture()
    natural = page.last.header["codes"][0]
    other = (natural + 3) % 8
    send(play, "force", codes={"0": other})
    assert page.last.header["codes"][0] == other
    assert not np.array_equal(page.picture(), before)
    np.testing.assert_array_equal(page.picture("free"), before)
    send(play, "step")
    assert page.last.header["codes"][0] == other
    send(play, "force", codes={})
    assert "free" not in [about["role"] for about, _ in page.last.tiles]
    assert page.last.header["forced"] == {}


def test_futures_begin_alike_and_go_apart(play, page) -> None:
    settings(play, futures=3)
    send(play, "step")
    roles = [about["role"] for about, _ in page.last.tiles]
    assert [role for role in roles if role.startswith("dream")] == ["dream0", "dream1", "dream2"]
    shades = {page.picture(f"dream{future}").max() for future in range(3)}
    assert len(page.last.rows[0][2]) == 3
    assert len(shades) >= 1
    settings(play, futures=1)
    send(play, "step")
    assert len(page.last.rows[0][2]) == 1


def test_the_real_twin_steps_along_and_can_be_looked_at(make_play, page) -> None:
    play = make_play()
    send(play, "start", source="real", run="r0", seed=1)
    first = page.picture("truth")
    send(play, "keys", held=["right"])
    for _ in range(5):
        send(play, "step")
    assert not np.array_equal(first, page.picture("truth"))
    send(play, "goto", branch=0, step=0)
    np.testing.assert_array_equal(page.picture("truth"), first)
    send(play, "fork")
    assert "cannot be forked" in page.told("note")[-1]["text"]
    send(play, "step")
    assert page.step == 6  # what is real goes on at its end
    rows = len(play._session.stepper.seen_rows)
    send(play, "sync")
    assert play._session.stepper.seen_rows[rows:] == [7]
    assert play._branch.at(6).synced


def test_a_real_episode_ends_and_is_saved_like_any_other(make_play, page) -> None:
    play = make_play(record=True)
    send(play, "start", source="real", run=None)
    assert page.told("started")[-1]["saves"]
    settings(play, playing=True)
    for _ in range(79):
        play.tick()
    assert play.due == float("inf")
    assert page.last.header["ended"] == "terminated"
    assert page.told("recorded")[-1]["saved"] == 1
    target = play._catalog.target
    kept = Dataset.open(target.dataset.path)
    episode = kept[0]
    assert episode.length == 79
    plan = EpisodePlan(0, target.task, kept.schema, episode.provenance, (target.seed, 0), None, 1)
    assert episode.seed == plan.env_seed  # what `wmtk collect --seed` would play first
    assert episode.provenance.policy == "human"
    assert episode.provenance.env_id == "wmtk/Catch-v0"
    assert episode.info["ball"].shape[0] == 80
    send(play, "step")  # nothing follows an end …
    assert play._session.real.steps == 79
    send(play, "start", source="real", run=None)  # … but another episode
    send(play, "step")
    assert not np.array_equal(episode.obs["image"][0], play._branch.at(0).truth["image"])
    assert play._session.real.steps == 1


def test_what_is_not_to_be_recorded_is_not(make_play, page) -> None:
    play = make_play(record=True)
    send(play, "start", source="real", run="r0", seed=5)
    send(play, "record", on=False)
    settings(play, playing=True, actor="policy")
    for _ in range(79):
        play.tick()
    assert not page.told("recorded")
    send(play, "record", on=True)
    send(play, "start", source="real", run="r0", seed=6)
    settings(play, playing=True, actor="policy")
    for _ in range(79):
        play.tick()
    kept = Dataset.open(play._catalog.target.dataset.path)
    assert [episode.provenance.policy for episode in kept] == ["toy0@7"]


def test_a_page_that_does_not_draw_is_waited_for(play, page) -> None:
    """Waiting is no pause: P would then mean the opposite of what the person sees."""
    settings(play, playing=True)
    play.tick()
    page.owing = 100.0
    play.tick()
    assert page.step == 1
    assert page.told("state")[-1]["playing"]
    assert time.monotonic() < play.due < float("inf")
    page.owing = 0.0
    play.tick()
    assert page.step == 2


def test_a_frame_that_comes_late_does_not_undo_a_pause(play, page) -> None:
    """Frames wait for the page, events do not: only events say whether it plays."""
    settings(play, playing=True)
    play.tick()
    late = page.last
    settings(play, playing=False)
    assert "playing" not in late.header
    assert page.told("state")[-1]["playing"] is False
    assert page.told("state")[-1]["step"] == late.header["step"]  # where the pause is over


@pytest.mark.parametrize("way", [{"kind": "step"}, {"kind": "goto", "branch": 0, "step": 1}])
def test_what_pauses_says_where(play, page, way) -> None:
    """The page is paused when it has drawn that step; one that is left out never comes."""
    settings(play, playing=True)
    for _ in range(3):
        play.tick()
    send(play, **way)
    state = page.told("state")[-1]
    assert not state["playing"]
    assert (state["branch"], state["step"]) == (page.last.branch, page.step)


def test_what_does_not_fit_is_refused(make_play, page) -> None:
    play = make_play()
    for wrong in (
        {"source": "data", "run": "r0", "data": "d9"},
        {"source": "data", "run": "r0", "data": "d0", "episode": 99},
        {"source": "data", "run": "r0", "data": "d0", "step": 999},
        {"source": "seed", "run": "r5"},
        {"source": "real", "run": None},
    ):
        with pytest.raises(UsageError):
            send(play, "start", **wrong)
    play.fail(ValueError("odd"))
    assert page.told("error")[-1]["message"] == "ValueError: odd"


def test_memory_stays_bounded_and_closing_frees_everything(play, page, monkeypatch) -> None:
    monkeypatch.setattr(branches, "MOST_STEPS_KEPT", 50)
    stepper = weakref.ref(play._session.stepper)
    settings(play, playing=True, speed=60)
    for _ in range(200):
        play.tick()
        del page.frames[:-1]
    assert len(play._branch.steps) == 50
    assert page.last.header["branches"][0]["first"] == 151
    send(play, "goto", branch=0, step=0)
    assert page.step == 151  # the oldest that is left
    for _ in range(20):
        send(play, "fork")
    assert len(play._branches.branches) == branches.MOST_BRANCHES
    play.close()
    page.frames.clear()
    gc.collect()
    assert stepper() is None
    assert len(play._models) == 0
