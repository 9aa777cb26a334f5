"""What `torch_compile_learner` gains: updates per second of DQN and SAC with and without it.

The settings are those of `throughput.py`; compiling itself falls into the warm-up::

    python -m experiments.benchmarks.compiled
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from experiments.benchmarks.gather import (
    HERE,
    TITLES,
    Path,
    Result,
    console,
    keep,
    measure,
    middle,
    rounds,
    spread,
    table,
)
from experiments.benchmarks.throughput import SIZES, UPDATES


def main() -> None:
    """Measures, prints the table and writes `compiled.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=["dqn", "sac"], default=["dqn", "sac"])
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each")
    parser.add_argument("--steps", type=int, help="environment steps of each (by algorithm)")
    parser.add_argument("--warmup", type=int, help="environment steps before that (by algorithm)")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    args = parser.parse_args()
    view = table("torch_compile_learner", "", "updates/s", "range", "ms", "gain")
    everything = {}
    for algorithm in args.only:
        steps = SIZES[algorithm][0] if args.steps is None else args.steps
        warmup = SIZES[algorithm][1] if args.warmup is None else args.warmup
        given = ("throughput", "--steps", steps, "--warmup", warmup)

        results = everything[algorithm] = rounds(
            ("ours", "compiled"),
            args.rounds,
            partial(task, algorithm, given),
            lambda result: f"{result[UPDATES]:>7,.0f} updates/s",
        )
        plain = middle(results["ours"], UPDATES)
        for name, measured in results.items():
            updates = middle(measured, UPDATES)
            view.add_row(
                TITLES[algorithm] + (", compiled" if name == "compiled" else ""),
                f"{updates:,.0f}",
                spread(measured, UPDATES),
                f"{middle(measured, 'update_ms'):.2f}",
                f"{updates / plain:.2f}" if name == "compiled" else "",
            )
    console.print(view)
    settings = {"rounds": args.rounds, "steps": args.steps, "warmup": args.warmup}
    keep(args.out, "compiled", settings, everything)


def task(algorithm: str, given: Sequence[object], name: str, number: int) -> Result:
    """One measurement."""
    flag = ("--compile",) if name == "compiled" else ()
    return measure(name, None, *given, *flag, "--seed", number, algorithm=algorithm)


if __name__ == "__main__":
    main()
