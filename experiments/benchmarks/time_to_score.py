"""Seconds of training until PPO on CartPole returns 450, everyone with its own best settings.

The score is the mean return of the last 100 training episodes. The clock starts when the
environment and the networks are built (that set-up is shown beside it); a contestant that misses
the score counts with the whole cap::

    python -m experiments.benchmarks.time_to_score --peers-python /path/to/peers/bin/python
"""

from __future__ import annotations

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

CONTESTANTS = ("ours", "bare", "sb3", "rllib")
REQUIRED = {"sb3": 4.0, "rllib": 4.0}
"""Theirs over ours, at least."""


def main() -> None:
    """Measures, prints the table and writes `time_to_score.json`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each, from 0")
    parser.add_argument("--target", type=float, default=450.0, help="return to reach")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds after which to give up")
    args = parser.parse_args()
    names = chosen(args, CONTESTANTS)

    def task(name: str, seed: int) -> Result:
        given = ("--target", args.target, "--cap", args.cap, "--seed", seed)
        result = measure(name, args.peers_python, "time-to-score", *given)
        result["charged_seconds"] = result["seconds"] if result["reached"] else args.cap
        return result

    results = rounds(names, args.seeds, task, _line)
    title = f"PPO on CartPole: seconds of training to a return of {args.target:g}"
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
            verdict(ratio, REQUIRED.get(name)) if ratio else "",
        )
    console.print(view)
    settings = {"seeds": args.seeds, "target": args.target, "cap": args.cap}
    keep(args.out, "time_to_score", settings, results)


def _line(result: Result) -> str:
    end = "" if result["reached"] else f"  missed, return {result['return']:.0f}"
    return f"{result['seconds']:>7.1f} s{end}"


if __name__ == "__main__":
    main()
