"""What a trial tells of itself at the level INFO, in lines for people."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from trainables.core.config.config import AlgorithmConfig
from trainables.core.features import feature
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import env_name


def tell_set_up(
    name: str, config: AlgorithmConfig, policies: Mapping[str, Policy], seed: int, seconds: float
) -> None:
    """Tell what was set up: the environment, spaces, networks and resources.

    Args:
        name: The name of the algorithm.
        config: Its config.
        policies: The policies by module id.
        seed: Root of all random streams.
        seconds: How long it took.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    runners, slots = config.num_env_runners, config.num_envs_per_env_runner
    where = f"{runners} env runners x {slots} slots" if runners else f"{slots} slots in process"
    on = f"{env_name(config.env)!r}: {where}" if config.needs_env else "no environment"
    logger.info(
        "%s on %s, train batches of %d steps, seed %d; set up in %.2f s",
        name,
        on,
        config.total_train_batch_size,
        seed,
        seconds,
    )
    logger.info("resources: %s", feature("actors").resource_help(config))
    for module_id, policy in policies.items():
        logger.info(
            "%s: observations %s, actions %s",
            module_id,
            policy.observation_space,
            policy.action_space,
        )
        count = sum(parameter.numel() for parameter in policy.module.parameters())
        logger.info(
            "%s: %s, %s parameters on %s, model=%s",
            module_id,
            type(policy.module).__name__,
            f"{count:,}",
            policy.device,
            config.resolve().model.given,
        )


def tell_evaluation(metrics: Mapping[str, float], num_training_steps: int) -> None:
    """Tell what an evaluation came to; one of a user's own may have other metrics."""
    shown = {name: metrics[name] for name in _OF_EVALUATION if name in metrics} or dict(metrics)
    logger.info(
        "evaluation after %d training steps: %s",
        num_training_steps,
        ", ".join(f"{name} {value:.6g}" for name, value in shown.items()),
    )


_OF_EVALUATION = ("episode_return_mean", "episode_len_mean", "num_episodes", "num_env_steps")
