"""The notebooks run where what they need is installed: `pip install -e .[notebooks]`. CI does not have it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.checkout import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def test_each_was_run_to_its_end_without_errors():
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        assert [cell["execution_count"] for cell in cells(path)] == [*range(1, len(cells(path)) + 1)]
        kinds = {output["output_type"] for cell in cells(path) for output in cell["outputs"]}
        assert kinds <= {"display_data", "execute_result", "stream"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of what runs notebooks
def test_each_runs_and_says_what_it_said(path: Path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    for needed in ("ipykernel", "matplotlib", "pandas"):
        pytest.importorskip(needed)
    before, again = (nbformat.read(path, as_version=4) for _ in range(2))
    after = nbclient.NotebookClient(again, timeout=600, resources={"metadata": {"path": ROOT}}).execute()
    for was, now in zip(before.cells, after.cells, strict=True):
        assert texts(now) == texts(was)


def texts(cell: Any) -> list[str]:
    """What a cell has printed, and its values as text; plots differ from machine to machine."""
    found = [one for one in cell.get("outputs", ()) if "image/png" not in one.get("data", ())]
    return [one.get("text") or one["data"]["text/plain"] for one in found]
