"""Search algorithms for Tune: grid, random, and Optuna's TPE.

All three are `Searcher`s of ours that draw *searched* values from a `SearchSpace` and hand Tune the
finished config: transforms are already applied, so a trial's config holds settings only. They are
saved and restored with Tune's snapshots.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from ray.tune.search import ConcurrencyLimiter, Searcher

from experiments.schema import ENV_STEPS, SweepSpec
from experiments.search_schema import TpeSearch
from experiments.trial_info import PRUNED
from search_spaces.domains import Choice, Domain, LogRandInt, LogUniform, QUniform, RandInt, Uniform
from search_spaces.space import SearchSpace

logger = logging.getLogger(__name__)


def build_search(spec: SweepSpec, space: SearchSpace, max_concurrent: int) -> ConcurrencyLimiter:
    """The search algorithm of a spec, limited to `max_concurrent` trials at a time.

    Without the limit Tune keeps a single trial pending and a sweep runs its trials one by one.
    """
    metric, mode = spec.objective.metric, spec.objective.mode
    searcher: Searcher
    if isinstance(spec.search, TpeSearch):
        searcher = OptunaSearch(
            space,
            metric=metric,
            mode=mode,
            seed=spec.seed,
            n_startup_trials=spec.search.n_startup_trials,
            stop=spec.stop,
        )
    else:
        whole = spec.search.algorithm == "grid"
        searcher = VariantSearch(
            space,
            metric=metric,
            mode=mode,
            num_samples=spec.num_samples,
            seed=spec.seed,
            whole_grid=whole,
        )
    return ConcurrencyLimiter(searcher, max_concurrent=max_concurrent)


def total_trials(spec: SweepSpec, space: SearchSpace) -> int:
    """How many trials a sweep runs."""
    if isinstance(spec.search, TpeSearch):
        return spec.num_samples
    whole = spec.search.algorithm == "grid"
    return spec.num_samples * sum(1 for _ in space.grid_points(whole=whole))


class _SpaceSearch(Searcher):
    """What both searchers share: the space, and files that are whole or absent."""

    def __init__(self, space: SearchSpace, metric: str, mode: str) -> None:
        super().__init__(metric=metric, mode=mode)
        self.space = space

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Tune offers its `param_space`; the space was given at construction."""
        return False

    def save(self, checkpoint_path: str) -> None:
        """Write the state. Tune renames the file into place."""
        with open(checkpoint_path, "wb") as file:
            pickle.dump(self.__dict__, file)
            file.flush()
            os.fsync(file.fileno())

    def restore(self, checkpoint_path: str) -> None:
        """Read the state that `save` wrote. The file is trusted, like all of Tune's state."""
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing to learn from."""


class VariantSearch(_SpaceSearch):
    """Every grid point, `num_samples` times, with the other domains drawn anew each time.

    Args:
        space: What is searched.
        metric: The objective, for Tune.
        mode: "max" or "min".
        num_samples: Draws per grid point.
        seed: Of the draws.
        whole_grid: Take every value of every domain instead of drawing (a plain grid search).
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        metric: str,
        mode: str,
        num_samples: int = 1,
        seed: int | None = None,
        whole_grid: bool = False,
    ) -> None:
        super().__init__(space, metric, mode)
        self._points = list(space.grid_points(whole=whole_grid))
        self._total = num_samples * len(self._points)
        self._whole_grid = whole_grid
        self._next = 0
        self._random = np.random.default_rng(seed)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The next trial's searched settings, or `Searcher.FINISHED`."""
        if self._next >= self._total:
            finished: Any = Searcher.FINISHED  # a string, whatever Tune's annotation says
            return finished
        searched = dict(self._points[self._next % len(self._points)])
        if not self._whole_grid:
            searched.update(self.space.sample(self._random))
        self._next += 1
        return self.space.config(searched)


