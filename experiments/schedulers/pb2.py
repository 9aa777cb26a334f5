"""Population-based bandits (Parker-Holder et al., 2020): PBT whose mutations a model chooses.

A Gaussian process that forgets with time learns how much a trial improved for the settings that it
had; an exploited trial gets those with the highest upper confidence bound. The process is Ray's;
here it sees each setting on the scale that it is searched on, between 0 and 1.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.internals.tune import select_by_bandit
from experiments.schedulers.kind import Draft, Parts
from experiments.schedulers.mutation import Check, first_valid, from_unit, searched_value, to_unit
from experiments.schedulers.population import PopulationTraining
from experiments.schedulers.population_kind import PopulationKind, mutated_parameters
from experiments.spec.scheduler_schema import Pb2Scheduler
from search_spaces.conditions import look_up
from search_spaces.parameter import Parameter, assign
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

_MAX_ROWS = 1000  # of the data that the process is fitted to, as in Ray
_JITTER = 0.1  # around the model's choice, where that is not a valid configuration


class Pb2(PopulationKind[Pb2Scheduler]):
    """A Gaussian process chooses the mutations, of continuous settings."""

    def check(self, draft: Draft) -> None:
        super().check(draft)
        for parameter in mutated_parameters(draft.space, self.options.mutations):
            if parameter.domain.kind not in ("uniform", "loguniform") or parameter.conditions:
                kind = "conditional ones" if parameter.conditions else parameter.domain.kind
                raise draft.document.error(
                    ("search_space", parameter.key),
                    f"{parameter.key}: pb2 models continuous settings, not {kind}; "
                    "use uniform or loguniform, leave it out of scheduler.mutations, or use "
                    "scheduler: pbt",
                )

    def build(self, parts: Parts) -> PopulationBandit:
        parameters = mutated_parameters(parts.space, self.options.mutations)
        return PopulationBandit(parts.space, parameters, check=parts.check, **self.shared(parts))


class PopulationBandit(PopulationTraining):
    """See `PopulationTraining`; all mutated settings are continuous.

    Args:
        space: The searched settings.
        parameters: Those that are mutated.
        check: Raises `ValueError` for a configuration that is not valid as a whole.
        options: The further arguments of `PopulationTraining`.
    """

    def __init__(
        self,
        space: SearchSpace,
        parameters: Sequence[Parameter],
        check: Check | None = None,
        **options: Any,
    ) -> None:
        super().__init__(space, _unchanged, **options)
        self._parameters, self._check = list(parameters), check
        # By trial: budget, score and settings at the end of each interval; an exploit starts
        # a new list, with the donor's budget and score.
        self._history: dict[str, list[list[tuple[float, float, list[float]]]]] = {}
        # By trial that has not ended an interval since: what an exploit chose for it. The model
        # is to choose something else for the next one.
        self._chosen: dict[str, list[float]] = {}

    def observe(self, trial: Trial, budget: float, score: float) -> None:
        """Note a trial's score at the end of an interval."""
        row = (budget, score, self._position(trial.config))
        self._history.setdefault(trial.trial_id, [[]])[-1].append(row)
        self._chosen.pop(trial.trial_id, None)

    def explore(self, trial: Trial, donor: Trial) -> dict[str, Any]:
        """Return the donor's configuration with the settings that the model expects most of."""
        position = self._select(donor)
        # It goes on from the donor's score: the next row tells what the new settings add.
        budget, score, _ = self._history[donor.trial_id][-1][-1]
        start = (budget, score, position.tolist())
        self._history.setdefault(trial.trial_id, []).append([start])
        tried = iter([position])

        def draw() -> dict[str, Any]:
            moved = next(tried, None)
            if moved is None:
                moved = position + self._random.normal(0, _JITTER, len(position))
            return self._configured(donor.config, moved.clip(0, 1))

        config = first_valid(donor.config, draw, self._check)
        self._chosen[trial.trial_id] = self._position(config)
        return config

    def _select(self, donor: Trial) -> np.ndarray:
        rows, targets, newest = self._improvements(donor.trial_id)
        if newest is None or len(rows) < 2:
            return self._random.random(len(self._parameters))
        bounds = {parameter.key: (0.0, 1.0) for parameter in self._parameters}
        chosen: Any = np.array(self._pending()) if self._pending() else None
        with warnings.catch_warnings(), _global_random(self._random):
            warnings.simplefilter("ignore")  # of kernel parameters at their bounds
            found = select_by_bandit(rows, targets, chosen, newest, bounds, 2)
        return np.nan_to_num(np.asarray(found, dtype=float), nan=0.5).clip(0, 1)

    def _pending(self) -> list[list[float]]:
        """Return the choices of which the model has seen no outcome yet, and still may."""
        ended = {trial.trial_id for trial in self._members if trial.is_finished()}
        return [position for name, position in self._chosen.items() if name not in ended]

    def _improvements(self, donor_id: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return what each interval's settings added per unit of budget.

        Returns:
            Budget, score before and settings `[N, 2 + D]`; improvements `[N]`; and the donor's
            latest budget and score before `[2]`, None if it has had no whole interval.
        """
        rows, newest = [], None
        stretches = [(i, stretch) for i, all_ in self._history.items() for stretch in all_]
        for trial_id, stretch in stretches:
            for (start, before, _), (end, after, settings) in pairwise(stretch):
                if end > start and np.isfinite([before, after]).all():
                    rows.append((end, before, *settings, (after - before) / (end - start)))
                    if trial_id == donor_id:
                        newest = np.array([end, before])
        table = np.array(sorted(rows)[-_MAX_ROWS:])
        if not rows:
            return np.empty((0, 2)), np.empty(0), None
        return table[:, :-1], table[:, -1], newest

    def _position(self, config: Mapping[str, Any]) -> list[float]:
        return [
            to_unit(p.domain, searched_value(p.domain, look_up(config, p.path)[1]))
            for p in self._parameters
        ]

    def _configured(self, config: Mapping[str, Any], position: np.ndarray) -> dict[str, Any]:
        result = copy.deepcopy(dict(config))
        for parameter, share in zip(self._parameters, position, strict=True):
            searched = from_unit(parameter.domain, float(share))
            assign(result, parameter.path, parameter.domain.value(searched))
        return result


@contextmanager
def _global_random(random: np.random.Generator) -> Iterator[None]:
    """Numpy's global random numbers, from which Ray draws, follow from `random` meanwhile."""
    before = np.random.get_state()
    np.random.seed(int(random.integers(2**32)))
    try:
        yield
    finally:
        np.random.set_state(before)


def _unchanged(config: Mapping[str, Any], random: np.random.Generator) -> dict[str, Any]:
    return dict(config)
