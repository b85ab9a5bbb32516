"""Several models on the same windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wmtk.viz.comparison import Difference, compare
from wmtk.viz.evidence import Evidence, gather
from wmtk.viz.metrics import Estimate

from .dots import DotModel, record


def look(**wrong: bool) -> Evidence:
    return gather(DotModel(**wrong), [record()], context=4, samples=2)


@pytest.fixture(scope="module")
def right() -> Evidence:
    return look()


def by_name(found: list[Difference]) -> dict[str, Difference]:
    return {row.name: row for row in found}


def test_a_model_does_not_differ_from_itself(right: Evidence) -> None:
    for row in compare([right, right], resamples=20):
        assert row.values[0] == row.values[1], row.name
        assert row.says(0) in {"within noise", "unknown"}, row.name


def test_worse_models_are_found_worse(right: Evidence) -> None:
    wrong = [look(frozen_decoder=True), look(lying_reward=True), look(blind_to_actions=True)]
    rows = by_name(compare([right, *wrong], resamples=50))
    frozen, lying, blind = 0, 1, 2
    assert rows["image: skill"].says(frozen) == "worse"
    assert rows["image: PSNR of reconstructions"].says(frozen) == "worse"
    assert rows["image: skill"].says(lying) == "within noise"
    assert rows["reward, seen"].says(lying) == "worse"
    assert rows["image: actions, dB"].says(blind) == "worse"
    assert rows["reward, seen"].says(blind) == "within noise"
    assert rows["returns over 15 steps, correlation"].says(lying) == "worse"
    assert rows["returns over 15 steps, correlation"].says(frozen) == "within noise"
    assert rows["image: skill"].values[0] == pytest.approx(1)


def test_better_models_are_found_better(right: Evidence) -> None:
    rows = by_name(compare([look(collapsed=True), right], resamples=50))
    assert rows["KL, nats"].says(0) == "different"
    assert rows["KL, nats"].differences[0].value > 0
    rows = by_name(compare([look(lying_reward=True), right], resamples=50))
    assert rows["reward, imagined"].says(0) == "better"


def test_pairs_make_intervals_narrow(right: Evidence) -> None:
    """Episodes differ a lot, models by the same little in each: that is beyond noise."""
    rng = np.random.default_rng(0)
    level = rng.uniform(0.01, 0.1, right.obs["image"].error.shape[0])[:, None, None]

    def with_error(factor: float) -> Evidence:
        error = np.broadcast_to(level * factor, right.obs["image"].error.shape)
        return replace(right, obs={"image": replace(right.obs["image"], error=error)})

    row = by_name(compare([with_error(1.0), with_error(1.1)], resamples=100))["image: PSNR, dB"]
    assert row.differences[0].value == pytest.approx(-10 * np.log10(1.1))
    assert row.says(0) == "worse"
    assert row.differences[0].high - row.differences[0].low < 1e-9


def test_other_windows_are_no_comparison(right: Evidence) -> None:
    with pytest.raises(AssertionError, match="not the same"):
        compare([right, replace(right, episode=right.episode + 1)])


@pytest.mark.parametrize(
    ("better", "low", "high", "expected"),
    [
        ("higher", 0.1, 0.2, "better"),
        ("higher", -0.2, -0.1, "worse"),
        ("lower", 0.1, 0.2, "worse"),
        ("lower", -0.1, 0.2, "within noise"),
        ("", 0.1, 0.2, "different"),
        ("higher", np.nan, np.nan, "unknown"),
    ],
)
def test_what_a_difference_means(better: str, low: float, high: float, expected: str) -> None:
    gap = Estimate(np.asarray((low + high) / 2), np.asarray(low), np.asarray(high))
    assert Difference("x", better, [0.0, 1.0], [gap]).says(0) == expected
