"""A right model is found right and a wrong one wrong: by the metrics, and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wmtk.agent.outputs import OpenLoop, Posterior
from wmtk.cli.common.verdict_text import STYLES
from wmtk.datasets import Batch
from wmtk.viz.evaluation.findings import bias_grade, relation_grade
from wmtk.viz.evaluation.grades import MARKS, Grade
from wmtk.viz.evaluation.measurements import measure
from wmtk.viz.evaluation.model_metrics import ModelMetrics, compute_metrics
from wmtk.viz.evaluation.verdict import verdict
from wmtk.viz.metrics import (
    Bootstrap,
    Estimate,
    ReturnQuality,
    RewardQuality,
    return_quality,
    reward_quality,
)
from wmtk.viz.metrics.frames import PSNR_MOST

from .dots import SIDE, DotModel, record

CONTEXT, HORIZON = 4, 16
# How complaints begin: ! is bad, ? is doubtful.
UNRELIABLE = "! Not reliable for a single step"
BLIND = "! Reconstructions of image explain 0% of what varies"
IGNORANT = "! Predictions hardly depend on the actions"
UNCLEAR = "? Predictions may not depend on the actions"
BAD_REWARD = "! Rewards are predicted badly from observed states"
SEEN = "Rewards are predicted well from observed states (average precision within 1 step 1.00)"
BAD_DREAM, ROUGH_DREAM = f"! {SEEN}, badly over 15", f"? {SEEN}, roughly over 15"
BAD_ENDS = "! Ends are predicted badly"
TIME_LIMITS = "! Time limits are predicted as ends"
COLLAPSED = "! The posterior has collapsed"


def judge(model: DotModel, batch: Batch | None = None) -> ModelMetrics:
    windows = [record() if batch is None else batch]
    evidence = measure(model, windows, context=CONTEXT, samples=2)
    return compute_metrics(evidence, resamples=50, factors=False)


def faults(found: ModelMetrics) -> list[str]:
    """What the verdict has to complain about."""
    findings = verdict(found).findings
    return [f"{MARKS[f.grade]} {f.text}" for f in findings if f.grade != Grade.GOOD]


def returns(words: str, both: str = "!!", kind: str = "Discounted returns") -> list[str]:
    """Complaints about returns over the steps that a policy imagines, and over all 16."""
    return [
        f"{both[0]} {kind} over the 15 steps that a policy imagines are {words}",
        f"{both[1]} Returns over 16 imagined steps are {words}",
    ]


# --- models that are wrong in one way each -----------------------------------------------------


class Shuffled(DotModel):
    """Imagines with the actions of the next window."""

    def predict_batch(self, batch: Batch, **options: Any) -> OpenLoop:
        return super().predict_batch(replace(batch, action=np.roll(batch.action, 1, 0)), **options)


class Late(DotModel):
    """Its actions are those of the row before."""

    def predict_batch(self, batch: Batch, **options: Any) -> OpenLoop:
        return super().predict_batch(replace(batch, action=np.roll(batch.action, 1, 1)), **options)


class Mirrored(DotModel):
    """Takes left for right."""

    def predict_batch(self, batch: Batch, **options: Any) -> OpenLoop:
        return super().predict_batch(replace(batch, action=2 - batch.action), **options)


class Stuck(DotModel):
    """Imagines that nothing ever moves."""

    def predict_batch(self, batch: Batch, **options: Any) -> OpenLoop:
        return super().predict_batch(replace(batch, action=np.ones_like(batch.action)), **options)


class Faded(DotModel):
    """Shows the same gray mist, whatever it sees."""

    def _show(self, place: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.full((*place.shape, SIDE, SIDE, 1), 8, np.uint8)


class OneCode(DotModel):
    """Takes everything for the same, and is very sure of it."""

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        seen = super().observe_batch(batch, seed)
        same = np.zeros_like(seen.posterior)
        same[..., 2] = 1
        return replace(seen, posterior=same, prior=same, stoch=same[:, :, 0])


class GaussianCollapse(DotModel):
    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        seen = super().observe_batch(batch, seed)
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

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        last = batch.terminated | batch.truncated
        return replace(super().observe_batch(batch, seed), discount=self._discount(last))


def imagining(change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> type[DotModel]:
    """Right in all that it sees and shows, but not in the rewards (N, S, H) that it imagines."""

    class Imagining(DotModel):
        def predict_batch(self, batch: Batch, **options: Any) -> OpenLoop:
            imagined = super().predict_batch(batch, **options)
            return replace(imagined, reward=change(imagined.reward))

    return Imagining


def of_others(reward: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rewards of other windows, of which as many come."""
    return np.roll(reward, 5, 0)


