"""The metrics of a run: metrics.jsonl, one line per report, and TensorBoard's files."""

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

    With `resumed_at`, lines of later updates are deleted, since the run repeats these updates.
    """

    def __init__(self, folder: Path, resumed_at: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        path = folder / FILE
        if resumed_at is not None and path.exists():
            lines = [json.dumps(x) for x in read_metrics(folder) if x["step"] <= resumed_at]
            atomic.replace_file(path, "".join(f"{line}\n" for line in lines).encode())
        self._file = atomic.open_to_append(path)
        purge = None if resumed_at is None else resumed_at + 1
        self._thread_hook = threading.excepthook
        threading.excepthook = self._ignore_writer
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log numbers by name; numbers that are not finite are null in metrics.jsonl."""
        plain = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"step": step, **plain}) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def image(self, step: int, name: str, image: NDArray[Any]) -> None:
        """Log an image (H, W, 3) of bytes to TensorBoard."""
        self._board.add_image(name, image, step, dataformats="HWC")

    def video(self, step: int, name: str, frames: Sequence[NDArray[Any]]) -> None:
        """Log frames (H, W, 3) of bytes to TensorBoard, as a GIF."""
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

        buffer = io.BytesIO()
        first, *rest = (Image.fromarray(frame) for frame in frames)
        first.save(
            buffer, "GIF", save_all=True, append_images=rest, duration=FRAME_MILLISECONDS, loop=0
        )
        image = Summary.Image(
            height=first.height,
            width=first.width,
            colorspace=3,
            encoded_image_string=buffer.getvalue(),
        )
        summary = Summary(value=[Summary.Value(tag=name, image=image)])
        self._board._get_file_writer().add_summary(summary, step)  # type: ignore[no-untyped-call]

    def _ignore_writer(self, failure: threading.ExceptHookArgs) -> None:
        """Ignore an exception of TensorBoard's thread, since its next call raises it again."""
        if type(failure.thread).__name__ != "_AsyncWriterThread":
            self._thread_hook(failure)

    def close(self) -> None:
        self._file.close()
        try:
            self._board.close()
        finally:
            threading.excepthook = self._thread_hook


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, oldest first; numbers that are not finite are None."""
    return read_lines(folder / FILE)
