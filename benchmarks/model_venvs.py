"""A virtual environment for each peer of `model.py`, made on first use and kept."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True)
class Peer:
    """Another implementation, as the Python package index has it."""

    name: str
    script: str  # in model_peers/
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()  # installed without what they ask for


def peers() -> list[Peer]:
    torch = metadata.version("torch").partition("+")[0]  # the same as ours
    return [
        Peer("sheeprl", "run_sheeprl.py", ("sheeprl==0.8.4", f"torch=={torch}")),
        # dreamerv2 asks for simulators that its world model does not need, and that no longer
        # install; tf-keras would bring a second TensorFlow.
        Peer(
            "dreamerv2",
            "run_dreamerv2.py",
            (
                "tensorflow-cpu==2.21.0",
                "tensorflow-probability==0.25.0",
                "gym==0.26.2",
                "cloudpickle",
                "ruamel.yaml<0.18",
                "setuptools",
                "wheel",
            ),
            ("tf-keras==2.21.0", "dreamerv2==2.2.0"),
        ),
    ]


def interpreter(peer: Peer, folder: Path, say: Callable[[str], None]) -> Path:
    """The Python of the peer's environment; one that was not finished is made anew."""
    wanted = "\n".join([sys.version, *peer.packages, *peer.alone])
    home = folder / f"{peer.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"
    python, finished = home / "bin" / "python", home / "finished"
    if finished.exists():
        return python
    say(f"installing {peer.name} into {home}, once")
    shutil.rmtree(home, ignore_errors=True)
    _run(sys.executable, "-m", "venv", home)
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, *peer.packages)
    if peer.alone:
        _run(*pip, "--no-deps", *peer.alone)
    finished.touch()
    return python


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
