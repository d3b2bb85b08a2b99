"""Kernels under test: the ones that run here, and stand-ins for the packages of those that cannot."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from streamgen.attention import Kernel, kernels
from tests.attention import fake_triton, fakes

HERE = ("reference", "sdpa", "segments", "cascade", "flex", "triton")
EVERY = (*HERE, *fakes.PACKAGES)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "triton: needs the triton package; skipped with a reason without it")


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """A kernel by name, with a stand-in for its package unless Triton's own interpreter is asked for."""
    name: str = request.param
    with ExitStack() as stack:
        if name == "triton" and os.environ.get("TRITON_INTERPRET") != "1":
            stack.enter_context(fake_triton.installed())
        if name in fakes.PACKAGES:
            stack.enter_context(fakes.standing_in(*fakes.PACKAGES[name]))
        yield kernels()[name]
