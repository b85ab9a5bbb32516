"""What a report is made of: the model looked at in every way, before anything is drawn."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.load import LoadedAgent, LoadedModel
from wmtk.datasets import Batch
from wmtk.stats import Numbers
from wmtk.viz.draw.actions import ActionLook
from wmtk.viz.draw.rollout_panels import choose_image
from wmtk.viz.evaluation.measurements import SAMPLES, Measurements, Predictor, measure
from wmtk.viz.evaluation.model_metrics import ModelMetrics, compute_metrics
from wmtk.viz.html_report.calibration import HeadCalibration, calibrate
from wmtk.viz.html_report.policy_section import policy_dreams
from wmtk.viz.intervention import Intervention, middle_rows, set_codes
from wmtk.viz.latent_codes import code_distributions
from wmtk.viz.metrics import CodeUsage, code_usage
from wmtk.viz.rollouts import ImaginedEpisode, Rollout, open_loop_rollouts, reconstruction_rollouts

FUTURES = 4  # that a film shows of one window
CHANGED = 4  # frames whose codes are changed
FEW_WINDOWS = 16  # that earlier checkpoints are shown

Tell = Callable[[str, int, int], None]  # what is being done, how much of it, of how much


@dataclass(frozen=True)
class Stage:
    """How codes are used at one update of a training."""

    update: int
    codes: CodeUsage
    prior: Numbers  # (V, K)


@dataclass(frozen=True)
class Material:
    evaluation: ModelMetrics
    calibration: HeadCalibration
    image: str | None  # the key of the pictures shown; None if there are none
    windows: list[Rollout]  # a bad, a typical and a good one
    futures: Rollout  # of the typical one
    seen: list[Rollout]  # the same windows, seen whole
    stages: list[Stage]  # the last is the model itself; empty without codes
    intervention: Intervention | None
    changed: list[str]  # which frames that was done to
    dreams: list[ImaginedEpisode]  # of the policy; empty if there is none


def look_closely(
    model: LoadedModel,
    windows: Sequence[Batch],
    *,
    context: int,
    samples: int = SAMPLES,
    seed: int = 0,
    earlier: Iterable[tuple[int, Predictor]] = (),
    update: int = 0,
    policy: LoadedAgent | None = None,
    actions: ActionLook | None = None,
    tell: Tell = lambda what, done, total: None,
) -> Material:
    """Measure a model, and keep what is to be seen of it.

    `earlier` are other updates of the same training, loaded one by one as they are asked for.
    `policy` is the model again if it has an actor, and `actions` how its actions are called.
    """
    evidence = measure(
        model,
        windows,
        context=context,
        samples=samples,
        seed=seed,
        on_window=lambda done, total: tell("Predicting windows", done, total),
    )
    parts = iter(range(1, 9))
    found = compute_metrics(
        evidence, seed=seed, on_part=lambda part: tell("Computing metrics", next(parts), 3)
    )
    image = choose_image(dict(model.schema.obs), None)
    names = choose_typical(evidence, image)
    batch = _picked(windows, list(names))
    typical = open_loop_rollouts(model, batch, context=context, seed=seed)
    rollouts = [
        replace(rollout, title=f"{name}: {rollout.title}")
        for name, rollout in zip(names.values(), typical, strict=True)
    ]
    middle = _picked(windows, [window for window, name in names.items() if "typical" in name])
    (futures,) = open_loop_rollouts(model, middle, context=context, samples=FUTURES, seed=seed)
    stages = list(_stages(found, earlier, windows, seed, update, tell))
    intervention, changed = _change(model, windows, image, found, seed, tell)
    return Material(
        evaluation=found,
        calibration=calibrate(evidence, seed=seed),
        image=image,
        windows=rollouts,
        futures=futures,
        seen=reconstruction_rollouts(model, batch, seed),
        stages=stages,
        intervention=intervention,
        changed=changed,
        dreams=_dream(policy, windows, context, evidence.horizon, seed, actions),
    )


def _dream(
    policy: LoadedAgent | None,
    windows: Sequence[Batch],
    context: int,
    horizon: int,
    seed: int,
    actions: ActionLook | None,
) -> list[ImaginedEpisode]:
    if policy is None:
        return []
    return policy_dreams(
        policy, windows, context=context, horizon=horizon, seed=seed, actions=actions
    )


def choose_typical(found: Measurements, image: str | None) -> Mapping[int, str]:
    """A bad window, a typical and a good one, by how much better than copying they are."""
    key = image or next(iter(found.obs))
    errors, ahead = found.obs[key], found.ahead
    error = (errors.error.mean(1) * ahead).sum(1)
    copied = np.maximum((errors.copy * ahead).sum(1), 1e-9)
    # Whole windows only, if there are any: short ones are over before there is much to see.
    rows = ahead.sum(1)
    full = np.flatnonzero(rows == rows.max())
    order = full[np.argsort((error / copied)[full], kind="stable")[::-1]].tolist()
    if len(order) == 1:
        return {order[0]: "typical"}
    if len(order) == 2:
        return {order[0]: "the worst, typical", order[1]: "the best"}
    return {order[0]: "the worst", order[len(order) // 2]: "typical", order[-1]: "the best"}


def _picked(windows: Sequence[Batch], numbers: Sequence[int]) -> Batch:
    """Some windows of several batches as one."""
    places = [(n, row) for n, batch in enumerate(windows) for row in range(len(batch.reward))]
    chosen = [places[number] for number in numbers]

    def rows(get: Callable[[Batch], NDArray[Any]]) -> NDArray[Any]:
        return np.stack([get(windows[n])[row] for n, row in chosen])

    first = windows[0]
    names = ("action", "reward", "terminated", "truncated", "is_first", "mask")
    parts: dict[str, Any] = {
        name: rows(operator.attrgetter(name)) for name in (*names, "source", "episode", "start")
    }
    for group in ("obs", "info"):
        parts[group] = {
            key: rows(lambda batch, group=group, key=key: getattr(batch, group)[key])  # type: ignore[misc]
            for key in getattr(first, group)
        }
    return replace(first, **parts)


def _stages(
    found: ModelMetrics,
    earlier: Iterable[tuple[int, Predictor]],
    windows: Sequence[Batch],
    seed: int,
    update: int,
    tell: Tell,
) -> Iterable[Stage]:
    """How codes were used before, and now; nothing where there are none."""
    if found.codes is None or found.prior_usage is None:
        return
    count = max(1, FEW_WINDOWS // len(windows[0].reward))
    for number, (step, model) in enumerate(earlier, start=1):
        posterior, prior = code_distributions(model, windows[:count], seed=seed)
        tell("Evaluating checkpoints", number, number)
        yield Stage(step, code_usage(posterior), prior.mean(0))
    yield Stage(update, found.codes, found.prior_usage)


def _change(
    model: LoadedModel,
    windows: Sequence[Batch],
    image: str | None,
    found: ModelMetrics,
    seed: int,
    tell: Tell,
) -> tuple[Intervention | None, list[str]]:
    """Change the codes of frames in the middle of some windows."""
    if image is None or found.codes is None:
        return None, []
    batch = windows[0]
    rows, steps, names = middle_rows(batch, CHANGED)
    intervention = set_codes(
        model,
        model.observe_batch(batch, seed),
        (rows, steps),
        image,
        found.codes,
        on_variable=lambda done, total: tell("Changing codes", done, total),
    )
    return intervention, names
