"""The sweeps of a matrix, one after another in one Ray.

The matrix's folder holds a folder for each sweep and `matrix.yaml`
(`experiments.running.matrix_state`), which says what is left to do after a kill.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.names import ENV_STEPS, environment_of
from experiments.cluster.ray_watch import closed_without_ray
from experiments.cluster.session import local_node, ray_session, sweep_environment
from experiments.errors import MachineFailed
from experiments.running.making_room import make_room
from experiments.running.matrix_state import Matrix, Row, load_matrix, save_matrix
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.running.sweep_lock import sweep_lock
from experiments.spec.paths import SPEC_FILE, saved_line
from experiments.spec.schema import SweepSpec
from experiments.stop_signals import received, stop_signals
from experiments.sweep.preflight import check_places, check_resources, check_storage
from experiments.sweep.sweep import Sweep
from experiments.terminal import make_console, say

if TYPE_CHECKING:
    from rich.console import Console

After = Callable[[Outcome, SweepSpec], None]


@stop_signals()
@sweep_environment()
def run_matrix(
    sweeps: Sequence[Sweep],
    *,
    overwrite: bool = False,
    console: Console | None = None,
    verbosity: int = 0,
    after: After | None = None,
) -> Matrix:
    """Run the sweeps that `load_specs` made of a matrix. One that fails does not stop the others.

    Args:
        sweeps: The sweeps; all in one folder.
        overwrite: Whether a matrix of this name that has results is deleted.
        console: Where progress is shown.
        verbosity: See `experiments.running.runner.run_sweep`.
        after: Called with the outcome of each sweep.

    Raises:
        PreflightError: The folder exists, or this machine could not run one of the sweeps.
    """
    folder = sweeps[0].folder.parent
    console = console or make_console(stderr=True)
    for sweep in sweeps:
        if sweep.spec.resources.address is None:
            check_resources(sweep, [local_node(sweep.spec.resources)])
    make_room(folder, console, overwrite=overwrite)
    check_storage(folder.parent, folder)
    for sweep in sweeps:
        check_places(sweep)
    with sweep_lock(folder):
        check_storage(folder.parent, folder)  # another may have begun it since
        named = {sweep.spec.name.rpartition("/")[2]: sweep for sweep in sweeps}
        matrix = Matrix(folder, {name: sweep.spec for name, sweep in named.items()})
        matrix.rows = {name: _empty_row(spec) for name, spec in matrix.specs.items()}
        save_matrix(matrix)
        return _run_all(matrix, named, console=console, verbosity=verbosity, after=after)


@stop_signals()
@sweep_environment()
def resume_matrix(
    folder: str | Path,
    *,
    retry_errored: bool = False,
    address: str | None = None,
    console: Console | None = None,
    verbosity: int = 0,
    after: After | None = None,
) -> Matrix:
    """Continue a matrix: finished sweeps are kept, a cut-off one is resumed, the rest are run.

    Args:
        folder: The matrix's folder, `runs/<name>`.
        retry_errored: Whether failed sweeps and failed trials go on, too.
        address: A cluster to join instead of the spec's.
        console: Where progress is shown.
        verbosity: See `experiments.running.runner.run_sweep`.
        after: Called with the outcome of each sweep that is run now.

    Raises:
        SweepError: The folder holds no matrix, or the matrix is running in another process.
    """
    path = load_matrix(folder).folder  # refused before the lock would make the folder
    with sweep_lock(path):
        matrix = load_matrix(path)
        for row in matrix.rows.values():
            if retry_errored and (row.failed or row.status == "failed"):
                row.status = "waiting"
        waiting = [name for name in matrix.specs if not _was_begun(matrix, name)]
        return _run_all(
            matrix,
            {name: Sweep.of(matrix.specs[name]) for name in waiting},
            retry_errored=retry_errored,
            address=address,
            console=console,
            verbosity=verbosity,
            after=after,
        )


def _run_all(
    matrix: Matrix,
    waiting: Mapping[str, Sweep],
    *,
    retry_errored: bool = False,
    address: str | None = None,
    console: Console | None,
    verbosity: int,
    after: After | None,
) -> Matrix:
    console = console or make_console(stderr=True)
    resources = next(iter(matrix.specs.values())).resources
    if address:  # of this resume alone: the specs, which are saved, keep theirs
        resources = resources.model_copy(update={"address": address})
    session = ray_session(resources, verbosity=verbosity)
    with session, closed_without_ray(matrix.folder):
        for number, (name, spec) in enumerate(matrix.specs.items(), start=1):
            row = matrix.rows[name]
            if row.status in ("finished", "failed"):
                continue
            say(console, f"Sweep {number} of {len(matrix.specs)}: {name}")
            start = time.monotonic()
            try:
                if name in waiting:
                    outcome = run_sweep(waiting[name], console=console, verbosity=verbosity)
                else:
                    outcome = resume_sweep(
                        matrix.folder / name,
                        retry_errored=retry_errored,
                        console=console,
                        verbosity=verbosity,
                    )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(saved_line(matrix.folder)) from None
            except MachineFailed as error:
                raise MachineFailed(error.cause, saved_line(matrix.folder)) from error
            except Exception as error:  # whatever one sweep met, the others have their chance
                if verbosity >= 2:
                    raise
                row.status, row.note = "failed", str(error)
                say(console, f"{name} failed: {error}")
            else:
                _fill(row, outcome, spec)
                if after is not None:
                    after(outcome, spec)
            row.seconds += time.monotonic() - start
            save_matrix(matrix)
            if row.status == "interrupted":
                break
    return matrix


def _was_begun(matrix: Matrix, name: str) -> bool:
    return (matrix.folder / name / SPEC_FILE).is_file()


def _empty_row(spec: SweepSpec) -> Row:
    return Row(env=str(environment_of(spec.config) or ""))


def _fill(row: Row, outcome: Outcome, spec: SweepSpec) -> None:
    from analysis.ranking.leaderboard import leaderboard
    from analysis.results.records import ResultsError

    row.trials, row.failed = outcome.num_trials, len(outcome.failures)
    row.status = "interrupted" if outcome.interrupted else "finished"
    row.note, row.value, row.measure, row.trial, row.env_steps = "", None, "", "", None
    if outcome.interrupted and received():  # who ends the process counts the seconds
        return
    if not outcome.succeeded and not outcome.interrupted:
        row.status, row.note = "failed", outcome.note
    if outcome.all_failed:
        row.note = outcome.failures[0][1]
        return
    try:
        board = leaderboard(outcome.records, spec.objective.metric, spec.objective.mode)
    except ResultsError as error:
        row.note = str(error)
        return
    trials = {str(entry["trial_id"]): entry for entry in board.to_dict("records")}
    first = board.iloc[0]
    if not math.isfinite(first["last"]):
        row.note = f"every value of {spec.objective.metric} is NaN or infinite"
        return
    row.trial, row.value, row.measure = str(first["trial_id"]), float(first["last"]), "last value"
    if outcome.final is not None and outcome.final.winner is not None:
        won = outcome.final.winner
        row.trial, row.value, row.measure = won.trial_id, won.held_out, "held-out IQM"
    steps = trials[row.trial][ENV_STEPS]
    row.env_steps = int(steps) if steps is not None and steps == steps else None
