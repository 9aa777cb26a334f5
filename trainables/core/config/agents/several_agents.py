"""What the settings of several agents mean together, and the check of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from trainables.core.config.agents.agent_mapping import PoliciesToTrain, PolicyMapping
from trainables.core.config.agents.league import check_learners
from trainables.core.config.agents.line_ups import named_policies
from trainables.core.config.agents.module_overrides import merge_overrides
from trainables.core.config.agents.shared_encoders import check_encoder_groups
from trainables.core.config.experience import SAMPLER
from trainables.core.config.policies import DEFAULT_POLICY, PolicySpec, all_policies
from trainables.core.config.recorded.input_shares import is_code_name
from trainables.core.config.settings import is_search_domain
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from trainables.core.config.config import AlgorithmConfig

Spaces = tuple[gym.Space, gym.Space]
_OVERRIDES = "algorithm_config_overrides_per_module"
_OF_SEVERAL = (
    "policies",
    "policy_mapping_fn",
    "policies_to_train",
    "league",
    "shared_encoders",
    _OVERRIDES,
)
# What environments of several agents do not have yet, by the value that is had.
_ONLY_ALONE: dict[str, tuple[Any, ...]] = {
    "batch_mode": ("truncate_episodes",),
    "env_task_fn": (None,),
    "record_env": (False,),
}


def module_overrides(config: AlgorithmConfig, module_id: str) -> dict[str, Any]:
    """Return the settings that a policy has of its own.

    Raises:
        ConfigError: if there is no such policy.
    """
    policies = all_policies(config)
    _refuse_unknown([module_id], policies, "module_config")
    spec = policies[module_id]
    own = {} if spec.is_fixed else spec.config
    more = config.algorithm_config_overrides_per_module.get(module_id, {})
    return merge_overrides(type(config), own, more)


def make_module_config(config: AlgorithmConfig, module_id: str) -> Any:
    """Return a frozen config of one policy, with the settings that it has of its own.

    It names no policies: it is what the config of that policy alone would be.

    Raises:
        ConfigError: if there is no such policy, or its settings do not fit together.
    """
    overrides = module_overrides(config, module_id)
    made = config.copy(copy_frozen=False)
    alone: dict[str, Any] = dict.fromkeys(_OF_SEVERAL)
    made.update_from_dict(alone)
    made.update_from_dict(merge_overrides(type(config), config.to_dict(), overrides, added=False))
    made.freeze()
    return made


def multi_agent_setup(
    config: AlgorithmConfig,
    policies: Any = None,
    env: Any = None,
    spaces: Mapping[str, Spaces] | None = None,
    default_policy_class: Any = None,
) -> tuple[dict[str, PolicySpec], PoliciesToTrain]:
    """Return complete specs of all policies; see `AlgorithmConfig.get_multi_agent_setup`.

    Raises:
        ConfigError: for a policy whose spaces nothing says.
    """
    given = all_policies(config)
    if policies is not None:
        checked = type(config).check({"policies": policies})["policies"]
        given = checked or {DEFAULT_POLICY: PolicySpec()}
    known = spaces or {}
    offered: Mapping[str, Spaces] = {}
    if env is not None:
        offered = _spaces_by_policy(config, env, given)
    elif any(None in _known_spaces(config, m, spec, known, {}) for m, spec in given.items()):
        offered = _own_spaces(config, given)
    found = {}
    for policy_id, spec in given.items():
        obs_space, action_space = _spaces_of(config, policy_id, spec, known, offered)
        own = spec.config
        if not spec.is_fixed:
            more = config.algorithm_config_overrides_per_module.get(policy_id, {})
            own = merge_overrides(type(config), own, more)
        kind = default_policy_class if spec.policy_class is None else spec.policy_class
        found[policy_id] = PolicySpec(kind, obs_space, action_space, own)
    fixed = [policy_id for policy_id, spec in given.items() if spec.is_fixed]
    return found, PoliciesToTrain(config.policies_to_train, fixed)


def _known_spaces(
    config: AlgorithmConfig,
    policy_id: str,
    spec: PolicySpec,
    spaces: Mapping[str, Spaces],
    offered: Mapping[str, Spaces],
) -> list[gym.Space | None]:
    """Return a policy's two spaces: as its spec, the caller, the environment or settings say."""
    settings = (config.observation_space, config.action_space)
    sources = (spaces.get(policy_id), offered.get(policy_id), settings)
    found = []
    for index, name in enumerate(("observation_space", "action_space")):
        candidates = (spec[name], *(source[index] for source in sources if source is not None))
        found.append(next((candidate for candidate in candidates if candidate is not None), None))
    return found


