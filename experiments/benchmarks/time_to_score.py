"""Seconds of training until an algorithm reaches its score, everyone with its own best settings.

All but SAC on CartPole: a mean return of 450 over the last 100 training episodes; SAC on Pendulum:
-250 over the last 20. The clock starts when the environment and the networks are built (that set-up
is shown beside it); a contestant that misses the score counts with the whole cap::

    python -m experiments.benchmarks.time_to_score --algorithm dqn --peers-python /path/to/python
"""

from __future__ import annotations

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
from experiments.benchmarks.off_policy import SCORES

CONTESTANTS = ("ours", "bare", "sb3", "rllib")
TARGETS = {"ppo": 450.0, **{name: score.target for name, score in SCORES.items()}}
REQUIRED = {
    "ppo": {"sb3": 4.0, "rllib": 4.0},
    "dqn": {"rllib": 5.0},
    "sac": {"rllib": 5.0},
    "impala": {"rllib": 4.0},
    "appo": {"rllib": 4.0},
}
"""Theirs over ours, at least."""


def main() -> None:
    """Measures, prints the table and writes `time_to_score.json` (PPO; the others a suffix)."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--algorithm", choices=list(TARGETS), default="ppo")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each, from 0")
    parser.add_argument("--peer-seeds", type=int, help="seeds of each peer, if fewer")
    parser.add_argument("--target", type=float, help="return to reach (by algorithm)")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds after which to give up")
    args = parser.parse_args()
    names, algorithm = chosen(args, CONTESTANTS), args.algorithm
    target = TARGETS[algorithm] if args.target is None else args.target

    def task(name: str, seed: int) -> Result:
        # One word, since a negative number alone looks like an option.
        given = (f"--target={target}", "--cap", args.cap, "--seed", seed)
        result = measure(name, args.peers_python, "time-to-score", *given, algorithm=algorithm)
        result["charged_seconds"] = result["seconds"] if result["reached"] else args.cap
        return result

    results = rounds(names, args.seeds, task, _line, args.peer_seeds)
    title = f"{TITLES[algorithm]}: seconds of training to a return of {target:g}"
    view = table(title, "", "seconds", "range", "set-up", "steps", "missed", "ratio", "")
    ours = middle(results["ours"], "charged_seconds") if "ours" in results else None
    for name, measured in results.items():
        seconds = middle(measured, "charged_seconds")
        ratio = seconds / ours if ours and name != "ours" else None
        missed = sum(not result["reached"] for result in measured)
        view.add_row(
            LABELS[name],
            f"{seconds:.1f}",
            spread(measured, "charged_seconds"),
            f"{middle(measured, 'setup_seconds'):.1f}",
            f"{middle(measured, 'env_steps'):,.0f}",
            f"{missed}/{len(measured)}",
            f"{ratio:.2f}" if ratio else "",
            verdict(ratio, REQUIRED[algorithm].get(name)) if ratio else "",
        )
    console.print(view)
    settings = {"seeds": args.seeds, "target": target, "cap": args.cap}
    keep(args.out, by_algorithm("time_to_score", algorithm), settings, results)


def _line(result: Result) -> str:
    end = "" if result["reached"] else f"  missed, return {result['return']:.0f}"
    return f"{result['seconds']:>7.1f} s{end}"


if __name__ == "__main__":
    main()
