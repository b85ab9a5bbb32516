"""Training that is stopped in the middle goes on as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from wmtk.datasets import Source
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.run_directory import Run
from wmtk.training.model_stage import train_model

STEPS = 60
PATIENCE = 300  # seconds, on a machine that is busy with other things


@pytest.fixture
def command(catch, small, tmp_path, request):
    """Start the command in a process of its own."""

    def start(*options: str, out: str = "run", steps: int = STEPS) -> subprocess.Popen[str]:
        words = ["train-model", str(catch), "--out", str(tmp_path / out), "--device", "cpu"]
        words += [*small, "--set", "logging.checkpoint_every=7", "--updates", str(steps), *options]
        process = subprocess.Popen(
            [sys.executable, "-m", "wmtk", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        request.addfinalizer(process.kill)
        return process

    return start


def wait_for(done, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def begun(out: Path) -> bool:
    return (out / "checkpoints" / "latest").exists()


def require_same(out: Path, dataset, config, tmp_path, steps: int) -> None:
    """The run must have ended as one does that nobody touched."""
    changed = config.override({"logging.checkpoint_every": 7})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the process: sums depend on it
    try:
        whole = train_model([Source(dataset)], tmp_path / "whole", changed, updates=steps)
    finally:
        torch.set_num_threads(threads)
    one, other = whole.checkpoints.load(), Run(out).checkpoints.load()
    assert one.step == other.step == steps
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, other.tensors[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_saves_and_says_how_to_go_on(command, dataset, config, tmp_path, number) -> None:
    out = tmp_path / "run"
    process = command(steps=10**6)
    wait_for(lambda: begun(out), process)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said
    assert "Stopping after this update" in said
    assert "--resume" in said.splitlines()[-1]
    assert "Traceback" not in said
    stopped = Run(out).step
    resumed = command("--resume", steps=stopped + 10)
    _, said = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, said
    assert "10 updates in" in said
    require_same(out, dataset, config, tmp_path, stopped + 10)


@pytest.mark.slow
def test_a_kill_loses_only_what_came_after_the_checkpoint(
    command, dataset, config, tmp_path
) -> None:
    out = tmp_path / "run"
    process = command(steps=STEPS)
    wait_for(lambda: begun(out), process)
    process.kill()
    process.communicate()
    assert Run(out).step > 0
    resumed = command("--resume")
    _, said = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, said
    require_same(out, dataset, config, tmp_path, STEPS)
    reports = read_metrics(out)
    assert [r["step"] for r in reports if "train/kl" in r] == list(range(2, STEPS + 1, 2))
    assert [r["step"] for r in reports if "val/kl" in r] == list(range(3, STEPS + 1, 3))


def test_a_second_signal_ends_at_once(monkeypatch) -> None:
    from wmtk.cli.common.process import StopOnSignal

    before = signal.getsignal(signal.SIGINT)
    with StopOnSignal("Stopping.") as stopping:
        assert not stopping.requested
        signal.raise_signal(signal.SIGTERM)
        assert stopping.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_kill_before_the_first_checkpoint_begins_anew(dataset, config, tmp_path) -> None:
    class Killed(BaseException):
        pass

    def kill(progress) -> None:
        if progress.step == 3:
            raise Killed

    options = {"val_fraction": 0.0}
    with pytest.raises(Killed):
        train_model(
            [Source(dataset)], tmp_path / "run", config, updates=5, on_progress=kill, **options
        )
    assert Run(tmp_path / "run").step == 0
    run = train_model([Source(dataset)], tmp_path / "run", config, updates=5, resume=True)
    whole = train_model([Source(dataset)], tmp_path / "whole", config, updates=5, **options)
    assert run.checkpoints.load().hash == whole.checkpoints.load().hash
    reports = [
        (p / "metrics.jsonl").read_text().count("train/loss") for p in (run.path, whole.path)
    ]
    assert reports[0] == reports[1]


@pytest.mark.parametrize("interval", [1, 2, 50])
def test_stopping_anywhere_changes_nothing(dataset, config, tmp_path, interval) -> None:
    """Whatever is logged, drawn, evaluated and saved meanwhile."""
    names = ("log", "evaluate", "checkpoint", "image")
    other = config.override({f"logging.{name}_every": interval for name in names})
    asked = iter([False, False, True, False, True] + 10 * [False])
    source = Source(dataset)
    for _ in range(3):
        run = train_model(
            [source], tmp_path / "run", other, updates=7, resume=True, stop=lambda: next(asked)
        )
    assert run.step == 7
    whole = train_model([source], tmp_path / "whole", config, updates=7)
    assert run.checkpoints.load().hash == whole.checkpoints.load().hash
