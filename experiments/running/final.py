"""The best configurations of a search run again on held-out seeds, which choose the winner.

What a search says of its winner is optimistic: of many noisy values it is the best. The final runs
its best configurations on seeds that the search never saw, as an ordinary sweep in the sweep's
folder, with a trial for each configuration and seed. So it is saved, resumed and looked at like any
other, and uses all CPUs.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from analysis.numbers import finite_or_none
from analysis.ranking.held_out import Candidate, add_runs, candidates, winner, winner_caution
from analysis.results.load import load_sweep
from analysis.results.mlflow_tags import FINAL_OF_TAG
from analysis.statistics import interval_caution
from experiments.errors import DoomedError
from experiments.running.unsaved_sweep import was_saved
from experiments.spec.paths import FINAL_FILE, SPEC_FILE
from experiments.spec.scheduler_schema import FifoScheduler
from experiments.spec.schema import Objective, SweepSpec
from experiments.spec.search_schema import RandomSearch
from experiments.spec.trainable import resolve_trainable
from experiments.sweep.actor_reuse import has_own_reset
from experiments.sweep.load import read_spec
from experiments.sweep.sweep import Sweep

if TYPE_CHECKING:
    from analysis.results.records import Sweep as Records

FOLDER = "final"
_NAME = re.compile(rf"{FOLDER}(-\d+)?")
PICTURE_FILE = "final.png"

_STREAM = 0x46494E41  # sets the held-out seeds apart from all that is drawn from the same seed


@dataclass
class Final:
    """What came out of a final.

    Attributes:
        candidates: The configurations, in the search's order.
        winner: The one with the best held-out IQM, if any could be judged.
        seeds: The held-out seeds.
        report: `final.json`.
        picture: `final.png`, if there is something to draw.
        failures: Trial id and cause of each held-out run that failed.
        interrupted: Whether it was cut off.
    """

    candidates: list[Candidate]
    winner: Candidate | None
    seeds: list[int]
    report: Path
    picture: Path | None
    failures: list[tuple[str, str]]
    interrupted: bool


class Ended(Protocol):
    """What a final asks of a sweep of held-out runs that has ended."""

    @property
    def interrupted(self) -> bool:
        """Whether it was cut off."""

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Trial id and cause of each trial that failed."""


class Resume(Protocol):
    """Continues a sweep of held-out runs."""

    def __call__(self, folder: Path, *, stop: Mapping[str, float]) -> Ended:
        """Continue the sweep of a folder, with a longer budget by metric, if there is one."""


def run_final(
    sweep: Sweep,
    records: Records,
    *,
    linked_to: str | None,
    retry_errored: bool,
    run: Callable[[Sweep], Ended],
    resume: Resume,
) -> Final:
    """Run what is missing of a sweep's final, and judge.

    Runs that are finished are never repeated. If the search has gone on since the final was run,
    and has found others, only those are run, in a folder of their own (`final-2`, …).

    Args:
        sweep: The sweep.
        records: The trials of the search.
        linked_to: The sweep's MLflow run, if there is one.
        retry_errored: Whether held-out runs that failed go on from their latest checkpoint.
        run: Runs a sweep of held-out runs.
        resume: Continues one that was begun.
    """
    spec, folder = sweep.spec, sweep.folder
    assert spec.final is not None
    metric, mode = spec.objective.metric, spec.objective.mode
    paths = [parameter.path for parameter in sweep.space.parameters]
    found = candidates(records, metric, mode, spec.final.top, paths)
    outcomes: list[Ended] = []
    lost: list[tuple[str, str]] = []
    folders = _existing(folder)
    for known in folders:
        # The sweep may have been given a longer budget since.
        before = read_spec(known / SPEC_FILE).stop
        longer = {k: v for k, v in spec.stop.items() if v != before.get(k)}
        if longer or not _is_finished(known, retry_errored):
            try:
                outcomes.append(resume(known, stop=longer))
            except DoomedError as error:  # the search's own results are there all the same
                lost += error.failures
    if not any(outcome.interrupted for outcome in outcomes) and (
        missing := _not_in(found, folders)
    ):
        name = FOLDER if not folders else f"{FOLDER}-{len(folders) + 1}"
        try:
            outcomes.append(run(final_of(sweep, missing, name, linked_to)))
        except DoomedError as error:
            lost += error.failures
    finals = [load_sweep(known) for known in _existing(folder)]
    add_runs(found, finals, metric, paths)
    return _judged(sweep, found, outcomes, lost)


def held_out_seeds(spec: SweepSpec) -> list[int]:
    """Return seeds that no trial of the search has, always the same for the same spec."""
    assert spec.final is not None
    used = {spec.seed, spec.config.get("seed")} | set(spec.seeds.values if spec.seeds else ())
    generator = np.random.default_rng([spec.seed or 0, _STREAM])
    seeds: list[int] = []
    while len(seeds) < spec.final.seeds:
        seed = int(generator.integers(2**31))
        if seed not in used:
            used.add(seed)
            seeds.append(seed)
    return seeds


