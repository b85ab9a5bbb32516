"""Scaling by areas, against the definition written out and against OpenCV."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.area_resize import AreaScaler, area_weights


def share(before: int, after: int, new: int, old: int) -> float:
    """How much of a new pixel an old one covers, by counting a fine grid of points."""
    points = (np.arange(before * after) + 0.5) / after  # `before` points in each new pixel
    inside = points[new * before : (new + 1) * before]
    return float(((inside >= old) & (inside < old + 1)).mean())


@pytest.mark.parametrize(("before", "after"), [(5, 2), (7, 3), (21, 16), (3, 5)])
def test_weights_are_the_shares_of_the_area(before: int, after: int) -> None:
    counted = [[share(before, after, new, old) for old in range(before)] for new in range(after)]
    np.testing.assert_allclose(area_weights(before, after), counted, atol=1e-12)


@pytest.mark.parametrize("size", [64, 63, 40, 84, 100])
@pytest.mark.parametrize("shape", [(210, 160), (250, 160), (210, 160, 3)])
def test_the_result_is_the_mean_of_areas_rounded_once(shape: tuple[int, ...], size: int) -> None:
    via = 84 if size < 84 else None
    picture = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    rows, columns = area_weights(shape[0], via or size), area_weights(shape[1], via or size)
    if via:
        rows, columns = area_weights(via, size) @ rows, area_weights(via, size) @ columns
    planes = picture.reshape(*shape[:2], -1).astype(float)
    exact = np.einsum("ih,hwc,jw->ijc", rows, planes, columns)
    result = AreaScaler(*shape[:2], size, via)(picture)
    assert result.shape == (size, size, planes.shape[-1])
    assert result.flags.c_contiguous
    assert np.abs(result - exact).max() < 0.501


def test_one_color_stays_that_color() -> None:
    scaler = AreaScaler(210, 160, 64, via=84)
    for level in range(256):
        assert (scaler(np.full((210, 160), level, np.uint8)) == level).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_within_one_level_of_opencv(channels: int) -> None:
    cv2 = pytest.importorskip("cv2")
    picture = np.random.default_rng(1).integers(0, 256, (210, 160, channels)).astype(np.uint8)
    through = cv2.resize(picture, (84, 84), interpolation=cv2.INTER_AREA)
    expected = cv2.resize(through, (64, 64), interpolation=cv2.INTER_AREA).reshape(64, 64, channels)
    result = AreaScaler(210, 160, 64, via=84)(picture)
    assert np.abs(result.astype(int) - expected).max() <= 1
