"""Fluent methods of a config, such as `.training(lr=…)`, made from declarations of settings."""

from __future__ import annotations

import inspect
from typing import Any

# Sections of the reference whose settings moved between its generations: either one is accepted.
SAME_SECTION: dict[str, tuple[str, ...]] = {
    "env_runners": ("fault_tolerance", "resources"),
    "resources": ("env_runners", "learners"),
    "learners": ("resources",),
    "rl_module": ("training",),
    "experimental": ("api_stack", "training"),
    "fault_tolerance": ("env_runners",),
}


class Section:
    """A fluent method such as `.training(lr=…)`: sets the settings of one section.

    A descriptor, because the signature and the documentation differ per config class: they are
    generated from the declarations, so that `help(PPOConfig.training)` lists PPO's settings.
    """

    def __init__(self, title: str, positional: str | None = None):
        self._title = title
        self._positional = positional

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        positional, section = self._positional, self._name

        def method(*args: Any, **values: Any) -> Any:
            if instance is None:
                if not args:
                    raise TypeError(f"{owner.__name__}.{section}() needs an instance")
                return getattr(args[0], section)(*args[1:], **values)
            if len(args) > (1 if positional else 0):
                raise TypeError(f".{section}() takes keyword arguments, not {args!r}")
            if args and positional:
                values = {positional: args[0], **values}
            return instance.set_section(section, values)

        method.__name__ = section
        method.__doc__ = self._documentation(owner)
        method.__signature__ = self._signature(owner)  # type: ignore[attr-defined]
        return method

    def _documentation(self, owner: type[Any]) -> str:
        lines = [self._title, "", "Args:"]
        for name, declared in owner.settings().items():
            if declared.section == self._name:
                lines.append(
                    f"    {name}: {declared.doc} ({declared.allowed}; default {declared.default!r})"
                )
        return "\n".join([*lines, "", "Returns:", "    This config."])

    def _signature(self, owner: type[Any]) -> inspect.Signature:
        kinds = inspect.Parameter
        parameters = [
            kinds(
                name,
                kinds.POSITIONAL_OR_KEYWORD if name == self._positional else kinds.KEYWORD_ONLY,
                default=declared.default,
                annotation=declared.annotation,
            )
            for name, declared in owner.settings().items()
            if declared.section == self._name
        ]
        return inspect.Signature(parameters, return_annotation=owner)
