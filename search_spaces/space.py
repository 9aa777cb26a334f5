"""A search space: which settings are searched, over which domains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from search_spaces.conditions import (
    SpaceKeyError,
    check_conditions,
    in_order,
    parse_conditions,
    settle,
)
from search_spaces.define_by_run import DefineByRun
from search_spaces.documents import Document, SpecError
from search_spaces.domains import DOMAINS, KINDS, MAX_LISTED, Grid, is_domain, parse_domain
from search_spaces.native import to_tune
from search_spaces.parameter import Condition, KeyPath, Parameter, assign
from trainables.core.suggestions import suggestion

__all__ = ["SearchSpace", "SpaceKeyError"]


class ChecksSettings(Protocol):
    """A config class: `check` returns the dict with canonical names, or raises `ValueError`."""

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check names, types and ranges."""


@dataclass(frozen=True)
class SearchSpace:
    """An ordered set of searched settings.

    Example:
        >>> space = SearchSpace.parse({"lr": {"loguniform": [1e-5, 1e-3]}})
        >>> space.names
        ['lr']
    """

    parameters: tuple[Parameter, ...] = ()

    @classmethod
    def parse(cls, entries: Mapping[str, Any], source: str = "search space") -> SearchSpace:
        """Build from plain data. Raises `SpecError` naming the key."""
        space = cls.parse_document(Document(dict(entries), source), ())
        check_conditions(space.parameters)
        return space

    @classmethod
    def parse_document(cls, document: Document, path: tuple[str, ...]) -> SearchSpace:
        """Build from the mapping at `path` of a document; errors name file and line.

        Conditions are not checked against each other: the space may be one of several parts.
        """
        parameters: list[Parameter] = []
        taken: dict[tuple[str, ...], str] = {}
        for setting, entry, place in _walk(document, document.at(path), path):
            try:
                conditions = parse_conditions(entry.get("when"))
                parameter = Parameter(setting, parse_domain(entry), conditions)
            except SpecError as error:
                raise document.error(place, f"{'.'.join(setting)}: {error}") from None
            if setting in taken:
                raise document.error(place, f"{parameter.key} is searched twice")
            taken[setting] = parameter.key
            parameters.append(parameter)
        return cls(tuple(parameters))

    @property
    def names(self) -> list[str]:
        """The searched parameters' names."""
        return [parameter.name for parameter in self.parameters]

    @property
    def keys(self) -> list[str]:
        """The settings that are searched, e.g. `model.fcnet_activation`."""
        return [parameter.key for parameter in self.parameters]

    def __bool__(self) -> bool:
        return bool(self.parameters)

    def without(self, keys: set[str]) -> SearchSpace:
        """Return this space less the settings in `keys` (a key also drops what is nested in it)."""
        kept = [
            p
            for p in self.parameters
            if not any(p.key == key or p.key.startswith(f"{key}.") for key in keys)
        ]
        return SearchSpace(tuple(kept))

    def merged(self, other: SearchSpace) -> SearchSpace:
        """Return this space with `other`'s settings added or put in place of its own."""
        return SearchSpace((*self.without(set(other.keys)).parameters, *other.parameters))

    @cached_property
    def ordered(self) -> tuple[Parameter, ...]:
        """The parameters with each one after those that its conditions are on."""
        return in_order(self.parameters)

    def settled(
        self, config: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> tuple[SearchSpace, dict[str, str]]:
        """Return this space without conditions on settings that are not searched.

        In a space that is not settled such a condition never holds.

        Args:
            config: The fixed settings.
            defaults: The values of settings that are neither fixed nor searched.

        Returns:
            The space, without settings that are never active; and of those the key and why.

        Raises:
            SpaceKeyError: A condition is on an unknown setting.
        """
        parameters, never = settle(self.parameters, config, defaults)
        return SearchSpace(parameters), never

    def config(self, searched: Mapping[str, Any]) -> dict[str, Any]:
        """Return the nested config dict for searched values by parameter name.

        Inactive settings are left out of it, whether or not they have a value.
        """
        settings: dict[KeyPath, Any] = {}
        for parameter in self.ordered:
            if parameter.active(settings):
                settings[parameter.path] = parameter.domain.value(searched[parameter.name])
        result: dict[str, Any] = {}
        for parameter in self.parameters:  # as the space lists them
            if parameter.path in settings:
                assign(result, parameter.path, settings[parameter.path])
        return result

    def sample(
        self, rng: np.random.Generator, given: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Draw searched values of the active settings, by parameter name.

        Args:
            rng: The source of chance.
            given: Searched values that are not drawn: the grids' (see `grid_points`), a point's.
        """
        drawn = dict(given or {})
        settings: dict[KeyPath, Any] = {}
        for parameter in self.ordered:
            if not parameter.active(settings):
                continue
            if parameter.name not in drawn:
                if isinstance(parameter.domain, Grid):
                    continue
                drawn[parameter.name] = parameter.domain.sample(rng)
            settings[parameter.path] = parameter.domain.value(drawn[parameter.name])
        return drawn

    def grid_points(self, *, whole: bool = False) -> Iterator[dict[str, Any]]:
        """Return every combination of the grids' searched values; of all domains with `whole`.

        A combination has no value for settings that are inactive in it, so none comes twice. A
        grid whose condition is on a setting that is drawn is listed as if the condition held.
        """
        chosen = [p for p in self.parameters if whole or isinstance(p.domain, Grid)]
        for parameter in chosen:
            if parameter.domain.finite is None:
                raise SpecError(
                    f"{parameter.key}: a grid search cannot list {parameter.domain.kind}; "
                    f"use grid, choice, quniform or randint with at most {MAX_LISTED:,} values"
                )
        listed = {p.path for p in chosen}
        chosen = [
            p.given(tuple(c for c in p.conditions if c.path in listed)) for p in self.ordered
            if p.path in listed
        ]  # fmt: skip
        yield from _combinations(chosen, {}, {})

    def most_grid_points(self, *, whole: bool = False) -> int:
        """Return how many `grid_points` there are at most: as if no setting had a condition."""
        chosen = [p for p in self.parameters if whole or isinstance(p.domain, Grid)]
        return math.prod(len(p.domain.finite or (None,)) for p in chosen)

    def probes(self) -> Iterator[tuple[Parameter, dict[str, Any]]]:
        """Return each parameter with config dicts whose validity implies that of all its values."""
        for parameter in self.parameters:
            for probe in parameter.domain.probes():
                config: dict[str, Any] = {}
                assign(config, parameter.path, parameter.domain.value(probe))
                yield parameter, config

    def check(self, config_class: type[ChecksSettings]) -> SearchSpace:
        """Check every key and every bound against an algorithm's settings.

        Returns:
            The space with canonical names in place of legacy ones.

        Raises:
            SpecError: A key is unknown or a bound is not allowed; `key` says which.
        """
        canonical: dict[KeyPath, Parameter] = {}
        for parameter, probe in self._by_dots().probes():
            path = _canonical_path(config_class, parameter.path, probe, parameter.key)
            known = canonical.setdefault(path, replace(parameter, path=path))
            if known.domain is not parameter.domain:
                raise SpaceKeyError(parameter.key, f"{'.'.join(path)} is searched twice")
        return SearchSpace(
            tuple(p.given(_canonical_conditions(config_class, p)) for p in canonical.values())
        )

    def _by_dots(self) -> SearchSpace:
        """Return the space with `model/x` as `model.x`: no setting has a slash in its name."""
        return SearchSpace(
            tuple(
                replace(p, path=_by_dots(p.path)).given(
                    tuple(replace(c, path=_by_dots(c.path)) for c in p.conditions)
                )
                for p in self.parameters
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the YAML form, by setting."""
        return {parameter.key: parameter.to_dict() for parameter in self.parameters}

    def to_tune(self, defaults: Any = None) -> dict[str, Any]:
        """Return a Ray Tune `param_space`, for a hand-written `tune.Tuner` with Tune's sampling.

        Continuous domains with a transform, and those with a condition, become `tune.sample_from`,
        which Tune's searchers do not accept: for its Optuna search see `to_optuna`. A sweep from a
        spec has no such limit.

        Args:
            defaults: What an inactive setting is, as Tune cannot leave it out; needed if the space
                has conditions. A config object such as `DQNConfig()`, or a dict.

        Raises:
            SpecError: The space has conditions, and `defaults` lacks a setting.
        """
        return to_tune(self.ordered, defaults)

    def to_optuna(self) -> DefineByRun:
        """Return the function that Ray Tune's Optuna search takes in place of a `param_space`.

        Example:
            `OptunaSearch(load_space("ppo").to_optuna(), metric="episode_return_mean", mode="max")`

        Raises:
            SpecError: The space has a grid.
        """
        return DefineByRun(self.ordered)


def _by_dots(path: KeyPath) -> KeyPath:
    return (*path[0].split("/"), *path[1:])


def _walk(
    document: Document, entries: Any, place: tuple[str, ...], setting: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, tuple[str, ...]]]:
    """Yield (setting path, domain entry, place in the document) of every domain below `entries`."""
    if not isinstance(entries, Mapping):
        raise document.error(place, f"{entries!r} is not a mapping of settings to domains")
    for key, entry in entries.items():
        here = (*place, key)
        path = (*setting, *str(key).split("."))
        if is_domain(entry):
            yield path, entry, here
        elif (
            isinstance(entry, Mapping)
            and entry
            and all(isinstance(v, Mapping) for v in entry.values())
        ):
            yield from _walk(document, entry, here, path)
        else:
            raise document.error(here, f"{'.'.join(path)}: {_not_a_domain(entry)}")


def _not_a_domain(entry: Any) -> str:
    allowed = ", ".join(DOMAINS)
    if isinstance(entry, Mapping) and entry:
        name = next(key for key, value in entry.items() if not isinstance(value, Mapping))
        return f"unknown domain {name!r}; allowed: {allowed}{suggestion(name, KINDS)}"
    return (
        f"{entry!r} is no domain; allowed: {allowed}, e.g. {{uniform: [0, 1]}} "
        "(a fixed value belongs under config)"
    )


def _combinations(
    parameters: list[Parameter], point: dict[str, Any], settings: dict[KeyPath, Any]
) -> Iterator[dict[str, Any]]:
    """Return every point of the active ones among `parameters`, the last one changing fastest."""
    if not parameters:
        yield dict(point)
        return
    first, rest = parameters[0], parameters[1:]
    if not first.active(settings):
        yield from _combinations(rest, point, settings)
        return
    for searched in first.domain.finite or ():
        value = first.domain.value(searched)
        yield from _combinations(
            rest, {**point, first.name: searched}, {**settings, first.path: value}
        )


def _canonical_path(
    config_class: type[ChecksSettings], path: KeyPath, probe: Mapping[str, Any], key: str
) -> KeyPath:
    """Return the path with the outermost setting's canonical name; checks the probe's value."""
    try:
        checked = config_class.check(probe)
    except ValueError as error:
        raise SpaceKeyError(key, str(error)) from None
    if len(checked) != 1:
        raise SpaceKeyError(key, f"stands for several settings and cannot be searched: {checked}")
    return (next(iter(checked)), *path[1:])


def _canonical_conditions(
    config_class: type[ChecksSettings], parameter: Parameter
) -> tuple[Condition, ...]:
    """Return the conditions by the settings' canonical names; checks their values."""
    found = []
    for condition in parameter.conditions:
        path = condition.path
        for value in condition.values:
            probe: dict[str, Any] = {}
            assign(probe, condition.path, value)
            try:
                path = _canonical_path(config_class, condition.path, probe, parameter.key)
            except SpaceKeyError as error:
                below = ("when", condition.key)
                raise SpaceKeyError(parameter.key, f"when: {error}", below) from None
        found.append(Condition(path, condition.values))
    return tuple(found)
