"""`Mixture`: several experiences drawn from as one, each with its share of every batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.resolved import exact
from trainables.core.data.batch import Batch, Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.drawn import sequence_axis
from trainables.runtime.replay.experience import Experience, GrowingExperience, NStep

_BITS = 48  # of a row's number within its part; above them, the number of the part


class Mixture:
    """Experience in shares: e.g. four rows of data to one that was just sampled.

    Shares are exact, not drawn: what a batch has too few of by rounding, later batches make up for.

    Args:
        parts: What is mixed, by name.
        shares: The share of each, by name; they are taken relative to each other.
        growing: The name of the one that what is sampled is added to; None: nothing is added.
    """

    def __init__(
        self,
        parts: Mapping[str, Experience],
        shares: Mapping[str, float],
        growing: str | None = None,
    ):
        self.parts = dict(parts)
        self._growing = growing
        given = {name: exact(shares[name]) for name in self.parts}
        total = sum(given.values())
        self._shares = [share / total for share in given.values()]
        self._owed = [Fraction(0)] * len(self._shares)  # rows, or sequences, to be made up for

    @property
    def num_steps(self) -> int:
        """Rows that can be drawn."""
        return sum(part.num_steps for part in self.parts.values())

    @property
    def num_added(self) -> int:
        """Rows that were ever added since it was empty: what was sampled, not what was read."""
        return 0 if self._growing is None else self.parts[self._growing].num_added

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return sum(part.nbytes for part in self.parts.values())

    # ------------------------------------------------------------------ writing

    def add(self, rollout: Rollout) -> None:
        """Write a rollout `[T, N]` into the part that grows."""
        self._grows().add(rollout)

    def add_episodes(self, rollout: Rollout) -> None:
        """Write a rollout `[T, N]` of whole episodes into the part that grows."""
        self._grows().add_episodes(rollout)

    def _grows(self) -> GrowingExperience:
        if self._growing is None:
            raise ValueError(f"nothing can be added to {list(self.parts)}")
        growing: GrowingExperience = self.parts[self._growing]  # type: ignore[assignment]
        return growing

    def update(self, ids: Tensor, columns: Batch) -> None:
        """Write values of rows back, each into the part that the row was drawn from."""
        numbers = ids >> _BITS
        for number, part in enumerate(self.parts.values()):
            of_part = numbers == number
            if of_part.any():
                rows = ids[of_part] & ((1 << _BITS) - 1)
                part.update(rows, {name: values[of_part] for name, values in columns.items()})

    def clear(self) -> None:
        """Forget what was added."""
        for part in self.parts.values():
            part.clear()

    # ------------------------------------------------------------------ drawing

    def sample(
        self,
        batch_size: int,
        num_batches: int = 1,
        *,
        gamma: float,
        n_step: NStep = 1,
        beta: float = 1.0,
    ) -> Batch:
        """Draw transitions, or n-step windows, of several batches; see `Experience`.

        Each batch has the rows of one part behind those of another.
        """
        counts = np.array([self._counts(batch_size) for _ in range(num_batches)])  # [batch, part]
        totals = counts.sum(axis=0)
        drawn = [
            self._marked(number, part.sample(total, gamma=gamma, n_step=n_step, beta=beta))
            for number, (part, total) in enumerate(
                zip(self.parts.values(), totals.tolist(), strict=True)
            )
            if total
        ]
        if len(drawn) == 1:
            return drawn[0]
        # Rows of all parts, by part, then by batch; wanted by batch, then by part.
        number_of_batch = np.concatenate([np.repeat(np.arange(num_batches), c) for c in counts.T])
        order = torch.from_numpy(np.argsort(number_of_batch, kind="stable"))
        return {
            name: torch.cat([part[name] for part in drawn]).index_select(0, order)
            for name in drawn[0]
        }

    def num_sequences(self, length: int) -> int:
        """Return how many sequences of `length` rows may be drawn: 0 if a part has none."""
        found = [part.num_sequences(length) for part in self.parts.values()]
        return sum(found) if all(found) else 0

    def sample_sequences(
        self, batch_size: int, length: int, *, n_step: int | Sequence[int] = 1
    ) -> Batch:
        """Draw runs of consecutive rows; see `Experience`. The shares are of sequences."""
        counts = zip(self.parts.values(), self._counts(batch_size), strict=True)
        drawn = [
            self._marked(number, part.sample_sequences(count, length, n_step=n_step))
            for number, (part, count) in enumerate(counts)
            if count
        ]
        return {
            name: torch.cat([part[name] for part in drawn], sequence_axis(name))
            for name in drawn[0]
        }

    def _counts(self, size: int) -> list[int]:
        """Return how many rows of a batch each part gives, and note what is owed then."""
        owed = [o + size * share for o, share in zip(self._owed, self._shares, strict=True)]
        counts = [max(0, floor(each)) for each in owed]
        while (missing := size - sum(counts)) != 0:
            rest = [each - count for each, count in zip(owed, counts, strict=True)]
            if missing > 0:
                counts[rest.index(max(rest))] += 1
            else:
                given = [i for i, count in enumerate(counts) if count]
                counts[min(given, key=rest.__getitem__)] -= 1
        self._owed = [each - count for each, count in zip(owed, counts, strict=True)]
        return counts

    @staticmethod
    def _marked(number: int, drawn: Batch) -> Batch:
        """Return a draw whose ids say which part it is of."""
        return drawn | {"ids": drawn["ids"] | (number << _BITS)} if number else drawn

    # ------------------------------------------------------------------ state

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draw from other random streams from now on."""
        for part, child in zip(self.parts.values(), seed.spawn(len(self.parts)), strict=True):
            part.reseed(child)

    def get_state(self) -> dict[str, Any]:
        """Return a copy of everything that the next draws depend on."""
        return {
            "shares": [str(share) for share in self._shares],
            "owed": [str(owed) for owed in self._owed],
            "parts": [part.get_state() for part in self.parts.values()],
        }

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise what `set_state` would raise, and change nothing."""
        saved = state.get("parts", [])
        if len(saved) != len(self.parts):
            raise ConfigError(
                f"input_ has {len(self.parts)} sources, but the checkpoint was trained on "
                f"{len(saved)}: they must agree"
            )
        for part, own in zip(self.parts.values(), saved, strict=True):
            part.check_state(own)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s; shares that differ from the saved ones hold from now on.

        Raises:
            ConfigError: if it does not fit.
        """
        self.check_state(state)
        for part, own in zip(self.parts.values(), state["parts"], strict=True):
            part.set_state(own)
        same = state["shares"] == [str(share) for share in self._shares]
        owed = [Fraction(text) for text in state["owed"]]
        self._owed = owed if same else [Fraction(0)] * len(owed)
