"""Estimators by name, and what the setting `off_policy_estimation_methods` may have."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from trainables.core.callables import resolve_callable
from trainables.core.config.settings import contains_search_domain
from trainables.core.errors import ConfigError
from trainables.core.estimation.direct_method import DirectMethod
from trainables.core.estimation.doubly_robust import DoublyRobust
from trainables.core.estimation.evaluator import OfflineEvaluator
from trainables.core.estimation.feature_importance import FeatureImportance
from trainables.core.estimation.importance_sampling import (
    ImportanceSampling,
    WeightedImportanceSampling,
)
from trainables.core.suggestions import suggestion

METHODS: dict[str, type[OfflineEvaluator]] = {
    kind.__name__: kind
    for kind in (
        ImportanceSampling,
        WeightedImportanceSampling,
        DirectMethod,
        DoublyRobust,
        FeatureImportance,
    )
}
SHORT = {
    "is": "ImportanceSampling",
    "wis": "WeightedImportanceSampling",
    "dm": "DirectMethod",
    "dr": "DoublyRobust",
}
"""The reference's short names."""

_SETTING = "off_policy_estimation_methods"


def make_evaluator(name: str, given: Any) -> OfflineEvaluator:
    """Return what one entry of `off_policy_estimation_methods` names.

    Args:
        name: The entry's.
        given: `{"type": a name, a class or 'module:name' of one, **keywords}`.

    Raises:
        ConfigError: naming the entry and what is allowed.
    """
    kind, keywords = _parted(name, given)
    found = kind if inspect.isclass(kind) else _named(name, str(kind))
    if not (inspect.isclass(found) and issubclass(found, OfflineEvaluator)):
        raise ConfigError(
            f"{_SETTING}: {name!r}: type = {kind!r} is not allowed; allowed: {_allowed()}"
        )
    try:
        return found.of(keywords)
    except ConfigError as error:
        raise ConfigError(f"{_SETTING}: {name!r}: {error}") from None


def check_methods(methods: Mapping[str, Any]) -> None:
    """Check entries of the setting; code that they name is not imported, and domains pass.

    Raises:
        ConfigError: naming the entry and what is allowed.
    """
    for name, given in methods.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ConfigError(
                f"{_SETTING}: the name {name!r} is not allowed; allowed: a text without '/'"
            )
        if contains_search_domain(given) and not isinstance(given, Mapping):
            continue
        kind, keywords = _parted(name, given)
        if contains_search_domain(kind) or (isinstance(kind, str) and _is_code(kind)):
            continue
        found: Any = kind if inspect.isclass(kind) else _named(name, str(kind))
        fixed = {n: value for n, value in keywords.items() if not contains_search_domain(value)}
        make_evaluator(name, {"type": found, **fixed})
        if unknown := [n for n in keywords if n not in fixed and n not in found.settings()]:
            raise ConfigError(f"{_SETTING}: {name!r}: {found.unknown(unknown[0])}")


def known_type(kind: str) -> str | None:
    """Return the canonical name of an estimator of ours; None: the text names something else."""
    # The reference's full paths: ray.rllib.offline.estimators.doubly_robust::DoublyRobust, and with
    # dots.
    name = kind.replace("::", ".").rpartition(".")[2] if kind.startswith("ray.") else kind
    name = SHORT.get(name, name)
    return name if name in METHODS else None


def is_known_type(given: Any) -> bool:
    """Tell whether an entry's `type` is an estimator of ours, which runs no other code."""
    return isinstance(given, str) and known_type(given) is not None


def _is_code(kind: str) -> bool:
    return ":" in kind and known_type(kind) is None


def _named(name: str, kind: str) -> Any:
    """Return what a text names."""
    known = known_type(kind)
    if known is not None:
        return METHODS[known]
    if _is_code(kind):
        return resolve_callable(kind)
    raise ConfigError(
        f"{_SETTING}: {name!r}: type = {kind!r} is not allowed; allowed: {_allowed()}"
        f"{suggestion(kind, [*METHODS, *SHORT])}"
    )


def _parted(name: str, given: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(given, Mapping) or "type" not in given:
        raise ConfigError(
            f"{_SETTING}: {name!r} = {given!r} is not allowed; allowed: a dict with 'type' and "
            "keywords of that type"
        )
    keywords = {key: value for key, value in given.items() if key != "type"}
    return given["type"], keywords


def _allowed() -> str:
    names = ", ".join(repr(name) for name in [*METHODS, *SHORT])
    return f"{names}, or a class of OfflineEvaluator, as itself or as 'module:name'"
