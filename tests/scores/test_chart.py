"""The bar chart of differences."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.viz.draw.canvas import BLUE, ORANGE
from wmtk.viz.plots import score_chart
from wmtk.viz.plots.score_chart import MARGIN, NAME, PLOT, VALUE, Panel, Scale, difference_chart

GAMES = ["boxing", "pong", "up_n_down", "hero"]
VALUES = [120.0, 1.0, 0.0, -9.0]
LEFT = MARGIN + NAME + VALUE  # of the bars of the first panel


def bars(pixels: np.ndarray, color: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """The rectangles of a color, from top to bottom: (left, width, height)."""
    inside = (pixels == color).all(-1)
    rows = np.flatnonzero(inside.any(1))
    groups = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    found = []
    for group in groups:
        columns = np.flatnonzero(inside[group].all(0))
        assert (np.diff(columns) == 1).all()
        found.append((int(columns[0]), len(columns), len(group)))
    return found


def test_bars_reach_as_far_as_their_numbers():
    pixels = difference_chart([Panel("a vs b", GAMES, VALUES)], title="a")
    scale = Scale.of(np.array(VALUES))
    zero = LEFT + scale.at(0)
    for (left, width, height), value in zip(bars(pixels, BLUE), VALUES[:2], strict=True):
        assert left == zero + 1  # the axis is drawn over the first column
        assert left + width == LEFT + scale.at(value)
        assert height == score_chart.BAR
    ((left, width, _),) = bars(pixels, ORANGE)
    assert left == LEFT + scale.at(-9) == LEFT
    assert left + width == zero


def test_the_scale_is_logarithmic_and_has_both_signs():
    assert score_chart.squeeze(0) == 0
    assert score_chart.squeeze(-5) == -score_chart.squeeze(5)
    assert score_chart.squeeze(0.9) == pytest.approx(1)
    assert score_chart.squeeze(99.9) == pytest.approx(3)
    scale = Scale.of(np.array([-300.0, 120]))
    assert (scale.at(-300), scale.at(120)) == (0, PLOT)
    assert scale.ticks() == [-100, -10, -1, 0, 1, 10, 100]
    small = Scale.of(np.array([0.02, 0.05]))
    assert (small.at(0), small.at(0.05)) == (0, PLOT)
    assert small.ticks() == [0]


def test_no_differences_at_all():
    scale = Scale.of(np.zeros(3))
    assert scale.at(0) == 0
    pixels = difference_chart([Panel("a vs a", GAMES[:3], np.zeros(3))], title="a")
    assert not (pixels == BLUE).all(-1).any()


def test_panels_stand_side_by_side_on_one_scale():
    one = difference_chart([Panel("a vs b", GAMES, VALUES)], title="a")
    two = difference_chart(
        [Panel("a vs b", GAMES, VALUES), Panel("a vs c", ["hero"], [1.0])], title="a"
    )
    pitch = NAME + PLOT + 2 * VALUE + score_chart.GAP
    assert two.shape[1] == one.shape[1] + pitch
    left = bars(one, BLUE)
    right = bars(two[:, MARGIN + pitch - 10 :], BLUE)
    assert right[0][1] == left[1][1]  # both are 1.0


def test_words_stay_on_the_paper():
    games = ["a_game_with_a_name_that_is_much_too_long_for_its_column"] * 55
    values = np.linspace(1e5, -1e5, 55)
    pixels = difference_chart(
        [Panel("x" * 200, games, values)], title="y" * 300, subtitle="z " * 400
    )
    edge = np.concatenate([pixels[:, :8], pixels[:, -8:]], 1)
    assert (edge == 255).all()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.004, "0"),
        (-0.004, "0"),
        (0.05, "+0.05"),
        (0.997, "+1.0"),
        (-9.94, "-9.9"),
        (9.97, "+10"),
        (-264.6, "-265"),
        (63_219.0, "+63k"),
    ],
)
def test_short_numbers(value, text):
    assert score_chart.short(value) == text


def test_words():
    assert score_chart.spoken("up_n_down") == "Up N Down"
    assert score_chart.tally(np.array([1.0, 2, 0, -1])) == "2 better, 1 equal, 1 worse"
    assert score_chart.tally(np.array([1.0, 2])) == "2 better"
