"""The use of codes over a training, and of an episode step by step."""

from __future__ import annotations

import itertools

import numpy as np

from wmtk.viz.draw.code_squares import DARK, DEAD, LIGHT, map_pixels
from wmtk.viz.metrics import code_usage
from wmtk.viz.plots.code_history import CheckpointCodes, code_history, history_panels, spread
from wmtk.viz.plots.figures import figure_pixels
from wmtk.viz.videos.code_video import code_clips, code_frames

from .dots import PLACES, DotModel, record


def moment(update: int, classes: int) -> CheckpointCodes:
    """Two variables that use the first of four classes evenly, and a prior that uses them all."""
    rows = np.eye(4)[np.arange(12) % classes]
    posterior = np.stack([rows, rows], 1)
    return CheckpointCodes(update, code_usage(posterior), np.full((2, 4), 0.25))


def test_what_changes_from_checkpoint_to_checkpoint() -> None:
    panels = history_panels([moment(100, 1), moment(2000, 2), moment(30_000, 4)])
    curves = {panel.title: {c.name: c.values.value for c in panel.curves} for panel in panels}
    perplexity = curves["Perplexity of a variable (of 4)"]
    np.testing.assert_allclose(perplexity["posterior"], [1, 2, 4])
    np.testing.assert_allclose(perplexity["prior"], 4)
    np.testing.assert_allclose(curves["Dead classes"]["posterior"], [0.75, 0.5, 0])
    np.testing.assert_allclose(curves["Dead classes"]["prior"], 0)
    apart = curves["Distance of prior and posterior use"]["prior against posterior"]
    np.testing.assert_allclose(apart, [0.75, 0.5, 0])
    assert panels[0].x == [100, 2000, 30_000]


def test_a_history_has_curves_and_a_map_for_each_checkpoint() -> None:
    checkpoints = [moment(100 * n, 1 + n % 4) for n in range(1, 4)]
    for shown in (checkpoints, checkpoints[:1]):
        figure = code_history(shown, title="Codes", caption="Frames.")
        figure_pixels(figure)
        maps = [axes for axes in figure.axes if axes.images]
        assert len(figure.axes) - len(maps) == 4 + 2 * (10 - len(shown))  # four are of curves
        updates = [f"{checkpoint.update}" for checkpoint in shown]
        assert [axes.get_xlabel() for axes in maps] == 2 * updates
        dead = [int(axes.images[0].get_array().mask.sum()) for axes in maps]
        assert dead[: len(shown)] == [int(checkpoint.usage.dead.sum()) for checkpoint in shown]
        assert sum(dead[len(shown) :]) == 0  # the prior uses all classes


def test_of_many_checkpoints_some_are_shown() -> None:
    moments = [moment(n, 2) for n in range(1, 101)]
    shown = [m.update for m in spread(moments, 12)]
    assert len(shown) == 12
    assert (shown[0], shown[-1]) == (1, 100)
    assert spread(moments[:3], 12) == moments[:3]


def test_squares_of_a_map() -> None:
    pixels = map_pixels(np.array([[0.0, 1.0, 0.001]]), 4, 0.0025)
    assert pixels.shape == (4, 12, 3)
    assert tuple(pixels[0, 0]) == DEAD
    assert tuple(pixels[0, 4]) == DARK
    assert tuple(pixels[0, 8]) == DEAD
    assert tuple(map_pixels(np.zeros((1, 1)), 4)[0, 0]) == LIGHT  # nothing is dead without a limit


def test_the_codes_of_an_episode() -> None:
    batch = record(windows=2, rows=6)
    seen = DotModel().observe_batch(batch)
    first, second = code_clips(seen, batch, "image")
    assert second.title == "episode 1, steps 0 to 5"
    assert first.posterior.shape == (6, 1, PLACES)
    still = batch.obs["image"][0, 1:] == batch.obs["image"][0, :-1]
    stayed = still.all((1, 2, 3))
    # The prior gives 1/2 + 1/16 to where the dot was, and 1/16 to any other place.
    expected = np.where(stayed, -np.log(9 / 16), -np.log(1 / 16))
    np.testing.assert_allclose(first.kl[1:], expected, rtol=1e-5)
    frames = list(code_frames(first, title="Codes"))
    assert len(frames) == 6
    assert len({frame.shape for frame in frames}) == 1
    assert all((a != b).any() for a, b in itertools.pairwise(frames))


def test_the_codes_of_an_episode_without_pictures() -> None:
    batch = record(windows=1, rows=4)
    (film,) = code_clips(DotModel().observe_batch(batch), batch, None)
    assert film.truth is None
    assert len(list(code_frames(film))) == 4
