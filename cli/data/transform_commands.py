"""The commands of `wmtk data` that write a new dataset, or a file for another library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmtk.cli.common import console
from wmtk.cli.common.console import human_count
from wmtk.cli.common.env_options import say_new_folders
from wmtk.cli.data.dataset_options import (
    DatasetPath,
    Json,
    Out,
    TagOption,
    Yes,
    counted,
    may_replace,
    open_dataset,
    say,
)

if TYPE_CHECKING:
    from wmtk.datasets.convert import ExportReport, ImportReport
    from wmtk.datasets.transform import TransformReport


Settings = Annotated[
    list[str] | None, typer.Option("--set", help="An option of the format, as NAME=VALUE.")
]


def _made(report: TransformReport) -> str:
    counts = human_count(report.episodes, "episode"), human_count(report.steps, "step")
    return f"{report.path}: {', '.join(counts)}."


def _filtered(report: TransformReport) -> str:
    return f"{_made(report)} {human_count(report.dropped, 'episode')} left out."


def merge(
    datasets: Annotated[list[Path], typer.Argument(metavar="DATASET...", help="The sources.")],
    out: Out,
    tag: TagOption = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Make one dataset of several.

    Every episode is kept, in order, with its provenance. The datasets must have the same
    arrays. With --tag, all of them are read at the version of that name.

    \b
    Example:
      wmtk data merge monday.zarr tuesday.zarr --out week.zarr
    """
    from wmtk.datasets import transform

    opened: list[Any] = [open_dataset(path, tag) for path in datasets]
    overwrite = may_replace(out, yes=yes)
    with counted("merge", "episode") as report:
        result = transform.merge(opened, out, overwrite=overwrite, progress=report)
    say(result, _made(result), json=json)


