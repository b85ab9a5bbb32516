"""Commands of `wmtk data` that write a new dataset, or a file for another library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmtk.cli.common.console import emit_text, human_count, note_new_folders
from wmtk.cli.common.options import OUTPUT, Json, parse_settings
from wmtk.cli.data.dataset_options import (
    DatasetPath,
    Out,
    TagOption,
    Yes,
    counted,
    may_replace,
    open_dataset,
)

if TYPE_CHECKING:
    from wmtk.datasets.convert import ExportReport, ImportReport
    from wmtk.datasets.transform import TransformReport


Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Setting of the format, such as keep_dtypes=true."
    ),
]


def _counts(report: TransformReport) -> str:
    counts = human_count(report.episodes, "episode"), human_count(report.steps, "step")
    return f"{report.path}: {', '.join(counts)}."


def _filtered(report: TransformReport) -> str:
    return f"{_counts(report)} {human_count(report.dropped, 'episode')} left out."


def merge(
    datasets: Annotated[
        list[Path],
        typer.Argument(metavar="DATASET", help="Datasets to merge.", show_default=False),
    ],
    out: Out,
    tag: TagOption = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Concatenate datasets.

    The result contains every episode, in order, with its provenance. The datasets must have the
    same arrays. --tag reads all of them at the tagged version.

    \b
    Example:
      wmtk data merge monday.zarr tuesday.zarr --out week.zarr
    """
    from wmtk.datasets import transform

    opened: list[Any] = [open_dataset(path, tag) for path in datasets]
    overwrite = may_replace(out, yes=yes)
    with counted("merge", "episode") as report:
        result = transform.merge(opened, out, overwrite=overwrite, progress=report)
    emit_text(result, _counts(result), json=json)


def split(
    dataset: DatasetPath,
    train: Annotated[
        Path, typer.Option(metavar="DATASET", help="Training set to write.", rich_help_panel=OUTPUT)
    ],
    val: Annotated[
        Path,
        typer.Option(metavar="DATASET", help="Validation set to write.", rich_help_panel=OUTPUT),
    ],
    fraction: Annotated[float, typer.Option(help="Fraction of validation episodes, 0 to 1.")] = 0.1,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the split.")] = 0,
    tag: TagOption = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Split a dataset into a training and a validation set.

    The split depends on the content of each episode and on the seed: an episode stays on its side
    as the dataset grows, and equal episodes are on the same side.

    \b
    Example:
      wmtk data split all.zarr --train train.zarr --val val.zarr --fraction 0.1
    """
    from wmtk.datasets import transform

    overwrite = [may_replace(path, yes=yes) for path in (train, val)]
    with open_dataset(dataset, tag) as opened, counted("split", "episode") as report:
        sides = transform.split(
            opened, train, val, fraction, seed, overwrite=any(overwrite), progress=report
        )
    result = {"train": sides[0], "val": sides[1], "seed": seed}
    lines = "\n".join(_counts(side) for side in sides) + f"\nSeed {seed}."
    emit_text(result, lines, json=json)


def filter_dataset(
    dataset: DatasetPath,
    out: Out,
    min_return: Annotated[float | None, typer.Option(help="Lowest return.")] = None,
    max_return: Annotated[float | None, typer.Option(help="Highest return.")] = None,
    min_length: Annotated[int | None, typer.Option(help="Lowest number of steps.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Highest number of steps.")] = None,
    ended: Annotated[str | None, typer.Option(help="terminated, truncated or cut.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="Name of the policy; * matches any text.")
    ] = None,
    env: Annotated[str | None, typer.Option(help="Id of the task; * matches any text.")] = None,
    tag: TagOption = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Select episodes by return, length, ending, policy or task.

    Bounds are inclusive, and all conditions must hold.

    \b
    Examples:
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
        provenance = transform.by_provenance(opened, policy=policy, env_id=env)
        overwrite = may_replace(out, yes=yes)
        with counted("filter", "episode") as report:
            chosen = transform.all_of(bounds, provenance)
            result = transform.filter_episodes(
                opened, out, chosen, overwrite=overwrite, progress=report
            )
    emit_text(result, _filtered(result), json=json)


def resize(
    dataset: DatasetPath,
    out: Out,
    size: Annotated[
        int, typer.Option(min=1, metavar="PIXELS", help="Height and width of the new images.")
    ] = 64,
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
    """Resize the images of a dataset.

    Training resizes images as it reads them (data.image_size); resizing them once makes files
    smaller and reading faster. The new images are uint8 of shape (size, size, channels), also where
    the old ones are floats, uint16 or channel-first.

    \b
    Examples:
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
    emit_text(result, _counts(result), json=json)


def import_dataset(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A file or folder, or the id of a Minari dataset.",
            show_default=False,
        ),
    ],
    out: Out,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", metavar="NAME", help="Format of the source, if it is not recognized."
        ),
    ] = None,
    settings: Settings = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Import a dataset of another library.

    Reads Minari, D4RL-style HDF5, DreamerV2 npz folders and diffusion-policy zarr. The format
    is recognized by the content. Information that the source lacks is reported.

    \b
    Examples:
      wmtk data import hopper_medium.hdf5 --out hopper.zarr
      wmtk data import minari/pen-human-v2 --format minari --out pen.zarr
    """
    from wmtk.datasets import convert
    from wmtk.datasets.transform import staged

    overwrite = may_replace(out, yes=yes)
    with staged(out, overwrite=overwrite) as path, counted("import", "episode") as report:
        result = convert.import_dataset(
            source, path, format=format, progress=report, **parse_settings(settings or [])
        )
    result = replace(result, path=out)
    emit_text(result, _converted(result), json=json)


def export_dataset(
    dataset: DatasetPath,
    format: Annotated[
        str,
        typer.Option(
            "--format", "-f", metavar="NAME", help="minari, d4rl, dreamer-npz or diffusion-zarr."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            help="The file or folder to write.",
            rich_help_panel=OUTPUT,
        ),
    ],
    settings: Settings = None,
    tag: TagOption = None,
    json: Json = False,
) -> None:
    """Export a dataset for another library.

    Information that the format cannot hold is reported.

    \b
    Examples:
      wmtk data export catch.zarr --format dreamer-npz --out episodes
      wmtk data export catch.zarr --format dreamer-npz --out npz --set keep_dtypes=true
    """
    note_new_folders(out)
    from wmtk.datasets import convert

    with open_dataset(dataset, tag) as opened, counted("export", "episode") as report:
        result = convert.export_dataset(
            opened, out, format, progress=report, **parse_settings(settings or [])
        )
    emit_text(result, _converted(result), json=json)


def _converted(report: ImportReport | ExportReport) -> str:
    counts = human_count(report.episodes, "episode"), human_count(report.steps, "step")
    lines = [f"{report.path} ({report.format}): {', '.join(counts)}."]
    return "\n".join([*lines, *[f"  lost: {loss}" for loss in report.losses]])
