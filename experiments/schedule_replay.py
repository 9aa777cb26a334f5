"""Repeat the schedule of settings that a population's winner went through, as a fixed schedule."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from experiments.acting_scheduler import ActingScheduler
from experiments.mutation import holds, value_at
from search_spaces.space import assign

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

Schedule = list[tuple[float, dict[str, Any]]]
"""Settings by dotted name, each from a budget on; the first is 0."""


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
        """One line for Tune's log."""
        return f"replay of a schedule of {len(self._schedule)} settings"


def settings_at(schedule: Schedule, budget: float) -> dict[str, Any]:
    """The settings that hold when so much budget has been used."""
    return [settings for start, settings in schedule if start <= budget][-1]


def has_settings(config: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a config has these values for these dotted names."""
    paths = {name: tuple(name.split(".")) for name in settings}
    return all(
        holds(config, path) and value_at(config, path) == settings[name]
        for name, path in paths.items()
    )


def with_settings(config: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a config with these values for these dotted names."""
    result = copy.deepcopy(dict(config))
    for name, value in settings.items():
        assign(result, tuple(name.split(".")), value)
    return result
