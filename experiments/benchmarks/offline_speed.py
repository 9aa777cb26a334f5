"""Updates per second of BC, CQL and IQL, everyone on the same data, one torch thread each.

BC on an expert's CartPole data (`offline_data_sets.py`): two hidden layers of 64 tanh units, Adam,
2,000 rows an update as Tunescape's and RLlib's defaults are, and 256. CQL and IQL on Pendulum's
replay (`offline_replays.py`): 256 rows, as everyone's default is, and 64 relu units::

    python -m experiments.benchmarks.offline_speed /path/to/data --peers-python /path/to/python
    python -m experiments.benchmarks.offline_speed /path/to/data --algorithm cql --peers-python …

RLlib by its default prepares its batches once, before the first update, and draws no others; that
is not counted. Told to draw anew, as all others do, it is measured for fewer updates.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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

CONTESTANTS = ("ours", "bare", "d3rlpy", "rllib", "rllib_anew")
FEWER = {"rllib_anew": ("--warmup", 100, "--updates", 200)}
"""Of those that take minutes for a pass."""
RATE, CPU = "updates_per_second", "cpu_ms"


class Task(NamedTuple):
    """What is measured of an algorithm.

    Attributes:
        name: For the table.
        data: The data set's folder.
        batch_sizes: Rows of an update.
        required: Ours over theirs, at least.
    """

    name: str
    data: str
    batch_sizes: tuple[int, ...]
    required: dict[str, float]


_OF_Q = {"d3rlpy": 1.0, "rllib": 5.0}
TASKS = {
    "bc": Task("BC on CartPole", "cartpole/expert", (256, 2000), {"bare": 0.9, "rllib": 10.0}),
    "cql": Task("CQL on Pendulum", "pendulum/replay", (256,), _OF_Q),
    "iql": Task("IQL on Pendulum", "pendulum/replay", (256,), _OF_Q),
}


def main() -> None:
    """Measures, prints a table for each size of batch and writes `offline_speed.json`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("data", type=Path, help="the folder of offline_data_sets.py")
    parser.add_argument("--algorithm", choices=list(TASKS), default="bc")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each")
    parser.add_argument("--peer-rounds", type=int, default=3, help="measurements of each peer")
    parser.add_argument("--updates", type=int, default=1_000, help="updates of each")
    parser.add_argument("--batch-sizes", type=int, nargs="+", help="rows of an update")
    parser.add_argument("--hidden", type=int, default=64, help="units of both hidden layers")
    args = parser.parse_args()
    names = chosen(args, CONTESTANTS)
    kept = {}
    for size in args.batch_sizes or TASKS[args.algorithm].batch_sizes:
        kept[str(size)] = compared(names, size, args)
    settings = {"rounds": args.rounds, "updates": args.updates, "hidden": args.hidden}
    name = "offline_speed" if args.algorithm == "bc" else f"offline_speed_{args.algorithm}"
    keep(args.out, name, settings, kept)


def compared(
    names: Sequence[str], batch_size: int, args: argparse.Namespace
) -> dict[str, list[Result]]:
    """Measures everyone with one size of batch and prints the table."""
    task = TASKS[args.algorithm]
    data = (args.data / task.data).absolute()
    sizes = ("--batch-size", batch_size, "--hidden", args.hidden)
    given = ("speed", data, "--updates", args.updates, *sizes, "--seed")
    results = rounds(
        names,
        args.rounds,
        lambda name, number: measure(
            name, args.peers_python, *given, number, *FEWER.get(name, ()), algorithm=args.algorithm
        ),
        lambda result: f"{result[RATE]:>9,.0f} updates/s  {result[CPU]:.2f} CPU ms",
        args.peer_rounds,
    )
    title = f"{task.name}, {batch_size} rows an update"
    view = table(title, "", "updates/s", "range", "ratio", "", "CPU ms", "ratio")
    for name, measured in results.items():
        rate, cpu = middle(measured, RATE), middle(measured, CPU)
        compare = "ours" in results and name != "ours"
        ratio = middle(results["ours"], RATE) / rate if compare else None
        view.add_row(
            LABELS[name],
            f"{rate:,.0f}",
            spread(measured, RATE),
            f"{ratio:.2f}" if ratio else "",
            verdict(ratio, task.required.get(name)) if ratio else "",
            f"{cpu:.2f}",
            f"{cpu / middle(results['ours'], CPU):.2f}" if compare else "",
        )
    console.print(view)
    return results


if __name__ == "__main__":
    main()
