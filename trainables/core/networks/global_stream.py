"""The random stream that layers draw their weights from unless they are given one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded_layers(generator: torch.Generator | None) -> Iterator[None]:
    """Seed the global stream for layers that are made meanwhile, and leave it as it was.

    Args:
        generator: The CPU generator that the seed is drawn from; None is the global stream itself.
    """
    with torch.random.fork_rng(devices=[]):
        seed = torch.randint(2**62, (), generator=generator)
        torch.manual_seed(int(seed))
        yield
