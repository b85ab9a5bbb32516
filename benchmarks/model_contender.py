"""The benchmark's side of a contender: a process that does one update whenever it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SCRIPTS = Path(__file__).parent / "model_peers"


@dataclass(frozen=True)
class Turn:
    """One update."""

    seconds: float
    cpu: float  # seconds of processor time
    waited: float  # of it spent while others had their turn
    peak: int  # bytes, the most that was resident so far
    extra: dict[str, float]


class Contender:
    """Started and warmed up by the constructor; it stays idle between its turns."""

    def __init__(
        self,
        name: str,
        python: Path | str,
        script: str,
        *args: object,
        folder: Path,
        threads: int,
        warmup: int,
    ) -> None:
        self.name = name
        self._log = folder / f"{name.replace(' ', '-').replace(',', '')}.log"
        options = ("--threads", threads, "--warmup", warmup)
        command = [python, SCRIPTS / script, *args, *options]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=environment(threads),
            )
        self.about: dict[str, Any] = self._answer()

    def turn(self) -> Turn:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended, which reading will show
            print("go", file=self._process.stdin, flush=True)
        found = self._answer()
        return Turn(
            seconds=found.pop("seconds"),
            cpu=found.pop("cpu"),
            waited=found.pop("waited"),
            peak=found.pop("peak"),
            extra=found,
        )

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            last = "\n".join(self._log.read_text().splitlines()[-20:])
            sys.exit(f"{self.name} ended with exit code {self._process.wait()}:\n{last}")
        found: dict[str, Any] = json.loads(line)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def environment(threads: int) -> dict[str, str]:
    """No graphics processor, and so many threads.

    How they wait is left as installed: they stop spinning within milliseconds of an update, and
    `waited` would tell if they did not.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    count = str(threads)
    return kept | {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
    }
