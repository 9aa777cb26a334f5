"""The settings of PPO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.advantages import AdvantageConfig
from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import setting


@settings_of("trainables.ppo:PPO")
@dataclass(kw_only=True)
class PPOConfig(AdvantageConfig):
    """Settings of PPO. The defaults are the paper's style, not those of any other library."""

    several_agents: ClassVar[str | None] = None
    learns_together: ClassVar[bool] = True
    shares_encoders: ClassVar[bool] = True
    without: ClassVar[dict[str, str]] = {
        "max_requests_in_flight_per_env_runner": "it waits for one sample of every env runner",
    }

    use_kl_loss: bool = setting(
        False, "training", "penalise the KL divergence from the policy that sampled"
    )
    kl_coeff: float = setting(
        0.2,
        "training",
        "initial weight of the KL penalty; adapts to kl_target",
        ge=0,
        fixed="it is where a learned value starts, and a clone goes on with its donor's",
    )
    kl_target: float = setting(
        0.01, "training", "KL divergence per iteration that kl_coeff adapts to, nats", gt=0
    )
    clip_param: float | list[Any] = setting(
        0.2, "training", "clip range of the probability ratio, epsilon", gt=0, schedule=True
    )
    vf_loss_coeff: float = setting(
        0.5, "training", "weight of the value loss, the squared error, c1", ge=0
    )
    vf_clip_param: float | None = setting(
        None,
        "training",
        "upper bound of a row's squared value error (no gradient above it); None: unbounded",
        gt=0,
    )
    entropy_coeff: float | list[Any] = setting(
        0.0, "training", "weight of the entropy bonus, c2", ge=0, schedule=True
    )
    normalize_advantages: bool = setting(
        True,
        "training",
        "scale the advantages of each minibatch to mean 0 and standard deviation 1; with a memory "
        "(model) those of the train batch, because rows of a few sequences are too similar",
    )
    # What differs from the base class by default.
    num_epochs: int = setting(10, "training", "passes over the train batch", ge=1)
    minibatch_size: int | None = setting(
        256, "training", "rows per gradient step; None: the whole batch", ge=1
    )
    grad_clip: float | None = setting(0.5, "training", "bound of the gradient clipping", gt=0)
