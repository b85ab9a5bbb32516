"""Writers on several machines, and several writers with one seed: nothing is lost or doubled.

A machine is a process that takes itself for another host and does not see the locks of others, as
over a network file system.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wmtk.datasets import Dataset
from wmtk.datasets.integrity.repair import _Repair, repair
from wmtk.datasets.integrity.validate import validate
from wmtk.datasets.storage import atomic, hosts
from wmtk.datasets.storage.hosts import Host
from wmtk.envs import resolve
from wmtk.errors import DatasetError, OtherHostError

DRIVER = Path(__file__).with_name("driver.py")
HERE = Host("here", "m1", "b1")
THERE = Host("there", "m2", "b2")

# argv: driver, dataset, host, first number, count, "leased" or "unleased"
WRITER = """
import importlib.util, sys
from pathlib import Path
from wmtk.datasets import Dataset
from wmtk.datasets.storage import atomic, hosts

_, path, root, name, first, count, lease = sys.argv
spec = importlib.util.spec_from_file_location("driver", path)
driver = importlib.util.module_from_spec(spec)
spec.loader.exec_module(driver)
hosts.this_host = lambda: hosts.Host(name, name, name)
hosts.network_name = lambda path: "NFS"
atomic.FolderLock.__enter__ = lambda self: True  # blind to the locks of all others
if lease == "unleased":
    hosts._take_ownership = hosts.require_ownership = lambda root: None
print("ready", flush=True)
input()
for number in range(int(first), int(first) + int(count)):
    with Dataset.open(root, "a") as dataset:
        dataset.append(driver.episode(number))
    print(number, flush=True)
