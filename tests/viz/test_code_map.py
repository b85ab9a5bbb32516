"""The map of code usage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wmtk.agent.outputs import Posterior
from wmtk.errors import UsageError
from wmtk.viz.latent_codes import code_distributions
from wmtk.viz.metrics import code_usage
from wmtk.viz.plots.code_map import DEAD, HEAD, HEADER, LARGEST, MARGIN, NAMES, code_map, shade

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
    found = code_usage(posterior)
    pixels = code_map(found, found.usage)
    cell = LARGEST
    x, y = MARGIN + NAMES, HEADER + HEAD

    def color(variable: int, code: int) -> tuple[int, ...]:
        return tuple(pixels[y + variable * cell + 2, x + code * cell + 2].tolist())

    assert color(0, 1) == shade(0.9)
    assert color(0, 2) == shade(0.1)
    assert color(0, 0) == color(0, 3) == DEAD
    assert color(1, 0) == shade(0.25)


@pytest.mark.parametrize(("variables", "classes"), [(32, 32), (16, 2), (1, 64)])
def test_maps_of_all_sizes(variables: int, classes: int) -> None:
    posterior = np.random.default_rng(0).dirichlet(np.ones(classes), (5, variables))
    found = code_usage(posterior)
    pixels = code_map(found, found.usage, title="t", subtitle="s")
    assert pixels.shape[1] < 2000
    assert pixels.shape[0] < 1000


def test_gaussian_latents_have_no_codes() -> None:
    class Smooth(DotModel):
        def observe_batch(self, batch: object, seed: int = 0) -> Posterior:
            return replace(super().observe_batch(batch, seed), latent="gaussian")  # type: ignore[arg-type]

    with pytest.raises(UsageError, match="no codes"):
        code_distributions(Smooth(), [record(windows=1)])
