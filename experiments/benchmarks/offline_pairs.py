"""BC, CQL or IQL and the bare loop in turns in one process: CPU seconds of an update and its draw.

For a machine that is shared, see `in_turns.py`::

    python experiments/benchmarks/offline_pairs.py bc /path/to/data/cartpole/expert

The last line it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import bare_bc  # type: ignore[import-not-found]  # the neighbours, see imitation.py
import bare_offline  # type: ignore[import-not-found]
import imitation  # type: ignore[import-not-found]
import in_turns  # type: ignore[import-not-found]
import numpy as np
import ours_offline  # type: ignore[import-not-found]
import torch

BARE = {"bc": bare_bc.BareBC, "cql": bare_offline.BareCQL, "iql": bare_offline.BareIQL}


def cpu_ms_per_update(imitator: imitation.Imitator, updates: int) -> float:
    """CPU milliseconds of an update."""
    before, start = imitator.updates, time.process_time()
    while imitator.updates - before < updates:
        imitator.iterate()
    return (time.process_time() - start) / (imitator.updates - before) * 1e3


def main() -> None:
    """Prints the medians, and how many times as fast as the bare loop the other one is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("algorithm", choices=list(BARE))
    parser.add_argument("data", type=Path, help="of offline_data_sets.py, e.g. …/cartpole/expert")
    parser.add_argument("--hidden", type=int, default=64, help="units of both hidden layers")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=15, help="of blocks, in turns")
    parser.add_argument("--updates", type=int, default=100, help="of a block")
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = imitation.ImitationSettings(
        data=args.data,
        env_id=imitation.ENVS[args.data.parent.name],
        hidden=args.hidden,
        batch_size=args.batch_size,
    )
    imitators = {
        "ours": ours_offline.Ours(args.algorithm, settings),
        "bare": BARE[args.algorithm](settings),
    }
    for imitator in imitators.values():
        cpu_ms_per_update(imitator, args.updates)
    measured = in_turns.in_turns(
        imitators, lambda one: cpu_ms_per_update(one, args.updates), args.pairs
    )
    for imitator in imitators.values():
        imitator.stop()
    result = {
        "algorithm": args.algorithm,
        "hidden": args.hidden,
        "batch_size": args.batch_size,
        **{f"{name}_cpu_ms": float(np.median(values)) for name, values in measured.items()},
        **in_turns.ratio_summary(measured["bare"] / measured["ours"]),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
