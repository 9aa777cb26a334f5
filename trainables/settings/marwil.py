"""The settings of MARWIL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trainables.core.config.experience import SAMPLER
from trainables.core.config.off_policy import OffPolicyConfig
from trainables.core.config.own_settings import settings_of
from trainables.core.config.resolved import SequenceShape
from trainables.core.config.settings import refuse_given, setting
from trainables.core.errors import ConfigError

_OF_VALUES = (
    "vf_coeff",
    "moving_average_sqd_adv_norm_start",
    "moving_average_sqd_adv_norm_update_rate",
)
_NO_BUFFER = "it draws from recorded data, and fills no replay buffer"
_NO_TARGET = "it has no target network"


@settings_of("trainables.marwil:MARWIL")
@dataclass(kw_only=True)
class MARWILConfig(OffPolicyConfig):
    """Settings of MARWIL. With beta = 0 it is BC."""

    several_agents: ClassVar[str | None] = None
    without: ClassVar[dict[str, str]] = {
        **OffPolicyConfig.without,
        **dict.fromkeys(("num_epochs", "minibatch_size", "shuffle_batch_per_epoch"), _NO_BUFFER),
        **dict.fromkeys(
            (
                "replay_buffer_config",
                "store_buffer_in_checkpoints",
                "num_steps_sampled_before_learning_starts",
            ),
            _NO_BUFFER,
        ),
        **dict.fromkeys(("tau", "target_network_update_freq"), _NO_TARGET),
        "training_intensity": "dataset_num_iters_per_learner says how many updates there are",
        "n_step": "its returns run to the end of the episode",
        "learner_connector": "what it learns from is no rollout",
        "sample_while_learning": "it learns from recorded data, and samples nothing",
    }
    # Those of PPO and A2C, so that what it has learned goes on there.
    model_defaults: ClassVar[dict[str, Any]] = {}
    exploration_types: ClassVar[tuple[str, ...]] = ("StochasticSampling",)
    why_no_exploration: ClassVar[str] = "it learns from what others did"
    why_no_intrinsic: ClassVar[str | None] = "it learns from what others did, and explores nothing"

    beta: float = setting(
        1.0,
        "training",
        "beta in the weight exp(beta A / c), at most 20, of a row with advantage A; 0: equal "
        "weights, which is behaviour cloning, and no value function is trained",
        ge=0,
    )
    bc_logstd_coeff: float = setting(
        0.0,
        "training",
        "weight of the mean log sigma of continuous actions in the objective: above 0 it keeps "
        "the policy wider than the data",
        ge=0,
    )
    moving_average_sqd_adv_norm_start: float = setting(
        100.0,
        "training",
        "initial moving average of squared advantages, c²",
        gt=0,
        fixed="it is where a learned value starts, and a clone goes on with its donor's",
    )
    moving_average_sqd_adv_norm_update_rate: float = setting(
        1e-8,
        "training",
        "step size of c² in an update towards the mean squared advantage of its batch",
        ge=0,
        le=1,
    )
    vf_coeff: float = setting(
        1.0, "training", "weight of the value loss, half the mean squared error", ge=0
    )
    # What differs from the base class by default.
    lr: float | list[Any] = setting(
        1e-4, "training", "learning rate of the optimiser, alpha", ge=0, schedule=True
    )
    train_batch_size_per_learner: int = setting(
        2000,
        "training",
        "rows per gradient step; with a memory as many whole sequences of max_seq_len rows as "
        "fit, at least one",
        ge=1,
    )
    dataset_num_iters_per_learner: int | None = setting(
        100, "offline_data", "updates of a training step; None: one", ge=1, harmless=True
    )

    @property
    def needs_env(self) -> bool:
        return False

    def resolved_values(self) -> dict[str, Any]:
        values = super().resolved_values()
        # With a memory returns end with the sequence; without advantages nobody looks at them.
        whole = bool(self.beta) and values["sequences"] is None
        n_steps: tuple[int, int] | Literal["end"] = "end" if whole else (1, 1)
        return {**values, "n_steps": n_steps}

    def sequence_shape(self, length: int, n_step: int) -> SequenceShape | None:
        return SequenceShape(0, length, 1) if length else None

    def validate(self) -> None:
        super().validate()
        if SAMPLER in self.input_shares:
            name = type(self).__name__.removesuffix("Config")
            raise ConfigError(
                f"input_ = {self.input_!r} is not possible with {name}: it imitates what data "
                "hold, and samples nothing itself; allowed: data alone, e.g. "
                "input_='data/cartpole' (tunescape record writes some)"
            )
        if not self.beta:
            for name in _OF_VALUES:
                refuse_given(self, name, "beta = 0: no value function is trained")
