"""What a search learns from before its first trial: finished trials of earlier sweeps.

A sweep's folder is read from its JSON files, an MLflow experiment by its runs. Trials that were
stopped early count as pruned, with their intermediate values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from analysis.credentials import scrubbed
from analysis.errors import ResultsError
from analysis.home import expanded
from analysis.names import ENV_STEPS, ITERATION
from analysis.results.mlflow_tags import CHANGED_TAGS, KIND_TAG, OUTCOME_TAG, TRIAL_KIND, TRIAL_TAG
from experiments.errors import PreflightError
from experiments.search.kind import search_kind
from experiments.spec.paths import absolute_tracking_uri
from experiments.spec.search_schema import LearningSection, WarmStart
from experiments.trial_info import PRUNED
from search_spaces.conditions import SpaceKeyError
from search_spaces.domains import Domain
from search_spaces.parameter import assign
from search_spaces.points import searched_config
from search_spaces.space import SearchSpace
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from mlflow.entities import Run
    from optuna.trial import FrozenTrial

    from experiments.sweep.sweep import Sweep


@dataclass
class PastTrial:
    """A finished trial of an earlier sweep.

    Attributes:
        trial_id: Tune's id of it.
        config: Its nested config.
        values: The objectives at its end; None where one is missing or not finite.
        pruned: Whether a scheduler ended it early.
        intermediate: The first objective by env step; filled in for pruned trials.
        mutated: Whether a scheduler changed searched settings on the way: no settings are then
            those that led to the values.
    """

    trial_id: str
    config: dict[str, Any]
    values: list[float | None]
    pruned: bool = False
    intermediate: dict[int, float] = field(default_factory=dict)
    mutated: bool = False


@dataclass
class History:
    """The trials that the search starts from, and a line on each source for the user."""

    trials: list[FrozenTrial] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def load_history(sweep: Sweep) -> History:
    """Read the sources of a sweep's `warm_start`.

    Trials that lack a setting or an objective, that lie outside the domains, or whose settings a
    population changed, are left out and counted.

    Raises:
        PreflightError: A source cannot be read, or holds no trial that can be used.
    """
    history = History()
    search = sweep.spec.search
    if not isinstance(search, LearningSection):
        return history
    for source in search.warm_start:
        name, past = _read(source, sweep)
        used, reasons = _converted(past, search, sweep.space, name)
        count = f"{len(used)} of {len(past)} trials of {name}"
        why = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common(3))
        if not used:
            raise PreflightError(f"warm_start: {count} can be used{': ' + why if why else ''}")
        history.trials += used
        history.lines.append(f"Warm start: {count}" + (f" (left out: {why})" if why else ""))
    complete = sum(trial.state.name == "COMPLETE" for trial in history.trials)
    problem = search_kind(search).check_history(complete) if history.trials else None
    if problem:
        raise PreflightError(f"warm_start: {problem}")
    return history


def _read(source: WarmStart, sweep: Sweep) -> tuple[str, list[PastTrial]]:
    metrics = [objective.metric for objective in sweep.spec.objectives or [sweep.spec.objective]]
    if source.folder is not None:
        return source.folder, list(_from_folder(source.folder, metrics, sweep.space))
    assert source.mlflow_experiment is not None, "check_search sees to it"
    name = f"the MLflow experiment {source.mlflow_experiment}"
    uri = sweep.tracking_uri
    if source.tracking_uri:
        uri = absolute_tracking_uri(source.tracking_uri)
    experiment = source.mlflow_experiment
    return name, _from_mlflow(uri, experiment, metrics, sweep.space)


def _from_folder(folder: str, metrics: list[str], space: SearchSpace) -> Iterator[PastTrial]:
    from analysis.results.load import load_sweep
    from analysis.results.rows import flatten

    try:
        sweep = load_sweep(expanded(folder))
    except ResultsError as error:
        raise PreflightError(f"warm_start: {error}") from None
    for trial in sweep.trials:
        if trial.status != "TERMINATED" or not len(trial.frame):
            continue
        last = trial.frame.iloc[-1]
        past = PastTrial(trial.trial_id, trial.config, [_finite(last.get(m)) for m in metrics])
        end, rows = flatten(trial.config), [flatten(row) for row in trial.row_configs or ()]
        past.mutated = any(row.get(key) != end.get(key) for row in rows for key in _keys(space))
        if str(last.get(PRUNED)) == "True":
            past.pruned = True
            steps = ENV_STEPS if ENV_STEPS in trial.frame else ITERATION
            values: Any = trial.frame.get(metrics[0], [])
            for step, value in zip(trial.frame[steps], values, strict=False):
                if _finite(value) is not None:
                    past.intermediate[int(step)] = float(value)
        yield past


def _from_mlflow(
    uri: str, experiment_name: str, metrics: list[str], space: SearchSpace
) -> list[PastTrial]:
    from analysis.results.mlflow_history import histories
    from analysis.results.mlflow_reading import open_store, search_runs
    from experiments.tracking.names import FINISHED
    from experiments.tracking.store import be_quiet

    be_quiet()
    wanted = f"attributes.status = '{FINISHED}' and tags.`{KIND_TAG}` = '{TRIAL_KIND}'"
    try:
        with open_store(uri) as client:
            experiment = client.get_experiment_by_name(experiment_name)
            if experiment is None:
                known = [found.name for found in client.search_experiments()]
                raise PreflightError(
                    f"warm_start: {scrubbed(uri)} has no experiment {experiment_name!r}; "
                    f"it has: {', '.join(known)}{suggestion(experiment_name, known)}"
                )
            runs = search_runs(client, [experiment.experiment_id], wanted)
            runs.sort(key=lambda run: int(run.info.start_time or 0))
            past = {run.info.run_id: _of_run(run, metrics, space) for run in runs}
            first = metrics[:1]
            pruned = {run_id: first for run_id, trial in past.items() if trial.pruned}
            for run_id, points in histories(client, pruned):
                past[run_id].intermediate = {
                    p.step: p.value for p in points if p.key in first and isfinite(p.value)
                }
    except ResultsError as error:
        raise PreflightError(f"warm_start: {error}") from None
    return list(past.values())


def _of_run(run: Run, metrics: list[str], space: SearchSpace) -> PastTrial:
    """Return what a trial's run says of it, but for how it went on the way."""
    data = run.data
    return PastTrial(
        data.tags.get(TRIAL_TAG, run.info.run_id),
        _from_text(space, data.params),
        [_finite(data.metrics.get(metric)) for metric in metrics],
        pruned=data.tags.get(OUTCOME_TAG) == "pruned",
        mutated=any(
            f"config/{key}" in data.metrics or f"{CHANGED_TAGS}{key}" in data.tags
            for key in _keys(space)
        ),
    )


