"""Environment steps per second of PPO on CartPole, everyone at equal settings.

32 slots, 64 steps, 6 epochs, minibatch 256, two separate 64-64 tanh networks, one torch thread::

    python -m experiments.benchmarks.throughput --peers-python /path/to/peers/bin/python
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

CONTESTANTS = ("ours", "bare", "sb3", "rllib")
RATE = "env_steps_per_second"
REQUIRED = {"bare": 0.85, "sb3": 1.25, "rllib": 5.0}
"""Ours over theirs, at least."""


def main() -> None:
    """Measures, prints the table and writes `throughput.json`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each")
    parser.add_argument("--steps", type=int, default=61_440, help="environment steps of each")
    parser.add_argument("--warmup", type=int, default=8_192, help="environment steps before that")
    args = parser.parse_args()
    names = chosen(args, CONTESTANTS)
    given = ("throughput", "--steps", args.steps, "--warmup", args.warmup, "--seed")
    results = rounds(
        names,
        args.rounds,
        lambda name, number: measure(name, args.peers_python, *given, number),
        lambda result: f"{result[RATE]:>9,.0f} steps/s",
    )
    view = table("PPO on CartPole, equal settings", "", "steps/s", "range", "ratio", "")
    ours = middle(results["ours"], RATE) if "ours" in results else None
    for name, measured in results.items():
        ratio = ours / middle(measured, RATE) if ours and name != "ours" else None
        view.add_row(
            LABELS[name],
            f"{middle(measured, RATE):,.0f}",
            spread(measured, RATE),
            f"{ratio:.2f}" if ratio else "",
            verdict(ratio, REQUIRED.get(name)) if ratio else "",
        )
    console.print(view)
    settings = {"rounds": args.rounds, "steps": args.steps, "warmup": args.warmup}
    keep(args.out, "throughput", settings, results)


if __name__ == "__main__":
    main()
