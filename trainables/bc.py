"""BC: behaviour cloning, MARWIL without advantages: what data hold is imitated as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainables.core.config.own_settings import default_config_of
from trainables.marwil import MARWIL
from trainables.settings.bc import BCConfig as BCConfig


class BC(MARWIL):
    """Maximise the probability of what data hold."""

    config_class = BCConfig
    config: BCConfig


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(BCConfig)
