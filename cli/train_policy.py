"""`wmtk train-policy`: an actor and a critic inside of a trained world model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wmtk.cli.common import console, stdout
from wmtk.cli.common.console import human_count
from wmtk.cli.common.env_options import TrustEnv
from wmtk.cli.common.run_options import (
    comparison_of,
    existing_run,
    require_used,
    say,
    set_up,
    source_of,
    steps_of,
)
from wmtk.cli.common.signals import StopOnSignal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wmtk.runs.run_directory import Run
    from wmtk.runs.training_config import TrainingConfig
    from wmtk.training.loop import TrainProgress

STEPS = 10_000
SECTIONS = ("behavior", "data", "logging", "precision", "compile")


def train_policy(
    model: Annotated[
        Path, typer.Argument(help="The run directory of a world model.", metavar="MODEL_RUN")
    ],
    out: Annotated[Path, typer.Option(help="The run directory to write.", show_default=False)],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Datasets to start from; path=2 is drawn from twice as often.",
            metavar="[DATA...]",
            show_default="the model's",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Updates in all.", show_default=str(STEPS))
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, such as behavior.entropy=3e-4.")
    ] = None,
    penalty: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="What a unit of disagreement takes off an imagined reward.",
            show_default="0",
        ),
    ] = None,
    explore: Annotated[
        Literal["disagreement"] | None,
        typer.Option(help="Train a second actor, which seeks what the model does not know."),
    ] = None,
    ablate: Annotated[
        list[str] | None, typer.Option(help="An ablation of the paper, such as mixed-gradients.")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(help="Which of the model: latest, best, or an update's number.")
    ] = "latest",
    test: Annotated[
        int, typer.Option(min=0, help="Episodes of the real task to play at the end; 0 is none.")
    ] = 10,
    trust_env: TrustEnv = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=console.MAX_SEED, help="Of weights and batches.", show_default="0"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run if it is there already.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train an actor and a critic inside of a world model.

    They play in imagination, from states of the recorded data; the model stays as it is. The run
    directory gets a copy of it, so that the policy acts on its own: as --policy of wmtk collect,
    or as wmtk.load(RUN).policy(obs). The settings are those of the model's run; those that begin
    with behavior, data and cadence may be changed.

    Whoever trains long in a model that stays as it is learns to exploit its errors. An ensemble of
    predictors tells what the data says nothing about: --penalty makes imagined steps cost what its
    members disagree by, --explore disagreement trains an actor that seeks just such steps, for
    wmtk collect to find out about them. At the end some episodes of the real task are played, and
    what the critic expected stands beside what came; wmtk eval plays more of them.

    Ctrl-C finishes the update, saves a checkpoint and exits with code 130; the same command with
    --resume goes on as if nothing had happened.

    \b
    Examples:
      wmtk train-policy runs/catch --out runs/catch-policy --steps 5000
      wmtk train-policy runs/pong --out runs/lively --set behavior.entropy=3e-3
      wmtk train-policy runs/pong --out runs/careful --penalty 10
      wmtk train-policy runs/pong --out runs/curious --explore disagreement
      wmtk train-policy runs/pong expert.zarr --out runs/pong-policy
      wmtk collect wmtk/Catch-v0 --policy runs/catch-policy --out played.zarr --episodes 20
    """
    stdout.reserve()
    from wmtk.agent.device import choose_device
    from wmtk.training.policy_stage import train_policy as run
    from wmtk.version import code_version

    chosen = choose_device(device)
    before = existing_run(out) if resume else None
    changes = console.settings(overrides or [])
    require_used(changes, SECTIONS, "train-policy")
    chosen_here = {"behavior.penalty": penalty, "behavior.explore": explore}
    changes |= {name: value for name, value in chosen_here.items() if value is not None}
    config = _config(before, model, ablate or [], changes)
    set_up(config, chosen)
    wanted = steps or steps_of(before, STEPS)
    begun_at = before.step if before else 0
    if before and begun_at >= wanted and not (test and _owes_test(before)):
        say(f"{out} is finished: it has {human_count(begun_at, 'update')}, and a larger --steps")
        say("would go on with it.")
        console.emit(_result(before), json=json, render=_render)
        return
    sources = [source_of(text) for text in data] if data else None
    say(f"model {model}, update {checkpoint}, on {chosen}, wmtk {code_version()}")
    stopping = StopOnSignal("Stopping after this update; once more ends at once.")
    with stopping, console.progress("Training", wanted, noun="update", begun_at=begun_at) as bar:
        made = run(
            model,
            out,
            updates=wanted,
            datasets=sources,
            config=config,
            checkpoint=checkpoint,
            seed=seed,
            device=chosen,
            resume=resume,
            episodes=test,
            trust_env=trust_env or [],
            on_progress=lambda p: bar.update(completed=p.step, description=_describe(p)),
            stop=lambda: stopping.asked,
            on_message=say,
            on_note=say,
        )
    console.emit(_result(made), json=json, render=_render)
    if made.step < wanted or _owes_test(made):
        say("Interrupted; everything is saved. To go on, run the same command again with this")
        say("added at its end:\n--resume")
        raise typer.Exit(console.INTERRUPTED)


