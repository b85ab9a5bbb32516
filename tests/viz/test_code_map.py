"""The map of code usage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from wmtk.agent.outputs import Posterior
from wmtk.errors import UsageError
from wmtk.viz.latent_codes import code_distributions
from wmtk.viz.metrics import code_usage
from wmtk.viz.plots.code_map import DARK_COLOR, DEAD_COLOR, LIGHT_COLOR, code_map
from wmtk.viz.plots.figures import figure_pixels

from .dots import PLACES, DotModel, record


def test_codes_of_all_frames() -> None:
    batch = record(windows=3, rows=5)
    mask = batch.mask.copy()
    mask[1, 3:] = False
    heard: list[int] = []
    posterior, prior = code_distributions(
        DotModel(), [replace(batch, mask=mask)], on_windows=heard.append
    )
    assert posterior.shape == prior.shape == (13, 1, PLACES)
    assert heard == [3]


def test_a_cell_is_as_dark_as_its_class_is_used() -> None:
    posterior = np.zeros((10, 2, 4))
    posterior[:9, 0, 1] = posterior[9:, 0, 2] = 1
    posterior[:, 1] = 0.25
    usage = code_usage(posterior)
    figure = code_map(usage, np.full((2, 4), 0.25))
    figure_pixels(figure)
    post, prior = (axes.collections[0] for axes in figure.axes[:2])
    colors = np.array([to_hex(color) for color in post.get_facecolors()]).reshape(2, 4)
    assert colors[0, 0] == colors[0, 3] == DEAD_COLOR
    assert colors[1].tolist() == [between(0.25)] * 4
    assert colors[0].tolist()[1:3] == [between(0.9), between(0.1)]
    assert {to_hex(color) for color in prior.get_facecolors()} == {between(0.25)}


def between(share: float) -> str:
    """The color of a share: from light to dark, in 256 steps, as far as its square root."""
    light, dark = (np.array(to_rgb(color)) for color in (LIGHT_COLOR, DARK_COLOR))
    level = int(256 * share**0.5) / 255
    return to_hex(light + (dark - light) * level)


def test_bars_have_the_numbers_of_each_variable() -> None:
    posterior = np.zeros((10, 2, 4))
    posterior[:5, 0, 0] = posterior[5:, 0, 3] = 1  # two classes in use, by turns
    posterior[:, 1, 2] = 1
    figure = code_map(code_usage(posterior), np.full((2, 4), 0.25), title="t", caption="c")
    figure_pixels(figure)
    perplexity, information = figure.axes[2:4]
    assert [bar.get_width() for bar in perplexity.patches] == pytest.approx([2, 1])
    widths = [bar.get_width() for bar in information.patches]
    assert widths == pytest.approx([np.log(2), 0], abs=1e-9)
    (marks,) = perplexity.collections
    assert [segment[0][0] for segment in marks.get_segments()] == pytest.approx([4, 4])
    assert perplexity.get_xlim() == (0, 4)
    assert perplexity.get_ylim() == figure.axes[0].get_ylim()  # rows are those of the maps
    assert perplexity.get_position().y0 == pytest.approx(figure.axes[0].get_position().y0)


@pytest.mark.parametrize(("variables", "classes"), [(32, 32), (16, 2), (1, 64)])
def test_maps_of_all_sizes(variables: int, classes: int) -> None:
    posterior = np.random.default_rng(0).dirichlet(np.ones(classes), (5, variables))
    usage = code_usage(posterior)
    pixels = figure_pixels(code_map(usage, usage.usage, title="t", caption="s"))
    assert 500 < pixels.shape[1] < 2400
    assert 250 < pixels.shape[0] < 1000
    edge = np.concatenate([pixels[:, :4], pixels[:, -4:]], 1)
    assert (edge == 255).all()


def test_gaussian_latents_have_no_codes() -> None:
    class Smooth(DotModel):
        def observe_batch(self, batch: object, seed: int = 0) -> Posterior:
            return replace(super().observe_batch(batch, seed), latent="gaussian")  # type: ignore[arg-type]

    with pytest.raises(UsageError, match="no codes"):
        code_distributions(Smooth(), [record(windows=1)])
