"""Whether a sweep can be judged by what is estimated from recorded data."""

from __future__ import annotations

from analysis.names import ESTIMATED, VALUE_OF_TARGET
from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document
from search_spaces.space import SearchSpace
from trainables.core.suggestions import suggestion

_METHODS = "off_policy_estimation_methods"


def check_estimates(document: Document, spec: SweepSpec, space: SearchSpace) -> None:
    """Refuse objectives that no estimator reports, or that differ in more than the policy.

    Raises:
        SpecError: An objective names an estimator that is not there, or estimates of different
            discount factors would be compared.
    """
    methods = spec.config.get(_METHODS, {})
    for objective in (spec.objective, *spec.objectives):
        if not objective.metric.startswith(ESTIMATED):
            continue
        name = objective.metric.removeprefix(ESTIMATED).partition("/")[0]
        if name not in methods:
            known = ", ".join(f"{ESTIMATED}{each}{VALUE_OF_TARGET}" for each in methods)
            allowed = known or f"config.{_METHODS}: {{{name}: {{type: DirectMethod}}}}"
            raise document.error(
                ("objective",),
                f"objective: {objective.metric}: there is no estimator {name!r} in config."
                f"{_METHODS}; allowed: {allowed}{suggestion(name, methods)}",
            )
        is_searched = any(parameter.path == ("gamma",) for parameter in space.parameters)
        if is_searched and methods[name].get("gamma") is None:
            raise document.error(
                ("search_space",),
                f"search_space: gamma is searched, and {objective.metric} is discounted by it: "
                "trials would be compared by returns of different discount factors; allowed: "
                f"config.{_METHODS}.{name}.gamma, one for all of them, or no search for gamma",
            )
