"""Playing the task with the policy as it is, to see how good it has become."""

from __future__ import annotations

from statistics import fmean, pstdev

from wmtk.collect import EvalReport, PlayProgress, evaluate
from wmtk.datasets import Schema
from wmtk.training.acting import ActorPolicy
from wmtk.training.mind import ActorMind
from wmtk.training.playing import Playing

ENVS = 10  # that play side by side at most


def examine(
    playing: Playing, schema: Schema, policy: ActorPolicy, episodes: int
) -> EvalReport | None:
    """Play episodes, the same each time as far as the seed decides; None if told to stop.

    What the critic expects of them is asked as well.
    """

    def watch(_: PlayProgress) -> None:
        if playing.stop():
            raise KeyboardInterrupt

    report = evaluate(
        playing.task,
        policy,
        episodes=episodes,
        seed=playing.seed,
        envs=min(episodes, ENVS),
        workers=playing.workers,
        timeout=playing.timeout,
        schema=schema,
        mind=ActorMind(policy),
        on_progress=watch,
        on_message=playing.on_message,
    )
    return None if report.interrupted else report


def scores(report: EvalReport) -> dict[str, float]:
    """What to log of an evaluation: returns, and what the critic expected beside what came."""
    returns = report.returns
    return {
        "eval/return": fmean(returns),
        "eval/return_std": pstdev(returns),
        "eval/return_min": min(returns),
        "eval/return_max": max(returns),
        "eval/length": fmean(report.lengths),
        "eval/imagined": fmean(report.imagined),
        "eval/discounted": fmean(report.discounted),
    }
