"""Settings of several agents: their policies, whom these act for, and which are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from trainables.core.config.agents.agent_mapping import (
    check_mapping_function,
    check_to_train_function,
)
from trainables.core.config.agents.league import check_league
from trainables.core.config.agents.line_ups import ALLOWED, are_line_ups, check_line_ups
from trainables.core.config.agents.module_overrides import check_overrides
from trainables.core.config.agents.named_dicts import by_name
from trainables.core.config.agents.policy_specs import (
    DEFAULT_POLICY,
    check_policy_id,
    policy_specs,
    spec_settings,
)
from trainables.core.config.agents.shared_encoders import check_shared_encoders
from trainables.core.config.callbacks import CallbackSettings
from trainables.core.config.settings import (
    CODE,
    FOLDER,
    MEMORY,
    Settings,
    is_search_domain,
    setting,
)
from trainables.core.errors import ConfigError

OLDER_DICT = "multiagent"
"""The older name of a dict that holds the settings of the section."""


def _are_texts(value: Any) -> bool:
    """Tell whether a value is a list of ids, or a dict of ids by agent: no code."""
    items = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, (list, dict)) and all(isinstance(item, str) for item in items)


def _is_data_mapping(value: Any) -> bool:
    """Tell whether a mapping is a dict of ids by agent, or line-ups of these: no code."""
    return are_line_ups(value) if isinstance(value, list) else _are_texts(value)


@dataclass(kw_only=True)
class MultiAgentSettings(CallbackSettings):
    """Settings of several agents: which policies there are, whom they act for, which are trained.

    See `core.config.agents.several_agents` for what they mean together.
    """

    policies: dict[str, Any] | None = setting(
        None,
        "multi_agent",
        "policies by id, each a PolicySpec, (policy_class, observation_space, action_space, "
        "config), a dict of these, or None for the algorithm's own settings; or a list or set of "
        "ids. None: one, default_policy",
        harmless=_are_texts,
    )
    policy_mapping_fn: str | dict[str, Any] | list[Any] | Callable[..., Any] | None = setting(
        None,
        "multi_agent",
        "which policy acts for an agent: a function (agent_id, episode, worker, **kwargs) -> "
        "policy id, 'module:name' of one, a dict of policies by agents' ids or patterns "
        "('adversary_*'; '*' for all others), or a list of line-ups, {'weight': 1, 'policies': "
        "such a dict}; each episode draws one line-up. None: the policy with the agent's id, else "
        "default_policy, else the only one",
        harmless=_is_data_mapping,
        risk=CODE,
    )
    policies_to_train: list[str] | str | Callable[..., Any] | None = setting(
        None,
        "multi_agent",
        "which policies are trained: their ids ([]: none), or a function (policy_id, batch=None) "
        "-> bool, or 'module:name' of one. None: all that learn",
        harmless=_are_texts,
        risk=CODE,
    )
    league: dict[str, Any] | None = setting(
        None,
        "multi_agent",
        "self-play of two agents against frozen copies, see LeagueConfig: {'learners': {'main': "
        "'main'}, 'freeze_every': 10, …}; it sets policy_mapping_fn. None: no league",
        fixed="pay-offs and copies of a run are those of its league",
    )
    algorithm_config_overrides_per_module: dict[str, Any] = setting(
        {},
        "multi_agent",
        "settings of single policies by id, e.g. {'red': {'lr': 1e-4}}; they override the config "
        "of its PolicySpec. Dicts such as model may be partial",
    )
    centralized_critic: bool = setting(
        False,
        "multi_agent",
        "the value function sees the observations of all agents that take part; policies act on "
        "their own observations (MAPPO, Yu et al., 2022)",
        fixed="it is what the networks are built of",
        harmless=True,
    )
    shared_encoders: bool | list[list[str]] = setting(
        False,
        "multi_agent",
        "policies whose actor-critics share one encoder and have their own heads: True for all "
        "that learn, or groups of ids, e.g. [['a', 'b'], ['c', 'd']]; each trains it in turn",
        fixed="encoders that were learned apart are not one",
        harmless=True,
    )
    count_steps_by: str = setting(
        "env_steps",
        "multi_agent",
        "unit of batch sizes: steps of environments, or of their agents",
        choices=("env_steps", "agent_steps"),
    )
    observation_fn: str | Callable[..., Any] | None = setting(
        None,
        "multi_agent",
        "changes the observations of agents: a function (agent_obs, worker, base_env, policies, "
        "episode, **kwargs) -> dict by agent, or 'module:name' of one",
        risk=CODE,
    )
    policy_map_capacity: int | None = setting(
        100,
        "multi_agent",
        "greatest number of policies in memory; the tensors of the others are on disk; None: all "
        "in memory",
        ge=1,
        harmless=(1, 1000),
        risk=MEMORY,
    )
    policy_map_cache: str | None = setting(
        None,
        "multi_agent",
        "folder for the files of policies on disk, which are deleted when the process ends; None: "
        "a temporary one",
        risk=FOLDER,
    )
    policy_states_are_swappable: bool = setting(
        False,
        "multi_agent",
        "check that all policies have the same class, spaces and model, so that they can exchange "
        "weights",
        harmless=True,
    )
    replay_mode: str = setting(
        "independent",
        "multi_agent",
        "each policy draws from its own replay buffer",
        choices=("independent",),
    )
    checkpoint_trainable_policies_only: bool = setting(
        False, "checkpointing", "store only the policies that are trained in checkpoints"
    )

    @classmethod
    def settings_inside(cls, name: str) -> type[Settings] | None:
        own: Any = cls
        if name == "policies":
            return spec_settings(own)
        if name == "algorithm_config_overrides_per_module":
            return by_name(own)
        return super().settings_inside(name)

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked settings; a search domain passes.

        Raises:
            ConfigError: for a name or value that is not allowed.
        """
        given = dict(values)
        if "policies" in given:
            given["policies"] = policy_specs(given["policies"], cls._check_overrides)
        for name, check in (
            ("algorithm_config_overrides_per_module", cls._check_modules),
            ("policy_mapping_fn", _check_mapping),
            ("league", check_league),
            ("shared_encoders", check_shared_encoders),
            ("policies_to_train", _check_to_train),
            ("observation_fn", _check_observation_fn),
            ("replay_mode", _check_replay_mode),
        ):
            if name in given and not is_search_domain(given[name]):
                given[name] = check(given[name])
        return super().check(given)

    @classmethod
    def _check_overrides(cls, given: Any, where: str) -> Any:
        return check_overrides(cast(Any, cls), given, where)

    @classmethod
    def _check_modules(cls, given: Any) -> Any:
        """Return the settings of each policy, checked."""
        name = "algorithm_config_overrides_per_module"
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise ConfigError(f"{name} = {given!r} is not allowed; allowed: dicts by policy id")
        for policy_id in given:
            check_policy_id(policy_id, name)
        return {m: cls._check_overrides(own, f"{name}: {m!r}") for m, own in given.items()}

    def is_multi_agent(self) -> bool:
        """Tell whether there are several policies, or one that is not `default_policy`."""
        return isinstance(self.policies, dict) and {*self.policies} != {DEFAULT_POLICY}


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
