"""`python -m killed_sweep N SPEC`: a sweep whose driver is killed when N checkpoints are noted.

That is before the sweep's state is saved with what came of the last one.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from experiments.durability import checkpoint_journal
from experiments.running.runner import run_sweep
from experiments.sweep.load import load_spec
from experiments.sweep.sweep import Sweep


def killing_after(append: Callable[..., None], count: int) -> Callable[..., None]:
    noted = 0

    def append_and_die(*arguments: Any) -> None:
        nonlocal noted
        append(*arguments)
        noted += 1
        if noted == count:
            os.kill(os.getpid(), signal.SIGKILL)

    return append_and_die


if __name__ == "__main__":
    checkpoint_journal.append = killing_after(checkpoint_journal.append, int(sys.argv[1]))
    run_sweep(Sweep.of(load_spec(sys.argv[2])))
