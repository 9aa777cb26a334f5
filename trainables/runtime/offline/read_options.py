"""How recorded values are taken, whatever the format of their files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColumnNames:
    """What columns of a table are called, where not as we call them; empty: as we do.

    Attributes:
        obs: The features that are the observation, a number each, in their order; of one column
            alone, all of it.
        action: The action.
        reward: The reward.
        episode: What tells episodes apart.
    """

    obs: tuple[str, ...] = ()
    action: str = ""
    reward: str = ""
    episode: str = ""


@dataclass(frozen=True)
class ReadOptions:
    """How recorded values are taken.

    Attributes:
        clip_actions: Whether actions outside of a Box's bounds are clipped to them, not refused:
            RLlib records Gaussian actions as they were drawn.
        actions_normalized: Whether Boxes of floats with bounds are recorded in [-1, 1]. Reading
            stretches them: episodes have them as the environment took them.
        columns: What columns of tables (Parquet, CSV) are called.
    """

    clip_actions: bool = False
    actions_normalized: bool = False
    columns: ColumnNames = ColumnNames()
