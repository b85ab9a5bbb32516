"""What training reports: numbers that mean what they say, the same in both places."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
import torch
from PIL import Image

from wmtk.agent.open_loop_images import CONTEXT, HORIZON
from wmtk.datasets import SequenceSampler, Source
from wmtk.envs import resolve
from wmtk.models.conv import to_float
from wmtk.runs.metrics_log import MetricsLog, read_metrics
from wmtk.spaces import ArraySpec
from wmtk.training.model_stage import train_model
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.online.train import online

LOSSES = {"loss/total", "loss/constant_free", "loss/kl", "loss/reward", "loss/discount"}
LOSSES |= {"loss/image/image", "mse/image", "psnr/image", "mse/reward", "kl"}
LOSSES |= {"entropy/prior", "entropy/posterior", "codes/perplexity"}
TRAINING = {"train/grad_norm/model", "train/lr/model"}
TIME = {"time/updates_per_second", "time/data_wait"}


def read_tensorboard(folder: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0})
    return events.Reload()


def test_everything_is_reported_in_both_places(dataset, config, tmp_path) -> None:
    changed = config.override({"logging.image_every": 3})
    run = train_model([Source(dataset)], tmp_path / "run", changed, updates=4)
    reports = read_metrics(run.path)
    expected = {f"{side}/{name}" for side in ("train", "val") for name in LOSSES}
    assert set().union(*reports) == expected | TRAINING | TIME | {"step"}
    board = read_tensorboard(run.path / "tensorboard")
    assert set(board.Tags()["scalars"]) == expected | TRAINING | TIME
    for report in reports:
        for name in report.keys() - {"step"}:
            (shown,) = [e.value for e in board.Scalars(name) if e.step == report["step"]]
            assert shown == pytest.approx(report[name], rel=1e-5)
    assert [event.step for event in board.Images("val/open_loop/image")] == [3, 4]
    films = board.Images("val/open_loop_video/image")
    assert [event.step for event in films] == [3, 4]
    film = Image.open(io.BytesIO(films[0].encoded_image_string))
    assert (film.format, film.n_frames) == ("GIF", CONTEXT + HORIZON)


def test_an_online_run_is_in_tensorboard(config, tmp_path) -> None:
    """Returns, losses of both, pictures and films, and how many codes are used."""
    settings = {"behavior.layers": 1, "behavior.units": 8, "behavior.horizon": 2}
    settings |= {
        "online.prefill": 60,
        "online.pretrain": 4,
        "online.train_every": 16,
        "online.envs": 1,
    }
    settings |= {"online.evaluate": 160, "online.episodes": 1, "logging.image_every": 8}
    run = online(resolve("wmtk/Catch-v0"), tmp_path / "run", config.override(settings), steps=240)
    reports = read_metrics(run.path)
    board = read_tensorboard(run.path / "tensorboard")
    assert set(board.Tags()["scalars"]) == set().union(*reports) - {"step"}
    for name in board.Tags()["scalars"]:
        wanted = [(r["step"], r[name]) for r in reports if name in r]
        shown = [(event.step, event.value) for event in board.Scalars(name)]
        assert [step for step, _ in shown] == [step for step, _ in wanted]
        assert [x for _, x in shown] == pytest.approx([x for _, x in wanted], rel=1e-5), name
    shown = {name: len(board.Scalars(name)) for name in board.Tags()["scalars"]}
    behavior = ("train/loss/actor", "train/loss/critic", "train/entropy/actor")
    for name in (*(f"train/{loss}" for loss in LOSSES), *TRAINING, *behavior):
        assert shown[name] == -(-run.step // config.logging.log_every), name
    assert shown["eval/return"] == 2
    assert shown["return/train"] > 0
    last = board.Scalars("train/codes/perplexity")[-1].value
    assert 1 <= last <= config.model.rssm.classes
    for name in ("train/open_loop/image", "train/open_loop_video/image"):
        assert [event.step for event in board.Images(name)] == [8, run.step]
    picture, film = (
        Image.open(io.BytesIO(board.Images(f"train/{name}/image")[0].encoded_image_string))
        for name in ("open_loop", "open_loop_video")
    )
    assert (picture.format, film.format) == ("PNG", "GIF")
    assert film.n_frames == CONTEXT + HORIZON


def test_the_error_of_images_is_that_of_decoding_them(make_dataset, config) -> None:
    """Without decoding a second time: from the likelihood, less its constant."""
    image = ArraySpec("box", (64, 64, 3), "uint8", 0, 255)
    data = make_dataset(
        obs={"camera": image, "pose": ArraySpec("box", (2,), "float32")}, lengths=(3, 12)
    )
    scaled = {"model.image_scale": 0.5, "model.vector_scale": 2.0, "model.reward_scale": 3.0}
    trainer = ModelTrainer(config.override(scaled), data.schema, torch.device("cpu"))
    inputs = trainer.inputs(SequenceSampler(data, batch_size=6, length=8).sample())
    assert not inputs.mask.all()  # short episodes are padded
    with torch.no_grad():
        torch.manual_seed(0)
        report = trainer.summarize([trainer.validate(inputs, 1)])
        torch.manual_seed(0)
        feat = trainer.model.observe(inputs).feat
        image_error = trainer.model.decode(feat)["camera"] - to_float(inputs.obs["camera"])
        pose_error = trainer.model.vector_decoder(feat) - inputs.obs["pose"]
        reward_error = trainer.model.reward(feat) - inputs.reward
    mse = image_error[inputs.mask].square().mean().item()
    assert report["mse/camera"] == pytest.approx(mse, rel=1e-4)
    assert report["psnr/camera"] == pytest.approx(-10 * math.log10(mse), rel=1e-4)
    pose, reward = (e[inputs.mask].square().mean().item() for e in (pose_error, reward_error))
    assert report["mse/vector"] == pytest.approx(pose, rel=1e-3)
    assert report["mse/reward"] == pytest.approx(reward, rel=1e-3)
    squares = 0.5 * 64 * 64 * 3 / 2 * mse + 2 * 2 / 2 * pose + 3 / 2 * reward
    free = squares + report["loss/kl"] + report["loss/discount"]
    assert report["loss/constant_free"] == pytest.approx(free, rel=1e-3)
    terms = trainer.progress_terms(report)
    assert terms["image"] == pytest.approx(0.5 * 64 * 64 * 3 / 2 * mse, rel=1e-3)
    assert terms["reward"] == pytest.approx(3 / 2 * reward, rel=1e-3)
    assert terms["loss"] == report["loss/constant_free"]


@pytest.mark.parametrize("free_nats", [0.0, 1e3])
def test_kl_is_in_nats_before_scales_and_free_nats(dataset, config, free_nats) -> None:
    changed = config.override({"model.kl_scale": 3.0, "model.free_nats": free_nats})
    trainer = ModelTrainer(changed, dataset.schema, torch.device("cpu"))
    inputs = trainer.inputs(SequenceSampler(dataset, batch_size=2, length=6).sample())
    with torch.no_grad():
        torch.manual_seed(0)
        report = trainer.summarize([trainer.validate(inputs, 1)])
        torch.manual_seed(0)
        post, rssm = trainer.model.observe(inputs), trainer.model.rssm
        nats = rssm.latent.kl(post.dist_params, rssm.prior(post.deter))[inputs.mask].mean().item()
    assert report["kl"] == pytest.approx(nats, rel=1e-4)
    assert trainer.progress_terms(report)["kl"] == report["kl"]  # in the progress line
    assert report["loss/kl"] == pytest.approx(3 * max(nats, free_nats), rel=1e-4)


def test_several_batches_are_reported_by_their_mean(dataset, config) -> None:
    trainer = ModelTrainer(config, dataset.schema, torch.device("cpu"))
    sampler = SequenceSampler(dataset, batch_size=2, length=6)
    metrics = [trainer.validate(trainer.inputs(sampler.sample()), 1) for _ in range(2)]
    both = trainer.summarize(metrics)
    one, other = (trainer.summarize([m]) for m in metrics)
    for name in ("loss/total", "kl", "mse/image"):
        assert both[name] == pytest.approx((one[name] + other[name]) / 2, rel=1e-4)


def test_a_term_that_is_switched_off_is_not_divided_by(dataset, config) -> None:
    off = config.override({"model.image_scale": 0.0, "model.reward_scale": 0.0})
    trainer = ModelTrainer(off, dataset.schema, torch.device("cpu"))
    inputs = trainer.inputs(SequenceSampler(dataset, batch_size=2, length=6).sample())
    report = trainer.summarize([trainer.validate(inputs, 1)])
    assert report["loss/constant_free"] == report["loss/total"]
    assert not {"mse/image", "psnr/image", "mse/reward"} & report.keys()
    assert trainer.progress_terms(report)["reward"] == 0


def test_the_rate_that_is_reported_is_the_one_in_use(dataset, config, tmp_path) -> None:
    falling = {"start": 1e-3, "end": 1e-4, "steps": 4}
    changed = config.override({"optimizer.lr": falling, "optimizer.warmup": 0})
    run = train_model([Source(dataset)], tmp_path / "r", changed, updates=4)
    rates = [r["train/lr/model"] for r in read_metrics(run.path) if "train/lr/model" in r]
    assert rates == pytest.approx([5.5e-4, 1e-4])


def test_what_is_not_finite_is_null_and_lines_cut_short_are_left_out(tmp_path) -> None:
    log = MetricsLog(tmp_path)
    log.scalars(1, {"a": 1.0, "b": math.inf})
    log.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "a"')
    assert read_metrics(tmp_path) == [{"step": 1, "a": 1.0, "b": None}]
    json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    assert read_metrics(tmp_path / "elsewhere") == []
