"""The settings of IMPALA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import is_given, setting
from trainables.core.errors import ConfigError

_HOW_PROCESSES_WAIT = "it is how processes wait for each other, not how they learn"


@settings_of("trainables.impala:IMPALA")
@dataclass(kw_only=True)
class IMPALAConfig(AlgorithmConfig):
    """Settings of IMPALA.

    The paper sums its losses over a batch's rows; here they are means unless `loss_reduction` is
    "sum", so that coefficients and learning rates of the one are none of the other. The paper's
    optimiser is `optimizer={"type": "rmsprop", "decay": 0.99, "eps": 0.1}` with `lr=4.8e-4`, except
    that its eps stands inside the root and its mean square begins at 1, where PyTorch's do not.
    """

    why_no_data: ClassVar[str] = (
        "V-trace corrects for weights that are a few updates old by a ratio of probabilities; of "
        "recorded actions it is nearly always cut to 0 or 1, or nobody knows it"
    )
    older_entries: ClassVar[dict[str, tuple[str, str]]] = {
        "opt_type": ("optimizer", "type"),
        "decay": ("optimizer", "decay"),
        "momentum": ("optimizer", "momentum"),
        "epsilon": ("optimizer", "eps"),
    }
    composites: ClassVar[dict[str, str]] = {
        old: ": ".join(path) for old, path in older_entries.items()
    }
    model_without: ClassVar[dict[str, str]] = {
        "max_seq_len": "a memory is trained on whole fragments, see rollout_fragment_length"
    }

    several_agents: ClassVar[str | None] = None
    shares_encoders: ClassVar[bool] = True
    compiles_fragments: ClassVar[bool] = True
    why_no_intrinsic: ClassVar[str | None] = None
    intrinsic_without: ClassVar[dict[str, str]] = {
        "intrinsic_gamma": "V-trace has the values of one kind of reward alone"
    }

    vtrace: bool = setting(
        True, "training", "V-trace targets; False: generalised advantage estimation, as on-policy"
    )
    vtrace_clip_rho_threshold: float | None = setting(
        1.0, "training", "bound of rho in the value targets, rho-bar; None: unbounded", gt=0
    )
    vtrace_clip_pg_rho_threshold: float | None = setting(
        1.0, "training", "bound of rho in the policy gradient; None: unbounded", gt=0
    )
    lambda_: float = setting(
        1.0, "training", "lambda of V-trace, or of GAE without it; 1 is the paper's", ge=0, le=1
    )
    vf_loss_coeff: float = setting(
        0.5, "training", "weight of the value loss, half the squared error", ge=0
    )
    entropy_coeff: float | list[Any] = setting(
        0.01, "training", "weight of the entropy bonus", ge=0, schedule=True
    )
    loss_reduction: str = setting(
        "mean",
        "training",
        "losses are means over rows, or sums as in the paper (coefficients do not transfer)",
        choices=("mean", "sum"),
    )
    replay_proportion: float = setting(
        0.0, "training", "stored fragments that are replayed for each new one", ge=0
    )
    replay_buffer_num_slots: int = setting(
        0, "training", "number of fragments stored for replay_proportion", ge=0
    )
    broadcast_interval: int = setting(
        1,
        "training",
        "train batches between two updates of the env runners' weights and filter statistics "
        "(in process the weights are shared)",
        ge=1,
    )
    learner_queue_size: int = setting(
        3,
        "training",
        "greatest number of train batches that wait for learner actors; no more are assembled",
        ge=1,
        fixed=_HOW_PROCESSES_WAIT,
    )
    learner_queue_timeout: float = setting(
        300.0,
        "training",
        "seconds to wait for a train batch's fragments, or for learner actors, before an error",
        gt=0,
        fixed=_HOW_PROCESSES_WAIT,
    )
    _separate_vf_optimizer: bool = setting(
        False,
        "training",
        "give the value function its own learning rate and gradient clipping",
        fixed="what one optimiser has learned means nothing to another",
    )
    _lr_vf: float | list[Any] | None = setting(
        None,
        "training",
        "learning rate of the value function with _separate_vf_optimizer; None: lr",
        ge=0,
        schedule=True,
    )
    # What differs from the base class by default.
    lr: float | list[Any] = setting(
        5e-4, "training", "learning rate of the optimiser, alpha", ge=0, schedule=True
    )
    train_batch_size_per_learner: int = setting(
        500, "training", "least number of environment steps in a train batch", ge=1
    )
    minibatch_size: int | None = setting(
        None,
        "training",
        "rows per gradient step, in whole fragments; None: the whole batch",
        ge=1,
    )
    shuffle_batch_per_epoch: bool = setting(
        True, "training", "a new permutation of fragments per epoch"
    )
    grad_clip: float | None = setting(40.0, "training", "bound of the gradient clipping", gt=0)
    rollout_fragment_length: int | Literal["auto"] = setting(
        50, "env_runners", "steps per slot and sample; 'auto' fits the train batch", ge=1
    )

    def resolved_values(self) -> dict[str, Any]:
        values = super().resolved_values()
        if values["state_stride"]:  # only the state before a fragment is stored
            values["state_stride"] = self.get_rollout_fragment_length()
        return values

    def validate(self) -> None:
        super().validate()
        length = self.get_rollout_fragment_length(self.num_env_runners)
        if length < 2:  # of one step a slot may have nothing but a row that resets
            raise ConfigError(
                f"rollout_fragment_length = {self.rollout_fragment_length!r} is {length} step for "
                "each slot; allowed: at least 2"
            )
        is_whole = self.batch_mode == "complete_episodes"
        if self.torch_compile_learner and is_whole and self.compiles_fragments:
            raise ConfigError(
                "torch_compile_learner = True is not possible with batch_mode = "
                "'complete_episodes': V-trace runs over whole fragments, and each length that "
                "they come in would be another program"
            )
        if bool(self.replay_proportion) != bool(self.replay_buffer_num_slots):
            raise ConfigError(
                f"replay_proportion = {self.replay_proportion} and replay_buffer_num_slots = "
                f"{self.replay_buffer_num_slots}: one has no effect without the other"
            )
        if self._separate_vf_optimizer and self.resolve().model.vf_share_layers:
            raise ConfigError(
                "_separate_vf_optimizer = True is not possible with model={'vf_share_layers': "
                "True}: shared layers would be stepped by both"
            )
        if is_given(self, "_lr_vf") and not self._separate_vf_optimizer:
            raise ConfigError(
                f"_lr_vf = {self._lr_vf!r} has no effect without _separate_vf_optimizer=True"
            )
        for name in ("vtrace_clip_rho_threshold", "vtrace_clip_pg_rho_threshold"):
            if not self.vtrace and self[name] != type(self).settings()[name].default:
                raise ConfigError(f"{name} = {self[name]!r} has no effect without vtrace=True")
