"""The settings of IQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import setting
from trainables.settings.policy_q import PolicyQConfig


@settings_of("trainables.iql:IQL")
@dataclass(kw_only=True)
class IQLConfig(PolicyQConfig):
    """Settings of IQL, for bounded continuous and for discrete actions.

    The defaults are the paper's for locomotion: expectile 0.7, beta 3, Polyak 0.005, lr 3e-4.
    """

    several_agents: ClassVar[str | None] = None
    without_memory: ClassVar[str | None] = (
        "its policy and values learn from single steps; PPO, DQN, BC and MARWIL train on sequences"
    )
    exploration_types: ClassVar[tuple[str, ...]] = ("StochasticSampling",)
    why_no_exploration: ClassVar[str] = "it learns from what data hold"
    why_no_intrinsic: ClassVar[str | None] = "it learns from what data hold, and explores nothing"

    expectile: float = setting(
        0.7,
        "training",
        "expectile of Q(s, a) over the data's actions for V(s): 0.5 is their mean; values near 1 "
        "approach the best of them",
        gt=0,
        lt=1,
    )
    beta: float = setting(
        3.0,
        "training",
        "beta in the weight exp(beta A), at most 100, of a row with advantage A in the policy's "
        "loss: an inverse temperature, per unit of discounted return",
        gt=0,
    )
    value_lr: float | list[Any] | None = setting(
        None, "training", "learning rate of the value function; None: lr", ge=0, schedule=True
    )
    # What differs from the base class by default.
    lr: float | list[Any] = setting(
        3e-4, "training", "learning rate of the optimiser, alpha", ge=0, schedule=True
    )
