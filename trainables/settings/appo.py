"""The settings of APPO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import setting
from trainables.core.errors import ConfigError
from trainables.settings.impala import IMPALAConfig

_BUFFER_REPLAYS = "the circular buffer says how often a train batch comes again"


@settings_of("trainables.appo:APPO")
@dataclass(kw_only=True)
class APPOConfig(IMPALAConfig):
    """Settings of APPO: those of IMPALA, PPO's clipping, a target network, a circular buffer."""

    without: ClassVar[dict[str, str]] = {
        "loss_reduction": "the clipped surrogate is a mean, as in PPO",
        "replay_proportion": _BUFFER_REPLAYS,
        "replay_buffer_num_slots": _BUFFER_REPLAYS,
    }

    compiles_fragments: ClassVar[bool] = False  # its loss is of rows, however many

    use_gae: bool = setting(
        True,
        "training",
        "without vtrace: generalised advantage estimation; False: returns minus values",
    )
    clip_param: float | list[Any] = setting(
        0.2, "training", "clip range of the surrogate's ratio, epsilon", gt=0, schedule=True
    )
    target_worker_clipping: float = setting(
        2.0,
        "training",
        "rho, bound of pi_worker / pi_target in the surrogate's ratio; below 1 it also applies if "
        "both agree",
        gt=0,
    )
    use_kl_loss: bool = setting(
        False, "training", "penalise the KL divergence from the target network's policy"
    )
    kl_coeff: float = setting(
        0.2,
        "training",
        "initial weight of the KL penalty; adapts to kl_target whenever the target network moves",
        ge=0,
        fixed="it is where a learned value starts, and a clone goes on with its donor's",
    )
    kl_target: float = setting(
        0.01,
        "training",
        "KL divergence from the target that kl_coeff adapts to, nats",
        gt=0,
    )
    target_network_update_freq: float = setting(
        2.0,
        "training",
        "train batches between two updates of the target network, x circular_buffer_num_batches x "
        "circular_buffer_iterations_per_batch; the paper: 1/8 to 4",
        gt=0,
    )
    tau: float = setting(
        1.0, "training", "target' <- tau online + (1 - tau) target; 1 copies", ge=0, le=1
    )
    circular_buffer_num_batches: int = setting(
        2, "training", "train batches that the circular buffer holds, N", ge=1
    )
    circular_buffer_iterations_per_batch: int = setting(
        2, "training", "how often each batch of the buffer is drawn at most, K", ge=1
    )
    store_buffer_in_checkpoints: bool = setting(
        True,
        "training",
        "store the circular buffer in checkpoints; without it a resumed run begins with an empty "
        "one",
        fixed="it does not change how a trial learns",
    )
    # What differs from the base class by default.
    minibatch_size: int | None = setting(
        None,
        "training",
        "rows per gradient step, with a memory in whole fragments; None: the whole batch",
        ge=1,
    )
    shuffle_batch_per_epoch: bool = setting(
        True, "training", "a new permutation of rows (with a memory: of fragments) per epoch"
    )

    def validate(self) -> None:
        super().validate()
        if self.vtrace and not self.use_gae:
            raise ConfigError("use_gae = False has no effect with vtrace=True")
