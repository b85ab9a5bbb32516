"""Checkpoints: kill −9 at each system call of saving, full disks, files that cannot be read."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from wmtk.errors import CheckpointError, StorageFullError
from wmtk.runs.checkpoint import Checkpoints

OLD, BEST = 4, 2  # the checkpoints that `latest` and `best` name
NEW = {"save": 5, "save_again": 40, "save_the_same": 4}


def number_of(root: Path, which: str) -> int:
    """The number of a checkpoint, which must be whole."""
    saved = Checkpoints(root).load(which)
    number = int(saved.state["number"])
    assert torch.equal(saved.tensors["x"], torch.full((500,), float(number)))
    return number


def files_in(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def history(tmp_path, driver) -> Path:
    """The checkpoints of updates 2, which is the best, 3 and 4."""
    root = tmp_path / "checkpoints"
    for step in (1, BEST, 3, OLD):
        driver.save_checkpoint(root, step, step, best=step == BEST)
    assert sorted(p.name for p in root.iterdir() if p.is_dir()) == [
        "00000002",
        "00000003",
        "00000004",
    ]
    return root


@pytest.mark.slow
@pytest.mark.parametrize("operation", NEW)
def test_a_kill_at_any_call_leaves_a_whole_checkpoint(
    operation, history, tracer, driver, tmp_path
) -> None:
    kills = 0
    clean = shutil.copytree(history, tmp_path / "clean")
    driver.OPERATIONS[operation](clean, str)
    for call in tracer.calls(operation, shutil.copytree(history, tmp_path / "traced")):
        for when in range(1, 100):
            root = shutil.copytree(history, tmp_path / "victim")
            killed, acknowledged = tracer.kill(operation, root, call, when)
            latest, best = number_of(root, "latest"), number_of(root, "best")
            assert latest in (OLD, NEW[operation])
            assert latest == NEW[operation] or not acknowledged
            assert best in ((BEST, 5) if operation == "save" else (BEST,))
            Checkpoints(root).remove_unfinished()  # as the next start does
            assert not [path for path in root.iterdir() if path.name.startswith(".")]
            driver.OPERATIONS[operation](root, acknowledged.append)
            assert number_of(root, "latest") == NEW[operation]
            assert files_in(root) == files_in(clean)
            shutil.rmtree(root)
            if not killed:
                break
            kills += 1
    assert kills >= (4 if operation == "save_the_same" else 10)


@pytest.mark.slow
def test_a_kill_during_the_first_save_leaves_one_or_none(tracer, driver, tmp_path) -> None:
    (tmp_path / "trace").mkdir()
    for call in tracer.calls("save_first", tmp_path / "trace"):
        for when in range(1, 100):
            root = tmp_path / "victim"
            root.mkdir()
            killed, _ = tracer.kill("save_first", root, call, when)
            step = Checkpoints(root / "new").step_of("latest")
            assert step in (None, 1)
            assert step is None or number_of(root / "new", "latest") == 1
            driver.OPERATIONS["save_first"](root, str)
            assert number_of(root / "new", "latest") == number_of(root / "new", "best") == 1
            shutil.rmtree(root)
            if not killed:
                break


@pytest.mark.parametrize("again", [False, True])
def test_every_step_of_a_save_may_find_the_disk_full(again, mount, tmp_path, driver) -> None:
    """From no room at all to enough, a page at a time; a failure leaves no byte behind."""
    disk = mount(tmp_path / "disk", "-t", "tmpfs", "-o", "size=200k,nr_inodes=1000", "none")
    root = disk / "checkpoints"
    driver.save_checkpoint(root, 4, 4)
    before, failed = files_in(root), 0
    for free in range(40):
        filler = disk / "filler"
        with filler.open("wb") as file:
            file.write(bytes((os.statvfs(disk).f_bavail - free) * 4096))
        room = os.statvfs(disk).f_bavail
        try:
            driver.save_checkpoint(root, 4 if again else 5, 40)
        except StorageFullError:
            failed += 1
            assert number_of(root, "latest") == 4
            assert files_in(root) == before
            assert os.statvfs(disk).f_bavail == room
        else:
            break
        finally:
            filler.unlink()
    assert failed > 2, "the disk was never full"
    assert number_of(root, "latest") == 40
    assert not [path for path in root.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "sparse", "pipe", "no state"])
def test_the_way_out_of_a_damaged_checkpoint_works(damage, history) -> None:
    tensors = history / "00000004" / "tensors.safetensors"
    if damage == "gone":
        shutil.rmtree(tensors.parent)
    elif damage == "cut":
        os.truncate(tensors, 100)
    elif damage == "flipped":
        tensors.write_bytes(tensors.read_bytes()[:-1] + b"\1")
    elif damage == "sparse":
        os.truncate(tensors, 2**40)
    elif damage == "no state":
        (tensors.parent / "state.json").unlink()
    else:
        tensors.unlink()
        os.mkfifo(tensors)
    with pytest.raises(CheckpointError, match="00000004") as caught:
        Checkpoints(history).load()
    command = caught.value.hint.partition(": ")[2]
    assert command.startswith("echo 00000003 > ")
    subprocess.run(command, shell=True, check=True)
    assert number_of(history, "latest") == 3


@pytest.mark.parametrize("content", [b"", b"../../x", b"7", "²".encode(), b"\xff", b"0" * 200])
def test_a_pointer_that_names_no_checkpoint_is_refused_with_a_way_out(content, history) -> None:
    (history / "latest").write_bytes(content)
    checkpoints = Checkpoints(history)
    with pytest.raises(CheckpointError, match="latest") as caught:
        checkpoints.load()
    subprocess.run(caught.value.hint.partition(": ")[2], shell=True, check=True)
    assert number_of(history, "latest") == 4
    (history / "best").write_bytes(content)
    with pytest.raises(CheckpointError, match="best") as caught:
        checkpoints.load("best")
    assert caught.value.hint.endswith(f"rm {shlex.quote(str(history / 'best'))}")


def test_without_a_whole_checkpoint_the_way_out_is_the_beginning(history) -> None:
    for tensors in history.glob("*/tensors.safetensors"):
        tensors.unlink()
    with pytest.raises(CheckpointError) as caught:
        Checkpoints(history).load()
    assert f"rm -r {history}, and resume" in caught.value.hint


def test_the_same_checkpoint_is_kept_and_another_one_takes_a_new_name(history, driver) -> None:
    file = history / "00000004" / "tensors.safetensors"
    inode = file.stat().st_ino
    driver.save_checkpoint(history, 4, 4, best=True)
    assert file.stat().st_ino == inode
    assert number_of(history, "best") == 4
    driver.save_checkpoint(history, 4, 41)
    driver.save_checkpoint(history, 4, 42)
    assert (history / "latest").read_text() == "00000004-2"
    assert number_of(history, "4") == 42
    assert number_of(history, "best") == 4  # the first of this step
    assert Checkpoints(history).steps() == [3, 4]
    assert not (history / "00000004-1").exists()


@pytest.mark.parametrize("kind", ["folder", "file", "pipe", "link"])
def test_what_has_the_name_of_an_unfinished_checkpoint_is_deleted(
    kind, history, driver, tmp_path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("00000003", "00000005"):  # deleted and written by the next save
        path = history / f".{name}.tmp"
        if kind == "folder":
            (path / "inside").mkdir(parents=True)
        elif kind == "file":
            path.touch()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(elsewhere)
    for step in (5, 6):
        driver.save_checkpoint(history, step, step)
    assert Checkpoints(history).steps() == [2, 5, 6]
    assert number_of(history, "latest") == 6
    assert not list(history.glob(".*"))
    assert elsewhere.is_dir()


def test_names_with_absurd_numbers_are_no_checkpoints(history, driver) -> None:
    (history / "00000004-999999999").mkdir()
    driver.save_checkpoint(history, 4, 41)
    assert number_of(history, "latest") == 41
