"""When a setting is searched at all: `when: {noisy: true}` beside its domain.

A condition compares settings, not what is searched: `when: {minibatch_size: 64}` whatever the
transform. A setting whose conditions do not all hold is inactive: it is left out of the trial's
config, so that the trainable's default holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search_spaces.documents import SpecError
from search_spaces.parameter import Condition, KeyPath, Parameter, same
from trainables.core.suggestions import suggestion


class SpaceKeyError(SpecError):
    """Something is wrong with one searched setting.

    Attributes:
        key: The setting.
        below: The keys beside its domain at which it is wrong, e.g. `("when", "noisy")`.
    """

    def __init__(self, key: str, message: str, below: KeyPath = ()) -> None:
        super().__init__(message)
        self.key = key
        self.below = below


def parse_conditions(when: Any) -> tuple[Condition, ...]:
    """Build the conditions that `when` describes; several must all hold.

    Args:
        when: `{setting: value}` or `{setting: [one, or, another]}`; None is no condition.

    Raises:
        SpecError: What is wrong with it, without the setting's name.
    """
    if when is None:
        return ()
    if not isinstance(when, Mapping) or not when:
        raise SpecError(f"when = {when!r} is not a mapping of settings to values")
    conditions = []
    for key, values in when.items():
        if isinstance(values, Mapping):
            raise SpecError(
                f"when: {key} = {values!r} is not a value; write a setting inside a dict with a "
                f"dot: {key}.{next(iter(values), 'setting')}"
            )
        if isinstance(values, (list, tuple)) and not values:
            raise SpecError(f"when: {key} = [] never holds; list at least one value")
        several = isinstance(values, (list, tuple))
        conditions.append(
            Condition(tuple(str(key).split(".")), tuple(values) if several else (values,))
        )
    return tuple(conditions)


def check_conditions(parameters: tuple[Parameter, ...]) -> None:
    """Check the conditions on settings that are searched themselves.

    Raises:
        SpaceKeyError: One is on the setting itself, on a continuous one, or on a value that the
            other setting cannot have; or they go round in a circle.
    """
    by_path = {parameter.path: parameter for parameter in parameters}
    for parameter in parameters:
        for condition in parameter.conditions:
            below = ("when", condition.key)
            if condition.path == parameter.path:
                message = f"when: {condition.key} is the setting itself"
                raise SpaceKeyError(parameter.key, message, below)
            parent = by_path.get(condition.path)
            if parent is not None:
                problem = _impossible(condition, parent)
                if problem:
                    raise SpaceKeyError(parameter.key, f"when: {problem}", below)
    in_order(parameters)


def in_order(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return the parameters with each one after those that its conditions are on.

    Raises:
        SpaceKeyError: The conditions go round in a circle.
    """
    by_path = {parameter.path: parameter for parameter in parameters}
    done: dict[KeyPath, Parameter] = {}

    def visit(parameter: Parameter, trail: tuple[KeyPath, ...]) -> None:
        if parameter.path in done:
            return
        if parameter.path in trail:
            start = trail.index(parameter.path)
            circle = " -> ".join(".".join(path) for path in (*trail[start:], parameter.path))
            message = f"when: the conditions go round in a circle: {circle}"
            raise SpaceKeyError(parameter.key, message, ("when",))
        for condition in parameter.conditions:
            if condition.path in by_path:
                visit(by_path[condition.path], (*trail, parameter.path))
        done[parameter.path] = parameter

    for parameter in parameters:
        visit(parameter, ())
    return tuple(done.values())


def settle(
    parameters: tuple[Parameter, ...], config: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[tuple[Parameter, ...], dict[str, str]]:
    """Decide the conditions on settings that are not searched.

    Args:
        parameters: The searched settings.
        config: The fixed settings.
        defaults: The values of settings that are neither fixed nor searched.

    Returns:
        The parameters without those conditions; and of each that is never active its key and why.

    Raises:
        SpaceKeyError: A condition is on an unknown setting.
    """
    kept: dict[KeyPath, Parameter] = {}
    never: dict[KeyPath, str] = {}
    searched = {parameter.path for parameter in parameters}
    for parameter in in_order(parameters):
        open_conditions = []
        for condition in parameter.conditions:
            if condition.path in never:
                never[parameter.path] = f"{condition.key} is never searched either"
            elif condition.path in searched:
                open_conditions.append(condition)
            else:
                value, origin = _fixed(parameter, condition, searched, config, defaults)
                if not condition.admits(value):
                    never[parameter.path] = f"it needs {condition}, but {origin} {value!r}"
        kept[parameter.path] = parameter.given(tuple(open_conditions))
    result = tuple(kept[p.path] for p in parameters if p.path not in never)
    return result, {".".join(path): why for path, why in never.items()}


def _fixed(
    parameter: Parameter,
    condition: Condition,
    searched: set[KeyPath],
    config: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> tuple[Any, str]:
    """Return the value of a setting that is not searched, and where it comes from."""
    for settings, origin in ((config, "config fixes it to"), (defaults, "its default is")):
        found, value = look_up(settings, condition.path)
        if found:
            return value, origin
    known = [*(".".join(path) for path in searched - {parameter.path}), *config, *defaults]
    raise SpaceKeyError(
        parameter.key,
        f"when: unknown setting {condition.key!r}; a condition is on a setting that is searched "
        f"or fixed{suggestion(condition.key, known)}",
        ("when", condition.key),
    )


def settings_of(config: Any) -> dict[str, Any]:
    """Return the settings of a config object, those inside its dicts included.

    `DQNConfig().to_dict()` has an empty `replay_buffer_config`, whose settings have defaults too.
    """
    settings: dict[str, Any] = config.to_dict()
    for name, nested in getattr(config, "nested_settings", dict)().items():
        of_class = getattr(config, f"{name}_defaults", {})
        settings[name] = {**nested().to_dict(), **of_class, **(settings.get(name) or {})}
    return settings


def look_up(settings: Mapping[str, Any], path: KeyPath) -> tuple[bool, Any]:
    """Tell whether nested settings have a value at `path`, and the value."""
    node: Any = settings
    for key in path:
        if not isinstance(node, Mapping) or key not in node:
            return False, None
        node = node[key]
    return True, node


def _impossible(condition: Condition, parent: Parameter) -> str | None:
    finite = parent.domain.finite
    if finite is None:
        return (
            f"{condition.key} is drawn from {parent.domain.kind}, of which no single value is "
            "ever drawn; a condition needs choice, grid, randint, lograndint or quniform"
        )
    possible = [parent.domain.value(searched) for searched in finite]
    for value in condition.values:
        if not any(same(value, one) for one in possible):
            shown = ", ".join(map(repr, possible[:12])) + (", …" if len(possible) > 12 else "")
            return f"{condition.key} is never {value!r}; its values: {shown}"
    return None