def split(
    dataset: DatasetPath,
    train: Annotated[Path, typer.Option(help="The folder of the training set.")],
    val: Annotated[Path, typer.Option(help="The folder of the validation set.")],
    fraction: Annotated[float, typer.Option(help="How much to hold out, 0 to 1.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Another seed, another split.")] = 0,
    tag: TagOption = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Make a training and a validation set.

    An episode's content decides its side: it stays there as the dataset grows, and equal
    episodes never stand on both.

    \b
    Example:
      wmtk data split all.zarr --train train.zarr --val val.zarr --fraction 0.1
    """
    from wmtk.datasets import transform

    taken = [may_replace(path, yes=yes) for path in (train, val)]
    with open_dataset(dataset, tag) as opened, counted("split", "episode") as report:
        sides = transform.split(
            opened, train, val, fraction, seed, overwrite=any(taken), progress=report
        )
    result = {"train": sides[0], "val": sides[1], "seed": seed}
    lines = "\n".join(_made(side) for side in sides) + f"\nSeed {seed}."
    say(result, lines, json=json)


def filter_dataset(
    dataset: DatasetPath,
    out: Out,
    min_return: Annotated[float | None, typer.Option(help="Lowest return to keep.")] = None,
    max_return: Annotated[float | None, typer.Option(help="Highest return to keep.")] = None,
    min_length: Annotated[int | None, typer.Option(help="Fewest steps to keep.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Most steps to keep.")] = None,
    ended: Annotated[str | None, typer.Option(help="terminated, truncated or cut.")] = None,
    policy: Annotated[str | None, typer.Option(help="Name of the policy; * fits all.")] = None,
    env: Annotated[str | None, typer.Option(help="Id of the task; * fits all.")] = None,
    tag: TagOption = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Make a dataset of the episodes that fit.

    Bounds are inclusive, and all conditions must hold.

    \b
    Example:
      wmtk data filter all.zarr --out good.zarr --min-return 10 --ended terminated
      wmtk data filter all.zarr --out agent.zarr --policy "dreamer*"
    """
    from wmtk.datasets import select, transform

    bounds = select(
        min_return=min_return,
        max_return=max_return,
        min_length=min_length,
        max_length=max_length,
        ended=ended,
    )
    with open_dataset(dataset, tag) as opened:
        made_by = transform.by_provenance(opened, policy=policy, env_id=env)
        overwrite = may_replace(out, yes=yes)
        with counted("filter", "episode") as report:
            chosen = transform.all_of(bounds, made_by)
            result = transform.filter_episodes(
                opened, out, chosen, overwrite=overwrite, progress=report
            )
    say(result, _filtered(result), json=json)


def resize(
    dataset: DatasetPath,
    out: Out,
    size: Annotated[int, typer.Option(min=1, help="Height and width of the new images.")] = 64,
    keys: Annotated[
        str,
        typer.Option(
            help="Observation keys to resize, separated by commas.",
            show_default="images of 32×32 or more",
        ),
    ] = "",
    tag: TagOption = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Make a dataset with its images in another size.

    Training resizes images by itself (data.image_size); this does it once, for smaller files and
    faster reading. Images become bytes (size, size, channels), also those that are floats, uint16
    or channel-first.

    \b
    Example:
      wmtk data resize camera.zarr --out small.zarr --size 64
      wmtk data resize camera.zarr --out small.zarr --keys front,wrist
    """
    from wmtk.datasets import resize as resize_images
    from wmtk.observations import key_names

    with open_dataset(dataset, tag) as opened:
        overwrite = may_replace(out, yes=yes)
        with counted("resize", "episode") as report:
            result = resize_images(
                opened,
                out,
                size,
                keys=key_names(keys) or None,
                overwrite=overwrite,
                progress=report,
            )
    say(result, _made(result), json=json)


def import_dataset(
    source: Annotated[str, typer.Argument(help="A file or folder, or the id of a Minari dataset.")],
    out: Out,
    format: Annotated[
        str | None, typer.Option("--format", "-f", help="What it is, if it is not recognized.")
    ] = None,
    settings: Settings = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Make a dataset of another library's.

    Reads Minari, D4RL-style HDF5, DreamerV2 npz folders and diffusion-policy zarr. The format
    is recognized by the content. What the source does not hold is told.

    \b
    Example:
      wmtk data import hopper_medium.hdf5 --out hopper.zarr
      wmtk data import minari/pen-human-v2 --format minari --out pen.zarr
    """
    from wmtk.datasets import convert
    from wmtk.datasets.transform import staged

    overwrite = may_replace(out, yes=yes)
    with staged(out, overwrite=overwrite) as path, counted("import", "episode") as report:
        result = convert.import_dataset(
            source, path, format=format, progress=report, **console.settings(settings or [])
        )
    result = replace(result, path=out)
    say(result, _converted(result), json=json)


def export_dataset(
    dataset: DatasetPath,
    format: Annotated[
        str, typer.Option("--format", "-f", help="minari, d4rl, dreamer-npz or diffusion-zarr.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file or folder to write.")],
    settings: Settings = None,
    tag: TagOption = None,
    json: Json = False,
) -> None:
    """Write a dataset for another library.

    What its format cannot hold is told.

    \b
    Example:
      wmtk data export runs/catch.zarr --format dreamer-npz --out episodes
      wmtk data export runs/catch.zarr --format dreamer-npz --out wide --set keep_dtypes=true
    """
    say_new_folders(out)
    from wmtk.datasets import convert

    with open_dataset(dataset, tag) as opened, counted("export", "episode") as report:
        result = convert.export_dataset(
            opened, out, format, progress=report, **console.settings(settings or [])
        )
    say(result, _converted(result), json=json)


def _converted(report: ImportReport | ExportReport) -> str:
    counts = human_count(report.episodes, "episode"), human_count(report.steps, "step")
    lines = [f"{report.path} ({report.format}): {', '.join(counts)}."]
    return "\n".join([*lines, *[f"  lost: {loss}" for loss in report.losses]])
