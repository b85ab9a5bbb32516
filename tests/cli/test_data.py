"""`wmtk data`: every command, for people and for machines."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from wmtk.cli.data.dataset_tables import number, sparkline
from wmtk.datasets import Dataset, Episode, Provenance, Schema
from wmtk.spaces import ArraySpec

COMMANDS = [
    "info",
    "list",
    "validate",
    "repair",
    "compact",
    "evict",
    "tag",
    "merge",
    "split",
    "filter",
    "import",
    "export",
]


def episode(steps: int, seed: int) -> Episode:
    rng = np.random.default_rng(seed)
    action, reward = rng.integers(0, 4, steps + 1), rng.normal(size=steps + 1)
    action[0] = reward[0] = 0
    return Episode(
        obs={"image": rng.integers(0, 256, (steps + 1, 8, 8, 1), np.uint8)},
        action=action,
        reward=reward,
        terminated=bool(seed % 2),
        truncated=not seed % 2,
        seed=seed,
        provenance=Provenance("toy/Env-v0", policy="random" if seed % 3 else "dreamer"),
    )


def make(path: Path, first: int = 0, count: int = 6) -> Path:
    schema = Schema(
        obs={"image": ArraySpec("box", (8, 8, 1), "uint8", 0, 255)},
        action=ArraySpec("discrete", (), "int64", 0, 3),
    )
    with Dataset.create(path, schema, env={"id": "toy/Env-v0", "repeat": 4}) as dataset:
        for seed in range(first, first + count):
            dataset.append(episode(10 + seed, seed))
    return path


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return make(tmp_path / "toy.zarr")


@pytest.fixture
def ok(run_wmtk):
    """Run a command that must succeed; returns its JSON, or its text."""

    def run(*args: object) -> object:
        result = run_wmtk("data", *args)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if "--json" in args else result.stdout

    return run


def damage(root: Path) -> Path:
    path = sorted(root.glob("parts/p*/obs/image/c.*"))[0]
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    return path


def count(path: Path) -> int:
    with Dataset.open(path) as dataset:
        return len(list(dataset))


# --- help ---


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from wmtk.cli.main import main; sys.argv = ['wmtk', 'data', '--help']\n"
        "try: main()\n"
        "finally: sys.stderr.write(repr([m for m in "
        "('torch', 'zarr', 'numcodecs', 'gymnasium', 'numpy', 'h5py') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]"
    for command in COMMANDS:
        assert re.search(rf"│ {command} +\w", done.stdout), command


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_teaches_with_an_example(run_wmtk, command):
    result = run_wmtk("data", command, "--help")
    assert result.exit_code == 0
    assert re.search(rf"Examples?: +\n +wmtk data {command} ", result.stdout)
    assert "--json" in result.stdout


# --- looking ---


def test_info(ok, toy):
    ok("tag", toy, "start", "--note", "the first")
    text = ok("info", toy)
    for expected in (
        "toy/Env-v0",
        "repeat=4",
        "6, in 6 parts",
        "unlimited",
        "3 terminated, 3 truncated",
        "box 8×8×1",
        "discrete(4)",
        "dreamer",
        "the first",
    ):
        assert expected in text
    data = ok("info", toy, "--json")
    assert (data["episodes"], data["steps"]) == (6, 75)
    assert data["provenance"][0]["policy"] == "dreamer"
    assert data["tags"][0]["name"] == "start"


@pytest.mark.parametrize("columns", ["80", "120"])
def test_tables_fit_the_terminal(ok, toy, columns):
    ok("tag", toy, "before-tuning", "--note", "ok")

    def lines(*args: str) -> list[str]:
        command = [sys.executable, "-m", "wmtk.cli.main", "data", *args]
        env = os.environ | {"COLUMNS": columns}
        done = subprocess.run(command, capture_output=True, text=True, cwd=toy.parent, env=env)
        assert all(len(line) <= int(columns) for line in done.stdout.splitlines())
        return [line for line in done.stdout.splitlines() if line.strip()]

    assert lines("list")[1].startswith("toy.zarr  toy/Env-v0 ")
    assert len(lines("list")) == 2
    assert lines("info", "toy.zarr")[-1].startswith("before-tuning ")
    damage(toy)
    assert lines("validate", "toy.zarr")[0].startswith("error parts/p")


def test_info_of_a_tag(ok, toy):
    ok("tag", toy, "start")
    ok("evict", toy, "--capacity", 30, "--yes")
    assert ok("info", toy, "--json")["episodes"] < 6
    assert ok("info", toy, "--tag", "start", "--json")["episodes"] == 6
    assert "(tag start)" in ok("info", toy, "--tag", "start")


def test_info_of_an_empty_dataset(ok, tmp_path):
    make(tmp_path / "empty.zarr", count=0)
    assert "episodes  0" in ok("info", tmp_path / "empty.zarr")


def test_list(ok, toy, run_wmtk):
    broken = make(toy.parent / "deep" / "broken.zarr")
    (broken / "log" / "00000002.json").unlink()
    text = ok("list", toy.parent)
    assert "toy.zarr" in text
    assert "deep/broken.zarr  damaged" in text
    rows = ok("list", toy.parent, "--json")
    assert [row["episodes"] for row in rows] == [0, 6]
    assert "00000002.json" in rows[0]["problem"]
    assert "No datasets" in ok("list", toy / "parts")
    assert run_wmtk("data", "list", toy.parent / "absent").exit_code == 2


def test_errors_are_short_and_say_what_to_do(run_wmtk, tmp_path, toy):
    result = run_wmtk("data", "info", tmp_path / "absent")
    assert result.exit_code == 1
    assert "is not a folder" in result.stderr
    assert "Traceback" not in result.stderr
    result = run_wmtk("data", "info", toy, "--tag", "nope")
    assert result.exit_code == 1
    assert "Its tags: none." in result.stderr


def test_numbers():
    assert [number(x) for x in (0.0, 1.23456, -1234.5, 12)] == ["0", "1.235", "-1,234", "12"]
    assert sparkline([0, 1, 8, 4]) == " ▂█▅"


# --- checking and mending ---


def test_validate(ok, toy, run_wmtk):
    assert "No problems." in ok("validate", toy)
    path = damage(toy)
    result = run_wmtk("data", "validate", toy)
    assert result.exit_code == 1
    assert f"error {path.relative_to(toy)}" in result.stdout
    assert "1 error." in result.stdout
    assert ok("validate", toy, "--quick", "--json")["problems"] == []
    result = run_wmtk("data", "validate", toy, "--json")
    assert json.loads(result.stdout)["problems"][0]["severity"] == "error"


def test_repair(ok, toy, run_wmtk):
    assert "nothing to repair" in ok("repair", toy)
    damage(toy)
    plan = ok("repair", toy, "--dry-run", "--json")
    assert plan["dry_run"]
    assert len(plan["actions"][0]["lost"]) == 1
    refused = run_wmtk("data", "repair", toy)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert run_wmtk("data", "validate", toy).exit_code == 1
    text = ok("repair", toy, "--yes")
    assert "1 repair made, 1 episode lost." in text
    ok("validate", toy)
    assert count(toy) == 5


def test_repair_of_a_lost_header(ok, toy, run_wmtk):
    other = make(toy.parent / "other.zarr", count=0)
    (toy / "zarr.json").unlink()
    result = run_wmtk("data", "repair", toy, "--yes")
    assert result.exit_code == 1
    assert "--header-from" in result.stderr
    ok("repair", toy, "--yes", "--header-from", other)
    assert count(toy) == 6


def test_compact(ok, toy):
    assert "6 parts became 1" in ok("compact", toy)
    assert ok("compact", toy, "--json")["parts"] == 1
    assert "nothing to merge" in ok("compact", toy)


def test_evict(ok, toy, run_wmtk):
    refused = run_wmtk("data", "evict", toy, "--capacity", 30)
    assert (refused.exit_code, count(toy)) == (2, 6)
    assert ok("evict", toy, "--capacity", 30, "--yes", "--json")["steps"] == 29
    assert count(toy) == 2
    assert "0 steps removed" in ok("evict", toy, "--capacity", 30)
    assert "newest one is kept" in ok("evict", toy, "--capacity", 1, "--yes")


def test_tags(ok, toy, run_wmtk):
    assert "No tags." in ok("tag", toy)
    assert "6 episodes" in ok("tag", toy, "first")
    assert ok("tag", toy, "--json")[0]["name"] == "first"
    assert run_wmtk("data", "tag", toy, "first").exit_code == 1
    assert run_wmtk("data", "tag", toy, "--delete").exit_code == 2
    assert run_wmtk("data", "tag", toy, "first", "--delete").exit_code == 2
    ok("tag", toy, "first", "--delete", "--yes")
    assert ok("tag", toy, "--json") == []


# --- making new ones ---


def test_merge(ok, toy, run_wmtk):
    other = make(toy.parent / "other.zarr", first=6)
    out = toy.parent / "all.zarr"
    assert "12 episodes" in ok("merge", toy, other, "--out", out)
    refused = run_wmtk("data", "merge", toy, "--out", out)
    assert (refused.exit_code, count(out)) == (2, 12)
    assert ok("merge", toy, "--out", out, "--yes", "--json")["episodes"] == 6
    assert "toy.zarr version 6" in ok("info", out)


def test_split(ok, toy):
    train, val = toy.parent / "train.zarr", toy.parent / "val.zarr"
    sides = ok("split", toy, "--train", train, "--val", val, "--fraction", 0.5, "--json")
    assert sides["train"]["episodes"] + sides["val"]["episodes"] == 6
    assert "Seed 3." in ok("split", toy, "--train", train, "--val", val, "--seed", 3, "--yes")


def test_filter(ok, toy, run_wmtk):
    out = toy.parent / "some.zarr"
    text = ok("filter", toy, "--out", out, "--policy", "rand*", "--ended", "terminated")
    assert "2 episodes, 26 steps. 4 episodes left out." in text
    report = ok("filter", toy, "--out", out, "--min-length", 12, "--yes", "--json")
    assert (report["episodes"], report["dropped"]) == (4, 2)
    assert run_wmtk("data", "filter", toy, "--out", out, "--ended", "well", "--yes").exit_code == 2
    assert run_wmtk("data", "filter", toy, "--out", out, "--env", "x", "--yes").exit_code == 2
    assert count(out) == 4


def test_export_and_import(ok, toy, run_wmtk):
    npz, back = toy.parent / "npz", toy.parent / "back.zarr"
    exporting = ("export", toy, "--format", "dreamer-npz", "--out", npz)
    report = ok(*exporting, "--set", "keep_dtypes=true", "--json")
    assert (report["episodes"], report["format"]) == (6, "dreamer-npz")
    assert run_wmtk("data", *exporting).exit_code == 1
    assert "6 episodes" in ok("import", npz, "--out", back)
    assert count(back) == 6
    refused = run_wmtk("data", "import", npz, "--out", back)
    assert (refused.exit_code, count(back)) == (2, 6)
    report = ok("import", npz, "--out", back, "--yes", "--format", "dreamer-npz", "--json")
    assert report["path"] == str(back)
    assert run_wmtk("data", "import", npz, "--out", back, "--yes", "--set", "x").exit_code == 2
    result = run_wmtk("data", "export", toy, "--format", "zip", "--out", npz)
    assert (result.exit_code, "minari" in result.stderr) == (2, True)


def test_the_python_of_the_guide_runs(tmp_path, monkeypatch):
    guide = Path(__file__).parents[2] / "docs" / "datasets.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)


def test_the_commands_of_the_guide_run(tmp_path, monkeypatch, run_wmtk):
    guide = Path(__file__).parents[2] / "docs" / "datasets.md"
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "monday.zarr", count=20)
    make(tmp_path / "tuesday.zarr", first=20, count=20)
    lines = re.findall(r"^\$ wmtk (data .*)$", guide.read_text(), re.MULTILINE)
    assert len(lines) >= 10
    for line in lines:
        result = run_wmtk(*shlex.split(line))
        assert result.exit_code == 0, (line, result.output)
