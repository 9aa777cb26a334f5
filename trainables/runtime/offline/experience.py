"""What an algorithm learns from where `input_` names more than the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainables.core.config.input_shares import SAMPLER, InputKey
from trainables.core.config.off_policy import OffPolicyConfig
from trainables.core.data.spaces import space_mismatch
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.mixture import Mixture
from trainables.runtime.offline.offline_data import OfflineData
from trainables.runtime.offline.source import Source
from trainables.runtime.replay.experience import Experience, GrowingExperience

MakeBuffer = Callable[[np.random.SeedSequence], GrowingExperience]


def reads_data(config: OffPolicyConfig) -> bool:
    """Return whether something else is learned from than what is sampled."""
    return {*config.input_shares} != {SAMPLER}


def data_spaces(config: OffPolicyConfig) -> DataSpaces | None:
    """Return the spaces of the data that `input_` names, None if they say none.

    Raises:
        DataError: if two of them are of different spaces, or nothing can be told of them.
    """
    found: dict[str, DataSpaces] = {}
    for item in config.input_shares:
        if item == SAMPLER or callable(item):
            continue
        source = _source(config, item)
        stated = source.spaces()
        found[source.name] = source.infer_spaces() if stated is None else stated
    if not found:
        return None
    (first, spaces), *others = found.items()
    for name, theirs in others:
        for mine, other in zip(spaces, theirs, strict=True):
            problem = space_mismatch(mine, other)
            if problem is not None:
                raise ConfigError(
                    f"input_: {first} and {name} are of different spaces: {problem}; allowed: "
                    "data of one environment"
                )
    return spaces


def make_offline_experience(
    config: OffPolicyConfig,
    policy: Policy,
    seed: np.random.SeedSequence,
    make_buffer: MakeBuffer,
) -> Experience:
    """Return what `input_` says that a policy learns from: data, or a mixture.

    Args:
        config: The algorithm's config.
        policy: Who learns.
        seed: The seed of the draws.
        make_buffer: Returns a replay buffer for what is sampled, if that is a part of it.

    Raises:
        ConfigError: for data that the policy cannot learn from, or settings that do not go with it.
    """
    _check(config)
    shares = {_name(item): share for item, share in config.input_shares.items()}
    seeds = seed.spawn(len(shares)) if len(shares) > 1 else [seed]
    parts = {
        _name(item): make_buffer(own) if item == SAMPLER else _data(config, policy, item, own)
        for item, own in zip(config.input_shares, seeds, strict=True)
    }
    if len(parts) == 1:
        return next(iter(parts.values()))
    return Mixture(parts, shares, SAMPLER if SAMPLER in parts else None)


def _data(
    config: OffPolicyConfig, policy: Policy, item: InputKey, seed: np.random.SeedSequence
) -> Experience:
    if callable(item):
        raise ConfigError(f"input_ = {item!r}: readers of one's own are not here yet")
    spaces = DataSpaces(policy.observation_space, policy.action_space)
    data = load_data_set(_source(config, item), spaces)
    logger.info("learning from %s: %d steps, digest %s", data.name, data.num_steps, data.digest)
    return OfflineData(data, policy, seed, config.resolve().reward_bound)


def _source(config: OffPolicyConfig, item: Any) -> Source:
    return find_source(
        item, config.input_config, actions_normalized=config.actions_in_input_normalized
    )


def _name(item: InputKey) -> str:
    return item if isinstance(item, str) else repr(item)


def _check(config: OffPolicyConfig) -> None:
    """Refuse settings that would be ignored, or are not possible, with rows that others wrote."""
    if config.resolve().replay.prioritized:
        raise ConfigError(
            f"replay_buffer_config: type = {config.resolve().replay.type!r} is not possible with "
            f"input_ = {config.input_!r}: recorded rows are drawn uniformly, in the shares that "
            "input_ says; allowed: 'ReplayBuffer'"
        )
    if config.learner_connector:
        raise ConfigError(
            f"learner_connector = {config.learner_connector!r} is not possible with input_ = "
            f"{config.input_!r}: recorded rows are drawn one by one, and are no rollouts; allowed: "
            "clip_rewards, or data whose rewards are as they should be"
        )
