"""The fluent methods of a config, generated from the declarations of its settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from trainables.core.config.config_dict import SettingsDict
from trainables.core.config.older_names import TakesOlderNames
from trainables.core.config.reference import compatibility
from trainables.core.errors import ConfigError


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

    def __get__(self, instance: HasSections | None, owner: type[HasSections]) -> Any:
        positional, section = self._positional, self._name

        def method(*args: Any, **values: Any) -> HasSections:
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

    def _documentation(self, owner: type[HasSections]) -> str:
        lines = [self._title, "", "Args:"]
        for name, declared in owner.settings().items():
            if declared.section == self._name:
                lines.append(
                    f"    {name}: {declared.doc} ({declared.allowed}; default {declared.default!r})"
                )
        return "\n".join([*lines, "", "Returns:", "    This config."])

    def _signature(self, owner: type[HasSections]) -> inspect.Signature:
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


class HasSections(TakesOlderNames, SettingsDict):
    """Part of `AlgorithmConfig`: a fluent method for each section of settings."""

    # Settings of other sections that the reference has in `.training()` of this algorithm.
    also_in_training: ClassVar[tuple[str, ...]] = ()

    environment = Section("Set the environment and what happens to rewards and actions.", "env")
    env_runners = Section("Set how environments are sampled.")
    training = Section("Set how the algorithm learns.")
    learners = Section("Set where the learner computes.")
    resources = Section("Set the resources of a trial.")
    exploration = Section("Set how actions explore.")
    evaluation = Section("Set how the policy is evaluated during training.")
    reporting = Section("Set what a training iteration and its metrics cover.")
    checkpointing = Section("Set what checkpoints hold.")
    debugging = Section("Set logging and the seed.")
    framework = Section("Everything is PyTorch: only framework='torch' is accepted.", "framework")
    rl_module = Section("Set the module; `model_config` is another name of `model`.")
    api_stack = Section("There is one API stack: only True is accepted.")
    experimental = Section("Flags of the reference, accepted where they mean what is always so.")
    fault_tolerance = Section("Set what happens when environments fail.")
    offline_data = Section("Offline data: not supported yet.")
    multi_agent = Section("Multi-agent training: not supported yet.")
    callbacks = Section("Set what is called as the algorithm runs.", "callbacks_class")
    python_environment = Section("Set environment variables of a trial's processes.")

    def rollouts(self, **values: Any) -> Self:
        """The older name of `env_runners`."""
        return self.env_runners(**values)

    def set_section(self, section: str, values: Mapping[str, Any]) -> Self:
        """Set the settings of one section, as its fluent method does.

        Raises:
            ConfigError: naming the section that a setting belongs to, if it is another one.
        """
        known = type(self).settings()
        for name in values:
            home = home_section(name, known)
            near = {section, *_SAME_SECTION.get(section, ())}
            is_older_place = compatibility.ALIAS_SECTIONS.get(name) == section or (
                section == "training" and name in self.also_in_training
            )
            if home is not None and home not in near and not is_older_place:
                raise ConfigError(
                    f"{name!r} is not a setting of .{section}(); it belongs to .{home}()"
                )
        return self.update_from_dict(values)


# Sections of the reference whose settings moved between its generations: either one is accepted.
_SAME_SECTION: dict[str, tuple[str, ...]] = {
    "env_runners": ("fault_tolerance", "resources"),
    "resources": ("env_runners", "learners"),
    "learners": ("resources",),
    "rl_module": ("training",),
    "experimental": ("api_stack", "training"),
    "fault_tolerance": ("env_runners",),
}


def home_section(name: str, known: Mapping[str, Any]) -> str | None:
    """Return the section that a name belongs to, None if it is unknown."""
    target = compatibility.ALIASES.get(name, name)
    tables: tuple[Mapping[str, Any], ...] = (
        known,
        compatibility.CONSTANTS,
        compatibility.PLANNED,
        compatibility.REFUSED,
    )
    return next((str(table[target].section) for table in tables if target in table), None)