def final_of(sweep: Sweep, found: list[Candidate], name: str, linked_to: str | None) -> Sweep:
    """Return the ordinary sweep that runs the configurations of a search on the held-out seeds.

    Args:
        sweep: The search.
        found: The configurations.
        name: The folder of the final in the search's.
        linked_to: The search's MLflow run, if there is one.
    """
    spec = sweep.spec
    searched = sweep.space.to_dict()
    space: dict[str, Any] = {"seed": {"grid": held_out_seeds(spec)}}
    for key, entry in searched.items():
        values = [candidate.settings[key] for candidate in found if key in candidate.settings]
        if values:
            unique = [v for number, v in enumerate(values) if v not in values[:number]]
            when = {"when": entry["when"]} if "when" in entry else {}
            space[key] = {"choice": unique, **when}
    points = [candidate.settings for candidate in found]
    tags = {**spec.mlflow.tags, FINAL_OF_TAG: linked_to or spec.name}
    nested = spec.model_copy(deep=True)
    nested.name = f"{spec.name}/{name}"
    nested.config = {key: value for key, value in spec.config.items() if key != "seed"}
    nested.search_space = space
    nested.search = RandomSearch(points_to_evaluate=points)
    nested.scheduler = FifoScheduler()
    nested.num_samples = len(found)
    nested.seed = nested.seeds = nested.final = nested.time_budget_s = None
    if spec.seeds is not None and spec.resources.reuse_actors:  # of several seeds any class can
        nested.resources.reuse_actors = has_own_reset(resolve_trainable(spec.trainable))
    nested.mlflow = spec.mlflow.model_copy(
        update={"tags": tags, "log_model": False, "register_as": None}
    )
    return Sweep.of(nested)


def _existing(folder: Path) -> list[Path]:
    """Return the folders of finals that were begun; one that Tune had not saved yet is removed."""
    begun = []
    for path in sorted(folder.glob(f"{FOLDER}*"), key=lambda path: (len(path.name), path.name)):
        is_named_so = _NAME.fullmatch(path.name)  # others are not a sweep's to remove
        if not (is_named_so and path.is_dir() and (path / SPEC_FILE).is_file()):
            continue
        if was_saved(path):
            begun.append(path)
        else:
            shutil.rmtree(path)
    return begun


def _not_in(found: list[Candidate], folders: list[Path]) -> list[Candidate]:
    run: list[dict[str, Any]] = []
    for folder in folders:
        search = read_spec(folder / SPEC_FILE).search
        run += getattr(search, "points_to_evaluate", [])
    return [candidate for candidate in found if candidate.settings not in run]


def _is_finished(folder: Path, retry_errored: bool) -> bool:
    spec = read_spec(folder / SPEC_FILE)
    ended = {"TERMINATED"} if retry_errored else {"TERMINATED", "ERROR"}
    statuses = [trial.status for trial in load_sweep(folder).trials]
    wanted = spec.num_samples * len(spec.search_space["seed"]["grid"])
    return len(statuses) == wanted and set(statuses) <= ended


def _judged(
    sweep: Sweep,
    found: list[Candidate],
    outcomes: list[Ended],
    lost: list[tuple[str, str]],
) -> Final:
    """Write the report and the picture."""
    from analysis.plots.held_out import plot_held_out

    objective = sweep.spec.objective
    interrupted = any(outcome.interrupted for outcome in outcomes)
    best = None if interrupted else winner(found, objective.mode)
    seeds = held_out_seeds(sweep.spec)
    report = sweep.folder / FINAL_FILE
    text = json.dumps(_document(objective, found, best, seeds), indent=2, allow_nan=False)
    report.write_text(text + "\n", encoding="utf-8")
    picture = None
    if best is not None:
        picture = plot_held_out(found, objective.metric, sweep.folder / PICTURE_FILE, chosen=best)
    failures = [*lost, *(failure for outcome in outcomes for failure in outcome.failures)]
    return Final(found, best, seeds, report, picture, failures, interrupted)


def _document(
    objective: Objective, found: list[Candidate], best: Candidate | None, seeds: list[int]
) -> dict[str, Any]:
    mode = objective.mode
    return {
        "metric": objective.metric,
        "mode": mode,
        "held_out_seeds": seeds,
        "winner": best.trial_id if best else None,
        "policy_of_seed": best.median_seed if best else None,
        "caution": interval_caution(len(seeds)),
        "winner_caution": winner_caution(found),
        "configurations": [
            {
                "trial_id": candidate.trial_id,
                "settings": candidate.settings,
                "search_best": candidate.search_best,
                "search_last": candidate.search_last,
                "held_out_iqm": finite_or_none(candidate.held_out),
                "held_out_low": finite_or_none(candidate.interval[0]),
                "held_out_high": finite_or_none(candidate.interval[1]),
                "optimism": finite_or_none(candidate.optimism(mode)),
                "values": {str(seed): value for seed, value in candidate.values.items()},
            }
            for candidate in found
        ],
    }
