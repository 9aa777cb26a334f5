"""Settings of algorithms that learn from advantages of one rollout after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.settings import setting
from trainables.core.errors import ConfigError


@dataclass(kw_only=True)
class AdvantageConfig(AlgorithmConfig):
    """Settings of an algorithm that learns from advantages of one rollout after the other."""

    why_no_data: ClassVar[str] = (
        "its advantages are those of actions that the present policy has just taken, and recorded "
        "ones are another's"
    )
    why_no_intrinsic: ClassVar[str | None] = None
    intrinsic_without: ClassVar[dict[str, str]] = {}

    use_critic: bool = setting(
        True,
        "training",
        "subtract a learned value function; False: plain returns",
        fixed="without it the value function is not trained",
    )
    use_gae: bool = setting(
        True, "training", "generalised advantage estimation; False: returns minus values"
    )
    lambda_: float = setting(0.95, "training", "GAE lambda", ge=0, le=1)
    advantage_std_floor: float = setting(
        0.01,
        "training",
        "least divisor of normalize_advantages, as a fraction of the root mean square of the "
        "train batch's value targets. A smaller standard deviation, as in a solved task, is "
        "mostly the value function's error. 0: no floor, for rewards that differ little compared "
        "with a constant",
        ge=0,
    )

    def validate(self) -> None:
        super().validate()
        self.validate_train_batch_size_vs_rollout_fragment_length()
        steps = self.get_rollout_fragment_length(self.num_env_runners)
        if steps < 2:  # of one step a slot may have nothing but a row that resets
            raise ConfigError(
                f"a train batch of {self.total_train_batch_size} steps over {self.num_slots} slots "
                f"is {steps} for each; at least 2 are needed: raise train_batch_size_per_learner "
                "or lower num_envs_per_env_runner"
            )
        if self.use_gae and not self.use_critic:
            raise ConfigError("use_gae = True needs a value function: set use_critic=True")
