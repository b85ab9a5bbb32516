"""Exclusive writing by one machine, for file systems whose locks do not span machines.

On a local file system `flock` excludes other writers. On a network file system it may be local to
each machine, so that one machine at a time may write: `tmp/owner.json` names it. The file does not
expire, as clocks differ: the machine that wrote it deletes it, or `take_over` replaces it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import shlex
import socket
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

from wmtk.datasets.storage import atomic
from wmtk.documents import Document
from wmtk.errors import CorruptDatasetError, DatasetError, OtherHostError

# File systems that several machines may mount at once, by the f_type of statfs(2).
NETWORK = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFE534D42: "SMB",
    0xFF534D42: "CIFS",
    0x65735546: "FUSE",  # sshfs and others, also local ones, which statfs does not distinguish
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x00C36400: "CephFS",
    0x01021997: "9p",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x19830326: "BeeGFS",
    0x20030528: "OrangeFS",
    0xAAD7AAEA: "PanFS",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0xBACBACBC: "vmhgfs",
    0x786F4256: "vboxsf",
    0x6A656A63: "virtiofs",
}
OWNER, WRITER = "owner.json", "writer-"
PATIENCE = 2.0  # seconds that another process may take to release the dataset
_SEPARATOR = "@"


class Host(NamedTuple):
    """A machine since its last start."""

    name: str
    machine: str  # constant over restarts; empty if unknown
    boot: str  # differs after each restart; processes with the same one share locks


class Owner(Document):
    """`tmp/owner.json`: the machine that has the dataset open for writing."""

    host: str
    machine: str
    boot: str
    process: int
    since: str  # for display


@functools.cache
def this_host() -> Host:
    name = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:64] or "host"
    machine = _first_line("/etc/machine-id") or f"{uuid.getnode():x}"
    boot = _first_line("/proc/sys/kernel/random/boot_id") or f"{name}-{machine}"
    return Host(name, machine[:32], re.sub(r"[^A-Za-z0-9]", "", boot)[:32])


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def network_name(path: Path) -> str | None:
    """The kind of network file system that a folder is on; None on a local one."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_long * 64)()  # struct statfs is 120 bytes; f_type comes first
    if libc.statfs(os.fsencode(path), buffer) != 0:
        return None
    return NETWORK.get(buffer[0] & 0xFFFFFFFF)


# --- names of incomplete parts ---------------------------------------------------------------


def staging_name(part: str) -> str:
    """The name of a part while it is written, with the machine and process of the writer."""
    host = this_host()
    return f"{part}{_SEPARATOR}{host.name}.{host.boot}.{os.getpid()}"


def part_of(name: str) -> str:
    """The part of a staging folder."""
    return name.partition(_SEPARATOR)[0]


def may_clean(folder: Path) -> bool:
    """Whether a folder is an incomplete part whose lock is free if the writer was killed."""
    if folder.name.startswith(WRITER):
        return False
    boot = folder.name.rpartition(_SEPARATOR)[2].split(".")[1:2]
    return boot == [this_host().boot] or network_name(folder.parent) is None


# --- one machine at a time --------------------------------------------------------------------


def lock_for_writing(root: Path, stack: contextlib.ExitStack, *, alone: bool = False) -> None:
    """Hold the writers' lock until the stack is closed, shared or with `alone` exclusively.

    Raises DatasetError if the lock is not granted, OtherHostError if another machine has the
    dataset open for writing.
    """
    over_network = network_name(root) is not None
    until = time.monotonic() + (PATIENCE if over_network else 0)
    if over_network:
        stack.callback(_release_ownership, root)
    while not stack.enter_context(atomic.FolderLock(root / "tmp", exclusive=alone)):
        if time.monotonic() >= until:
            if alone:
                raise open_for_writing_error(root)
            raise DatasetError(
                f"{root} is being repaired by another process.",
                "Wait until the repair has finished.",
                root,
            )
        time.sleep(0.05)
    if over_network:
        _take_ownership(root)


def open_for_writing_error(root: Path) -> DatasetError:
    return DatasetError(
        f"{root} is open for writing in another process.",
        "Stop that process, then repair the dataset.",
        root,
    )


def require_ownership(root: Path) -> None:
    """Raise OtherHostError unless this machine owns the dataset."""
    if network_name(root) is None:
        return
    owner = owner_of(root)
    if owner is None or owner.boot != this_host().boot:
        raise _other_host_error(root, owner, "was taken over by")


def owner_of(root: Path) -> Owner | None:
    """The machine that has a dataset on a network file system open for writing."""
    path = root / "tmp" / OWNER
    try:
        data = atomic.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        return Owner.read(atomic.verify_checksum(atomic.parse_json(data, path), path), path)
    except CorruptDatasetError as error:
        hint = f"If no other machine writes: wmtk data takeover {shlex.quote(str(root))}"
        raise CorruptDatasetError(error.message, hint, path) from error


def take_over(root: Path) -> None:
    """Make this machine the owner; commits of the former owner raise OtherHostError."""
    with atomic.translate_os_errors(root):
        atomic.replace_file(root / "tmp" / OWNER, _record())


def _record() -> bytes:
    host = this_host()
    owner = Owner(
        host=host.name,
        machine=host.machine,
        boot=host.boot,
        process=os.getpid(),
        since=atomic.timestamp(),
    )
    return atomic.json_bytes(atomic.with_checksum(owner.model_dump()))


def _take_ownership(root: Path) -> None:
    here = this_host()
    while True:
        with contextlib.suppress(FileExistsError):
            atomic.create_exclusively(root / "tmp" / OWNER, _record())
            return
        owner = owner_of(root)
        if owner is None:
            continue  # its owner has released it
        if owner.boot == here.boot:
            return
        if here.machine and (owner.host, owner.machine) == (here.name, here.machine):
            take_over(root)  # the writer ended with the restart of this machine
            return
        raise _other_host_error(root, owner, "is written to by")


def _other_host_error(root: Path, owner: Owner | None, what: str) -> OtherHostError:
    by = "another machine"
    if owner is not None:
        by = f"the machine {owner.host} (process {owner.process}, since {owner.since})"
    return OtherHostError(
        f"{root} is on a network file system ({network_name(root)}) and {what} {by}.",
        "Locks there do not span machines, so that one at a time may write: collect on one "
        "machine, or into one dataset per machine and join them with `wmtk data merge`. If that "
        f"machine crashed: wmtk data takeover {shlex.quote(str(root))}",
        root,
    )


def _release_ownership(root: Path) -> None:
    """Delete the owner file unless another process of this machine has the dataset open."""
    with (
        contextlib.suppress(DatasetError, OSError),
        atomic.FolderLock(root / "tmp", exclusive=True) as alone,
    ):
        owner = owner_of(root)
        if alone and owner is not None and owner.boot == this_host().boot:
            (root / "tmp" / OWNER).unlink()


# --- numbers of concurrent writers ------------------------------------------------------------


def writer_number(root: Path, stack: contextlib.ExitStack) -> int:
    """The least number without a writer, reserved until the stack is closed."""
    number = 0
    while True:
        path = root / "tmp" / f"{WRITER}{number}"
        path.mkdir(exist_ok=True)
        lock = atomic.FolderLock(path, exclusive=True)
        if lock.__enter__():
            stack.push(lock.__exit__)
            return number
        number += 1
