"""From settings back to what is searched: points to try first, trials of an earlier sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from search_spaces.conditions import SpaceKeyError, look_up
from search_spaces.documents import SpecError
from search_spaces.domains import Domain, QUniform, RandInt, Uniform
from search_spaces.parameter import KeyPath, same
from search_spaces.space import SearchSpace
from trainables.core.suggestions import suggestion

_TOLERANCE = (
    1e-12  # of what is lost where a transform is inverted: 1 - 0.97 is 0.030000000000000027
)


def searched_point(space: SearchSpace, point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the searched values of a point that is given in settings' values; it may be partial.

    Example:
        >>> space = SearchSpace.parse({"gamma": {"uniform": [0, 0.5], "transform": "one_minus"}})
        >>> searched_point(space, {"gamma": 0.75})
        {'one_minus_gamma': 0.25}

    Args:
        space: What is searched.
        point: Settings by key, nested or with dots.

    Raises:
        SpaceKeyError: A setting is not searched or is inactive at this point, or its value lies
            outside its domain.
    """
    given = _by_path(point, set(space.keys))
    for path in given:
        key = ".".join(path)
        if key not in space.keys:
            hint = suggestion(key, space.keys)
            raise SpaceKeyError(key, f"{key} is not searched; searched: {_list(space)}{hint}")
    searched: dict[str, Any] = {}
    for parameter in space.parameters:
        if parameter.path not in given:
            continue
        for condition in parameter.conditions:
            if condition.path in given and not condition.admits(given[condition.path]):
                raise SpaceKeyError(
                    parameter.key, f"{parameter.key} is searched only when {condition}"
                )
        try:
            value = searched_value(parameter.domain, given[parameter.path])
        except SpecError as error:
            raise SpaceKeyError(parameter.key, f"{parameter.key} = {error}") from None
        searched[parameter.name] = value
    return searched


def searched_config(space: SearchSpace, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the searched values of a trial's whole config, of the settings that are active in it.

    Raises:
        SpaceKeyError: A setting is missing, or lies outside its domain.
    """
    searched: dict[str, Any] = {}
    settings: dict[KeyPath, Any] = {}
    for parameter in space.ordered:
        if not parameter.active(settings):
            continue
        found, value = look_up(config, parameter.path)
        if not found:
            raise SpaceKeyError(parameter.key, f"has no {parameter.key}")
        try:
            searched[parameter.name] = searched_value(parameter.domain, value)
        except SpecError as error:
            raise SpaceKeyError(parameter.key, f"{parameter.key} = {error}") from None
        settings[parameter.path] = value
    return searched


def searched_value(domain: Domain, value: Any) -> Any:
    """Return the searched value for a setting's value.

    Raises:
        SpecError: The domain does not hold it; the message begins with the value.
    """
    problem = SpecError(f"{value!r} is not in its domain {_shown(domain)}")
    if not isinstance(domain, (Uniform, RandInt)):  # one of listed values
        for searched in domain.finite or ():
            if same(domain.value(searched), value):
                return searched
        raise problem
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise problem
    try:
        searched = domain.transform.backward(value) if domain.transform else value
    except ValueError:
        raise problem from None
    if isinstance(domain, RandInt):
        if not float(searched).is_integer() or not domain.low <= searched < domain.high:
            raise problem
        return int(searched)
    assert isinstance(domain, Uniform)
    slack = _TOLERANCE * max(1.0, abs(domain.low), abs(domain.high))
    if not domain.low - slack <= searched <= domain.high + slack:
        raise problem
    searched = min(max(searched, domain.low), domain.high)
    if isinstance(domain, QUniform):
        on_step = domain.at(round((searched - domain.low) / domain.step))
        if abs(on_step - searched) > slack:
            raise problem
        return on_step
    return float(searched)


def _by_path(point: Mapping[str, Any], keys: set[str]) -> dict[KeyPath, Any]:
    """Return settings by path; a dict is looked into unless it is a setting itself."""
    found: dict[KeyPath, Any] = {}

    def visit(node: Mapping[str, Any], path: KeyPath) -> None:
        for key, value in node.items():
            here = (*path, *str(key).split("."))
            if isinstance(value, Mapping) and value and ".".join(here) not in keys:
                visit(value, here)
            else:
                found[here] = value

    visit(point, ())
    return found


def _shown(domain: Domain) -> str:
    text = ", ".join(f"{key}: {value}" for key, value in domain.to_dict().items())
    return f"{{{text}}}"


def _list(space: SearchSpace) -> str:
    return ", ".join(p.key for p in space.parameters)
