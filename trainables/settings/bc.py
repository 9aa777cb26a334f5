"""The settings of BC."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import setting
from trainables.core.logs import logger
from trainables.settings.marwil import MARWILConfig


@settings_of("trainables.bc:BC")
@dataclass(kw_only=True)
class BCConfig(MARWILConfig):
    """Settings of BC: those of MARWIL, but for beta = 0.

    With another beta rows count by their advantages, which is MARWIL by another name: allowed, as
    in the reference's example, and said in the log.
    """

    beta: float = setting(
        0.0,
        "training",
        "0: equal weights, and no value function is trained; above 0: MARWIL, with the weight "
        "exp(beta A / c) of a row with advantage A",
        ge=0,
    )

    def validate(self) -> None:
        super().validate()
        if self.beta:
            logger.warning(
                "BC with beta = %g is MARWIL: rows count by their advantages, and a value function "
                "is trained; beta=0 clones all that the data hold",
                self.beta,
            )
