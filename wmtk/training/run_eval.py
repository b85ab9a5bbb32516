"""EnvSetup the task with the policy as it is, to see how good it has become."""

from __future__ import annotations

from statistics import fmean, pstdev

import numpy as np

from wmtk.agent.actor_policy import ActorIntrospector, ActorPolicy
from wmtk.collecting import EvalReport, RolloutProgress, evaluate_policy
from wmtk.collecting.env_setup import EnvSetup
from wmtk.datasets import Schema
from wmtk.scores import summarize_returns

ENVS = 10  # that play side by side at most
CONFIRMATION = int.from_bytes(b"confirm")


def run_eval(
    playing: EnvSetup,
    schema: Schema,
    policy: ActorPolicy,
    episodes: int,
    seed: int | None = None,
) -> EvalReport | None:
    """Play episodes, by default those of the run's seed each time; None if told to stop.

    What the critic expects of them is asked as well.
    """

    def watch(_: RolloutProgress) -> None:
        if playing.stop():
            raise KeyboardInterrupt

    report = evaluate_policy(
        playing.task,
        policy,
        episodes=episodes,
        seed=playing.seed if seed is None else seed,
        envs=min(episodes, ENVS),
        workers=playing.workers,
        timeout=playing.timeout,
        schema=schema,
        introspector=ActorIntrospector(policy),
        max_episode_steps=playing.max_episode_steps,
        on_progress=watch,
        on_message=playing.on_message,
    )
    return None if report.interrupted else report


def confirmation_seed(seed: int, step: int) -> int:
    """The seed of the second set of episodes that a new best score is confirmed by."""
    return int(np.random.SeedSequence([seed, step, CONFIRMATION]).generate_state(1)[0])


def confirmed(report: EvalReport) -> dict[str, float]:
    """What to log of the second set of episodes of a test that beat the best one.

    The best of several means is too high by chance. The mean of episodes that had no part in the
    choice is not, so that it is the score by which the best checkpoint is kept.
    """
    return {"eval/confirmed": fmean(report.returns), **_interval("eval/confirmed", report)}


def _interval(name: str, report: EvalReport) -> dict[str, float]:
    summary = summarize_returns(report.returns)
    if summary.low is None or summary.high is None:
        return {}
    return {f"{name}_low": summary.low, f"{name}_high": summary.high}


def scores(report: EvalReport) -> dict[str, float]:
    """What to log of an evaluation: returns, and what the critic expected beside what came."""
    returns = report.returns
    return {
        "eval/episodes": len(returns),
        "eval/return": fmean(returns),
        **_interval("eval/return", report),
        "eval/return_std": pstdev(returns),
        "eval/return_min": min(returns),
        "eval/return_max": max(returns),
        "eval/length": fmean(report.lengths),
        "eval/imagined": fmean(report.predicted_returns),
        "eval/discounted": fmean(report.discounted_returns),
    }
