"""A right model is found right, and a wrong one wrong: in the metrics and in the verdict."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.viz.evaluation.grades import MARKS
from wmtk.viz.evaluation.measurements import measure
from wmtk.viz.evaluation.model_metrics import ModelMetrics, compute_metrics
from wmtk.viz.evaluation.verdict import verdict
from wmtk.viz.metrics.frames import PSNR_MOST

from .dots import PLACES, DotModel, record

CONTEXT = 4


def judge(model: DotModel) -> ModelMetrics:
    batch = record()
    evidence = measure(model, [batch], context=CONTEXT, samples=2)
    return compute_metrics(evidence, resamples=50)


def words(found: ModelMetrics) -> str:
    return "\n".join(f"{MARKS[f.grade]} {f.text}" for f in verdict(found).findings)


@pytest.fixture(scope="module")
def right() -> ModelMetrics:
    return judge(DotModel())


def test_a_right_model_is_found_right(right: ModelMetrics) -> None:
    image = right.obs["image"]
    assert right.horizon == 16
    assert right.reliable_steps == 16
    np.testing.assert_allclose(image.score.value, PSNR_MOST)
    np.testing.assert_allclose(image.ssim.value, 1)
    np.testing.assert_allclose(image.skill.value, 1)
    assert image.actions_overall.low > 10
    assert right.reward_imagined.r_squared.value == pytest.approx(1)
    assert right.ends_observed is not None
    assert right.ends_observed.average_precision.value == pytest.approx(1)
    assert right.codes is not None
    assert right.codes.dead_share == 0
    assert right.codes.information[0] == pytest.approx(np.log(right.codes.perplexity[0]))
    assert right.factors["place"].probes["z"].score > 0.99
    assert "!" not in words(right)
    assert words(right).startswith("+ Reliable for 16 steps, the longest horizon tested.")


def test_the_factor_is_in_the_codes(right: ModelMetrics) -> None:
    codes = right.factors["place"].codes
    assert codes is not None
    assert codes.information[0] > 0.9 * codes.entropy
    assert set(right.factors["place"].probes) == {"h", "z", "h+z", "pixels"}


def test_a_model_that_ignores_actions() -> None:
    found = judge(DotModel(blind_to_actions=True))
    assert abs(found.obs["image"].actions_overall.value) < 1e-9
    assert "! Predictions hardly depend on the actions" in words(found)
    assert found.reliable_steps <= found.steps_above_baselines < 16
    assert found.reliable_steps < 5


def test_a_frozen_decoder() -> None:
    found = judge(DotModel(frozen_decoder=True))
    assert found.reliable_steps == 0
    assert found.obs["image"].informed_ceiling.value < 0
    assert "! Not reliable for a single step" in words(found)
    assert "! Reconstructions of image explain 0%" in words(found)


def test_a_collapsed_posterior() -> None:
    found = judge(DotModel(collapsed=True))
    assert found.codes is not None
    assert found.codes.information.sum() < 0.01
    assert found.codes.dead_share == 0  # which alone would look healthy
    assert found.kl.value < 0.01
    assert "! The posterior has collapsed" in words(found)
    assert found.factors["place"].probes["z"].score < 0.2
    assert found.factors["place"].probes["pixels"].score > 0.9


def test_a_reward_head_that_lies() -> None:
    found = judge(DotModel(lying_reward=True))
    assert found.reward_observed.correlation.value < -0.8
    assert "! Rewards are predicted badly" in words(found)
    assert found.reliable_steps == 16  # the pictures are right


def test_padding_changes_nothing() -> None:
    """Windows that are shorter give the numbers of their rows, whatever stands beyond."""
    from dataclasses import replace

    batch = record(rows=20)
    mask = batch.mask.copy()
    mask[::3, 12:] = False
    noise = np.random.default_rng(0).integers(0, 256, batch.obs["image"].shape, dtype=np.uint8)
    spoilt = np.where(mask[..., None, None, None], batch.obs["image"], noise)
    results = []
    for image in (batch.obs["image"], spoilt):
        windows = replace(batch, obs={"image": image}, mask=mask)
        evidence = measure(DotModel(frozen_decoder=True), [windows], context=CONTEXT, samples=2)
        results.append(compute_metrics(evidence, resamples=20))
    first, second = results
    for name in ("score", "skill", "informed", "moving", "ssim"):
        np.testing.assert_allclose(
            getattr(first.obs["image"], name).value, getattr(second.obs["image"], name).value
        )
    assert first.reward_observed.share == second.reward_observed.share
    assert first.frames == int(mask.sum())


def test_batches_may_be_cut_anywhere() -> None:
    from wmtk.datasets import Batch

    whole = record(windows=6)

    def part(rows: slice) -> Batch:
        values = {}
        for name, value in vars(whole).items():
            if isinstance(value, dict):
                values[name] = {key: array[rows] for key, array in value.items()}
            else:
                values[name] = value[rows] if isinstance(value, np.ndarray) else value
        return Batch(**values)

    heard: list[tuple[int, int]] = []
    one = measure(DotModel(), [whole], context=CONTEXT, samples=1)
    two = measure(
        DotModel(),
        [part(slice(0, 4)), part(slice(4, 6))],
        context=CONTEXT,
        samples=1,
        on_window=lambda done, total: heard.append((done, total)),
    )
    np.testing.assert_allclose(one.obs["image"].average, two.obs["image"].average)
    np.testing.assert_allclose(one.other_actions["image"], two.other_actions["image"])
    np.testing.assert_allclose(one.kl, two.kl)
    assert heard == [(4, 6), (6, 6)]


def test_one_window_is_enough_for_numbers() -> None:
    evidence = measure(DotModel(), [record(windows=1)], context=CONTEXT, samples=1)
    found = compute_metrics(evidence, resamples=10)
    assert np.isnan(found.obs["image"].actions_overall.value)
    assert np.isnan(found.obs["image"].skill.low).all()
    assert np.isnan(found.obs["image"].spread_skill.value).all()
    assert found.factors["place"].probes == {}
    assert "? Only 1 episode measured: there are no intervals." in words(found)


def test_places_are_where_they_are_drawn() -> None:
    from .dots import draw, find

    places = np.arange(PLACES)
    np.testing.assert_array_equal(find(draw(places)), places)
