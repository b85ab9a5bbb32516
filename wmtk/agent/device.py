"""Choice of the device, threads and memory allocation of the process."""

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
    """Check the name of a device and return it; `auto` selects the best available one."""
    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"The device {name!r} cannot be used: {str(error).splitlines()[0]}",
            "Use auto, cpu, cuda, cuda:N or mps; `wmtk doctor` lists the devices.",
        ) from error
    return name


def tune_allocator() -> bool:
    """Make glibc reuse freed memory instead of returning it; returns whether that succeeded.

    By default glibc returns large blocks to the system, which then clears gigabytes of pages at
    every update: a third of the training time. Affects the whole process: call it in commands only.
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
    """Set torch to one thread for a small model; returns whether the model is small.

    `rows` is the number of rows of a batch, `depth` is `model.cnn_depth`. With small models, a
    second thread saves 5% at most; on a busy machine threads wait for each other at every
    operation, which was 100 times slower in measurements. OMP_NUM_THREADS disables this function.
    Affects the whole process.
    """
    small = rows * depth <= _SMALL and "OMP_NUM_THREADS" not in os.environ
    if small:
        torch.set_num_threads(1)
    return small


@contextmanager
def tuned_threads(rows: int, depth: int) -> Iterator[None]:
    """`tune_threads` within the block; restores the previous number of threads afterwards."""
    threads = torch.get_num_threads()
    tune_threads(rows, depth)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def return_freed_memory() -> None:
    """Return the freed memory of the process to the system."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """glibc, if the process uses it."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None
