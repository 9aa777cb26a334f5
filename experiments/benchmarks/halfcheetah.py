"""SAC on HalfCheetah-v5 beside Stable-Baselines3's: learning curves and final scores.

Equal settings (`off_policy.SACSettings`), one update per environment step. It compares scores, not
speed, so several runs go at once. The figure and its numbers are kept in `figures/`::

    python -m experiments.benchmarks.halfcheetah --peers-python /path/to/peers/bin/python
"""

from __future__ import annotations

from pathlib import Path

from experiments.benchmarks import curves
from experiments.benchmarks.gather import LABELS, Result, chosen, console, measure

CONTESTANTS = ("ours", "sb3")
SCORE = "evaluation_mean"


def main() -> None:
    """Trains, prints the table, writes `halfcheetah.json` and draws `halfcheetah.png`."""
    args = curves.arguments(__doc__, CONTESTANTS, steps=50_000, jobs=2).parse_args()

    def run(name: str, seed: int) -> Result:
        given = ("curve", "--steps", args.steps, "--seed", seed)
        result = measure(name, args.peers_python, *given, algorithm="sac")
        console.print(
            f"{LABELS[name]:<18} seed {seed}  {result[SCORE]:>7,.0f}  {result['seconds']:,.0f} s"
        )
        return result

    results = curves.run_all(chosen(args, CONTESTANTS), args.seeds, args.jobs, run)
    title = f"SAC on HalfCheetah-v5, {args.steps:,} steps, {args.seeds} seeds"
    curves.show(title, results, (SCORE, "greedy return", 0), ("seconds", "seconds"))
    settings = {"seeds": args.seeds, "steps": args.steps}
    curves.keep((args.out, args.figures), "halfcheetah", settings, results)
    draw(results, args.figures / "halfcheetah.png")


def draw(results: dict[str, list[Result]], path: Path) -> None:
    """Returns of training episodes; the labels tell the final policies', evaluated greedily."""
    seeds = max(map(len, results.values()))
    title = f"SAC on HalfCheetah-v5, equal settings: mean and range of {seeds} seeds"
    with curves.figure(path, title, "return of a training episode") as axes:
        for name, measured in results.items():
            score = curves.mean_of(measured, SCORE)
            label = f"{LABELS[name]} (final greedy policy: {score:,.0f})"
            episodes = [result["episodes"] for result in measured]
            curves.band(axes, episodes, curves.COLORS[name], label)


if __name__ == "__main__":
    main()
