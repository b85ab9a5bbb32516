"""Which zstd level and how many rows per chunk: ratio, speed, and what a window then costs.

    python benchmarks/compression.py [--steps 200000] [--rows 4096]

uses the frames of `datasets.py`. Single-threaded; the best of several passes over each game, since
on a machine that does something else besides, the shortest time is the least disturbed.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import frames
import numpy as np
from numcodecs.zlib import Zlib
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from rich.console import Console
from timing import Table, seconds, write_markdown

from wmtk.datasets import Dataset

LEVELS = (1, 3, 5, 9, 15)
CHUNK_ROWS = (32, 64, 128)
WINDOW = 50
PASSES = 3


def first_rows(path: Path, count: int) -> NDArray[np.uint8]:
    """The first frames of a dataset."""
    found: list[NDArray[Any]] = []
    for episode in Dataset.open(path):
        found.append(episode.obs["image"])
        if sum(map(len, found)) >= count:
            break
    return np.concatenate(found)[:count]


def measure(codec: Zstd | Zlib, images: NDArray[np.uint8], rows: int) -> tuple[int, float, float]:
    """Bytes and the seconds to encode and to decode, in chunks of `rows`."""
    edges = [*range(0, len(images), rows), len(images)]
    chunks = [images[first:last] for first, last in pairwise(edges)]
    encoded = [bytes(codec.encode(chunk)) for chunk in chunks]
    outs = [np.empty_like(chunk) for chunk in chunks]

    def encode() -> None:
        for chunk in chunks:
            codec.encode(chunk)

    def decode() -> None:
        for data, out in zip(encoded, outs, strict=True):
            codec.decode(data, out)

    encoding = min(seconds(encode) for _ in range(PASSES))
    return sum(map(len, encoded)), encoding, min(seconds(decode) for _ in range(PASSES))


def compare(paths: dict[str, Path], color: str, count: int) -> Table:
    games = {game: first_rows(path, count) for game, path in paths.items()}
    raw = sum(images.nbytes for images in games.values())
    row_bytes = raw / sum(map(len, games.values()))
    columns = ("codec", "rows", "ratio", *games, "encode", "decode", "window")
    note = (
        f"{count:,} frames of each game. Ratio: raw bytes / stored bytes, over all and per game. "
        f"Encode and decode: MB/s of raw frames. Window: microseconds to decode the chunks that a "
        f"window of {WINDOW} rows touches on average."
    )
    table = Table(f"Codecs, {color}", columns, note)
    codecs = [("zlib 6 (npz)", Zlib(6), count)]
    codecs += [(f"zstd {level}", Zstd(level), rows) for rows in CHUNK_ROWS for level in LEVELS]
    for name, codec, rows in codecs:
        found = {game: measure(codec, images, rows) for game, images in games.items()}
        stored, encoding, decoding = (sum(column) for column in zip(*found.values(), strict=True))
        decoded_rows = rows + WINDOW - 1 if rows < count else count
        window = decoded_rows * row_bytes / (raw / decoding)
        table.add(
            name,
            "episode" if rows == count else rows,
            f"{raw / stored:.1f}",
            *[f"{images.nbytes / found[game][0]:.0f}" for game, images in games.items()],
            f"{raw / encoding / 1e6:,.0f}",
            f"{raw / decoding / 1e6:,.0f}",
            f"{window * 1e6:,.0f}",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--steps", type=int, default=200_000, help="that were played for datasets.py")
    add("--rows", type=int, default=4096, help="frames of each game (default: 4096)")
    add("--folder", type=Path, default=Path(tempfile.gettempdir()) / "wmtk-benchmarks")
    add("--markdown", type=Path, metavar="FILE", help="put the tables into this file")
    args = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 160)
    tables = []
    for color in frames.COLORS:
        games = frames.game_datasets(args.folder, color, args.steps)
        tables.append(compare(games, color, args.rows))
        tables[-1].show(console)
    if args.markdown:
        write_markdown(args.markdown, "codecs", tables)


if __name__ == "__main__":
    main()
