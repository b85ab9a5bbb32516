"""A model's metrics in plain words: how far it can be trusted, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmtk.viz.evaluation import SOON, Evaluation, ObsQuality
from wmtk.viz.metrics import EndingQuality, Estimate, RewardQuality

WELL, ROUGHLY = 0.8, 0.4  # average precision, or R²
BLIND = 0.3  # a reconstruction that explains less of what there is to see shows next to nothing
INSENSITIVE = 0.05  # dB
COLLAPSED = 0.1  # nats that all codes together tell about a frame
MANY_DEAD = 0.5  # of all classes
FEW_EPISODES = 8  # of which a bootstrap makes intervals that are too narrow
SIZES = (0.5, 2.0)  # of predicted rewards for true ones, between which they are about right
TOO_MUCH = 0.5  # of all rewards that come: reward in excess of that is made up
OFTEN = 0.05  # of all steps: so many more or fewer ends than there are


@dataclass(frozen=True)
class Finding:
    """One sentence, and whether it is good news."""

    text: str
    good: bool


def verdict(found: Evaluation) -> list[Finding]:
    """What to know before relying on a model, the most important first."""
    return [
        _trust(found),
        *(_blindness(key, quality) for key, quality in found.obs.items() if is_blind(quality)),
        *_actions(found),
        *_reward(found),
        *_ends(found),
        *_latents(found),
        *_episodes(found),
    ]


def _trust(found: Evaluation) -> Finding:
    steps, usable, horizon = found.trusted, found.usable, found.horizon
    if not usable:
        return Finding(
            "Do not trust this model: it predicts no better than the last frame or the average one "
            "would.",
            False,
        )
    looked = ", which is as far as was looked" if usable >= horizon else ""
    if not steps:
        return Finding(
            "Do not trust this model in detail: it is better than a guess up to step "
            f"{usable}{looked}, but not even at first is most of what varies right.",
            False,
        )
    first = max(q.usable.first for q in found.obs.values())
    late = f", though the last frame is a better guess before step {first}" if first > 1 else ""
    if steps >= horizon:
        return Finding(f"Trust this model to {horizon} steps{late}{looked}.", True)
    plural = "step" if steps == 1 else "steps"
    beyond = f"; up to {usable} it is better than a guess{looked}" if usable > steps else ""
    return Finding(f"Trust this model to about {steps} {plural}{late}{beyond}.", first <= 1)


def is_blind(quality: ObsQuality) -> bool:
    """Whether reconstructions show little of what sets frames apart."""
    return bool(quality.informed_ceiling.value < BLIND)


def _blindness(key: str, quality: ObsQuality) -> Finding:
    share = max(0.0, float(quality.informed_ceiling.value))
    return Finding(
        f"It does not show what it sees: its reconstructions of {key} explain {share:.0%} of what "
        "varies.",
        False,
    )


def ignores_actions(quality: ObsQuality) -> bool:
    """Whether predictions are as good with other actions."""
    gain = quality.actions_overall
    return bool(gain.value < INSENSITIVE or gain.low <= 0)


def _actions(found: Evaluation) -> list[Finding]:
    known = [q for q in found.obs.values() if not np.isnan(q.actions_overall.value)]
    if not known:
        return []
    best = max(known, key=lambda q: float(q.actions_overall.value))
    found_gain = best.actions_overall
    gain = f"{found_gain.value:.2g} dB"
    if not all(ignores_actions(quality) for quality in known):
        return [Finding(f"It minds actions ({gain} better than with other ones).", True)]
    if found_gain.value < INSENSITIVE:
        return [Finding(f"Actions hardly matter to its predictions ({gain}).", False)]
    reach = f"{found_gain.low:.2g} to {found_gain.high:.2g}"
    return [Finding(f"It is not clear that it minds actions ({gain}, {reach}).", False)]


def _grade(score: float) -> str:
    return "well" if score >= WELL else "roughly" if score >= ROUGHLY else "badly"


def reward_score(quality: RewardQuality) -> tuple[float, str]:
    """How well rewards are predicted, and the name of that number."""
    events = [e for e in (quality.positive, quality.negative) if e is not None]
    if not events:
        return float(quality.r_squared.value), "R²"
    count = sum(e.count for e in events)
    total = sum(e.count * float(e.with_tolerance.value) for e in events)
    return total / count, "average precision"


def _reward(found: Evaluation) -> list[Finding]:
    seen, name = reward_score(found.reward_seen)
    imagined, other = reward_score(found.reward_soon)
    if np.isnan(seen) or np.isnan(imagined):
        return [Finding("Rewards did not vary: nothing can be said about their prediction.", True)]
    here, there = _grade(seen), _grade(imagined)
    steps = min(SOON, found.horizon)
    text = (
        f"Reward is predicted {here} from what it sees ({name} {seen:.2f}) and {there} when "
        f"imagined up to {steps} steps ahead ({other} {imagined:.2f})."
    )
    return [Finding(text, here == "well" and there != "badly"), *_amounts(found.reward_seen)]


def _amounts(seen: RewardQuality) -> list[Finding]:
    """Rewards may be found at the right steps and still be wrong: too small, or made up."""
    size = reward_size(seen)
    if np.isnan(size):
        return []
    if not SIZES[0] <= size <= SIZES[1]:
        text = f"Where rewards come, it predicts {size:.2g} times what they are."
        return [Finding(text, False)]
    bias = seen.return_bias
    surely = np.isnan(bias.low) or bias.low > 0 or bias.high < 0
    if not surely or abs(bias.value) <= TOO_MUCH * seen.amount:
        return []
    what, much = ("rewards", "much") if bias.value > 0 else ("punishments", "little")
    text = (
        f"It makes up {what}: over a window it predicts {abs(bias.value):.2g} too {much}, where "
        f"rewards of {seen.amount:.2g} come."
    )
    return [Finding(text, False)]


def reward_size(quality: RewardQuality) -> float:
    """What is predicted near rewards, for what came, over both signs; NaN where they are dense."""
    events = [e for e in (quality.positive, quality.negative) if e is not None]
    count = sum(e.count for e in events)
    total = sum(e.count * float(e.size.value) for e in events)
    return total / count if count else np.nan


def _ends(found: Evaluation) -> list[Finding]:
    if found.ends_seen is None or found.ends_imagined is None:
        return [Finding("It does not learn when a task ends.", True)]
    if not found.ends_seen.terminal:
        return [Finding("No window has the end of a task: nothing can be said about ends.", True)]
    findings = [_end(found.ends_seen)]
    said = found.ends_seen.at_truncated
    if said > 0.5:
        findings.append(
            Finding(f"It takes time limits for ends ({said:.0%} sure of them on average).", False)
        )
    expected, there = found.ends_seen.expected_rate, found.ends_seen.base_rate
    if abs(expected - there) > OFTEN:
        often = "often" if expected > there else "rarely"
        text = (
            f"It expects ends far too {often}: at {expected:.0%} of steps, where {there:.1%} of "
            "them are ends."
        )
        findings.append(Finding(text, False))
    return findings


def _end(quality: EndingQuality) -> Finding:
    precision = float(quality.average_precision.value)
    grade = _grade(precision)
    numbers = f"average precision {precision:.2f}, base rate {quality.base_rate:.2g}"
    return Finding(f"Ends are recognised {grade} ({numbers}).", grade == "well")


def _latents(found: Evaluation) -> list[Finding]:
    if found.codes is None:
        if found.kl.value >= COLLAPSED:
            return []
        text = (
            f"Seeing frames hardly changes its latents (KL {found.kl.value:.2g} nats): they have "
            "collapsed, unless nothing in the task is left to chance."
        )
        return [Finding(text, False)]
    told = float(found.codes.information.sum())
    if told < COLLAPSED:
        return [Finding(f"The posterior has collapsed: all codes tell {told:.2g} nats.", False)]
    dead = found.codes.dead_share
    return [
        Finding(
            f"{dead:.0%} of codes are dead; a variable tells {told / len(found.codes.usage):.1f} "
            "nats about the frame.",
            dead < MANY_DEAD,
        )
    ]


def _episodes(found: Evaluation) -> list[Finding]:
    if found.episodes >= FEW_EPISODES:
        return []
    what = "there are no intervals" if found.episodes == 1 else "intervals are too narrow"
    plural = "episode was" if found.episodes == 1 else "episodes were"
    return [Finding(f"Only {found.episodes} {plural} looked at: {what}.", False)]


def spoken(estimate: Estimate, digits: int = 2) -> str:
    """A number and its interval for readers."""
    if np.isnan(estimate.value):
        return "-"
    text = f"{estimate.value:.{digits}f}"
    if np.isnan(estimate.low):
        return text
    return f"{text} ({estimate.low:.{digits}f} to {estimate.high:.{digits}f})"


def within(estimate: Estimate, digits: int = 2) -> str:
    """The same in fewer characters: a number and half of the width of its interval."""
    if np.isnan(estimate.value):
        return "-"
    text = f"{round(float(estimate.value), digits) + 0.0:.{digits}f}"  # no minus before a zero
    if np.isnan(estimate.low):
        return text
    half = f"{(estimate.high - estimate.low) / 2:.{digits}f}"
    return f"{text} ±{half.removeprefix('0') if float(half) else half}"
