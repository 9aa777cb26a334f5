"""How the settings of a config are set and read: by section, and as in a dict.

The fluent methods of the sections are generated from the declarations of settings.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from trainables.core.config.not_given import SAY_NOTHING, is_one_of
from trainables.core.config.own_settings import how_to_declare
from trainables.core.config.settings import Settings
from trainables.core.errors import ConfigError
from trainables.core.features import feature

# What is made of a config when it is first asked for, while it is frozen.
_MADE = ("_resolved", "_module_configs")
# What is no setting, and not copied with them.
_OWN = ("_is_frozen", "_is_given_away", *_MADE)


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


class SettingsDict(Settings):
    """Part of `AlgorithmConfig`: what a dict of settings can do, and read-only configs."""

    @classmethod
    def _with_entries(cls, values: Mapping[str, Any], present: Any = None) -> dict[str, Any]:
        """Return values with those that stand for entries of dicts in the dicts.

        Args:
            values: By the names that they were given under.
            present: The config so far, the dicts' other entries of which stay; None: there is none.

        Raises:
            ConfigError: if an entry is given by both names, with different values.
        """
        if values.keys() <= cls.settings().keys():
            return dict(values)
        return feature("reference").with_entries(cls, values, present)

    @classmethod
    def _canonical(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by names of settings, without those that ask for nothing.

        Raises:
            ConfigError: for a name that is none, or is not supported.
        """
        known = cls.settings()
        for name, value in values.items():
            is_plain = name in known and not is_one_of(SAY_NOTHING.get(name, ()), value)
            if not is_plain or (name in cls.without and value != known[name].default):
                return feature("reference").canonical(cls, values)
        return dict(values)

    @classmethod
    def known_names(cls) -> Iterable[str]:
        return feature("reference").known_names(cls)

    @classmethod
    def unknown_names(cls, names: Iterable[str]) -> set[str]:
        """Return those that are no setting of any algorithm, nor any name of the reference's."""
        return feature("reference").unknown_names(cls, names)

    @classmethod
    def _called_now(cls, name: str) -> str:
        return name if name in cls.settings() else str(feature("reference").called_now(name))

    @classmethod
    def hint(cls, name: str) -> str:
        words = feature("reference").hint(cls, name)
        if words is not None:
            return f"; {words}"
        return super().hint(name) or how_to_declare(cls, name)

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Older names can be read, too. Called only where there is no such attribute."""
            if name.startswith("__"):  # what copying asks for
                raise AttributeError(f"{type(self).__name__}.{name} does not exist")
            return feature("reference").attribute(self, name)

    @classmethod
    def overrides(cls, **values: Any) -> dict[str, Any]:
        """Return some settings, checked, as a dict, e.g. for `evaluation_config`."""
        return cls.check(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return a config of this class with the given settings; others keep their defaults."""
        return cls().update_from_dict(values)

    def update_from_dict(self, values: Mapping[str, Any]) -> Self:
        """Set each given setting (older names are mapped) and return this config."""
        for name, value in type(self).check(values).items():
            self._store(name, value)
        return self

    def _store(self, name: str, value: Any) -> None:
        """Set a setting to a value that is checked already.

        Raises:
            ConfigError: if this config is frozen.
        """
        self._refuse_if_frozen(name)
        object.__setattr__(self, name, value)

    def _refuse_if_frozen(self, name: str) -> None:
        """Refuse to set a setting of a read-only config.

        Raises:
            ConfigError: naming the setting.
        """
        if self.is_frozen:
            raise ConfigError(f"{name}: this config is frozen; change a copy(copy_frozen=False)")

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """Return a deep copy, frozen or not as asked; None keeps this one's state."""
        copied = object.__new__(type(self))
        self._give_extras(copied)
        for name, value in self.to_dict().items():  # checked when it was set
            object.__setattr__(copied, name, value)
        copied._is_frozen = self.is_frozen if copy_frozen is None else copy_frozen
        return copied

    def with_settings(self, values: Mapping[str, Any]) -> Self:
        """Return a config of this one's class and algorithm, with these settings alone."""
        made = type(self)().update_from_dict(values)
        self._give_extras(made)
        return made

    def _give_extras(self, other: Self) -> None:
        """Give another config what a subclass keeps besides settings."""
        for name, value in vars(self).items():
            if name not in (*type(self).settings(), *_OWN):
                object.__setattr__(other, name, copy.copy(value))

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process is made of; it resolves for itself."""
        return {name: value for name, value in vars(self).items() if name not in _MADE}

    def freeze(self) -> None:
        """Make this config read-only."""
        for name in _MADE:
            self.__dict__.pop(name, None)
        self._is_frozen = True

    @property
    def is_frozen(self) -> bool:
        """Whether this config is read-only."""
        return bool(self.__dict__.get("_is_frozen", False))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting, like a dict's `get`."""
        return self[key] if key in self else default  # noqa: SIM401 - that would call itself

    def pop(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting; it is a config, so nothing is removed."""
        return self.get(key, default)

    def keys(self) -> Iterator[str]:
        """Return names of all settings."""
        return iter(type(self).settings())

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __len__(self) -> int:
        return len(type(self).settings())

    def values(self) -> Iterator[Any]:
        """Return values of all settings."""
        return (getattr(self, name) for name in self.keys())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return names and values of all settings."""
        return ((name, getattr(self, name)) for name in self.keys())

    def __contains__(self, key: object) -> bool:
        return self._called_now(str(key)) in type(self).settings()

    def __getitem__(self, key: str) -> Any:
        target = self._called_now(key)
        if target not in type(self).settings():
            raise type(self).unknown(key)
        return getattr(self, target)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)


class HasSections(SettingsDict):
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
    offline_data = Section("Set what recorded experience is read, and what is recorded.")
    multi_agent = Section("Set policies, which agents they act for, and which are trained.")
    callbacks = Section("Set what is called as the algorithm runs.", "callbacks_class")
    python_environment = Section("Set environment variables of a trial's processes.")

    def rollouts(self, **values: Any) -> Self:
        """Set the same as `env_runners`, of which it is the older name."""
        return self.env_runners(**values)

    def set_section(self, section: str, values: Mapping[str, Any]) -> Self:
        """Set the settings of one section, as its fluent method does.

        Raises:
            ConfigError: naming the section that a setting belongs to, if it is another one.
        """
        known = type(self).settings()
        for name in values:
            older = None if name in known else feature("reference")
            home = older.section_of(type(self), name) if older else known[name].section
            near = {section, *_SAME_SECTION.get(section, ())}
            is_older_place = (older is not None and older.is_older_place(name, section)) or (
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
