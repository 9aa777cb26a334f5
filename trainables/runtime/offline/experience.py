"""What an algorithm learns from where `input_` names more than the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainables.core.config.experience import SAMPLER, InputKey
from trainables.core.config.off_policy import OffPolicyConfig
from trainables.core.config.policies import all_policies
from trainables.core.data.spaces import space_mismatch
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.agent_rows import rows_of_policy
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.io_context import IOContext
from trainables.runtime.offline.mixture import Mixture
from trainables.runtime.offline.offline_data import OfflineData
from trainables.runtime.offline.read_options import ReadOptions
from trainables.runtime.offline.reader_experience import ReaderExperience
from trainables.runtime.offline.readers import input_creator, make_reader, reader_name
from trainables.runtime.offline.source import Source
from trainables.runtime.replay.experience import Experience, GrowingExperience

MakeBuffer = Callable[[np.random.SeedSequence], GrowingExperience]


def data_spaces(config: OffPolicyConfig, module_id: str | None = None) -> DataSpaces | None:
    """Return the spaces of the data that `input_` names, None if they say none.

    Args:
        config: The algorithm's config.
        module_id: The policy that learns from them; None: the only one.

    Raises:
        DataError: if two of them are of different spaces, or nothing can be told of them.
    """
    found: dict[str, DataSpaces] = {}
    for item in config.input_shares:
        if item == SAMPLER or input_creator(item) is not None:
            continue
        source = _source(config, item, module_id)
        stated = source.spaces()
        if stated is not None:
            found[source.name] = stated
        elif not _others_say_spaces(config):
            found[source.name] = source.infer_spaces()
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


def _others_say_spaces(config: OffPolicyConfig) -> bool:
    """Return whether the spaces are known without data: by settings, or who evaluates."""
    return config.evaluation_env is not None or (
        config.observation_space is not None and config.action_space is not None
    )


def make_offline_experience(
    config: OffPolicyConfig,
    policy: Policy,
    seed: np.random.SeedSequence,
    make_buffer: MakeBuffer,
    log_dir: str = "",
    module_id: str | None = None,
) -> Experience:
    """Return what `input_` says that a policy learns from: data, or a mixture.

    Args:
        config: The algorithm's config.
        policy: Who learns.
        seed: The seed of the draws.
        make_buffer: Returns a replay buffer for what is sampled, if that is a part of it.
        log_dir: The trial's folder, which readers of one's own are told.
        module_id: The policy's id; None: it is the only one, and learns from all rows.

    Raises:
        ConfigError: for data that the policy cannot learn from, or settings that do not go with it.
    """
    _check(config)
    shares = {_name(item): share for item, share in config.input_shares.items()}
    seeds = seed.spawn(len(shares)) if len(shares) > 1 else [seed]
    parts = {
        _name(item): make_buffer(own)
        if item == SAMPLER
        else _data(config, policy, item, own, log_dir, module_id)
        for item, own in zip(config.input_shares, seeds, strict=True)
    }
    if len(parts) == 1:
        return next(iter(parts.values()))
    return Mixture(parts, shares, SAMPLER if SAMPLER in parts else None)


def _data(
    config: OffPolicyConfig,
    policy: Policy,
    item: InputKey,
    seed: np.random.SeedSequence,
    log_dir: str,
    module_id: str | None,
) -> Experience:
    bound = config.resolve().reward_bound
    if input_creator(item) is not None:
        _refuse_of_several(config, item)
        return ReaderExperience(
            make_reader(item, IOContext(log_dir, config)),
            reader_name(item),
            policy,
            seed,
            num_batches=config.shuffle_buffer_size,
            reward_bound=bound,
            options=ReadOptions(
                clip_actions=bool(config.input_config.get("clip_actions", False)),
                actions_normalized=config.actions_in_input_normalized,
            ),
        )
    spaces = DataSpaces(policy.observation_space, policy.action_space)
    data = load_data_set(_source(config, item, module_id), spaces)
    logger.info("learning from %s: %d steps, digest %s", data.name, data.num_steps, data.digest)
    return OfflineData(data, policy, seed, bound)


def _source(config: OffPolicyConfig, item: Any, module_id: str | None) -> Source:
    has_reader = any(input_creator(other) is not None for other in config.input_shares)
    found = find_source(
        item,
        config.input_config,
        actions_normalized=config.actions_in_input_normalized,
        other_keys=has_reader,
    )
    if module_id is None or not config.is_multi_agent():
        return found
    return rows_of_policy(found, config, module_id)


def _refuse_of_several(config: OffPolicyConfig, item: InputKey) -> None:
    """Refuse a reader where several policies would learn from what it gives."""
    policies = all_policies(config)
    if len(policies) > 1:
        raise ConfigError(
            f"input_: {reader_name(item)} is not possible with several policies "
            f"({', '.join(policies)}): a reader's batches are of one; allowed: files, whose rows "
            "say by agent_id whose they are"
        )


def renewed(before: Experience, after: Experience) -> Experience:
    """Return experience with other data, where the data that a policy is to learn from are others.

    What was sampled stays, and so do the draws from data that are the same.

    Args:
        before: What a policy has learned from.
        after: What it would begin with now.
    """
    if isinstance(before, OfflineData) and isinstance(after, OfflineData):
        return before if before.data.digest == after.data.digest else after
    if isinstance(before, Mixture) and isinstance(after, Mixture):
        before.parts = {n: renewed(part, after.parts[n]) for n, part in before.parts.items()}
    return before


def _name(item: InputKey) -> str:
    return item if isinstance(item, str) else reader_name(item)


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
