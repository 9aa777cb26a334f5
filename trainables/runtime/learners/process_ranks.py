"""`ProcessRanks`: learners in processes of their own, over torch.distributed."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from trainables.core.learning.ranks import Ranks
from trainables.runtime.process_environment import ProcessEnvironment

GPUS = "cpu:gloo,cuda:nccl"
CPUS = "gloo"

# A rank waits for the slowest one: for its share of advantages, at most, or of a gradient.
_WAIT = timedelta(seconds=600)
_INTERFACE = "GLOO_SOCKET_IFNAME"
_LOOPBACK_INTERFACE = {"linux": "lo", "darwin": "lo0"}


class RankLost(RuntimeError):
    """Another rank has gone or does not answer, so that nothing can be summed."""


def open_store(host: str, size: int) -> dist.TCPStore:
    """Return where ranks find each other, on a free port of this process: its `port`.

    It listens at that address only; by itself a store would at all that this machine has.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    port = listener.getsockname()[1]
    return dist.TCPStore(
        host,
        port,
        size,
        is_master=True,
        wait_for_workers=False,
        timeout=_WAIT,
        master_listen_fd=listener.detach(),
    )


def find_store(host: str, port: int, size: int) -> dist.TCPStore:
    """Return what another process has opened."""
    return dist.TCPStore(host, port, size, is_master=False, timeout=_WAIT)


class ProcessRanks(Ranks):
    """One of several ranks, each in a process of its own.

    Args:
        rank: This process.
        size: How many there are; all are made at the same time.
        store: Where they find each other.
        backend: `CPUS`; `GPUS` if every rank has a GPU to itself.
        one_node: Whether they are all on this machine: they then talk over its loopback.

    Raises:
        RankLost: if the others do not come.
    """

    def __init__(self, rank: int, size: int, store: dist.Store, backend: str, one_node: bool):
        self.rank, self.size = rank, size
        self._backend = backend
        with _others(), _interface(one_node):
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_WAIT)

    def sum(self, tensor: Tensor) -> Tensor:
        # Ranks that share a GPU cannot use nccl; what they sum goes through host memory.
        here = tensor.cpu() if self._backend == CPUS else tensor
        with _others():
            dist.all_reduce(here)
        return tensor if here is tensor else tensor.copy_(here)

    def gather(self, rows: Tensor) -> list[Tensor]:
        sizes = torch.zeros(self.size, dtype=torch.long)
        sizes[self.rank] = len(rows)
        self.sum(sizes)
        # All ranks give as many rows: the longest one's number.
        mine = rows.cpu() if self._backend == CPUS else rows
        padded = mine.new_zeros((int(sizes.max()), *rows.shape[1:]))
        padded[: len(rows)] = mine
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        with _others():
            dist.all_gather(parts, padded)
        return [part[:n].to(rows.device) for part, n in zip(parts, sizes.tolist(), strict=True)]

    def leave(self) -> None:
        """Close the connections: whoever waits for this rank fails at once."""
        if dist.is_initialized():
            dist.destroy_process_group()


@contextmanager
def _interface(one_node: bool) -> Iterator[None]:
    """Which network ranks connect over. The next group of this process may have another."""
    variables = ProcessEnvironment()
    if one_node and sys.platform in _LOOPBACK_INTERFACE and _INTERFACE not in os.environ:
        variables.set({_INTERFACE: _LOOPBACK_INTERFACE[sys.platform]})
    try:
        yield
    finally:
        variables.take_back()


@contextmanager
def _others() -> Iterator[None]:
    """What goes wrong inside is another rank's doing."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        raise RankLost(f"another learner is gone or too late: {reason}") from None
