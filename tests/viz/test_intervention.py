"""Codes changed one at a time, in a model whose codes are known to be places."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wmtk.agent.outputs import Posterior
from wmtk.errors import UsageError
from wmtk.viz.draw.canvas import RED
from wmtk.viz.intervention import Intervention, set_codes
from wmtk.viz.metrics import code_usage
from wmtk.viz.sheets.intervention_sheet import change, heat, intervention_sheet
from wmtk.viz.videos.intervention_video import HOLD, intervention_frames

from .dots import PLACES, SIDE, draw


class TwoCodes:
    """The first code is the place of a dot, the second is idle."""

    def decode(self, deter: NDArray[Any], stoch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        place = stoch.reshape(*stoch.shape[:-1], 2, PLACES)[..., 0, :].argmax(-1)
        return {"image": draw(place)}


def see(places: list[int], latent: str = "categorical") -> Posterior:
    one_hot = np.eye(PLACES, dtype=np.float32)
    codes = np.stack([one_hot[places], one_hot[[2] * len(places)]], 1)[None]  # (1, T, 2, K)
    T = len(places)
    return Posterior(
        obs={},
        reward=np.zeros((1, T), np.float32),
        discount=np.zeros((1, T), np.float32),
        deter=np.zeros((1, T, 3), np.float32),
        stoch=codes.reshape(1, T, -1),
        latent=latent,
        posterior=codes,
        prior=codes,
    )


@pytest.fixture
def found() -> Intervention:
    seen = see([1, 3, 5, 5])
    rows = np.array([0, 0]), np.array([0, 2])  # the first and the third frame
    return set_codes(TwoCodes(), seen, rows, "image", code_usage(seen.posterior[0]))


def test_only_classes_in_use_are_tried(found: Intervention) -> None:
    assert [classes.tolist() for classes in found.classes] == [[1, 3, 5], [2]]
    np.testing.assert_array_equal(found.chosen, [[1, 2], [5, 2]])


def test_a_changed_code_is_shown(found: Intervention) -> None:
    assert found.images[0].shape == (2, 3, SIDE, SIDE, 1)
    for frame in range(2):
        np.testing.assert_array_equal(found.images[0][frame], draw(np.array([1, 3, 5])))
    np.testing.assert_array_equal(found.before, draw(np.array([1, 5])))


def test_regions_are_where_the_code_acts(found: Intervention) -> None:
    """Of frames at 1 and 5, weighted by use: 1 a quarter, 3 a quarter, 5 a half."""
    assert found.effect[1] == 0
    left, right = found.regions[0, 8, 2], found.regions[0, 8, 10]
    assert left == pytest.approx((0.75 + 0.25) / 2)  # gone from 1 in ¾, come to 1 in ¼
    assert right == pytest.approx((0.5 + 0.5) / 2)
    assert found.regions[0, 8, 6] == pytest.approx(0.25)
    assert found.regions[0, 0].max() == 0


def test_the_number_of_classes_is_limited() -> None:
    seen = see([0, 1, 2, 3, 3, 3, 2])
    usage = code_usage(seen.posterior[0])
    rows = np.array([0]), np.array([0])
    found = set_codes(TwoCodes(), seen, rows, "image", usage, most_classes=2)
    assert found.classes[0].tolist() == [2, 3]


def test_binary_codes_are_switched() -> None:
    class Lamp:
        def decode(self, deter: NDArray[Any], stoch: NDArray[Any]) -> dict[str, NDArray[Any]]:
            return {"image": draw((stoch[..., 0] > 0.5).astype(np.int64) * 3)}

    on = np.array([[[0.0, 1.0], [1.0, 0.0]]], np.float32)  # (1, T, V): two frames, two switches
    both = np.stack([1 - on, on], -1)
    seen = replace(see([0, 0], "binary"), stoch=on, posterior=both, prior=both)
    rows = np.array([0]), np.array([0])
    found = set_codes(Lamp(), seen, rows, "image", code_usage(both[0]))
    np.testing.assert_array_equal(found.images[0][0], draw(np.array([0, 3])))
    np.testing.assert_array_equal(found.chosen, [[0, 1]])


def test_gaussian_latents_have_no_codes() -> None:
    seen = see([1, 2], "gaussian")
    with pytest.raises(UsageError, match="no codes"):
        set_codes(
            TwoCodes(),
            seen,
            (np.array([0]), np.array([0])),
            "image",
            code_usage(seen.posterior[0]),
        )


def test_the_sheet(found: Intervention) -> None:
    pixels = intervention_sheet(found, title="t", subtitle="s")
    assert pixels.std() > 5
    one = intervention_sheet(found, variables=1)
    assert one.shape[0] < pixels.shape[0]


def test_colors_of_change() -> None:
    before = np.array([[[100, 100, 100]]], np.uint8)
    assert change(before, before).item(0) == 127
    assert change(before, before + 20).item(0) == 157
    assert change(before, before * 0).item(0) == 0
    pixels = heat(np.array([[0.0, 0.5, 1.0, 7.0]]), 1.0)
    assert tuple(pixels[0, 0]) == (255, 255, 255)
    assert tuple(pixels[0, 2]) == tuple(pixels[0, 3])
    assert pixels[0, 0].sum() > pixels[0, 1].sum() > pixels[0, 2].sum()


def test_codes_run_through_their_classes_in_a_video(found: Intervention) -> None:
    frames = list(intervention_frames(found, variables=2, title="Codes"))
    assert len(frames) == HOLD * (1 + 3)  # as it is, then each class of the first code
    assert len({frame.shape for frame in frames}) == 1
    distinct = frames[::HOLD]
    assert all((a != b).any() for a, b in itertools.pairwise(distinct))
    own = [(frame == RED).all(-1).any() for frame in distinct]
    assert own == [False, True, True, True]  # the idle code has its own class in each
