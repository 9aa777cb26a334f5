"""Random numbers for many slots at once, from a stream of its own for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainables.core.data.stored import like
from trainables.core.errors import ConfigError

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TO_UNIT = 2.0**-53


class SlotStreams:
    """N counter-based random streams: number i of a stream is a hash of its key and of i.

    So slots draw together, in numpy, and yet none's numbers depend on how often another draws. The
    hash is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), applied to the counter and,
    with the key, once more. Without `seed`, the keys are drawn from the system's entropy.

    Args:
        num_slots: Number of streams, N.
    """

    def __init__(self, num_slots: int):
        self._keys = np.random.SeedSequence().generate_state(num_slots, np.uint64)
        self._drawn = np.zeros(num_slots, np.uint64)

    def seed(self, seeds: list[int]) -> None:
        """Begin each stream anew, with the seed of its slot.

        Raises:
            ConfigError: if there is not one seed for each slot.
        """
        if len(seeds) != len(self._keys):
            raise ConfigError(f"reset was given {len(seeds)} seeds for {len(self._keys)} slots")
        keys = [np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] for seed in seeds]
        self._keys[:] = keys
        self._drawn[:] = 0

    def uniform(self, slots: np.ndarray, count: int) -> np.ndarray:
        """Draw the next numbers of some slots, from 0 (with it) to 1 (without).

        Args:
            slots: Which slots draw, `[N]`, bool.
            count: How many numbers each draws.

        Returns:
            `[number of slots that draw, count]`, float64.
        """
        counters = self._drawn[slots, None] + np.arange(count, dtype=np.uint64)
        self._drawn[slots] += np.uint64(count)
        bits = _mixed(self._keys[slots, None] ^ _mixed((counters + np.uint64(1)) * _GOLDEN))
        return (bits >> np.uint64(11)) * _TO_UNIT

    def get_state(self) -> dict[str, np.ndarray]:
        """Return the keys and how many numbers were drawn."""
        return {"keys": self._keys.copy(), "drawn": self._drawn.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`'s."""
        self._keys = like(self._keys, state["keys"], "keys of random streams")
        self._drawn = like(self._drawn, state["drawn"], "counters of random streams")


def _mixed(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
