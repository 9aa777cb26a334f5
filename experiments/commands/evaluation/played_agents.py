"""Policies of several agents that training left in a folder, with what they are played in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.evaluated import names_of
from experiments.commands.evaluation.played_policy import environment_of
from experiments.commands.evaluation.policy_sources import PolicySource
from experiments.errors import ExperimentError
from trainables.core.callables import UntrustedName, is_findable
from trainables.core.config.agents.agent_mapping import OTHERS
from trainables.core.own_folders import Everything, is_own
from trainables.core.policy.policy import Policy
from trainables.runtime.evaluation.agents import SEVERAL_AGENTS
from trainables.runtime.evaluation.needed_trust import POLICY

if TYPE_CHECKING:
    from trainables.core.config.config import AlgorithmConfig

_MAPPING = "policy_mapping_fn"
_HOW = "--policy-mapping agent=policy,…,*=policy, or module:name of a function"


@dataclass(frozen=True)
class PlayedAgents:
    """Policies that play together.

    Attributes:
        config: Says the environment, who acts for whom, and how.
        policies: Those with networks, by id.
        environment: The environment to play in.
        env_config: What that is made with.
        trained_by: The algorithm that trained them.
        names: What that is called, by its class, too.
    """

    config: AlgorithmConfig
    policies: dict[str, Policy]
    environment: str
    env_config: dict[str, Any] | None
    trained_by: str | None
    names: set[Any]


def played_agents(
    source: PolicySource,
    *,
    env: str | None,
    env_config: dict[str, Any] | None,
    explore: bool | None,
    num_envs: int | None,
    trust: Collection[str],
    policy_mapping: str | None,
) -> PlayedAgents:
    """Return the policies that a folder stands for; see `evaluate_folder`.

    Raises:
        ExperimentError: A policy is missing.
        ConfigError: A policy is damaged, or names code that is not trusted; or the mapping was a
            function that cannot be found again.
    """
    if all(is_own(folder, POLICY) for folder in (source.policies or {"": source.folder}).values()):
        trust = Everything()
    policies, metadata = _loaded(source, trust, with_env=env is None)
    first = next(iter(policies.values()))
    environment, made_with, told = environment_of(metadata, source.folder, env, env_config, trust)
    settings = {**told, "env_config": made_with or {}}
    settings["num_envs_per_env_runner"] = num_envs or told["num_envs_per_env_runner"]
    settings["explore"] = told["explore"] if explore is None else explore
    given = _given_mapping(policy_mapping)
    config = _config(source, settings, metadata[SEVERAL_AGENTS], policies, trust, given, explore)
    trained_by = first.metadata.get("algorithm")
    return PlayedAgents(config, policies, environment, made_with, trained_by, names_of(first))


def _loaded(
    source: PolicySource, trust: Collection[str], *, with_env: bool
) -> tuple[dict[str, Policy], dict[str, Any]]:
    """Return the policies by id, and the metadata of one, which say how all play."""
    from trainables.core.trust import refuse
    from trainables.runtime.evaluation.needed_trust import stored_doubts

    folders = source.policies or {source.folder.name: source.folder}
    if with_env:  # networks and environment in one error
        doubts = [doubt for folder in folders.values() for doubt in stored_doubts(folder)]
        refuse(doubts, trust, str(source.folder))
    policies = {m: Policy.load(folder, trust=trust) for m, folder in folders.items()}
    metadata = next(iter(policies.values())).metadata
    if SEVERAL_AGENTS not in metadata:
        raise ExperimentError(
            f"{source.folder} holds the policies {', '.join(policies)} of an environment with one "
            "agent; only the class that trained them knows when each acts; evaluate one of them"
        )
    if not source.policies:  # a folder of its own may have any name
        learned = [m for m, spec in _specs(metadata).items() if spec["policy_class"] is None]
        if source.folder.name not in learned:
            if len(learned) > 1:
                raise ExperimentError(
                    f"{source.folder} is one of the policies {', '.join(learned)}; give the folder "
                    "that holds them, or name this one's by its id"
                )
            policies = {learned[0]: policies[source.folder.name]}
    return policies, metadata


def _specs(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return dict(metadata[SEVERAL_AGENTS]["policies"])


def _given_mapping(text: str | None) -> Any:
    """Return a mapping as `--policy-mapping` has it.

    Raises:
        ExperimentError: It is of another form.
    """
    if text is None or (":" in text and "=" not in text):
        return text
    pairs = [part.strip().partition("=") for part in text.split(",")]
    if not all(agent and equals and policy_id for agent, equals, policy_id in pairs):
        raise ExperimentError(f"--policy-mapping {text}: allowed: {_HOW}")
    return {agent.strip(): policy_id.strip() for agent, _, policy_id in pairs}


def _config(
    source: PolicySource,
    settings: Mapping[str, Any],
    stored: Mapping[str, Any],
    policies: Mapping[str, Policy],
    trust: Collection[str],
    mapping: Any,
    explore: bool | None,
) -> AlgorithmConfig:
    """Return the config that the policies play with.

    Raises:
        ExperimentError: A policy is missing, or the mapping must be given.
        CheckpointError: Code is not trusted.
    """
    from trainables.core.config.config import AlgorithmConfig
    from trainables.core.trust import doubts_of, refuse, resolved

    told = dict(stored)
    told.pop("league", None)  # its line-ups say who plays whom
    if mapping is not None:
        told.pop(_MAPPING, None)
    elif isinstance(told.get(_MAPPING), UntrustedName) and not is_findable(told[_MAPPING]):
        raise ExperimentError(
            f"{source.folder}: the policies were mapped to agents by {str(told[_MAPPING])!r}, "
            f"which cannot be found; give {_HOW}"
        )
    told["policies"] = {
        m: {**spec, "config": {}} if explore is not None and spec["policy_class"] is None else spec
        for m, spec in told["policies"].items()
        if m in policies or spec["policy_class"] is not None
    }
    _refuse_missing(source, told["policies"], told.get(_MAPPING) if mapping is None else mapping)
    told = AlgorithmConfig.check(told)
    refuse(doubts_of(AlgorithmConfig, told), trust, str(source.folder))
    told = resolved(told, trust, str(source.folder))
    own = {} if mapping is None else {_MAPPING: mapping}
    return AlgorithmConfig.from_dict({**told, **settings, **own})


def _refuse_missing(source: PolicySource, policies: Collection[str], mapping: Any) -> None:
    """Refuse a mapping that names a policy which is not there."""
    for policy_id in mapping.values() if isinstance(mapping, Mapping) else ():
        if policy_id not in policies:
            raise ExperimentError(
                f"{source.folder} holds no policy {policy_id!r}, to which agents are mapped; it "
                f"holds {', '.join(policies)}: give --policy-mapping, e.g. "
                f"'{OTHERS}={next(iter(policies))}'"
            )
