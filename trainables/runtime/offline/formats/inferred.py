"""What is said, and asked, where spaces are told from the data themselves."""

from __future__ import annotations

import gymnasium as gym

from trainables.core.data.spaces import leaf_spaces
from trainables.core.logs import logger
from trainables.runtime.offline.episode import DataError, DataSpaces

_MOST_CHOICES = 256  # numbers beyond are rather ids or amounts, and each would be an output


def told(name: str, spaces: DataSpaces, *, whole: bool) -> DataSpaces:
    """Return spaces that are told from the data, once it was logged what was taken for granted.

    Args:
        name: The source.
        spaces: What its data fit.
        whole: Whether there are observations of whole numbers, which are taken as numbers.

    Raises:
        DataError: if they had more choices than anybody means who does not say so.
    """
    counted = False
    for setting, space in zip(("observation_space", "action_space"), spaces, strict=True):
        for leaf in leaf_spaces(space).values():
            if isinstance(leaf, gym.spaces.Discrete):
                count = int(leaf.n)
            elif isinstance(leaf, gym.spaces.MultiDiscrete):
                count = int(leaf.nvec.max(initial=0))
            else:
                continue
            if count > _MOST_CHOICES:
                raise DataError(
                    f"{name}: the largest value is {count - 1:,}, which would be {count:,} choices "
                    f"in {setting}; allowed without that setting: {_MOST_CHOICES}; give {setting} "
                    "or the environment"
                )
            counted = True
    if counted:
        logger.warning(
            "no file and no setting states the spaces of %s: %s and %s are told from the largest "
            "values; give observation_space and action_space if others may come",
            *(name, *spaces),
        )
    if whole:
        logger.warning(
            "whole numbers in observations of %s are taken as numbers, not as categories; give "
            "observation_space if they are some",
            name,
        )
    return spaces
