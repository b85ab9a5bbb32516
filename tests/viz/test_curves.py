"""Curves with intervals."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.viz.metrics import Estimate
from wmtk.viz.plots.curves import (
    COLORS,
    PLOT_HEIGHT,
    PLOT_WIDTH,
    QUIET,
    Curve,
    Panel,
    curve_chart,
    limits,
    round_numbers,
)


def estimate(values: list[float], width: float = 0.1) -> Estimate:
    numbers = np.array(values, np.float64)
    return Estimate(numbers, numbers - width, numbers + width)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-3.0, 42.0, [0.0, 10.0, 20.0, 30.0, 40.0]),
        (0.0111, 0.0131, [0.0115, 0.012, 0.0125, 0.013]),
    ],
    ids=["unit", "tens", "small"],
)
def test_round_numbers(low: float, high: float, expected: list[float]) -> None:
    found = round_numbers(low, high)
    assert found == pytest.approx(expected)


def test_the_range_holds_the_curves_and_zero() -> None:
    panel = Panel("t", [Curve("a", estimate([1.0, 2.0]), COLORS[0])], zero=True)
    low, high = limits(panel)
    assert low < 0
    assert high > 2.1


def test_an_extreme_interval_does_not_squeeze_the_curves() -> None:
    values = np.array([1.0, 2.0])
    wild = Estimate(values, values - 1000, values + 0.1)
    low, high = limits(Panel("t", [Curve("a", wild, COLORS[0])]))
    assert high - low < 5


def test_curves_have_their_colors_and_go_up() -> None:
    rising = Curve("a", estimate([0.0, 1.0, 2.0, 3.0]), COLORS[0])
    pixels = curve_chart([Panel("t", [rising])], title="t")
    rows, columns = np.nonzero((pixels == COLORS[0]).all(-1))
    plot = rows > pixels.shape[0] - PLOT_HEIGHT - 60
    rows, columns = rows[plot], columns[plot]
    assert rows[columns == columns.min()].mean() > rows[columns == columns.max()].mean()


def test_what_is_not_known_is_left_out() -> None:
    gaps = Curve("a", estimate([0.0, np.nan, 2.0]), COLORS[0])
    nothing = Curve("b", estimate([np.nan] * 3), COLORS[1], dashed=True)
    alone = Curve("c", estimate([1.0, np.nan, np.nan]), COLORS[2])
    pixels = curve_chart([Panel("t", [gaps, nothing, alone]), Panel("u", [nothing])])
    assert pixels.std() > 5


def test_dashes_are_as_long_with_two_points_as_with_many() -> None:
    few, many = (Curve("", estimate([1.0] * number), COLORS[1], dashed=True) for number in (2, 20))
    lines = []
    for curve in (few, many):
        pixels = curve_chart([Panel("t", [curve])])
        lines.append((pixels == COLORS[1]).all(-1).any(0))
    starts = [int((np.diff(line.astype(int)) == 1).sum()) for line in lines]
    assert starts[0] > 10  # half of the width, in dashes and gaps of seven pixels
    assert starts[1] > starts[0]  # it is longer


def test_levels_are_drawn_across_and_named() -> None:
    flat = Curve("a", estimate([0.0, 0.0]), COLORS[0])
    low, high = limits(Panel("t", [flat], levels={"best": 5.0}))
    assert low < 0
    assert high > 5
    with_level = curve_chart([Panel("t", [flat], levels={"best": 5.0})])
    unnamed = curve_chart([Panel("t", [flat], levels={"": 5.0})])
    gray = (with_level == QUIET).all(-1)
    assert gray.sum(1).max() > PLOT_WIDTH / 3
    assert (with_level != unnamed).any()


def test_a_curve_without_a_name_is_not_among_the_names() -> None:
    named, unnamed = (Curve(name, estimate([1.0, 2.0]), COLORS[0]) for name in ("a", ""))
    other = Curve("b", estimate([1.0, 2.0]), COLORS[1])
    both = curve_chart([Panel("t", [other, named])])
    alone = curve_chart([Panel("t", [other, unnamed])])
    above = slice(0, both.shape[0] - PLOT_HEIGHT - 60)
    assert (both[above] == COLORS[0]).all(-1).any()
    assert not (alone[above] == COLORS[0]).all(-1).any()


def test_names_that_do_not_fit_go_on_in_the_next_line() -> None:
    values = estimate([1.0, 2.0])
    names = [f"an agent without part number {number}" for number in range(4)]
    few = curve_chart([Panel("t", [Curve(names[0], values, COLORS[0])])])
    many = curve_chart(
        [
            Panel(
                "t",
                [Curve(name, values, color) for name, color in zip(names, COLORS, strict=False)],
            )
        ]
    )
    assert many.shape[0] > few.shape[0]
    above = slice(0, many.shape[0] - PLOT_HEIGHT - 60)
    for color in COLORS[:4]:
        assert (many[above] == color).all(-1).sum() >= 48  # the mark beside the name, 16 × 3
