"""Several models on the same windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wmtk.viz.evaluation.differences import Difference, compute_differences
from wmtk.viz.evaluation.measurements import Measurements, measure
from wmtk.viz.metrics import Estimate

from .dots import DotModel, record


def look(**wrong: bool) -> Measurements:
    return measure(DotModel(**wrong), [record()], context=4, samples=2)


@pytest.fixture(scope="module")
def right() -> Measurements:
    return look()


def by_name(found: list[Difference]) -> dict[str, Difference]:
    return {row.name: row for row in found}


def test_a_model_does_not_differ_from_itself(right: Measurements) -> None:
    for row in compute_differences([right, right], resamples=20):
        assert row.values[0] == row.values[1], row.name
        assert row.outcome(0) in {"within noise", "unknown"}, row.name


def test_worse_models_are_found_worse(right: Measurements) -> None:
    wrong = [look(frozen_decoder=True), look(lying_reward=True), look(blind_to_actions=True)]
    rows = by_name(compute_differences([right, *wrong], resamples=50))
    frozen, lying, blind = 0, 1, 2
    assert rows["image: skill"].outcome(frozen) == "worse"
    assert rows["image: PSNR of reconstructions"].outcome(frozen) == "worse"
    assert rows["image: skill"].outcome(lying) == "within noise"
    assert rows["reward, observed"].outcome(lying) == "worse"
    assert rows["image: actions, dB"].outcome(blind) == "worse"
    assert rows["reward, observed"].outcome(blind) == "within noise"
    assert rows["returns over 15 steps, correlation"].outcome(lying) == "worse"
    assert rows["returns over 15 steps, correlation"].outcome(frozen) == "within noise"
    assert rows["image: skill"].values[0] == pytest.approx(1)


def test_better_models_are_found_better(right: Measurements) -> None:
    rows = by_name(compute_differences([look(collapsed=True), right], resamples=50))
    assert rows["KL, nats"].outcome(0) == "different"
    assert rows["KL, nats"].differences[0].value > 0
    rows = by_name(compute_differences([look(lying_reward=True), right], resamples=50))
    assert rows["reward, imagined"].outcome(0) == "better"


def test_pairs_make_intervals_narrow(right: Measurements) -> None:
    """Episodes differ a lot, models by the same little in each: that is beyond noise."""
    rng = np.random.default_rng(0)
    level = rng.uniform(0.01, 0.1, right.obs["image"].error.shape[0])[:, None, None]

    def with_error(factor: float) -> Measurements:
        error = np.broadcast_to(level * factor, right.obs["image"].error.shape)
        return replace(right, obs={"image": replace(right.obs["image"], error=error)})

    row = by_name(compute_differences([with_error(1.0), with_error(1.1)], resamples=100))[
        "image: PSNR, dB"
    ]
    assert row.differences[0].value == pytest.approx(-10 * np.log10(1.1))
    assert row.outcome(0) == "worse"
    assert row.differences[0].high - row.differences[0].low < 1e-9


def test_other_windows_are_no_comparison(right: Measurements) -> None:
    with pytest.raises(AssertionError, match="windows differ"):
        compute_differences([right, replace(right, episode=right.episode + 1)])


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
    assert Difference("x", better, [0.0, 1.0], [gap]).outcome(0) == expected
