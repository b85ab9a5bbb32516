"""Pictures and videos of what a model sees and imagines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wmtk.errors import UsageError
from wmtk.spaces import ArraySpec
from wmtk.viz.draw.rollout_panels import (
    BORDER,
    IMAGINED,
    OBSERVED,
    chart_traces,
    choose_image,
    difference,
    image_rows,
    number_traces,
    stack_charts,
)
from wmtk.viz.rollouts import Rollout, open_loop_rollouts, reconstruction_rollouts, side_by_side
from wmtk.viz.sheets.rollout_sheet import HEAD, HEADER, MARGIN, NAMES, rollout_sheet, sheet_rows
from wmtk.viz.videos.rollout_video import rollout_frames

from .dots import DotModel, record

CONTEXT = 4


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    return open_loop_rollouts(DotModel(), record(windows=2, rows=12), context=CONTEXT, samples=2)


def test_what_is_seen_and_what_is_imagined(rollouts: list[Rollout]) -> None:
    one = rollouts[1]
    assert (one.rows, one.samples, one.context) == (12, 2, CONTEXT)
    assert one.title == "episode 1, steps 0 to 11"
    assert one.predicted["image"].shape == (2, 12, 16, 16, 1)
    for future in one.predicted["image"]:
        np.testing.assert_array_equal(future, one.truth["image"])  # the model is right
    assert one.end_predicted is not None
    np.testing.assert_allclose(rollouts[0].end_predicted[:, -1], 1)
    np.testing.assert_allclose(rollouts[0].end, [0] * 11 + [1])


def test_rows_that_do_not_exist_are_left_out() -> None:
    batch = record(windows=2, rows=12)
    mask = batch.mask.copy()
    mask[1, 7:] = False
    short = open_loop_rollouts(DotModel(), replace(batch, mask=mask), context=CONTEXT)[1]
    assert short.rows == 7
    assert short.predicted["image"].shape[1] == 7


def test_several_models_side_by_side(rollouts: list[Rollout]) -> None:
    frozen = open_loop_rollouts(
        DotModel(frozen_decoder=True), record(windows=2, rows=12), context=CONTEXT
    )
    both = side_by_side([rollouts[0], frozen[0]], ["right", "frozen"])
    rows = dict(enumerate(image_rows(both, "image")))
    assert [name for name, _ in rows.values()] == ["truth", "right", "error", "frozen", "error"]
    np.testing.assert_array_equal(rows[1][1], both.truth["image"])
    assert (rows[2][1] == 127).all()
    assert (rows[3][1] == rows[3][1][0]).all()
    assert [trace.name for trace in chart_traces(both)[0]] == ["reward", "right", "frozen"]
    assert rollout_sheet([both], "image").std() > 5
    assert len(list(rollout_frames([both], "image"))) == 12


def test_reconstructions_are_all_seen() -> None:
    (one,) = reconstruction_rollouts(DotModel(frozen_decoder=True), record(windows=1, rows=6))
    assert one.context == one.rows == 6
    assert one.predicted["image"].shape == (1, 6, 16, 16, 1)
    assert (one.predicted["image"][0] == one.predicted["image"][0, 0]).all()


def test_without_a_discount_head_there_is_no_end() -> None:
    (one,) = reconstruction_rollouts(DotModel(gamma=None), record(windows=1, rows=6))
    assert one.end_predicted is None


@pytest.mark.parametrize("columns", [2, 5, 12, 60])
def test_columns_show_both_sides_and_the_end(rollouts: list[Rollout], columns: int) -> None:
    found = sheet_rows(rollouts[0], columns).tolist()
    assert len(found) <= columns
    assert found == sorted(set(found))
    assert CONTEXT - 1 in found
    assert CONTEXT in found or columns < 3
    assert found[-1] == 11


def test_the_error_is_gray_where_there_is_none() -> None:
    truth = np.array([[0, 255, 100]], np.uint8)
    shown = np.array([[255, 0, 100]], np.uint8)
    np.testing.assert_array_equal(difference(truth, shown), [[255, 0, 127]])


def test_a_sheet_has_the_frames_with_their_borders(rollouts: list[Rollout]) -> None:
    pixels = rollout_sheet(rollouts[:1], "image", columns=6, title="t")
    steps = sheet_rows(rollouts[0], 6).tolist()
    x, y = MARGIN + NAMES + BORDER, HEADER + HEAD + BORDER
    scale = 8  # 16 pixels to 128
    pitch = 16 * scale + 2 * BORDER + 6
    for column, step in enumerate(steps):
        left = x + column * pitch
        np.testing.assert_array_equal(
            pixels[y : y + 128 : scale, left : left + 128 : scale, :1],
            rollouts[0].truth["image"][step],
        )
        color = OBSERVED if step < CONTEXT else IMAGINED
        assert tuple(pixels[y - 1, left]) == color
        assert tuple(pixels[y + 128 + BORDER - 1, left + 64]) == color


def test_a_video_goes_from_seen_to_imagined(rollouts: list[Rollout]) -> None:
    frames = list(rollout_frames(rollouts, "image", title="t"))
    assert len(frames) == 12
    assert len({frame.shape for frame in frames}) == 1

    def share(frame: np.ndarray, color: tuple[int, int, int]) -> float:
        return float((frame == color).all(-1).mean())

    assert share(frames[0], OBSERVED) > 2 * share(frames[0], IMAGINED)
    assert share(frames[-1], IMAGINED) > 2 * share(frames[-1], OBSERVED)


def test_a_short_rollout_waits_for_the_others(rollouts: list[Rollout]) -> None:
    short = replace(
        rollouts[0],
        truth={"image": rollouts[0].truth["image"][:6]},
        predicted={"image": rollouts[0].predicted["image"][:, :6]},
        reward=rollouts[0].reward[:6],
        reward_predicted=rollouts[0].reward_predicted[:, :6],
        end=rollouts[0].end[:6],
        end_predicted=None,
    )
    assert len(list(rollout_frames([short, rollouts[1]], "image"))) == 12


def test_numbers_are_drawn_as_lines() -> None:
    rows = np.linspace(0, 1, 24).reshape(8, 3)
    one = Rollout(
        title="episode 0",
        context=3,
        truth={"state": rows, "height": rows[:, 0]},
        predicted={"state": rows[None] + 0.1, "height": rows[None, :, 0]},
        reward=np.zeros(8),
        reward_predicted=np.zeros((1, 8)),
        end=np.zeros(8),
        end_predicted=None,
    )
    names = [chart[0].name for chart in number_traces(one)]
    assert names == ["state[0]", "state[1]", "state[2]", "height"]
    np.testing.assert_allclose(number_traces(one)[1][1].values, rows[:, 1] + 0.1)
    assert rollout_sheet([one], None).std() > 5
    assert len(list(rollout_frames([one], None))) == 8


def test_the_pictures_are_chosen_by_name() -> None:
    picture = ArraySpec("box", (64, 64, 3), "uint8", 0, 255)
    state = ArraySpec("box", (3,), "float32")
    obs = {"state": state, "front": picture, "back": picture}
    assert choose_image(obs, None) == "front"
    assert choose_image(obs, "back") == "back"
    assert choose_image({"state": state}, None) is None
    with pytest.raises(UsageError, match="no images 'top'") as caught:
        choose_image(obs, "top")
    assert "front, back" in caught.value.hint
    with pytest.raises(UsageError, match="no images") as caught:
        choose_image({"state": state}, "top")
    assert "none" in caught.value.hint


def test_probabilities_are_drawn_on_a_whole_scale() -> None:
    """A probability of nearly nothing must not look like much."""
    (rollout,) = open_loop_rollouts(DotModel(), record(windows=1), context=4)
    reward, end = stack_charts(chart_traces(rollout), 0, 0, 300)
    low = replace(end, traces=[replace(trace, values=0.001 * trace.values) for trace in end.traces])
    assert low.range == (0, 1)
    small = [replace(trace, values=0.001 * trace.values) for trace in reward.traces]
    assert replace(reward, traces=small).range[1] < 0.01
