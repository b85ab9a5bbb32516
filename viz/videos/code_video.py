"""The codes of an episode step by step: frames, prior, posterior, and the KL between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import Floats, Posterior
from wmtk.datasets import Batch
from wmtk.stats import Numbers
from wmtk.viz.draw.canvas import BLUE, FAINT, GRAY, LINE, Canvas, Image, elide, enlarge, to_rgb
from wmtk.viz.draw.code_squares import map_pixels
from wmtk.viz.draw.traces import Trace, TraceChart
from wmtk.viz.metrics.divergences import divergence

MARGIN = 16
TITLE = 40
CAPTION = LINE + 4
GAP = 20
MAP = 420  # approximate size of a map in pixels
SIDE = 200  # approximate size of enlarged images
SMALLEST, LARGEST = 10, 30  # pixels of the square of a class
LINES = 80  # pixels of the KL's line
NARROWEST = 640


@dataclass(frozen=True)
class CodeClip:
    """Prior and posterior of the codes over one window of T rows, with its frames."""

    title: str
    truth: NDArray[np.uint8] | None  # (T, H, W, C); None without images
    reconstruction: NDArray[np.uint8] | None  # (T, H, W, C), reconstructions
    posterior: Floats  # (T, V, K)
    prior: Floats  # (T, V, K)
    kl: Numbers  # (T,), nats


def code_clips(observed: Posterior, batch: Batch, image: str | None) -> list[CodeClip]:
    """The codes of each window of a batch, with the images of one observation key."""
    clips = []
    for number in range(len(batch.reward)):
        T, first = int(batch.mask[number].sum()), int(batch.start[number])
        post, prior = (
            np.asarray(x[number, :T], np.float64) for x in (observed.posterior, observed.prior)
        )

        def images(rows: NDArray[Any], number: int = number, T: int = T) -> NDArray[np.uint8]:
            return np.asarray(rows[number, :T], np.uint8)

        clips.append(
            CodeClip(
                title=f"episode {batch.episode[number]}, steps {first} to {first + T - 1}",
                truth=None if image is None else images(batch.obs[image]),
                reconstruction=None if image is None else images(observed.obs[image]),
                posterior=observed.posterior[number, :T],
                prior=observed.prior[number, :T],
                kl=np.asarray(divergence(post, prior).sum(-1)),
            )
        )
    return clips


def code_frames(clip: CodeClip, *, title: str = "") -> Iterator[Image]:
    """A frame for each row."""
    layout = _CodeLayout(clip)
    background = layout.background(title)
    for row in range(len(clip.kl)):
        yield layout.draw(background, row)


class _CodeLayout:
    """The layout, which is the same in every frame."""

    def __init__(self, clip: CodeClip) -> None:
        self.clip = clip
        V, K = clip.posterior.shape[1:]
        self.cell = int(np.clip(MAP // max(V, K), SMALLEST, LARGEST))
        self.scale, self.left = 1, MARGIN
        image_height = 0
        if clip.truth is not None:
            height, width = clip.truth.shape[1:3]
            self.scale = max(1, round(SIDE / max(height, width)))
            self.left = MARGIN + width * self.scale + GAP
            image_height = 2 * (height * self.scale + CAPTION)
        self.pitch = max(K * self.cell, 170) + GAP
        self.top = TITLE + CAPTION
        width = max(self.left + 2 * self.pitch - GAP + MARGIN, NARROWEST)
        below = TITLE + max(image_height, CAPTION + V * self.cell) + 14
        trace = Trace("KL of posterior and prior, nats", clip.kl, BLUE)
        self.chart = TraceChart([trace], MARGIN, below, width - 2 * MARGIN, LINES)
        self.size = width, below + self.chart.height + MARGIN // 2

    def background(self, title: str) -> Image:
        canvas = Canvas(*self.size)
        text = f"{title}: {self.clip.title}" if title else self.clip.title
        canvas.text(MARGIN, 10, elide(text, self.size[0] - 2 * MARGIN, 16), size=16)
        for number, name in enumerate(("prior (before the frame)", "posterior (given the frame)")):
            x = self.left + number * self.pitch
            canvas.text(x, TITLE, elide(name, self.pitch - 6), color=GRAY)
        self.chart.draw(canvas)
        return canvas.pixels()

    def draw(self, background: Image, row: int) -> Image:
        canvas, clip = Canvas.of(background), self.clip
        for number, codes in enumerate((clip.prior, clip.posterior)):
            x = self.left + number * self.pitch
            canvas.paste(x, self.top, map_pixels(codes[row].astype(np.float64), self.cell))
            V, K = codes.shape[1:]
            canvas.border(x, self.top, K * self.cell - 1, V * self.cell - 1, FAINT, 1)
        if clip.truth is not None and clip.reconstruction is not None:
            y = TITLE
            for name, frames in (("truth", clip.truth), ("reconstruction", clip.reconstruction)):
                pixels = enlarge(to_rgb(frames[row, ..., :3]), self.scale)
                canvas.text(MARGIN, y, name, color=GRAY)
                canvas.paste(MARGIN, y + CAPTION, pixels)
                y += CAPTION + pixels.shape[0]
        self.chart.draw_step(canvas, row)
        return canvas.pixels()
