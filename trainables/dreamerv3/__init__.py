"""DreamerV3: learn a model of the world, and act by what is learned in its dreams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.lazy_names import offer_names

if TYPE_CHECKING:
    from trainables.dreamerv3.algorithm import DreamerV3, DreamerV3Config

offer_names(globals())
