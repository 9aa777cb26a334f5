"""How often a 95 % interval of the IQM holds the true value, by number of seeds and kind of scores.

Draws experiments of 3 to 50 seeds from distributions whose interquartile mean is known, and counts
how often the percentile bootstrap's interval (rliable's) and Student's t interval hold it. The
wider of both on each side holds at least as often as either::

    python -m experiments.benchmarks.interval_coverage
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from analysis.plots.curves import new_figure, save
from analysis.statistics import iqm, iqm_interval
from experiments.benchmarks.gather import HERE, console, keep, table

SEEDS = (3, 5, 10, 20, 50)
METHODS = ("percentile", "t")
_POPULATION = 1_000_000
"""Scores whose IQM is taken for the true one."""

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def _cartpole(failing: float) -> Draw:
    """Returns of CartPole: most seeds near the limit of 500, some fail."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        good = np.minimum(500.0, rng.normal(470, 30, shape))
        return np.where(rng.random(shape) < failing, rng.normal(120, 60, shape), good)

    return draw


def _tasks(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Normalised scores of four tasks, of different level and spread."""
    return rng.normal([0.2, 0.6, 0.9, 1.5], [0.1, 0.2, 0.1, 0.5], (*shape[:1], 4))


KINDS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails (t, 3 d.f.)": lambda rng, shape: rng.standard_t(3, size=shape),
    "skewed (lognormal)": lambda rng, shape: rng.lognormal(size=shape),
    "10 % of seeds fail": _cartpole(0.1),
    "25 % of seeds fail": _cartpole(0.25),
    "40 % of seeds fail": _cartpole(0.4),
    "four tasks, normal": _tasks,
}


def main() -> None:
    """Simulates, prints the table, writes `interval_coverage.json` and draws the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--experiments", type=int, default=2_000, help="of each kind and size")
    parser.add_argument("--resamples", type=int, default=1_000, help="of the bootstrap")
    parser.add_argument("--out", type=Path, default=HERE / "figures", help="folder for JSON, PNG")
    args = parser.parse_args()
    results = {
        kind: [
            {"seeds": seeds, **coverage(draw, seeds, args.experiments, args.resamples)}
            for seeds in SEEDS
        ]
        for kind, draw in KINDS.items()
    }
    view = table(f"95 % intervals that hold, of {args.experiments:,}", "", *map(str, SEEDS))
    for kind, rows in results.items():
        for method in METHODS:
            view.add_row(f"{kind}, {method}", *(f"{row[method]:.1%}" for row in rows))
    console.print(view)
    settings = {"experiments": args.experiments, "resamples": args.resamples}
    keep(args.out, "interval_coverage", settings, results)
    _draw(results, args.out / "interval_coverage.png")


def coverage(draw: Draw, seeds: int, experiments: int, resamples: int) -> dict[str, float]:
    """The share of experiments whose interval holds the true IQM, and the mean width, by method."""
    rng = np.random.default_rng(seeds)
    true = iqm(draw(rng, (_POPULATION, 1)))
    held, widths = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0.0)
    for number in range(experiments):
        scores = draw(rng, (seeds, 1))
        for method in METHODS:
            low, high = iqm_interval(scores, method=method, resamples=resamples, seed=number)
            held[method] += low <= true <= high
            widths[method] += high - low
    found = {method: held[method] / experiments for method in METHODS}
    return {**found, **{f"{m} width": widths[m] / experiments for m in METHODS}}


def _draw(results: dict[str, list[dict[str, Any]]], out: Path) -> None:
    figure = new_figure(9.0, 4.4)
    axes = figure.subplots(1, len(METHODS), sharey=True)
    titles = ("percentile bootstrap (rliable)", "Student's t of the trimmed mean")
    for panel, method, title in zip(axes, METHODS, titles, strict=True):
        panel.axhspan(93, 97, color="0.92", zorder=0)
        panel.axhline(95, color="0.25", lw=1.0, zorder=1)
        for kind, rows in results.items():
            values = [100 * row[method] for row in rows]
            panel.plot(SEEDS, values, marker="o", ms=4, lw=1.6, label=kind, zorder=2)
        panel.set_xscale("log")
        panel.set_xticks(SEEDS, [str(count) for count in SEEDS])
        panel.minorticks_off()
        panel.set_xlabel("seeds")
        panel.set_title(title, fontsize="medium", loc="left")
        panel.grid(True, axis="y", color="0.9", lw=0.8)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("95 % intervals that hold the true IQM (%)")
    axes[-1].legend(frameon=False, fontsize="small", loc="lower right")
    save(figure, out)


if __name__ == "__main__":
    main()
