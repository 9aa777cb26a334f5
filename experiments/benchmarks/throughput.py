"""Environment steps and updates per second, everyone at equal settings, one torch thread.

PPO on CartPole: 32 slots, 64 steps, 6 epochs, minibatch 256, two separate 64-64 tanh networks.
DQN on CartPole (batch 64) and SAC on Pendulum (batch 256): one slot, one update per environment
step, 256-256 relu networks, uniform replay. IMPALA and APPO on CartPole: 2 env runners of 16 slots,
50 steps, batches of 800. `off_policy.py` has every setting::

    python -m experiments.benchmarks.throughput --algorithm sac --peers-python /path/to/python
"""

from __future__ import annotations

import argparse

from experiments.benchmarks.gather import (
    LABELS,
    TITLES,
    Result,
    arguments,
    by_algorithm,
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
STEPS = "env_steps_per_second"
UPDATES = "updates_per_second"
REQUIRED = {
    "ppo": {"bare": 0.85, "sb3": 1.25, "rllib": 5.0},
    "dqn": {"bare": 0.85, "sb3": 1.0, "rllib": 3.0},
    "sac": {"bare": 0.85, "sb3": 1.0, "rllib": 3.0},
    "impala": {"rllib": 4.0},
    "appo": {"rllib": 4.0},
}
"""Ours over theirs, at least: of environment steps, for the off-policy bare loops of updates."""
SIZES = {
    "ppo": (61_440, 8_192),
    "dqn": (8_000, 2_000),
    "sac": (3_000, 2_000),
    "impala": (60_000, 20_000),
    "appo": (60_000, 20_000),
}
"""Environment steps that are measured, and of the warm-up (which learning starts in)."""


def main() -> None:
    """Measures, prints the table and writes `throughput.json`, or `throughput_<algorithm>.json`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--algorithm", choices=list(SIZES), default="ppo")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each")
    parser.add_argument("--steps", type=int, help="environment steps of each (by algorithm)")
    parser.add_argument("--warmup", type=int, help="environment steps before that (by algorithm)")
    parser.add_argument("--slots", type=int, default=1, help="environments in step, DQN only")
    parser.add_argument("--env-runners", type=int, help="processes that sample, IMPALA and APPO")
    parser.add_argument("--learners", type=int, help="processes that learn, IMPALA and APPO")
    args = parser.parse_args()
    names, algorithm = chosen(args, CONTESTANTS), args.algorithm
    if actors(args) and algorithm not in ("impala", "appo"):
        parser.error(
            f"--env-runners and --learners are options of IMPALA and APPO, not of {algorithm}"
        )
    if args.slots != 1 and algorithm != "dqn":
        parser.error(f"--slots is an option of DQN, not of {algorithm}")
    steps = SIZES[algorithm][0] if args.steps is None else args.steps
    warmup = SIZES[algorithm][1] if args.warmup is None else args.warmup
    slots = ("--slots", args.slots) if algorithm == "dqn" else ()
    given = ("throughput", "--steps", steps, "--warmup", warmup, *slots, *actors(args), "--seed")
    results = rounds(
        names,
        args.rounds,
        lambda name, number: measure(name, args.peers_python, *given, number, algorithm=algorithm),
        lambda result: f"{result[STEPS]:>9,.0f} steps/s",
    )
    off_policy = algorithm in ("dqn", "sac")
    more = ("updates/s", "ms") if off_policy else ("range",)
    view = table(f"{TITLES[algorithm]}, equal settings", "", "steps/s", *more, "ratio", "")
    for name, measured in results.items():
        by = UPDATES if off_policy and name == "bare" else STEPS
        compare = "ours" in results and name != "ours"
        ratio = middle(results["ours"], by) / middle(measured, by) if compare else None
        view.add_row(
            LABELS[name],
            f"{middle(measured, STEPS):,.0f}",
            *(updates(measured) if off_policy else (spread(measured, STEPS),)),
            f"{ratio:.2f}" if ratio else "",
            verdict(ratio, REQUIRED[algorithm].get(name)) if ratio else "",
        )
    console.print(view)
    settings = {"rounds": args.rounds, "steps": steps, "warmup": warmup}
    settings |= {"slots": args.slots} if off_policy else {}
    name = by_algorithm("throughput", algorithm)
    keep(args.out, name if args.slots == 1 else f"{name}_{args.slots}_slots", settings, results)


def actors(args: argparse.Namespace) -> tuple[object, ...]:
    """The options of the contestants that have env runners, as far as they are given."""
    given = {"--env-runners": args.env_runners, "--learners": args.learners}
    return tuple(part for pair in given.items() if pair[1] is not None for part in pair)


def updates(measured: list[Result]) -> tuple[str, str]:
    """Updates per second, and milliseconds of one (drawing its batch included)."""
    return f"{middle(measured, UPDATES):,.0f}", f"{middle(measured, 'update_ms'):.2f}"


if __name__ == "__main__":
    main()
