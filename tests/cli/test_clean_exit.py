"""Every command with warnings as errors: no warning, and no file, process or thread is left."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from wmtk.cli.main import COMMANDS, load

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("leaks.py")
STRICT = [sys.executable, "-X", "dev", "-W", "error"]
BAD = ("Warning", "Traceback", "Exception ignored", "not foreseen")
PATIENCE = 900
SMALL = (
    "--set model.cnn_depth=2 --set model.layers=1 --set model.units=8 --set model.rssm.deter=8 "
    "--set model.rssm.hidden=8 --set model.rssm.stoch=2 --set model.rssm.classes=4 "
    "--set data.batch_size=2 --set data.length=6"
)
ONLINE = f"{SMALL} --set online.prefill=100 --set online.pretrain=2 --set online.evaluate=150"
CATCH = "collect wmtk/Catch-v0 --out catch.zarr --episodes 6 --workers 0 --seed 0"
DATA = [
    "doctor",
    CATCH,
    "collect wmtk/Catch-v0 --out more.zarr --episodes 4 --envs 2 --workers 2 --seed 1",
    "collect wmtk/Catch-v0 --out more.zarr --episodes 2 --workers 0 --append",
    "data info catch.zarr",
    "data list .",
    "data tag catch.zarr first",
    "data merge catch.zarr more.zarr --out both.zarr",
    "data split both.zarr --train train.zarr --val val.zarr --fraction 0.3",
    "data filter both.zarr --out good.zarr --min-return -10",
    "data compact both.zarr",
    "data evict both.zarr --capacity 300 --yes",
    "data resize catch.zarr --out half.zarr --size 32",
    "data takeover catch.zarr --yes",
    "data validate both.zarr",
    "data repair both.zarr --yes",
    "data sheet catch.zarr --out sheet.png",
    "data play catch.zarr --out play.mp4",
    "data export catch.zarr --format dreamer-npz --out npz",
    "data import npz --out again.zarr",
    "scores --chart chart.png --csv scores.csv",
]
MODEL = [
    CATCH,
    f"train-model catch.zarr --out model --updates 4 {SMALL}",
    "train-model catch.zarr --out model --updates 6 --resume",
    "train-policy model --out policy --updates 3 --test 2",
    "eval policy --episodes 2 --workers 1 --video film.mp4",
    "eval --policy random --task wmtk/Catch-v0 --episodes 2 --workers 0",
    f"online wmtk/Catch-v0 --out online --steps 300 {ONLINE} --set online.episodes=2",
    "online wmtk/Catch-v0 --out online --steps 400 --resume",
    f"online wmtk/Catch-v0 --out async --steps 300 --async {ONLINE} --set online.episodes=2",
    "runs .",
    "convert model",
    "viz metrics model catch.zarr --windows 4",
    "viz openloop model catch.zarr open.mp4",
    "viz recon model catch.zarr",
    "viz codes model catch.zarr codes.mp4",
    "viz intervene model catch.zarr",
    "viz compare model policy catch.zarr --windows 4",
    "viz dream policy dream.mp4",
    "viz returns policy --episodes 2",
    "viz report policy catch.zarr --windows 4",
]


def test_every_command_takes_part() -> None:
    lines = [line.split() for line in DATA + MODEL]
    assert {line[0] for line in lines} == set(COMMANDS)
    for name in ("data", "viz"):
        group = load(name)
        # `serve` does not end by itself; it has a test of its own.
        assert {line[1] for line in lines if line[0] == name} == set(group.commands) - {"serve"}


def strictly(tmp_path: Path, lines: list[str]) -> None:
    arguments = [json.dumps(shlex.split(line)) for line in lines]
    process = subprocess.Popen(
        [*STRICT, str(SCRIPT), *arguments],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert [line for line in (out + err).splitlines() if any(bad in line for bad in BAD)] == []
    assert processes_of(process.pid) == []


def processes_of(session: int) -> list[psutil.Process]:
    """What stays of a session whose first process has ended."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    # multiprocessing's own helper ends as soon as it sees that the others have.
    return [each for each in psutil.wait_procs(found, timeout=60)[1] if each.status() != "zombie"]


def test_commands_for_data_leave_nothing(tmp_path: Path) -> None:
    strictly(tmp_path, DATA)


def test_commands_for_models_leave_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    strictly(tmp_path, MODEL)


def test_the_live_page_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    strictly(tmp_path, [CATCH])
    process = subprocess.Popen(
        [*STRICT, "-m", "wmtk", "viz", "serve", "catch.zarr", "--port", "0", "--no-open"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    said = ""
    while "http://" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said + err
    assert not any(bad in said + out + err for bad in BAD), said + err
    assert processes_of(process.pid) == []
