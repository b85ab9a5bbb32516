"""Files that are written are read back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image as PillowImage

from wmtk.errors import MissingDependencyError, UsageError, WmtkError
from wmtk.viz.draw.canvas import Image
from wmtk.viz.videos import video_file
from wmtk.viz.videos.video_file import require_ending, write_image, write_video


def frames(count: int, height: int = 40, width: int = 60) -> list[Image]:
    """Gray pictures that get lighter by 20 each."""
    return [np.full((height, width, 3), 20 * index, np.uint8) for index in range(count)]


@pytest.mark.parametrize("ending", [".mp4", ".webm", ".MP4"])
def test_videos_have_all_frames(tmp_path, read_video, ending):
    made = frames(7)
    written = write_video(tmp_path / f"v{ending}", iter(made), fps=10)
    read = read_video(written.path)
    assert (written.frames, written.width, written.height) == (7, 60, 40)
    assert read.fps == 10
    assert read.frames.shape == (7, 40, 60, 3)
    assert np.abs(np.array(made).astype(int) - read.frames).max() <= 6  # the codec's loss


def test_odd_sides_are_padded_and_the_format_is_one_that_plays_everywhere(tmp_path, read_video):
    written = write_video(tmp_path / "odd.mp4", frames(3, 41, 61), fps=5)
    assert (written.width, written.height) == (62, 42)
    read = read_video(written.path)
    assert (read.codec, read.pixels) == ("h264", "yuv420p")
    assert read.frames.shape == (3, 42, 62, 3)


def test_gif(tmp_path):
    written = write_video(tmp_path / "v.gif", frames(4, 41, 61), fps=10)
    with PillowImage.open(written.path) as gif:
        assert gif.n_frames == 4
        assert gif.size == (61, 41) == (written.width, written.height)
        assert gif.info["loop"] == 0
        delays, shades = [], []
        for index in range(4):
            gif.seek(index)
            shades.append(gif.convert("RGB").getpixel((30, 20))[0])
            delays.append(gif.info["duration"])
    assert shades == [0, 20, 40, 60]
    assert delays == [100, 100, 100, 1000]


def test_png_is_exact(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 11, 3), np.uint8)
    written = write_image(tmp_path / "new" / "folder" / "p.png", pixels)
    assert (np.asarray(PillowImage.open(written.path)) == pixels).all()
    assert written.bytes == written.path.stat().st_size


def test_unknown_endings(tmp_path):
    with pytest.raises(UsageError, match=r"'\.avi'.*\n.*\.mp4, \.webm, \.gif"):
        write_video(tmp_path / "v.avi", frames(2), fps=5)
    with pytest.raises(UsageError, match="no ending"):
        write_image(tmp_path / "picture", frames(1)[0])


def test_senseless_videos(tmp_path):
    with pytest.raises(UsageError, match="no frame"):
        write_video(tmp_path / "v.gif", [], fps=5)
    with pytest.raises(UsageError, match="frames per second"):
        write_video(tmp_path / "v.gif", frames(2), fps=0)
    with pytest.raises(AssertionError):
        write_video(tmp_path / "v.gif", frames(1) + frames(1, 8, 8), fps=5)
    assert list(tmp_path.iterdir()) == []


def test_missing_ffmpeg(monkeypatch, tmp_path):
    monkeypatch.setattr(video_file, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"wmtk\[video\]"):
        require_ending(tmp_path / "v.mp4", video_file.VIDEO_ENDINGS)
    assert require_ending(tmp_path / "v.gif", video_file.VIDEO_ENDINGS) == ".gif"


def test_an_interrupted_video_leaves_the_old_one(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / "v.mp4"
    path.write_bytes(b"old")

    def broken() -> Iterator[Image]:
        yield from frames(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_video(path, broken(), fps=5)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WmtkError, match=r"p\.png could not be written"):
        write_image(tmp_path / "file" / "p.png", frames(1)[0])
