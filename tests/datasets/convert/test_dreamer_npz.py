"""DreamerV2's replay folders: names, one-hot actions, flags, dtypes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from wmtk.datasets import Dataset
from wmtk.datasets.convert import export_dataset, import_dataset
from wmtk.errors import ConversionError, UsageError


def save(folder, number=0, rows=5, **changes):
    """An episode as the reference writes it."""
    hot = np.eye(3, dtype=np.float32)[np.arange(rows) % 3]
    hot[0] = 0
    last = np.arange(rows) == rows - 1
    arrays = {
        "image": np.full((rows, 4, 4, 3), number, np.uint8),
        "action": hot,
        "reward": np.arange(rows, dtype=np.float32),
        "is_first": np.arange(rows) == 0,
        "is_last": last,
        "is_terminal": last,
        **changes,
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"20210101T00000{number}-{number:032x}-{rows - 1}.npz"
    np.savez_compressed(path, **{k: v for k, v in arrays.items() if v is not None})
    return path


def imported(tmp_path, **options):
    report = import_dataset(tmp_path / "npz", tmp_path / "ours", **options)
    return report, Dataset.open(tmp_path / "ours")


def test_one_hot_actions_become_integers(tmp_path):
    save(tmp_path / "npz", 0)
    save(tmp_path / "npz", 1, rows=3, is_terminal=np.zeros(3, bool))
    save(tmp_path / "npz", 2, is_terminal=np.zeros(5, bool), is_last=np.zeros(5, bool))
    report, data = imported(tmp_path)
    assert report.losses == ()
    assert str(data.schema.action) == "discrete(3)"
    assert data[0].action.tolist() == [0, 1, 2, 0, 1]
    assert data[0].reward.tolist() == [0, 1, 2, 3, 4]
    ends = [(e.terminated, e.truncated) for e in data]
    assert ends == [(True, False), (False, True), (False, False)]
    assert [int(e.obs["image"][0, 0, 0, 0]) for e in data] == [0, 1, 2]


def test_float_actions_stay_on_request_or_if_they_are_not_one_hot(tmp_path):
    save(tmp_path / "npz")
    _, data = imported(tmp_path, actions="float")
    assert str(data.schema.action) == "box 3 float32"
    soft = np.full((5, 3), 0.5, np.float32)
    soft[0] = 0
    save(tmp_path / "npz", 1, action=soft)
    with pytest.raises(ConversionError, match="not all one-hot"):
        import_dataset(tmp_path / "npz", tmp_path / "other", actions="one-hot")
    import_dataset(tmp_path / "npz", tmp_path / "other")
    assert Dataset.open(tmp_path / "other").schema.action.kind == "box"


def test_older_files_with_discount_instead_of_flags(tmp_path):
    flags = dict.fromkeys(("is_first", "is_last", "is_terminal"))
    discount = np.array([1, 1, 1, 1, 0], np.float32)
    save(tmp_path / "npz", 0, discount=discount, **flags)
    _, data = imported(tmp_path)
    assert data[0].terminated
    assert list(data.schema.obs) == ["image"]


def test_what_is_odd_is_said(tmp_path):
    flags = dict.fromkeys(("is_first", "is_last", "is_terminal"))
    first = np.eye(3, dtype=np.float32)[np.ones(5, int)]
    save(tmp_path / "npz", 0, action=first, **flags)
    save(tmp_path / "npz", 1, rows=1, **flags)
    report, _ = imported(tmp_path)
    assert report.losses == (
        "1 files hold no step: not imported.",
        "1 episodes have no flag of their end: imported as neither terminated nor truncated.",
        "In 1 episodes row 0 had an action or a reward, before the first step: zeroed.",
    )


@pytest.mark.parametrize("flag", ["is_first", "is_last", "is_terminal"])
def test_flags_inside_an_episode_are_refused(tmp_path, flag):
    path = save(tmp_path / "npz", **{flag: np.arange(5) == 2})
    with pytest.raises(ConversionError, match=flag) as caught:
        imported(tmp_path)
    assert caught.value.path == path


def test_files_that_differ_are_refused(tmp_path):
    save(tmp_path / "npz", 0)
    path = save(tmp_path / "npz", 1, extra=np.zeros(5))
    with pytest.raises(ConversionError, match="other episodes") as caught:
        imported(tmp_path)
    assert caught.value.path == path


def test_an_export_is_what_the_reference_reads(make_dataset, tmp_path):
    data = make_dataset(tmp_path / "o", "image")
    report = export_dataset(data, tmp_path / "npz", "dreamer-npz")
    assert report.losses == ()
    files = sorted((tmp_path / "npz").glob("*.npz"))
    assert all(re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{32}-\d+\.npz", f.name) for f in files)
    assert [int(f.stem.split("-")[-1]) for f in files] == [5, 1, 9, 3]
    for file, episode in zip(files, data, strict=True):
        with np.load(file, allow_pickle=False) as found:
            arrays = dict(found)
        assert {k: v.dtype.name for k, v in arrays.items()} == {
            "image": "uint8",
            "action": "float32",
            "reward": "float32",
            "is_first": "bool",
            "is_last": "bool",
            "is_terminal": "bool",
        }
        assert not arrays["action"][0].any()
        np.testing.assert_array_equal(arrays["action"][1:].argmax(1), episode.action[1:])
        np.testing.assert_array_equal(arrays["reward"], episode.reward)
        assert arrays["is_first"].tolist() == [True] + [False] * episode.length
        assert arrays["is_last"][-1] == (episode.terminated or episode.truncated)
        assert arrays["is_terminal"][-1] == episode.terminated


def test_rounding_is_said_and_can_be_avoided(make_dataset, tmp_path):
    data = make_dataset(tmp_path / "o", "image")
    with Dataset.create(tmp_path / "fine", data.schema) as fine:
        episode = data[0]
        both = replace(episode, reward=episode.reward / 3, terminated=True, truncated=True)
        fine.append(both)
        report = export_dataset(fine, tmp_path / "a", "dreamer-npz")
        assert "reward: float64 values were rounded to float32 in 1 episodes" in report.losses[0]
        assert "both terminated and truncated" in report.losses[1]
        export_dataset(fine, tmp_path / "b", "dreamer-npz", keep_dtypes=True)
        import_dataset(tmp_path / "b", tmp_path / "back")
        assert Dataset.open(tmp_path / "back")[0].id == both.id


def test_a_folder_that_was_edited_ignores_the_description(make_dataset, tmp_path):
    data = make_dataset(tmp_path / "o", "image")
    export_dataset(data, tmp_path / "npz", "dreamer-npz")
    sorted((tmp_path / "npz").glob("*.npz"))[1].unlink()
    report, back = imported(tmp_path)
    assert "does not match" in report.losses[0]
    assert report.episodes == 3
    assert back[0].seed is None


def test_reserved_keys_and_unknown_options(vectors, tmp_path):
    schema = replace(vectors.schema, obs={"discount": vectors.schema.obs["state"]}, structure=None)
    with Dataset.create(tmp_path / "odd", schema) as odd:
        odd.append(replace(vectors[0], obs={"discount": vectors[0].obs["state"]}))
        with pytest.raises(ConversionError, match="discount"):
            export_dataset(odd, tmp_path / "x", "dreamer-npz")
    save(tmp_path / "npz")
    with pytest.raises(UsageError, match="one-hot"):
        import_dataset(tmp_path / "npz", tmp_path / "back", actions="onehot")
