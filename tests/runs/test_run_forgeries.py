"""Damaged runs, and runs that lie under right checksums: an error of wmtk's, or it works."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from wmtk.agent.load import LoadedAgent, LoadedModel, load
from wmtk.datasets import Dataset, Source
from wmtk.datasets.storage import atomic
from wmtk.envs import resolve
from wmtk.errors import WmtkError
from wmtk.runs.config_file import with_checksum
from wmtk.runs.listing import list_runs
from wmtk.training.model_stage import train_model
from wmtk.training.online.train import online
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config

KINDS = ("model", "policy", "online")
CATCH = "wmtk/Catch-v0"
TINY = {
    "model.cnn_depth": 1,
    "model.layers": 1,
    "model.units": 8,
    "model.rssm.deter": 8,
    "model.rssm.hidden": 8,
    "model.rssm.stoch": 2,
    "model.rssm.classes": 4,
    "behavior.layers": 1,
    "behavior.units": 8,
    "behavior.horizon": 2,
    "data.batch_size": 2,
    "data.length": 6,
    "data.memory_mb": 1,
    "online.prefill": 60,
    "online.pretrain": 2,
    "online.train_every": 60,
    "online.envs": 1,
    "online.episodes": 0,
    "logging.log_every": 1,
    "logging.held_out_batches": 1,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, catch) -> Path:
    """A folder with a run of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    config = training_config("tiny", overrides=TINY)
    train_model([Source(Dataset.open(catch))], folder / "model", config, updates=2)
    train_policy(folder / "model", folder / "policy", updates=2, episodes=0)
    online(resolve(CATCH), folder / "online", config, steps=80)
    return folder


# --- forging ----------------------------------------------------------------------------------


def files_of(run: Path) -> list[Path]:
    """The documents of a run, not those of its replay, which is a dataset."""
    checkpoints = sorted((run / "checkpoints").iterdir())
    newest = [folder for folder in checkpoints if folder.is_dir()][-1]
    files = [run / "run.json", run / "config.yaml", run / "metrics.jsonl", run / "baselines.json"]
    files += [newest / "state.json", newest / "tensors.safetensors", run / "replay.json"]
    files += [run / "checkpoints" / name for name in ("latest", "best")]
    return [file for file in files if file.exists()]


def spoil(run: Path, rng: random.Random, mutations: Any) -> tuple[Path, str]:
    """Damage a file, or change something in it and make its checksums right."""
    path = rng.choice(files_of(run))
    if rng.random() < 0.15:
        return path, replace(path, rng)
    if rng.random() < 0.2 or path.name in ("latest", "best"):
        data, what = mutations.damaged(path.read_bytes(), rng)
        path.write_bytes(data)
        return path, f"bytes, {what}"
    if path.suffix == ".safetensors":
        return path, forge_tensors(path, rng)
    if path.suffix == ".yaml":
        document, what = mutations.mutated(yaml.safe_load(path.read_bytes()), rng)
        path.write_bytes(with_checksum(json.dumps(document).encode()))  # which is YAML too
    elif path.suffix == ".jsonl":
        lines = path.read_text().splitlines()
        number = rng.randrange(len(lines))
        document, what = mutations.mutated(json.loads(lines[number]), rng, sealable=False)
        lines[number] = json.dumps(document)
        path.write_text("".join(f"{line}\n" for line in lines))
    else:
        document, what = mutations.mutated(json.loads(path.read_bytes()), rng)
        if isinstance(document, dict):
            document.pop("checksum", None)
            document = atomic.with_checksum(document)
        path.write_bytes(json.dumps(document).encode())
    return path, what


def replace(path: Path, rng: random.Random) -> str:
    """Put something else in the place of a file."""
    how = rng.choice(["pipe", "folder", "link", "loop", "gone", "empty", "sparse", "latin"])
    if how == "sparse":
        os.truncate(path, 2**40)
        return how
    data = path.read_bytes()
    path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to("/dev/zero")
    elif how == "loop":
        path.symlink_to(path)
    elif how == "empty":
        path.touch()
    elif how == "latin":
        path.write_bytes(data[:-2] + b"\xe9" + data[-2:])
    return how


