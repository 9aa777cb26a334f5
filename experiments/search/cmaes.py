"""The kind `cmaes`, the covariance matrix adaptation evolution strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.search.kind import PLACE
from experiments.search.optuna_kind import LearningKind
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import CmaesSearch
from search_spaces.documents import Document
from search_spaces.domains import Choice
from search_spaces.parameter import Parameter
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

_LEAST_HISTORY = 10  # it takes the best tenth for its first distribution


class Cmaes(LearningKind[CmaesSearch]):
    """Covariance matrix adaptation evolution strategy (Hansen, 2016), over numbers."""

    drawn_apart = "choices and conditional settings"

    def models(self, parameter: Parameter) -> bool:
        return not isinstance(parameter.domain, Choice) and not parameter.conditions

    def check(self, document: Document, spec: SweepSpec, space: SearchSpace) -> None:
        super().check(document, spec, space)
        if len(spec.objectives) > 1:
            raise document.error(
                PLACE,
                f"search: cmaes optimises one objective, not {len(spec.objectives)}: it follows "
                "one distribution towards one optimum; use nsga2, nsga3, tpe or gp",
            )
        if not any(self.models(parameter) for parameter in space.parameters):
            raise document.error(
                PLACE,
                "search: cmaes adapts a normal distribution over numbers, and this space has only "
                "choices and conditional settings, which it would draw at random; use tpe",
            )

    def sampler(
        self, space: SearchSpace, seed: int | None, history: Sequence[FrozenTrial]
    ) -> BaseSampler:
        from optuna.samplers import CmaEsSampler

        return CmaEsSampler(
            seed=seed,
            n_startup_trials=self.options.n_startup_trials,
            popsize=self.options.population_size,
            warn_independent_sampling=False,  # `notes` says so once
            source_trials=self._modelled(space, history) or None,
        )

    def check_history(self, complete: int) -> str | None:
        if complete >= _LEAST_HISTORY:
            return None
        return (
            f"cmaes needs {_LEAST_HISTORY} complete trials, not {complete}: it takes the best "
            "tenth for its first distribution; use tpe, or leave warm_start out"
        )

    def _modelled(self, space: SearchSpace, history: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """The trials with those parameters only that CMA-ES models; it passes over others."""
        from optuna.trial import TrialState, create_trial

        from experiments.search.optuna_search import distribution

        names = {
            parameter.name
            for parameter in space.parameters
            if self.models(parameter) and not distribution(parameter.domain).single()
        }
        return [
            create_trial(
                value=trial.value,
                params={n: v for n, v in trial.params.items() if n in names},
                distributions={n: d for n, d in trial.distributions.items() if n in names},
            )
            for trial in history
            if trial.state == TrialState.COMPLETE
        ]
