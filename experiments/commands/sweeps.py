"""Runs, resumes and plans sweeps and matrices for the commands, and shows what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from experiments.commands import shell
from experiments.commands.results.matrix_table import show_comparison
from experiments.commands.results.summary import show_outcome
from experiments.commands.show.plan import show_plan, show_plans
from experiments.running.matrix import resume_matrix, run_matrix
from experiments.running.matrix_state import Matrix
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.spec.schema import SweepSpec
from experiments.stop_signals import received
from experiments.sweep.folder import load_sweep_spec
from experiments.sweep.sweep import Sweep


def run_specs(specs: Sequence[SweepSpec], *, dry_run: bool = False) -> None:
    """Run the sweep of a spec, or the sweeps of a matrix, or show what would run."""
    sweeps = [Sweep.of(spec) for spec in specs]
    if dry_run:
        if len(sweeps) == 1:
            show_plan(sweeps[0], shell.output(), whole=shell.verbosity() > 0)
        else:
            show_plans(sweeps, shell.output())
    elif len(sweeps) == 1:
        outcome = run_sweep(sweeps[0], console=shell.errors(), verbosity=shell.verbosity())
        _finish(outcome, sweeps[0].spec)
    else:
        _finish_matrix(
            run_matrix(sweeps, console=shell.errors(), verbosity=shell.verbosity(), after=_show)
        )


def resume_one(
    folder: Path,
    *,
    num_samples: int | None,
    stop: Mapping[str, float],
    retry_errored: bool,
    restart_errored: bool,
    address: str | None,
) -> None:
    """Continue a sweep; see `experiments.resume`."""
    outcome = resume_sweep(
        folder,
        num_samples=num_samples,
        stop=stop,
        retry_errored=retry_errored,
        restart_errored=restart_errored,
        address=address,
        console=shell.errors(),
        verbosity=shell.verbosity(),
    )
    _finish(outcome, load_sweep_spec(outcome.folder))


def resume_all(folder: Path, *, retry_errored: bool, address: str | None) -> None:
    """Continue a matrix; see `resume_matrix`."""
    _finish_matrix(
        resume_matrix(
            folder,
            retry_errored=retry_errored,
            address=address,
            console=shell.errors(),
            verbosity=shell.verbosity(),
            after=_show,
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