def forge_tensors(path: Path, rng: random.Random) -> str:
    """Change one tensor, or the header, and write the checksums of what comes of it."""
    tensors = load_tensors(path.read_bytes())
    name = rng.choice(sorted(tensors))
    tensor = tensors[name]
    how = rng.choice(["nan", "drop", "name", "dtype", "shape", "extra", "header", "zero", "huge"])
    if how == "nan":
        tensors[name] = torch.full_like(tensor.double(), float("nan")).to(tensor.dtype)
    elif how in ("drop", "name"):
        del tensors[name]
        if how == "name":
            tensors[f"{name}x"] = tensor
    elif how == "dtype":
        tensors[name] = tensor.to(rng.choice([torch.float64, torch.int8, torch.bool, torch.half]))
    elif how == "shape":
        tensors[name] = rng.choice([tensor.flatten(), tensor[None], tensor.flatten()[:0]]).clone()
    elif how == "extra":
        tensors[rng.choice(["model/x", "adam/model/99/step", "adam/model/-1/x", "x"])] = (
            tensor.clone()
        )
    elif how == "zero":
        tensors[name] = torch.zeros_like(tensor)
    elif how == "huge":
        tensors[name] = torch.full_like(tensor.double(), 1e30).to(tensor.dtype)
    data = save_tensors(tensors)
    if how == "header":
        at = rng.randrange(8, 200)
        data = data[:at] + rng.randbytes(2) + data[at + 2 :]
    path.write_bytes(data)
    state = path.with_name("state.json")
    document = json.loads(state.read_bytes())
    document |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    document.pop("checksum")
    state.write_bytes(atomic.json_bytes(atomic.with_checksum(document)))
    return f"{how} {name}"


# --- judging ----------------------------------------------------------------------------------


def use(model: LoadedModel, episode: Any) -> None:
    """What Python does with a run: reconstruct, predict, act."""
    for image in model.reconstruct(episode).values():
        assert np.isfinite(image).all()
    prediction = model.predict(episode, context=2, horizon=2)
    assert np.isfinite(prediction.reward).all()
    assert repr(model)
    if isinstance(model, LoadedAgent):
        model.policy.begin()
        action = model.policy(episode.obs["image"][0])
        assert action in range(3)


def commands(run: Path, kind: str, catch: Path) -> dict[str, list[object]]:
    """The commands that continue or test a run."""
    options = ["--out", run, "--resume", "--device", "cpu"]
    continued: dict[str, list[object]] = {
        "model": ["train-model", catch, *options, "--updates", 3],
        "policy": ["train-policy", run.parent / "model", *options, "--updates", 3, "--test", 0],
        "online": ["online", CATCH, *options, "--steps", 150, "--workers", 0],
    }
    tested = [] if kind == "model" else ["eval", run, "--episodes", 1, "--workers", 0]
    return {"resume": continued[kind], **({"eval": tested} if tested else {})}


def judge(run: Path, kind: str, episode: Any, catch: Path, run_wmtk: Any, *, train: bool) -> str:
    """What came of everything: "works" or "error"; fails at anything else."""
    outcome, said = "works", ""
    try:
        model = load(run)
    except WmtkError as error:
        outcome, said = "error", str(error)
    else:
        with suppress(WmtkError):  # its spaces may be others
            use(model, episode)
    assert outcome == "works" or str(run) in said, f"it names no file: {said}"
    listed = [line.path for line in list_runs(run)]
    assert listed == ([run] if os.path.lexists(run / "run.json") else [])
    for name, command in commands(run, kind, catch).items() if train else ():
        done = run_wmtk(*command)
        assert done.exit_code in (0, 1, 2), f"{name}: {done.output} {done.exception!r}"
        assert UNEXPECTED not in done.stderr, f"{name}: {done.stderr}"
        assert done.exit_code == 0 or "error" in done.stderr.lower(), f"{name}: {done.stderr}"
    return outcome


UNEXPECTED = "please report"


@pytest.fixture
def sweep(runs, catch, mutations, run_wmtk, tmp_path) -> Callable[..., dict[str, int]]:
    episode = Dataset.open(catch)[0]

    def sweep(kind: str, seed: int, count: int, *, train: bool) -> dict[str, int]:
        rng, counts = random.Random(seed), {"works": 0, "error": 0}
        for number in range(count):
            place = tmp_path / f"{kind}{seed}-{number}"
            run = shutil.copytree(runs / kind, place / kind)
            if kind == "policy":
                shutil.copytree(runs / "model", place / "model")
            path, what = spoil(run, rng, mutations)
            try:
                counts[judge(run, kind, episode, catch, run_wmtk, train=train)] += 1
            except BaseException as error:
                name = path.relative_to(run)
                error.add_note(f"mutation {number} of seed {seed} of a {kind} run: {name}: {what}")
                raise
            shutil.rmtree(place)
        return counts

    return sweep


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_run_gives_an_error_or_works(kind, sweep) -> None:
    counts = sweep(kind, 0, 40, train=False)
    assert min(counts.values()) > 5, counts


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_continuing_and_testing_a_damaged_run_gives_an_error_or_works(kind, sweep) -> None:
    counts = sweep(kind, 1, 15, train=True)
    assert min(counts.values()) > 1, counts
