"""The device to compute on, and the allocator's settings."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from wmtk.agent.device import choose_device, tune_allocator, tune_threads
from wmtk.errors import UsageError


def test_auto_takes_what_there_is() -> None:
    assert choose_device("cpu") == "cpu"
    assert choose_device("auto") in {"cpu", "cuda", "mps"}
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="'cuda' cannot be used"):
            choose_device("cuda")


def test_small_models_have_one_thread_unless_somebody_says_otherwise(monkeypatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert not tune_threads(rows=40, depth=8)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert not tune_threads(rows=2500, depth=48)
    assert chosen == []
    assert tune_threads(rows=40, depth=8)
    assert chosen == [1]


KEEPING = """
import resource, sys, ctypes
from wmtk.agent.device import tune_allocator
SIZE = 256 * 2**20

def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

if sys.argv[1] == "tuned":
    assert tune_allocator()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
before = held()
block = libc.malloc(SIZE)
ctypes.memset(block, 1, SIZE)
libc.free(block)
print((held() - before) / SIZE)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
@pytest.mark.parametrize(("how", "kept"), [("plain", 0.0), ("tuned", 1.0)])
def test_a_tuned_allocator_keeps_what_is_freed(how, kept) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KEEPING, how], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == pytest.approx(kept, abs=0.05)


def test_elsewhere_it_does_nothing(monkeypatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert tune_allocator() is False
