"""What an evaluation beside the training costs it: PPO on CartPole with and without one.

One env runner evaluates without a pause, with the weights of each iteration; training samples in
its own process. Rounds are interleaved; the cost is the median over rounds of two neighbours::

    python -m experiments.benchmarks.evaluation_cost
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from experiments.benchmarks.gather import (
    HERE,
    LABELS,
    console,
    keep,
    measure,
    middle,
    rounds,
    spread,
    table,
    verdict,
)

NAMES = ("ours", "evaluating")
RATE, CPU = "env_steps_per_second", "driver_cpu_us"
ALLOWED = 0.10
"""Share of the training speed that an evaluation may cost."""


def main() -> None:
    """Measures, prints the table and writes `evaluation_cost.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of each")
    parser.add_argument("--warmup", type=int, default=20_000, help="environment steps before that")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    args = parser.parse_args()
    given = ("throughput", "--steps", args.steps, "--warmup", args.warmup, "--env-runners", 0)
    results = rounds(
        NAMES,
        args.rounds,
        lambda name, number: measure(
            *(name, None, *given, "--seed", number),
            *(("--evaluate",) if name == "evaluating" else ()),
            algorithm="ppo_actors",
        ),
        lambda result: f"{result[RATE]:>9,.0f} steps/s",
    )
    columns = ("steps/s", "range", "driver's CPU us a step", "cost", "")
    view = table("an evaluation runner beside PPO", "", *columns)
    for name, measured in results.items():
        pairs = zip(results["ours"], measured, strict=True)
        cost = 1 - median(beside[RATE] / alone[RATE] for alone, beside in pairs)
        view.add_row(
            LABELS[name],
            f"{middle(measured, RATE):,.0f}",
            spread(measured, RATE),
            f"{middle(measured, CPU):.1f}",
            f"{cost:.1%}" if name == "evaluating" else "",
            verdict(cost, ALLOWED, at_most=True) if name == "evaluating" else "",
        )
    console.print(view)
    settings = {"rounds": args.rounds, "steps": args.steps, "warmup": args.warmup}
    keep(args.out, "evaluation_cost", settings, results)


if __name__ == "__main__":
    main()
