"""Settings of algorithms that learn a policy and Q-functions, whose networks are `PolicyQModule`'s.

Of SAC, CQL and IQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.model import LOG_STD_MIN, ModelConfig
from trainables.core.config.off_policy import OffPolicyConfig
from trainables.core.config.settings import Settings, setting
from trainables.core.errors import ConfigError

_NETWORKS = "it is what the networks are built of"


@dataclass(kw_only=True)
class PolicyQConfig(OffPolicyConfig):
    """Settings of a policy and one or two Q-functions that share no layers."""

    model_without: ClassVar[dict[str, str]] = {
        "vf_share_layers": "policy and values share no layers",
        "free_log_std": "log sigma is an output of its policy network",
        "squash_actions": "its Gaussian is always squashed",
    }

    twin_q: bool = setting(
        True, "training", "use two Q-functions and take the lesser value", fixed=_NETWORKS
    )
    q_model_config: dict[str, Any] = setting(
        {},
        "training",
        "options of the Q-functions, and of a value function beside them, that differ from model",
        fixed=_NETWORKS,
    )
    policy_model_config: dict[str, Any] = setting(
        {}, "training", "options of the policy that differ from model", fixed=_NETWORKS
    )
    actor_lr: float | list[Any] | None = setting(
        None, "training", "learning rate of the policy; None: lr", ge=0, schedule=True
    )
    critic_lr: float | list[Any] | None = setting(
        None, "training", "learning rate of the Q-functions; None: lr", ge=0, schedule=True
    )
    # What differs from the base class by default.
    training_intensity: float | None = setting(
        256.0,
        "training",
        "replayed steps per sampled step, i.e. batch size x updates per environment step; None: "
        "one update per sampling round of any size",
        gt=0,
    )
    tau: float = setting(
        0.005, "training", "target' <- tau online + (1 - tau) target; 1 copies", ge=0, le=1
    )
    target_network_update_freq: int = setting(
        0,
        "training",
        "environment steps between target updates (gradient steps if training steps no "
        "environment); 0: after every gradient step",
        ge=0,
    )

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        models = dict.fromkeys(("q_model_config", "policy_model_config"), ModelConfig)
        return {**super().nested_settings(), **models}

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        checked = super().check(values)
        for name in ("model", "q_model_config", "policy_model_config"):
            model = checked.get(name)
            log_std = model.get("initial_log_std") if isinstance(model, dict) else None
            if log_std is None:
                continue
            if name == "q_model_config":
                raise ConfigError("q_model_config: 'initial_log_std' is a setting of the policy")
            if isinstance(log_std, (int, float)) and log_std < LOG_STD_MIN:
                raise ConfigError(
                    f"{name}: initial_log_std = {log_std:g} is not allowed; allowed: at least "
                    f"{LOG_STD_MIN:g}, where log sigma is clamped"
                )
        return checked

    @property
    def networks(self) -> dict[str, Any]:
        """The settings of the networks, as keywords of `PolicyQModule`."""
        return {
            "twin_q": self.twin_q,
            "q_model": self.q_model_config,
            "policy_model": self.policy_model_config,
        }
