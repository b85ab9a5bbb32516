"""What the page gets to draw: pictures, or numbers where there are none."""

from __future__ import annotations

import json
import struct

import numpy as np

from wmtk.agent.outputs import LatentState, Prediction
from wmtk.datasets import Schema
from wmtk.spaces import ArraySpec
from wmtk.viz.live.frame_painter import FramePainter, code_tile
from wmtk.viz.live.protocol import Frame, dump

ACTION = ArraySpec("discrete", (), "int64", 0, 1)


def glimpse(obs, latent_shape=(2, 3, 4)) -> Prediction:
    S = latent_shape[0]
    zeros = np.zeros(S, np.float32)
    prior = np.full(latent_shape, 0.25, np.float32)
    return Prediction(obs, zeros, zeros, None, prior, zeros)


def test_numbers_are_shown_where_there_are_no_pictures() -> None:
    painter = FramePainter(Schema({"state": ArraySpec("box", (3,), "float32")}, ACTION))
    states = np.arange(6, dtype=np.float32).reshape(2, 3)
    tiles, numbers = painter.paint(glimpse({"state": states}), {"state": states[1]}, None)
    assert tiles == []
    assert numbers["dream0"].tolist() == [0, 1, 2]
    assert numbers["truth"].tolist() == [3, 4, 5]


def test_pictures_with_transparency_lose_it_and_gray_ones_stay_gray() -> None:
    for channels, kept in ((1, 1), (3, 3), (4, 3)):
        spec = ArraySpec("box", (8, 8, channels), "uint8", 0, 255)
        painter = FramePainter(Schema({"image": spec}, ACTION))
        image = np.zeros((2, 8, 8, channels), np.uint8)
        tiles, _ = painter.paint(glimpse({"image": image}), None, None)
        assert [pixels.shape for _, pixels in tiles] == [(8, 8, kept)] * 2


def test_codes_are_those_of_the_first_future() -> None:
    state = LatentState(np.zeros((2, 1), np.float32), np.array([[1, 2, 3], [0, 0, 0]], np.int16))
    tile, codes = code_tile(glimpse({}), state, "categorical")
    assert tile is not None
    assert tile[1].shape == (3, 4)
    assert set(tile[1].ravel().tolist()) == {128}  # the root of a quarter
    assert codes == [1, 2, 3]
    assert code_tile(glimpse({}), state, "gaussian") == (None, [])


def test_a_frame_is_a_header_and_bytes() -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    frame = Frame(1, 0, 5, [[0.1]], {"rate": float("nan")}, [({"role": "dream0"}, pixels)])
    packed = frame.pack(9)
    (length,) = struct.unpack("<I", packed[:4])
    header = json.loads(packed[4 : 4 + length])
    assert header["tiles"] == [{"role": "dream0", "shape": [2, 2, 3]}]
    assert header["rate"] is None
    assert header["frame"] == 9
    assert packed[4 + length :] == pixels.tobytes()
    assert dump({"x": np.float32(0.5), "y": (1, float("inf"))}) == '{"x":0.5,"y":[1,null]}'


def test_images_of_other_forms_are_drawn() -> None:
    spec = ArraySpec("box", (3, 40, 50), "float32", 0.0, 1.0)
    painter = FramePainter(Schema({"camera": spec}, ACTION))
    frame = np.zeros(spec.shape, np.float32)
    frame[1] = 1.0
    ((_, pixels),), _ = painter.paint(None, {"camera": frame}, None)
    assert pixels.shape == (40, 50, 3)
    assert (pixels == [0, 255, 0]).all()
