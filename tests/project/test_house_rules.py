"""The rules that a tool cannot check for us."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import streamgen

ROOT = Path(__file__).resolve().parents[2]
KERNEL_PACKAGES = {"triton", "xformers", "flash_attn", "flash_attn_interface", "flashinfer", "sageattention"}
MODULES = sorted([*ROOT.glob("streamgen/**/*.py"), *ROOT.glob("apps/**/*.py")])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_short_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < 300
    assert ast.get_docstring(ast.parse(text)) or not text.strip()


def test_everything_imports_where_no_kernel_package_is_installed() -> None:
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({KERNEL_PACKAGES!r}))\n"
        "import streamgen.attention.registry as registry, streamgen.pipelines.video, streamgen.cli.app\n"
        "assert registry.kernels()['sdpa'].absent() is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()


def test_the_library_reads_no_environment_variable() -> None:
    guilty = [
        path for path in MODULES if "os.environ[" in path.read_text() or "os.getenv" in path.read_text()
    ]
    assert not guilty


def test_the_version_is_said_once_and_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == streamgen.__version__
    assert f"## {streamgen.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_torch_has_no_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [torch] = [line for line in project["dependencies"] if line.startswith("torch")]
    assert "<" not in torch


@pytest.mark.parametrize("name", streamgen.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(streamgen, name) is not None


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(AttributeError, match="VideoPipeline"):
        _ = streamgen.VideoPipelin


def test_every_decision_is_listed_and_every_link_of_the_docs_leads_somewhere() -> None:
    decisions = ROOT / "docs" / "decisions"
    listed = (decisions / "README.md").read_text()
    assert all(page.name in listed for page in decisions.glob("0*.md"))
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]:
        for target in links(page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there."


def links(text: str) -> Iterator[str]:
    """Targets of relative Markdown links."""
    for piece in text.split("](")[1:]:
        target = piece.partition(")")[0].partition("#")[0]
        if target and "://" not in target:
            yield target


def test_every_test_draws_the_same_random_numbers_whatever_ran_before() -> None:
    assert torch.initial_seed() == 0
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))
