"""Widths of all layers of a world model, its actor and its critic."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ModelSize:
    """The widths of a model.

    Attributes:
        deter: Of the recurrent state h; a multiple of the blocks.
        hidden: Of the layers of the recurrent state-space model.
        stoch: Categorical variables S of z.
        classes: Classes K of each.
        units: Of the layers of encoder, decoder, heads, actor and critic.
        layers: Number of these layers; reward and continuation have one.
        depth: Channels of the first convolution are twice as many.
        blocks: Blocks of the GRU's matrices.
    """

    deter: int
    hidden: int
    stoch: int
    classes: int
    units: int
    layers: int
    depth: int
    blocks: int = 8

    def to_dict(self) -> dict[str, Any]:
        """Return the widths by name, as a policy's folder keeps them."""
        return asdict(self)
