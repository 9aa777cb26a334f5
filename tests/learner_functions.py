"""What tests run on learners. Their processes import it by its name."""

from __future__ import annotations

import os
import signal
from typing import Any

import torch

from trainables.runtime.learners.group import LearnerWorker


def vector(worker: LearnerWorker, data: Any) -> list[torch.Tensor]:
    """The weights of every rank."""
    mine = worker.learners["default_policy"].groups["all"].vector.detach()
    return [rows[0] for rows in worker.ranks.gather(mine[None])]


def kill_in_update(worker: LearnerWorker, data: Any, rank: int) -> str:
    """Ends a rank while the others wait for it, but not the one that comes after."""
    if worker.rank == rank and not os.path.exists(data["file"][0]):
        open(data["file"][0], "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    worker.ranks.sum(torch.ones(1))
    return "done"


def always_die(worker: LearnerWorker, data: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail_on_one(worker: LearnerWorker, data: Any) -> None:
    if worker.rank == 1:
        raise ValueError("this rank cannot")
    worker.ranks.sum(torch.ones(1))


def add(worker: LearnerWorker, data: Any, number: int) -> int:
    """Adds up what all ranks have of the data."""
    return int(worker.ranks.sum(torch.tensor(sum(data)))) + number


def pid_of(worker: LearnerWorker, data: Any) -> int:
    return os.getpid()
