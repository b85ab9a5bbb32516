"""`wmtk data`: inspect, maintain and transform episode datasets."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from wmtk.cli.common.console import confirm, emit, emit_text, human_count
from wmtk.cli.common.options import Json
from wmtk.cli.data import transform_commands, view_commands
from wmtk.cli.data.dataset_options import DatasetPath, TagOption, Yes, counted, open_dataset
from wmtk.cli.data.dataset_tables import (
    Listed,
    render_info,
    render_list,
    render_repair,
    render_tags,
    render_validation,
)
from wmtk.errors import CorruptDatasetError, UsageError, WmtkError

INSPECT, MAINTAIN, TRANSFORM = "Inspection", "Maintenance", "Transformation and conversion"

app = typer.Typer(
    no_args_is_help=True,
    help="""Inspect, repair, transform and convert datasets.

    \b
    Examples:
      wmtk data info catch.zarr
      wmtk data play catch.zarr --episode -1
      wmtk data merge monday.zarr tuesday.zarr --out week.zarr
    """,
)


# --- inspection -------------------------------------------------------------------------------


@app.command(rich_help_panel=INSPECT)
def info(dataset: DatasetPath, tag: TagOption = None, json: Json = False) -> None:
    """Show counts, returns, spaces, provenance, size and tags.

    The newest version is shown unless --tag names another one.

    \b
    Examples:
      wmtk data info runs/catch.zarr
      wmtk data info runs/catch.zarr --tag before-tuning --json
    """
    from wmtk.datasets.summary import summarize

    with open_dataset(dataset, tag) as opened:
        emit(summarize(opened, tag=tag), json=json, render=render_info)


@app.command("list", rich_help_panel=INSPECT)
def list_datasets(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Searched with all folders below it.")
    ] = Path(),
    json: Json = False,
) -> None:
    """List the datasets under a folder.

    Each row shows the task, the number of episodes and steps, the mean return, the size on disk and
    the number of tags.

    \b
    Example:
      wmtk data list runs
    """
    from wmtk.datasets.summary import find_datasets

    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder.", "Pass the folder that contains the datasets."
        )
    rows = [_listed(path) for path in find_datasets(folder)]
    emit(rows, json=json, render=lambda rows: render_list(rows, folder))


def _listed(path: Path) -> Listed:
    from wmtk.datasets.summary import task_name

    try:
        with open_dataset(path) as opened:
            returns = opened.episodes.total_reward
            return Listed(
                path,
                task_name(opened.env),
                opened.num_episodes,
                opened.num_steps,
                float(returns.mean()) if len(returns) else None,
                opened.stored_bytes,
                opened.version,
                tuple(tag.name for tag in opened.tags()),
            )
    except WmtkError as error:
        return Listed(path, problem=error.message)
    except OSError as error:
        return Listed(path, problem=str(error))


@app.command(rich_help_panel=INSPECT)
def validate(
    dataset: DatasetPath,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check names, sizes and metadata only.")
    ] = False,
    json: Json = False,
) -> None:
    """Check every file; exit with code 1 if anything is damaged.

    Reports each problem with its remedy. Nothing is written: validation works on read-only media
    and during writes of other processes.

    \b
    Example:
      wmtk data validate runs/catch.zarr
    """
    from wmtk.datasets.integrity.validate import validate as check

    with counted("validate", "step") as report:
        result = check(dataset, quick=quick, progress=report)
    emit(result, json=json, render=render_validation)
    if not result.ok:
        raise typer.Exit(1)


app.command("sheet", rich_help_panel=INSPECT)(view_commands.sheet)
app.command("play", rich_help_panel=INSPECT)(view_commands.play)


# --- maintenance ------------------------------------------------------------------------------


@app.command(rich_help_panel=MAINTAIN)
def repair(
    dataset: DatasetPath,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report the repairs without making them.")
    ] = False,
    header_from: Annotated[
        Path | None,
        typer.Option(
            metavar="DATASET", help="A dataset of the same task, to replace a lost header."
        ),
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Repair the problems that `validate` finds; every intact episode is kept.

    Damaged files are moved to the folder `quarantine` in the dataset, not deleted.

    \b
    Examples:
      wmtk data repair runs/catch.zarr --dry-run
      wmtk data repair runs/catch.zarr --yes
    """
    from wmtk.datasets.integrity.repair import repair as run

    if dry_run or not yes:
        with counted("validate", "step") as report:
            plan = run(dataset, dry_run=True, header_from=header_from, progress=report)
        if dry_run or not plan.actions:
            emit(plan, json=json, render=render_repair)
            return
        if not json:
            emit(plan, json=False, render=render_repair)
        confirm(f"Make these repairs in {dataset}?", yes=yes)
    with counted("repair", "step") as report:
        result = run(dataset, header_from=header_from, progress=report)
    emit(result, json=json, render=render_repair)


@app.command(rich_help_panel=MAINTAIN)
def compact(dataset: DatasetPath, json: Json = False) -> None:
    """Merge small parts into large ones.

    The result has fewer files and is smaller, with the same episodes. Writers compact regularly;
    this command also merges the remaining parts.

    \b
    Example:
      wmtk data compact runs/catch.zarr
    """
    from wmtk.datasets import Dataset

    with Dataset.open(dataset, "a") as opened:
        before = len(opened.parts), opened.stored_bytes
        opened.compact()
        after = len(opened.parts), opened.stored_bytes
    message = f"{dataset}: {human_count(before[0], 'part')} became {human_count(after[0])}."
    if after == before:
        message = f"{dataset}: nothing to merge in {human_count(before[0], 'part')}."
    names = ("parts_before", "bytes_before", "parts", "bytes")
    emit_text(dict(zip(names, before + after, strict=True)), message, json=json)


