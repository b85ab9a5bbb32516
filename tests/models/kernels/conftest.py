"""Tests that compare a kernel with its plain definition select both by themselves."""

from collections.abc import Iterator

import pytest

from wmtk.models import kernels as switch


@pytest.fixture(autouse=True)
def kernels() -> Iterator[str]:
    with switch.using("fast"):
        yield "fast"
