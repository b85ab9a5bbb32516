"""Curves with intervals, and figures as files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image as PillowImage

from wmtk.errors import UsageError
from wmtk.viz.metrics import Estimate
from wmtk.viz.plots.curves import Curve, CurvePanel, curve_figure, limits
from wmtk.viz.plots.figures import BASELINES, PALETTE, figure_pixels, save_figure


def estimate(values: list[float], width: float = 0.1) -> Estimate:
    numbers = np.array(values, np.float64)
    return Estimate(numbers, numbers - width, numbers + width)


def drawn(*panels: CurvePanel) -> tuple[Figure, list[Axes]]:
    """A chart after it was drawn, which puts everything in its place."""
    figure = curve_figure(panels, title="t", caption="c")
    figure_pixels(figure)
    return figure, list(figure.axes)


def line_of(axes: Axes, color: str) -> Line2D:
    (line,) = (line for line in axes.lines if line.get_color() == color)
    return line


def legend_names(figure: Figure) -> list[str]:
    legends = [legend for part in figure.subfigs for legend in part.legends]
    return [text.get_text() for legend in legends for text in legend.get_texts()]


def test_the_range_includes_the_curves_and_zero() -> None:
    panel = CurvePanel("t", [Curve("a", estimate([1.0, 2.0]), PALETTE[0])], zero=True)
    low, high = limits(panel)
    assert low < 0
    assert high > 2.1
    _, (axes,) = drawn(panel)
    assert axes.get_ylim() == (low, high)


def test_an_extreme_interval_does_not_squeeze_the_curves() -> None:
    values = np.array([1.0, 2.0])
    wild = Estimate(values, values - 1000, values + 0.1)
    low, high = limits(CurvePanel("t", [Curve("a", wild, PALETTE[0])]))
    assert high - low < 5


def test_a_curve_has_its_numbers_its_color_and_a_band() -> None:
    rising = Curve("a", estimate([0.0, 1.0, 2.0, 3.0], 0.5), PALETTE[0])
    panel = CurvePanel("t", [rising], "update", "nats")
    _, (axes,) = drawn(panel)
    line = line_of(axes, PALETTE[0])
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(line.get_ydata(), [0, 1, 2, 3])
    (band,) = (c for c in axes.collections if isinstance(c, PolyCollection))
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].min() == -0.5
    assert corners[:, 1].max() == 3.5
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("update", "nats")
    assert axes.get_title(loc="left") == "t"


def test_positions_are_to_scale() -> None:
    curve = Curve("a", estimate([0.0, 1.0, 2.0]), PALETTE[0])
    _, (axes,) = drawn(CurvePanel("t", [curve], x=[100, 200, 10_000]))
    np.testing.assert_array_equal(line_of(axes, PALETTE[0]).get_xdata(), [100, 200, 10_000])
    assert "10,000" in {label.get_text() for label in axes.get_xticklabels()}


@pytest.mark.parametrize("steps", [1, 2, 3, 15, 45, 200])
def test_the_first_step_is_labeled_1(steps: int) -> None:
    curve = Curve("a", estimate([0.5] * steps), PALETTE[0])
    _, (axes,) = drawn(CurvePanel("t", [curve]))
    labels = [label.get_text() for label in axes.get_xticklabels()]
    low, high = axes.get_xlim()
    visible = [x for x in axes.get_xticks() if low <= x <= high]
    assert visible[0] == 1
    assert labels[0] == "1"
    assert all(float(x).is_integer() and x <= steps for x in visible)


def test_unknown_numbers_are_left_out() -> None:
    gaps = Curve("a", estimate([0.0, np.nan, 2.0]), PALETTE[0])
    nothing = Curve("b", estimate([np.nan] * 3), PALETTE[1], dashed=True)
    alone = Curve("c", estimate([1.0, np.nan, np.nan]), PALETTE[2])
    _, (first, second) = drawn(CurvePanel("t", [gaps, nothing, alone]), CurvePanel("u", [nothing]))
    np.testing.assert_array_equal(line_of(first, PALETTE[0]).get_xdata(), [1, 3])
    assert len(line_of(first, PALETTE[1]).get_xdata()) == 0
    assert line_of(first, PALETTE[2]).get_marker() == "o"  # a line of one point is invisible
    assert second.get_ylim() == (0, 1)


def test_dashed_curves_have_no_band_and_no_points() -> None:
    dashed = Curve("a", estimate([1.0, 2.0]), PALETTE[1], dashed=True)
    _, (axes,) = drawn(CurvePanel("t", [dashed]))
    line = line_of(axes, PALETTE[1])
    assert line.is_dashed()
    assert line.get_marker() == ""
    assert not axes.collections


def test_levels_are_drawn_across_and_named() -> None:
    flat = Curve("a", estimate([0.0, 0.0]), PALETTE[0])
    panel = CurvePanel("t", [flat], levels={"best": 5.0})
    low, high = limits(panel)
    assert low < 0
    assert high > 5
    _, (axes,) = drawn(panel)
    level = line_of(axes, BASELINES[0])
    np.testing.assert_array_equal(level.get_ydata(), [5, 5])
    np.testing.assert_array_equal(level.get_xdata(), [0, 1])  # of the width
    (text,) = axes.texts
    assert text.get_text() == "best"
    assert axes.get_window_extent().contains(*text.get_window_extent().min)
    assert axes.get_window_extent().contains(*text.get_window_extent().max)


def test_the_legend_names_each_curve_once() -> None:
    first, second = (Curve(name, estimate([1.0, 2.0]), PALETTE[0]) for name in ("a", ""))
    other = Curve("b", estimate([1.0, 2.0]), PALETTE[1])
    figure, _ = drawn(CurvePanel("t", [other, first]), CurvePanel("u", [first, second, other]))
    assert legend_names(figure) == ["b", "a"]
    assert legend_names(drawn(CurvePanel("t", [second]))[0]) == []
    odd = Curve("_x$y", estimate([1.0, 2.0]), PALETTE[0])  # neither hidden nor a formula
    assert legend_names(drawn(CurvePanel("t", [odd]))[0]) == ["_x$y"]


def test_a_long_legend_takes_several_rows_and_stays_on_the_paper() -> None:
    names = [f"an agent without part number {number}" for number in range(5)]
    curves = [
        Curve(name, estimate([1.0, 2.0]), color)
        for name, color in zip(names, PALETTE, strict=False)
    ]
    few, _ = drawn(CurvePanel("t", curves[:1]))
    many, (axes,) = drawn(CurvePanel("t", curves))
    assert sorted(legend_names(many)) == names
    assert many.get_figheight() > few.get_figheight()
    ((legend,),) = (part.legends for part in many.subfigs)
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= many.bbox.x1
    assert box.y0 >= axes.get_tightbbox().y1  # above the panel
    title = many._suptitle  # type: ignore[attr-defined]
    assert box.y1 <= title.get_window_extent().y0


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_figure_is_written_as_its_path_ends(tmp_path: Path, ending: str, start: bytes) -> None:
    figure, _ = drawn(CurvePanel("λ × é −", [Curve("a", estimate([1.0, 2.0]), PALETTE[0])]))
    written = save_figure(figure, tmp_path / "new" / f"a.{ending}")
    assert written.path.read_bytes().startswith(start)
    assert written.bytes == written.path.stat().st_size
    again = save_figure(figure, tmp_path / f"b.{ending}")
    assert again.path.read_bytes() == written.path.read_bytes()  # nothing of the time in it
    if ending == "png":
        with PillowImage.open(written.path) as image:
            assert image.size == (written.width, written.height)


def test_other_endings_are_refused_with_those_that_work(tmp_path: Path) -> None:
    figure, _ = drawn(CurvePanel("t", [Curve("a", estimate([1.0]), PALETTE[0])]))
    with pytest.raises(UsageError, match=r"Use one of: \.png, \.svg, \.pdf\."):
        save_figure(figure, tmp_path / "a.bmp")
    assert not any(tmp_path.iterdir())


def test_charts_leave_the_settings_of_matplotlib_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    drawn(CurvePanel("t", [Curve("a", estimate([1.0, 2.0]), PALETTE[0])]))
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_charts_name_the_extra_and_sheets_are_drawn() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import numpy as np\n"
        "from wmtk.errors import MissingDependencyError\n"
        "from wmtk.viz.draw.canvas import Canvas\n"
        "import wmtk.viz.sheets.contact_sheet, wmtk.viz.videos.episode_file\n"
        "canvas = Canvas(50, 20); canvas.text(2, 2, 'λ × −')\n"
        "assert (canvas.pixels() != 255).any()\n"
        "try: import wmtk.viz.plots.curves\n"
        "except MissingDependencyError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "matplotlib" in done.stdout
    assert "pip install 'wmtk[viz]'" in done.stdout
