"""How a population's settings are mutated: on the scale that they are searched on, in their bounds.

Settings with a logarithmic domain are multiplied by a factor, others move by a share of their
range; so `gamma` with `transform: one_minus` on a log scale changes by factors of `1 - gamma`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from search_spaces.conditions import look_up
from search_spaces.domains import Choice, Domain, LogRandInt, LogUniform, QUniform, RandInt, Uniform
from search_spaces.parameter import Parameter, assign, same
from search_spaces.space import SearchSpace

_TRIES = 20  # draws until a mutation gives a valid configuration

Check = Callable[[dict[str, Any]], None]


@dataclass
class Mutation:
    """Draws new settings in the neighbourhood of given ones.

    Attributes:
        parameters: The settings that are mutated; all others stay.
        factors: A setting moves by one of them: a logarithmic one is multiplied by it, a linear one
            moves by `factor - 1` of its range, a choice to the next or previous value.
        resample_probability: How often a setting is drawn anew from its domain instead.
        check: Raises `ValueError` for a configuration that is not valid as a whole.
    """

    parameters: Sequence[Parameter]
    factors: Sequence[float] = (1.2, 0.8)
    resample_probability: float = 0.25
    check: Check | None = None

    def __call__(self, config: Mapping[str, Any], random: np.random.Generator) -> dict[str, Any]:
        """A new configuration; the given one where none of 20 mutations is valid."""
        return first_valid(config, lambda: self._mutated(config, random), self.check)

    def _mutated(self, config: Mapping[str, Any], random: np.random.Generator) -> dict[str, Any]:
        result = copy.deepcopy(dict(config))
        for parameter in self.parameters:
            is_given, value = look_up(config, parameter.path)
            if not is_given:
                continue  # a setting whose condition does not hold here
            domain = parameter.domain
            searched = searched_value(domain, value)
            if searched is None or random.random() < self.resample_probability:
                drawn = domain.sample(random)
            else:
                drawn = perturbed(domain, searched, self.factors[int(random.integers(2))])
            assign(result, parameter.path, domain.value(drawn))
        return result


def first_valid(
    config: Mapping[str, Any], draw: Callable[[], dict[str, Any]], check: Check | None
) -> dict[str, Any]:
    """Return the first of some drawn configurations that is valid; the given one if none is."""
    for _ in range(_TRIES):
        drawn = draw()
        try:
            if check is not None:
                check(drawn)
        except ValueError:
            continue
        return drawn
    return copy.deepcopy(dict(config))


def perturbed(domain: Domain, searched: Any, factor: float) -> Any:
    """Move a searched value by a factor, never out of its domain; whole numbers stay whole."""
    up = factor > 1
    if isinstance(domain, Choice):
        index = domain.values.index(searched) + (1 if up else -1)
        return domain.values[min(max(index, 0), len(domain.values) - 1)]
    if isinstance(domain, QUniform):
        steps = _whole_step((factor - 1) * (domain.count - 1), up)
        index = round((searched - domain.low) / domain.step) + steps
        return domain.at(min(max(index, 0), domain.count - 1))
    if isinstance(domain, LogUniform):
        return min(max(searched * factor, domain.low), domain.high)
    if isinstance(domain, Uniform):
        moved = searched + (factor - 1) * (domain.high - domain.low)
        return min(max(moved, domain.low), domain.high)
    assert isinstance(domain, RandInt)
    by = searched * (factor - 1)
    if not isinstance(domain, LogRandInt):
        by = (factor - 1) * (domain.high - 1 - domain.low)
    return min(max(searched + _whole_step(by, up), domain.low), domain.high - 1)


def _whole_step(by: float, up: bool) -> int:
    """At least one step, so that a small whole number is not stuck where it is."""
    return max(1, round(by)) if up else min(-1, round(by))


def searched_value(domain: Domain, value: Any) -> Any:
    """Return a setting's searched value, inside its domain; None for a value not listed."""
    if isinstance(domain, Choice):
        return next((v for v in domain.values if same(domain.value(v), value)), None)
    searched = domain.transform.backward(value) if domain.transform else value
    if isinstance(domain, RandInt):
        return min(max(int(searched), domain.low), domain.high - 1)
    assert isinstance(domain, Uniform)
    return min(max(searched, domain.low), domain.high)


def to_unit(domain: Domain, searched: float) -> float:
    """Return where a continuous searched value lies in its bounds, 0 to 1, on its own scale."""
    assert isinstance(domain, Uniform)
    if isinstance(domain, LogUniform):
        return math.log(searched / domain.low) / math.log(domain.high / domain.low)
    return (searched - domain.low) / (domain.high - domain.low)


def from_unit(domain: Domain, position: float) -> float:
    """Return the inverse of `to_unit`, inside the bounds."""
    assert isinstance(domain, Uniform)
    if isinstance(domain, LogUniform):
        searched = domain.low * (domain.high / domain.low) ** position
    else:
        searched = domain.low + position * (domain.high - domain.low)
    return min(max(searched, domain.low), domain.high)


def is_continuous(domain: Domain) -> bool:
    """Tell whether every number between two bounds is allowed."""
    return isinstance(domain, Uniform) and not isinstance(domain, QUniform)


def searched_settings(space: SearchSpace, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration has for the searched settings, by dotted name."""
    found = {parameter.key: look_up(config, parameter.path) for parameter in space.parameters}
    return {key: value for key, (is_given, value) in found.items() if is_given}
