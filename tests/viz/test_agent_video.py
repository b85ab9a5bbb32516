"""An episode as its policy lived it, in pictures and lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image as PillowImage

from wmtk.collecting import EpisodeRecording
from wmtk.datasets import Schema
from wmtk.spaces import ArraySpec
from wmtk.viz.draw.canvas import INK, PURPLE, Canvas
from wmtk.viz.draw.episode_view import EpisodeView
from wmtk.viz.draw.traces import NAMES, SCALES, Trace, TraceChart
from wmtk.viz.videos.agent_video import (
    ALONE,
    BORDER,
    CAPTION,
    GAP,
    INNER,
    MARGIN,
    NARROWEST,
    PREDICTED,
    SIDE,
    TITLE,
)
from wmtk.viz.videos.agent_video import agent_frames as draw
from wmtk.viz.videos.video_file import write_video

TOP = TITLE + CAPTION


def colored(pixels, color):
    return (pixels == color).all(-1)


@pytest.fixture
def recording(make_episode):
    """Step t is a gray of 10·t; the model takes it to be 10·t + 5."""
    episode = make_episode(9)
    made = (np.arange(10) * 10 + 5).astype(np.uint8)
    return EpisodeRecording(
        episode,
        "policy",
        discount=0.9,
        values=np.linspace(0, 1, 10),
        rewards=np.linspace(0, 1, 10),
        reconstructions={"image": np.broadcast_to(made[:, None, None, None], (10, 16, 16, 1))},
    )


def test_both_pictures_are_sharp_and_at_the_same_step(recording, view):
    drawn = list(draw(recording, view))
    assert len(drawn) == 10
    assert {frame.shape for frame in drawn} == {drawn[0].shape}
    assert drawn[0].shape[1] == INNER + 2 * MARGIN
    second = MARGIN + SIDE + GAP
    for step, frame in enumerate(drawn):
        assert (frame[TOP : TOP + SIDE, MARGIN : MARGIN + SIDE] == 10 * step).all()
        assert (frame[TOP : TOP + SIDE, second : second + SIDE] == 10 * step + 5).all()


def test_what_the_model_saw_stands_beside_what_it_made_of_it(recording, view):
    seen = np.full((10, 16, 16, 1), 77, np.uint8)
    frame = next(draw(replace(recording, images={"image": seen}), view))
    assert (frame[TOP : TOP + SIDE, MARGIN : MARGIN + SIDE] == 77).all()


def test_only_the_last_frame_has_the_end(recording, view):
    drawn = list(draw(recording, view))
    for step, frame in enumerate(drawn):
        edge = colored(frame, PURPLE)[TOP - BORDER : TOP, MARGIN : MARGIN + SIDE]
        assert edge.all() == (step == 9)


def test_a_cursor_goes_through_the_charts(recording, view):
    drawn = list(draw(recording, view))
    below = TOP + SIDE + 80
    columns = [np.flatnonzero(colored(frame[below:], INK).sum(0) > 140) for frame in drawn]
    assert all(len(found) for found in columns)  # both charts are that high together
    starts = [found[0] for found in columns]
    assert starts == sorted(set(starts))
    assert starts[0] <= MARGIN + 1
    assert starts[-1] >= MARGIN + INNER - SCALES - 3


def test_a_policy_without_a_model_is_shown_as_far_as_it_is_known(make_episode, view, recording):
    plain = list(draw(EpisodeRecording(make_episode(9), "random"), view))
    assert len(plain) == 10
    frame = plain[4]
    assert (frame[TOP : TOP + ALONE, MARGIN : MARGIN + ALONE] == 40).all()
    assert (frame[TOP : TOP + ALONE, MARGIN + ALONE + BORDER :] == 255).all()
    assert not colored(frame, PREDICTED).any()
    assert frame.shape[1] == NARROWEST + 2 * MARGIN < next(draw(recording, view)).shape[1]


def test_without_images_the_observation_is_drawn_as_lines(make_episode):
    schema = Schema(
        obs={"state": ArraySpec("box", (2,), "float32")},
        action=ArraySpec("discrete", (), "int64", 0, 2),
    )
    state = np.arange(8, dtype=np.float32).reshape(4, 2)
    episode = make_episode(3, obs={"state": state})
    made = EpisodeRecording(episode, "policy", 0.9, np.zeros(4), np.zeros(4))
    drawn = list(draw(made, EpisodeView.of(schema, {})))
    assert len({frame.tobytes() for frame in drawn}) == 4


def test_lines_are_where_their_numbers_are():
    trace = Trace("one", np.array([0.0, 0.0, 4.0, 4.0]), PREDICTED)
    chart = TraceChart([trace], 10, 5, 200 + SCALES, 50)
    canvas = Canvas(300, 100)
    chart.draw(canvas)
    found = colored(canvas.pixels(), PREDICTED)
    assert chart.range == (0.0, 4.0)
    top = 5 + NAMES
    high, low = (np.flatnonzero(found[:, 10 + x]) - top for x in (190, 10))
    assert 0 < high.max() <= 6  # pixels below the top
    assert 44 <= low.min() < 50


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0, 4.0], ["1.23", "0", "−3.00"]),
        ([0, 0.05], ["1.2340", "0", "−3.0000"]),
        ([-20, 800], ["1", "0", "−3"]),
        ([0, 0], ["1.234", "0", "−3"]),
    ],
    ids=["few", "small", "large", "nothing"],
)
def test_numbers_have_the_digits_that_can_be_seen(values, text):
    chart = TraceChart([Trace("one", np.array(values, float), INK)], 0, 0, 100, 20)
    assert [chart._text(value) for value in (1.234, -0.0001 * max(values), -3.0)] == text


def test_it_becomes_a_film(recording, view, tmp_path):
    written = write_video(tmp_path / "a.gif", draw(recording, view), 10)
    with PillowImage.open(written.path) as opened:
        assert opened.n_frames == written.frames == 10
