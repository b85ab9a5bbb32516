"""A right model is found right and a wrong one wrong: by the metrics, and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wmtk.datasets import Batch
from wmtk.models.shown import Imagined, Seen
from wmtk.viz.evaluation import Evaluation, evaluate
from wmtk.viz.evidence import gather
from wmtk.viz.metrics.frames import PSNR_MOST
from wmtk.viz.verdict import reward_size, verdict

from .dots import SIDE, DotModel, record

CONTEXT, HORIZON = 4, 16
UNTRUSTED = "Do not trust this model"
BLIND = "It does not show what it sees"
HEEDLESS = "Actions hardly matter"
UNCLEAR = "It is not clear that it minds actions"
BAD_REWARD = "Reward is predicted badly"
BAD_DREAM = "and badly when imagined"  # reward that is read well off what is seen
BAD_ENDS = "Ends are recognised badly"
TIME_LIMITS = "It takes time limits for ends"
COLLAPSED = "The posterior has collapsed"


def judge(model: DotModel, *, factors: bool = False) -> Evaluation:
    batch = record()
    windows = batch if factors else replace(batch, info={})  # probes take their time
    return evaluate(gather(model, [windows], context=CONTEXT, samples=2), resamples=50)


def faults(found: Evaluation) -> list[str]:
    """What the verdict has to complain about."""
    return [finding.text for finding in verdict(found) if not finding.good]


# --- models that are wrong in one way each -----------------------------------------------------


class Shuffled(DotModel):
    """Imagines with the actions of the next window."""

    def foresee(self, batch: Batch, **options: Any) -> Imagined:
        return super().foresee(replace(batch, action=np.roll(batch.action, 1, 0)), **options)


class Late(DotModel):
    """Its actions are those of the row before."""

    def foresee(self, batch: Batch, **options: Any) -> Imagined:
        return super().foresee(replace(batch, action=np.roll(batch.action, 1, 1)), **options)


class Mirrored(DotModel):
    """Takes left for right."""

    def foresee(self, batch: Batch, **options: Any) -> Imagined:
        return super().foresee(replace(batch, action=2 - batch.action), **options)


class Stuck(DotModel):
    """Imagines that nothing ever moves."""

    def foresee(self, batch: Batch, **options: Any) -> Imagined:
        return super().foresee(replace(batch, action=np.ones_like(batch.action)), **options)


class Faded(DotModel):
    """Shows the same grey mist, whatever it sees."""

    def _show(self, place: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.full((*place.shape, SIDE, SIDE, 1), 8, np.uint8)


class OneCode(DotModel):
    """Takes everything for the same, and is very sure of it."""

    def watch(self, batch: Batch, seed: int = 0) -> Seen:
        seen = super().watch(batch, seed)
        same = np.zeros_like(seen.posterior)
        same[..., 2] = 1
        return replace(seen, posterior=same, prior=same, stoch=same[:, :, 0])


class GaussianCollapse(DotModel):
    def watch(self, batch: Batch, seed: int = 0) -> Seen:
        seen = super().watch(batch, seed)
        moments = np.stack([np.zeros_like(seen.stoch), np.ones_like(seen.stoch)], -1)
        return replace(seen, latent="gaussian", posterior=moments, prior=moments)


def rewarding(change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> type[DotModel]:
    class Rewarding(DotModel):
        def _reward(self, place: NDArray[np.int64]) -> NDArray[np.float32]:
            return change(super()._reward(place))

    return Rewarding


class Eager(DotModel):
    """Expects the end at every second step, and is surer of the true ones."""

    def _discount(self, ends: NDArray[np.bool_]) -> NDArray[np.float32]:
        return np.where(ends, 0.0, 0.45).astype(np.float32)


class Immortal(DotModel):
    def _discount(self, ends: NDArray[np.bool_]) -> NDArray[np.float32]:
        return np.full(ends.shape, 0.9, np.float32)


class TimeLimits(DotModel):
    """Takes the end of a window for the end of the task, also where it was only cut off."""

    def watch(self, batch: Batch, seed: int = 0) -> Seen:
        last = batch.terminated | batch.truncated
        return replace(super().watch(batch, seed), discount=self._discount(last))


# --- what is found ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def right() -> Evaluation:
    return judge(DotModel(), factors=True)


def test_a_right_model_is_found_right(right: Evaluation) -> None:
    image = right.obs["image"]
    assert (right.horizon, right.trusted, right.usable) == (HORIZON, HORIZON, HORIZON)
    np.testing.assert_allclose(image.score.value, PSNR_MOST)
    np.testing.assert_allclose(image.ssim.value, 1)
    np.testing.assert_allclose(image.skill.value, 1)
    np.testing.assert_allclose(image.informed_ceiling.value, 1)
    assert image.actions_overall.low > 10
    assert right.reward_imagined.r_squared.value == pytest.approx(1)
    assert right.reward_seen.return_bias.value == pytest.approx(0)
    assert right.ends_seen is not None
    assert right.ends_seen.average_precision.value == pytest.approx(1)
    assert right.ends_seen.calibration_error == pytest.approx(0, abs=1e-6)
    assert right.codes is not None
    assert right.codes.dead_share == 0
    assert right.codes.information[0] == pytest.approx(np.log(right.codes.perplexity[0]))
    assert faults(right) == []
    first = verdict(right)[0].text
    assert first == "Trust this model to 16 steps, which is as far as was looked."


def test_the_factor_is_in_the_codes(right: Evaluation) -> None:
    codes = right.factors["place"].codes
    assert codes is not None
    assert codes.information[0] > 0.9 * codes.entropy
    assert set(right.factors["place"].probes) == {"h", "z", "h+z", "pixels"}
    assert right.factors["place"].probes["z"].score > 0.99


@pytest.mark.parametrize(
    ("model", "complaints"),
    [
        (DotModel(blind_to_actions=True), [UNTRUSTED, HEEDLESS, BAD_DREAM]),
        (Shuffled(), [UNTRUSTED, UNCLEAR]),
        (Late(), [UNTRUSTED]),
        (Mirrored(), [UNTRUSTED, HEEDLESS, BAD_DREAM]),
        (Stuck(), [UNTRUSTED, HEEDLESS]),
        (DotModel(frozen_decoder=True), [UNTRUSTED, BLIND, HEEDLESS]),
        (Faded(), [UNTRUSTED, BLIND, HEEDLESS]),
        (DotModel(collapsed=True), [COLLAPSED]),
        (OneCode(), [COLLAPSED]),
        (GaussianCollapse(), ["Seeing frames hardly changes its latents"]),
        (DotModel(lying_reward=True), [BAD_REWARD, "It makes up rewards"]),
        (rewarding(lambda true: 0 * true)(), [BAD_REWARD, "it predicts 0 times what they are"]),
        (rewarding(lambda true: 0.1 * true)(), ["it predicts 0.1 times what they are"]),
        (rewarding(lambda true: 5 * true)(), ["it predicts 5 times what they are"]),
        (rewarding(lambda true: true + 0.4)(), ["It makes up rewards"]),
        (rewarding(lambda true: true - 0.4 * (true == 0))(), ["It makes up punishments"]),
        (Immortal(), [BAD_ENDS]),
        (Eager(), [TIME_LIMITS, "It expects ends far too often"]),
        (TimeLimits(), ["Ends are recognised roughly", TIME_LIMITS]),
    ],
    ids=[
        *("blind to actions", "shuffled actions", "late actions", "mirrored actions", "stuck"),
        *("frozen decoder", "faded decoder", "collapsed", "one code", "gaussian collapse"),
        *(
            "lying reward",
            "no reward",
            "small reward",
            "large reward",
            "eager reward",
            "punishments",
        ),
        *("immortal", "eager end", "time limits"),
    ],
)
def test_the_verdict_of_a_wrong_model(model: DotModel, complaints: list[str]) -> None:
    found = faults(judge(model))
    assert len(found) == len(complaints), found
    for complaint, fault in zip(complaints, found, strict=True):
        assert complaint in fault


def test_the_numbers_of_wrong_models(right: Evaluation) -> None:
    """The words are right because the numbers are."""
    shuffled = judge(Shuffled()).obs["image"]
    assert shuffled.actions_overall.low < 0 < right.obs["image"].actions_overall.low
    assert shuffled.skill.value[-1] < 0.5
    frozen = judge(DotModel(frozen_decoder=True)).obs["image"]
    assert frozen.informed_ceiling.value < 0
    assert frozen.actions_overall.value == 0
    collapsed = judge(DotModel(collapsed=True))
    assert collapsed.codes is not None
    assert collapsed.kl.value == pytest.approx(0)
    assert collapsed.codes.information.sum() == pytest.approx(0)
    lying = judge(DotModel(lying_reward=True))
    assert lying.reward_seen.correlation.value < -0.8
    assert lying.reward_soon.return_bias.low > 0
    large = judge(rewarding(lambda true: 5 * true)())
    assert reward_size(large.reward_seen) == pytest.approx(5)
    assert reward_size(right.reward_seen) == pytest.approx(1)
    eager = judge(Eager())
    assert eager.ends_seen is not None
    assert eager.ends_seen.expected_rate > 0.5 > 10 * eager.ends_seen.base_rate
