"""What the benchmarks of learning curves share: options, runs side by side, table and figure."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.benchmarks import gather
from experiments.benchmarks.gather import HERE, LABELS, Result, console, middle, spread, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {"ours": "#0072b2", "sb3": "#d55e00"}
"""Blue and vermilion: told apart by everyone, and in grey."""

Curve = Sequence[Sequence[float]]
"""Points of environment steps and a return."""


def arguments(
    description: str | None, contestants: Sequence[str], *, steps: int, jobs: int
) -> argparse.ArgumentParser:
    """A parser with the options that a comparison of learning curves has."""
    parser = gather.arguments(description, contestants)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each, from 0")
    parser.add_argument("--steps", type=int, default=steps, help="environment steps of a run")
    parser.add_argument("--jobs", type=int, default=jobs, help="runs at once, one thread each")
    add_figures(parser)
    return parser


def add_figures(parser: argparse.ArgumentParser) -> None:
    """The option that says where the figure goes."""
    parser.add_argument(
        "--figures", type=Path, default=HERE / "figures", help="folder for figure and numbers"
    )


def run_all(
    names: Sequence[str], seeds: int, jobs: int, run: Callable[[str, int], Result]
) -> dict[str, list[Result]]:
    """Every contestant with every seed, `jobs` of them at a time; in order of the seeds."""
    with ThreadPoolExecutor(jobs) as pool:
        runs = [(name, pool.submit(run, name, seed)) for seed in range(seeds) for name in names]
        return {name: [future.result() for n, future in runs if n == name] for name in names}


def show(
    title: str,
    results: dict[str, list[Result]],
    score: tuple[str, str, int],
    cost: tuple[str, str],
) -> None:
    """Prints the table: the mean score of each, what it cost, and whether ours is not below.

    Args:
        title: The table's.
        results: By contestant.
        score: Key of the score, its column's heading, and digits after the point.
        cost: Key of what a run costs, and its column's heading.
    """
    (key, heading, digits), (cost_key, cost_heading) = score, cost
    view = gather.table(title, "", heading, "range", cost_heading, "")
    theirs = round(mean_of(results["sb3"], key), max(0, digits - 1)) if "sb3" in results else None
    for name, measured in results.items():
        value = mean_of(measured, key)
        view.add_row(
            LABELS[name],
            f"{value:,.{digits}f}",
            spread(measured, key),
            f"{middle(measured, cost_key):,.0f}",
            verdict(value, theirs) if name == "ours" else "",
        )
    console.print(view)


def mean_of(measured: Sequence[Result], key: str) -> float:
    """The mean of one key over runs."""
    return mean(float(result[key]) for result in measured)


def keep(
    folders: Sequence[Path], name: str, settings: dict[str, Any], results: dict[str, Any]
) -> None:
    """Writes `<name>.json` into the results' folder and beside the figure."""
    for folder in folders:
        gather.keep(folder, name, settings, results)


@contextmanager
def figure(
    path: Path, title: str, y_label: str, x_label: str = "environment steps", **legend: Any
) -> Iterator[Axes]:
    """Axes to draw curves on, which are framed and written to `path` in the end.

    Args:
        path: The PNG; its folder is made.
        title: The figure's.
        y_label: What the curves are the values of.
        x_label: Over what they are drawn.
        legend: More options of the legend.
    """
    from matplotlib.figure import Figure

    made = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = made.subplots()
    yield axes
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(**{"loc": "upper left", "frameon": False, **legend})
    axes.set_title(title, fontsize="medium", loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    made.savefig(path, dpi=150)
    console.print(f"figure: {path}", soft_wrap=True, highlight=False)


def band(axes: Axes, curves: Sequence[Curve], color: str, label: str) -> None:
    """The mean of several seeds' curves, in a band from the lowest to the highest.

    Drawn where every seed has a value: nothing is extrapolated.
    """
    points = [np.array(curve, dtype=float).T for curve in curves]
    steps = np.unique(np.concatenate([curve[0] for curve in points]))
    first, last = max(c[0][0] for c in points), min(c[0][-1] for c in points)
    steps = steps[(steps >= first) & (steps <= last)]
    values = np.stack([np.interp(steps, *curve) for curve in points])
    axes.plot(steps, values.mean(0), color=color, label=label)
    axes.fill_between(steps, values.min(0), values.max(0), color=color, alpha=0.18, linewidth=0)
