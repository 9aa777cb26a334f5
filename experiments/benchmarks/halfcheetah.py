"""SAC on HalfCheetah-v5 beside Stable-Baselines3's: learning curves and final scores.

Equal settings (`off_policy.SACSettings`), one update per environment step. It compares scores, not
speed, so several runs go at once. The figure and its numbers are kept in `figures/`::

    python -m experiments.benchmarks.halfcheetah --peers-python /path/to/peers/bin/python
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from experiments.benchmarks.gather import (
    HERE,
    LABELS,
    Path,
    Result,
    arguments,
    chosen,
    console,
    keep,
    measure,
    middle,
    spread,
    table,
    verdict,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONTESTANTS = ("ours", "sb3")
SCORE = "evaluation_mean"
COLORS = {"ours": "#0072b2", "sb3": "#d55e00"}
"""Blue and vermilion: told apart by everyone, and in grey."""


def main() -> None:
    """Trains, prints the table, writes `halfcheetah.json` and draws `halfcheetah.png`."""
    parser = arguments(__doc__, CONTESTANTS)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each, from 0")
    parser.add_argument("--steps", type=int, default=50_000, help="environment steps of a run")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, one thread each")
    parser.add_argument(
        "--figures", type=Path, default=HERE / "figures", help="folder for figure and numbers"
    )
    args = parser.parse_args()
    names = chosen(args, CONTESTANTS)

    def run(name: str, seed: int) -> Result:
        given = ("curve", "--steps", args.steps, "--seed", seed)
        result = measure(name, args.peers_python, *given, algorithm="sac")
        console.print(
            f"{LABELS[name]:<18} seed {seed}  {result[SCORE]:>7,.0f}  {result['seconds']:,.0f} s"
        )
        return result

    with ThreadPoolExecutor(args.jobs) as pool:
        runs = [(name, pool.submit(run, name, s)) for s in range(args.seeds) for name in names]
        results = {name: [future.result() for n, future in runs if n == name] for name in names}

    view = table(
        f"SAC on HalfCheetah-v5, {args.steps:,} steps, {args.seeds} seeds",
        *("", "greedy return", "range", "seconds", ""),
    )
    theirs = round(mean(r[SCORE] for r in results["sb3"])) if "sb3" in results else None
    for name, measured in results.items():
        score = mean(result[SCORE] for result in measured)
        view.add_row(
            LABELS[name],
            f"{score:,.0f}",
            spread(measured, SCORE),
            f"{middle(measured, 'seconds'):,.0f}",
            verdict(score, theirs) if name == "ours" else "",
        )
    console.print(view)
    settings = {"seeds": args.seeds, "steps": args.steps}
    for folder in (args.out, args.figures):
        keep(folder, "halfcheetah", settings, results)
    draw(results, args.figures / "halfcheetah.png")


def draw(results: dict[str, list[Result]], path: Path) -> None:
    """The mean curve of each contestant, in a band from its worst to its best seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, measured in results.items():
        draw_band(axes, name, measured)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return of a training episode")
    axes.xaxis.set_major_formatter(lambda steps, _: f"{steps:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", frameon=False)
    seeds = max(len(measured) for measured in results.values())
    axes.set_title(
        f"SAC on HalfCheetah-v5, equal settings: mean and range of {seeds} seeds",
        fontsize="medium",
        loc="left",
    )
    figure.savefig(path, dpi=150)
    console.print(f"figure: {path}", soft_wrap=True, highlight=False)


def draw_band(axes: Axes, name: str, measured: list[Result]) -> None:
    """One contestant; the label tells the final policy's score, evaluated greedily."""
    curves = [np.array(result["episodes"], dtype=float).T for result in measured]
    steps = np.unique(np.concatenate([curve[0] for curve in curves]))
    # Only where every seed has a value; nothing is extrapolated.
    first, last = max(c[0][0] for c in curves), min(c[0][-1] for c in curves)
    steps = steps[(steps >= first) & (steps <= last)]
    returns = np.stack([np.interp(steps, *curve) for curve in curves])
    score = mean(result[SCORE] for result in measured)
    label = f"{LABELS[name]} (final greedy policy: {score:,.0f})"
    axes.plot(steps, returns.mean(0), color=COLORS[name], label=label)
    axes.fill_between(
        steps, returns.min(0), returns.max(0), color=COLORS[name], alpha=0.18, linewidth=0
    )


if __name__ == "__main__":
    main()
