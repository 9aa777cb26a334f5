"""Seconds of a sweep under Tune: 8 trials of PPO on CartPole, 40,960 steps each, on 2 CPUs.

The same random search over the learning rate, two trials at a time, with Tunescape's trainable and
with RLlib's. The clock starts when Ray is up::

    python -m experiments.benchmarks.sweep --peers-python /path/to/peers/bin/python
"""

from __future__ import annotations

from experiments.benchmarks.gather import (
    LABELS,
    BenchmarkError,
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

CONTESTANTS = ("ours", "rllib")
REQUIRED = 4.0
"""RLlib's seconds over ours, at least."""


def main() -> None:
    """Measures, prints the table and writes `sweep.json`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--rounds", type=int, default=3, help="sweeps of each")
    parser.add_argument("--trials", type=int, default=8, help="trials of a sweep")
    parser.add_argument("--steps", type=int, default=40_960, help="environment steps of a trial")
    args = parser.parse_args()
    names = chosen(args, CONTESTANTS)

    def task(name: str, number: int) -> Result:
        given = ("--trials", args.trials, "--steps", args.steps, "--seed", number)
        result = measure(name, args.peers_python, "sweep", *given)
        if result["errors"]:
            raise BenchmarkError(f"{LABELS[name]}: {result['errors']} trials failed")
        return result

    results = rounds(names, args.rounds, task, lambda result: f"{result['seconds']:>7.1f} s")
    title = f"A sweep of {args.trials} trials, {args.steps:,} steps each, 2 CPUs"
    view = table(title, "", "seconds", "range", "best return", "ratio", "")
    ours = middle(results["ours"], "seconds") if "ours" in results else None
    for name, measured in results.items():
        ratio = middle(measured, "seconds") / ours if ours and name != "ours" else None
        view.add_row(
            LABELS[name],
            f"{middle(measured, 'seconds'):.1f}",
            spread(measured, "seconds"),
            f"{middle(measured, 'best'):.0f}",
            f"{ratio:.2f}" if ratio else "",
            verdict(ratio, REQUIRED) if ratio else "",
        )
    console.print(view)
    settings = {"rounds": args.rounds, "trials": args.trials, "steps": args.steps}
    keep(args.out, "sweep", settings, results)


if __name__ == "__main__":
    main()
