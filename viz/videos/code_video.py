"""The codes of an episode, step by step: frames, what is expected, what is seen, and the KL."""

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
from wmtk.viz.draw.traces import Chart, Trace
from wmtk.viz.metrics.divergences import divergence

MARGIN = 16
TITLE = 40
CAPTION = LINE + 4
GAP = 20
MAP = 420  # pixels that a map takes, roughly
SIDE = 200  # about what pictures are enlarged to
SMALLEST, LARGEST = 10, 30  # pixels of the square of a class
LINES = 80  # pixels of the KL's line
NARROWEST = 640


@dataclass(frozen=True)
class CodeFilm:
    """One window of T rows: what the variables are taken to be before and after each is seen."""

    title: str
    truth: NDArray[np.uint8] | None  # (T, H, W, C); None without pictures
    shown: NDArray[np.uint8] | None  # (T, H, W, C), as the model shows them
    posterior: Floats  # (T, V, K)
    prior: Floats  # (T, V, K)
    kl: Numbers  # (T,), nats


def code_films(seen: Posterior, batch: Batch, image: str | None) -> list[CodeFilm]:
    """Windows that a model has seen, with the pictures of one observation key."""
    films = []
    for number in range(len(batch.reward)):
        T, first = int(batch.mask[number].sum()), int(batch.start[number])
        post, prior = (np.asarray(x[number, :T], np.float64) for x in (seen.posterior, seen.prior))

        def pictures(rows: NDArray[Any], number: int = number, T: int = T) -> NDArray[np.uint8]:
            return np.asarray(rows[number, :T], np.uint8)

        films.append(
            CodeFilm(
                title=f"episode {batch.episode[number]}, steps {first} to {first + T - 1}",
                truth=None if image is None else pictures(batch.obs[image]),
                shown=None if image is None else pictures(seen.obs[image]),
                posterior=seen.posterior[number, :T],
                prior=seen.prior[number, :T],
                kl=np.asarray(divergence(post, prior).sum(-1)),
            )
        )
    return films


def code_frames(film: CodeFilm, *, title: str = "") -> Iterator[Image]:
    """A frame for each row."""
    scene = _Scene(film)
    background = scene.background(title)
    for row in range(len(film.kl)):
        yield scene.draw(background, row)


class _Scene:
    """Where things are, the same in every frame."""

    def __init__(self, film: CodeFilm) -> None:
        self.film = film
        V, K = film.posterior.shape[1:]
        self.cell = int(np.clip(MAP // max(V, K), SMALLEST, LARGEST))
        self.scale, self.left = 1, MARGIN
        pictures = 0
        if film.truth is not None:
            height, width = film.truth.shape[1:3]
            self.scale = max(1, round(SIDE / max(height, width)))
            self.left = MARGIN + width * self.scale + GAP
            pictures = 2 * (height * self.scale + CAPTION)
        self.pitch = max(K * self.cell, 170) + GAP
        self.top = TITLE + CAPTION
        width = max(self.left + 2 * self.pitch - GAP + MARGIN, NARROWEST)
        below = TITLE + max(pictures, CAPTION + V * self.cell) + 14
        trace = Trace("KL between the two, nats", film.kl, BLUE)
        self.chart = Chart([trace], MARGIN, below, width - 2 * MARGIN, LINES)
        self.size = width, below + self.chart.height + MARGIN // 2

    def background(self, title: str) -> Image:
        canvas = Canvas(*self.size)
        text = f"{title}: {self.film.title}" if title else self.film.title
        canvas.text(MARGIN, 10, elide(text, self.size[0] - 2 * MARGIN, 16), size=16)
        for number, name in enumerate(("prior, before seeing it", "posterior, having seen it")):
            x = self.left + number * self.pitch
            canvas.text(x, TITLE, elide(name, self.pitch - 6), color=GRAY)
        self.chart.draw(canvas)
        return canvas.pixels()

    def draw(self, background: Image, row: int) -> Image:
        canvas, film = Canvas.of(background), self.film
        for number, codes in enumerate((film.prior, film.posterior)):
            x = self.left + number * self.pitch
            canvas.paste(x, self.top, map_pixels(codes[row].astype(np.float64), self.cell))
            V, K = codes.shape[1:]
            canvas.border(x, self.top, K * self.cell - 1, V * self.cell - 1, FAINT, 1)
        if film.truth is not None and film.shown is not None:
            y = TITLE
            for name, frames in (("seen", film.truth), ("as the model shows it", film.shown)):
                pixels = enlarge(to_rgb(frames[row, ..., :3]), self.scale)
                canvas.text(MARGIN, y, name, color=GRAY)
                canvas.paste(MARGIN, y + CAPTION, pixels)
                y += CAPTION + pixels.shape[0]
        self.chart.draw_step(canvas, row)
        return canvas.pixels()
