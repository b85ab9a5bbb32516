"""Training a world model: resuming bit for bit, held-out loss, what stops it."""

from __future__ import annotations

import json

import pytest
import torch

import wmtk
from wmtk.datasets import Source
from wmtk.errors import CheckpointError, RunError
from wmtk.runs.run_directory import Run
from wmtk.spaces import ArraySpec
from wmtk.training.model_stage import train_model


def train(dataset, out, config, steps, **options) -> Run:
    return train_model([Source(dataset)], out, config, updates=steps, **options)


def test_two_halves_are_the_whole_bit_for_bit(dataset, config, tmp_path) -> None:
    whole = train(dataset, tmp_path / "whole", config, 8).checkpoints.load()
    train(dataset, tmp_path / "halves", config, 4)
    halves = train(dataset, tmp_path / "halves", config, 8, resume=True).checkpoints.load()
    assert whole.tensors.keys() == halves.tensors.keys()
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, halves.tensors[name]), name
    assert whole.hash == halves.hash
    assert whole.state == halves.state


def test_a_small_model_is_trained_with_one_thread_and_leaves_the_others_alone(
    dataset, config, tmp_path, monkeypatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    threads: list[int] = []
    try:
        train(
            dataset,
            tmp_path / "run",
            config,
            2,
            on_progress=lambda _: threads.append(torch.get_num_threads()),
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == [1, 1]


def test_evaluating_more_often_changes_nothing(dataset, config, tmp_path) -> None:
    often = train(dataset, tmp_path / "a", config.override({"logging.evaluate_every": 1}), 6)
    never = train(dataset, tmp_path / "b", config.override({"logging.evaluate_every": 99}), 6)
    a, b = often.checkpoints.load().tensors, never.checkpoints.load().tensors
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_the_best_is_so_by_one_and_the_same_loss(dataset, config, tmp_path) -> None:
    often = config.override({"logging.evaluate_every": 1, "logging.checkpoint_every": 1})
    train(dataset, tmp_path / "run", often, 4)
    dearer = often.override({"model.image_scale": 10.0})  # all losses are larger now
    run = train(dataset, tmp_path / "run", dearer, 6, resume=True)
    assert run.checkpoints.load("best").step > 4


def test_held_out_losses_compare_while_the_scale_of_the_divergence_changes(
    dataset, config, tmp_path
) -> None:
    ramp = {"start": 0.0, "end": 50.0, "steps": 1000}
    rising = config.override({"model.kl_scale": ramp, "logging.evaluate_every": 2})
    train(dataset, tmp_path / "run", rising, 4)
    lines = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scales = [x["val/loss/kl"] / x["val/kl"] for x in lines if "val/kl" in x]
    assert scales == pytest.approx([50.0, 50.0])
    taught = [x["train/loss/kl"] / x["train/kl"] for x in lines if "train/kl" in x]
    assert taught == pytest.approx([0.1, 0.2])


ACTIONS = {
    "multi-discrete": ArraySpec("multi_discrete", (2,), "int64", (0, 0), (2, 3)),
    "binary": ArraySpec("multi_binary", (4,), "int8", 0, 1),
    "continuous": ArraySpec("box", (2,), "float32", -1.0, 1.0),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_every_kind_of_action(action, make_dataset, config, tmp_path) -> None:
    data = make_dataset(actions=action)
    train(data, tmp_path / "run", config, 2)
    model, episode = wmtk.load(tmp_path / "run"), data[0]
    state = model.observe(episode).at(0)
    assert model.imagine(state, episode.action[None, 1:5]).deter.shape == (1, 4, 8)


def test_metrics_are_logged_once_also_after_resuming(dataset, config, tmp_path) -> None:
    train(dataset, tmp_path / "run", config, 4)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "train/loss/total": 0}\n{"step": 7, "tr')  # lost by a crash
    train(dataset, tmp_path / "run", config, 6, resume=True)
    lines = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in lines if "train/loss/total" in line]
    assert steps == [2, 4, 6]
    assert {"val/loss/total", "val/mse/image", "val/kl"} <= set().union(*lines)
    assert "train/grad_norm/model" in lines[0]


def test_the_run_records_what_it_was_made_of(dataset, config, tmp_path) -> None:
    run = train(dataset, tmp_path / "run", config, 2)
    assert run.kind == "model"
    assert run.about["data"][0]["id"] == dataset.id
    assert run.about["data"][0]["version"] == dataset.version
    assert run.about["code_version"]
    assert run.config()["model"]["rssm"]["deter"] == 8


def test_an_existing_run_is_not_overwritten(dataset, config, tmp_path) -> None:
    train(dataset, tmp_path / "run", config, 2)
    with pytest.raises(RunError, match="resume=True"):
        train(dataset, tmp_path / "run", config, 2)


def test_resuming_on_other_data_is_refused(dataset, config, tmp_path) -> None:
    train(dataset, tmp_path / "run", config, 2)
    dataset.header = {**dataset.header, "id": "0" * 32}
    with pytest.raises(RunError, match="other data"):
        train(dataset, tmp_path / "run", config, 4, resume=True)


def test_a_damaged_checkpoint_is_refused(dataset, config, tmp_path) -> None:
    run = train(dataset, tmp_path / "run", config, 2)
    file = next((tmp_path / "run" / "checkpoints").glob("*/tensors.safetensors"))
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match="altered"):
        run.checkpoints.load()


def test_old_checkpoints_go_but_the_best_stays(dataset, config, tmp_path) -> None:
    run = train(dataset, tmp_path / "run", config, 2)
    checkpoints, tensors = run.checkpoints, {"x": torch.zeros(1)}
    checkpoints.save(10, tensors, {}, best=True)
    for step in range(11, 20):
        checkpoints.save(step, tensors, {})
    names = sorted(p.name for p in checkpoints.folder.iterdir() if p.is_dir())
    assert names == ["00000010", "00000017", "00000018", "00000019"]
    assert checkpoints.load("best").step == 10
