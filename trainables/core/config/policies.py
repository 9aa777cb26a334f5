"""Policies, of which there is one unless settings say otherwise, and the settings that do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Never

import gymnasium as gym

from trainables.core.config.settings import CODE, FOLDER, MEMORY, Settings, setting
from trainables.core.errors import ConfigError
from trainables.core.features import feature_settings
from trainables.core.suggestions import suggestion

DEFAULT_POLICY = "default_policy"
SPEC_FIELDS = ("policy_class", "observation_space", "action_space", "config")
SHARED_ENCODERS = "shared_encoders"
OLDER_DICT = "multiagent"
"""The older name of a dict that holds the settings of the section."""
MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER = "main", "main_exploiter", "league_exploiter"
ROLES = (MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER)
# File systems refuse them, and each policy has a folder in a checkpoint.
_REFUSED_CHARACTERS = '<>:"/|?*\\'
_MAX_BYTES = 200  # of 255 in most file systems: files beside it have longer names


class PolicySpec(dict[str, Any]):
    """What one of several policies is.

    A dict of its four parts, so that it lies in searches, specs and checkpoints as it is; each part
    is an attribute, too.

    Attributes:
        policy_class: None, which `Policy` becomes: a policy that learns. "random", "look_ahead"
            (plays games of rows), a class with `compute_actions` such as a subclass of
            `FixedPolicy`, or `module:name` of one: a policy written by hand.
        observation_space: What its agents see; None: as the environment says.
        action_space: What its agents do; None: as the environment says.
        config: Settings in which a policy that learns differs from the algorithm's, or what a
            policy written by hand is made with.

    Example:
        >>> PolicySpec(config={"lr": 1e-4}).config
        {'lr': 0.0001}
    """

    policy_class: Any
    observation_space: gym.Space | None
    action_space: gym.Space | None
    config: Any

    def __init__(
        self,
        policy_class: Any = None,
        observation_space: gym.Space | None = None,
        action_space: gym.Space | None = None,
        config: Any = None,
        **unknown: Never,
    ):
        for name in unknown:
            raise ConfigError(unknown_part("PolicySpec", name))
        config = {} if config is None else config
        parts = (policy_class, observation_space, action_space, config)
        super().__init__(zip(SPEC_FIELDS, parts, strict=True))

    def __getattr__(self, name: str) -> Any:
        if name in SPEC_FIELDS:
            return self[name]
        if name.startswith("__"):  # what copying asks for: there may be hundreds
            raise AttributeError(name)
        raise AttributeError(f"PolicySpec.{name} does not exist{suggestion(name, SPEC_FIELDS)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in SPEC_FIELDS:
            raise AttributeError(f"PolicySpec.{name} does not exist{suggestion(name, SPEC_FIELDS)}")
        self[name] = value

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self.items() if value not in (None, {})]
        return f"PolicySpec({', '.join(given)})"

    @property
    def is_fixed(self) -> bool:
        """Whether it is a policy written by hand, which does not learn."""
        return self["policy_class"] is not None


def unknown_part(where: str, name: Any) -> str:
    """Return the error for a part that no spec has."""
    hint = suggestion(name, SPEC_FIELDS)
    return f"{where}: unknown part {name!r}; allowed: {', '.join(SPEC_FIELDS)}{hint}"


def check_policy_id(policy_id: Any, where: str) -> None:
    """Refuse what cannot be a policy's id.

    Raises:
        ConfigError: naming the id.
    """
    problem = ""
    if not isinstance(policy_id, str):
        problem = f"it is of type {type(policy_id).__name__}; allowed: str"
    elif not policy_id:
        problem = "it is empty"
    elif any(c in _REFUSED_CHARACTERS or not c.isprintable() for c in policy_id):
        problem = f"it names a folder; allowed: printable characters but {_REFUSED_CHARACTERS}"
    elif policy_id[-1] in ". ":
        problem = "it names a folder, which cannot end in a dot or space"
    elif len(policy_id.encode()) > _MAX_BYTES:
        problem = f"it names a folder; allowed: at most {_MAX_BYTES} bytes"
    if problem:
        raise ConfigError(f"{where}: the policy id {policy_id!r} is not allowed: {problem}")


def all_policies(config: MultiAgentSettings) -> dict[str, PolicySpec]:
    """Return a config's policies by id; the default policy if it names none."""
    return config.policies or {DEFAULT_POLICY: PolicySpec()}


