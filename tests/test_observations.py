"""Observations as a model takes them: images of every form, chosen keys, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wmtk.errors import ConfigError, SchemaMismatchError
from wmtk.observations import ObsCodec, chosen_keys, images_of, to_bytes
from wmtk.spaces import ArraySpec


def box(shape: tuple[int, ...], dtype: str = "uint8", low=0, high=255) -> ArraySpec:
    return ArraySpec("box", shape, dtype, low, high)


def noise(spec: ArraySpec, rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, high = spec.bound("low").min(), spec.bound("high").max()
    drawn = low + rng.random((rows, *spec.shape)) * (float(high) - float(low))
    return (drawn if spec.dtype.startswith("float") else drawn.round()).astype(spec.dtype)


IMAGES = {
    "larger": (box((96, 96, 3)), "Images of 96×96 are resized to 64×64 (data.image_size)."),
    "smaller": (box((40, 33, 1)), "Images of 40×33 are resized to 64×64 (data.image_size)."),
    "no square": (box((100, 150, 4)), "Images of 100×150 are resized to 64×64 (data.image_size)."),
    "gray": (box((84, 84)), "Images of 84×84 are resized to 64×64 (data.image_size)."),
    "channel-first": (
        box((3, 84, 84)),
        "Images of 3×84×84 (uint8, 0 to 255) are resized to 64×64 (data.image_size).",
    ),
    "float": (
        box((3, 84, 84), "float32", 0, 1),
        "Images of 3×84×84 (float32, 0 to 1) are resized to 64×64 (data.image_size).",
    ),
    "float of the size": (
        box((64, 64, 3), "float64", -1, 1),
        "Images of 64×64×3 (float64, -1 to 1) are converted to bytes.",
    ),
    "float up to 255": (
        box((64, 64, 3), "float32", 0, 255),
        "Images of 64×64×3 (float32, 0 to 255) are converted to bytes.",
    ),
    "uint16": (
        box((100, 150), "uint16", 0, 65535),
        "Images of 100×150 (uint16, 0 to 65535) are resized to 64×64 (data.image_size).",
    ),
    "int64": (
        box((64, 64, 3), "int64", 0, 255),
        "Images of 64×64×3 (int64, 0 to 255) are converted to bytes.",
    ),
    "mask": (
        ArraySpec("multi_binary", (64, 80), "int8", 0, 1),
        "Images of 64×80 (int8, 0 to 1) are resized to 64×64 (data.image_size).",
    ),
}


@pytest.mark.parametrize(("spec", "note"), IMAGES.values(), ids=list(IMAGES))
def test_images_of_any_form_become_bytes_of_the_size_of_the_networks(spec, note) -> None:
    codec = ObsCodec({"image": spec})
    seen = codec.specs["image"]
    channels = (spec.image_shape() or (0, 0, 0))[2]
    assert (seen.shape, seen.dtype) == ((64, 64, channels), "uint8")
    assert codec.notes == [note]
    rows = noise(spec, 6)
    made = codec.rows("image", rows)
    assert made.shape == (6, 64, 64, channels)
    assert made.dtype == np.uint8
    assert 90 < made.mean() < 165, "black and white are those of the space"
    # One frame gives the same bytes as many, and what was converted stays as it is.
    np.testing.assert_array_equal(codec.rows("image", rows[2]), made[2])
    windows = rows.reshape(2, 3, *spec.shape)
    np.testing.assert_array_equal(codec({"image": windows})["image"].reshape(made.shape), made)
    assert codec.rows("image", made) is made


def test_images_that_fit_are_used_as_they_are() -> None:
    spec = box((64, 64, 3))
    codec = ObsCodec({"image": spec})
    rows = noise(spec, 2)
    assert codec.rows("image", rows) is rows
    assert codec.specs == {"image": spec}
    assert codec.notes == []


def test_a_pixel_is_the_mean_of_its_area() -> None:
    codec = ObsCodec({"image": box((96, 128, 1))})
    rows = noise(box((96, 128, 1)), 1)
    found = codec.rows("image", rows)[0, :, :, 0]
    # 96 → 64: pixel 1 covers half of row 1 and all of row 2; 128 → 64: two columns.
    area = rows[0, 1:3, 4:6, 0].astype(float).mean(1) @ [1 / 3, 2 / 3]
    assert abs(found[1, 2] - area) <= 0.5
    flat = ObsCodec({"image": box((40, 100, 3))})
    assert (flat.rows("image", np.full((1, 40, 100, 3), 77, np.uint8)) == 77).all()


def test_channels_stay_in_their_order() -> None:
    spec = box((3, 32, 48), "float32", 0, 1)
    frame = np.zeros(spec.shape, np.float32)
    frame[1, :, 24:] = 1.0
    made = ObsCodec({"image": spec}).rows("image", frame)
    assert made[:, 40:].reshape(-1, 3).tolist() == [[0, 255, 0]] * (64 * 24)
    assert not made[:, :32].any()


def test_small_images_are_vectors_unless_they_are_named() -> None:
    grid = box((7, 7, 3))
    codec = ObsCodec({"image": grid})
    assert codec.specs["image"].shape == (147,)
    assert codec.notes == [
        "image: 7×7×3 uint8 is learned as a vector of 147 numbers; "
        "data.as_image=image learns it as an image."
    ]
    rows = noise(grid, 4)
    np.testing.assert_array_equal(codec.rows("image", rows), rows.reshape(4, 147))
    named = ObsCodec({"image": grid}, as_image=["image"])
    assert named.specs["image"].shape == (64, 64, 3)
    large = named.rows("image", rows)
    assert large[0, 4, 4].tolist() == rows[0, 0, 0].tolist(), "enlarged without smoothing"
    assert named.notes == ["Images of 7×7 are resized to 64×64 (data.image_size)."]
    silent = ObsCodec({"image": grid}, as_vector=["image"])
    assert silent.notes == []


def test_an_image_of_one_pixel_is_a_vector_too() -> None:
    pixel = box((1, 1, 3))
    codec, rows = ObsCodec({"image": pixel}), noise(pixel, 4)
    made = codec.rows("image", rows)
    np.testing.assert_array_equal(made, rows.reshape(4, 3))
    np.testing.assert_array_equal(codec.rows("image", made), made)


def test_images_are_vectors_where_that_is_asked_for() -> None:
    codec = ObsCodec({"image": box((64, 64, 3))}, as_vector=["image"])
    assert codec.specs["image"].shape == (12288,)
    assert not codec.specs["image"].is_image


@pytest.mark.parametrize(
    ("spec", "obstacle"),
    [
        (ArraySpec("box", (84, 84), "float32"), "so black and white are unknown"),
        (ArraySpec("box", (64, 64, 3), "float64", 0, None), "so black and white are unknown"),
        (ArraySpec("box", (64, 64, 3), "int32"), "so black and white are unknown"),
        (box((64, 64, 2)), "1, 3 or 4 channels"),
        (box((4, 84, 84, 3)), "1, 3 or 4 channels"),
        (ArraySpec("multi_discrete", (40, 40), "int64", 0, 5), "1, 3 or 4 channels"),
    ],
)
def test_what_looks_like_an_image_is_never_a_vector_without_a_word(spec, obstacle) -> None:
    with pytest.raises(ConfigError, match=obstacle) as refused:
        ObsCodec({"state": box((3,)), "camera": spec})
    assert "obs_keys='-camera'" in refused.value.hint
    assert "data.as_vector=camera" in refused.value.hint
    unknown = "black and white" in obstacle
    assert ("data.image_range=[0,1]" in refused.value.hint) == unknown
    assert ObsCodec({"camera": spec}, as_vector=["camera"]).specs["camera"].numbers == spec.numbers
    assert list(ObsCodec({"state": box((3,)), "camera": spec}, obs_keys=["-camera"]).specs) == [
        "state"
    ]
    with pytest.raises(ConfigError, match="cannot be used as an image"):
        ObsCodec({"camera": spec}, as_image=["camera"])


def test_black_and_white_can_be_said() -> None:
    spec = ArraySpec("box", (64, 64, 3), "float32")
    codec = ObsCodec(
        {"camera": spec, "state": ArraySpec("box", (3,), "float32")}, image_range=(-1, 1)
    )
    assert codec.notes == ["Images 'camera' of 64×64×3 (float32, -1 to 1) are converted to bytes."]
    gray = codec.rows("camera", np.zeros((2, 64, 64, 3), np.float32))
    assert np.unique(gray).tolist() == [128]
    assert not codec.changes("state")
    declared = ObsCodec({"camera": replace(spec, low=0.0, high=1.0)}, image_range=(-1, 1))
    assert not declared.rows("camera", np.zeros((64, 64, 3), np.float32)).any()
    with pytest.raises(ConfigError, match="is not increasing"):
        ObsCodec({"camera": spec}, image_range=(1, 0))


def test_vectors_and_small_matrices_stay_as_they_are() -> None:
    obs = {"a": ArraySpec("box", (3,), "float64"), "b": ArraySpec("box", (4, 40), "float32")}
    codec = ObsCodec(obs)
    assert codec.specs == obs
    assert codec.notes == []


def test_rows_of_another_space_are_refused() -> None:
    codec = ObsCodec({"image": box((96, 96, 3))})
    with pytest.raises(SchemaMismatchError, match=r"\(2, 90, 96, 3\)"):
        codec.rows("image", np.zeros((2, 90, 96, 3), np.uint8))


def test_numbers_that_are_none_are_refused() -> None:
    spec = box((40, 40), "float32", 0, 1)
    with pytest.raises(SchemaMismatchError, match="NaN"):
        to_bytes(spec, np.full((40, 40), np.nan, np.float32))
    bright = to_bytes(spec, np.array(np.full((40, 40), 7, np.float32)))
    assert (bright == 255).all(), "what is out of bounds is clipped"


# --- keys ---


def test_keys_are_chosen_or_left_out() -> None:
    known = ["image", "state", "text/mission"]
    assert chosen_keys(known, []) == known
    assert chosen_keys(known, ["state", "image"]) == ["image", "state"]
    assert chosen_keys(known, ["-text/mission", "-state"]) == ["image"]
    with pytest.raises(ConfigError, match="mix selection and exclusion"):
        chosen_keys(known, ["image", "-state"])
    with pytest.raises(ConfigError, match="imgae") as misspelled:
        chosen_keys(known, ["-imgae"])
    assert "Did you mean 'image'?" in misspelled.value.hint
    with pytest.raises(ConfigError, match="No observation key is left"):
        chosen_keys(["image"], ["-image"])
    with pytest.raises(ConfigError, match="Did you mean 'state'"):
        ObsCodec({"state": box((3,))}, as_image=["stat"])
    with pytest.raises(ConfigError, match="both name 'state'"):
        ObsCodec({"state": box((3,))}, as_image=["state"], as_vector=["state"])


def test_several_images_are_named() -> None:
    codec = ObsCodec({"front": box((96, 96, 3)), "wrist": box((64, 64, 3))})
    assert codec.notes == ["Images 'front' of 96×96 are resized to 64×64 (data.image_size)."]


def test_images_are_found() -> None:
    obs = {
        "a": box((96, 96, 3)),
        "b": box((3, 84, 84), "float32", 0, 1),
        "c": box((7, 7, 3)),
        "d": box((40, 40)),
        "e": box((3, 40, 40)),
    }
    assert images_of(obs) == ["a", "b", "d", "e"]
    assert images_of(obs, plain=True) == ["a", "d"]


@pytest.mark.parametrize("shape", [(7, 7, 3), (28, 28), (28, 28, 1), (3, 28, 28), (90, 31, 3)])
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("uint8", 0, 255), ("float32", 0, 1), ("float32", None, None), ("uint16", 0, 65535)],
)
def test_small_images_of_every_form_are_never_vectors_silently(
    shape: tuple[int, ...], dtype: str, low: float | None, high: float | None
) -> None:
    spec = ArraySpec("box", shape, dtype, low, high)
    codec = ObsCodec({"seen": spec, "joints": ArraySpec("box", (4, 3), "float32")})
    (note,) = codec.notes
    assert f"is learned as a vector of {spec.numbers} numbers" in note
    assert "data.as_image=seen" in note
    assert codec.specs["seen"].numbers == spec.numbers