def _from_text(space: SearchSpace, params: Mapping[str, str]) -> dict[str, Any]:
    """Return the searched settings of a run, whose parameters are text."""
    config: dict[str, Any] = {}
    for parameter in space.parameters:
        text = params.get("/".join(parameter.path))
        if text is not None:
            assign(config, parameter.path, _typed(parameter.domain, text))
    return config


def _typed(domain: Domain, text: str) -> Any:
    from analysis.results.mlflow_reading import value_of
    from experiments.tracking.names import as_text

    for searched in domain.finite or ():
        value = domain.value(searched)
        if as_text(value) == text:
            return value
    return value_of(text)


def _converted(
    past: list[PastTrial], search: LearningSection, space: SearchSpace, source: str
) -> tuple[list[FrozenTrial], Counter[str]]:
    """Optuna trials, and how many were left out for which reason."""
    from optuna.trial import TrialState, create_trial

    from experiments.search.optuna_search import TRIAL_ID, distribution, to_optuna

    domains = {p.name: p.domain for p in space.parameters}
    attributes = search_kind(search).history_attributes()
    used: list[FrozenTrial] = []
    reasons: Counter[str] = Counter()
    for trial in past:
        if trial.mutated:
            reasons["mutated in mid-run"] += 1
            continue
        if None in trial.values or (trial.pruned and not trial.intermediate):
            reasons["without finite objectives"] += 1
            continue
        if trial.pruned and len(trial.values) > 1:
            reasons["stopped early, which several objectives do not allow"] += 1
            continue
        try:
            searched = searched_config(space, trial.config)
        except SpaceKeyError as error:
            reasons[f"outside the space in {error.key}"] += 1
            continue
        used.append(
            create_trial(
                state=TrialState.PRUNED if trial.pruned else TrialState.COMPLETE,
                values=None if trial.pruned else [v for v in trial.values if v is not None],
                params={name: to_optuna(domains[name], v) for name, v in searched.items()},
                distributions={name: distribution(domains[name]) for name in searched},
                intermediate_values=trial.intermediate,
                user_attrs={TRIAL_ID: trial.trial_id, "warm_start": source},
                system_attrs=attributes,
            )
        )
    return used, reasons


def _keys(space: SearchSpace) -> list[str]:
    """Return the searched settings as a flat config and MLflow name them."""
    return ["/".join(parameter.path) for parameter in space.parameters]


def _finite(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if isfinite(number) else None
