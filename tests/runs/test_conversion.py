"""Run directories of format 1: refused, converted in place, and used afterwards."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

import wmtk
from wmtk.datasets.storage import atomic
from wmtk.errors import CheckpointError, ConfigError, FormerRunError
from wmtk.runs import checkpoint, conversion
from wmtk.runs.checkpoint import Checkpoints
from wmtk.runs.conversion import convert_run
from wmtk.runs.listing import summarize_run
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import TrainingConfig

GOLDEN = Path(__file__).parents[1] / "golden" / "former_run.tar.xz"
TENSORS = "checkpoints/00000006/tensors.safetensors"


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """An online run of format 1, with every network: its data and its newest checkpoint."""
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "former_run"


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def tensors(run: Path) -> list[bytes]:
    """The bytes of all tensors, in an order that does not depend on their names."""
    return sorted(array.tobytes() for array in load_file(run / TENSORS).values())


def test_a_run_of_format_1_is_refused_with_the_command_that_converts_it(former, run_wmtk) -> None:
    before = contents(former)
    with pytest.raises(FormerRunError, match="earlier version") as caught:
        wmtk.load(former)
    assert caught.value.hint == f"Convert it: wmtk convert {former}"
    for command in (["eval"], ["online", "--resume", "wmtk/Catch-v0", "--steps", "300", "--out"]):
        result = run_wmtk(*command, str(former))
        assert result.exit_code == 1
        assert f"wmtk convert {former}" in " ".join(result.stderr.split())
    line = summarize_run(former)
    assert "earlier version" in line.problem
    assert contents(former) == before


def test_the_command_converts_a_run_in_place_without_changing_a_number(former, run_wmtk) -> None:
    image = former / "pictures" / "open_loop-image-00000006.png"
    image.parent.mkdir()
    image.write_bytes(b"an image")
    before, old_metrics = tensors(former), (former / "metrics.jsonl").read_text().splitlines()
    replay = {name: data for name, data in contents(former).items() if name.startswith("replay")}
    result = run_wmtk("convert", str(former))
    assert result.exit_code == 0, result.stderr
    assert "converted" in result.stderr
    assert tensors(former) == before
    run = Run(former)
    settings = run.settings
    assert settings.behavior.lambda_ == 0.95
    assert settings.behavior.entropy.model_dump() == {"start": 0.003, "end": 0.0003, "steps": 100}
    assert (settings.model.cnn_depth, settings.optimizer.lr) == (1, 1e-3)
    assert (settings.logging.checkpoint_every, settings.online.train_every) == (4, 20)
    assert settings.online.actor == "learned"
    state = run.state()
    assert state is not None
    assert state.config == settings.model_dump(mode="json")
    now = read_metrics(former)
    assert [list(line.values()) for line in now] == [
        list(json.loads(line).values()) for line in old_metrics
    ]
    text = "".join(
        (former / name).read_text(errors="replace")
        for name in ("run.json", "config.yaml", "metrics.jsonl", "checkpoints/00000006/state.json")
    )
    assert not [word for word in ("behaviour", "cadence", "learnt", '"rate') if word in text]
    assert (former / "images" / image.name).read_bytes() == b"an image"
    assert not image.parent.exists()
    assert replay == {n: data for n, data in contents(former).items() if n.startswith("replay")}
    after = contents(former)
    assert "present format" in run_wmtk("convert", str(former)).stderr
    assert contents(former) == after


def test_a_converted_run_resumes_and_reports_the_same_metrics_as_a_new_one(former) -> None:
    convert_run(former)
    before = {name for line in read_metrics(former) for name in line}
    config = Run(former).settings
    run = wmtk.online("wmtk/Catch-v0", former, config, steps=330, resume=True)
    assert run.step > 6
    new = {name for line in read_metrics(former) if line["step"] > 6 for name in line}
    # Written only by an evaluation that is the best one so far, or by a long save.
    occasional = {n for n in before | new if n.startswith(("eval/confirmed", "share/saving"))}
    assert before ^ new <= occasional


def test_a_converted_run_plays(former) -> None:
    convert_run(former)
    result = wmtk.evaluate(former, episodes=2, device="cpu")
    assert len(result.returns) == 2
    agent = wmtk.load(former)
    assert isinstance(agent, wmtk.LoadedAgent)
    assert agent.explorer is not None


def test_all_files_change_or_none_that_the_next_conversion_does_not_finish(
    former, monkeypatch
) -> None:
    """An interruption at each write: the run stays refused, and converting it again succeeds."""
    whole = tensors(former)
    replace_file, write_file, calls = atomic.replace_file, atomic.write_file, [0]

    class Crash(BaseException):
        pass

    def fail_at(number: int, original: Any) -> Any:
        def write(*args: Any, **options: Any) -> None:
            calls[0] += 1
            if calls[0] == number:
                raise Crash
            original(*args, **options)

        return write

    number = 1
    while True:
        calls[0] = 0
        monkeypatch.setattr(atomic, "replace_file", fail_at(number, replace_file))
        monkeypatch.setattr(atomic, "write_file", fail_at(number, write_file))
        try:
            assert convert_run(former)
            break
        except Crash:
            with pytest.raises(FormerRunError):
                Run(former)
        number += 1
    monkeypatch.undo()
    assert number > 3
    assert tensors(former) == whole
    assert Run(former).step == 6
    assert sorted(path.name for path in (former / "checkpoints").iterdir()) == [
        "00000006",
        "best",
        "latest",
    ]


def test_a_replaced_checkpoint_survives_a_crash_between_two_renames(former, monkeypatch) -> None:
    whole = tensors(former)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "_write", crash)
    with pytest.raises(KeyboardInterrupt):
        convert_run(former)
    monkeypatch.undo()
    assert not (former / TENSORS).exists()
    assert convert_run(former)
    assert tensors(former) == whole
    wmtk.load(former)


def test_a_damaged_checkpoint_is_left_as_it_is_with_a_message(former) -> None:
    file = former / TENSORS
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    messages: list[str] = []
    assert convert_run(former, messages.append)
    assert len(messages) == 1
    assert "checksum is wrong" in messages[0]
    assert file.read_bytes() == bytes(data)
    with pytest.raises(CheckpointError):
        wmtk.load(former)


def test_an_edited_config_is_not_converted(former) -> None:
    file = former / "config.yaml"
    file.write_text(file.read_text().replace("units: 4", "units: 5"))
    before = contents(former)
    with pytest.raises(wmtk.WmtkError, match="was edited"):
        convert_run(former)
    assert contents(former) == before


def test_a_run_in_training_is_not_converted(former) -> None:
    with (
        atomic.FolderLock(former, exclusive=True),
        pytest.raises(wmtk.WmtkError, match="Another process"),
    ):
        convert_run(former)


def test_other_folders_are_no_runs(tmp_path) -> None:
    with pytest.raises(wmtk.WmtkError, match="not a run directory"):
        convert_run(tmp_path)


def test_settings_with_former_names_are_refused_with_the_present_ones(former) -> None:
    values = yaml.safe_load((former / "config.yaml").read_text())
    with pytest.raises(ConfigError) as caught:
        TrainingConfig.build(values)
    for old, new in {
        "behaviour.trace": "behavior.lambda_",
        "behaviour.actor.rate": "behavior.actor.lr",
        "behaviour.entropy.start": "behavior.entropy.start",
        "optimizer.decay": "optimizer.weight_decay",
        "cadence.picture": "logging.image_every",
        "cadence.held_out_batches": "logging.held_out_batches",
        "online.every": "online.train_every",
        "model.depth": "model.cnn_depth",
    }.items():
        assert f"  {old} → {new}\n" in caught.value.message + "\n"
    assert "model.layers" not in caught.value.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("behaviour.trace", "behavior.lambda_"),
        ("optimizer.rate", "optimizer.lr"),
        ("cadence.log", "logging.log_every"),
        ("online.learn_behaviour", "online.learn_behavior"),
    ],
)
def test_a_former_setting_on_the_command_line_is_refused_with_the_present_one(old, new) -> None:
    with pytest.raises(ConfigError, match=f"{old} → {new}"):
        TrainingConfig().override({old: 1})


def test_every_present_setting_keeps_its_name() -> None:
    values = TrainingConfig().model_dump(mode="json")
    assert TrainingConfig.build(values) == TrainingConfig()
    assert np.isfinite(values["optimizer"]["lr"])
    assert conversion.rename_settings(values) == values
    assert checkpoint.KEEP == 3
