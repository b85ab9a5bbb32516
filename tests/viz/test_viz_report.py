"""`wmtk viz report` on runs of `wmtk train-model`, for images, vectors and both."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("imageio_ffmpeg")

from .noise import OBS, make_run

FEW = ("--context", "2", "--horizon", "4", "--windows", "4", "--samples", "2")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vector", "mixed"])
def test_report(kind: str, tmp_path: Path, run_wmtk) -> None:
    run, data = make_run(tmp_path, OBS[kind])
    done = run_wmtk("viz", "report", run, data, *FEW, "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    path = run / "report" / "report.html"
    assert report["path"] == str(path)
    assert report["bytes"] == path.stat().st_size
    assert report["windows"] == 4
    assert report["update"] == 2
    page = path.read_text()
    verdict = report["verdict"]
    assert f'class="headline {verdict["grade"]}"' in page
    for sentence in (verdict["headline"], *(finding["text"] for finding in verdict["findings"])):
        assert sentence in html.unescape(page)
    metrics = run_wmtk("viz", "metrics", run, data, *FEW, "--json")
    assert json.loads(metrics.stdout)["verdict"] == verdict
    for key in OBS[kind]:
        assert f"<h3>{key}</h3>" in page
    assert page.count("<video") == 3
    assert ("Effect of each code" in page) == ("image" in OBS[kind])
    assert re.findall(r'"update":(\d+),"threshold"', page) == ["1", "2"]
    assert "Drawing videos" in done.stderr


def test_unsupported_endings_are_rejected_before_the_evaluation(tmp_path: Path, run_wmtk) -> None:
    done = run_wmtk("viz", "report", tmp_path, tmp_path, "--out", tmp_path / "report.pdf")
    assert done.exit_code == 2
    assert ".html" in done.stderr
