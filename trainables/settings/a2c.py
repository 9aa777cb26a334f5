"""The settings of A2C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.advantages import AdvantageConfig
from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import setting
from trainables.core.errors import ConfigError

_ONE_STEP = "a rollout is one gradient step; microbatch_size says how much of it at a time"


@settings_of("trainables.a2c:A2C")
@dataclass(kw_only=True)
class A2CConfig(AdvantageConfig):
    """Settings of A2C.

    The paper's actors do not wait for each other, and each step is of one actor's 5 steps; here all
    slots make one batch. Its optimiser is `optimizer={"type": "rmsprop", "decay": 0.99}`.
    """

    several_agents: ClassVar[str | None] = None
    shares_encoders: ClassVar[bool] = True
    without: ClassVar[dict[str, str]] = {
        "num_epochs": _ONE_STEP,
        "minibatch_size": _ONE_STEP,
        "shuffle_batch_per_epoch": _ONE_STEP,
        "max_requests_in_flight_per_env_runner": "it waits for one sample of every env runner",
    }

    vf_loss_coeff: float = setting(0.5, "training", "weight of the value loss", ge=0)
    entropy_coeff: float | list[Any] = setting(
        0.01, "training", "weight of the entropy bonus, beta", ge=0, schedule=True
    )
    normalize_advantages: bool = setting(
        False,
        "training",
        "scale the advantages of a train batch to mean 0 and standard deviation 1",
    )
    microbatch_size: int | None = setting(
        None,
        "training",
        "rows per partial gradient on each learner; the parts add up to the gradient of the train "
        "batch, which may then be larger than a GPU's memory; None: all",
        ge=1,
        fixed="it does not change how a trial learns",
    )
    # What differs from the base class by default.
    lr: float | list[Any] = setting(
        7e-4, "training", "learning rate of the optimiser, alpha", ge=0, schedule=True
    )
    lambda_: float = setting(
        1.0,
        "training",
        "GAE lambda; 1 is the paper's: rewards to the end of the rollout",
        ge=0,
        le=1,
    )
    train_batch_size_per_learner: int = setting(
        128, "training", "environment steps per gradient step", ge=1
    )
    grad_clip: float | None = setting(0.5, "training", "bound of the gradient clipping", gt=0)
    min_sample_timesteps_per_iteration: int | None = setting(
        2000, "reporting", "least number of environment steps that train() samples", ge=0
    )

    def validate(self) -> None:
        super().validate()
        size, batch = self.microbatch_size, self.train_batch_size_per_learner
        if size is not None and size > batch:
            raise ConfigError(
                f"microbatch_size = {size} is larger than a learner's train batch of {batch} steps "
                "(train_batch_size_per_learner)"
            )
