"""The settings of CQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import refuse_given, setting
from trainables.core.errors import ConfigError
from trainables.settings.sac import SACConfig


@settings_of("trainables.cql:CQL")
@dataclass(kw_only=True)
class CQLConfig(SACConfig):
    """Settings of CQL: those of SAC, and of the conservative term.

    With `input_` data are learned from, alone or mixed with what is sampled; without it CQL is SAC
    with a conservative term.
    """

    learns_together: ClassVar[bool] = False
    why_no_intrinsic: ClassVar[str | None] = (
        "its conservative term keeps to what data hold, a bonus leads away from it"
    )

    bc_iters: int = setting(
        20_000,
        "training",
        "gradient steps in which the policy clones the data, before it maximises Q",
        ge=0,
        fixed="it only counts at the start of a run",
    )
    temperature: float = setting(
        1.0,
        "training",
        "T of the soft maximum over actions, T log of the integral of exp(Q/T); towards 0 only "
        "the greatest Q counts",
        gt=0,
    )
    num_actions: int = setting(
        10,
        "training",
        "actions that estimate the soft maximum, if actions are continuous: as many from the "
        "uniform distribution, from the policy in the state, and from it in the next state",
        ge=1,
        le=10_000,
    )
    lagrangian: bool = setting(
        False,
        "training",
        "learn the weight of the conservative term, so that it approaches lagrangian_thresh",
        fixed="it is what the learner is built of",
    )
    lagrangian_thresh: float = setting(
        5.0,
        "training",
        "with lagrangian: target of min_q_weight x (soft maximum - Q of the data), a discounted "
        "return; it may be negative, because densities are not probabilities",
    )
    min_q_weight: float = setting(
        5.0,
        "training",
        "weight of the conservative term relative to the squared TD error, as in the paper's "
        "code; 0: SAC",
        ge=0,
    )
    deterministic_backup: bool = setting(
        True, "training", "leave the entropy out of the targets of Q"
    )
    # What differs from the base class by default.
    dataset_num_iters_per_learner: int | None = setting(
        100,
        "offline_data",
        "updates of a training step that steps no environment; None: one",
        ge=1,
        harmless=True,
    )

    def validate(self) -> None:
        super().validate()
        if not self.lagrangian:
            refuse_given(self, "lagrangian_thresh", "lagrangian = False: nothing is steered")
        elif not self.min_q_weight:
            raise ConfigError(
                "lagrangian = True has no effect with min_q_weight = 0: there is no conservative "
                "term that could be steered; allowed: min_q_weight > 0"
            )
