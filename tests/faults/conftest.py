"""Real faults: processes killed at a system call, file systems that are full or read-only."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from wmtk.datasets import Dataset
from wmtk.datasets.integrity.validate import validate

DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(scope="session")
def driver() -> ModuleType:
    """The module that the processes under test run."""
    spec = importlib.util.spec_from_file_location("fault_driver", DRIVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: thousands of syncs would wait for a real disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 2**28:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="wmtk-faults-", dir=memory))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def make_dataset(tmp_path: Path, driver: ModuleType) -> Callable[..., Path]:
    """The folder of a dataset with the episodes of the given numbers, a part each."""

    def make(numbers: Iterable[int] = range(3), name: str = "d.zarr", **options: Any) -> Path:
        with Dataset.create(tmp_path / name, driver.SCHEMA, **options) as dataset:
            for number in numbers:
                dataset.append(driver.episode(number))
        return tmp_path / name

    return make


@pytest.fixture
def numbers_in(driver: ModuleType) -> Callable[..., list[int]]:
    """The episodes that a dataset holds, each read in full, true and there once; no error in it."""

    def numbers(root: Path, **options: Any) -> list[int]:
        with Dataset.open(root, **options) as dataset:
            found = [driver.number_of(episode) for episode in dataset]
            assert len(found) == len(set(found)) == dataset.num_episodes
            by_index = [driver.number_of(dataset[index]) for index in range(len(dataset))]
            assert by_index == found
        if not options:  # an old version is part of the same dataset
            report = validate(root)
            assert not report.errors, report.errors
        return found

    return numbers


# --- processes --------------------------------------------------------------------------------


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Callable[..., subprocess.Popen[str]]:
    """Start a task of the driver; it is killed with the test."""

    def begin(task: str, root: Path, *numbers: int, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, str(DRIVER), "work", task, str(root), *map(str, numbers)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )
        request.addfinalizer(lambda: _end(process))
        return process

    return begin


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.fixture
def finish() -> Callable[..., list[str]]:
    """Wait for a task that must succeed; returns the words that it printed."""

    def wait(process: subprocess.Popen[str], timeout: float = 60) -> list[str]:
        output, errors = process.communicate(timeout=timeout)
        assert process.returncode == 0, errors
        assert "put off" not in errors, errors
        return output.split()

    return wait


# --- kills at a system call -------------------------------------------------------------------

# What changes a file system. Names that a machine does not have are ignored ("?").
CALLS = "write pwrite64 rename renameat renameat2 link linkat symlink unlink unlinkat rmdir mkdir"
CALLS += " mkdirat fsync fdatasync ftruncate"


class Outcome(NamedTuple):
    """How an operation ended: killed or not, what it had acknowledged."""

    killed: bool
    acknowledged: list[str]


class Tracer:
    """Runs operations of the driver in processes that strace kills at a chosen system call."""

    def __init__(self, folder: Path) -> None:
        self._server = subprocess.Popen(
            [sys.executable, str(DRIVER), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._folder = folder
        self._runs = 0

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(10)
        assert self._server.stdout is not None
        self._server.stdout.close()

    def calls(self, operation: str, root: Path) -> list[str]:
        """The system calls that change the file system during an operation."""
        trace = self._folder / "trace"
        names = ",".join(f"?{name}" for name in CALLS.split())
        outcome = self._run(operation, root, ["-o", str(trace), "-e", f"trace={names}"])
        assert not outcome.killed
        lines = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]
        return sorted({line.partition("(")[0] for line in lines if line[0].isalpha()})

    def kill(self, operation: str, root: Path, call: str, when: int) -> Outcome:
        """Run an operation and kill its process as it enters `call` for the nth time."""
        injection = f"inject={call}:signal=KILL:when={when}"
        options = ["-o", "/dev/null", "-e", f"trace={call}", "-e", injection]
        return self._run(operation, root, options)

    def _run(self, operation: str, root: Path, options: list[str]) -> Outcome:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._runs += 1
        acks = self._folder / f"acks{self._runs}"
        request = {"operation": operation, "root": str(root), "acks": str(acks)}
        print(json.dumps(request), file=self._server.stdin, flush=True)
        child = int(self._server.stdout.readline())
        _wait_until(lambda: _status(child, "State").startswith("T"))
        strace = subprocess.Popen(
            ["strace", "-f", "-qq", *options, "-p", str(child)], stderr=subprocess.PIPE, text=True
        )
        _wait_until(lambda: _status(child, "TracerPid") != "0" or strace.poll() is not None)
        os.kill(child, signal.SIGCONT)
        ended = int(self._server.stdout.readline())
        _, complaints = strace.communicate(timeout=30)
        if strace.returncode not in (0, None) and ended == 0 and complaints:
            pytest.skip(f"processes cannot be traced here: {complaints.strip()}")
        assert ended in (0, -signal.SIGKILL), complaints
        return Outcome(ended != 0, acks.read_text().split() if acks.exists() else [])


def _status(process: int, field: str) -> str:
    text = Path(f"/proc/{process}/status").read_text()
    return next(line.split()[1] for line in text.splitlines() if line.startswith(f"{field}:"))


def _wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "timed out"
        time.sleep(0.001)


@pytest.fixture
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracer]:
    if not sys.platform.startswith("linux") or shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    with contextlib.closing(Tracer(tmp_path_factory.mktemp("tracer"))) as tracer:
        yield tracer


# --- file systems -----------------------------------------------------------------------------


@pytest.fixture
def mount(request: pytest.FixtureRequest) -> Callable[..., Path]:
    """Mount something with the given options on a folder, until the test ends."""

    def attach(folder: Path, *options: str) -> Path:
        folder.mkdir(exist_ok=True)
        if os.geteuid() != 0 or not sys.platform.startswith("linux"):
            pytest.skip("only root can mount file systems")
        done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
        request.addfinalizer(lambda: subprocess.run(["umount", "-l", str(folder)], check=True))
        return folder

    return attach
