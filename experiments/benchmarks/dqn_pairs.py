"""DQN and the bare loop in turns in one process: CPU seconds of an environment step and its update.

For a machine that is shared, see `in_turns.py`::

    python experiments/benchmarks/dqn_pairs.py --slots 1 --pairs 15

The last line it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time

import bare_dqn  # type: ignore[import-not-found]  # the neighbours, see off_policy.py
import in_turns  # type: ignore[import-not-found]
import numpy as np
import off_policy  # type: ignore[import-not-found]
import ours_off_policy  # type: ignore[import-not-found]
import torch


def cpu_ms_per_step(contestant: off_policy.Contestant, steps: int) -> float:
    """CPU milliseconds of an environment step, with the update that it makes due."""
    before, start = contestant.env_steps, time.process_time()
    while contestant.env_steps - before < steps:
        contestant.iterate()
    return (time.process_time() - start) / (contestant.env_steps - before) * 1e3


def main() -> None:
    """Prints the medians, and how many times as fast as the bare loop the other one is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slots", type=int, default=1, help="environments stepped together")
    parser.add_argument("--pairs", type=int, default=15, help="of blocks, in turns")
    parser.add_argument("--steps", type=int, default=400, help="environment steps of a block")
    parser.add_argument("--warmup", type=int, default=2_000, help="steps of each before")
    args = parser.parse_args()
    torch.set_num_threads(1)
    contestants = {
        "ours": ours_off_policy.Ours(ours_off_policy.equal_dqn(args.slots), 0),
        "bare": bare_dqn.BareDQN(off_policy.DQNSettings(), args.slots, 0),
    }
    for contestant in contestants.values():
        cpu_ms_per_step(contestant, args.warmup)
    measured = in_turns.in_turns(
        contestants, lambda one: cpu_ms_per_step(one, args.steps), args.pairs
    )
    for contestant in contestants.values():
        contestant.stop()
    result = {
        "slots": args.slots,
        **{f"{name}_cpu_ms": float(np.median(values)) for name, values in measured.items()},
        **in_turns.ratio_summary(measured["bare"] / measured["ours"]),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
