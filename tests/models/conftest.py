"""Every test of the models runs with the plain definitions and with the kernels."""

from collections.abc import Iterator

import pytest

from wmtk.models import kernels as switch


@pytest.fixture(params=["plain", "fast"], autouse=True)
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    with switch.using(request.param):
        yield request.param
