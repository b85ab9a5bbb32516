"""The head of a report: the banner and the findings have the grades of the verdict."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any, cast

import pytest

from wmtk.viz.evaluation.measurements import measure
from wmtk.viz.evaluation.model_metrics import ModelMetrics, compute_metrics
from wmtk.viz.evaluation.verdict import verdict
from wmtk.viz.html_report.about import About
from wmtk.viz.html_report.overview import summary

from .dots import DotModel, record


@pytest.fixture(scope="module")
def right() -> ModelMetrics:
    evidence = measure(DotModel(), [record()], context=4, samples=1)
    return compute_metrics(evidence, resamples=20, factors=False)


@pytest.mark.parametrize(
    ("changes", "grade"),
    [
        ({}, "good"),
        ({"reliable_steps": 8, "steps_above_baselines": 16}, "doubtful"),
        ({"steps_above_baselines": 0}, "bad"),
    ],
)
def test_banner_and_findings(right: ModelMetrics, changes: dict[str, Any], grade: str) -> None:
    class Named:
        path = type("Path", (), {"name": "dots.zarr"})

    facts = {"name": "dots", "update": 1, "held_out": "all episodes", "dataset": Named}
    about = cast(About, type("Facts", (), facts))
    found = replace(right, **changes)
    page = html.unescape(summary(found, about).content)
    said = verdict(found)
    assert f'<p class="headline {grade}" role="status" id="verdict">{said.headline}</p>' in page
    shown = re.findall(r'<li class="(\w+)"><span[^>]*>(.)</span>(.*?)</li>', page)
    assert shown == [(f.grade, _MARKS[f.grade], f.text) for f in said.findings]
    assert max(["good", "doubtful", "bad"].index(grade) for grade, _, _ in shown) == [
        *("good", "doubtful", "bad")
    ].index(grade)


_MARKS = {"good": "✓", "doubtful": "?", "bad": "!"}
