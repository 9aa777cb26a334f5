"""Seconds of a sweep under Tune: 8 trials of PPO on CartPole, 40,960 steps each, on 2 CPUs.

The same random search over the learning rate with Tunescape's trainable, two trials at a time and
trained together in two processes, and with RLlib's. The clock starts when Ray is up::

    python -m experiments.benchmarks.sweep --peers-python /path/to/peers/bin/python
    python -m experiments.benchmarks.sweep --trials 32 --peers-python /path/to/peers/bin/python
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

CONTESTANTS = ("ours", "batched", "rllib")
REQUIRED = {("rllib", "ours"): 4.0, ("ours", "batched"): 2.0, ("rllib", "batched"): 8.0}
"""Seconds of one over those of another, at least."""


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
    view = table(title, "", "seconds", "range", "best return")
    for name, measured in results.items():
        seconds = f"{middle(measured, 'seconds'):.1f}"
        best = f"{middle(measured, 'best'):.0f}"
        view.add_row(LABELS[name], seconds, spread(measured, "seconds"), best)
    console.print(view)
    ratios = table("Seconds of one over those of another", "", "ratio", "")
    for (slow, fast), least in REQUIRED.items():
        if slow in results and fast in results:
            ratio = middle(results[slow], "seconds") / middle(results[fast], "seconds")
            label = f"{LABELS[slow]} over {LABELS[fast]}"
            ratios.add_row(label, f"{ratio:.2f}", verdict(ratio, least))
    console.print(ratios)
    settings = {"rounds": args.rounds, "trials": args.trials, "steps": args.steps}
    keep(args.out, "sweep" if args.trials == 8 else f"sweep_{args.trials}", settings, results)


if __name__ == "__main__":
    main()
