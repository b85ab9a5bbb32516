"""Evaluation episodes of a training run, and their metrics."""

from __future__ import annotations

from statistics import fmean, pstdev

import numpy as np

from wmtk.agent.actor_policy import ActorIntrospector, ActorPolicy
from wmtk.collecting import EvalReport, RolloutProgress, evaluate_policy
from wmtk.collecting.env_setup import EnvSetup
from wmtk.datasets import Schema
from wmtk.scores import summarize_returns

ENVS = 10  # maximum number of parallel environments
CONFIRMATION = int.from_bytes(b"confirm")


def run_eval(
    env: EnvSetup,
    schema: Schema,
    policy: ActorPolicy,
    episodes: int,
    seed: int | None = None,
) -> EvalReport | None:
    """Evaluate a policy and its critic; returns None if a stop was requested meanwhile.

    The default seed is that of the run: all evaluations have the same initial states.
    """

    def require_running(_: RolloutProgress) -> None:
        if env.stop():
            raise KeyboardInterrupt

    report = evaluate_policy(
        env.task,
        policy,
        episodes=episodes,
        seed=env.seed if seed is None else seed,
        envs=min(episodes, ENVS),
        workers=env.workers,
        timeout=env.timeout,
        schema=schema,
        introspector=ActorIntrospector(policy),
        max_episode_steps=env.max_episode_steps,
        on_progress=require_running,
        on_message=env.on_message,
    )
    return None if report.interrupted else report


def confirmation_seed(seed: int, step: int) -> int:
    """The seed of the episodes that confirm a new best score."""
    return int(np.random.SeedSequence([seed, step, CONFIRMATION]).generate_state(1)[0])


def confirmation_metrics(report: EvalReport) -> dict[str, float]:
    """Metrics of the second set of episodes, which is run after a best score.

    The maximum of several means is biased upward by selection. The mean of further episodes is
    unbiased; it selects the best checkpoint.
    """
    return {
        "eval/confirmed_return": fmean(report.returns),
        **_interval("eval/confirmed_return", report),
    }


def eval_metrics(report: EvalReport) -> dict[str, float]:
    """Metrics of an evaluation: returns, discounted returns and the critic's estimates of them."""
    returns = report.returns
    return {
        "eval/episodes": len(returns),
        "eval/return": fmean(returns),
        **_interval("eval/return", report),
        "eval/return_std": pstdev(returns),
        "eval/return_min": min(returns),
        "eval/return_max": max(returns),
        "eval/length": fmean(report.lengths),
        "eval/predicted_return": fmean(report.predicted_returns),
        "eval/discounted_return": fmean(report.discounted_returns),
    }


def _interval(name: str, report: EvalReport) -> dict[str, float]:
    summary = summarize_returns(report.returns)
    if summary.low is None or summary.high is None:
        return {}
    return {f"{name}_low": summary.low, f"{name}_high": summary.high}
