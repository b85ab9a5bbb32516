"""Where tensors live, and how the processor is set up for them."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from wmtk.errors import UsageError

# Parameters of glibc's mallopt, from malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_LARGEST_MMAP_THRESHOLD = 32 * 2**20  # that glibc accepts
_NEVER = -1
_SMALL = 1024  # rows of a batch times depth of the convolutions; preset tiny has 320


def choose_device(name: str) -> str:
    """`auto` takes the best there is; anything else must exist."""
    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"The device {name!r} cannot be used: {str(error).splitlines()[0]}",
            "Use auto, cpu, cuda, cuda:N or mps; `wmtk doctor` shows what there is.",
        ) from error
    return name


def tune_allocator() -> bool:
    """Let this process keep the memory that it frees; returns whether that could be done.

    glibc gives large blocks back to the system at once, and every update would ask for them again:
    the system then has to clear gigabytes of pages, which takes a third of the time. For commands,
    not for libraries: the whole process is affected.
    """
    libc = _glibc()
    if libc is None:
        return False
    settings = {
        _M_MMAP_MAX: 0,
        _M_MMAP_THRESHOLD: _LARGEST_MMAP_THRESHOLD,
        _M_TRIM_THRESHOLD: _NEVER,
    }
    accepted = [libc.mallopt(name, value) == 1 for name, value in settings.items()]
    return all(accepted)


def tune_threads(rows: int, depth: int) -> bool:
    """Let a small model have one thread; whether it is small. Rows of a batch, depth of the model.

    A second one would spare a twentieth of the time at best. On a machine that does something else
    as well the two wait for each other at every operation, which took a hundred times as long.
    Whoever sets OMP_NUM_THREADS is left alone. For commands: the whole process is affected.
    """
    small = rows * depth <= _SMALL and "OMP_NUM_THREADS" not in os.environ
    if small:
        torch.set_num_threads(1)
    return small


@contextmanager
def tuned_threads(rows: int, depth: int) -> Iterator[None]:
    """`tune_threads` within the block; the former number of threads afterwards."""
    threads = torch.get_num_threads()
    tune_threads(rows, depth)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def return_freed_memory() -> None:
    """Give the memory that this process has freed, and keeps, back to the system."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """GNU's C library if it is the one in use; others have allocators with other settings."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None
