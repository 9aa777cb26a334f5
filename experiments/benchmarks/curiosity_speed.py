"""Environment steps per second of PPO with an intrinsic curiosity module, and what it costs.

RLlib's example of it: a frozen lake of 12 x 12 fields, 5 slots, batches of 2,000, 6 epochs of
minibatches of 128, and its networks. RLlib trains the module in each of the six epochs; so does
"equal work", where ours does in one::

    python -m experiments.benchmarks.curiosity_speed --peers-python /path/to/python
"""

from __future__ import annotations

from experiments.benchmarks.gather import (
    LABELS,
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

CONTESTANTS = ("ours", "plain", "equal_work", "rllib")
GIVEN = {"plain": ("--plain",), "equal_work": ("--epochs", 6)}
RATE, CPU = "steps_per_second", "cpu_steps_per_second"
MOST_COST, LEAST_LEAD = 1.6, 4.0


def main() -> None:
    """Measures, prints the table and writes `curiosity_speed.json`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each")
    parser.add_argument("--steps", type=int, default=60_000, help="of the environment, in all")
    args = parser.parse_args()
    results = rounds(
        chosen(args, CONTESTANTS),
        args.rounds,
        lambda name, number: measure(
            name,
            args.peers_python,
            *("--steps", args.steps, "--seed", number, *GIVEN.get(name, ())),
            algorithm="curiosity",
        ),
        lambda result: f"{result[RATE]:,.0f} steps/s  {result[CPU]:,.0f} by CPU time",
    )
    view = table(
        "Curiosity on a frozen lake, PPO", "", "steps/s", "range", "by CPU time", "ratio", ""
    )
    for name, measured in results.items():
        rate, cpu = middle(measured, RATE), middle(measured, CPU)
        ratio = middle(results["ours"], CPU) / cpu if "ours" in results and name != "ours" else None
        verdicts = {"rllib": LEAST_LEAD}
        view.add_row(
            LABELS[name],
            f"{rate:,.0f}",
            spread(measured, RATE),
            f"{cpu:,.0f}",
            f"{ratio:.2f}" if ratio else "",
            verdict(ratio, verdicts.get(name)) if ratio else "",
        )
    console.print(view)
    if {"ours", "plain"} <= results.keys():
        cost = middle(results["plain"], CPU) / middle(results["ours"], CPU)
        console.print(f"CPU of a step with it over one without: {cost:.2f} (at most {MOST_COST})")
    keep(args.out, "curiosity_speed", {"rounds": args.rounds, "steps": args.steps}, results)


if __name__ == "__main__":
    main()
