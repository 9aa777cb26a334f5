"""The independent random streams of an algorithm, and integer seeds of streams."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class RandomStreams(NamedTuple):
    """Roots of an algorithm's independent random streams; an evaluation by itself uses the same."""

    module: np.random.SeedSequence
    learner: np.random.SeedSequence
    env_runners: np.random.SeedSequence
    evaluation: np.random.SeedSequence
    storage: np.random.SeedSequence


def random_streams(seed: int | None, *key: int) -> RandomStreams:
    """Return the streams of an algorithm with this `seed`; other ones for other keys."""
    # Never `seed + i`: neighbouring seeds would share streams.
    root = np.random.SeedSequence(seed, spawn_key=key)
    return RandomStreams(*root.spawn(len(RandomStreams._fields)))


def draw_seed(seed: np.random.SeedSequence) -> int:
    """Return one integer seed of a sequence, below 2**31 as environments expect."""
    return draw_seeds(seed)[0]


def draw_seeds(seed: np.random.SeedSequence) -> tuple[int, int]:
    """Return the seeds of an environment (that of `draw_seed`) and of its action space."""
    first, second = seed.generate_state(2, np.uint32)
    return int(first >> 1), int(second >> 1)
