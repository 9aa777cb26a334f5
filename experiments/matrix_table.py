"""The comparison of a matrix's sweeps that the terminal shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.matrix_state import COMPARISON_FILE, Matrix
from experiments.paths import command_line, shown_path

if TYPE_CHECKING:
    from rich.console import Console


def show_comparison(matrix: Matrix, console: Console) -> None:
    """Print a line for each sweep; the best of those on one environment is in bold.

    None is where the sweeps had unequal chances: more trials have a luckier best.
    """
    from rich import box
    from rich.table import Table

    table = Table(title=f"{matrix.folder.name}: its sweeps", box=box.SIMPLE_HEAD)
    table.title_justify = "left"
    table.add_column("sweep", overflow="fold")
    table.add_column("status")
    for name in ("trials", "failed", "value"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("measured by", no_wrap=True)
    for name in ("env steps", "minutes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("objective", overflow="fold")
    winners, reasons = _winners(matrix)
    for name, row in matrix.rows.items():
        objective = matrix.specs[name].objective
        table.add_row(
            name,
            row.status,
            str(row.trials),
            str(row.failed),
            "–" if row.value is None else f"{row.value:.5g}",
            row.measure or "–",
            "–" if row.env_steps is None else f"{row.env_steps:,}",
            f"{row.seconds / 60:.1f}",
            row.note or f"{objective.metric} ({objective.mode})",
            style="bold" if name in winners else None,
        )
    console.print(table)
    for reason in reasons:
        console.print(reason, highlight=False, soft_wrap=True, markup=False)
    folder = shown_path(matrix.folder)
    console.print(
        f"Comparison: {folder}/{COMPARISON_FILE}", highlight=False, soft_wrap=True, markup=False
    )
    if any(row.status in ("waiting", "interrupted") for row in matrix.rows.values()):
        resume = command_line("resume", matrix.folder)
        console.print(f"Next: {resume}", highlight=False, soft_wrap=True, markup=False)
    elif matrix.any_failed:
        retry = command_line("resume", matrix.folder, "--retry-errored")
        mended = f"Next: {retry}  # after mending the cause"
        console.print(mended, highlight=False, soft_wrap=True, markup=False)


def _winners(matrix: Matrix) -> tuple[set[str], list[str]]:
    """The best sweep on each environment, and why another environment has none."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, row in matrix.rows.items():
        objective = matrix.specs[name].objective
        if row.value is not None:
            groups.setdefault((row.env, objective.metric, objective.mode), []).append(name)
    winners: set[str] = set()
    reasons = []
    for (env, _, mode), names in groups.items():
        if len(names) < 2:
            continue
        unequal = _unequal(matrix, names)
        if unequal:
            where = f" on {env}" if env else ""
            reasons.append(f"No winner{where}: the sweeps differ in {', '.join(unequal)}.")
            continue
        values = {name: matrix.rows[name].value or 0.0 for name in names}
        best = (max if mode == "max" else min)(values.values())
        winners |= {name for name, value in values.items() if value == best}
    return winners, reasons


def _unequal(matrix: Matrix, names: list[str]) -> list[str]:
    """In what sweeps differ that makes a comparison of their best unfair."""
    rows, first = [matrix.rows[name] for name in names], matrix.specs[names[0]]
    differ = {
        "status": any(row.status != "finished" for row in rows),
        "number of trials": len({row.trials for row in rows}) > 1,
        "stop": any(matrix.specs[name].stop != first.stop for name in names),
        "having a final": len({row.measure for row in rows}) > 1,
    }
    return [what for what, does in differ.items() if does]
