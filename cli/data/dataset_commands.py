"""`wmtk data`: look at episode datasets, check and mend them, make new ones from old ones."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from wmtk.cli.common.console import confirm, emit, human_count
from wmtk.cli.data import takeover, transform_commands, view_commands
from wmtk.cli.data.dataset_options import (
    DatasetPath,
    Json,
    TagOption,
    Yes,
    counted,
    open_dataset,
    say,
)
from wmtk.cli.data.dataset_tables import (
    Listed,
    render_info,
    render_list,
    render_repair,
    render_tags,
    render_validation,
)
from wmtk.errors import UsageError, WmtkError

app = typer.Typer(no_args_is_help=True, help="Inspect, repair and transform datasets.")


# --- looking ----------------------------------------------------------------------------------


@app.command()
def info(dataset: DatasetPath, tag: TagOption = None, json: Json = False) -> None:
    """Show counts, returns, spaces, provenance, size and tags.

    \b
    Example:
      wmtk data info runs/catch.zarr
      wmtk data info runs/catch.zarr --tag before-tuning --json
    """
    from wmtk.datasets.summary import summarize

    with open_dataset(dataset, tag) as opened:
        emit(summarize(opened, tag=tag), json=json, render=render_info)


@app.command("list")
def list_datasets(
    folder: Annotated[Path, typer.Argument(help="Where to look, in all folders below.")] = Path(),
    json: Json = False,
) -> None:
    """List the datasets below a folder.

    \b
    Example:
      wmtk data list runs
    """
    from wmtk.datasets.summary import find_datasets

    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", "Give the folder that holds the datasets.")
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


@app.command()
def validate(
    dataset: DatasetPath,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check names, sizes and metadata, not every byte.")
    ] = False,
    json: Json = False,
) -> None:
    """Check every file; end with 1 if anything is damaged.

    Tells all that is wrong and what to do about it. Nothing is written: it works on read-only
    media and while others write to the dataset.

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


app.command("sheet")(view_commands.sheet)
app.command("play")(view_commands.play)


# --- mending ----------------------------------------------------------------------------------


@app.command()
def repair(
    dataset: DatasetPath,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be done.")
    ] = False,
    header_from: Annotated[
        Path | None,
        typer.Option(help="A dataset of the same task, for when the header itself is lost."),
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Mend what `validate` finds, keeping every episode that is whole.

    Damaged files are moved to the folder `quarantine` in the dataset, not deleted.

    \b
    Example:
      wmtk data repair runs/catch.zarr --dry-run
      wmtk data repair runs/catch.zarr --yes
    """
    from wmtk.datasets.integrity.repair import repair as run_repair

    if dry_run or not yes:
        with counted("look", "step") as report:
            plan = run_repair(dataset, dry_run=True, header_from=header_from, progress=report)
        if dry_run or not plan.actions:
            emit(plan, json=json, render=render_repair)
            return
        if not json:
            emit(plan, json=False, render=render_repair)
        confirm(f"Repair {dataset} like this?", yes=yes)
    with counted("repair", "step") as report:
        result = run_repair(dataset, header_from=header_from, progress=report)
    emit(result, json=json, render=render_repair)


@app.command()
def compact(dataset: DatasetPath, json: Json = False) -> None:
    """Join small parts into large ones.

    Fewer files and a smaller dataset, with the same episodes. Writers do it by themselves
    now and then; this joins the rest too.

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
        message = f"{dataset}: nothing to join in {human_count(before[0], 'part')}."
    names = ("parts_before", "bytes_before", "parts", "bytes")
    say(dict(zip(names, before + after, strict=True)), message, json=json)


@app.command()
def evict(
    dataset: DatasetPath,
    capacity: Annotated[int, typer.Option(min=0, help="How many steps to keep at most.")],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove the oldest episodes and free their disk space.

    Whole parts go, never the newest one; what a tag keeps stays readable through the tag.

    \b
    Example:
      wmtk data evict runs/catch.zarr --capacity 100000
    """
    from wmtk.datasets import Dataset

    with Dataset.open(dataset, "a") as opened:
        steps = opened.num_steps
        gone = 0
        if steps > capacity:
            question = (
                f"Remove the oldest of the {human_count(steps, 'step')} in {dataset}, down to"
            )
            confirm(f"{question} {human_count(capacity)}?", yes=yes)
            gone = opened.evict(capacity)
        kept = opened.num_steps
    message = f"{dataset}: {human_count(gone, 'step')} removed, {human_count(kept)} kept."
    if kept > capacity:
        message += " Parts go as a whole, and the newest one stays."
    say({"removed": gone, "steps": kept}, message, json=json)


@app.command()
def tag(
    dataset: DatasetPath,
    name: Annotated[str | None, typer.Argument(help="The tag; without it, list the tags.")] = None,
    note: Annotated[str, typer.Option(help="A remark to keep with the tag.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Delete the tag.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Name the newest version so that no eviction deletes it.

    Without a name, list the tags that there are.

    \b
    Example:
      wmtk data tag runs/catch.zarr
      wmtk data tag runs/catch.zarr paper --note "the data of figure 3"
      wmtk data tag runs/catch.zarr paper --delete
    """
    from wmtk.datasets import Dataset
    from wmtk.datasets.storage.retention import read_tag
    from wmtk.datasets.summary import tag_summaries

    if name is None and (delete or note):
        raise UsageError("Which tag is meant?", f"wmtk data tag {shlex.quote(str(dataset))} NAME …")
    if name is None:
        with open_dataset(dataset) as opened:
            emit(tag_summaries(opened), json=json, render=render_tags)
    elif delete:
        found = read_tag(dataset, name)
        counts = human_count(found.episodes, "episode")
        confirm(f"Delete the tag {name!r} ({counts}, version {found.version})?", yes=yes)
        with Dataset.open(dataset, "a") as opened:
            opened.delete_tag(name)
        say({"tag": name}, f"{dataset}: the tag {name!r} is deleted.", json=json)
    else:
        with open_dataset(dataset) as opened:
            made = opened.tag(name, note)
        message = f"{dataset}: {name!r} is version {made.version}, with "
        message += f"{human_count(made.episodes, 'episode')} and {human_count(made.steps, 'step')}."
        say({"tag": name, "version": made.version}, message, json=json)


# --- making new ones --------------------------------------------------------------------------

app.command("takeover")(takeover.take_over)
app.command("merge")(transform_commands.merge)
app.command("split")(transform_commands.split)
app.command("filter")(transform_commands.filter_dataset)
app.command("resize")(transform_commands.resize)
app.command("import")(transform_commands.import_dataset)
app.command("export")(transform_commands.export_dataset)
