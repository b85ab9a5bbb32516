"""Open-loop prediction and its picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from wmtk.agent.open_loop_images import KEEP, open_loop_images, save_image
from wmtk.agent.predictions import open_loop
from wmtk.datasets import SequenceSampler, Source
from wmtk.spaces import ArraySpec
from wmtk.training.model_stage import train_model
from wmtk.training.model_trainer import ModelTrainer

GREEN, RED, WHITE = [24, 128, 56], [200, 38, 38], [255, 255, 255]
LEFT, CELL = 76, 137  # pixels: of the labels, and from one frame to the next


@pytest.fixture
def trainer(dataset, config) -> ModelTrainer:
    torch.manual_seed(0)
    return ModelTrainer(config, dataset.schema, torch.device("cpu"))


@pytest.fixture
def inputs(dataset, trainer):
    return trainer.inputs(SequenceSampler(dataset, batch_size=4, length=9).sample())


def test_what_is_imagined_follows_from_what_was_seen_and_the_actions(trainer, inputs) -> None:
    model = trainer.model
    torch.manual_seed(1)
    seen, imagined = open_loop(model, inputs, context=4, horizon=5)
    torch.manual_seed(1)
    with torch.no_grad():
        whole = model.observe(inputs)
    # The draws of the first rows are the same, as they come first.
    torch.testing.assert_close(seen.deter, whole.deter[:, :4])
    # The first deterministic state that is imagined needs no draw: it is that of the posterior.
    torch.testing.assert_close(imagined.deter[:, 0], whole.deter[:, 4])
    assert not torch.allclose(imagined.deter[:, 4], whole.deter[:, 8])
    torch.manual_seed(1)
    other = inputs._replace(action=inputs.action.roll(1, -1))
    assert not torch.allclose(
        open_loop(model, other, context=4, horizon=5)[1].deter, imagined.deter
    )


def test_samples_differ_but_begin_with_the_same(trainer, inputs) -> None:
    _, imagined = open_loop(trainer.model, inputs, context=4, horizon=5, samples=3)
    futures = imagined.stoch.unflatten(0, (4, 3))
    assert torch.equal(imagined.deter.unflatten(0, (4, 3))[:, 0, 0], imagined.deter[::3, 0])
    assert len({tuple(x.flatten().tolist()) for x in futures[0]}) == 3


def test_the_picture_shows_truth_model_and_error(trainer, inputs, monkeypatch) -> None:
    obs = inputs.obs["image"]

    def decode(feat):
        truth = obs[:3].float() / 255 - 0.5
        truth[0, 7] += 0.2  # too bright in one frame
        return {"image": truth}

    monkeypatch.setattr(trainer.model, "decode", decode)
    picture = open_loop_images(trainer.model, inputs)["image"]
    assert picture.shape == (3 * (3 * CELL + 12), LEFT + 9 * CELL, 3)
    for t in range(9):
        x = LEFT + t * CELL
        assert picture[2, x + 60].tolist() == (GREEN if t < 5 else RED)
        for row, value in ((0, obs[0, t]), (1, obs[0, t])):
            shown = picture[row * CELL + 3 : row * CELL + 131 : 2, x + 3 : x + 131 : 2, :1]
            if (row, t) != (1, 7):
                np.testing.assert_array_equal(shown, value.numpy())
        error = picture[2 * CELL + 3 : 2 * CELL + 131, x + 3 : x + 131]
        assert (error == 127).all() == (t != 7)
        assert t != 7 or error.max() == 127 + 26  # half of 0.2 · 255, rounded


def test_frames_after_the_end_of_an_episode_stay_blank(make_dataset, config) -> None:
    image = ArraySpec("box", (64, 64, 3), "uint8", 0, 255)
    data = make_dataset(obs={"front/left": image}, lengths=(3, 3))
    trainer = ModelTrainer(config, data.schema, torch.device("cpu"))
    inputs = trainer.inputs(SequenceSampler(data, batch_size=1, length=8).sample())
    ((key, picture),) = open_loop_images(trainer.model, inputs).items()
    assert key == "front/left"
    assert picture[2, LEFT + 3 * CELL + 60].tolist() == GREEN
    assert picture[2, LEFT + 4 * CELL + 60].tolist() == WHITE


def test_a_model_without_images_has_no_picture(make_dataset, config, tmp_path) -> None:
    run = train_model([Source(make_dataset())], tmp_path / "run", config, updates=2)
    assert not (run.path / "images").exists()


def test_pictures_are_files_and_do_not_pile_up(tmp_path) -> None:
    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    for step in range(1, KEEP + 4):
        path = save_image(tmp_path / "images", "front/left", step * 1000, picture)
    np.testing.assert_array_equal(np.asarray(Image.open(path)), picture)
    names = sorted(p.name for p in path.parent.iterdir())
    assert len(names) == KEEP
    assert names[0] == "open_loop-front_left-00004000.png"


def test_without_held_out_episodes_the_picture_is_of_others(dataset, config, tmp_path) -> None:
    run = train_model([Source(dataset)], tmp_path / "run", config, updates=2, val_fraction=0)
    assert [p.name for p in (run.path / "images").iterdir()] == ["open_loop-image-00000002.png"]
