"""What commands print of folders and labels: as they are, not as rich's markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from analysis_sweeps import make_sweep, row
from typer.testing import CliRunner

from experiments.cli import app

ODD = "a[/x] [red]b"


@pytest.fixture
def sweeps(tmp_path: Path) -> list[Path]:
    rows = [row(1, 5.0), row(2, 6.0)]
    return [make_sweep(tmp_path, {"t0": {"rows": rows}}, name) for name in ("one", "two")]


def test_where_a_frame_is(sweeps: list[Path], tmp_path: Path) -> None:
    place = tmp_path / ODD / "trials.csv"
    place.parent.mkdir(parents=True)
    done = CliRunner().invoke(app, ["frames", str(sweeps[0]), "-o", str(place)])
    assert done.exit_code == 0, done.output
    assert str(place) in done.output


def test_labels_of_a_comparison(sweeps: list[Path]) -> None:
    labelled = [f"[red]b={sweeps[0]}", f"other={sweeps[1]}"]
    done = CliRunner().invoke(app, ["compare", *labelled])
    assert done.exit_code == 0, done.output
    assert "[red]b, other: episode_return_mean" in done.output