"""


def write(root: Path, name: str, first: int, count: int, lease: str) -> subprocess.Popen[str]:
    words = [DRIVER, root, name, first, count, lease]
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [None, 10_000])
def test_writers_that_are_blind_to_each_other_lose_nothing(
    make_dataset, numbers_in, capacity
) -> None:
    """Even if both machines write, which the record of the owner normally prevents."""
    root = make_dataset([0], capacity=capacity)
    writers = [write(root, name, first, 40, "unleased") for name, first in (("a", 100), ("b", 200))]
    for process in writers:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    acknowledged: list[int] = []
    for process in writers:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        acknowledged += map(int, output.split())
    assert len(acknowledged) == 80
    assert set(numbers_in(root)) == {0, *acknowledged}
    assert not validate(root).errors


@pytest.fixture
def network(monkeypatch) -> pytest.MonkeyPatch:
    """The file system is one of a network, and locks are not seen by others."""
    monkeypatch.setattr(hosts, "network_name", lambda path: "NFS")
    monkeypatch.setattr(hosts, "this_host", lambda: HERE)
    return monkeypatch


def test_a_second_machine_is_refused_until_the_first_gives_the_dataset_back(
    make_dataset, driver, network
) -> None:
    root = make_dataset([0])
    with Dataset.open(root, "a") as first, Dataset.open(root, "a"):
        first.append(driver.episode(1))
        network.setattr(hosts, "this_host", lambda: THERE)
        for write in (lambda: Dataset.open(root, "a"), lambda: Dataset.open(root).tag("t")):
            with pytest.raises(OtherHostError, match=r"NFS.* written to by the machine here") as e:
                write()
            assert "wmtk data merge" in e.value.hint
            assert f"wmtk data takeover {root}" in e.value.hint
        assert len(Dataset.open(root)) == 2  # reading is free
        network.setattr(hosts, "this_host", lambda: HERE)
    network.setattr(hosts, "this_host", lambda: THERE)
    assert hosts.owner_of(root) is None
    with Dataset.open(root, "a") as second:
        second.append(driver.episode(2))
    assert not validate(root).problems


def test_a_machine_that_crashed_is_followed_by_itself_or_by_another_on_request(
    make_dataset, driver, network, run_wmtk
) -> None:
    root = make_dataset([0])
    crashed = Dataset.open(root, "a")  # and never closed
    half = root / "tmp" / hosts.staging_name("p00000002-0000000a")
    half.mkdir()
    network.setattr(hosts, "this_host", lambda: HERE._replace(boot="b9"))  # started again
    with Dataset.open(root, "a") as dataset:
        dataset.append(driver.episode(1))
    network.setattr(hosts, "this_host", lambda: HERE)
    with pytest.raises(OtherHostError, match="was taken over by"):
        crashed.append(driver.episode(9))
    crashed.close()
    crashed = Dataset.open(root, "a")
    network.setattr(hosts, "this_host", lambda: THERE)
    with pytest.raises(OtherHostError):
        Dataset.open(root, "a")
    assert run_wmtk("data", "takeover", root).exit_code == 2  # no terminal to ask on
    done = run_wmtk("data", "takeover", root, "--yes")
    assert done.exit_code == 0, done.stderr
    assert "is writable from this machine" in done.stdout
    assert "is not owned by another machine" in run_wmtk("data", "takeover", root, "--yes").stdout
    with Dataset.open(root, "a") as dataset:
        dataset.append(driver.episode(2))
    network.setattr(hosts, "this_host", lambda: HERE)
    with pytest.raises(OtherHostError):
        crashed.append(driver.episode(9))
    crashed.close()
    with Dataset.open(root) as dataset:
        assert [driver.number_of(episode) for episode in dataset] == [0, 1, 2]


def test_no_other_machine_may_write_while_a_dataset_is_repaired(make_dataset, network) -> None:
    root = make_dataset([0])
    repair_log, refusals = _Repair.repair_log, []

    def write_elsewhere(job: _Repair) -> None:
        with pytest.MonkeyPatch.context() as there:
            there.setattr(hosts, "this_host", lambda: THERE)
            there.setattr(atomic.FolderLock, "__enter__", lambda lock: True)  # blind to ours
            with pytest.raises(OtherHostError, match="written to by the machine here") as refused:
                Dataset.open(root, "a")
        refusals.append(refused)
        repair_log(job)

    network.setattr(_Repair, "repair_log", write_elsewhere)
    repair(root)
    assert len(refusals) == 1
    assert hosts.owner_of(root) is None
    with Dataset.open(root, "a"), pytest.raises(DatasetError, match="open for writing"):
        repair(root)


def test_a_damaged_record_of_the_owner_names_the_way_out(make_dataset, network, run_wmtk) -> None:
    root = make_dataset([0])
    (root / "tmp" / hosts.OWNER).write_text("{}")
    with pytest.raises(DatasetError, match="takeover"):
        Dataset.open(root, "a")
    assert run_wmtk("data", "takeover", root, "--yes").exit_code == 0
    Dataset.open(root, "a").close()


def test_what_another_machine_is_writing_is_left_alone(make_dataset, network) -> None:
    root = make_dataset([0])
    mine = root / "tmp" / hosts.staging_name("p00000002-0000000a")
    network.setattr(hosts, "this_host", lambda: THERE)
    other = root / "tmp" / hosts.staging_name("p00000002-0000000b")
    network.setattr(hosts, "this_host", lambda: HERE)
    old = root / "tmp" / "p00000002-0000000c"  # as older versions named them
    for folder in (mine, other, old):
        folder.mkdir()
    Dataset.open(root, "a").close()
    assert (mine.exists(), other.exists(), old.exists()) == (False, True, True)
    network.setattr(hosts, "network_name", lambda path: None)
    Dataset.open(root, "a").close()  # on a local file system locks tell
    assert (other.exists(), old.exists()) == (False, False)


def test_a_copy_without_its_empty_folders_can_be_tagged(make_dataset) -> None:
    root = make_dataset([0])
    shutil.rmtree(root / "tmp")
    Dataset.open(root).tag("t")
    assert [tag.name for tag in Dataset.open(root).tags()] == ["t"]


def test_local_file_systems_have_no_owner(make_dataset) -> None:
    root = make_dataset([0])
    with Dataset.open(root, "a"):
        assert hosts.network_name(root) is None or hosts.owner_of(root) is not None
        assert hosts.network_name(Path("/proc")) is None
    assert hosts.this_host() == hosts.this_host()
    assert hosts.this_host().boot


# --- one seed ---------------------------------------------------------------------------------

COLLECT = """
import sys
from wmtk.collecting import collect_episodes, dataset_for, load_policy, seed_entropy
from wmtk.envs import resolve

task = resolve("wmtk/Catch-v0")
with dataset_for(task, sys.argv[1], append=True) as dataset:
    policy = load_policy("random", dataset.schema.action, seed_entropy(dataset, 0))
    print("ready", flush=True)
    input()
    collect_episodes(task, dataset, policy, seed=0, episodes=10, workers=0)
"""


@pytest.mark.slow
def test_writers_that_start_together_with_one_seed_record_different_episodes(tmp_path) -> None:
    root = tmp_path / "d.zarr"
    with Dataset.create(root, _catch_schema(), env={"task": "wmtk/Catch-v0"}):
        pass
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", COLLECT, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in writers:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in writers:
        process.communicate("go\n", timeout=60)
        assert process.returncode == 0
    dataset = Dataset.open(root)
    ids = [episode.id for episode in dataset]
    seeds = [episode.seed for episode in dataset]
    assert len(set(ids)) == len(ids) == 30
    assert len(set(seeds)) == 3


def _catch_schema():
    from wmtk.collecting import schema_of

    return schema_of(resolve("wmtk/Catch-v0"))


def test_an_only_writer_is_the_first_each_time(make_dataset) -> None:
    root = make_dataset([0])
    with Dataset.open(root, "a") as one, Dataset.open(root, "a") as two:
        assert (one.writer, two.writer, one.writer) == (0, 1, 0)
        with Dataset.open(root, "a") as three:
            assert three.writer == 2
    with Dataset.open(root, "a") as again:
        assert again.writer == 0
    assert not validate(root).problems
    with pytest.raises(DatasetError):
        _ = Dataset.open(root).writer
