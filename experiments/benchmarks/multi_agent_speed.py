"""Environment and agent steps per second of PPO with several agents, one torch thread each.

CartPole with 4 agents and 2 policies: 2,048 environment steps an iteration, 6 epochs, minibatch
256, two separate 64-64 tanh networks a policy; `agents_ppo.py` has every setting. RLlib and
Tunescape each step their own `make_multi_agent("CartPole-v1")`, which is Python, and Tunescape
besides its native game, whose slots and agents are arrays::

    python -m experiments.benchmarks.multi_agent_speed --peers-python /path/to/python --slots 1 8
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
)

CONTESTANTS = ("ours", "native", "rllib")
ENV, AGENTS, CPU = "env_steps_per_second", "agent_steps_per_second", "cpu_us_per_agent_step"


def main() -> None:
    """Measures, prints a table for each number of slots and writes `multi_agent_speed.json`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.set_defaults(algorithm="agents_speed")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each")
    parser.add_argument("--peer-rounds", type=int, default=3, help="measurements of each peer")
    parser.add_argument("--steps", type=int, default=20_480, help="environment steps of each")
    parser.add_argument("--warmup", type=int, default=4_096, help="environment steps before that")
    parser.add_argument("--slots", type=int, nargs="+", default=[8], help="environments in step")
    args = parser.parse_args()
    names = chosen(args, CONTESTANTS)
    kept = {str(slots): compared(names, slots, args) for slots in args.slots}
    settings = {"rounds": args.rounds, "steps": args.steps, "warmup": args.warmup}
    keep(args.out, "multi_agent_speed", settings, kept)


def compared(names: Sequence[str], slots: int, args: argparse.Namespace) -> dict[str, list[Result]]:
    """Measures everyone with one number of slots and prints the table."""
    given = ("--steps", args.steps, "--warmup", args.warmup, "--slots", slots)
    results = rounds(
        names,
        args.rounds,
        lambda name, number: measure(
            name, args.peers_python, *given, "--seed", number, algorithm="agents_speed"
        ),
        lambda result: f"{result[ENV]:>9,.0f} env steps/s  {result[AGENTS]:>9,.0f} agent steps/s",
        args.peer_rounds,
    )
    title = f"PPO, CartPole with 4 agents and 2 policies, {slots} slots"
    columns = ("env steps/s", "agent steps/s", "range", "over RLlib", "CPU us", "RLlib's over it")
    view = table(title, "", *columns)
    for name, measured in results.items():
        compare = "rllib" in results and name != "rllib"
        ratio = middle(measured, AGENTS) / middle(results["rllib"], AGENTS) if compare else None
        cpu = middle(measured, CPU)
        view.add_row(
            LABELS[name],
            f"{middle(measured, ENV):,.0f}",
            f"{middle(measured, AGENTS):,.0f}",
            spread(measured, AGENTS),
            f"{ratio:.2f}" if ratio else "",
            f"{cpu:.0f}",
            f"{middle(results['rllib'], CPU) / cpu:.2f}" if compare else "",
        )
    console.print(view)
    return results


if __name__ == "__main__":
    main()
