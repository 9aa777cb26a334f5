"""Shipped specs over several seeds, as they are and with settings changed: curves, greedy returns.

Curves are kept by environment steps and by seconds of training, and both are drawn.

Seeds and variants are interleaved in one process with one thread. Every run is kept as soon as it
ends, and one that the record has already is not repeated, so that specs can be added to it::

    python -m experiments.benchmarks.tuned advantage_floor --specs tuned/ppo/acrobot
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from textwrap import fill
from typing import Any

import numpy as np
import torch

from experiments.benchmarks import curves
from experiments.benchmarks.gather import HERE, Result, console, keep, spread, table
from experiments.sweep.load import load_spec
from trainables.registry import get_algorithm
from trainables.runtime.evaluation.play import evaluate_policy

COLORS = ("#0072b2", "#d55e00", "#009e73", "#7f7f7f")
OVER = {"curve": "environment steps", "by_seconds": "seconds of training"}
"""What is drawn of a run: its curves, and over what they run."""
_LEGEND_WIDTH = 36  # characters of a line
POINTS = 50
"""Points of a curve that are kept at most."""


def main() -> None:
    """Measures, prints the table, writes `<name>.json` and draws `<name>.png`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="of the record")
    parser.add_argument(
        "--specs", nargs="*", default=[], help="below experiments/; @STEPS trains for so many"
    )
    parser.add_argument(
        "--variant",
        nargs="*",
        action="append",
        metavar="KEY=VALUE",
        help="assignments to the specs, once for each variant; without any: as they are shipped",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--episodes", type=int, default=100, help="greedy ones at the end")
    curves.add_figures(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    path = args.figures / f"{args.name}.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else []
    variants = args.variant or [[]]
    for name, seed, changes in itertools.product(args.specs, args.seeds, variants):
        key = {"task": name, "changes": changes, "seed": seed}
        if not any(key.items() <= run.items() for run in runs):
            runs.append(key | run(name, changes, seed, args.episodes))
            keep(args.figures, args.name, {"episodes": args.episodes}, runs)
    show(args.name, runs)
    draw(runs, args.figures / f"{args.name}.png")


def run(task: str, changes: Sequence[str], seed: int, episodes: int) -> Result:
    """Train a spec for as many steps as the task says, or its own `stop`."""
    name, _, given = task.partition("@")
    spec = load_spec(HERE.parent / f"{name}.yaml", changes)
    steps = int(given or spec.stop["num_env_steps_sampled_lifetime"])
    result = trained(spec.trainable, {**spec.config, "seed": seed}, steps, episodes)
    console.print(
        f"{task}  {label(changes)}  seed {seed}  training {result['return']:.2f}  "
        f"greedy {result['greedy']:.2f}  {result['seconds']:.0f} s"
    )
    return result


def trained(algorithm: str, config: dict[str, Any], steps: int, episodes: int = 100) -> Result:
    """One run: its curve and that one's mean and end, and the mean of greedy episodes.

    Args:
        algorithm: Its name.
        config: Its settings.
        steps: Environment steps to train for.
        episodes: Greedy ones, from a fixed seed.
    """
    start, cpu_start = time.perf_counter(), time.process_time()
    curve, by_seconds, deviations = [], [], []
    with get_algorithm(algorithm)(config=config) as algo:
        while (now := algo.num_env_steps_sampled) < steps:
            result = algo.train()
            value = float(result["episode_return_mean"])
            if np.isfinite(value):
                curve.append((algo.num_env_steps_sampled, round(value, 2)))
                by_seconds.append((round(time.perf_counter() - start, 1), round(value, 2)))
            if (std := result.get("learner/default_policy/advantage_std")) is not None:
                deviations.append((now, float(f"{std:.4g}")))
        played = evaluate_policy(
            algo.get_policy(),
            algo.config.env,
            algo.config.env_config,
            num_episodes=episodes,
            seed=12345,
        )
    return {
        "whole": round(mean(value for _, value in curve), 2),
        "return": curve[-1][1],
        "greedy": round(played.return_mean, 2),
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu_start, 1),
        "curve": _thinned(curve),
        "by_seconds": _thinned(by_seconds),
        "advantage_std": _thinned(deviations),
    }


def show(name: str, runs: list[Result]) -> None:
    """Prints the mean training return of every task and variant, and the greedy one at the end."""
    view = table(name, "", "seeds", "whole run", "at the end", "range", "greedy", "range")
    above = ""
    for (task, variant), measured in _groups(runs).items():
        if task != above:
            view.add_row(task)
            above = task
        view.add_row(
            f"  {variant}",
            str(len(measured)),
            f"{curves.mean_of(measured, 'whole'):.2f}",
            f"{curves.mean_of(measured, 'return'):.2f}",
            spread(measured, "return"),
            f"{curves.mean_of(measured, 'greedy'):.2f}",
            spread(measured, "greedy"),
        )
    console.print(view)


def draw(runs: list[Result], path: Path) -> None:
    """Training returns of each variant: by steps their mean in a band, by seconds every seed's.

    A panel for each task and either; none by seconds of runs that were kept without them.
    """
    from matplotlib.figure import Figure

    groups = _groups(runs)
    panels = [
        (task, over)
        for task in dict.fromkeys(run["task"] for run in runs)
        for over in OVER
        if all(over in run for run in runs if run["task"] == task)
    ]
    columns = min(3, len(panels)) if len(panels) % 2 else 2
    rows = math.ceil(len(panels) / columns)
    made = Figure(figsize=(4.6 * columns, 3.4 * rows), layout="constrained")
    grid = made.subplots(rows, columns, squeeze=False).flat
    for axes, (task, over) in zip(grid, panels, strict=False):
        variants = [(variant, r) for (name, variant), r in groups.items() if name == task]
        for color, (variant, measured) in zip(COLORS, variants, strict=False):
            variant = fill(variant, _LEGEND_WIDTH)
            if over == "curve":
                curves.band(axes, [run[over] for run in measured], color, variant)
                continue
            for number, run in enumerate(measured):  # which need not have a second in common
                shown = variant if number == 0 else None
                axes.plot(*zip(*run[over], strict=True), color=color, label=shown, linewidth=1)
        axes.set_title(task.partition("@")[0], fontsize="medium", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.locator_params(axis="x", nbins=5)
        axes.grid(alpha=0.25)
        axes.set(xlabel=OVER[over], ylabel="return, last 100 episodes")
        axes.legend(frameon=False, fontsize="small")
    made.savefig(path, dpi=110)
    console.print(f"figure: {path}", soft_wrap=True, highlight=False)


def label(changes: Sequence[str]) -> str:
    """A variant in words."""
    return ", ".join(change.removeprefix("config.") for change in changes) or "as shipped"


def _groups(runs: list[Result]) -> dict[tuple[str, str], list[Result]]:
    groups: dict[tuple[str, str], list[Result]] = {}
    for run in runs:
        groups.setdefault((run["task"], label(run["changes"])), []).append(run)
    return groups


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `POINTS` of them, evenly; the last is kept."""
    if len(points) <= POINTS:
        return points
    return [points[i] for i in np.linspace(0, len(points) - 1, POINTS).round().astype(int)]


if __name__ == "__main__":
    main()
