"""Settings of learning that every algorithm has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainables.core.config.connectors import check_connectors
from trainables.core.config.sampling import SamplingSettings
from trainables.core.config.settings import CODE, MEMORY, MOST_ROWS, setting


@dataclass(kw_only=True)
class TrainingSettings(SamplingSettings):
    """Settings of learning that every algorithm has."""

    gamma: float = setting(0.99, "training", "discount factor, gamma", ge=0, le=1)
    lr: float | list[Any] = setting(
        3e-4, "training", "learning rate of the optimiser, alpha", ge=0, schedule=True
    )
    train_batch_size_per_learner: int = setting(
        2048,
        "training",
        "environment steps per training iteration",
        ge=1,
        le=MOST_ROWS,
        harmless=(1, 10_000_000),
        risk=MEMORY,
    )
    num_epochs: int = setting(1, "training", "passes over the train batch", ge=1)
    minibatch_size: int | None = setting(
        None, "training", "rows of one gradient step; None takes the whole batch", ge=1
    )
    shuffle_batch_per_epoch: bool = setting(True, "training", "a new permutation of rows per epoch")
    grad_clip: float | None = setting(None, "training", "bound of the gradient clipping", gt=0)
    grad_clip_by: str = setting(
        "global_norm",
        "training",
        "clip elements by value, each tensor by its norm, or all by their global norm",
        choices=("value", "norm", "global_norm"),
    )
    model: dict[str, Any] = setting(
        {},
        "training",
        "settings of the networks, see ModelConfig",
        fixed="it is what the networks are built of",
    )
    optimizer: dict[str, Any] = setting(
        {}, "training", "settings of the optimiser, see OptimizerConfig"
    )
    learner_connector: str | type | Callable[..., Any] | dict[str, Any] | list[Any] | None = (
        setting(
            None,
            "training",
            "connectors (rollout, policy) -> rollout, after clip_rewards and before anything is "
            "learned, written as env_to_module_connector is",
            fixed="it is code, not a number",
            risk=CODE,
        )
    )
    learner_class: str | type | None = setting(
        None,
        "training",
        "a subclass of core.learning.learner.Learner that takes the gradient steps, as a class or "
        "'module:Name'; an example is in trainables/guides/your_own.md",
        fixed="it is code, not a number",
        risk=CODE,
    )

    def validate(self) -> None:
        super().validate()
        check_connectors(self.learner_connector, "learner_connector")
