"""A policy that training left in a folder, with what it is to be played in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.policy_sources import PolicySource, find_policy, plays_agents
from experiments.errors import ExperimentError
from experiments.spec.paths import shown_path

if TYPE_CHECKING:
    from trainables.core.policy.actable import Actable

NUM_ENVS = 8
"""Slots that are stepped together, as in the evaluations of an algorithm."""

RANDOM_ACTIONS = "random actions"


@dataclass(frozen=True)
class PlayedPolicy:
    """A policy to play with.

    Attributes:
        policy: The policy.
        source: Where it comes from; None if it was not stored.
        environment: The environment to play in.
        env_config: What that is made with.
        as_trained: What the training's evaluations did: `explore`, `num_envs_per_env_runner`.
        described: Which policy it is, in words.
    """

    policy: Actable
    source: PolicySource | None
    environment: str
    env_config: dict[str, Any] | None
    as_trained: dict[str, Any]
    described: str


def played_policy(
    folder: Path | PolicySource,
    env: str | None,
    env_config: dict[str, Any] | None,
    trust: Collection[str],
) -> PlayedPolicy:
    """Return the policy that a folder stands for; see `evaluate_folder`.

    Raises:
        ExperimentError: The folder is missing, no environment is known, or it is of several agents.
        ResultsError: The folder holds no policy.
        ConfigError: The policy is damaged, or names code that is not trusted.
    """
    from trainables.core.own_folders import trust_in
    from trainables.core.trust import refuse
    from trainables.runtime.evaluation.needed_trust import POLICY, stored_doubts

    source = folder if isinstance(folder, PolicySource) else find_policy(folder)
    if plays_agents(source):
        raise ExperimentError(f"{source.folder} plays with several agents; allowed: one agent")
    trust = trust_in(source.folder, POLICY, trust)
    if env is None:  # networks and environment in one error
        refuse(stored_doubts(source.folder), trust, str(source.folder))
    policy = source.load(trust)
    told = environment_of(policy.metadata, source.folder, env, env_config, trust)
    environment, env_config, as_trained = told
    return PlayedPolicy(
        policy, source, environment, env_config, as_trained, described_policy(source)
    )


def described_policy(source: PolicySource | None) -> str:
    """Return which policy plays, in words; None: actions are random."""
    if source is None:
        return RANDOM_ACTIONS
    chosen = f" ({source.chosen})" if source.chosen else ""
    return f"{shown_path(source.folder)}{chosen}"


def environment_of(
    metadata: dict[str, Any],
    folder: Path,
    env: str | None,
    env_config: dict[str, Any] | None,
    trust: Collection[str],
) -> tuple[str, dict[str, Any] | None, dict[str, Any]]:
    """Return the environment, what it is made with, and what the training's evaluations did.

    Args:
        metadata: Of the policy.
        folder: Its folder, for errors.
        env: See `evaluate_folder`.
        env_config: See `evaluate_folder`.
        trust: See `evaluate_folder`.
    """
    from trainables.core.checkpoint import TRAINABLE
    from trainables.core.config.config import AlgorithmConfig
    from trainables.core.trust import refuse
    from trainables.runtime.evaluation.needed_trust import playing_doubts, register_environment

    as_trained: dict[str, Any] = metadata.get("evaluation") or metadata
    known = as_trained.get("env")
    environment = env if env is not None else known
    if not environment:
        raise ExperimentError(f"{folder} names no environment: give one with --env")
    slots = as_trained.get("num_envs")
    told: dict[str, Any] = {
        "env": environment,
        "env_config": (as_trained.get("env_config") or {}) if environment == known else {},
        "explore": as_trained.get("explore", False),
        "num_envs_per_env_runner": NUM_ENVS if slots is None else slots,
    }
    told = AlgorithmConfig.check(told)
    if env is not None:  # who names an environment vouches for it
        metadata = metadata if metadata.get(TRAINABLE) in trust else {}
        trust = trust if environment in trust else [*trust, environment]
    refuse(playing_doubts(told, metadata), trust, str(folder))
    register_environment(environment, metadata)
    env_config = {**told["env_config"], **(env_config or {})}
    return str(environment), env_config or None, told
