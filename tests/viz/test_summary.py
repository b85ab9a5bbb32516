"""The summary of a report: the banner and the findings have the grades of the verdict."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any, cast

import pytest

from wmtk.viz.evaluation.measurements import measure
from wmtk.viz.evaluation.model_metrics import ModelMetrics, compute_metrics
from wmtk.viz.evaluation.verdict import verdict
from wmtk.viz.html_report.report_info import ReportInfo
from wmtk.viz.html_report.summary_section import summary_section

from .dots import DotModel, record


@pytest.fixture(scope="module")
def correct() -> ModelMetrics:
    data = measure(DotModel(), [record()], context=4, samples=1)
    return compute_metrics(data, resamples=20, factors=False)


@pytest.mark.parametrize(
    ("changes", "grade"),
    [
        ({}, "good"),
        ({"reliable_steps": 8, "steps_above_baselines": 16}, "doubtful"),
        ({"steps_above_baselines": 0}, "bad"),
    ],
)
def test_banner_and_findings(correct: ModelMetrics, changes: dict[str, Any], grade: str) -> None:
    class NamedDataset:
        path = type("Path", (), {"name": "dots.zarr"})

    facts = {"name": "dots", "update": 1, "held_out": "all episodes", "dataset": NamedDataset}
    info = cast(ReportInfo, type("Info", (), facts))
    metrics = replace(correct, **changes)
    page = html.unescape(summary_section(metrics, info).content)
    expected = verdict(metrics)
    assert f'<p class="headline {grade}" role="status" id="verdict">{expected.headline}</p>' in page
    findings = re.findall(r'<li class="(\w+)"><span[^>]*>(.)</span>(.*?)</li>', page)
    assert findings == [(f.grade, _MARKS[f.grade], f.text) for f in expected.findings]
    assert max(["good", "doubtful", "bad"].index(grade) for grade, _, _ in findings) == [
        *("good", "doubtful", "bad")
    ].index(grade)


_MARKS = {"good": "✓", "doubtful": "?", "bad": "!"}