def _spaces_of(
    config: AlgorithmConfig,
    policy_id: str,
    spec: PolicySpec,
    spaces: Mapping[str, Spaces],
    offered: Mapping[str, Spaces],
) -> Spaces:
    """Return a policy's spaces, see `_known_spaces`; none may be unknown."""
    observation, action = _known_spaces(config, policy_id, spec, spaces, offered)
    if observation is None or action is None:
        name = "observation_space" if observation is None else "action_space"
        raise ConfigError(
            f"policies: {policy_id!r}: {name} is not known; give it in the PolicySpec, with "
            "spaces={id: (observation space, action space)}, or an env with agents of the "
            f"policy, or set {name}"
        )
    return observation, action


def _own_spaces(config: AlgorithmConfig, policies: Mapping[str, PolicySpec]) -> dict[str, Spaces]:
    """Return what the config's own environment says, made for it; {} if it names none."""
    if config.env is None or is_search_domain(config.env) or config.algo_class is None:
        return {}
    with config.algo_class.open_env(config) as env:
        offered = [*(agent_spaces(env) or {}).values()]
        if offered and all(spaces == offered[0] for spaces in offered):
            return dict.fromkeys(policies, offered[0])  # whoever acts for whom
        return _spaces_by_policy(config, env, policies)


def _spaces_by_policy(
    config: AlgorithmConfig, env: Any, policies: Mapping[str, PolicySpec]
) -> dict[str, Spaces]:
    """Return the spaces that an environment's agents have, by their policies.

    A policy of no agent is left out, unless all agents have the same spaces.

    Raises:
        ConfigError: if agents of one policy have different ones.
    """
    by_agent = agent_spaces(env)
    if by_agent is None:
        if isinstance(env, gym.vector.VectorEnv):
            one = (env.single_observation_space, env.single_action_space)
        else:
            one = (env.observation_space, env.action_space)
        return dict.fromkeys(policies, one)
    mapping = PolicyMapping(config.policy_mapping_fn, policies, config.seed)
    found: dict[str, tuple[str, Spaces]] = {}
    for agent, spaces in by_agent.items():
        policy_id = mapping(agent, AgentsEpisode(0, 0))  # as if it began
        first, known = found.setdefault(policy_id, (agent, spaces))
        if known != spaces:
            raise ConfigError(
                f"policies: {policy_id!r} is that of the agents {first!r} and {agent!r}, which "
                f"have different spaces: {known} and {spaces}; give them different policies"
            )
    every = [*by_agent.values()]
    if every and all(spaces == every[0] for spaces in every):
        for policy_id in policies:
            found.setdefault(policy_id, ("", every[0]))
    return {policy_id: spaces for policy_id, (_, spaces) in found.items()}


def agent_spaces(env: Any) -> dict[str, Spaces] | None:
    """Return the spaces of each agent of an environment; None if it has but one.

    Args:
        env: An environment of one or several agents, or slots of one.
    """
    if isinstance(env, gym.Env) or not hasattr(env, "groups"):
        if not hasattr(env, "possible_agents"):
            return None
        agents = list(env.possible_agents or env.agents)
        if hasattr(env, "get_observation_space"):
            return {a: (env.get_observation_space(a), env.get_action_space(a)) for a in agents}
        return {a: (env.observation_space(a), env.action_space(a)) for a in agents}  # PettingZoo's
    return {
        agent: (group.observation_space, group.action_space)
        for group in env.groups
        for agent in group.agents
    }


