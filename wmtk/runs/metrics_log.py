"""What a run reports of itself: a line of JSON per report, and TensorBoard."""

from __future__ import annotations

import io
import json
import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from PIL import Image

from wmtk.datasets.storage import atomic
from wmtk.runs.records import read_lines

FILE = "metrics.jsonl"
FRAME_MILLISECONDS = 250


class MetricsLog:
    """Appends to metrics.jsonl and to TensorBoard's files.

    On resuming, lines beyond the step that is resumed from are dropped: the run writes them anew.
    """

    def __init__(self, folder: Path, resumed_at: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        path = folder / FILE
        if resumed_at is not None and path.exists():
            kept = [json.dumps(x) for x in read_metrics(folder) if x["step"] <= resumed_at]
            atomic.replace_file(path, "".join(f"{line}\n" for line in kept).encode())
        self._file = atomic.open_to_append(path)
        purge = None if resumed_at is None else resumed_at + 1
        self._thread_hook = threading.excepthook
        threading.excepthook = self._quietly
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        plain = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"step": step, **plain}) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def image(self, step: int, name: str, picture: NDArray[Any]) -> None:
        """A picture (H, W, 3) of bytes."""
        self._board.add_image(name, picture, step, dataformats="HWC")

    def video(self, step: int, name: str, frames: Sequence[NDArray[Any]]) -> None:
        """Pictures (H, W, 3) of bytes, one after the other, as TensorBoard plays them: a GIF."""
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

        buffer = io.BytesIO()
        first, *rest = (Image.fromarray(frame) for frame in frames)
        first.save(
            buffer, "GIF", save_all=True, append_images=rest, duration=FRAME_MILLISECONDS, loop=0
        )
        shown = Summary.Image(
            height=first.height,
            width=first.width,
            colorspace=3,
            encoded_image_string=buffer.getvalue(),
        )
        summary = Summary(value=[Summary.Value(tag=name, image=shown)])
        self._board._get_file_writer().add_summary(summary, step)  # type: ignore[no-untyped-call]

    def _quietly(self, failure: threading.ExceptHookArgs) -> None:
        """TensorBoard's thread raises what its next call raises again: once is enough."""
        if type(failure.thread).__name__ != "_AsyncWriterThread":
            self._thread_hook(failure)

    def close(self) -> None:
        self._file.close()
        try:
            self._board.close()
        finally:
            threading.excepthook = self._thread_hook


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The reports of a run, oldest first; what is not finite is None."""
    return read_lines(folder / FILE)
