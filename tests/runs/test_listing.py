"""`wmtk runs` and other readers of runs beside files that cannot be read."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import wmtk
from wmtk.datasets import Source
from wmtk.errors import RunError, WmtkError
from wmtk.runs.listing import list_runs
from wmtk.runs.metrics_log import read_metrics
from wmtk.training.model_stage import train_model


@pytest.fixture
def runs(dataset, config, tmp_path) -> Path:
    """A folder with a run that is whole, and a copy of it to damage."""
    train_model([Source(dataset)], tmp_path / "runs" / "whole", config, updates=2)
    shutil.copytree(tmp_path / "runs" / "whole", tmp_path / "runs" / "bad")
    return tmp_path / "runs"


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def sparse(path: Path) -> None:
    os.truncate(path, 2**42)


def holes(path: Path) -> None:
    """Sparse, but small enough to be the reports of a long run."""
    os.truncate(path, 3 * 2**30)


def latin(path: Path) -> None:
    path.write_bytes(b'{"name": "\xe9"}\n' + path.read_bytes())


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILES = ["run.json", "config.yaml", "metrics.jsonl", "checkpoints/latest", "state.json"]


@pytest.mark.parametrize("spoil", [pipe, bound_socket, loop, sparse, holes, latin, folder])
def test_a_bad_file_of_any_kind_takes_only_its_own_run(
    runs, spoil: Callable[[Path], None], run_wmtk
) -> None:
    (state,) = (runs / "bad").glob("checkpoints/*/state.json")
    for name in FILES:
        shutil.rmtree(runs / "bad")
        shutil.copytree(runs / "whole", runs / "bad")
        spoil(state if name == "state.json" else runs / "bad" / name)
        bad, whole = list_runs(runs)
        assert (bad.state, whole.state) == ("damaged", "finished"), name
        assert Path(name).name in bad.problem
        if name != "metrics.jsonl":  # which a model does not need
            with pytest.raises(WmtkError, match=Path(name).name):
                wmtk.load(runs / "bad")
    listed = run_wmtk("runs", runs, "--json")
    assert listed.exit_code == 0, listed.stderr
    assert [line["state"] for line in json.loads(listed.stdout)] == ["damaged", "finished"]
    shown = run_wmtk("runs", runs)
    assert shown.exit_code == 0, shown.stderr
    assert "state.json" in shown.stderr  # what is wrong
    evaluated = run_wmtk("eval", runs / "bad", "--episodes", 1)
    assert evaluated.exit_code == 1
    assert "state.json" in evaluated.stderr


def test_a_file_without_permission_is_damage(runs, monkeypatch) -> None:
    forbidden, opened = runs / "bad" / "run.json", os.open

    def refuse(path, *args, **options):
        if Path(path) == forbidden:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    bad, whole = list_runs(runs)
    assert (bad.state, whole.state) == ("damaged", "finished")
    assert "Permission denied" in bad.problem


def test_a_name_that_is_not_utf8_is_listed(runs, run_wmtk) -> None:
    os.rename(runs / "bad", os.fsencode(runs) + b"/b\xe9")
    listed = run_wmtk("runs", runs)
    assert listed.exit_code == 0, listed.stderr
    listed = run_wmtk("runs", runs, "--json")
    assert [line["state"] for line in json.loads(listed.stdout)] == ["finished", "finished"]


def test_a_torn_last_line_of_metrics_is_left_out_and_any_other_is_damage(runs) -> None:
    path, before = runs / "bad" / "metrics.jsonl", read_metrics(runs / "bad")
    text = path.read_text()
    path.write_text(text + '{"step": 2, "tra')
    assert read_metrics(runs / "bad") == before
    for damage in (
        '{"step": true}',
        '{"step": 1, "x": "1"}',
        '{"x": 1}',
        "[]",
        "{",
        '{"step": 1.5}',
    ):
        path.write_text(f"{damage}\n{text}")
        with pytest.raises(RunError, match=r"metrics\.jsonl, line 1, is damaged"):
            read_metrics(runs / "bad")
