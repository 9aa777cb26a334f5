"""`Drawn`: batches of several gradient steps that were drawn from experience at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from trainables.core.data.batch import Batch, as_tensor


def sequence_axis(name: str) -> int:
    """Return the axis of a column `[T, B, …]`, or of states `[B, …]`, that has the sequences."""
    return int(not name.startswith("state/"))


@dataclass(frozen=True)
class Drawn:
    """Batches of one module, one after another in every column.

    Attributes:
        columns: `[num_batches * size, …]`, or of sequences `[T, num_batches * size, …]`, and of
            these the states before their first rows, `[num_batches * size, …]`.
        num_rows: How many rows of each batch are trained on, over all learners.
        are_sequences: Whether the batches are of sequences, for networks with a memory.
    """

    columns: Batch
    num_rows: list[int]
    are_sequences: bool = False

    @property
    def num_batches(self) -> int:
        """As many gradient steps."""
        return len(self.num_rows)

    @property
    def batch_size(self) -> int:
        """Rows, or sequences, of a batch."""
        return self.columns["ids"].shape[int(self.are_sequences)] // self.num_batches

    def on(self, device: torch.device) -> Drawn:
        """Return it with its columns on a device."""
        return self.with_columns({name: column.to(device) for name, column in self.columns.items()})

    def with_columns(self, columns: Batch) -> Drawn:
        """Return the same batches with other columns."""
        return replace(self, columns=columns)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches, views into the columns."""
        if self.num_batches == 1:
            yield dict(self.columns)
            return
        size = self.batch_size
        parts = {n: column.split(size, self._axis(n)) for n, column in self.columns.items()}
        for i in range(self.num_batches):
            yield {name: of_batches[i] for name, of_batches in parts.items()}

    def shares(self, count: int) -> list[Drawn]:
        """Return it in so many parts, each with its rows, or sequences, of every batch."""
        size, total = self.batch_size, self.num_batches
        bounds = [size * i // count for i in range(count + 1)]
        starts = torch.arange(total)[:, None] * size
        places = [(starts + torch.arange(*ends)).flatten() for ends in pairwise(bounds)]
        return [
            replace(
                self,
                columns={n: c.index_select(self._axis(n), here) for n, c in self.columns.items()},
            )
            for here in places
        ]

    def _axis(self, name: str) -> int:
        """Return the axis of a column that batches follow one another on."""
        return sequence_axis(name) if self.are_sequences else 0

    def __getstate__(self) -> dict[str, Any]:
        # Arrays: a tensor takes the whole storage that it is a view of along, and more time.
        columns = {name: column.cpu().numpy() for name, column in self.columns.items()}
        return self.__dict__ | {"columns": columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        host = torch.device("cpu")
        columns: dict[str, Tensor] = {n: as_tensor(c, host) for n, c in state["columns"].items()}
        self.__dict__.update(state | {"columns": columns})