def check_multi_agent(config: AlgorithmConfig) -> None:
    """Check that policies, whom they act for and which are trained fit together.

    Raises:
        ConfigError: naming the setting and the policy.
    """
    policies = all_policies(config)
    if isinstance(config.policies_to_train, list):
        _refuse_unknown(config.policies_to_train, policies, "policies_to_train")
    _refuse_unknown(named_policies(config.policy_mapping_fn), policies, "policy_mapping_fn")
    _check_evaluated_mapping(config, policies)
    _refuse_unknown(config.algorithm_config_overrides_per_module, policies, _OVERRIDES)
    _check_fixed(config, policies)
    check_learners(config, policies)
    _check_policy_map(config, policies)
    check_encoder_groups(config, policies)
    if config.is_multi_agent():
        refuse_for_several_agents(config)
        _check_data(config)
    for policy_id in policies:
        if own := module_overrides(config, policy_id):
            _refuse_own_settings(config, policy_id, own)
            try:
                config.module_config(policy_id).validate()
            except ConfigError as error:
                raise ConfigError(f"policies: {policy_id!r}: {error}") from None


def _check_evaluated_mapping(config: AlgorithmConfig, policies: Mapping[str, PolicySpec]) -> None:
    """See that who acts in evaluations alone is a policy, and that there are several agents."""
    mapping = config.evaluation_config.get("policy_mapping_fn")
    if mapping is None:
        return
    where = "evaluation_config: policy_mapping_fn"
    if not config.is_multi_agent():
        raise ConfigError(
            f"{where} = {mapping!r} has no effect without policies, of whom it could name one; "
            "allowed: it with policies, or None"
        )
    _refuse_unknown(named_policies(mapping), policies, where)


def refuse_for_several_agents(config: AlgorithmConfig) -> None:
    """Refuse what does not go with several agents, also if one policy acts for all of them.

    Raises:
        ConfigError: naming the algorithm or setting.
    """
    why = type(config).several_agents
    if why is not None:
        able = feature("reference").algorithms_where(
            lambda kind: getattr(kind, "several_agents", why) is None
        )
        algorithm = type(config).__name__.removesuffix("Config")
        raise ConfigError(
            f"{algorithm} is not supported with several agents: {why}; allowed: {able}"
        )
    for name, allowed in _ONLY_ALONE.items():
        if config[name] not in allowed:
            shown = " or ".join(map(repr, allowed))
            raise ConfigError(
                f"{name} = {config[name]!r} is not supported with several agents; allowed: {shown}"
            )
    if config.torch_compile_learner and type(config).compiles_fragments:
        raise ConfigError(
            "torch_compile_learner = True is not supported with several agents: the loss runs over "
            "whole fragments, of as many rows as agents act, and each number would be another "
            "program; allowed: False"
        )
    if callable(config.output) or is_code_name(config.output):
        raise ConfigError(
            f"output = {config.output!r} is not supported with several agents: what each policy "
            "did is written apart; allowed: a folder or URL, 'logdir', 'dataset'"
        )
    if config.output_config.get("format") == "minari":
        raise ConfigError(
            "output_config: format = 'minari' is not supported with several agents: its data sets "
            "have no place for agents' ids; allowed: parquet, json"
        )
    if config.remote_env_batch_wait_ms:
        raise ConfigError(
            f"remote_env_batch_wait_ms = {config.remote_env_batch_wait_ms} is not supported with "
            "several agents: all slots are waited for at each step; allowed: 0"
        )


