"""Progress of an online run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wmtk.collecting import EvalReport
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.replay import Replay
from wmtk.runs.run_directory import Run
from wmtk.training.loop import TrainProgress
from wmtk.training.run_eval import confirmation_metrics, eval_metrics
from wmtk.training.timing import Timer


@dataclass(frozen=True)
class Score:
    """The result of an evaluation."""

    steps: int  # agent steps collected before it
    mean_return: float
    imagined: float  # the critic's value of the first states, averaged over episodes
    discounted: float  # the discounted return, averaged over episodes
    confirmed: float | None = None  # mean return of the second set of episodes, after a best score

    @classmethod
    def of(cls, report: Mapping[str, float]) -> Score:
        """The score of a line of metrics; NaN for critic's values, which older runs did not log."""
        values = (report.get(f"eval/{name}_return") for name in ("predicted", "discounted"))
        predicted, discounted = (math.nan if value is None else value for value in values)
        confirmed = report.get("eval/confirmed_return")
        steps = int(report["steps/agent"])
        return cls(steps, report["eval/return"], predicted, discounted, confirmed)


@dataclass(frozen=True)
class OnlineProgress:
    """The state of an online run, passed to `on_progress` during collection and after updates."""

    steps: int  # agent steps, including those of unfinished episodes
    action_repeat: int  # frames per step
    updates: int
    returns: Sequence[float]  # of the episodes in the replay, oldest first; grows during the run
    episodes: int  # episodes added to the replay so far, including evicted ones
    scores: Sequence[Score]  # of all evaluations
    losses: Mapping[str, float]  # of the last report, for a progress line
    shares: Mapping[str, float]  # of the time, by part


class ProgressTracker:
    """Aggregates events and calls `on_progress`."""

    def __init__(
        self,
        run: Run,
        action_repeat: int,
        replay: Replay,
        timer: Timer,
        on_progress: Callable[[OnlineProgress], None],
    ) -> None:
        self._action_repeat, self._replay, self._timer = action_repeat, replay, timer
        self._on_progress = on_progress
        self._steps, self._updates = replay.steps, run.step
        self._losses: Mapping[str, float] = {}
        self.scores = [
            Score.of(report)
            for report in read_metrics(run.path)
            if report["step"] <= run.step
            if report.get("eval/return") is not None and report.get("steps/agent") is not None
        ]

    def collected(self, steps: int) -> None:
        """Report that the environments have made `steps` steps in total."""
        self._steps = steps
        self._report()

    def updated(self, progress: TrainProgress) -> None:
        """Report an update."""
        self._updates, self._losses = progress.step, progress.losses
        self._report()

    def evaluated(self, report: EvalReport, confirmation: EvalReport | None) -> dict[str, float]:
        """Record an evaluation; returns its metrics.

        `confirmation` is the second set of episodes, which is run after a best score.
        """
        metrics = {"steps/agent": float(self._steps), **eval_metrics(report)}
        metrics |= confirmation_metrics(confirmation) if confirmation else {}
        self.scores.append(Score.of(metrics))
        return metrics

    def _report(self) -> None:
        self._on_progress(
            OnlineProgress(
                steps=self._steps,
                action_repeat=self._action_repeat,
                updates=self._updates,
                returns=self._replay.returns,
                episodes=self._replay.episodes,
                scores=self.scores,
                losses=self._losses,
                shares=self._timer.shares(),
            )
        )
