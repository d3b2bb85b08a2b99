"""The notebooks in demos/: they run on the bundled weights, draw something, and are kept without outputs."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
DEMOS = ROOT / "demos"
NOTEBOOKS = sorted(DEMOS.glob("*.ipynb"))
PATHS = re.compile(r"/(?:home|root|Users|tmp|work)/")


def named(path: Path) -> str:
    return path.stem


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def pictures(cells: list[NotebookNode]) -> int:
    return sum("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)


def test_there_is_a_notebook_for_every_pipeline_and_for_the_cache() -> None:
    assert set(map(named, NOTEBOOKS)) == {"cache", "image", "text", "video", "video_qa", "world"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_a_notebook_runs_from_top_to_bottom_and_draws(path: Path, tmp_path: Path) -> None:
    """In a copy of the folder: what it imports lies beside it, and nothing is written into the checkout."""
    folder = shutil.copytree(DEMOS, tmp_path / "demos", ignore=shutil.ignore_patterns("__pycache__"))
    before = {file.name for file in folder.iterdir()} | {"__pycache__"}
    notebook = nbformat.read(folder / path.name, as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute()
    assert pictures(code(notebook)) >= 1
    [cover] = [cell for cell in code(notebook) if "cover" in cell.metadata.get("tags", [])]
    assert pictures([cover]) == 1
    warned = [
        output.text for cell in code(notebook) for output in cell.outputs if output.get("name") == "stderr"
    ]
    assert not warned
    assert {file.name for file in folder.iterdir()} <= before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_a_notebook_is_kept_as_it_was_written(path: Path) -> None:
    """Valid, with ids that stay, without outputs, counts, or places on somebody's machine."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert all(not cell.outputs and cell.execution_count is None for cell in code(notebook))
    assert not PATHS.search(path.read_text())
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_every_link_of_a_notebook_leads_somewhere(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    targets = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
    assert all((DEMOS / target).exists() for target in targets), targets
