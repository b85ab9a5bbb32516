"""Experiments over seeds are compared at the tests that all of them had."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("learning", BENCHMARKS / "learning.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "learning", module)
    spec.loader.exec_module(module)
    return module


def test_a_longer_run_counts_up_to_where_the_others_ended(learning: ModuleType) -> None:
    def outcome(seed: int, returns: list[float]):
        at = [2000 * (k + 1) for k in range(len(returns))]
        return learning.Outcome(seed, 1.0, {}, at, learning.without_interval(returns))

    whole = [outcome(0, [0.0, 2.0, 9.0]), outcome(1, [1.0, 3.0, 9.0])]
    ablated = [outcome(0, [-1.0, 0.5]), outcome(1, [-1.0, 1.0])]
    table, panel = learning.compared("A title", {"all of it": whole, "less": ablated})
    text = table.markdown()
    assert "after 4,000 agent steps" in text
    assert "| all of it | 2.00 | 3.00 | 2.50 |" in text
    assert "| less | 0.50 | 1.00 | 0.75 |" in text
    assert list(panel.x or ()) == [2000, 4000]
    first = panel.curves[0].values
    np.testing.assert_allclose([first.value, first.low, first.high], [[0.5, 2.5], [0, 2], [1, 3]])


def test_minutes_are_those_of_learning(learning: ModuleType) -> None:
    reports = [
        {"step": 50, "time/updates_per_second": 10.0},
        {"step": 60, "eval/return": 1.0},
        {"step": 100, "time/updates_per_second": 0.5},
    ]
    assert learning.minutes_of(reports) == pytest.approx((5 + 100) / 60)


def test_the_parts_that_are_left_out_are_known_ablations(learning: ModuleType) -> None:
    from wmtk.training.presets import ABLATIONS

    assert set(learning.LEFT_OUT) <= set(ABLATIONS)
    for _, parts in learning.COMPARISONS.values():
        assert set(parts.values()) <= set(learning.EXPERIMENTS)
