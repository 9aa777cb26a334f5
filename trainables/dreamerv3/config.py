"""The settings of DreamerV3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from trainables.core.config.model import ModelConfig
from trainables.core.config.off_policy import OffPolicyConfig, ResolvedOffPolicy
from trainables.core.config.resolved import SequenceShape, exact
from trainables.core.config.settings import MEMORY, setting
from trainables.core.errors import ConfigError
from trainables.dreamerv3.sizes import SIZES
from trainables.registry import get_algorithm

_OWN_NETWORKS = "model_size says what its networks are"


@dataclass(kw_only=True)
class DreamerV3Config(OffPolicyConfig):
    """Settings of DreamerV3; the defaults are those of its author's present code.

    `model_size` is the one that matters. Gradients are clipped by the share of a tensor's norm,
    and the optimiser is LaProp: `grad_clip`, `grad_clip_by` and `optimizer`.
    """

    without: ClassVar[dict[str, str]] = {
        **OffPolicyConfig.without,
        "training_intensity": "training_ratio says how many replayed steps there are",
        "train_batch_size_per_learner": "a batch is batch_size_B sequences of batch_length_T rows",
        "n_step": "returns are lambda-returns of dreams, horizon_H steps long",
        "target_network_update_freq": "the slow critic follows after every gradient step, by tau",
    }
    # What the world model sees beside an observation; its memory is its own.
    model_defaults: ClassVar[dict[str, Any]] = {
        "use_gru": True,
        "lstm_use_prev_action": True,
    }
    model_without: ClassVar[dict[str, str]] = dict.fromkeys(ModelConfig.settings(), _OWN_NETWORKS)
    optimizer_defaults: ClassVar[dict[str, Any]] = {"type": "laprop", "eps": 1e-20}
    without_memory: ClassVar[str | None] = "it has a memory of its own, the world model"
    why_no_intrinsic: ClassVar[str | None] = (
        "its policy learns from what the world model dreams, rewards included"
    )
    learns_from_data: ClassVar[bool] = False
    why_no_data: ClassVar[str] = (
        "it learns from sequences of what it samples, with the states of its world model"
    )

    model_size: str = setting(
        "12M",
        "training",
        "widths of all networks: the author's 1M to 400M, XS to XL as in the paper of 2023, and "
        "smaller ones, nano to XXS",
        choices=tuple(SIZES),
        fixed="it is what the networks are built of",
    )
    training_ratio: float = setting(256.0, "training", "replayed steps per sampled step", gt=0)
    batch_size_B: int = setting(
        16,
        "training",
        "sequences per gradient step of a learner, B",
        ge=1,
        harmless=(1, 4096),
        risk=MEMORY,
    )
    batch_length_T: int = setting(
        64,
        "training",
        "rows of a sequence, T",
        ge=2,
        fixed="what is stored is cut into sequences by it",
        harmless=(2, 4096),
        risk=MEMORY,
    )
    horizon_H: int = setting(
        15, "training", "steps of a dream, H", ge=1, harmless=(1, 1024), risk=MEMORY
    )
    lambda_: float = setting(
        0.95, "training", "weight of longer returns in lambda-returns, lambda", ge=0, le=1
    )
    entropy_scale: float = setting(3e-4, "training", "weight of the actor's entropy, eta", ge=0)
    return_normalization_decay: float = setting(
        0.99, "training", "decay of the moving percentiles of returns", ge=0, lt=1
    )
    free_nats: float = setting(
        1.0,
        "training",
        "divergences below this value, summed over the latents, do not count, nats",
        ge=0,
    )
    dynamics_loss_scale: float = setting(
        1.0, "training", "weight of the loss that moves the prior to the posterior, beta_dyn", ge=0
    )
    representation_loss_scale: float = setting(
        0.1, "training", "weight of the loss that moves the posterior to the prior, beta_rep", ge=0
    )
    replay_critic_loss_scale: float = setting(
        0.3, "training", "weight of the critic's loss on returns of real rewards", ge=0
    )
    slow_critic_scale: float = setting(
        1.0, "training", "weight of the loss that keeps the critic near its slow copy", ge=0
    )
    world_model_lr: float | list[Any] | None = setting(
        None, "training", "learning rate of the world model; None: lr", ge=0, schedule=True
    )
    actor_lr: float | list[Any] | None = setting(
        None, "training", "learning rate of the actor; None: lr", ge=0, schedule=True
    )
    critic_lr: float | list[Any] | None = setting(
        None, "training", "learning rate of the critic; None: lr", ge=0, schedule=True
    )
    warmup_updates: int | None = setting(
        None,
        "training",
        "gradient steps over which learning rates rise from 0; None: by model_size, 1000 from XS "
        "on, fewer for the smaller ones",
        ge=0,
    )
    use_float16: bool = setting(
        False,
        "training",
        "compute matrix products and convolutions of an update in bfloat16; parameters, "
        "optimiser, norms, losses and acting stay float32",
    )
    # What differs from the base class by default.
    gamma: float = setting(0.997, "training", "discount factor, gamma", ge=0, le=1)
    lr: float | list[Any] | None = setting(  # type: ignore[assignment]
        None,
        "training",
        "learning rate of the optimiser, alpha; None: by model_size, 4e-5 from XS on, more for "
        "the smaller ones",
        ge=0,
        schedule=True,
    )
    grad_clip: float | None = setting(0.3, "training", "bound of the gradient clipping", gt=0)
    grad_clip_by: str = setting(
        "adaptive",
        "training",
        "clip elements by value, each tensor by its norm, all by their global norm, or each "
        "tensor by the ratio of its norm to that of its parameters",
        choices=("value", "norm", "global_norm", "adaptive"),
    )
    tau: float = setting(
        0.02, "training", "slow critic <- tau critic + (1 - tau) slow critic; 1 copies", ge=0, le=1
    )
    target_network_update_freq: int = setting(
        0,
        "training",
        "environment steps between target updates (gradient steps if training steps no "
        "environment); 0: after every gradient step",
        ge=0,
    )
    replay_buffer_config: dict[str, Any] = setting(
        {"capacity": 1_000_000}, "training", "the replay buffer, see ReplayBufferConfig"
    )
    num_envs_per_env_runner: int = setting(
        1, "env_runners", "environment slots that an env runner steps together", ge=1
    )
    frame_stack: int | None = setting(
        None,
        "environment",
        "number k of last observations that form one observation: 1, also for Atari games, "
        "because the world model remembers earlier ones; None: 1",
        ge=1,
        le=1024,
        fixed="it is what the networks are built of",
        harmless=(1, 64),
        risk=MEMORY,
    )

    @classmethod
    def why_fixed(cls, path: Sequence[str]) -> str | None:
        if path[0] == "replay_buffer_config" and len(path) > 1:
            return "sequences are drawn uniformly, out of a buffer that is stored with them"
        return super().why_fixed(path)

    def own_algorithm(self) -> Any:
        return get_algorithm("DreamerV3")  # whose file imports this one

    def resolve(self) -> ResolvedOffPolicy:
        return self._resolved_as(ResolvedOffPolicy)

    def resolved_values(self) -> dict[str, Any]:
        length = self.batch_length_T
        return {
            **super().resolved_values(),
            "sequence_length": length,
            "sequences": SequenceShape(burn_in=0, length=length, n_step=1),
            "num_sequences": self.batch_size_B * max(1, self.num_learners),
        }

    @property
    def _num_frames(self) -> int:
        return 1 if self.frame_stack is None else self.frame_stack

    @property
    def replay_ratio(self) -> float | None:
        return self.training_ratio

    @property
    def updates_per_env_step(self) -> Fraction:
        rows = self.batch_size_B * self.batch_length_T * max(1, self.num_learners)
        return exact(self.training_ratio) / rows

    @property
    def base_lr(self) -> float | list[Any]:
        """The learning rate: `lr`, or that of the model's size."""
        return SIZES[self.model_size].lr if self.lr is None else self.lr

    @property
    def num_warmup_updates(self) -> int:
        """Gradient steps over which learning rates rise: `warmup_updates`, or the size's own."""
        own = SIZES[self.model_size].warmup_updates
        return own if self.warmup_updates is None else self.warmup_updates

    def _validate_memory(self) -> None:
        if self._num_frames > 1:
            raise ConfigError(
                f"frame_stack = {self.frame_stack} is not possible with DreamerV3: its world model "
                "remembers the frames before; allowed: 1 or None"
            )
        replay = self.resolve().replay
        if replay.prioritized:
            raise ConfigError(
                f"replay_buffer_config: type = {replay.type!r} is not possible with DreamerV3: "
                "sequences are drawn uniformly, after new ones in their order; allowed: "
                "'ReplayBuffer'"
            )
        needed = self.batch_length_T + 2
        rows = replay.capacity // self.num_slots
        if rows < needed:
            raise ConfigError(
                f"replay_buffer_config: capacity = {replay.capacity} keeps {rows} rows for each of "
                f"{self.num_slots} slots; sequences need {needed} (batch_length_T): raise capacity "
                f"to {needed * self.num_slots}"
            )
