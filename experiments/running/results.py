"""How a sweep ended, and what is written of it: policy, pictures, tables, the report.

The sweep's results are read once, when they are first asked for, and handed to all who show them.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.results.load import load_sweep
from analysis.results.rows import ResultsError
from analysis.results.schedulers import POPULATION, compares_settings
from experiments.monitor.progress_text import value_of
from experiments.spec.paths import (
    BEST_FOLDER,
    CURVES_FILE,
    EFFECTS_FILE,
    LINEAGE_PICTURE,
    PARETO_FILE,
    PARETO_TABLE,
    REPORT_FILE,
)
from experiments.spec.trainable import resolve_trainable
from experiments.trial_info import error_cause

if TYPE_CHECKING:
    import pandas as pd
    from ray.tune import ResultGrid

    from analysis.overview.best_pictures import BestPicture
    from analysis.ranking.best import BestCheckpoint
    from analysis.results.records import Sweep as Records
    from experiments.running.final import Final
    from experiments.sweep.sweep import Sweep
    from experiments.tracking.logger import MLflowLogger

logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """How a sweep ended.

    Attributes:
        results: Tune's results.
        folder: The sweep's folder.
        interrupted: Whether Ctrl-C, or a signal, cut it off.
        failures: Trial id and cause of each trial that failed.
        num_trials: Trials that were begun.
        best: The exported policy, if there is one.
        source: The checkpoint that the exported policy is of.
        checkpoint: The best checkpoint, of a trainable of one's own that has no policies.
        curves: The picture of the learning curves, if there is one.
        effects: The picture of the settings' effects, if there is one.
        effects_table: What it shows.
        lineage: The picture of the population's lineage, if there is one.
        pictures: What was drawn of the best policy alone, see `BEST_PICTURES`.
        pareto: The table of the Pareto-optimal trials, if there are several objectives.
        pareto_table: What it holds.
        pareto_picture: Its picture, if there are two.
        note: Why there is no exported policy, if there is none.
        final: What the held-out seeds said, if the spec has a `final`.
        model: URI of the best policy as an MLflow model, by its registered name if it has one.
        report: The page about all of it, if it could be written.
        succeeded: Whether there is what the sweep was for: see `_succeeded`.
    """

    results: ResultGrid
    folder: Path
    interrupted: bool
    failures: list[tuple[str, str]] = field(default_factory=list)
    num_trials: int = 0
    best: Path | None = None
    source: Path | None = None
    checkpoint: BestCheckpoint | None = None
    curves: Path | None = None
    effects: Path | None = None
    effects_table: pd.DataFrame | None = None
    lineage: Path | None = None
    pictures: dict[BestPicture, Path] = field(default_factory=dict)
    pareto: Path | None = None
    pareto_table: pd.DataFrame | None = None
    pareto_picture: Path | None = None
    note: str = ""
    final: Final | None = None
    model: str = ""
    report: Path | None = None
    succeeded: bool = False

    @property
    def all_failed(self) -> bool:
        """Whether no trial succeeded."""
        return self.num_trials > 0 and len(self.failures) == self.num_trials

    @property
    def status(self) -> str:
        """The status of the sweep's run in MLflow."""
        if self.interrupted:
            return "KILLED"
        return "FINISHED" if self.succeeded else "FAILED"

    @cached_property
    def records(self) -> Records:
        """The trials and all that they reported, read once.

        Raises:
            ResultsError: See `load_sweep`.
        """
        return load_sweep(self.results)


def outcome_of(results: ResultGrid, folder: Path, interrupted: bool) -> Outcome:
    """Return how the trials of a sweep ended; nothing is written of it yet."""
    from experiments.internals.tune import trials_of

    trials = trials_of(results)
    failures = [(trial.trial_id, error_cause(trial)) for trial in trials if trial.status == "ERROR"]
    return Outcome(results, folder, interrupted, failures, len(trials))


def write_results(sweep: Sweep, outcome: Outcome, mlflow: MLflowLogger | None) -> None:
    """Write what came out into the sweep's folder, and note it in the outcome.

    Args:
        sweep: The sweep.
        outcome: How its trials, and those of its final, ended.
        mlflow: The logger that is told of the best policy or checkpoint, if the sweep is tracked.
    """
    if not outcome.all_failed:
        _export(sweep, outcome, mlflow)
    outcome.succeeded = _succeeded(sweep, outcome)
    if not outcome.all_failed:
        for write in (
            _draw_curves,
            _draw_effects,
            _draw_lineage,
            _draw_best,
            _write_pareto,
        ):
            with suppress(ResultsError):  # there is no result to draw: the leaderboard says why
                write(sweep, outcome)
    if outcome.num_trials:
        outcome.report = write_page(outcome)


def _succeeded(sweep: Sweep, outcome: Outcome) -> bool:
    """Tell whether a sweep left what it was run for.

    That is a policy in `best/`, and the winner of a final if the spec has one. Where no policy is
    to be had, of a trainable of one's own or without checkpoints, it is a finished trial whose
    objective is a number.
    """
    from experiments.internals.tune import trials_of

    spec = sweep.spec
    if outcome.interrupted or (spec.final and not (outcome.final and outcome.final.winner)):
        return False
    if outcome.best is not None or _leaves_policies(sweep):
        return outcome.best is not None
    return any(
        trial.status == "TERMINATED" and value_of(trial, spec.objective.metric) is not None
        for trial in trials_of(outcome.results)
    )


