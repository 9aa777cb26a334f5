"""A search space as Ray Tune's own `param_space`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from search_spaces.conditions import look_up, settings_of
from search_spaces.documents import SpecError
from search_spaces.domains import Choice, Domain, Grid
from search_spaces.parameter import Condition, Parameter, assign


def to_tune(parameters: Sequence[Parameter], defaults: Any) -> dict[str, Any]:
    """Convert the parameters of a space, each after those that it depends on.

    See `SearchSpace.to_tune`.
    """
    if defaults is not None and not isinstance(defaults, Mapping):
        defaults = settings_of(defaults)
    result: dict[str, Any] = {}
    for parameter in parameters:
        domain: Any = _domain(parameter.domain)
        if parameter.conditions:
            domain = _conditional(parameter, parameters, defaults)
        assign(result, parameter.path, domain)
    return result


def _domain(domain: Domain) -> Any:
    from ray import tune

    native: dict[str, Any] = {
        "uniform": tune.uniform,
        "loguniform": tune.loguniform,
        "randint": tune.randint,
        "lograndint": tune.lograndint,
    }
    if isinstance(domain, Grid):
        return tune.grid_search([domain.value(v) for v in domain.values])
    if isinstance(domain, Choice):
        return tune.choice([domain.value(v) for v in domain.values])
    if domain.transform is None and domain.kind in native:
        return native[domain.kind](*domain.arguments())
    if domain.kind == "randint" and domain.finite:  # with a transform: searchers still accept it
        return tune.choice([domain.value(searched) for searched in domain.finite])
    return tune.sample_from(_Sampler(domain))


def _conditional(
    parameter: Parameter, parameters: Sequence[Parameter], defaults: Mapping[str, Any] | None
) -> Any:
    from ray import tune

    if isinstance(parameter.domain, Grid):
        raise SpecError(
            f"{parameter.key}: Tune has no grid that depends on other settings; write choice, or "
            "run the sweep from a spec"
        )
    for condition in parameter.conditions:  # parents before children: each is checked in its turn
        if all(condition.key != other.key for other in parameters):
            raise SpecError(
                f"{parameter.key}: its condition is on {condition.key}, which is not searched: "
                "call settled() first"
            )
    found, default = look_up(defaults or {}, parameter.path)
    if not found:
        raise SpecError(
            f"{parameter.key} is searched only when {parameter.conditions[0]}; pass the settings' "
            "defaults, e.g. space.to_tune(DQNConfig())"
        )
    return tune.sample_from(
        _ConditionalSampler(parameter.given(all_conditions(parameter, parameters)), default)
    )


def all_conditions(parameter: Parameter, parameters: Sequence[Parameter]) -> tuple[Condition, ...]:
    """Return the conditions of a setting and of those that they are on.

    With Tune an inactive setting has its default, which must not count as chosen.
    """
    by_path = {p.path: p for p in parameters}
    parents = [by_path[c.path] for c in parameter.conditions]
    return tuple(c for p in parents for c in all_conditions(p, parameters)) + parameter.conditions


class _Sampler:
    """A function for `tune.sample_from` that draws a domain with numpy's global generator."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def __call__(self, spec: Any) -> Any:
        seed = int(np.random.randint(2**31))
        return self.domain.value(self.domain.sample(np.random.default_rng(seed)))


class _ConditionalSampler(_Sampler):
    """The same, or the default where a condition does not hold."""

    def __init__(self, parameter: Parameter, default: Any) -> None:
        super().__init__(parameter.domain)
        self.parameter = parameter
        self.default = default

    def __call__(self, spec: Any) -> Any:
        settings = {}
        for condition in self.parameter.conditions:
            node = spec.config
            for key in condition.path:  # Tune draws what this one depends on first
                node = node[key]
            settings[condition.path] = node
        return super().__call__(spec) if self.parameter.active(settings) else self.default
