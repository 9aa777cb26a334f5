"""An algorithm and a config class as a user of the reference brings them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trainables import PPO, PPOConfig
from trainables.core.config.settings import setting
from trainables.core.errors import ConfigError

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs_per_env_runner": 2,
    "train_batch_size_per_learner": 32,
    "minibatch_size": 16,
    "num_epochs": 1,
    "model": {"fcnet_hiddens": [8]},
}


class MyPPO(PPO):
    """Says in every result whose `training_step` ran."""

    def training_step(self) -> dict[str, float]:
        return {**super().training_step(), "mine": 1.0}


@dataclass
class MyConfig(PPOConfig):
    """A declared setting, plain fields, and a check of its own."""

    bonus: float = setting(0.5, "training", "weight of a bonus", ge=0)
    my_coeff: float = 0.1
    my_list: list[int] = field(default_factory=lambda: [1, 2])
    gamma: float = 0.9

    def validate(self) -> None:
        super().validate()
        if self.bonus > 3:
            raise ConfigError(f"bonus = {self.bonus} is too much")


class MyAlgorithm(MyPPO):
    """Has a config class of its own."""

    config_class = MyConfig


class OldStyleConfig(PPOConfig):
    """Names its algorithm as the reference's own config classes do."""

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or MyPPO)
        self.lr = 1e-3