@app.command(rich_help_panel=MAINTAIN)
def evict(
    dataset: DatasetPath,
    capacity: Annotated[int, typer.Option(min=0, metavar="STEPS", help="Number of steps to keep.")],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove the oldest episodes and free their disk space.

    Whole parts are removed, never the newest one. Tagged versions stay readable.

    \b
    Example:
      wmtk data evict runs/catch.zarr --capacity 100000
    """
    from wmtk.datasets import Dataset

    with Dataset.open(dataset, "a") as opened:
        steps = opened.num_steps
        removed = 0
        if steps > capacity:
            question = (
                f"Remove the oldest of the {human_count(steps, 'step')} in {dataset}, down to"
            )
            confirm(f"{question} {human_count(capacity)}?", yes=yes)
            removed = opened.evict(capacity)
        remaining = opened.num_steps
    message = f"{dataset}: {human_count(removed, 'step')} removed, {human_count(remaining)} kept."
    if remaining > capacity:
        message += " Parts are removed whole, and the newest one is kept."
    emit_text({"removed": removed, "steps": remaining}, message, json=json)


@app.command(rich_help_panel=MAINTAIN)
def tag(
    dataset: DatasetPath,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The tag; omit it to list the tags.")
    ] = None,
    note: Annotated[str, typer.Option(metavar="TEXT", help="A remark to store with the tag.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Delete the tag.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Tag the newest version of a dataset, or list the tags.

    A tagged version is protected from eviction. Commands with --tag read it, and Python reads it
    with wmtk.Dataset.open(path, tag=name).

    \b
    Examples:
      wmtk data tag runs/catch.zarr
      wmtk data tag runs/catch.zarr paper --note "the data of figure 3"
      wmtk data tag runs/catch.zarr paper --delete
    """
    from wmtk.datasets import Dataset
    from wmtk.datasets.storage.retention import read_tag
    from wmtk.datasets.summary import tag_summaries

    if name is None and (delete or note):
        raise UsageError("No tag given.", f"wmtk data tag {shlex.quote(str(dataset))} NAME …")
    if name is None:
        with open_dataset(dataset) as opened:
            emit(tag_summaries(opened), json=json, render=render_tags)
    elif delete:
        existing = read_tag(dataset, name)
        counts = human_count(existing.episodes, "episode")
        confirm(f"Delete the tag {name!r} ({counts}, version {existing.version})?", yes=yes)
        with Dataset.open(dataset, "a") as opened:
            opened.delete_tag(name)
        emit_text({"tag": name}, f"{dataset}: the tag {name!r} is deleted.", json=json)
    else:
        with open_dataset(dataset) as opened:
            new = opened.tag(name, note)
        counts = f"{human_count(new.episodes, 'episode')} and {human_count(new.steps, 'step')}"
        message = f"{dataset}: {name!r} is version {new.version}, with {counts}."
        emit_text({"tag": name, "version": new.version}, message, json=json)


@app.command("takeover", rich_help_panel=MAINTAIN)
def take_over(dataset: DatasetPath, yes: Yes = False, json: Json = False) -> None:
    """Make this machine the owner of a dataset on a network file system.

    On a network file system, one machine at a time owns a dataset and may write to it, until its
    last writer ends. If that machine crashed, this command makes the dataset writable again. Later
    commits of a writer that still runs there fail; its earlier commits are kept.

    \b
    Example:
      wmtk data takeover shared/pong.zarr
    """
    from wmtk.datasets.storage import atomic, hosts
    from wmtk.datasets.storage.header import read_header

    root = atomic.absolute_path(dataset)
    read_header(root)  # raises if it is not a dataset
    owner, owner_text = None, ""
    try:
        owner = hosts.owner_of(root)
        if owner is not None:
            owner_text = f"{owner.host} (process {owner.process}, since {owner.since})"
    except CorruptDatasetError:
        owner_text = "an unreadable record"
    result: dict[str, Any] = {"path": root, "from": owner.host if owner else None}
    if not owner_text or (owner is not None and owner.boot == hosts.this_host().boot):
        emit_text(result, f"{dataset} is not owned by another machine.", json=json)
        return
    confirm(f"{dataset} is owned by {owner_text}. Has its writer ended?", yes=yes)
    hosts.take_over(root)
    emit_text(result, f"{dataset} is writable from this machine.", json=json)


# --- new datasets -----------------------------------------------------------------------------

app.command("merge", rich_help_panel=TRANSFORM)(transform_commands.merge)
app.command("split", rich_help_panel=TRANSFORM)(transform_commands.split)
app.command("filter", rich_help_panel=TRANSFORM)(transform_commands.filter_dataset)
app.command("resize", rich_help_panel=TRANSFORM)(transform_commands.resize)
app.command("import", rich_help_panel=TRANSFORM)(transform_commands.import_dataset)
app.command("export", rich_help_panel=TRANSFORM)(transform_commands.export_dataset)
