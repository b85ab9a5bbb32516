"""Diffusion Policy's zarr: read what zarr-python wrote, write what zarr-python reads."""

from __future__ import annotations

import json
import zipfile

import numcodecs
import numpy as np
import pytest
import zarr

from wmtk.datasets import Dataset
from wmtk.datasets.convert import detect_format, export_dataset, import_dataset, untrusted
from wmtk.datasets.convert.diffusion_policy.zarr_v2 import DECODERS
from wmtk.errors import ConversionError, UsageError

ENDS = [4, 5, 11]
CODECS = {
    "none": None,
    "blosc": numcodecs.Blosc("lz4"),
    "zstd": numcodecs.Zstd(1),
    "lz4": numcodecs.LZ4(),
    "zlib": numcodecs.Zlib(1),
    "gzip": numcodecs.GZip(1),
    "bz2": numcodecs.BZ2(1),
}


def build(path, compressor="blosc", rows=11, **more):
    """A replay buffer as zarr-python writes it, in version 2 of the format."""
    rng = np.random.default_rng(0)
    data = {
        "img": rng.integers(0, 256, (rows, 5, 6, 3), np.uint8),
        "state": rng.normal(size=(rows, 4)).astype(np.float32),
        "action": rng.normal(size=(rows, 2)).astype(np.float32),
        **more,
    }
    root = zarr.open_group(path, mode="w", zarr_format=2)
    for key, array in {**{f"data/{k}": v for k, v in data.items()}}.items():
        chunks = (3, *[max(1, n // 2) for n in array.shape[1:]])
        made = root.create_array(
            key, shape=array.shape, chunks=chunks, dtype=array.dtype, compressors=CODECS[compressor]
        )
        made[...] = array
    ends = root.create_array("meta/episode_ends", shape=(3,), dtype="int64", chunks=(3,))
    ends[...] = ENDS
    root.attrs["robot"] = "arm"
    return data


@pytest.mark.parametrize("codec", CODECS)
def test_what_zarr_wrote_is_read(tmp_path, codec):
    data = build(tmp_path / "x.zarr", codec)
    assert detect_format(tmp_path / "x.zarr") == "diffusion-zarr"
    report = import_dataset(tmp_path / "x.zarr", tmp_path / "ours")
    assert (report.episodes, report.steps) == (3, 11)
    ours = Dataset.open(tmp_path / "ours")
    for episode, (start, stop) in zip(ours, zip([0, *ENDS], ENDS, strict=False), strict=True):
        np.testing.assert_array_equal(episode.obs["img"][:-1], data["img"][start:stop])
        np.testing.assert_array_equal(episode.obs["state"][:-1], data["state"][start:stop])
        np.testing.assert_array_equal(episode.action[1:], data["action"][start:stop])
        assert not episode.reward.any()
        assert (episode.terminated, episode.truncated) == (False, False)
    assert report.losses == (
        "The source has no ends of episodes: none is marked as terminated or truncated.",
        "The source has no rewards: they are all zero.",
        "The source has no final observations: in 3 episodes the last one repeats the one before "
        "(provenance extra 'final_observation': 'missing, repeated').",
    )
    assert ours.header["attributes"]["diffusion-zarr"] == {"robot": "arm"}


def test_options_of_an_import(tmp_path):
    rewards = np.arange(11, dtype=np.float32)
    build(tmp_path / "x.zarr", rewards=rewards, act=np.arange(11) % 4)
    report = import_dataset(
        tmp_path / "x.zarr",
        tmp_path / "ours",
        action_key="act",
        end="terminated",
        final_observation="drop",
    )
    ours = Dataset.open(tmp_path / "ours")
    assert [e.length for e in ours] == [3, 5]  # the one of a single step is gone
    assert ours[1].reward.tolist() == [0, 5, 6, 7, 8, 9]
    assert str(ours.schema.action) == "discrete(4)"
    assert set(ours.schema.obs) == {"img", "state", "action"}
    assert any("the number of actions" in line for line in report.losses)
    for options in ({"end": "never"}, {"final_observation": "x"}):
        with pytest.raises(UsageError):
            import_dataset(tmp_path / "x.zarr", tmp_path / "other", **options)
    with pytest.raises(ConversionError, match="action_key"):
        import_dataset(tmp_path / "x.zarr", tmp_path / "other", action_key="steer")


def test_a_zip_archive_with_the_store_in_a_folder_of_it(tmp_path):
    data = build(tmp_path / "x.zarr")
    with zipfile.ZipFile(tmp_path / "x.zarr.zip", "w") as archive:
        for file in sorted((tmp_path / "x.zarr").rglob("*")):
            archive.write(file, f"pusht/{file.relative_to(tmp_path)}")
    assert detect_format(tmp_path / "x.zarr.zip") == "diffusion-zarr"
    import_dataset(tmp_path / "x.zarr.zip", tmp_path / "ours")
    ours = Dataset.open(tmp_path / "ours")
    np.testing.assert_array_equal(ours[2].obs["img"][:-1], data["img"][5:11])


def test_missing_chunks_are_said_and_empty_episodes_left_out(tmp_path):
    build(tmp_path / "x.zarr", note=np.zeros((11, 2)))
    (tmp_path / "x.zarr/data/state/0.0").unlink()
    root = zarr.open_group(tmp_path / "x.zarr", mode="a")
    root["meta/episode_ends"][...] = [4, 4, 10]
    report = import_dataset(tmp_path / "x.zarr", tmp_path / "ours")
    assert "1 episodes without a step: not imported." in report.losses
    assert "Rows after the end of the last episode were not imported." in report.losses
    assert "state: 1 chunks are not stored and were read as the fill value." in report.losses
    assert report.episodes == 2


def test_zarr_reads_our_export(dataset, tmp_path):
    export_dataset(dataset, tmp_path / "x.zarr", "diffusion-zarr")
    root = zarr.open_group(tmp_path / "x.zarr", mode="r", zarr_format=2)
    ends = root["meta/episode_ends"][...]
    np.testing.assert_array_equal(ends, np.cumsum(dataset.episodes.length))
    assert root["data/action"].metadata.zarr_format == 2
    for key in dataset.schema.obs:
        rows = np.concatenate([episode.obs[key][:-1] for episode in dataset])
        np.testing.assert_array_equal(root["data"][key.replace("/", ".")][...], rows)
    actions = np.concatenate([episode.action[1:] for episode in dataset])
    np.testing.assert_array_equal(root["data/action"][...], actions)
    rewards = np.concatenate([episode.reward[1:] for episode in dataset])
    np.testing.assert_array_equal(root["data/reward"][...], rewards)


def test_chunks_are_written_as_they_fill(make_dataset, tmp_path, monkeypatch):
    from wmtk.datasets.convert.diffusion_policy import zarr_v2

    monkeypatch.setattr(zarr_v2, "chunk_rows", lambda spec, rows: 4)
    data = make_dataset(tmp_path / "o", "image")
    export_dataset(data, tmp_path / "x", "diffusion-zarr", rewards=False)
    root = zarr.open_group(tmp_path / "x", mode="r", zarr_format=2)
    assert sorted(root["data"]) == ["action", "image"]
    assert root["data/image"].chunks == (4, 8, 8, 3)
    rows = np.concatenate([episode.obs["image"][:-1] for episode in data])
    np.testing.assert_array_equal(root["data/image"][...], rows)


def edit(path, **changes):
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compressor": {"id": "pickle"}}, "'pickle'"),
        ({"compressor": {"id": "imagecodecs_jpeg2k"}}, "jpeg2k"),
        ({"filters": [{"id": "pickle"}]}, "filters"),
        ({"dtype": "|O"}, "dtype object"),
        ({"dtype": "<M8[s]"}, "dtype datetime64"),
        ({"dtype": [["x", "<f4"]]}, "valid ZarrV2Array: dtype"),
        ({"shape": [10**12, 4]}, "declares"),
        ({"chunks": [10**12, 4]}, "chunks of"),
        ({"chunks": [0, 4]}, "valid ZarrV2Array: chunks"),
        ({"shape": [3, 4]}, "incomplete"),
        ({"zarr_format": 3}, "valid ZarrV2Array: zarr_format"),
        ({"dimension_separator": "/../"}, "valid ZarrV2Array: dimension_separator"),
    ],
)
def test_hostile_array_metadata_is_refused(tmp_path, changes, message):
    build(tmp_path / "x.zarr")
    edit(tmp_path / "x.zarr/data/state/.zarray", **changes)
    with pytest.raises(ConversionError, match=message) as caught:
        import_dataset(tmp_path / "x.zarr", tmp_path / "ours")
    assert caught.value.path is not None
    assert "state" in str(caught.value.path)


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
@pytest.mark.parametrize("damage", ["cut", "bomb", "noise"])
def test_chunks_that_do_not_unpack_to_their_size_are_refused(tmp_path, codec, damage):
    build(tmp_path / "x.zarr", codec)
    chunk = tmp_path / "x.zarr/data/img/0.0.0.0"
    data = chunk.read_bytes()
    bomb = bytes(CODECS[codec].encode(np.zeros(10_000_000, np.uint8)))
    chunk.write_bytes({"cut": data[: len(data) // 2], "bomb": bomb, "noise": b"x" * 64}[damage])
    with pytest.raises(ConversionError, match="cannot be decoded") as caught:
        import_dataset(tmp_path / "x.zarr", tmp_path / "ours")
    assert caught.value.path == chunk


def test_every_decoder_is_tested():
    assert set(DECODERS) == {None if name == "none" else name for name in CODECS}


@pytest.mark.parametrize("values", [[5, 4, 11], [4, 5, 12], [-3, 5, 11]])
def test_impossible_episode_ends_are_refused(tmp_path, values):
    build(tmp_path / "x.zarr")
    zarr.open_group(tmp_path / "x.zarr", mode="a")["meta/episode_ends"][...] = values
    with pytest.raises(ConversionError):
        import_dataset(tmp_path / "x.zarr", tmp_path / "ours")


@pytest.mark.parametrize("where", ["data", "data/state", "data/state/0.0"])
def test_links_are_refused(tmp_path, where):
    build(tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / where).rename(tmp_path / "moved")
    (tmp_path / "x.zarr" / where).symlink_to(tmp_path / "moved")
    with pytest.raises(ConversionError, match="symbolic link") as caught:
        import_dataset(tmp_path / "x.zarr", tmp_path / "ours")
    assert caught.value.path == tmp_path / "x.zarr" / where


@pytest.mark.parametrize("name", ["../escape", "/etc/passwd", "a\\b", "x/../../y"])
def test_archives_with_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("meta/episode_ends/.zarray", "{}")
        archive.writestr(name, "x")
    with pytest.raises(ConversionError, match="member named"):
        import_dataset(tmp_path / "x.zip", tmp_path / "ours")


def test_archives_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "MAX_FREE_BYTES", 2**20)
    monkeypatch.setattr(untrusted, "MAX_RATIO", 100)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta/episode_ends/.zarray", "{}")
        archive.writestr("data/bomb", b"0" * 2**22)
    with pytest.raises(ConversionError, match=r"archive in .* declares 4,194,306 bytes"):
        import_dataset(tmp_path / "x.zip", tmp_path / "ours")