class Lost(DotModel):
    """Right for two steps; from then on, its dot and its rewards are those of other windows."""

    def predict_batch(self, batch: Batch, **options: Any) -> OpenLoop:
        right = super().predict_batch(batch, **options)
        other = np.random.default_rng(0).permutation(len(batch.reward))
        shown, reward = right.obs["image"].copy(), right.reward.copy()
        shown[:, :, 2:], reward[:, :, 2:] = shown[other, :, 2:], reward[other, :, 2:]
        return replace(right, obs={"image": shown}, reward=reward)


class Steady(DotModel):
    """Expects a reward of 1 at each step."""

    def _reward(self, place: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.ones(place.shape, np.float32)


class Squashed(DotModel):
    """Learns the tanh of rewards."""

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        return replace(super().observe_batch(batch, seed), true_reward=np.tanh(batch.reward))

    def _reward(self, place: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.tanh(super()._reward(place))


def steady(*, ends: bool) -> Batch:
    """A reward of 1 at each step, until the task ends, which it does not without `ends`."""
    batch = record()
    N, T = batch.reward.shape
    rows = np.random.default_rng(0).integers(CONTEXT + 1, T, N) if ends else np.full(N, T)
    rows[:8] = T
    at = np.arange(T)[None]
    mask = at < rows[:, None]
    return replace(
        batch,
        reward=(mask & (at > 0)).astype(np.float32),
        mask=mask,
        terminated=(at == rows[:, None] - 1) & (rows[:, None] < T),
        truncated=np.zeros_like(mask),
    )


# --- what is found ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def right() -> ModelMetrics:
    return judge(DotModel())


def test_a_right_model_is_found_right(right: ModelMetrics) -> None:
    image = right.obs["image"]
    assert (right.horizon, right.reliable_steps, right.steps_above_baselines) == (
        HORIZON,
        HORIZON,
        HORIZON,
    )
    np.testing.assert_allclose(image.score.value, PSNR_MOST)
    np.testing.assert_allclose(image.ssim.value, 1)
    np.testing.assert_allclose(image.skill.value, 1)
    np.testing.assert_allclose(image.informed_ceiling.value, 1)
    assert image.actions_overall.low > 10
    assert right.reward_imagined.r_squared.value == pytest.approx(1)
    assert right.reward_observed.return_bias.value == pytest.approx(0)
    for found in (right.returns, right.returns_policy):
        assert found.windows == 24
        for quality in (found.discounted, found.undiscounted):
            assert quality.bias.value == pytest.approx(0, abs=1e-6)
            assert quality.correlation.value == pytest.approx(1)
    assert right.ends_observed is not None
    assert right.ends_observed.average_precision.value == pytest.approx(1)
    assert right.ends_observed.calibration_error == pytest.approx(0, abs=1e-6)
    assert right.codes is not None
    assert right.codes.dead_share == 0
    assert right.codes.information[0] == pytest.approx(np.log(right.codes.perplexity[0]))
    assert faults(right) == []
    said = verdict(right)
    assert said.grade == Grade.GOOD
    assert said.headline == (
        "Good for training a policy: reliable over the 15 steps that it imagines."
    )
    assert said.findings[0].text == "Reliable for 16 steps, the longest horizon tested."


@pytest.mark.parametrize(
    ("model", "complaints"),
    [
        (DotModel(blind_to_actions=True), [UNRELIABLE, IGNORANT, BAD_DREAM]),
        (Shuffled(), [UNRELIABLE, UNCLEAR, ROUGH_DREAM]),
        (Late(), [UNRELIABLE]),
        (
            Mirrored(),
            [
                UNRELIABLE,
                *returns("", "??"),
                IGNORANT,
                BAD_DREAM,
            ],
        ),
        (Stuck(), [UNRELIABLE, *returns("", "??"), IGNORANT, ROUGH_DREAM]),
        (DotModel(frozen_decoder=True), [UNRELIABLE, BLIND, IGNORANT]),
        (Faded(), [UNRELIABLE, BLIND, IGNORANT]),
        (DotModel(collapsed=True), [COLLAPSED]),
        (OneCode(), [COLLAPSED]),
        (GaussianCollapse(), ["? The posterior hardly differs from the prior"]),
        (
            DotModel(lying_reward=True),
            [*returns("too high and opposed"), BAD_REWARD, "! Positive rewards are predicted"],
        ),
        (
            rewarding(lambda true: 0 * true)(),
            [
                *returns("too low and unrelated"),
                BAD_REWARD,
                "! Where rewards occur, predictions are 0 times",
            ],
        ),
        (
            rewarding(lambda true: 0.1 * true)(),
            [*returns("too low:"), "! Where rewards occur, predictions are 0.1 times their size"],
        ),
        (
            rewarding(lambda true: 5 * true)(),
            [*returns("too high:"), "! Where rewards occur, predictions are 5 times their size"],
        ),
        (
            rewarding(lambda true: true + 0.4)(),
            [*returns("too high:"), "! Positive rewards are predicted where none occur"],
        ),
        (
            rewarding(lambda true: true - 0.4 * (true == 0))(),
            [*returns("too low:"), "! Negative rewards are predicted where none occur"],
        ),
        (
            imagining(lambda true: true * 0.5 ** np.arange(HORIZON))(),
            returns("too low:", kind="Returns"),
        ),
        (imagining(lambda true: true + 0.3)(), returns("too high:")),
        (
            imagining(of_others)(),
            [*returns("unrelated to the true returns:", "!?", "Returns"), BAD_DREAM],
        ),
        (
            imagining(lambda true: true * (np.arange(HORIZON) < 2))(),
            [*returns("too low:", kind="Returns"), BAD_DREAM],
        ),
        (
            Lost(),
            [
                "! Reliable for about 2 steps, where a policy imagines 15",
                "? Discounted returns over the 15 steps that a policy imagines are only loosely",
                "? Returns over 16 imagined steps are of unclear relation",
                BAD_DREAM,
            ],
        ),
        (
            Eager(),
            [
                "? Discounted returns over the 15 steps that a policy imagines are somewhat too",
                "? Discounted returns over 16 imagined steps are somewhat too",
                TIME_LIMITS,
                "! Ends are predicted far too often",
            ],
        ),
        (Immortal(), [BAD_ENDS]),
        (TimeLimits(), ["? Ends are predicted roughly", TIME_LIMITS]),
    ],
    ids=[
        *("blind to actions", "shuffled actions", "late actions", "mirrored actions", "stuck"),
        *("frozen decoder", "faded decoder", "collapsed", "one code", "gaussian collapse"),
        *("lying reward", "no reward", "small reward", "large reward", "eager reward"),
        *("punishments", "drifting rewards", "offset rewards", "others' rewards"),
        *("two steps of reward", "lost after two steps", "eager end", "immortal", "time limits"),
    ],
)
def test_the_verdict_of_a_wrong_model(model: DotModel, complaints: list[str]) -> None:
    found = judge(model)
    heard = faults(found)
    assert len(heard) == len(complaints), heard
    for complaint, fault in zip(complaints, heard, strict=True):
        assert fault.startswith(complaint)
    # The whole is as bad as the worst of it.
    assert MARKS[verdict(found).grade] == min(complaint[0] for complaint in complaints)


def test_the_numbers_of_wrong_models(right: ModelMetrics) -> None:
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
    assert lying.reward_observed.correlation.value < -0.8
    assert lying.reward_policy.return_bias.low > 0
    large = judge(rewarding(lambda true: 5 * true)())
    for found, size in ((large, 5), (right, 1)):
        assert found.reward_observed.positive is not None
        assert found.reward_observed.positive.size.value == pytest.approx(size)
    eager = judge(Eager())
    assert eager.ends_observed is not None
    assert eager.ends_observed.expected_rate > 0.5 > 10 * eager.ends_observed.base_rate


# --- rewards of two signs ----------------------------------------------------------------------

Change = Callable[[NDArray[np.float32]], NDArray[np.float32]]
WELL = "predicted well from observed states (average precision within 1 step 1.00)"


def two_signs(change: Change, positive: int = 30, negative: int = 70) -> RewardQuality:
    """Rewards of both signs in 24 windows, and what a model makes of them."""
    rng = np.random.default_rng(0)
    true = np.zeros(24 * 40, np.float32)
    at = rng.permutation(len(true))
    true[at[:positive]], true[at[positive : positive + negative]] = 1, -1
    true = true.reshape(24, 40)
    mask = np.ones(true.shape, bool)
    return reward_quality(true, change(true), mask, Bootstrap(np.arange(24), resamples=50))


@pytest.mark.parametrize(
    ("change", "signs", "complaints"),
    [
        (lambda true: true, {}, []),
        (  # the frequent punishments are known, the rewards that a policy looks for are not
            lambda true: np.minimum(true, 0),
            {},
            [
                "! Positive rewards are predicted badly from observed states",
                "! Where positive rewards occur, ",
            ],
        ),
        (
            lambda true: np.maximum(true, 0),
            {"positive": 70, "negative": 30},
            [
                "! Negative rewards are predicted badly from observed states",
                "! Where negative rewards occur, ",
            ],
        ),
        (
            lambda true: np.where(true > 0, 0.2, 1) * true,
            {},
            ["! Where positive rewards occur, "],
        ),
        (  # too few to be sure
            lambda true: np.minimum(true, 0),
            {"positive": 2},
            [
                "? Positive rewards are predicted badly from observed states",
                "? Where positive rewards occur, ",
            ],
        ),
    ],
    ids=["right", "no rewards", "no punishments", "small rewards", "two rewards"],
)
def test_one_sign_of_rewards_does_not_hide_the_other(
    right: ModelMetrics, change: Change, signs: dict[str, int], complaints: list[str]
) -> None:
    quality = two_signs(change, **signs)
    found = replace(right, reward_observed=quality, reward_policy=quality, reward_imagined=quality)
    heard = faults(found)
    assert len(heard) == len(complaints), heard
    for complaint, fault in zip(complaints, heard, strict=True):
        assert fault.startswith(complaint)
    said = verdict(found)
    assert MARKS[said.grade] == min((c[0] for c in complaints), default=MARKS[Grade.GOOD])
    if complaints:
        other = "Negative" if "ositive" in complaints[0] else "Positive"
        if "predicted" in complaints[0]:
            assert any(f.text.startswith(f"{other} rewards are {WELL}") for f in said.findings)


def test_unseen_rewards_are_told_where_none_are_imagined(right: ModelMetrics) -> None:
    """No rewards come in the steps that a policy imagines, but the seen ones are missed."""
    seen = two_signs(lambda true: 0 * true)
    none = two_signs(lambda true: true, positive=0, negative=0)
    found = replace(right, reward_observed=seen, reward_policy=none, reward_imagined=none)
    assert "! Positive rewards are predicted badly from observed states" in faults(found)[0]


# --- tasks and horizons at which there is less to judge ----------------------------------------


@pytest.mark.parametrize(
    ("reliable", "above_baselines", "imagined", "grade"),
    [
        (16, 16, 16, Grade.GOOD),
        (8, 12, 8, Grade.GOOD),
        (2, 16, 15, Grade.DOUBTFUL),  # better than the baselines, but not reliable
        (8, 9, 15, Grade.DOUBTFUL),
        (16, 16, 20, Grade.DOUBTFUL),  # more is imagined than was tested
        (2, 4, 15, Grade.BAD),
        (0, 16, 15, Grade.BAD),
        (0, 0, 15, Grade.BAD),
    ],
)
def test_reliable_steps_are_judged_by_what_a_policy_imagines(
    right: ModelMetrics, reliable: int, above_baselines: int, imagined: int, grade: Grade
) -> None:
    found = replace(
        right,
        reliable_steps=reliable,
        steps_above_baselines=above_baselines,
        policy_horizon=imagined,
    )
    said = verdict(found)
    assert said.findings[0].grade == said.grade == grade
    assert ("green", "yellow", "bold red")[list(Grade).index(grade)] == STYLES[said.grade]
    if grade != Grade.GOOD:
        assert str(imagined) in said.headline or not reliable


def test_two_reliable_steps_of_many_that_are_better_than_the_baselines(right: ModelMetrics) -> None:
    found = replace(right, reliable_steps=2, steps_above_baselines=16)
    assert verdict(found).findings[0].text == (
        "Reliable for about 2 steps, where a policy imagines 15; better than the baselines up to "
        "16, the longest horizon tested."
    )


def test_a_constant_reward_is_judged_by_its_ends() -> None:
    batch = steady(ends=True)
    found = judge(Steady(), batch)
    assert faults(found) == []
    lived = batch.mask[:, CONTEXT:].sum(1)  # steps with a reward after the context
    np.testing.assert_allclose(found.returns.undiscounted.true.value, lived.mean())
    np.testing.assert_allclose(found.returns.discounted.true.value, _sums(lived).mean())
    np.testing.assert_allclose(found.returns.discounted.bias.value, 0, atol=1e-6)

    class Forever(Steady, Immortal):
        pass

    forever = judge(Forever(), batch)
    horizon = np.array([forever.horizon])
    np.testing.assert_allclose(forever.returns.discounted.imagined.value, _sums(horizon)[0], 1e-6)
    first, *_, last = faults(forever)
    assert first.startswith(returns("unrelated to the true returns:")[0])
    assert "no correlation, because the imagined returns do not vary" in first
    assert last.startswith("! Ends are predicted badly from observed states")


def _sums(steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 + γ + … over so many steps."""
    return (1 - 0.9**steps) / (1 - 0.9)


def test_returns_that_do_not_vary_have_no_correlation() -> None:
    found = judge(Steady(), steady(ends=False))
    (ends,) = faults(found)
    assert ends == "? Ends cannot be judged: the task does not end in these windows."
    said = verdict(found)
    assert said.grade == Grade.GOOD
    assert "hardly vary, so that their correlation is not judged" in said.findings[1].text


def test_a_constant_reward_has_a_bias() -> None:
    class Double(Steady):
        def _reward(self, place: NDArray[np.int64]) -> NDArray[np.float32]:
            return 2 * super()._reward(place)

    assert faults(judge(Double(), steady(ends=False)))[:2] == [
        "! Discounted returns over the 15 steps that a policy imagines are too high: predicted "
        "15.88 on average, true 7.94; bias 7.94 (7.94 to 7.94); the true returns hardly vary, so "
        "that their correlation is not judged.",
        "! Returns over 16 imagined steps are too high: predicted 32.00 on average, true 16.00; "
        "bias 16.00 (16.00 to 16.00); the true returns hardly vary, so that their correlation is "
        "not judged.",
    ]


def test_without_rewards_nothing_is_good() -> None:
    batch = record()
    found = judge(
        rewarding(lambda true: 0 * true)(), replace(batch, reward=np.zeros_like(batch.reward))
    )
    assert faults(found) == [
        "? Returns over the 15 steps that a policy imagines cannot be judged: no rewards in these "
        "windows."
    ]
    assert verdict(found).grade == Grade.DOUBTFUL


def test_few_windows_are_doubtful() -> None:
    heard = faults(judge(DotModel(), record(windows=5)))
    assert "only 5 windows of that length" in heard[0]
    assert heard[-1] == "? Only 5 episodes measured: the intervals are too narrow."
    assert {fault[0] for fault in heard} == {"?"}


def test_windows_that_were_cut_off_are_left_out() -> None:
    batch = record()
    mask = batch.mask.copy()
    mask[::3, 12:] = False
    found = judge(DotModel(), replace(batch, mask=mask))
    assert found.returns.windows == 16
    assert faults(found) == []


def test_rewards_are_compared_in_the_unit_of_the_model() -> None:
    batch = record()
    found = judge(Squashed(), batch)
    true = np.tanh(batch.reward[:, CONTEXT:]).sum(1).mean()
    assert found.returns.undiscounted.true.value == pytest.approx(true)
    assert faults(found) == []
    assert "in the model's transformed rewards" in verdict(found).findings[1].text


def test_ends_that_are_not_learned() -> None:
    class Endless(Immortal):
        gamma = None

    assert faults(judge(Endless(gamma=None))) == [
        "? The model does not predict the end of the task, which occurs 12 times in these windows."
    ]


# --- the grades of returns --------------------------------------------------------------------


def quality(bias: tuple[float, ...], correlation: tuple[float, ...], varied: int) -> ReturnQuality:
    some = return_quality([1.0, 1.0], [1.0, 1.0], Bootstrap([0, 1], resamples=2))
    parts = [Estimate(*map(np.asarray, numbers)) for numbers in (bias, correlation)]
    return replace(some, size=1.0, varied=varied, bias=parts[0], correlation=parts[1])


@pytest.mark.parametrize(
    ("value", "low", "high", "varied", "grade"),
    [
        (0.9, 0.8, 0.95, 20, Grade.GOOD),
        (0.9, 0.2, 1.0, 20, Grade.DOUBTFUL),  # a wide interval
        (0.5, 0.4, 0.6, 20, Grade.DOUBTFUL),
        (-0.05, -0.33, 0.25, 20, Grade.BAD),
        (0.1, -0.6, 0.8, 20, Grade.DOUBTFUL),
        (0.3, -0.2, 0.69, 20, Grade.DOUBTFUL),
        (np.nan, np.nan, np.nan, 20, Grade.BAD),  # imagined returns that do not vary
        (0.9, np.nan, np.nan, 20, Grade.DOUBTFUL),  # a single episode
        (np.nan, np.nan, np.nan, 0, Grade.GOOD),  # true returns that do not vary
        (1.0, 1.0, 1.0, 3, Grade.DOUBTFUL),
    ],
)
def test_grades_of_correlations(
    value: float, low: float, high: float, varied: int, grade: Grade
) -> None:
    assert relation_grade(quality((0, 0, 0), (value, low, high), varied)) == grade


@pytest.mark.parametrize(
    ("value", "low", "high", "grade"),
    [
        (0.1, 0.0, 0.2, Grade.GOOD),
        (-0.1, -0.6, 0.4, Grade.DOUBTFUL),
        (-0.4, -0.45, -0.3, Grade.DOUBTFUL),
        (-0.9, -1.0, -0.8, Grade.BAD),
        (0.9, -0.1, 1.9, Grade.DOUBTFUL),
        (0.0, np.nan, np.nan, Grade.DOUBTFUL),
    ],
)
def test_grades_of_biases(value: float, low: float, high: float, grade: Grade) -> None:
    """As shares of the size of true returns, which is 1 here."""
    assert bias_grade(quality((value, low, high), (1, 1, 1), 20)) == grade
