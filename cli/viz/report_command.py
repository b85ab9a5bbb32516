"""`wmtk viz report`: everything about a model in one HTML file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import Progress, emit_text, human_bytes, progress
from wmtk.cli.common.options import Json
from wmtk.cli.viz.window_options import (
    CONTEXT,
    HORIZON,
    Checkpoint,
    Context,
    DataPath,
    Device,
    Horizon,
    Look,
    RunPath,
    Samples,
    Seed,
    open_look,
)

if TYPE_CHECKING:
    from wmtk.agent.load import LoadedModel
    from wmtk.viz.evaluation.verdict import Verdict
    from wmtk.viz.html_report import About

NOUNS = {
    "Looking at windows": "window",
    "Computing metrics": "part",
    "Looking at checkpoints": "checkpoint",
    "Changing codes": "code",
    "Drawing films": "film",
}


@dataclass(frozen=True)
class ReportReport:
    path: Path
    run: Path
    update: int
    checkpoint: str  # the hash of the weights
    dataset: Path
    version: int  # of the dataset
    held_out: str
    windows: int
    episodes: int
    seed: int
    reliable_steps: int  # steps up to which predictions are reliable
    steps_above_baselines: int  # steps up to which they are better than the baselines
    verdict: Verdict
    bytes: int


def report(
    run: RunPath,
    data: DataPath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The .html to write.", show_default="RUN/report/report.html"
        ),
    ] = None,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: Samples = 5,
    windows: Annotated[int, typer.Option(min=1, help="Windows to look at, in all.")] = 50,
    episodes: Annotated[
        int | None,
        typer.Option(min=1, help="Episodes to draw them from, at most.", show_default="all"),
    ] = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Write all there is to see of a model into one HTML file, with a verdict in words.

    Films, curves, rewards and ends, codes and what they move, the dataset, settings and
    definitions. The file opens in any browser from disk, without a network.

    \b
    Examples:
      wmtk viz report runs/catch catch.zarr
      wmtk viz report runs/catch catch.zarr --out catch.html --windows 100
    """
    from wmtk.agent.load import LoadedAgent
    from wmtk.viz.draw.episode_view import view_of
    from wmtk.viz.evaluation.verdict import verdict
    from wmtk.viz.html_report import look_closely, report_page, require_report, write_report

    path = out or run / "report" / "report.html"
    require_report(path)
    look = open_look(
        run,
        data,
        context=context,
        horizon=horizon,
        count=windows,
        episodes=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    with _Stages() as stages:
        found = look_closely(
            look.model,
            look.batches(),
            context=context,
            samples=samples,
            seed=seed,
            earlier=_earlier(look.model, device),
            update=look.model.step,
            policy=look.model if isinstance(look.model, LoadedAgent) else None,
            actions=view_of(look.dataset).actions,
            tell=stages.tell,
        )
        page = report_page(
            found,
            _about(look, run, seed),
            on_film=lambda done, total: stages.tell("Drawing films", done, total),
        )
    size = write_report(path, page)
    judged = verdict(found.evaluation)
    result = ReportReport(
        path=path,
        run=run,
        update=look.model.step,
        checkpoint=look.model.hash,
        dataset=data,
        version=look.dataset.version,
        held_out=look.held_out,
        windows=len(look.windows),
        episodes=look.episodes,
        seed=seed,
        reliable_steps=found.evaluation.reliable_steps,
        steps_above_baselines=found.evaluation.steps_above_baselines,
        verdict=judged,
        bytes=size,
    )
    emit_text(result, f"{path}: {judged.headline} {human_bytes(size)}.", json=json)


def _earlier(model: LoadedModel, device: str) -> Iterator[tuple[int, LoadedModel]]:
    """The checkpoints of the same training before this one, loaded when they are asked for.

    A policy leaves its world model as it is: there is nothing to compare.
    """
    from wmtk.agent.device import choose_device
    from wmtk.agent.load import load

    for step in model.run.checkpoints.steps():
        if step < model.step and model.run.kind != "policy":
            yield step, load(model.run.path, str(step), choose_device(device))


def _about(look: Look, run: Path, seed: int) -> About:
    from wmtk.datasets.storage import atomic
    from wmtk.runs.metrics_log import read_metrics
    from wmtk.version import code_version
    from wmtk.viz.html_report import About

    folder = look.model.run.path
    commands = folder / "command.txt"
    return About(
        name=folder.resolve().name,
        run=str(run),
        kind=look.model.run.kind,
        update=look.model.step,
        hash=look.model.hash,
        facts=look.model.run.about,
        config=(folder / "config.yaml").read_text(),
        commands=commands.read_text() if commands.exists() else "",
        history=read_metrics(folder),
        dataset=look.dataset,
        held_out=look.held_out,
        seed=seed,
        made=atomic.timestamp(),
        command=shlex.join(["wmtk", *sys.argv[1:]]),
        version=code_version(),
    )


class _Stages:
    """A progress bar for each kind of work, one after the other."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._name = ""
        self._bar: Progress | None = None

    def __enter__(self) -> _Stages:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def tell(self, name: str, done: int, total: int) -> None:
        if name != self._name:
            self._stack.close()
            self._name = name
            self._bar = self._stack.enter_context(progress(name, total, noun=NOUNS[name]))
        assert self._bar is not None
        self._bar.update(completed=done, total=total)
