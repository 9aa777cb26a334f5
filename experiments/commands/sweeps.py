"""Runs, resumes and plans sweeps and matrices for the commands, and shows what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from experiments.commands import shell
from experiments.commands.results.summary import show_outcome
from experiments.commands.show.plan import show_plan, show_plans
from experiments.running.matrix import resume_matrix, run_matrix
from experiments.running.matrix_state import COMPARISON_FILE, Matrix
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.spec.paths import command_line, shown_path
from experiments.spec.schema import SweepSpec
from experiments.stop_signals import received
from experiments.sweep.folder import load_sweep_spec
from experiments.sweep.sweep import Sweep
from experiments.terminal import make_table, say

if TYPE_CHECKING:
    from rich.console import Console


def run_specs(
    specs: Sequence[SweepSpec], *, dry_run: bool = False, overwrite: bool = False
) -> None:
    """Run the sweep of a spec, or the sweeps of a matrix, or show what would run."""
    sweeps = [Sweep.of(spec) for spec in specs]
    if dry_run:
        if len(sweeps) == 1:
            show_plan(sweeps[0], shell.output(), whole=shell.verbosity() > 0, overwrite=overwrite)
        else:
            show_plans(sweeps, shell.output(), overwrite=overwrite)
        return
    how: dict[str, Any] = {"console": shell.errors(), "verbosity": shell.verbosity()}
    if len(sweeps) == 1:
        outcome = run_sweep(sweeps[0], overwrite=overwrite, **how)
        _finish(outcome, sweeps[0].spec)
    else:
        _finish_matrix(run_matrix(sweeps, overwrite=overwrite, **how, after=_show))


def resume_one(folder: Path, **changes: Any) -> None:
    """Continue a sweep.

    Args:
        folder: The sweep's folder.
        changes: Further arguments of `experiments.resume`.
    """
    outcome = resume_sweep(folder, **changes, console=shell.errors(), verbosity=shell.verbosity())
    _finish(outcome, load_sweep_spec(outcome.folder))


def resume_all(folder: Path, **changes: Any) -> None:
    """Continue a matrix.

    Args:
        folder: The matrix's folder.
        changes: Further arguments of `resume_matrix`.
    """
    _finish_matrix(
        resume_matrix(
            folder, **changes, console=shell.errors(), verbosity=shell.verbosity(), after=_show
        )
    )


def _show(outcome: Outcome, spec: SweepSpec) -> None:
    show_outcome(outcome, spec, shell.output())


def _finish(outcome: Outcome, spec: SweepSpec) -> None:
    _show(outcome, spec)
    if outcome.interrupted:
        shell.end_kept(outcome.folder)
    if not outcome.succeeded:
        raise typer.Exit(shell.EXIT_FAILED)


def _finish_matrix(matrix: Matrix) -> None:
    if not (matrix.interrupted and received()):
        show_comparison(matrix, shell.output())
    if matrix.interrupted:
        shell.end_kept(matrix.folder)
    if matrix.any_failed:
        raise typer.Exit(shell.EXIT_FAILED)


def show_comparison(matrix: Matrix, console: Console) -> None:
    """Print a line for each sweep, and below them which is better, as `tunescape compare` tells."""
    table = make_table(f"{matrix.folder.name}: its sweeps")
    table.add_column("sweep", overflow="fold")
    table.add_column("status")
    for name in ("trials", "failed", "value"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("measured by", no_wrap=True)
    for name in ("env steps", "minutes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("objective", overflow="fold")
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
        )
    console.print(table)
    verdict = _verdict(matrix)
    for line in verdict:
        say(console, line, style="bold")
    folder = shown_path(matrix.folder)
    say(console, f"Comparison: {folder}/{COMPARISON_FILE}")
    if verdict:
        compare = command_line("compare", matrix.folder)
        say(console, f"Details of the comparison: {compare}")
    if _is_unfinished(matrix):
        resume = command_line("resume", matrix.folder)
        say(console, f"Next: {resume}")
    elif matrix.any_failed:
        retry = command_line("resume", matrix.folder, "--retry-errored")
        mended = f"Next: {retry}  # after you fix the cause"
        say(console, mended)


def _verdict(matrix: Matrix) -> list[str]:
    """Return what `analysis.compare` says of the sweeps that have a value.

    Nothing is said where each of them is alone on its environment, nor before all have ended.
    """
    from analysis.comparison.comparison import compare
    from analysis.results.rows import ResultsError

    names = [name for name, row in matrix.rows.items() if row.value is not None]
    on_environment = Counter(matrix.rows[name].env for name in names)
    if max(on_environment.values(), default=0) < 2 or _is_unfinished(matrix):
        return []
    objectives = {
        (matrix.specs[name].objective.metric, matrix.specs[name].objective.mode) for name in names
    }
    if len(objectives) > 1:
        return ["Not compared: the sweeps have different objectives."]
    metric, mode = objectives.pop()
    try:  # without a label each has its folder's name, less the environment
        found = compare({"": [matrix.folder / name for name in names]}, metric, mode)
        return [*found.lines, f"Compared by {found.notes[0]}"]
    except ResultsError as error:
        return [f"Not compared: {error}"]


def _is_unfinished(matrix: Matrix) -> bool:
    return any(row.status in ("waiting", "interrupted") for row in matrix.rows.values())