def config_of_module(config: Any, module_id: str) -> Any:
    """Return what a module learns by: a config with the settings that its policy has of its own.

    An algorithm may have modules that are none of the config's policies, see
    `Algorithm.module_ids`; these have no settings of their own.
    """
    if module_id not in all_policies(config):
        return config
    return config.module_config(module_id)


def named_to_train(given: Any) -> list[str]:
    """Return the ids that `policies_to_train` names; [] of a function, None, or no ids."""
    return given if isinstance(given, list) else []


def encoder_groups(config: Any) -> list[list[str]]:
    """Return the groups of policies that have one encoder each; none of them has fewer than two.

    Args:
        config: An algorithm's config.
    """
    if not config.shared_encoders:
        return []
    groups: list[list[str]] = feature_settings("agents").encoder_groups(config)
    return groups


def _are_texts(value: Any) -> bool:
    """Tell whether a value is a list of ids, or a dict of ids by agent: no code."""
    items = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, (list, dict)) and all(isinstance(item, str) for item in items)


def _is_data_mapping(value: Any) -> bool:
    """Tell whether a mapping is a dict of ids by agent, or line-ups of these: no code."""
    if isinstance(value, list):
        return bool(feature_settings("agents").are_line_ups(value))
    return _are_texts(value)


@dataclass(kw_only=True)
class MultiAgentSettings(Settings):
    """Settings of several agents: which policies there are, whom they act for, which are trained.

    See `core.config.agents` for what they mean together.
    """

    feature: ClassVar[str | None] = "agents"

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


@dataclass
class LeagueConfig(Settings):
    """Settings of a league: learners, their frozen copies, and who plays whom.

    The roles are those of AlphaStar (Vinyals et al., 2019).
    """

    what: ClassVar[str] = "league setting"

    learners: dict[str, str] = setting(
        {MAIN: MAIN},
        "multi_agent",
        "the policies that learn, and their roles: main (plays itself and all frozen copies), "
        "main_exploiter (plays the main learners) or league_exploiter (plays all frozen copies)",
        harmless=lambda roles: all(role in ROLES for role in roles.values()),
    )
    freeze_every: int | None = setting(
        10,
        "multi_agent",
        "iterations between copies of a learner; None: copy only by its wins",
        ge=1,
        harmless=True,
    )
    freeze_at_win_rate: float | None = setting(
        None,
        "multi_agent",
        "also copy a learner when it has won this share of its last win_rate_games games against "
        "others (a draw is half a win)",
        gt=0,
        le=1,
        harmless=True,
    )
    win_rate_games: int = setting(
        100, "multi_agent", "number of games in a win rate", ge=1, harmless=True
    )
    max_copies: int | None = setting(
        None,
        "multi_agent",
        "greatest number of frozen copies of each learner; the oldest are dropped, but never the "
        "first; None: keep all",
        ge=2,
        harmless=True,
    )
    self_play_share: float = setting(
        0.35,
        "multi_agent",
        "share of a main learner's games against itself",
        ge=0,
        le=1,
        harmless=True,
    )
    opponents: str = setting(
        "prioritized",
        "multi_agent",
        "which frozen copies main learners and league exploiters play: uniform, latest (of each "
        "learner), or prioritized: in proportion to (1 - win rate) ** priority_power",
        choices=("prioritized", "uniform", "latest"),
    )
    priority_power: float = setting(
        2.0,
        "multi_agent",
        "how strongly harder opponents are preferred (prioritized)",
        ge=0,
        harmless=True,
    )
    reset_probability: float = setting(
        0.25,
        "multi_agent",
        "probability that a league exploiter returns to its first weights when it is copied; a "
        "main exploiter always does",
        ge=0,
        le=1,
        harmless=True,
    )
    game_decay: float = setting(
        0.99,
        "multi_agent",
        "factor on the weight of a pair's older games after each new one, because learners change",
        gt=0,
        le=1,
        harmless=True,
    )