def _check_data(config: AlgorithmConfig) -> None:
    """See that recorded data are for policies that agents' ids tell.

    Raises:
        ConfigError: naming the setting.
    """
    if config.off_policy_estimation_methods:
        raise ConfigError(
            f"off_policy_estimation_methods = {config.off_policy_estimation_methods!r} is not "
            "supported with several policies: an estimate is of what one policy is worth where "
            "nobody else acts; allowed: {}"
        )
    if {*config.input_shares} == {SAMPLER}:
        return
    if config.league is not None or isinstance(config.policy_mapping_fn, list):
        name = "policy_mapping_fn" if config.league is None else "league"
        raise ConfigError(
            f"{name} = {config[name]!r} is not supported with input_ = {config.input_!r}: who acts "
            "for an agent is drawn for each episode, and recorded rows are those of its agent; "
            "allowed: a policy_mapping_fn by agents' ids, e.g. {'agent_0': 'a', '*': 'b'}"
        )


def _check_policy_map(config: AlgorithmConfig, policies: Mapping[str, PolicySpec]) -> None:
    """See that policies on disk go with the other settings, and are as they are said to be."""
    capacity = config.policy_map_capacity
    if capacity is not None and len(policies) > capacity:
        for name in ("torch_compile_learner", "torch_compile_worker"):
            if config[name]:
                raise ConfigError(
                    f"{name} = True is not supported with policies on disk (policy_map_capacity = "
                    f"{capacity} of {len(policies)} policies): what is compiled may keep addresses "
                    "of their weights; allowed: False, or policy_map_capacity=None"
                )
    if config.policy_states_are_swappable:
        _check_swappable(config, policies)


def _check_swappable(config: AlgorithmConfig, policies: Mapping[str, PolicySpec]) -> None:
    """Refuse policies of several kinds where the setting says that they are of one."""
    kinds: dict[str, tuple[Any, ...]] = {}
    for policy_id, spec in policies.items():
        own: Any = config.module_config(policy_id)
        kinds[policy_id] = (spec.policy_class, spec.observation_space, spec.action_space, own.model)
    first, *others = kinds
    for policy_id in others:
        if kinds[policy_id] != kinds[first]:
            raise ConfigError(
                f"policy_states_are_swappable = True, but {first!r} and {policy_id!r} differ in "
                "class, spaces or model; allowed: policies of one kind, or False"
            )


def _refuse_own_settings(config: AlgorithmConfig, policy_id: str, own: Iterable[str]) -> None:
    """Refuse settings of a policy's own where the algorithm reads those of its config alone."""
    why = type(config).several_agents
    if why is not None:
        algorithm = type(config).__name__.removesuffix("Config")
        raise ConfigError(
            f"{_OVERRIDES}: {policy_id!r}: {', '.join(own)}: not supported by {algorithm}: {why}; "
            "allowed: the same settings of the algorithm itself"
        )


def _refuse_unknown(given: Iterable[str], policies: Mapping[str, Any], setting: str) -> None:
    for policy_id in given:
        if policy_id not in policies:
            raise ConfigError(
                f"{setting}: there is no policy {policy_id!r}; policies: {', '.join(policies)}"
                f"{suggestion(policy_id, policies)}"
            )


def _check_fixed(config: AlgorithmConfig, policies: Mapping[str, PolicySpec]) -> None:
    """Refuse to train policies that are written by hand, and checkpoints of no policy."""
    fixed = [policy_id for policy_id, spec in policies.items() if spec.is_fixed]
    chosen = config.policies_to_train
    for policy_id in fixed:
        if isinstance(chosen, list) and policy_id in chosen:
            raise ConfigError(
                f"policies_to_train: {policy_id!r} is written by hand (policy_class = "
                f"{policies[policy_id].policy_class!r}), so it cannot learn"
            )
        if policy_id in config.algorithm_config_overrides_per_module:
            raise ConfigError(
                f"{_OVERRIDES}: {policy_id!r} is written by hand, so settings of the algorithm "
                "have no effect on it; give config in its PolicySpec"
            )
    if len(fixed) == len(policies):
        raise ConfigError(f"policies: none of {', '.join(fixed)} learns; allowed: at least one")
    if chosen == [] and config.checkpoint_trainable_policies_only:
        raise ConfigError(
            "checkpoint_trainable_policies_only = True with policies_to_train = [] leaves no "
            "policy for checkpoints; allowed: False"
        )
