"""Settings of algorithms that learn from replayed experience."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, Literal

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.config.resolved import Resolved, SequenceShape, exact
from trainables.core.config.settings import Settings, refuse_given, setting
from trainables.core.errors import ConfigError

# What only concerns experience that grows, and what it means for one that does not.
_WITHOUT_ENV = {
    "store_buffer_in_checkpoints": (
        "what it learns from, which does not grow: checkpoints hold where its draws are"
    ),
    "num_steps_sampled_before_learning_starts": (
        "what it learns from, which is there from the start: the first step is an update"
    ),
    "training_intensity": (
        "training that steps no environment: each of its training steps is one update"
    ),
    "sample_while_learning": "training that steps no environment",
}


@dataclass(frozen=True)
class ResolvedOffPolicy(Resolved):
    """What the settings of an algorithm with a replay buffer mean together.

    Attributes:
        replay: `replay_buffer_config` as an object.
        n_steps: Least and greatest number of steps of a return; "end": all of the episode.
        sequence_length: Rows that a memory is trained on in one piece; 0 without one.
        sequences: What is drawn from the buffer instead of rows if the networks have a memory.
        num_sequences: Sequences of one gradient step, over all learners.
    """

    replay: ReplayBufferConfig
    n_steps: tuple[int, int] | Literal["end"]
    sequence_length: int
    sequences: SequenceShape | None
    num_sequences: int


@dataclass(kw_only=True)
class OffPolicyConfig(AlgorithmConfig):
    """Settings of algorithms with a replay buffer."""

    without: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            ("num_epochs", "minibatch_size", "shuffle_batch_per_epoch"),
            "every update draws a batch of its own; training_intensity says how many there are",
        ),
        "max_requests_in_flight_per_env_runner": "it waits for one sample of every env runner",
        **dict.fromkeys(
            ("critic_obs_key", "centralized_critic"),
            "only PPO, A2C, IMPALA and APPO have a value function that may see more than acts",
        ),
        "shared_encoders": "only the actor-critics of PPO, A2C, IMPALA and APPO have one in common",
    }
    model_defaults: ClassVar[dict[str, Any]] = {
        "fcnet_hiddens": [256, 256],
        "fcnet_activation": "relu",
        "fcnet_initializer": "default",
    }
    optimizer_defaults: ClassVar[dict[str, Any]] = {"eps": 1e-8}
    uses_logp: ClassVar[bool] = False
    learners_share_slots: ClassVar[bool] = False  # but the rows of what is drawn
    learns_from_data: ClassVar[bool] = True
    intrinsic_without: ClassVar[dict[str, str]] = {
        "intrinsic_gamma": "bonuses are added to the rewards of a drawn batch",
        **dict.fromkeys(("num_epochs", "minibatch_size"), "each drawn batch is one step"),
    }

    replay_buffer_config: dict[str, Any] = setting(
        {}, "training", "the replay buffer, see ReplayBufferConfig"
    )
    store_buffer_in_checkpoints: bool = setting(
        False,
        "training",
        "store the replay buffer in checkpoints; without it a resumed run fills a new one first",
        fixed="it does not change how a trial learns",
    )
    num_steps_sampled_before_learning_starts: int = setting(
        1000,
        "training",
        "environment steps in the buffer before the first update; with several agents those of the "
        "environments, or of all agents: as count_steps_by counts",
        ge=0,
        fixed="it only counts at the start of a run",
    )
    training_intensity: float | None = setting(
        None,
        "training",
        "replayed steps per sampled step, i.e. batch size x updates per environment step; None: "
        "one update per sampling round of any size",
        gt=0,
    )
    n_step: int | list[int] = setting(
        1,
        "training",
        "steps n of the return, or [lo, hi] to draw n for each row; above 1 there is no "
        "correction for actions of older policies, and in SAC no entropy of the steps in between",
        ge=1,
    )
    tau: float = setting(
        1.0, "training", "target' <- tau online + (1 - tau) target; 1 copies", ge=0, le=1
    )
    target_network_update_freq: int = setting(
        500,
        "training",
        "environment steps between target updates (gradient steps if training steps no "
        "environment); 0: after every gradient step",
        ge=0,
    )
    # What differs from the base class by default.
    train_batch_size_per_learner: int = setting(
        256, "training", "transitions per gradient step", ge=1
    )
    rollout_fragment_length: int | Literal["auto"] = setting(
        "auto",
        "env_runners",
        "steps per slot and sample; 'auto': as few as make one update due",
        ge=1,
    )
    sample_while_learning: bool = setting(
        False,
        "env_runners",
        "env-runner actors sample the next fragments while the learner takes its gradient steps, "
        "with the previous weights; a resumed run samples these fragments again, so it is not "
        "equal to the bit",
        fixed="it is how processes wait for each other, not how they learn",
    )
    min_sample_timesteps_per_iteration: int | None = setting(
        1000, "reporting", "least number of environment steps that train() samples", ge=0
    )

    @property
    def needs_env(self) -> bool:
        return self.may_sample

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        return {**super().nested_settings(), "replay_buffer_config": ReplayBufferConfig}

    def validate(self) -> None:
        super().validate()
        if not self.needs_env:
            for name, others in _WITHOUT_ENV.items():
                refuse_given(self, name, others)
        if self.sample_while_learning and self.needs_env and not self.num_env_runners:
            raise ConfigError(
                "sample_while_learning = True has no effect with num_env_runners = 0: this process "
                "samples and learns in turns; allowed: at least 1 env runner"
            )
        capacity = self.resolve().replay.capacity
        needed = (self.get_rollout_fragment_length() + 1) * self.num_slots
        if capacity < needed:
            raise ConfigError(
                f"replay_buffer_config: capacity = {capacity} cannot hold one sample of "
                f"{self.get_rollout_fragment_length()} steps of {self.num_slots} slots; allowed: "
                f"at least {needed}"
            )
        if self.needs_env and self.num_steps_sampled_before_learning_starts > capacity:
            raise ConfigError(
                "num_steps_sampled_before_learning_starts = "
                f"{self.num_steps_sampled_before_learning_starts} is more than the capacity of "
                f"the replay buffer, {capacity} (replay_buffer_config)"
            )
        self._validate_intrinsic()
        self._validate_memory()

    def _validate_intrinsic(self) -> None:
        """Refuse what does not go with rewards for what is new."""
        resolved = self.resolve()
        if resolved.intrinsic is None:
            return
        kind = resolved.intrinsic.type
        if resolved.n_steps != (1, 1):
            raise ConfigError(
                f"n_step = {self.n_step!r} is not possible with exploration_config of the type "
                f"{kind!r}: the steps between a drawn row and the one that it leads to are not "
                "drawn; allowed: 1"
            )
        if not self.needs_env:
            raise ConfigError(
                f"exploration_config: type = {kind!r} has no effect on learning from data alone: "
                "nothing is explored"
            )

    def _validate_memory(self) -> None:
        """Refuse what does not go with networks that are trained on sequences."""
        resolved = self.resolve()
        shape, replay = resolved.sequences, resolved.replay
        if shape is None:
            return
        if replay.prioritized:
            raise ConfigError(
                f"replay_buffer_config: type = {replay.type!r} is not possible with a memory "
                "(model): priorities are kept of single rows, and sequences are drawn uniformly; "
                "allowed: 'ReplayBuffer'"
            )
        stride, capacity = resolved.sequence_length, replay.capacity
        needed = shape.num_rows + stride
        rows = capacity // self.num_slots // stride * stride
        if rows < needed:
            raise ConfigError(
                f"replay_buffer_config: capacity = {capacity} keeps {rows} rows for each of "
                f"{self.num_slots} slots; sequences need {needed} (max_seq_len, burn_in_len, "
                f"n_step): raise capacity to {-(-needed // stride) * stride * self.num_slots}"
            )

    def resolve(self) -> ResolvedOffPolicy:
        return self._resolved_as(ResolvedOffPolicy)

    def resolved_values(self) -> dict[str, Any]:
        values = super().resolved_values()
        length = values["state_stride"]
        low, high = self._n_steps()
        of_algorithm = self.settings()["replay_buffer_config"].default
        return {
            **values,
            "state_stride": int(length > 0),  # the buffer keeps those that it needs
            "replay": ReplayBufferConfig.of(
                {**of_algorithm, **ReplayBufferConfig.check(self.replay_buffer_config)}
            ),
            "n_steps": (low, high),
            "sequence_length": length,
            "sequences": self.sequence_shape(length, high),
            "num_sequences": max(1, self.train_batch_size_per_learner // max(1, length))
            * max(1, self.num_learners),
        }

    def sequence_shape(self, length: int, n_step: int) -> SequenceShape | None:
        """Return what is drawn from the buffer instead of rows if the networks have a memory.

        Args:
            length: Rows that it is trained on in one piece, 0 without one.
            n_step: Greatest number of steps of a return.
        """
        return None

    def _n_steps(self) -> tuple[int, int]:
        n_step = self.n_step
        if not isinstance(n_step, list):
            return n_step, n_step
        if not (len(n_step) == 2 and 1 <= n_step[0] <= n_step[1]):
            raise ConfigError(
                f"n_step = {n_step!r} is not allowed; allowed: int, >= 1, or [lo, hi] with "
                "1 <= lo <= hi"
            )
        return n_step[0], n_step[1]

    @property
    def replay_ratio(self) -> float | None:
        """Replayed steps per sampled step; None: one update per sampling round."""
        return self.training_intensity

    @property
    def updates_per_env_step(self) -> Fraction:
        """Gradient steps per environment step, exactly."""
        if self.replay_ratio is None:
            return Fraction(1, self.get_rollout_fragment_length() * self.num_slots)
        resolved = self.resolve()
        rows = self.total_train_batch_size
        if resolved.sequence_length:
            rows = resolved.num_sequences * resolved.sequence_length
        return exact(self.replay_ratio) / rows

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        if self.replay_ratio is None:
            return 1
        return max(1, ceil(1 / self.updates_per_env_step / self.num_slots))
