"""PPO on MinAtar's Breakout beside Stable-Baselines3's: learning curves, scores and speed.

Equal settings and networks (`minatar_ppo.Settings`). The figure and its numbers are kept in
`figures/`::

    python -m experiments.benchmarks.minatar_breakout --peers-python /path/to/peers/bin/python
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.benchmarks import curves
from experiments.benchmarks.gather import LABELS, Result, chosen, console, measure

CONTESTANTS = ("ours", "sb3")
SCORE = "final_return"
SPEED = "env_steps_per_second"
SMOOTHING = 100
"""Episodes of the curves' moving mean."""


def main() -> None:
    """Trains, prints the table, writes `minatar_breakout.json` and draws the figure."""
    args = curves.arguments(__doc__, CONTESTANTS, steps=500_000, jobs=1).parse_args()

    def run(name: str, seed: int) -> Result:
        given = ("--steps", args.steps, "--seed", seed)
        result = measure(name, args.peers_python, *given, algorithm="minatar")
        console.print(
            f"{LABELS[name]:<18} seed {seed}  {result[SCORE]:>7.2f}  {result[SPEED]:,.0f} steps/s"
        )
        return result

    results = curves.run_all(chosen(args, CONTESTANTS), args.seeds, args.jobs, run)
    title = f"PPO on MinAtar/Breakout-v1, {args.steps:,} steps, {args.seeds} seeds"
    curves.show(title, results, (SCORE, "final return", 2), (SPEED, "steps/s"))
    for measured in results.values():
        for result in measured:  # a point every 1% of the run is enough for a curve
            result["curve"] = curve(result.pop("episodes"), args.steps)
    settings = {"seeds": args.seeds, "steps": args.steps, "jobs": args.jobs}
    curves.keep((args.out, args.figures), "minatar_breakout", settings, results)
    draw(results, args.figures / "minatar_breakout.png")


def curve(episodes: list[list[float]], steps: int) -> list[list[float]]:
    """Steps and the mean return of the last episodes before them, at each 1% of the run."""
    ends, returns = np.array(episodes, dtype=float).T
    points = []
    for step in np.linspace(0, steps, 101)[1:]:
        number = int(np.searchsorted(ends, step, side="right"))
        if number >= SMOOTHING:
            last = returns[number - SMOOTHING : number].mean()
            points.append([float(step), round(float(last), 3)])
    return points


def draw(results: dict[str, list[Result]], path: Path) -> None:
    """Mean returns of the last episodes; the labels tell those at the end."""
    seeds = max(map(len, results.values()))
    title = f"PPO on MinAtar/Breakout-v1, equal settings: mean and range of {seeds} seeds"
    with curves.figure(path, title, f"return, mean of {SMOOTHING} training episodes") as axes:
        for name, measured in results.items():
            score = curves.mean_of(measured, SCORE)
            label = f"{LABELS[name]} (last 100 episodes: {score:.1f})"
            points = [result["curve"] for result in measured]
            curves.band(axes, points, curves.COLORS[name], label)


if __name__ == "__main__":
    main()
