"""Optional features: the one table of them, and how the core reaches one without importing it.

A feature is code that most trials never need: several agents, recorded data, a league, curiosity,
actors, export. The core asks for it by name when a setting, an environment or a call needs it, and
its module is imported then. No other file of the core names a feature's module.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple


class Running:
    """What a feature does in an algorithm that runs. A hook does nothing unless it is overridden.

    Attributes:
        name: The name of its state in a checkpoint.
    """

    name: ClassVar[str]

    def begin(self) -> None:
        """Begin, once the algorithm is set up, and what a subclass adds to it."""

    def end_iteration(self) -> dict[str, float]:
        """Take note of the end of an iteration; return what its result has of it."""
        return {}

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over `get_state`'s."""


class Feature:
    """What a feature adds to an algorithm. A hook does nothing unless the feature overrides it.

    A feature may have more methods: the core calls them where it asks for the feature by name.
    """

    def learner_parts(self, config: Any, policy: Any) -> Mapping[str, Any]:
        """Return the learner parts that it adds to a policy's module, by name.

        Args:
            config: The config of the module.
            policy: The policy of the process that learns.
        """
        return {}

    def replace_learner(self, kind: type[Any]) -> type[Any]:
        """Return the class that a learner is made of in place of another one."""
        return kind

    def replace_env_runner(self, kind: type[Any]) -> type[Any]:
        """Return the class that an env runner is made of in place of another one."""
        return kind

    def prepare(self, config: Any) -> None:
        """See that a trial can have what it asks for, before anything of it is built.

        Args:
            config: The trial's config, which is valid.

        Raises:
            ConfigError: If it cannot.
        """

    def complete(self, config: Any) -> None:
        """Set what the settings leave to the feature.

        Args:
            config: The config of an algorithm, which is valid and not frozen yet.
        """

    def set_up(self, algorithm: Any, seed: int) -> Running | None:
        """Return what it does in an algorithm; None: nothing.

        Args:
            algorithm: The algorithm, all of whose parts are there.
            seed: The root of the trial's random streams, see `runtime.random_streams`.
        """
        return None


class Known(NamedTuple):
    """A feature that is not imported yet.

    Attributes:
        module: The module whose `FEATURE` it is.
        is_used: Whether a config that is checked uses it; None: only a call or an environment does.
    """

    module: str
    is_used: Callable[[Any], bool] | None = None


_ASKED: ContextVar[tuple[str, ...]] = ContextVar("features", default=())

FEATURES: dict[str, Known] = {
    "agents": Known("trainables.lifecycle.agents.feature"),
    "video": Known(
        "trainables.runtime.envs.video",
        lambda config: bool(
            config.record_env or config.render_env or config.evaluation_config.get("render_env")
        ),
    ),
    "actors": Known(
        "trainables.runtime.actors.feature",
        lambda config: bool(
            config.num_env_runners or config.evaluation_num_env_runners or config.num_learners
        ),
    ),
    "batching": Known("trainables.runtime.members.feature"),
    "callbacks": Known("trainables.runtime.callbacks.feature"),
    "calls": Known("trainables.core.policy.calls.feature"),
    "compiling": Known("trainables.core.compiled"),
    "connectors": Known("trainables.core.policy.connectors.feature"),
    "curiosity": Known(
        "trainables.core.curiosity.feature",
        lambda config: config.resolve().intrinsic is not None,
    ),
    "frames": Known("trainables.core.data.frame_stack"),
    "networks": Known("trainables.core.networks.chosen.feature"),
    "estimates": Known("trainables.runtime.offline.estimates"),
    "evaluation": Known("trainables.runtime.evaluation.feature"),
    "reference": Known("trainables.core.config.reference.feature"),
    "noise": Known("trainables.core.policy.noise"),
    "shelf": Known("trainables.core.policy.shelf"),
    "export": Known("trainables.lifecycle.exporting"),
    "no_env": Known("trainables.lifecycle.no_env"),
    "restoring": Known("trainables.lifecycle.restoring.feature"),
    "tasks": Known("trainables.runtime.envs.curriculum"),
    "env_checks": Known("trainables.runtime.envs.checks"),
    "games": Known("trainables.runtime.envs.games.known"),
    "league": Known("trainables.runtime.league.feature", lambda config: config.league is not None),
    "offline": Known("trainables.runtime.offline.feature"),
}


@functools.cache
def feature(name: str) -> Any:
    """Import a feature when it is first needed.

    Args:
        name: The name in `FEATURES`.
    """
    return importlib.import_module(FEATURES[name].module).FEATURE


@contextmanager
def using(name: str) -> Iterator[None]:
    """Have what is built in here use a feature that no setting asks for.

    Args:
        name: The name in `FEATURES`.
    """
    token = _ASKED.set((*_ASKED.get(), name))
    try:
        yield
    finally:
        _ASKED.reset(token)


def features_of(config: Any) -> list[Feature]:
    """Return the features that a config uses, and those of `using`, in order of the table."""
    asked = _ASKED.get()
    return [
        feature(name)
        for name, known in FEATURES.items()
        if name in asked or (known.is_used and known.is_used(config))
    ]


class FeatureSettings:
    """What a feature's settings mean, without PyTorch and Ray. A hook does nothing by default.

    It is asked where one of the settings is not its default. It may have more methods.
    """

    def plain(self, config_class: Any, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return values in plain forms, before their types are checked; search domains pass.

        Args:
            config_class: The config class that they are for.
            values: The settings that are given, the feature's and others.

        Raises:
            ConfigError: for a form that is not allowed.
        """
        return values

    def check_values(self, config_class: Any, checked: Mapping[str, Any]) -> None:
        """Check values whose types are right; search domains pass.

        Raises:
            ConfigError: for a value that is not allowed.
        """

    def check(self, config: Any) -> None:
        """Check what must hold between settings.

        Raises:
            ConfigError: naming the settings that do not fit together.
        """

    def inside(self, config_class: Any, name: str) -> Any:
        """Return the class of the settings that a dict given as a setting has, None if none."""
        return None


# In the order in which they are asked.
SETTINGS: dict[str, str] = {
    "agents": "trainables.core.config.agents.feature",
    "offline": "trainables.core.config.recorded.feature",
    "estimates": "trainables.core.config.recorded.estimates",
    "curiosity": "trainables.core.curiosity.settings",
    "networks": "trainables.core.config.conv_filters",
    "evaluation": "trainables.core.config.evaluations",
}


@functools.cache
def feature_settings(name: str) -> Any:
    """Import what a feature's settings mean when it is first needed.

    Args:
        name: The name in `SETTINGS`.
    """
    return importlib.import_module(SETTINGS[name]).SETTINGS
