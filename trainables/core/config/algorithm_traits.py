"""`AlgorithmTraits`: what an algorithm can do with settings, and checks that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from trainables.core.config.agents.league import LeagueConfig
from trainables.core.config.exploration import OPTIONS, ExplorationConfig
from trainables.core.config.intrinsic import (
    INTRINSIC_OPTIONS,
    how_actions_are_chosen,
    is_intrinsic,
)
from trainables.core.config.model import MEMORIES, ModelConfig, OptimizerConfig
from trainables.core.config.settings import Settings, is_search_domain
from trainables.core.errors import ConfigError
from trainables.core.features import feature


class AlgorithmTraits(Settings):
    """Part of `AlgorithmConfig`: what a subclass says that its algorithm has and does without.

    See `Settings.without`, too.
    """

    # What an algorithm's networks and optimiser are where `model` and `optimizer` do not say so.
    model_defaults: ClassVar[dict[str, Any]] = {}
    optimizer_defaults: ClassVar[dict[str, Any]] = {}
    # Settings of `model` that it does without, each with the reason.
    model_without: ClassVar[dict[str, str]] = {}
    # Settings of the hidden layers that a custom model takes the place of.
    _custom_model_replaces: ClassVar[tuple[str, ...]] = ("fcnet_activation",)
    # Why it cannot train networks with a memory, if it cannot.
    without_memory: ClassVar[str | None] = None
    # Why it cannot train policies of several agents; None: it can.
    several_agents: ClassVar[str | None] = "it trains one agent so far"
    # Whether its loss is of whole fragments, `[T, N]`, whose shape is part of what is compiled.
    compiles_fragments: ClassVar[bool] = False
    # Whether its updates hand on what policies of one encoder learn: `LearnerWorker.share_encoder`.
    shares_encoders: ClassVar[bool] = False
    # Whether all agents of an environment are one agent to it, a team.
    plays_as_team: ClassVar[bool] = False
    # Types of exploration that it can have, the first by default, and why it has no others.
    exploration_types: ClassVar[tuple[str, ...]] = ("StochasticSampling",)
    why_no_exploration: ClassVar[str] = "it learns from actions that its policy sampled"
    # Why it can have no intrinsic rewards; None: it can.
    why_no_intrinsic: ClassVar[str | None] = "nothing says that its updates ask for them"
    # Options of these that it does without, each with the reason.
    intrinsic_without: ClassVar[dict[str, str]] = {
        "intrinsic_gamma": "bonuses are added to the rewards there"
    }
    # Whether updates of several trials in one process can be made together.
    learns_together: ClassVar[bool] = False
    # Whether it learns from the log-probabilities of what was done.
    uses_logp: ClassVar[bool] = True

    # Older names that stand for several settings, or for an entry of a dict of them, with these.
    composites: ClassVar[dict[str, str]] = {}
    # Those of an entry: the setting that is a dict, and the name in it.
    older_entries: ClassVar[dict[str, tuple[str, str]]] = {}

    @classmethod
    def _algorithm(cls) -> str:
        """Return the algorithm's name, for messages."""
        return cls.__name__.removesuffix("Config")

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        """Return the settings that are dicts of settings."""
        return {
            "model": ModelConfig,
            "optimizer": OptimizerConfig,
            "exploration_config": ExplorationConfig,
            "league": LeagueConfig,
        }

    @classmethod
    def why_fixed(cls, path: Sequence[str]) -> str | None:
        if path[0] == "exploration_config" and len(path) > 1:
            why = cls._why_no_option(path[1])
            if why is not None:
                return why
        return cls.without.get(path[0]) or super().why_fixed(path)

    @classmethod
    def _check_traits(cls, checked: dict[str, Any]) -> dict[str, Any]:
        """Return checked settings, their dicts checked, as far as the algorithm has them.

        Raises:
            ConfigError: for what would be ignored, or is not possible with the algorithm.
        """
        for name, value in checked.items():
            cls._check_has_effect(name, value)
            nested = cls.nested_settings().get(name)
            if nested is not None and isinstance(value, dict) and not is_search_domain(value):
                checked[name] = cls._without_defaults(nested, nested.check(value))
            if nested is ModelConfig:
                cls._check_model(checked[name])
        cls._check_exploration(checked.get("exploration_config"))
        return checked

    @classmethod
    def _check_has_effect(cls, name: str, value: Any) -> None:
        """Refuse what would be accepted and ignored; the default passes, as in a round trip."""
        if name in cls.without and value != cls.settings()[name].default:
            raise ConfigError(
                f"{name} = {value!r} has no effect on {cls._algorithm()}: {cls.without[name]}"
            )

    @classmethod
    def _without_defaults(cls, nested: type[Settings], values: dict[str, Any]) -> dict[str, Any]:
        """Return a checked `model` dict without the reference's defaults that do nothing here."""
        if nested is not ModelConfig:
            return values
        without = cls.model_without
        return {
            name: value
            for name, value in values.items()
            if name not in without or not feature("reference").is_model_default(name, value)
        }

    @classmethod
    def _check_model(cls, model: Any) -> None:
        """Refuse what would be ignored, or what the algorithm cannot train, in a `model` dict."""
        if not isinstance(model, dict):
            return
        for name in model:
            if name in cls.model_without:
                raise ConfigError(
                    f"model setting {name!r} has no effect on {cls._algorithm()}: "
                    f"{cls.model_without[name]}"
                )
        for name in MEMORIES:
            if cls.without_memory is not None and model.get(name):
                raise ConfigError(
                    f"model setting {name} = {model[name]!r} is not possible with "
                    f"{cls._algorithm()}: {cls.without_memory}"
                )
        ModelConfig.check_given(model, cls._custom_model_replaces)

    @classmethod
    def _check_exploration(cls, given: Any) -> None:
        if not isinstance(given, dict) or is_search_domain(given):
            return
        if is_intrinsic(given):
            cls._check_intrinsic(given)
        acting = how_actions_are_chosen(given)
        kind = acting.get("type")
        if isinstance(kind, str) and kind not in cls.exploration_types:
            raise ConfigError(
                f"exploration_config: type = {kind!r} is not supported by {cls._algorithm()}: "
                f"{cls.why_no_exploration}; allowed: {', '.join(cls._own_types())}"
            )
        for name in acting:
            why = cls._why_no_option(name)
            if why is not None:
                raise ConfigError(f"exploration_config: {name!r}: {why}")
        if cls.uses_logp and acting.get("random_timesteps"):
            raise ConfigError(
                f"exploration_config: random_timesteps = {acting['random_timesteps']!r} is not "
                f"supported by {cls._algorithm()}: {cls.why_no_exploration}"
            )

    @classmethod
    def _own_types(cls) -> tuple[str, ...]:
        """Return the types of `exploration_config` that the algorithm can have."""
        intrinsic = () if cls.why_no_intrinsic else tuple(INTRINSIC_OPTIONS)
        return (*cls.exploration_types, *intrinsic)

    @classmethod
    def _check_intrinsic(cls, given: dict[str, Any]) -> None:
        if cls.why_no_intrinsic is not None:
            raise ConfigError(
                f"exploration_config: type = {given['type']!r} is not supported by "
                f"{cls._algorithm()}: {cls.why_no_intrinsic}; allowed: "
                f"{', '.join(cls.exploration_types)}"
            )
        for name, why in cls.intrinsic_without.items():
            if given.get(name) is not None:
                raise ConfigError(
                    f"exploration_config: {name} = {given[name]!r} is not supported by "
                    f"{cls._algorithm()}: {why}; leave it out"
                )

    @classmethod
    def _why_no_option(cls, name: str) -> str | None:
        """Return why an option of `exploration_config` is none of the algorithm's, or None."""
        if name in cls.intrinsic_without and not cls.why_no_intrinsic:
            return f"it is not supported by {cls._algorithm()}: {cls.intrinsic_without[name]}"
        options = {option for kind in cls._own_types() for option in OPTIONS[kind]}
        if name in ("type", *options):
            return None
        return f"{cls._algorithm()} does not explore so: {cls.why_no_exploration}"

    @classmethod
    def why_not_inside(cls, outer: str, inner: str) -> str | None:
        """Return why the algorithm does without a setting inside a dict of them, or None."""
        if outer == "exploration_config":
            return cls._why_no_option(inner)
        if outer == "model" and inner in cls.model_without:
            return f"it has no effect on {cls._algorithm()}: {cls.model_without[inner]}"
        if outer == "model" and inner in MEMORIES and cls.without_memory is not None:
            return f"it is not possible with {cls._algorithm()}: {cls.without_memory}"
        return None
