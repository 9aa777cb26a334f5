"""The tutorial as a notebook runs from its first cell to its last."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# The sweep with a budget that shows nothing about learning.
STOP = "stop.num_env_steps_sampled_lifetime=4000"
SMALLER = {'"num_samples=6"': f'"num_samples=2", "{STOP}", "scheduler=fifo"'}


@pytest.mark.full(
    "unit/outcomes/report/test_notebook.py::test_a_sweep_shows_words_table_and_curves"
)
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    notebook = nbformat.read(ROOT / "experiments" / "tutorial.ipynb", 4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for old, new in SMALLER.items():
        assert old in cells[0].source
        cells[0].source = cells[0].source.replace(old, new)
    resources = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=300, resources=resources).execute()
    run, sweep, board, picture, play = cells
    assert len(run.outputs) < 10  # a table that is redrawn, not a line for every event
    assert "trials 2/2" in "".join(of_kind(run, "text/html"))
    assert "data:image/png" in of_kind(sweep, "text/html")[0]
    assert "trial_id" in of_kind(board, "text/html")[0]
    assert of_kind(picture, "image/png")
    assert float(of_kind(play, "text/plain")[0]) > 0


def of_kind(cell: Any, kind: str) -> list[str]:
    """What a cell showed, of one kind."""
    return [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]
