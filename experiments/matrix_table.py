"""The comparison of a matrix's sweeps that the terminal shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.matrix_state import COMPARISON_FILE, Matrix
from experiments.summary import shown_path

if TYPE_CHECKING:
    from rich.console import Console


def show_comparison(matrix: Matrix, console: Console) -> None:
    """Print a line for each sweep; the best of those on one environment is in bold."""
    from rich import box
    from rich.table import Table

    table = Table(title=f"{matrix.folder.name}: its sweeps", box=box.SIMPLE_HEAD)
    table.title_justify = "left"
    table.add_column("sweep", overflow="fold")
    table.add_column("status")
    for name in ("trials", "failed", "best", "env steps", "minutes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("objective", overflow="fold")
    winners = _winners(matrix)
    for name, row in matrix.rows.items():
        objective = matrix.specs[name].objective
        table.add_row(
            name,
            row.status,
            str(row.trials),
            str(row.failed),
            "–" if row.best is None else f"{row.best:.5g}",
            "–" if row.env_steps is None else f"{row.env_steps:,}",
            f"{row.seconds / 60:.1f}",
            row.note or f"{objective.metric} ({objective.mode})",
            style="bold" if name in winners else None,
        )
    console.print(table)
    folder = shown_path(matrix.folder)
    console.print(f"Comparison: {folder}/{COMPARISON_FILE}", highlight=False, soft_wrap=True)
    if any(row.status in ("waiting", "interrupted") for row in matrix.rows.values()):
        console.print(f"Next: tunescape resume {folder}", highlight=False, soft_wrap=True)
    elif matrix.any_failed:
        retry = f"tunescape resume {folder} --retry-errored"
        console.print(f"Next: {retry}  # after mending the cause", highlight=False, soft_wrap=True)


def _winners(matrix: Matrix) -> set[str]:
    """The best sweep on each environment, of those with the same objective."""
    best: dict[tuple[str, str, str], tuple[float, str]] = {}
    for name, row in matrix.rows.items():
        objective = matrix.specs[name].objective
        if row.best is None:
            continue
        score = row.best if objective.mode == "max" else -row.best
        group = (row.env, objective.metric, objective.mode)
        best[group] = max(best.get(group, (score, name)), (score, name), key=lambda pair: pair[0])
    return {name for _, name in best.values()} if len(matrix.rows) > len(best) else set()
