"""How far an online run is, put together from those who play, learn and examine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wmtk.collecting import EvalReport
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.replay import Replay
from wmtk.runs.run_directory import Run
from wmtk.training.loop import TrainProgress
from wmtk.training.run_eval import confirmed, scores
from wmtk.training.timing import Timer


@dataclass(frozen=True)
class Score:
    """What an evaluation came to."""

    steps: int  # agent steps that had been played
    mean_return: float
    imagined: float  # what the critic expected of the episodes' first states
    discounted: float  # what came of them, discounted in the same way
    confirmed: float | None = None  # the mean of a second set of episodes, if it was the best

    @classmethod
    def of(cls, report: Mapping[str, float]) -> Score:
        """From what was logged; runs of before did not ask the critic."""
        both = (report.get(f"eval/{name}") for name in ("imagined", "discounted"))
        imagined, discounted = (math.nan if value is None else value for value in both)
        again = report.get("eval/confirmed")
        steps = int(report["steps/agent"])
        return cls(steps, report["eval/return"], imagined, discounted, again)


@dataclass(frozen=True)
class OnlineProgress:
    """Handed to `on_progress` after every round of play and every update."""

    steps: int  # agent steps, those of unfinished episodes too
    action_repeat: int  # frames of a step
    updates: int
    returns: Sequence[float]  # of the episodes so far, oldest first; the list grows
    episodes: int  # that were ever played
    scores: Sequence[Score]  # of the evaluations so far
    losses: Mapping[str, float]  # of the last report: the few that are worth showing
    shares: Mapping[str, float]  # of the time, by part


class ProgressTracker:
    """Is told what happens, and tells on."""

    def __init__(
        self,
        run: Run,
        action_repeat: int,
        replay: Replay,
        parts: Timer,
        on_progress: Callable[[OnlineProgress], None],
    ) -> None:
        self._action_repeat, self._replay, self._parts = action_repeat, replay, parts
        self._on_progress = on_progress
        self._steps, self._updates = replay.steps, run.step
        self._losses: Mapping[str, float] = {}
        self.scores = [
            Score.of(report)
            for report in read_metrics(run.path)
            if report["step"] <= run.step
            if report.get("eval/return") is not None and report.get("steps/agent") is not None
        ]

    def round(self, steps: int) -> None:
        """A round was played; `steps` so far."""
        self._steps = steps
        self._tell()

    def update(self, progress: TrainProgress) -> None:
        self._updates, self._losses = progress.step, progress.losses
        self._tell()

    def examined(self, report: EvalReport, again: EvalReport | None = None) -> dict[str, float]:
        """An evaluation is over, `again` with the second set of a new best; what to log of it."""
        values = {"steps/agent": float(self._steps), **scores(report)}
        values |= confirmed(again) if again else {}
        self.scores.append(Score.of(values))
        return values

    def _tell(self) -> None:
        self._on_progress(
            OnlineProgress(
                steps=self._steps,
                action_repeat=self._action_repeat,
                updates=self._updates,
                returns=self._replay.returns,
                episodes=self._replay.episodes,
                scores=self.scores,
                losses=self._losses,
                shares=self._parts.shares(),
            )
        )