class OptunaSearch(_SpaceSearch):
    """Optuna's TPE over a `SearchSpace`.

    A trial that a scheduler stops early is told to Optuna as pruned, with its intermediate values:
    the estimator then ranks it below every finished one instead of taking its low-budget value for
    a final one. A trial without a finite objective is told as failed.

    Args:
        space: What is searched.
        metric: The objective.
        mode: "max" or "min".
        seed: Of the sampler.
        n_startup_trials: Random trials before the estimator takes over.
        stop: Stop criteria; a trial that met none of them was stopped early.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        metric: str,
        mode: str,
        seed: int | None = None,
        n_startup_trials: int = 10,
        stop: Mapping[str, float] | None = None,
    ) -> None:
        import optuna

        super().__init__(space, metric, mode)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._stop = dict(stop or {})
        self._distributions = {p.name: distribution(p.domain) for p in space.parameters}
        self._trials: dict[str, optuna.trial.Trial] = {}
        self._last_step: dict[str, int] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=n_startup_trials)
        self.study = optuna.create_study(
            sampler=sampler,
            pruner=optuna.pruners.NopPruner(),
            direction="maximize" if mode == "max" else "minimize",
            study_name="tunescape",
        )

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """The next trial's searched settings."""
        trial = self.study.ask(fixed_distributions=self._distributions)
        self._trials[trial_id] = trial
        return self.space.config(
            {p.name: from_optuna(p.domain, trial.params[p.name]) for p in self.space.parameters}
        )

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Report an intermediate value; repeated and older steps (after a resume) are skipped."""
        value = self._objective(result)
        trial = self._trials.get(trial_id)
        step = int(result.get(ENV_STEPS, result.get("training_iteration", 0)))
        if value is not None and trial is not None and step > self._last_step.get(trial_id, -1):
            trial.report(value, step)
            self._last_step[trial_id] = step

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Tell Optuna how the trial ended. Never raises: an exception here would end the sweep."""
        from optuna.trial import TrialState

        if trial_id not in self._trials:
            return
        result = result or {}
        value = self._objective(result)
        # Tune does not pass on the result at which it stops a trial.
        self.on_trial_result(trial_id, result)
        trial = self._trials.pop(trial_id)
        try:
            if error or value is None:
                self.study.tell(trial, state=TrialState.FAIL)
            elif self._stopped_early(result):
                self.study.tell(trial, state=TrialState.PRUNED)
            else:
                self.study.tell(trial, value, state=TrialState.COMPLETE)
        except (ValueError, RuntimeError) as problem:
            logger.warning("Optuna did not accept the end of trial %s: %s", trial_id, problem)
        self._last_step.pop(trial_id, None)

    def _objective(self, result: Mapping[str, Any]) -> float | None:
        value = result.get(self.metric)
        if not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
            return None
        return float(value)

    def _stopped_early(self, result: Mapping[str, Any]) -> bool:
        if PRUNED in result:
            return bool(result[PRUNED])
        reached = (
            metric in result and result[metric] >= limit for metric, limit in self._stop.items()
        )
        return bool(self._stop) and not any(reached)


def distribution(domain: Domain) -> Any:
    """The Optuna distribution of a domain, on the searched scale."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if isinstance(domain, Choice):
        return CategoricalDistribution(domain.labels())
    if isinstance(domain, QUniform):
        if domain.whole:
            return IntDistribution(int(domain.low), int(domain.high), step=int(domain.step))
        return FloatDistribution(domain.low, domain.high, step=domain.step)
    if isinstance(domain, Uniform):
        return FloatDistribution(domain.low, domain.high, log=isinstance(domain, LogUniform))
    assert isinstance(domain, RandInt)
    return IntDistribution(domain.low, domain.high - 1, log=isinstance(domain, LogRandInt))


def from_optuna(domain: Domain, suggested: Any) -> Any:
    """The searched value for what Optuna suggested (a choice of lists is suggested by label)."""
    if isinstance(domain, Choice):
        return domain.values[domain.labels().index(suggested)]
    return suggested
