"""What a value function sees beside what its policy acts by: settings that go together."""

from __future__ import annotations

from typing import Any

from trainables.core.errors import ConfigError

JOINT_OBS = "joint_observation"
"""The key of what all agents see, in the observation of each, with `centralized_critic`."""


def critic_key(config: Any) -> str | None:
    """Return the key of a Dict observation that only the value function sees; None: it has none.

    Args:
        config: An algorithm's config.
    """
    key: str | None = JOINT_OBS if config.centralized_critic else config.critic_obs_key
    return key


def check_critic(config: Any) -> None:
    """Refuse settings under which a value function could see no more than what acts.

    Args:
        config: An algorithm's config.

    Raises:
        ConfigError: naming both settings.
    """
    if critic_key(config) is None:
        return
    name = "centralized_critic" if config.centralized_critic else "critic_obs_key"
    given = f"{name} = {config[name]!r}"
    if config.centralized_critic and config.critic_obs_key is not None:
        raise ConfigError(
            f"{given} and critic_obs_key = {config.critic_obs_key!r} exclude each other: with the "
            f"first the key is {JOINT_OBS!r}; allowed: one of them"
        )
    if config.resolve().model.vf_share_layers:
        raise ConfigError(
            f"{given} is not possible with model={{'vf_share_layers': True}}: what acts would see "
            "it, too; allowed: False"
        )
    if not getattr(config, "use_critic", True):
        raise ConfigError(f"{given} has no effect with use_critic=False, which learns no values")
