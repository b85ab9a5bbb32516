"""Parts of reports: markup, charts, calibration, training curves, images and the HTML file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from wmtk.errors import UsageError
from wmtk.viz.html_report.calibration import binned
from wmtk.viz.html_report.charts import (
    Chart,
    Series,
    curve,
    data,
    figure,
    figures,
    histogram,
    plain,
)
from wmtk.viz.html_report.markup import Markup, Section, element, joined, table
from wmtk.viz.html_report.media import png
from wmtk.viz.html_report.page import document, require_report, write_report
from wmtk.viz.html_report.training_section import thinned, training_section
from wmtk.viz.metrics import Estimate


def spec(markup: str) -> dict:
    """The JSON of a figure."""
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', markup, re.S)
    return json.loads(text)


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("p", "a < b & c", title='"') == '<p title="&quot;">a &lt; b &amp; c</p>'
    assert joined(Markup("<b>"), "<b>") == "<b>&lt;b&gt;"
    assert element("img", src="x", hidden=True, alt=None, lazy=False) == '<img src="x" hidden>'
    assert element("div", class_="a", data_fps=8) == '<div class="a" data-fps="8"></div>'


def test_the_last_columns_of_tables_are_numeric() -> None:
    html = table([("a", "1"), ("<b>", "2")], ("name", "value"), 1)
    assert html.count('class="number"') == 3
    assert "&lt;b&gt;" in html


def test_data_cannot_end_the_script_element() -> None:
    html = data({"name": "</script><script>alert(1)</script>"})
    assert html.count("</script>") == 1
    assert spec(html) == {"name": "</script><script>alert(1)</script>"}


def test_json_of_charts() -> None:
    assert plain({"a": np.array([1.0, np.nan, 0.123456789]), "b": (np.float64(np.inf), 3)}) == {
        "a": [1, None, 0.12346],
        "b": [None, 3],
    }
    unknown = np.full(3, np.nan)
    bare = curve("model", "model", Estimate(np.arange(3.0), unknown, unknown))
    assert bare.x == [1, 2, 3]
    assert bare.low is None
    banded = curve("model", "model", Estimate(np.arange(3.0), np.zeros(3), np.ones(3)), first=0)
    chart = spec(figure(Chart("t", "step", "dB", [banded], zero=True)))
    assert chart["series"][0] == {
        "name": "model",
        "color": "model",
        "x": [0, 1, 2],
        "y": [0, 1, 2],
        "low": [0, 0, 0],
        "high": [1, 1, 1],
    }
    assert chart["zero"]
    assert chart["rules"] == chart["extents"] == []
    assert (chart["x_label"], chart["y_label"]) == ("step", "dB")


def test_curves_without_numbers_are_left_out() -> None:
    empty, full = Series("empty", "copy", [1.0], [np.nan]), Series("full", "model", [1.0], [2.0])
    html = figures([Chart("a", "x", "y", [empty, full]), Chart("b", "x", "y", [empty])])
    assert [series["name"] for series in spec(html)["series"]] == ["full"]
    assert html.count("<figure") == 1


def test_histograms_count_each_value_once() -> None:
    few = spec(histogram("Returns", "return", [0.0, 1.0, 1.0, 3.0]))
    assert few["series"][0]["x"] == [0, 1, 2, 3]
    assert few["series"][0]["y"] == [1, 2, 0, 1]
    assert few["bar_width"] == 1
    many = spec(histogram("Returns", "return", np.linspace(0, 1, 1000)))
    assert sum(many["series"][0]["y"]) == 1000
    assert "7 in all episodes" in histogram("Lengths", "steps", [7, 7])


def test_predictions_of_similar_size_share_a_bin() -> None:
    bins = binned([0, 0, 1, 3], [0.0, 0.1, 1.0, 1.0], bins=4)
    assert bins.count.tolist() == [2, 2]
    np.testing.assert_allclose(bins.predicted, [0.05, 1.0])
    np.testing.assert_allclose(bins.observed, [0, 2])
    assert binned([1.0, 2.0], [0.5, 0.5]).observed.tolist() == [1.5]


def test_long_histories_become_means() -> None:
    rows = [{"step": n, "train/kl": float(n)} for n in range(1000)] + [{"step": 5, "val/kl": None}]
    updates, values = thinned(rows, "train/kl", 10)
    assert len(updates) == 10
    assert values[0] == pytest.approx(49.5)
    assert thinned(rows, "val/kl") == ([], [])
    assert training_section([]) is None
    section = training_section([*rows, {"step": 9, "train/psnr/image": 3.0, "train/psnr/map": 4.0}])
    assert section is not None
    for words in ("KL", "PSNR of reconstructions of image", "PSNR of reconstructions of map"):
        assert words in section.content


def test_png_images_are_lossless() -> None:
    from base64 import b64decode
    from io import BytesIO

    from PIL import Image

    rng = np.random.default_rng(0)
    for colors in (3, 100_000):
        pixels = rng.integers(0, colors, (40, 30, 1)).repeat(3, 2).astype(np.uint8)
        with Image.open(BytesIO(b64decode(png(pixels).partition(",")[2]))) as image:
            np.testing.assert_array_equal(np.asarray(image.convert("RGB")), pixels)


def test_the_page_is_self_contained() -> None:
    page = document("<b>", [Section("one", "One & two", element("p", "text"))])
    assert page.startswith("<!doctype html>")
    assert "<title>&lt;b&gt;: wmtk report</title>" in page
    assert '<section id="one"' in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_only_html_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"report\.pdf"):
        require_report(tmp_path / "report.pdf")
    path = tmp_path / "deep" / "report.html"
    require_report(path)
    assert write_report(path, "é") == 2
    assert path.read_text() == "é"
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
