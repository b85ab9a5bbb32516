"""Progress of `wmtk online`: a dashboard on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from rich.text import Text

from wmtk.cli.common import console
from wmtk.cli.common.console import human_count, human_time, note

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wmtk.runs.training_config import OnlineConfig
    from wmtk.training.online.progress import OnlineProgress

RECENT = 20  # episodes whose mean return is shown
WIDTH = 48  # characters of a sparkline
REFRESH = 2  # times a second
WINDOW = 60  # seconds over which speed is measured
MAX_INTERVAL = 60.0  # seconds between lines
BARS = "▁▂▃▄▅▆▇█"
# The parts of the time, in the order in which they are shown; others come last.
PARTS = ("collect", "data wait", "model", "behavior", "eval")


def pace_of(config: OnlineConfig) -> str:
    """The interval between updates, to follow the word "every"."""
    return "step" if config.train_every == 1 else f"{config.train_every:g} steps"


class View:
    """The progress of a run as a line or a panel."""

    def __init__(self, task: str, config: OnlineConfig, batch: int, steps: int) -> None:
        self._task, self._config, self._batch, self._target = task, config, batch, steps
        self._began = self._printed_at = time.monotonic()
        self._marks: deque[tuple[float, int, int]] = deque()  # time, steps, updates
        self.last: OnlineProgress | None = None

    def update(self, progress: OnlineProgress) -> None:
        self.last = progress
        now = time.monotonic()
        if not self._marks or now - self._marks[-1][0] >= 1:
            self._marks.append((now, progress.steps, progress.updates))
            while now - self._marks[0][0] > WINDOW:
                self._marks.popleft()
            if not console.err.is_terminal:
                self._print_if_due(now)

    # --- lines ---

    def _print_if_due(self, now: float) -> None:
        # Less often in a longer run, to keep log files short.
        interval = (now - self._began) / 20
        if now - self._printed_at >= min(max(interval, console.PLAIN_INTERVAL), MAX_INTERVAL):
            self._printed_at = now
            note(self.line())

    def line(self) -> str:
        p = self.last
        if p is None:
            return f"{self._task}: starting"
        parts = [self._amount(p), human_count(p.updates, "update")]
        if p.returns:
            parts.append(f"return {fmean(p.returns[-RECENT:]):.4g}")
        if p.scores:
            parts.append(f"tested {p.scores[-1].mean_return:.4g}")
        parts += [f"{name} {value:.3g}" for name, value in p.losses.items()]
        return f"{self._task}: {', '.join([*parts, *self._speed(p)])}"

    # --- the dashboard ---

    def panel(self) -> RenderableType:
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        p = self.last
        if p is None:
            return Panel("starting", title=Text(self._task), title_align="left")
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="bold")
        rows.add_column()
        bar = ProgressBar(self._target or 1, min(p.steps, self._target or 1), width=WIDTH)
        rows.add_row("progress", bar)
        rows.add_row("", ", ".join([self._amount(p), *self._speed(p)]))
        rows.add_row("collected", self._collected(p))
        rows.add_row("updates", self._updates(p))
        rows.add_row("return", _returns(p.returns))
        rows.add_row("tested", _scores(p))
        rows.add_row("losses", _columns({n: f"{v:.3g}" for n, v in p.losses.items()}))
        rows.add_row("time", _columns({n: f"{v:.0%}" for n, v in _in_order(p.shares)}))
        elapsed = human_time(time.monotonic() - self._began)
        return Panel(
            rows,
            title=Text(self._task),  # a str would be markup
            title_align="left",
            subtitle=elapsed,
            subtitle_align="right",
        )

    def _amount(self, p: OnlineProgress) -> str:
        share = f" ({min(p.steps / self._target, 1):.0%})" if self._target else ""
        return f"{human_count(p.steps)} of {human_count(self._target, 'step')}{share}"

    def _speed(self, p: OnlineProgress) -> list[str]:
        """Steps per second, and the remaining time, from the remaining updates.

        Before the first update, the remaining time of the random steps.
        """
        then, steps, updates = self._marks[0]
        seconds = time.monotonic() - then
        if seconds < 1:
            return []
        speed = [f"{(p.steps - steps) / seconds:.3g} steps/s"] if p.steps > steps else []
        left = self._config.updates_at(self._target) - p.updates
        if p.updates > updates and left > 0:
            speed.append(f"{human_time(left * seconds / (p.updates - updates))} left")
        random = self._config.prefill - p.steps
        if p.updates == 0 and p.steps > steps and random > 0:
            remaining = human_time(random * seconds / (p.steps - steps))
            speed.append(f"{remaining} of random steps left")
        return speed

    def _collected(self, p: OnlineProgress) -> str:
        counts = [human_count(p.steps, "agent step"), human_count(p.steps * p.action_repeat)]
        return f"{counts[0]} = {counts[1]} frames, {human_count(p.episodes, 'episode')}"

    def _updates(self, p: OnlineProgress) -> str:
        config = self._config
        if p.updates == 0:
            return f"none before {human_count(config.prefill, 'random step')}"
        ratio = f"{self._batch / config.train_every:.4g} replayed steps per step"
        return f"{human_count(p.updates)}, one every {pace_of(config)}: {ratio}"


def _returns(returns: Sequence[float]) -> str:
    if not returns:
        return "no episode yet"
    recent = fmean(returns[-RECENT:])
    return f"{sparkline(returns)}  recent {recent:.4g}, best {max(returns):.4g}"


def _scores(p: OnlineProgress) -> str:
    if not p.scores:
        return "not yet"
    means = [score.mean_return for score in p.scores]
    best = max([s.confirmed for s in p.scores if s.confirmed is not None], default=max(means))
    last = p.scores[-1]
    at = human_count(last.steps, "step")
    return (
        f"{sparkline(means)}  {means[-1]:.4g} at {at}, best {best:.4g}\n"
        f"discounted {last.discounted:.3g}, where the critic expected {last.imagined:.3g}"
    )


def sparkline(values: Sequence[float], width: int = WIDTH // 2) -> str:
    """Bars of the means over `width` equal parts of the values, in order."""
    count = min(width, len(values))
    edges = [round(index * len(values) / count) for index in range(count + 1)]
    means = [fmean(values[a:b]) for a, b in pairwise(edges)]
    low, span = min(means), max(means) - min(means)
    if span <= 0:
        return BARS[0] * count
    return "".join(BARS[round((mean - low) / span * (len(BARS) - 1))] for mean in means)


def _in_order(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    rest = [name for name in shares if name not in PARTS]
    return [(name, shares[name]) for name in (*PARTS, *rest) if name in shares]


def _columns(values: Mapping[str, str]) -> Text:
    text = Text()
    for name, value in values.items():
        text.append(f"{name} ", style="dim")
        text.append(f"{value}   ")
    return text if values else Text("none yet", style="dim")


@contextmanager
def dashboard(task: str, config: OnlineConfig, batch: int, steps: int) -> Iterator[View]:
    """Show progress while the block runs; `batch` is the number of steps replayed per update."""
    view = View(task, config, batch, steps)
    if not console.err.is_terminal:
        yield view
        note(view.line())
        return
    from rich.live import Live

    # Drawn in a separate thread, so that training does not wait for it.
    with Live(
        get_renderable=view.panel,
        console=console.err,
        refresh_per_second=REFRESH,
        redirect_stdout=console.out.file is not sys.stdout,  # results belong on stdout
    ):
        yield view
