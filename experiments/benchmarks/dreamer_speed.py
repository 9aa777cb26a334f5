"""Updates per second of DreamerV3 beside RLlib's, and beside its own losses in a bare loop.

16 sequences of 64 rows, dreams of 15 steps, one torch thread each: on CartPole's observations, or
on images of 64 x 64 pixels::

    python -m experiments.benchmarks.dreamer_speed --peers-python /path/to/python
    python -m experiments.benchmarks.dreamer_speed --images --peers-python /path/to/python

RLlib's update is its learner's alone, ours is a whole iteration with an environment step. An
update takes seconds: few are measured, and CPU seconds beside the rate, for a shared machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from experiments.benchmarks.gather import (
    LABELS,
    Result,
    arguments,
    chosen,
    console,
    keep,
    measure,
    middle,
    rounds,
    spread,
    table,
    verdict,
)

CONTESTANTS = ("ours", "equal_work", "bare", "rllib")
RATE, CPU = "updates_per_second", "cpu_s"
REQUIRED = {"bare": 0.9, "rllib": 1.5}


def main() -> None:
    """Measures, prints a table for each size and writes `dreamer_speed.json`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each")
    parser.add_argument("--sizes", nargs="+", default=["micro", "XS"], help="model sizes")
    parser.add_argument("--updates", type=int, nargs="+", default=[10, 2], help="of each, by size")
    parser.add_argument("--warmup", type=int, default=1, help="updates before them")
    parser.add_argument("--images", action="store_true", help="instead of CartPole's observations")
    args = parser.parse_args()
    names = [n for n in chosen(args, CONTESTANTS) if args.images or n != "equal_work"]
    kept = {
        size: compared(names, size, updates, args)
        for size, updates in zip(args.sizes, args.updates, strict=True)
    }
    name = "dreamer_speed_images" if args.images else "dreamer_speed"
    keep(args.out, name, {"rounds": args.rounds, "updates": args.updates}, kept)


def compared(
    names: Sequence[str], size: str, updates: int, args: argparse.Namespace
) -> dict[str, list[Result]]:
    """Measures everyone with one size and prints the table."""
    images = ["--images"] if args.images else []
    given = ("--size", size, "--warmup", args.warmup, "--updates", updates, *images)
    results = rounds(
        names,
        args.rounds,
        lambda name, number: measure(
            name, args.peers_python, *given, "--seed", number, algorithm="dreamerv3"
        ),
        lambda result: f"{result[RATE]:.3f} updates/s  {result[CPU]:.3f} CPU s",
    )
    seen = "images" if args.images else "CartPole"
    title = f"DreamerV3, {size}, {seen}"
    view = table(title, "", "parameters", "updates/s", "range", "ratio", "CPU s", "ratio", "")
    for name, measured in results.items():
        rate, cpu = middle(measured, RATE), middle(measured, CPU)
        compare = "ours" in results and name != "ours"
        by_cpu = cpu / middle(results["ours"], CPU) if compare else None
        view.add_row(
            LABELS[name],
            f"{measured[0]['parameters']:,}",
            f"{rate:.3f}",
            spread(measured, RATE),
            f"{middle(results['ours'], RATE) / rate:.2f}" if compare else "",
            f"{cpu:.3f}",
            f"{by_cpu:.2f}" if by_cpu else "",
            verdict(by_cpu, REQUIRED.get(name)) if by_cpu else "",
        )
    console.print(view)
    return results


if __name__ == "__main__":
    main()
