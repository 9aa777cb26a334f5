"""A search space: which settings are searched, over which domains."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from search_spaces.documents import Document, SpecError, nearest
from search_spaces.domains import DOMAINS, KINDS, Choice, Domain, Grid, is_domain, parse_domain


class ChecksSettings(Protocol):
    """A config class: `check` returns the dict with canonical names, or raises `ValueError`."""

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check names, types and ranges."""


@dataclass(frozen=True)
class Parameter:
    """One searched setting: its path in the config, and its domain."""

    path: tuple[str, ...]
    domain: Domain

    @property
    def key(self) -> str:
        """The setting as written: `lr`, `model.fcnet_activation`."""
        return ".".join(self.path)

    @property
    def name(self) -> str:
        """The searched parameter: the setting, or with a transform e.g. `one_minus_gamma`."""
        transform = self.domain.transform
        if transform is None:
            return self.key
        return ".".join((*self.path[:-1], transform.label.format(self.path[-1])))


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
        return cls.parse_document(Document(dict(entries), source), ())

    @classmethod
    def parse_document(cls, document: Document, path: tuple[str, ...]) -> SearchSpace:
        """Build from the mapping at `path` of a document; errors name file and line."""
        entries: Any = document.data
        for key in path:
            entries = entries[key]
        parameters: list[Parameter] = []
        taken: dict[tuple[str, ...], str] = {}
        for setting, entry, place in _walk(document, entries, path):
            try:
                parameter = Parameter(setting, parse_domain(entry))
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
        """This space less the settings in `keys` (a key also drops what is nested in it)."""
        kept = [
            p
            for p in self.parameters
            if not any(p.key == key or p.key.startswith(f"{key}.") for key in keys)
        ]
        return SearchSpace(tuple(kept))

    def merged(self, other: SearchSpace) -> SearchSpace:
        """This space with `other`'s settings added or put in place of its own."""
        return SearchSpace((*self.without(set(other.keys)).parameters, *other.parameters))

    def config(self, searched: Mapping[str, Any]) -> dict[str, Any]:
        """The nested config dict for searched values by parameter name."""
        result: dict[str, Any] = {}
        for parameter in self.parameters:
            value = parameter.domain.value(searched[parameter.name])
            assign(result, parameter.path, value)
        return result

    def sample(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw searched values by parameter name. Grids are not drawn: see `grid_points`."""
        return {
            parameter.name: parameter.domain.sample(rng)
            for parameter in self.parameters
            if not isinstance(parameter.domain, Grid)
        }

    def grid_points(self, *, whole: bool = False) -> Iterator[dict[str, Any]]:
        """Every combination of the grids' searched values; of all domains with `whole`."""
        chosen = [p for p in self.parameters if whole or isinstance(p.domain, Grid)]
        values = []
        for parameter in chosen:
            finite = parameter.domain.finite
            if finite is None:
                raise SpecError(
                    f"{parameter.key}: a grid search cannot list {parameter.domain.kind}; "
                    "use grid, choice, quniform or randint"
                )
            values.append(finite)
        for combination in itertools.product(*values):
            yield {p.name: value for p, value in zip(chosen, combination, strict=True)}

    def probes(self) -> Iterator[tuple[Parameter, dict[str, Any]]]:
        """Each parameter with config dicts whose validity implies that of all its values."""
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
        canonical: dict[tuple[str, ...], Parameter] = {}
        for parameter, probe in self.probes():
            try:
                checked = config_class.check(probe)
            except ValueError as error:
                raise SpaceKeyError(parameter.key, str(error)) from None
            path = _canonical_path(parameter, checked)
            known = canonical.setdefault(path, Parameter(path, parameter.domain))
            if known.domain is not parameter.domain:
                raise SpaceKeyError(parameter.key, f"{'.'.join(path)} is searched twice")
        return SearchSpace(tuple(canonical.values()))

    def to_dict(self) -> dict[str, Any]:
        """The YAML form, by setting."""
        return {parameter.key: parameter.domain.to_dict() for parameter in self.parameters}

    def to_tune(self) -> dict[str, Any]:
        """As a Ray Tune `param_space`, for a hand-written `tune.Tuner` with Tune's own sampling.

        A domain with a transform becomes `tune.sample_from`, which searchers such as Optuna's do
        not accept: a sweep from a spec has no such limit.
        """
        from ray import tune

        native: dict[str, Any] = {
            "uniform": tune.uniform,
            "loguniform": tune.loguniform,
            "randint": tune.randint,
            "lograndint": tune.lograndint,
        }
        result: dict[str, Any] = {}
        for parameter in self.parameters:
            domain = parameter.domain
            if isinstance(domain, Grid):
                entry: Any = tune.grid_search([domain.value(v) for v in domain.values])
            elif isinstance(domain, Choice):
                entry = tune.choice([domain.value(v) for v in domain.values])
            elif domain.transform is None and domain.kind in native:
                entry = native[domain.kind](*domain.arguments())
            else:
                entry = tune.sample_from(_Sampler(domain))
            assign(result, parameter.path, entry)
        return result


class SpaceKeyError(SpecError):
    """A searched setting is unknown, or a bound of its domain is not allowed."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class _Sampler:
    """A function for `tune.sample_from` that draws a domain with numpy's global generator."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def __call__(self, spec: Any) -> Any:
        seed = int(np.random.randint(2**31))
        return self.domain.value(self.domain.sample(np.random.default_rng(seed)))


def assign(config: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the value at a nested path, making the dicts on the way."""
    for key in path[:-1]:
        config = config.setdefault(key, {})
    config[path[-1]] = value


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
        elif isinstance(entry, Mapping) and entry and all(_nested(v) for v in entry.values()):
            yield from _walk(document, entry, here, path)
        else:
            raise document.error(here, f"{'.'.join(path)}: {_not_a_domain(entry)}")


def _nested(entry: Any) -> bool:
    return isinstance(entry, Mapping)


def _not_a_domain(entry: Any) -> str:
    allowed = ", ".join(DOMAINS)
    if isinstance(entry, Mapping) and entry:
        name = next(key for key, value in entry.items() if not _nested(value))
        return f"unknown domain {name!r}; allowed: {allowed}{nearest(name, KINDS)}"
    return (
        f"{entry!r} is no domain; allowed: {allowed}, e.g. {{uniform: [0, 1]}} "
        "(a fixed value belongs under config)"
    )


def _canonical_path(parameter: Parameter, checked: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameter's path with the outermost setting's canonical name."""
    if len(checked) != 1:
        raise SpaceKeyError(
            parameter.key, f"stands for several settings and cannot be searched: {list(checked)}"
        )
    return (next(iter(checked)), *parameter.path[1:])
