"""Pixels, borders and text."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.viz.draw import canvas as canvas_module
from wmtk.viz.draw.canvas import (
    CLEAR,
    PAPER,
    RED,
    Canvas,
    drawable,
    elide,
    enlarge,
    font_file,
    shrink,
    text_width,
    to_rgb,
    wrap,
)


def test_enlarging_repeats_pixels_exactly():
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    large = enlarge(image, 3)
    assert large.shape == (15, 21, 3)
    for dy in range(3):
        for dx in range(3):
            assert (large[dy::3, dx::3] == image).all()


def test_shrinking_averages():
    image = np.zeros((8, 4, 3), np.uint8)
    image[::2] = 200
    assert (shrink(image, 4) == 100).all()
    assert shrink(image, 4).shape == (4, 2, 3)
    assert shrink(image, 8) is image


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1)])
def test_gray_becomes_rgb(shape):
    gray = np.arange(6, dtype=np.uint8).reshape(shape)
    rgb = to_rgb(gray)
    assert rgb.shape == (2, 3, 3)
    assert (rgb == np.arange(6).reshape(2, 3, 1)).all()


def test_rgba_is_laid_over_gray():
    pixels = np.array([[[10, 20, 30, 255], [10, 20, 30, 0], [0, 100, 200, 51]]], np.uint8)
    opaque, clear, mixed = to_rgb(pixels)[0].tolist()
    assert opaque == [10, 20, 30]
    assert clear == [CLEAR] * 3
    assert mixed == [160, 180, 200]  # a fifth of the color, four fifths of 200


def test_border_lies_around_the_area():
    canvas = Canvas(20, 20)
    canvas.border(5, 6, 8, 7, RED, 2)
    red = (canvas.pixels() == RED).all(-1)
    expected = np.zeros((20, 20), bool)
    expected[4:15, 3:15] = True
    expected[6:13, 5:13] = False
    assert (red == expected).all()


def test_fill_and_paste_are_exact():
    canvas = Canvas(10, 10)
    canvas.fill(1, 2, 3, 4, RED)
    canvas.fill(0, 0, 0, 5, RED)
    canvas.paste(6, 6, np.full((2, 2, 3), 7, np.uint8))
    pixels = canvas.pixels()
    assert (pixels == RED).all(-1).sum() == 12
    assert (pixels[2:6, 1:4] == RED).all()
    assert (pixels[6:8, 6:8] == 7).all()
    assert tuple(pixels[0, 0]) == PAPER


def test_pixels_are_a_copy():
    canvas = Canvas(2, 2)
    before = canvas.pixels()
    canvas.fill(0, 0, 2, 2, RED)
    assert (before == 255).all()
    assert before.flags.writeable


def test_text_of_the_field_is_drawn_as_it_is():
    text = "random ε=0.1 −2 × λ é ü → …"
    assert drawable(text) == text
    assert drawable("日本\n") == "???"
    accents = Canvas(40, 20), Canvas(40, 20)
    for canvas, letter in zip(accents, "eé", strict=True):
        canvas.text(5, 2, letter)
    assert (accents[0].pixels() != accents[1].pixels()).any()


def test_without_matplotlib_the_font_of_pillow_and_plain_characters_are_used(monkeypatch):
    for cached in (canvas_module.font_file, canvas_module._font, canvas_module._drawable):
        cached.cache_clear()
    monkeypatch.setattr(canvas_module, "find_spec", lambda name: None)
    try:
        assert font_file() is None
        assert drawable("random ε=0.1 −2 × λ é …") == "random eps=0.1 -2 x lambda e …"
        assert drawable("日本\n") == "???"
        assert text_width("−2 × 3") == text_width("-2 x 3")
    finally:
        for cached in (canvas_module.font_file, canvas_module._font, canvas_module._drawable):
            cached.cache_clear()


def test_text_stays_within_its_width():
    text = "a policy with a very long name"
    short = elide(text, 80)
    assert short.endswith("…")
    assert text_width(short) <= 80
    assert elide("short", 80) == "short"
    assert wrap("short", 80) == ["short"]
    lines = wrap(text, 80)
    assert len(lines) == 2
    assert text.startswith(lines[0])
    assert max(map(text_width, lines)) <= 80
    canvas = Canvas(200, 30)
    canvas.text(10, 5, short)
    columns = np.flatnonzero((canvas.pixels() != 255).any((0, 2)))
    assert columns.min() >= 9
    assert columns.max() <= 90
