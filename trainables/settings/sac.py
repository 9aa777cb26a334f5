"""The settings of SAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import setting
from trainables.settings.policy_q import PolicyQConfig


@settings_of("trainables.sac:SAC")
@dataclass(kw_only=True)
class SACConfig(PolicyQConfig):
    """Settings of SAC, for bounded continuous and for discrete actions."""

    several_agents: ClassVar[str | None] = None
    learns_together: ClassVar[bool] = True
    without_memory: ClassVar[str | None] = (
        "its policy and Q-functions learn from single steps out of the replay buffer; PPO and DQN "
        "train on sequences"
    )
    exploration_types: ClassVar[tuple[str, ...]] = (
        "StochasticSampling",
        "Random",
        "GaussianNoise",
        "OrnsteinUhlenbeckNoise",
        "PerWorkerGaussianNoise",
        "PerWorkerOrnsteinUhlenbeckNoise",
        "ParameterNoise",
    )
    why_no_exploration: ClassVar[str] = "its actions are not chosen by their values"
    why_no_intrinsic: ClassVar[str | None] = None
    also_in_training: ClassVar[tuple[str, ...]] = ("clip_actions",)
    composites: ClassVar[dict[str, str]] = {"optimization_config": "actor_lr, critic_lr, alpha_lr"}

    initial_alpha: float = setting(
        1.0,
        "training",
        "weight of the entropy at the start, alpha",
        gt=0,
        fixed="it is where a learned value starts, and a clone goes on with its donor's",
    )
    target_entropy: float | Literal["auto"] = setting(
        "auto",
        "training",
        "target of the entropy for alpha, nats; 'auto': -d for d continuous action dimensions, "
        "0.89 log n for n discrete actions",
        harmless=True,
    )
    alpha_lr: float | list[Any] | None = setting(
        None, "training", "learning rate of log alpha; None: lr, 0 keeps alpha", ge=0, schedule=True
    )
    random_warmup: bool = setting(
        True,
        "training",
        "uniform actions until learning starts, unless exploration_config has random_timesteps",
        fixed="it only counts at the start of a run",
    )
    _deterministic_loss: bool = setting(
        False, "training", "use the most likely actions in losses instead of sampled ones"
    )
    # What differs from the base class by default.
    num_envs_per_env_runner: int = setting(
        1, "env_runners", "environment slots that an env runner steps together", ge=1
    )
