"""What every test runs under: one thread, no network, no colour, the same random numbers in every run."""

import os

import hypothesis
import pytest

for name, value in {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "NO_COLOR": "1",
    "TOKENIZERS_PARALLELISM": "false",
}.items():
    os.environ.setdefault(name, value)

hypothesis.settings.register_profile("the same in every run", derandomize=True)
hypothesis.settings.load_profile("the same in every run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes begin first, so that no worker waits for one of them at the end."""
    items.sort(key=lambda item: "weights" not in item.path.parts)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Before any fixture: weights that a test or its fixtures draw do not depend on what ran before."""
    import torch  # not above: it reads the number of threads when it is imported

    torch.manual_seed(0)
