"""Which episodes a contact sheet shows, and where its pixels are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wmtk.datasets import Dataset, Schema
from wmtk.errors import DatasetError, UsageError
from wmtk.spaces import ArraySpec
from wmtk.viz.draw.canvas import BLUE, GREEN, ORANGE, PURPLE, RED, Canvas
from wmtk.viz.draw.cells import BORDER, Cells, draw_cell
from wmtk.viz.draw.episode_view import MAX_LANES, EpisodeView
from wmtk.viz.draw.lanes import ticks
from wmtk.viz.draw.marks import TIMELINE, draw_timeline, end_of, signed, spread_steps
from wmtk.viz.sheets.contact_sheet import (
    HEADER,
    LABEL,
    MARGIN,
    SheetRow,
    choose_episodes,
    contact_sheet,
    dataset_sheet,
)
from wmtk.viz.sheets.episode_strip import episode_strip


def colored(pixels, color):
    return (pixels == color).all(-1)


# --- choosing ---


def test_the_spread_of_episodes(dataset):
    chosen = choose_episodes(dataset.episodes, 6, seed=0)
    why = {choice.episode: choice.why for choice in chosen}
    assert len(chosen) == 6
    assert list(why) == sorted(why)
    assert (why[0], why[9], why[6], why[3]) == ("first", "last", "best", "worst")
    assert sorted(why.values()).count("random") == 2
    assert choose_episodes(dataset.episodes, 6, seed=0) == chosen
    others = {tuple(c.episode for c in choose_episodes(dataset.episodes, 6, s)) for s in range(9)}
    assert len(others) > 1


def test_few_and_many_episodes(dataset):
    assert [choice.why for choice in choose_episodes(dataset.episodes, 1)] == ["first"]
    assert [choice.episode for choice in choose_episodes(dataset.episodes, 3)] == [0, 6, 9]
    everything = choose_episodes(dataset.episodes, 99)
    assert [choice.episode for choice in everything] == list(range(10))
    assert [choice.why for choice in everything if choice.episode == 4] == [""]


def test_one_episode_is_first_and_last_but_not_best(dataset):
    only = dataset.episodes.where(np.arange(10) == 6)
    assert [choice.why for choice in choose_episodes(only, 5)] == ["first, last"]


@pytest.mark.parametrize(
    ("length", "count", "steps"),
    [(9, 4, [0, 3, 6, 9]), (1, 8, [0, 1]), (3, 8, [0, 1, 2, 3]), (100, 2, [0, 100])],
)
def test_frames_are_spread_with_both_ends(length, count, steps):
    assert spread_steps(length, count).tolist() == steps


# --- drawing ---


def test_a_cell_shows_the_picture_enlarged_and_sharp(make_episode, view):
    episode = make_episode(9)
    cells = Cells.of(episode, view, 8)
    assert (cells.frame_width, cells.frame_height) == (144, 144)  # 9 × 16
    canvas = Canvas(cells.pitch, 300)
    draw_cell(canvas, 0, 0, episode, 4, view, cells)
    picture = canvas.pixels()[BORDER : BORDER + 144, BORDER : BORDER + 144]
    assert (picture == 40).all()
    assert not colored(canvas.pixels(), PURPLE).any()


@pytest.mark.parametrize(
    ("terminated", "truncated", "color"),
    [(True, False, PURPLE), (False, True, BLUE), (False, False, ORANGE), (True, True, PURPLE)],
)
def test_the_last_frame_has_the_border_of_its_end(make_episode, view, terminated, truncated, color):
    episode = make_episode(9, terminated=terminated, truncated=truncated)
    cells = Cells.of(episode, view, 8)
    canvas = Canvas(cells.pitch, 300)
    draw_cell(canvas, 0, 0, episode, 9, view, cells)
    marked = colored(canvas.pixels(), color)
    assert marked[:BORDER, : cells.height].all()
    assert marked[: cells.height, :BORDER].all()
    assert marked[cells.height - BORDER : cells.height, : cells.height].all()
    assert not marked[BORDER : BORDER + 144, BORDER : BORDER + 144].any()
    assert marked[cells.height :].any()  # the word below


def test_rewards_are_colored_where_there_are_any(make_episode, view):
    reward = np.array([0, 0, 2.5, -1])
    episode = make_episode(3, reward=reward)
    cells = Cells.of(episode, view, 8)

    def below(step):
        canvas = Canvas(cells.pitch, 300)
        draw_cell(canvas, 0, 0, episode, step, view, cells)
        pixels = canvas.pixels()
        return bool(colored(pixels, GREEN).any()), bool(colored(pixels, RED).any())

    assert [below(step) for step in range(4)] == [
        (False, False),
        (False, False),
        (True, False),
        (False, True),
    ]


def test_timeline_shows_every_reward_at_its_time(make_episode):
    episode = make_episode(10, reward=np.array([0, 0, 1.0, 0, 0, -2.0, 0, 0, 0, 0, 0]))
    canvas = Canvas(110, TIMELINE)
    draw_timeline(canvas, 0, 0, 101, episode)
    pixels, middle = canvas.pixels(), TIMELINE // 2
    assert np.flatnonzero(colored(pixels, GREEN).any(0)).tolist() == [19, 20]
    assert np.flatnonzero(colored(pixels, RED).any(0)).tolist() == [49, 50]
    assert np.flatnonzero(colored(pixels, GREEN).any(1)).max() < middle
    assert np.flatnonzero(colored(pixels, RED).any(1)).min() > middle
    # The larger reward is as high as there is room, the other half of that.
    assert colored(pixels, RED).any(1).sum() == 2 * colored(pixels, GREEN).any(1).sum() == middle
    assert np.flatnonzero(colored(pixels, PURPLE).any(0)).tolist() == [103, 104, 105, 106]


def test_sheet_has_a_row_for_each_episode(make_episode, view):
    rows = [SheetRow(number, "first", make_episode(9)) for number in range(3)]
    pixels = contact_sheet(rows, view, frames=4, title="three")
    cells = Cells.of(rows[0].episode, view, 4)
    height = (pixels.shape[0], contact_sheet(rows[:2], view, frames=4).shape[0])
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
    assert pixels.shape[1] == LABEL + cells.span(4) + 2 * MARGIN
    y = HEADER + 10 + BORDER + 50
    centers = [MARGIN + LABEL + column * cells.pitch + cells.middle for column in range(4)]
    for row in range(3):
        shades = [int(pixels[y + row * (height[0] - height[1]), x, 0]) for x in centers]
        assert shades == [0, 30, 60, 90]


def test_short_episodes_do_not_fill_their_row(dataset):
    sheet = dataset_sheet(dataset, episodes=10, frames=5)
    assert [choice.episode for choice in sheet.choices] == list(range(10))
    assert sheet.image == "image"


def test_strip_of_one_episode(make_episode, view):
    pixels = episode_strip(SheetRow(0, "", make_episode(19)), view, title="one")
    cells = Cells.of(make_episode(19), view, 8)
    assert pixels.shape[1] == cells.span(8) + 2 * MARGIN
    assert pixels[HEADER + BORDER + 9, MARGIN + cells.pitch + BORDER + 9, 0] == 10  # step 1


# --- every kind of dataset ---


def other_dataset(tmp_path, obs, action, rows):
    schema = Schema(obs=obs, action=action)
    made = Dataset.create(tmp_path / "other.zarr", schema, env={"id": "x"})
    made.append([rows])
    return made


def test_images_are_chosen_by_key(tmp_path, make_episode):
    keys = {"left": (8, 8, 4), "right": (8, 20, 3), "pos": (3,)}
    obs = {
        key: np.full((4, *shape), 9, np.uint8 if len(shape) == 3 else np.float32)
        for key, shape in keys.items()
    }
    specs = {key: ArraySpec("box", rows.shape[1:], rows.dtype.name) for key, rows in obs.items()}
    action = ArraySpec("discrete", (), "int64", 0, 2)
    made = other_dataset(tmp_path, specs, action, make_episode(3, obs=obs))
    assert dataset_sheet(made).image == "left"
    assert dataset_sheet(made, image="right").image == "right"
    with pytest.raises(UsageError, match=r"'pos'.*\n.*left, right"):
        dataset_sheet(made, image="pos")


def test_without_images_lines_are_drawn(tmp_path, make_episode):
    state = np.linspace(-1, 1, 5 * 20).reshape(5, 20)
    state[2, 0] = math.inf
    action = np.zeros((5, 2), np.float32)
    spec = {"state": ArraySpec("box", (20,), "float64")}
    box = ArraySpec("box", (2,), "float32", -1.0, 1.0)
    episode = make_episode(4, obs={"state": state}, action=action, terminated=False)
    made = other_dataset(tmp_path, spec, box, episode)
    sheet = dataset_sheet(made)
    assert sheet.image is None
    assert colored(sheet.pixels, ORANGE).any()  # cut
    lanes = EpisodeView.of(made.schema, {}).lanes([episode])[0]
    assert [lane.name for lane in lanes[:2]] == ["state[0]", "state[1]"]
    assert [lane.name for lane in lanes[MAX_LANES:]] == ["action[0]", "action[1]"]
    assert np.isfinite(lanes[0].values).all()
    assert lanes[0].values[2] == lanes[0].high == state[4, 0]
    with pytest.raises(UsageError, match="no images"):
        dataset_sheet(made, image="image")


def test_an_empty_dataset(tmp_path, schema):
    with pytest.raises(DatasetError, match="no episode"):
        dataset_sheet(Dataset.create(tmp_path / "empty.zarr", schema))


def test_words(make_episode):
    assert [signed(value) for value in (0.0, 1.0, -0.25, 1234.5)] == [
        "0",
        "+1",
        "−0.25",
        "+1234",
    ]
    assert end_of(make_episode(3, truncated=True)) == "terminated, truncated"
    assert [ticks(length) for length in (1, 18, 500)] == [
        [0, 1],
        [0, 5, 10, 15, 18],
        [0, 100, 200, 300, 400, 500],
    ]
