"""The independent random streams of an algorithm; an evaluation by itself uses the same one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class RandomStreams(NamedTuple):
    """Roots of an algorithm's independent random streams."""

    module: np.random.SeedSequence
    learner: np.random.SeedSequence
    env_runners: np.random.SeedSequence
    evaluation: np.random.SeedSequence
    storage: np.random.SeedSequence


def random_streams(seed: int | None, *key: int) -> RandomStreams:
    """The streams of an algorithm whose setting `seed` is this one; others for other keys."""
    # Never `seed + i`: neighbouring seeds would share streams.
    root = np.random.SeedSequence(seed, spawn_key=key)
    return RandomStreams(*root.spawn(len(RandomStreams._fields)))