def _leaves_policies(sweep: Sweep) -> bool:
    from trainables.algorithm import Algorithm

    checkpoint = sweep.spec.checkpoint
    saves = checkpoint.at_end or checkpoint.frequency > 0
    return saves and issubclass(resolve_trainable(sweep.spec.trainable), Algorithm)


def _export(sweep: Sweep, outcome: Outcome, mlflow: MLflowLogger | None) -> None:
    """Copy the best checkpoint's policy to `best/`, and tell MLflow.

    With a final that is the policy of the winner's median held-out seed. A trainable of one's own
    has no policy: there the checkpoint is noted.
    """
    from analysis.export import export_checkpoint
    from analysis.ranking.best import best_checkpoint
    from analysis.results.checkpoints import is_of_policy

    metric, mode = sweep.spec.objective.metric, sweep.spec.objective.mode
    said = {}
    if outcome.final is not None and (won := outcome.final.winner) is not None:
        found = won.checkpoint(metric, sweep.spec.name)
        if found is None:
            outcome.note = "the held-out runs left no checkpoint; set checkpoint.at_end"
            return
        best, trial_id = found, won.trial_id
        said = {
            "winner_of_final": won.trial_id,
            "seed": won.median_seed,
            "held_out_iqm": won.held_out,
            "held_out_seeds": len(won.values),
        }
    else:
        try:
            best = best_checkpoint(outcome.records, metric, mode)
        except ResultsError as error:
            outcome.note = str(error)
            return
        trial_id = best.trial.trial_id
    if not is_of_policy(best.path):
        outcome.checkpoint = best
        if mlflow is not None:
            mlflow.log_best(best.trial.trial_id, None, checkpoint=str(best.path))
        return
    try:
        place = outcome.folder / BEST_FOLDER
        outcome.best = export_checkpoint(best, place, metric, mode, said=said)
        outcome.source = best.path
    except ResultsError as error:
        outcome.note = str(error)
        return
    if mlflow is not None:
        mlflow.log_best(trial_id, str(outcome.best), checkpoint=str(best.path))


def _draw_curves(sweep: Sweep, outcome: Outcome) -> None:
    """Draw the learning curves into the sweep's folder."""
    from analysis.plots.curves import plot_learning_curves

    picture, objective = outcome.folder / CURVES_FILE, sweep.spec.objective
    plot_learning_curves(outcome.records, objective.metric, picture, mode=objective.mode)
    outcome.curves = picture


def _draw_effects(sweep: Sweep, outcome: Outcome) -> None:
    """Draw what each setting with few levels did to the objective, where the sweep can tell."""
    if not compares_settings(sweep.spec.model_dump()):
        return
    from analysis.importance.effects import effects_frame
    from analysis.plots.effects import plot_effects

    objective = sweep.spec.objective
    effects = effects_frame(outcome.records, objective.metric, objective.mode)
    if not effects.empty:
        outcome.effects = plot_effects(effects, out=outcome.folder / EFFECTS_FILE)
        outcome.effects_table = effects


def _draw_lineage(sweep: Sweep, outcome: Outcome) -> None:
    """Draw who went on from whom in a population, and the winner's settings."""
    if sweep.spec.scheduler.algorithm not in POPULATION:
        return
    from analysis.plots.lineage import plot_lineage

    metric, mode = sweep.spec.objective.metric, sweep.spec.objective.mode
    picture = outcome.folder / LINEAGE_PICTURE
    outcome.lineage = plot_lineage(outcome.records, metric, picture, mode=mode)


def _draw_best(sweep: Sweep, outcome: Outcome) -> None:
    """Draw what there is to see of the best policy alone."""
    from experiments.running.pictures.best import draw_best
    from experiments.running.pictures.source import Best

    if outcome.best is not None and outcome.source is not None:
        outcome.pictures = draw_best(Best(outcome.source, outcome.best), outcome.folder)


def _write_pareto(sweep: Sweep, outcome: Outcome) -> None:
    """With several objectives: the trials that no other one dominates."""
    if len(sweep.spec.objectives) < 2:
        return
    from analysis.plots.fronts import plot_pareto
    from analysis.ranking.fronts import pareto_front

    objectives = [(o.metric, o.mode) for o in sweep.spec.objectives]
    file = outcome.folder / PARETO_TABLE
    front = pareto_front(outcome.records, objectives)
    front.to_csv(file, index=False)
    outcome.pareto, outcome.pareto_table = file, front
    if len(objectives) == 2:
        picture = outcome.folder / PARETO_FILE
        outcome.pareto_picture = plot_pareto(outcome.records, objectives, picture)


def write_page(outcome: Outcome) -> Path | None:
    """Write the page of a sweep that has ended; None if it fails, which costs no sweep anything."""
    from analysis.report import write_report

    try:
        return write_report(outcome.records, outcome.folder / REPORT_FILE)
    except Exception as error:
        logger.warning("No report was written (%s: %s)", type(error).__name__, error)
        logger.debug("the report failed", exc_info=True)
        return None
