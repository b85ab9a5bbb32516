"""HDF5 and npz files that are damaged or mean harm: refused, naming the file, leaving nothing."""

from __future__ import annotations

import io
import os
import zipfile
import zlib

import h5py
import numpy as np
import pytest

from wmtk.datasets import Dataset
from wmtk.datasets.convert import FORMATS, export_dataset, hdf5, import_dataset
from wmtk.errors import ConversionError


@pytest.fixture
def refused(tmp_path):
    """Check that an import fails as it should and leaves nothing."""

    def check(source, message, **options):
        before = sorted(p.name for p in tmp_path.iterdir())
        with pytest.raises(ConversionError, match=message) as caught:
            import_dataset(source, tmp_path / "target", **options)
        assert caught.value.path is not None
        assert sorted(p.name for p in tmp_path.iterdir()) == before

    return check


@pytest.fixture
def flat_file(vectors, tmp_path):
    export_dataset(vectors, tmp_path / "x.hdf5", "d4rl")
    return tmp_path / "x.hdf5"


@pytest.mark.parametrize("keep", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("name", ["d4rl", "minari"])
def test_truncated_hdf5(vectors, tmp_path, refused, name, keep):
    export_dataset(vectors, tmp_path / "x", name)
    path = tmp_path / "x" if name == "d4rl" else tmp_path / "x/data/main_data.hdf5"
    os.truncate(path, int(path.stat().st_size * keep))
    refused(tmp_path / "x", "HDF5", format=name)


def test_flipped_bytes_never_crash(vectors, tmp_path, refused):
    """Whatever is damaged, the outcome is the same dataset or a ConversionError."""
    for name, where in (("d4rl", ""), ("minari", "data/main_data.hdf5")):
        export_dataset(vectors, tmp_path / name, name)
        path = tmp_path / name / where
        good = path.read_bytes()
        for at in range(0, len(good), max(1, len(good) // 25)):
            path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
            target = tmp_path / f"{name}-{at}"
            try:
                import_dataset(tmp_path / name, target, format=name)
            except ConversionError:
                assert not target.exists()
            else:
                ids = Dataset.open(target).episodes.id
                assert ids.tolist() == vectors.episodes.id.tolist()


def test_hdf5_links_that_lead_elsewhere(flat_file, tmp_path, refused):
    (tmp_path / "other.hdf5").write_bytes(flat_file.read_bytes())
    with h5py.File(flat_file, "a") as file:
        del file["rewards"]
        file["rewards"] = h5py.ExternalLink("other.hdf5", "rewards")
    refused(flat_file, "is a link")
    with h5py.File(flat_file, "a") as file:
        del file["rewards"]
        file["rewards"] = h5py.SoftLink("/actions")
    refused(flat_file, "is a link")


def test_hdf5_data_kept_in_other_files(flat_file, tmp_path, refused):
    (tmp_path / "secret").write_bytes(bytes(18 * 4))
    with h5py.File(flat_file, "a") as file:
        del file["rewards"]
        external = [(str(tmp_path / "secret"), 0, 18 * 4)]
        file.create_dataset("rewards", (18,), "float32", external=external)
    refused(flat_file, "other files")


def test_hdf5_groups_that_contain_themselves(flat_file, refused):
    with h5py.File(flat_file, "a") as file:
        file["infos/again"] = file["/"].require_group("infos")
    refused(flat_file, "several links")


def test_hdf5_groups_with_exponentially_many_names(flat_file, refused):
    with h5py.File(flat_file, "a") as file:
        group = file.require_group("infos")
        for _ in range(15):  # 16 names for each group of a layer: 16^15 paths
            below = group.create_group("0")
            for number in range(1, 16):
                group[str(number)] = below
            group = below
        group["x"] = [1.0]
    refused(flat_file, "several links")


def test_hdf5_groups_that_are_nested_too_deeply(flat_file, refused):
    with h5py.File(flat_file, "a") as file:
        file["infos/" + "a/" * 20 + "x"] = [1.0]
    refused(flat_file, "nested too deeply")


def test_hdf5_arrays_of_absurd_size(flat_file, refused):
    with h5py.File(flat_file, "a") as file:
        for name in ("rewards", "terminals", "timeouts"):
            del file[name]
            file.create_dataset(name, (10**12,), "float32", chunks=(1024,))
    refused(flat_file, "declares 4,000,000,000,000 bytes")


@pytest.mark.parametrize("filters", [1, 2])
def test_hdf5_chunks_that_unpack_to_more_than_they_are(flat_file, refused, filters):
    """Written past the filters, as a chunk of which HDF5 believes everything."""
    packed = zlib.compress(bytes(2**29), 1)
    assert len(packed) > hdf5.HARMLESS_CHUNK
    with h5py.File(flat_file, "a") as file:
        del file["rewards"]
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((18,))
        for _ in range(filters):
            properties.set_deflate(1)
        space = h5py.h5s.create_simple((18,))
        node = h5py.h5d.create(file.id, b"rewards", h5py.h5t.IEEE_F32LE, space, properties)
        node.write_direct_chunk((0,), packed)
    refused(flat_file, "unpack to more than their 72 bytes")


def test_hdf5_arrays_of_the_wrong_kind(flat_file, refused):
    with h5py.File(flat_file, "a") as file:
        del file["rewards"]
        file["rewards"] = np.array([b"pickle"] * 18)
    refused(flat_file, "dtype")
    with h5py.File(flat_file, "a") as file:
        del file["rewards"]
        file["rewards"] = np.zeros(17)
    refused(flat_file, "18 rows")
    with h5py.File(flat_file, "a") as file:
        del file["rewards"]
        file["rewards"] = np.full(18, np.nan)
    refused(flat_file, "not a finite number")


@pytest.mark.parametrize("key", ["..", "a b", ".hidden", "x" * 65])
def test_info_names_that_are_no_file_names_are_left_out(flat_file, tmp_path, key):
    with h5py.File(flat_file, "a") as file:
        file.require_group("infos").create_dataset(key.encode(), data=np.zeros(18))
    report = import_dataset(flat_file, tmp_path / "target")
    assert any("not imported" in line for line in report.losses)


def test_links_inside_are_refused_and_a_link_that_the_user_named_is_followed(
    vectors, flat_file, tmp_path, refused
):
    (tmp_path / "npz").mkdir()
    (tmp_path / "npz" / "a-b-1.npz").symlink_to(flat_file)
    refused(tmp_path / "npz", "symbolic link")
    export_dataset(vectors, tmp_path / "m", "minari")
    (tmp_path / "m/data/main_data.hdf5").rename(tmp_path / "moved")
    (tmp_path / "m/data/main_data.hdf5").symlink_to(tmp_path / "moved")
    refused(tmp_path / "m", "symbolic link")
    (tmp_path / "link.hdf5").symlink_to(flat_file)
    assert import_dataset(tmp_path / "link.hdf5", tmp_path / "target").episodes == 4


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_that_it_is_not(tmp_path, refused, name):
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "file", "is not of the format", format=name)
    refused(tmp_path / "folder", "is not of the format", format=name)


# --- npz ---


def npz(tmp_path, members):
    (tmp_path / "npz").mkdir()
    path = tmp_path / "npz" / "0-0-1.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path.parent


def npy(array, **changes):
    """The bytes of a npy file, with a header that may lie."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    if not changes:
        return buffer.getvalue()
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **changes}
    lying = io.BytesIO()
    np.lib.format.write_array_header_1_0(lying, header)
    return lying.getvalue() + array.tobytes()


GOOD = {"action.npy": npy(np.zeros((2, 3), "f4")), "reward.npy": npy(np.zeros(2, "f4"))}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("image.npy", npy(np.array([{}, {}], object)), "dtype object"),
        ("image.npy", npy(np.zeros(2, "f4"), shape=(10**12,)), "declares"),
        ("image.npy", npy(np.zeros(2, "f4"), shape=(2, 100)), "ends inside"),
        ("image.npy", npy(np.zeros(2, "f4"), shape=(-2,)), "impossible shape"),
        ("image.npy", npy(np.zeros(3, "f4")), "not one row per step"),
        ("image.npy", b"\x93NUMPY\x01\x00\x10\x00__import__('os')", "cannot be read"),
        ("image.npy", b"", "cannot be read"),
        ("../image.npy", npy(np.zeros(2)), "member named"),
        ("/etc/image.npy", npy(np.zeros(2)), "member named"),
        ("image.pkl", b"", "member named"),
        ("a b.npy", npy(np.zeros(2)), "is not a valid name"),
    ],
)
def test_hostile_npz(tmp_path, refused, name, data, message):
    refused(npz(tmp_path, {**GOOD, name: data}), message)


def test_truncated_npz(vectors, tmp_path, refused):
    export_dataset(vectors, tmp_path / "npz", "dreamer-npz")
    first = min((tmp_path / "npz").glob("*.npz"))
    os.truncate(first, first.stat().st_size // 2)
    refused(tmp_path / "npz", "not a readable zip archive", format="dreamer-npz")


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"version": 1, "schema": 3, "env": {}, "attributes": {}}']
)
def test_damaged_descriptions(vectors, tmp_path, refused, text):
    export_dataset(vectors, tmp_path / "npz", "dreamer-npz")
    (tmp_path / "npz" / "wmtk.json").write_text(text)
    refused(tmp_path / "npz", "wmtk")


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_that_json_does_not_have_are_kept_as_text(vectors, tmp_path, name):
    """Other writers put NaN into metadata; datasets hold strict JSON."""
    export_dataset(vectors, tmp_path / "x", name)
    places = {
        "minari": "x/data/metadata.json",
        "dreamer-npz": "x/wmtk.json",
        "diffusion-zarr": "x/.zattrs",
    }
    if name in places:
        path = tmp_path / places[name]
        path.write_text(path.read_text().replace('["me"]', "[NaN]"))
    import_dataset(tmp_path / "x", tmp_path / "back")
    who = Dataset.open(tmp_path / "back").header["attributes"]["who"]
    assert who == (["nan"] if name in places else ["me"])