def _config(
    before: Run | None, model: Path, ablations: list[str], changes: dict[str, Any]
) -> TrainingConfig:
    """The settings of the run that is resumed, or of the model's, with changes."""
    from wmtk.agent.saved_sizes import require_saved_sizes
    from wmtk.runs.run_directory import Run
    from wmtk.training.presets import with_overrides

    origin = before or Run(model)
    config = with_overrides(origin.settings, ablations, changes)
    if before is not None:
        require_saved_sizes(before, config)
    return config


def _owes_test(run: Run) -> bool:
    """Whether the test at the end of a run was interrupted."""
    state = run.state()
    return state is not None and state.owes_test


def _describe(progress: TrainProgress) -> str:
    shown = [f"{name} {value:.3g}" for name, value in progress.losses.items()]
    return f"Training: {', '.join(shown)}" if shown else "Training"


def _result(run: Run) -> dict[str, Any]:
    """What came of a run: its last report, and the test at its end if there was one."""
    from wmtk.runs.metrics_log import read_metrics

    last = test = None
    for report in read_metrics(run.path):
        if report.get("eval/return") is not None:
            test = report
        else:
            last = report
    return {
        "run": console.short_path(run.path),
        "steps": run.step,
        "last": last,
        "test": test,
        "comparison": comparison_of(run),
    }


def _render(result: dict[str, Any]) -> RenderableType:
    from rich.table import Table

    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")  # what is cut off cannot be copied
    table.add_row("run", result["run"])
    table.add_row("updates", human_count(result["steps"]))
    if last := result["last"]:
        for title, name in _SHOWN.items():
            if last.get(f"train/{name}") is not None:
                table.add_row(title, f"{last[f'train/{name}']:.4g}")
    # The return above is what the model promises: how much of it is true, only the task can tell.
    if test := result["test"]:
        tested = f"{test['eval/return']:.4g} ± {test['eval/return_std']:.3g}"
        table.add_row("real return", f"{tested}, in a test of update {test['step']:,}")
        expected, came = test.get("eval/imagined"), test.get("eval/discounted")
        if expected is not None and came is not None:
            table.add_row("discounted", f"the critic expected {expected:.3g}, and {came:.3g} came")
        if result["comparison"]:
            table.add_row("result", result["comparison"]["sentence"])
        table.add_row("more", f"wmtk eval {shlex.quote(str(result['run']))}")
    else:
        table.add_row("real return", f"wmtk eval {shlex.quote(str(result['run']))}")
    table.add_row("look", f"tensorboard --logdir {result['run']}")
    table.add_row("use", f'wmtk.load("{result["run"]}").policy(obs)')
    return table


_SHOWN = {
    "imagined return": "imagined/return",
    "value": "critic/value",
    "entropy": "entropy/actor",
    "disagreement": "disagreement/imagined",
    "on the data": "disagreement/data",
    "of the explorer": "explorer/disagreement/imagined",
}
