"""The best configurations of a search run again on held-out seeds, which choose the winner.

What a search says of its winner is optimistic: of many noisy values it is the best. The final runs
its best configurations on seeds that the search never saw, as an ordinary sweep in the sweep's
folder, with a trial for each configuration and seed. So it is saved, resumed and looked at like any
other, and uses all CPUs.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.held_out import Candidate, add_runs, candidates, winner, winner_caution
from analysis.records import load_sweep
from analysis.statistics import interval_caution
from experiments.actor_reuse import has_own_reset
from experiments.errors import DoomedError
from experiments.paths import FINAL_FILE, SPEC_FILE
from experiments.scheduler_schema import FifoScheduler
from experiments.schema import SweepSpec
from experiments.search_schema import RandomSearch
from experiments.spec import read_spec, spec_space
from experiments.trainable import resolve_trainable

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.runner import Outcome

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


def run_final(
    spec: SweepSpec,
    results: Any,
    folder: Path,
    *,
    linked_to: str | None,
    retry_errored: bool = False,
    console: Console,
    verbosity: int = 0,
) -> Final:
    """Run what is missing of a sweep's final, and judge.

    Runs that are finished are never repeated. If the search has gone on since the final was run,
    and has found others, only those are run, in a folder of their own (`final-2`, …).

    Args:
        spec: The sweep's.
        results: Of the search.
        folder: The sweep's.
        linked_to: The sweep's MLflow run, if there is one.
        retry_errored: Whether held-out runs that failed go on from their latest checkpoint.
        console: Where progress is shown.
        verbosity: See `experiments.runner.run_sweep`.
    """
    assert spec.final is not None
    from experiments.runner import resume_sweep, run_sweep

    metric, mode = spec.objective.metric, spec.objective.mode
    paths = [parameter.path for parameter in spec_space(spec).parameters]
    found = candidates(load_sweep(results), metric, mode, spec.final.top, paths)
    outcomes: list[Outcome] = []
    lost: list[tuple[str, str]] = []
    folders = _existing(folder)
    for known in folders:
        # The sweep may have been given a longer budget since.
        before = read_spec(known / SPEC_FILE).stop
        longer = {k: v for k, v in spec.stop.items() if v != before.get(k)}
        if longer or not _is_finished(known, retry_errored):
            try:
                again = resume_sweep(
                    known,
                    stop=longer,
                    retry_errored=retry_errored,
                    console=console,
                    verbosity=verbosity,
                )
                outcomes.append(again)
            except DoomedError as error:  # the search's own results are there all the same
                lost += error.failures
    if not any(outcome.interrupted for outcome in outcomes) and (
        missing := _not_in(found, folders)
    ):
        name = FOLDER if not folders else f"{FOLDER}-{len(folders) + 1}"
        nested = final_spec(spec, missing, name, linked_to)
        try:
            outcomes.append(run_sweep(nested, console=console, verbosity=verbosity))
        except DoomedError as error:
            lost += error.failures
    finals = [load_sweep(known) for known in _existing(folder)]
    add_runs(found, finals, metric, paths)
    return _judged(spec, found, folder, outcomes, lost)


def held_out_seeds(spec: SweepSpec) -> list[int]:
    """Seeds that no trial of the search has, always the same for the same spec."""
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


def final_spec(
    spec: SweepSpec, found: list[Candidate], name: str, linked_to: str | None
) -> SweepSpec:
    """The sweep that runs the configurations on the held-out seeds, as an ordinary spec."""
    searched = spec_space(spec).to_dict()
    space: dict[str, Any] = {"seed": {"grid": held_out_seeds(spec)}}
    for key, entry in searched.items():
        values = [candidate.settings[key] for candidate in found if key in candidate.settings]
        if values:
            unique = [v for number, v in enumerate(values) if v not in values[:number]]
            when = {"when": entry["when"]} if "when" in entry else {}
            space[key] = {"choice": unique, **when}
    points = [candidate.settings for candidate in found]
    tags = {**spec.mlflow.tags, "tunescape.final_of": linked_to or spec.name}
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
    return nested


def _existing(folder: Path) -> list[Path]:
    """The folders of finals that were begun; one that Tune had not saved yet is removed."""
    begun = []
    for path in sorted(folder.glob(f"{FOLDER}*"), key=lambda path: (len(path.name), path.name)):
        is_named_so = _NAME.fullmatch(path.name)  # others are not a sweep's to remove
        if not (is_named_so and path.is_dir() and (path / SPEC_FILE).is_file()):
            continue
        if any(path.glob("experiment_state-*.json")):
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
    spec: SweepSpec,
    found: list[Candidate],
    folder: Path,
    outcomes: list[Outcome],
    lost: list[tuple[str, str]],
) -> Final:
    """Write the report and the picture."""
    from analysis.held_out_plot import plot_held_out

    interrupted = any(outcome.interrupted for outcome in outcomes)
    best = None if interrupted else winner(found, spec.objective.mode)
    seeds = held_out_seeds(spec)
    report = folder / FINAL_FILE
    text = json.dumps(_document(spec, found, best, seeds), indent=2, allow_nan=False)
    report.write_text(text + "\n", encoding="utf-8")
    picture = None
    if best is not None:
        picture = plot_held_out(found, spec.objective.metric, folder / PICTURE_FILE, chosen=best)
    failures = [*lost, *(failure for outcome in outcomes for failure in outcome.failures)]
    return Final(found, best, seeds, report, picture, failures, interrupted)


def _document(
    spec: SweepSpec, found: list[Candidate], best: Candidate | None, seeds: list[int]
) -> dict[str, Any]:
    mode = spec.objective.mode
    return {
        "metric": spec.objective.metric,
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
                "held_out_iqm": _finite(candidate.held_out),
                "held_out_low": _finite(candidate.interval[0]),
                "held_out_high": _finite(candidate.interval[1]),
                "optimism": _finite(candidate.optimism(mode)),
                "values": {str(seed): value for seed, value in candidate.values.items()},
            }
            for candidate in found
        ],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
