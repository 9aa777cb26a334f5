"""The settings of several agents: their forms, and what they mean together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trainables.core.config.agents import several_agents
from trainables.core.config.agents.agent_mapping import (
    PoliciesToTrain,
    PolicyMapping,
    check_mapping_function,
    check_to_train_function,
)
from trainables.core.config.agents.league import check_league
from trainables.core.config.agents.line_ups import ALLOWED, are_line_ups, check_line_ups
from trainables.core.config.agents.module_overrides import check_overrides
from trainables.core.config.agents.policy_specs import policy_specs, spec_settings
from trainables.core.config.agents.shared_encoders import check_shared_encoders, encoder_groups
from trainables.core.config.named_dicts import by_name
from trainables.core.config.policies import PolicySpec, check_policy_id
from trainables.core.config.settings import Settings, is_search_domain
from trainables.core.errors import ConfigError
from trainables.core.features import FeatureSettings

_OVERRIDES = "algorithm_config_overrides_per_module"


class AgentsSettings(FeatureSettings):
    """Which policies there are, whom they act for, and which are trained."""

    def plain(self, config_class: Any, values: Mapping[str, Any]) -> Mapping[str, Any]:
        given = dict(values)

        def own(settings: Any, where: str) -> Any:
            return check_overrides(config_class, settings, where)

        if "policies" in given:
            given["policies"] = policy_specs(given["policies"], own)
        for name, check in (
            (_OVERRIDES, lambda modules: _check_modules(modules, own)),
            ("policy_mapping_fn", _check_mapping),
            ("league", check_league),
            ("shared_encoders", check_shared_encoders),
            ("policies_to_train", _check_to_train),
            ("observation_fn", _check_observation_fn),
            ("replay_mode", _check_replay_mode),
        ):
            if name in given and not is_search_domain(given[name]):
                given[name] = check(given[name])
        return given

    def check(self, config: Any) -> None:
        several_agents.check_multi_agent(config)

    def inside(self, config_class: Any, name: str) -> type[Settings] | None:
        if name == "policies":
            return spec_settings(config_class)
        return by_name(config_class) if name == _OVERRIDES else None

    def module_overrides(self, config: Any, module_id: str) -> dict[str, Any]:
        """Return the settings that a policy has of its own."""
        return several_agents.module_overrides(config, module_id)

    def make_module_config(self, config: Any, module_id: str) -> Any:
        """Return the config of one policy, frozen."""
        return several_agents.make_module_config(config, module_id)

    def setup(
        self, config: Any, policies: Any, env: Any, spaces: Any, default_policy_class: Any
    ) -> tuple[dict[str, PolicySpec], PoliciesToTrain]:
        """Return complete specs of all policies, and which are trained."""
        return several_agents.multi_agent_setup(config, policies, env, spaces, default_policy_class)

    def refuse_for_several_agents(self, config: Any) -> None:
        """Refuse what does not go with several agents.

        Raises:
            ConfigError: naming the algorithm or setting.
        """
        several_agents.refuse_for_several_agents(config)

    def encoder_groups(self, config: Any) -> list[list[str]]:
        """Return the groups of policies that have one encoder each."""
        return encoder_groups(config)

    def are_line_ups(self, given: Any) -> bool:
        """Tell whether a value is a list of line-ups that names no code."""
        return are_line_ups(given)

    def policies_to_train(self, given: Any, fixed: Collection[str] = ()) -> PoliciesToTrain:
        """Return what tells whether a policy is trained."""
        return PoliciesToTrain(given, fixed)

    def find_functions(self, config: Any) -> None:
        """Import the functions that settings name, and see that they take what they are given.

        Raises:
            ConfigError: naming the setting.
        """
        PolicyMapping(config.policy_mapping_fn, ())
        PoliciesToTrain(config.policies_to_train, ())


def _check_modules(given: Any, check: Any) -> Any:
    """Return the settings of each policy, checked."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{_OVERRIDES} = {given!r} is not allowed; allowed: dicts by policy id")
    for policy_id in given:
        check_policy_id(policy_id, _OVERRIDES)
    return {m: check(own, f"{_OVERRIDES}: {m!r}") for m, own in given.items()}


def _check_mapping(given: Any) -> Any:
    """Return a mapping of policies by agents' ids as texts; a function, or its name, as it is."""
    if isinstance(given, Mapping):
        for agent, policy_id in given.items():
            if not is_search_domain(policy_id):
                check_policy_id(policy_id, f"policy_mapping_fn: {agent!r}")
        return {str(agent): policy_id for agent, policy_id in given.items()}
    if isinstance(given, (list, tuple)) and any(isinstance(item, Mapping) for item in given):
        return check_line_ups(given)
    if given is None or _names_code(given):
        return given
    if callable(given):
        check_mapping_function(given)
        return given
    raise ConfigError(
        f"policy_mapping_fn = {given!r} is not allowed; allowed: a function (agent_id, episode, "
        "worker, **kwargs) -> policy id, 'module:name' of one, or a dict of policies by agent, "
        f"or line-ups: {ALLOWED}"
    )


def _check_to_train(given: Any) -> Any:
    """Return policies' ids as a list, those of a set sorted; a function, or its name, as it is."""
    if isinstance(given, (set, frozenset)):
        given = sorted(given, key=str)
    if isinstance(given, (list, tuple)):
        for policy_id in given:
            if not is_search_domain(policy_id):
                check_policy_id(policy_id, "policies_to_train")
        return list(dict.fromkeys(given)) if all(isinstance(p, str) for p in given) else list(given)
    if given is None or _names_code(given):
        return given
    if callable(given):
        check_to_train_function(given)
        return given
    hint = f"; write [{given!r}]" if isinstance(given, str) else ""
    raise ConfigError(
        f"policies_to_train = {given!r} is not allowed; allowed: a list or set of policies' ids, a "
        f"function (policy_id, batch) -> bool, or 'module:name' of one{hint}"
    )


def _check_observation_fn(given: Any) -> Any:
    if given is None or callable(given) or _names_code(given):
        return given
    raise ConfigError(
        f"observation_fn = {given!r} is not allowed; allowed: a function or 'module:name' of one"
    )


def _check_replay_mode(given: Any) -> Any:
    if given == "lockstep":
        raise ConfigError(
            "replay_mode = 'lockstep' is not supported: each policy has a replay buffer of its "
            "own, and agents that join, end or share a policy have no rows of one step in common; "
            "allowed: 'independent'"
        )
    return given


def _names_code(given: Any) -> bool:
    return isinstance(given, str) and ":" in given


SETTINGS = AgentsSettings()
