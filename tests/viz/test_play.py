"""An episode as a video, step by step."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image as PillowImage

from wmtk.datasets import Dataset, Schema
from wmtk.errors import DatasetError, UsageError
from wmtk.spaces import ArraySpec
from wmtk.viz.draw.canvas import GREEN, PURPLE, RED
from wmtk.viz.draw.episode_view import EpisodeView
from wmtk.viz.videos.episode_file import find_episode, write_episode
from wmtk.viz.videos.episode_video import BORDER, MARGIN, NARROWEST, TITLE, episode_frames


def colored(pixels, color):
    return (pixels == color).all(-1)


def test_every_step_is_a_frame_with_its_picture(make_episode, view):
    drawn = list(episode_frames(make_episode(9), view, scale=3))
    assert len(drawn) == 10
    assert {frame.shape for frame in drawn} == {drawn[0].shape}
    assert drawn[0].shape[1] == NARROWEST + 2 * MARGIN
    left = MARGIN + (NARROWEST - 48) // 2
    for step, frame in enumerate(drawn):
        assert (frame[TITLE : TITLE + 48, left : left + 48] == 10 * step).all()


def test_pictures_are_enlarged_to_a_good_size_unless_told(make_episode, view):
    frame = next(episode_frames(make_episode(9), view))
    assert (frame[TITLE : TITLE + 384, MARGIN + 12 : MARGIN + 396] == 0).all()


def test_only_the_last_frame_has_the_end(make_episode, view):
    drawn = list(episode_frames(make_episode(9), view, scale=3))
    left = MARGIN + (NARROWEST - 48) // 2
    for step, frame in enumerate(drawn):
        top = colored(frame, PURPLE)[TITLE - BORDER : TITLE, left - BORDER : left + 48 + BORDER]
        assert top.all() == (step == 9)
        assert colored(frame, PURPLE)[:TITLE].any() == (step == 9)


def test_rewards_light_up_when_they_come(make_episode, view):
    reward = np.array([0, 1.0, 0, -1.0])
    drawn = list(episode_frames(make_episode(3, reward=reward), view, scale=3))
    strip = slice(TITLE + 48 + BORDER, -40)  # without the timeline, which shows them all
    assert [colored(frame[strip], GREEN).any() for frame in drawn] == [False, True, False, False]
    assert [colored(frame[strip], RED).any() for frame in drawn] == [False, False, False, True]


def test_without_images_a_cursor_moves_over_lines(make_episode):
    schema = Schema(
        obs={"state": ArraySpec("box", (2,), "float32")},
        action=ArraySpec("discrete", (), "int64", 0, 2),
    )
    state = np.arange(8, dtype=np.float32).reshape(4, 2)
    view = EpisodeView.of(schema, {})
    drawn = list(episode_frames(make_episode(3, obs={"state": state}), view))
    assert len(drawn) == 4
    assert len({frame.tobytes() for frame in drawn}) == 4


def test_indexes(dataset, tmp_path, schema):
    assert [find_episode(dataset, index) for index in (0, 9, -1, -10)] == [0, 9, 9, 0]
    for index in (10, -11):
        with pytest.raises(UsageError, match=rf"no episode {index}\.\n.*0 to 9, or -1 to -10"):
            find_episode(dataset, index)
    with pytest.raises(DatasetError, match="no episode to show"):
        find_episode(Dataset.create(tmp_path / "empty.zarr", schema), 0)


def test_an_episode_becomes_a_video(dataset, tmp_path, read_video):
    heard = []
    path = tmp_path / "e.mp4"
    recorded = write_episode(
        dataset, -4, path, fps=20, scale=4, on_frame=lambda *count: heard.append(count)
    )
    assert (recorded.episode, recorded.steps, recorded.frames) == (6, 7, 8)
    assert (recorded.total_reward, recorded.end, recorded.fps) == (5.0, "terminated", 20)
    assert heard == [(number, 8) for number in range(1, 9)]
    read = read_video(path).frames
    assert read.shape == (8, recorded.height, recorded.width, 3)
    assert recorded.width % 2 == recorded.height % 2 == 0
    center = read[5][TITLE + 32, recorded.width // 2]
    assert np.abs(center.astype(int) - 50).max() <= 6


def test_an_episode_becomes_a_gif_or_a_picture(dataset, tmp_path):
    gif = write_episode(dataset, 4, tmp_path / "e.gif", scale=2)
    with PillowImage.open(gif.path) as opened:
        assert opened.n_frames == gif.frames == 6
    still = write_episode(dataset, 4, tmp_path / "e.png")
    assert (still.frames, still.fps) == (1, None)
    with PillowImage.open(still.path) as opened:
        assert opened.size == (still.width, still.height)


def test_drawing_works_without_torch():
    code = "import sys, wmtk.viz.videos.episode_file; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
