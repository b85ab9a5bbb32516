"""The content of a report: everything that is computed before charts and videos are drawn."""

from __future__ import annotations

import itertools
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
from wmtk.viz.html_report.policy_section import imagine_episodes
from wmtk.viz.intervention import Intervention, middle_rows, set_codes
from wmtk.viz.latent_codes import code_distributions
from wmtk.viz.metrics import CodeUsage, code_usage
from wmtk.viz.rollouts import ImaginedEpisode, Rollout, open_loop_rollouts, reconstruction_rollouts

FUTURES = 4  # of one window in a video
INTERVENTION_FRAMES = 4  # frames whose codes are set
CHECKPOINT_WINDOWS = 16  # windows on which earlier checkpoints are evaluated

OnProgress = Callable[[str, int, int], None]  # description, finished parts, total


@dataclass(frozen=True)
class CheckpointUsage:
    """Code usage at one update of a training."""

    update: int
    codes: CodeUsage
    prior: Numbers  # (V, K), class frequencies under the prior


@dataclass(frozen=True)
class ReportContent:
    """Metrics, rollouts and interventions of one model."""

    metrics: ModelMetrics
    calibration: HeadCalibration
    image: str | None  # observation key of the images; None if there are none
    open_loop: list[Rollout]  # predictions of the windows with the worst, median and best error
    futures: Rollout  # several futures of the median window
    reconstructions: list[Rollout]  # of the same windows
    checkpoints: list[CheckpointUsage]  # the last is the model itself; empty without codes
    intervention: Intervention | None
    intervention_frames: list[str]  # descriptions of its frames
    imagined_episodes: list[ImaginedEpisode]  # of the policy; empty without one


def collect_content(
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
    on_progress: OnProgress = lambda description, done, total: None,
) -> ReportContent:
    """Evaluate a model and collect all numbers and images of the report.

    Args:
        model: The model to evaluate.
        windows: Batches of recorded windows.
        context: Rows of each window that the model observes.
        samples: Futures imagined of each window.
        seed: Seed of latents and intervals.
        earlier: Updates and models of earlier checkpoints of the same training, loaded lazily.
        update: The update of the model.
        policy: The model again if it has an actor.
        actions: Names of the actions.
        on_progress: Called with a description, the finished part and the total.
    """
    data = measure(
        model,
        windows,
        context=context,
        samples=samples,
        seed=seed,
        on_window=lambda done, total: on_progress("Predicting windows", done, total),
    )
    parts = itertools.count(1)
    metrics = compute_metrics(
        data, seed=seed, on_part=lambda part: on_progress("Computing metrics", next(parts), 3)
    )
    image = choose_image(dict(model.schema.obs), None)
    names = select_windows(data, image)
    batch = _select(windows, list(names))
    open_loop = [
        replace(rollout, title=f"{name}: {rollout.title}")
        for name, rollout in zip(
            names.values(),
            open_loop_rollouts(model, batch, context=context, seed=seed),
            strict=True,
        )
    ]
    median = _select(windows, [window for window, name in names.items() if "median" in name])
    (futures,) = open_loop_rollouts(model, median, context=context, samples=FUTURES, seed=seed)
    checkpoints = list(_checkpoints(metrics, earlier, windows, seed, update, on_progress))
    intervention, frames = _intervene(model, windows, image, metrics, seed, on_progress)
    episodes = []
    if policy is not None:
        episodes = imagine_episodes(
            policy, windows, context=context, horizon=data.horizon, seed=seed, actions=actions
        )
    return ReportContent(
        metrics=metrics,
        calibration=calibrate(data, seed=seed),
        image=image,
        open_loop=open_loop,
        futures=futures,
        reconstructions=reconstruction_rollouts(model, batch, seed),
        checkpoints=checkpoints,
        intervention=intervention,
        intervention_frames=frames,
        imagined_episodes=episodes,
    )


def select_windows(data: Measurements, image: str | None) -> Mapping[int, str]:
    """Indices of the windows with the worst, the median and the best error, with these names.

    Errors are relative to those of repeating the last observed frame. Only windows of full length
    are compared.
    """
    key = image or next(iter(data.obs))
    errors, ahead = data.obs[key], data.ahead
    error = (errors.error.mean(1) * ahead).sum(1)
    copied = np.maximum((errors.copy * ahead).sum(1), 1e-9)
    rows = ahead.sum(1)
    full = np.flatnonzero(rows == rows.max())
    order = full[np.argsort((error / copied)[full], kind="stable")[::-1]].tolist()
    if len(order) == 1:
        return {order[0]: "median"}
    if len(order) == 2:
        return {order[0]: "worst, median", order[1]: "best"}
    return {order[0]: "worst", order[len(order) // 2]: "median", order[-1]: "best"}


def _select(windows: Sequence[Batch], numbers: Sequence[int]) -> Batch:
    """Some windows of several batches as one batch."""
    positions = [(n, row) for n, batch in enumerate(windows) for row in range(len(batch.reward))]
    chosen = [positions[number] for number in numbers]

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


def _checkpoints(
    metrics: ModelMetrics,
    earlier: Iterable[tuple[int, Predictor]],
    windows: Sequence[Batch],
    seed: int,
    update: int,
    on_progress: OnProgress,
) -> Iterable[CheckpointUsage]:
    """Code usage of earlier checkpoints and of the model; empty without discrete latents."""
    if metrics.codes is None or metrics.prior_usage is None:
        return
    count = max(1, CHECKPOINT_WINDOWS // len(windows[0].reward))
    for number, (step, model) in enumerate(earlier, start=1):
        posterior, prior = code_distributions(model, windows[:count], seed=seed)
        on_progress("Evaluating checkpoints", number, number)
        yield CheckpointUsage(step, code_usage(posterior), prior.mean(0))
    yield CheckpointUsage(update, metrics.codes, metrics.prior_usage)


def _intervene(
    model: LoadedModel,
    windows: Sequence[Batch],
    image: str | None,
    metrics: ModelMetrics,
    seed: int,
    on_progress: OnProgress,
) -> tuple[Intervention | None, list[str]]:
    """Set the codes of frames in the middle of some windows."""
    if image is None or metrics.codes is None:
        return None, []
    batch = windows[0]
    rows, steps, names = middle_rows(batch, INTERVENTION_FRAMES)
    intervention = set_codes(
        model,
        model.observe_batch(batch, seed),
        (rows, steps),
        image,
        metrics.codes,
        on_variable=lambda done, total: on_progress("Changing codes", done, total),
    )
    return intervention, names
