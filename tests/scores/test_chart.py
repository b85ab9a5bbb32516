"""The bar chart of differences."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from wmtk.viz.plots import score_chart
from wmtk.viz.plots.figures import figure_pixels
from wmtk.viz.plots.score_chart import (
    BETTER,
    WORSE,
    ScoreComparison,
    difference_figure,
    powers_of_ten,
    scale_limits,
    squeeze,
    unsqueeze,
)

GAMES = ["boxing", "pong", "up_n_down", "hero"]
VALUES = [120.0, 1.0, 0.0, -9.0]


def panels(*comparisons: ScoreComparison) -> list[Axes]:
    """The panels of a chart, drawn."""
    figure = difference_figure(comparisons, title="a")
    figure_pixels(figure)
    return list(figure.axes)


def test_bars_reach_as_far_as_their_numbers() -> None:
    (axes,) = panels(ScoreComparison("a vs b", GAMES, VALUES))
    bars = axes.patches
    assert [bar.get_width() for bar in bars] == VALUES
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars] == [BETTER, BETTER, BETTER, WORSE]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "Boxing",
        "Pong",
        "Up N Down",
        "Hero",
    ]
    assert {"+120", "+1.0", "0", "−9.0"} <= {text.get_text() for text in axes.texts}
    top, bottom = (bars[row].get_window_extent().y0 for row in (0, 3))
    assert top > bottom  # in the order given, from the top


def test_the_scale_is_logarithmic_and_has_both_signs() -> None:
    assert squeeze(0) == 0
    assert squeeze(-5) == -squeeze(5)
    assert squeeze(0.9) == pytest.approx(1)
    assert squeeze(99.9) == pytest.approx(3)
    assert unsqueeze(squeeze([-7.0, 0.03])) == pytest.approx([-7.0, 0.03])
    low, high = scale_limits(-300.0, 120.0)
    assert -3000 < low < -300
    assert 120 < high < 1000
    assert powers_of_ten(low, high) == [-100, -1, 0, 1, 100]
    assert powers_of_ten(-12.0, 50.0) == [-10, -1, 0, 1, 10]
    assert powers_of_ten(-0.3, 0.5) == [-0.1, 0, 0.1]
    (axes,) = panels(ScoreComparison("a vs b", GAMES, VALUES))
    steps = np.diff(axes.transData.transform([(x, 0) for x in (1, 10, 100)])[:, 0])
    assert steps[0] == pytest.approx(steps[1], rel=0.05)


def test_no_differences_at_all() -> None:
    (axes,) = panels(ScoreComparison("a vs a", GAMES[:3], np.zeros(3)))
    low, high = axes.get_xlim()
    assert low < 0 < high
    assert all(bar.get_width() == 0 for bar in axes.patches)
    assert axes.get_title(loc="left").endswith("3 equal")


def test_panels_stand_side_by_side_on_one_scale() -> None:
    (one,) = panels(ScoreComparison("a vs b", GAMES, VALUES))
    first, second = panels(
        ScoreComparison("a vs b", GAMES, VALUES), ScoreComparison("a vs c", ["hero"], [1.0])
    )
    assert first.get_xlim() == second.get_xlim() == one.get_xlim()
    assert first.get_ylim() == second.get_ylim()
    assert second.get_position().x0 > first.get_position().x1
    widths = [axes.get_window_extent().width for axes in (one, first)]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


def test_words_stay_on_the_paper() -> None:
    games = ["a_game_with_a_name_that_is_much_too_long_for_its_column"] * 55
    comparison = ScoreComparison("x" * 200, games, np.linspace(1e5, -1e5, 55))
    figure = difference_figure([comparison], title="y" * 300, caption="z " * 400)
    pixels = figure_pixels(figure)
    edge = np.concatenate([pixels[:, :6], pixels[:, -6:]], 1)
    assert (edge == 255).all()
    assert (pixels[:6] == 255).all()
    assert (pixels[-6:] == 255).all()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.004, "0"),
        (-0.004, "0"),
        (0.05, "+0.05"),
        (0.997, "+1.0"),
        (-9.94, "−9.9"),
        (9.97, "+10"),
        (-264.6, "−265"),
        (63_219.0, "+63k"),
    ],
)
def test_short_numbers(value: float, text: str) -> None:
    assert score_chart.short(value) == text


def test_words() -> None:
    assert score_chart.game_title("up_n_down") == "Up N Down"
    assert score_chart.tally(np.array([1.0, 2, 0, -1])) == "2 better, 1 equal, 1 worse"
    assert score_chart.tally(np.array([1.0, 2])) == "2 better"
