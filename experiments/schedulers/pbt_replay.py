"""Repeat the schedule of settings that a population's winner went through, as a fixed schedule."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from analysis.home import expanded
from analysis.names import ENV_STEPS
from experiments.schedulers.acting_scheduler import ActingScheduler
from experiments.schedulers.kind import PLACE, Draft, Parts, SchedulerKind
from experiments.spec.metrics import canonical_metric
from experiments.spec.scheduler_schema import PbtReplayScheduler
from search_spaces.conditions import look_up
from search_spaces.documents import Document, SpecError, load_document
from search_spaces.parameter import assign

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

Schedule = Sequence[Sequence[Any]]
"""Pairs of a budget and the settings, by dotted name, that hold from it on; the first is 0."""


class PbtReplay(SchedulerKind[PbtReplayScheduler]):
    """Repeats the schedule of settings that the winner of a PBT sweep went through."""

    pauses = True
    compares = False
    fixed_size = "it repeats the schedule of one trial"
    fixed_budget = "the schedule that it repeats ends with the budget"

    def complete(self, draft: Draft) -> None:
        """Fill in the schedule, and check that its settings are the trainable's, and free."""
        options, document, space = self.options, draft.document, draft.space
        if not options.schedule:
            self._read_sweep(document)
        options.time_attr = options.time_attr or ENV_STEPS
        place = (*PLACE, "schedule")
        budgets = [budget for budget, _ in options.schedule]
        if budgets[0] != 0 or any(a >= b for a, b in pairwise(budgets)):
            raise document.error(
                place, f"scheduler: schedule: its budgets {budgets} must start at 0 and rise"
            )
        config_class = getattr(draft.trainable, "config_class", None)
        for _, settings in options.schedule:
            for name, value in settings.items():
                path = tuple(name.split("."))
                where = "config" if look_up(draft.spec.config, path)[0] else "search_space"
                if where == "config" or name in space.keys:
                    raise document.error(
                        (where, name), f"{where}: {name} is set by the replayed schedule; remove it"
                    )
                if config_class is None:
                    continue
                given: dict[str, Any] = {}
                assign(given, path, value)
                try:
                    config_class.check(given)
                except ValueError as error:
                    raise document.error(place, f"scheduler: the schedule: {error}") from None

    def build(self, parts: Parts) -> ScheduleReplay:
        assert self.options.time_attr is not None  # see `complete`
        schedule = [list(entry) for entry in self.options.schedule]
        return ScheduleReplay(schedule, self.options.time_attr)

    def alive(self, num_trials: int, max_concurrent: int) -> int | None:
        return max_concurrent

    def _read_sweep(self, document: Document) -> None:
        from analysis.overview.lineage import read_lineage, schedule, winner
        from analysis.results.rows import ResultsError

        options = self.options
        if options.sweep is None:
            raise document.error(
                PLACE, "scheduler: pbt_replay needs the folder of a PBT sweep, sweep: runs/<name>"
            )
        folder = expanded(options.sweep)
        try:
            exploits = read_lineage(folder)
            if options.trial is None:
                objective = load_document(folder / "spec.yaml").data["objective"]
                options.trial = winner(folder, objective["metric"], objective["mode"])
            options.schedule = schedule(exploits, options.trial)
        except (ResultsError, SpecError, KeyError) as error:
            raise document.error((*PLACE, "sweep"), f"scheduler: sweep: {error}") from None
        options.time_attr = canonical_metric(exploits[0].time_attr)


class ScheduleReplay(ActingScheduler):
    """Every trial starts with the first settings, and gets the next ones when it is their time.

    A trial keeps its weights and its random streams: only settings change. What a trial should have
    follows from its budget alone, so there is no state to lose.

    Args:
        schedule: The settings, by the budget from which on they hold.
        time_attr: The budget, a key of results.
    """

    def __init__(self, schedule: Schedule, time_attr: str) -> None:
        super().__init__()
        self._schedule, self._time_attr = schedule, time_attr

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        """Give a new trial the first settings; one that failed has its own."""
        if not trial.has_reported_at_least_once:
            trial.set_config(with_settings(trial.config, self._schedule[0][1]))

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        """Pause a trial whose settings change now; it goes on at once with the next ones."""
        settings = settings_at(self._schedule, result.get(self._time_attr, 0))
        if has_settings(trial.config, settings):
            return TrialScheduler.CONTINUE
        trial.set_config(with_settings(trial.config, settings))
        self.has_acted = True
        return TrialScheduler.PAUSE

    def debug_string(self) -> str:
        """Return a line for Tune's log."""
        return f"replay of a schedule of {len(self._schedule)} settings"


def settings_at(schedule: Schedule, budget: float) -> dict[str, Any]:
    """Return the settings that hold when so much budget has been used."""
    return [settings for start, settings in schedule if start <= budget][-1]


def has_settings(config: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Tell whether a config has these values for these dotted names."""
    return all(
        look_up(config, tuple(name.split("."))) == (True, value) for name, value in settings.items()
    )


def with_settings(config: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a config with these values for these dotted names."""
    result = copy.deepcopy(dict(config))
    for name, value in settings.items():
        assign(result, tuple(name.split(".")), value)
    return result
