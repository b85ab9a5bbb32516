"""Image and video files that the functions of `wmtk.viz` write, and their default paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wmtk.reprs import brief_repr
from wmtk.viz.draw.canvas import Image
from wmtk.viz.videos.episode_file import ENDINGS
from wmtk.viz.videos.video_file import (
    VIDEO_ENDINGS,
    Written,
    require_ending,
    usual_ending,
    write_image,
    write_video,
)
from wmtk.viz.windows import ModelWindows

if TYPE_CHECKING:  # matplotlib is needed for charts only
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class DrawnFile:
    """An image or video of a model on held-out windows. Notebooks show images inline.

    Fields without `repr` hold the arrays that were drawn; JSON output leaves them out.
    """

    path: Path
    run: Path
    update: int
    dataset: Path
    held_out: str  # description of the episodes
    seed: int
    frames: int  # 1 for an image
    width: int  # pixels
    height: int
    bytes: int

    __repr__ = brief_repr

    def _repr_png_(self) -> Any:
        return self.path.read_bytes() if self.path.suffix.lower() == ".png" else None


def file_fields(opened: ModelWindows, written: Written, seed: int) -> dict[str, Any]:
    """The fields of `DrawnFile`."""
    return {
        "path": written.path,
        "run": opened.model.run.path,
        "update": opened.model.step,
        "dataset": opened.dataset.path,
        "held_out": opened.held_out,
        "seed": seed,
        "frames": written.frames,
        "width": written.width,
        "height": written.height,
        "bytes": written.bytes,
    }


def output_path(out: str | Path | None, endings: Sequence[str] = ENDINGS) -> Path | None:
    """`out` as a path; raises, before the computation, unless its ending and folder are usable."""
    if out is None:
        return None
    require_ending(Path(out), endings)
    return Path(out)


def chart_path(out: str | Path | None, *, or_video: bool = False) -> Path | None:
    """`output_path` for a chart: accepts matplotlib's formats, with `or_video` also videos."""
    if out is None:
        return None
    from wmtk.viz.plots.figures import FIGURE_ENDINGS

    return output_path(out, FIGURE_ENDINGS + (VIDEO_ENDINGS if or_video else ()))


def default_path(opened: ModelWindows, name: str, *, still: bool) -> Path:
    """The file in the run directory that is written if no path is given."""
    folder, ending = ("images", ".png") if still else ("videos", usual_ending())
    return opened.model.run.path / folder / f"{name}-{opened.model.step:08d}{ending}"


def write_drawing(
    path: Path,
    image: Callable[[], Image | Figure],
    frames: Callable[[], Iterable[Image]],
    fps: float,
    on_frame: Callable[[int], None] = lambda done: None,
) -> Written:
    """Write an image or a video, by the ending of the path."""
    if path.suffix.lower() not in VIDEO_ENDINGS:
        return write_still(path, image())

    def counted() -> Iterator[Image]:
        for done, frame in enumerate(frames(), start=1):
            yield frame
            on_frame(done)

    return write_video(path, counted(), fps)


def write_still(path: Path, drawn: Image | Figure) -> Written:
    """Write pixels or a matplotlib figure."""
    if isinstance(drawn, np.ndarray):
        return write_image(path, drawn)
    from wmtk.viz.plots.figures import save_figure

    return save_figure(drawn, path)


def no_progress(description: str, done: int, total: int) -> None:
    """The default of `on_progress`."""
