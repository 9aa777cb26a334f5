"""Whether memory grows while an algorithm trains for a long time.

CartPole is trained with env runners. Every few seconds what the driver and each env runner hold
in memory is read, and how much of the object store is in use. After a warm-up
no process may grow by more than 1 MB in 5 minutes. Figure and numbers are kept in `figures/`::

    python -m experiments.benchmarks.memory_soak --minutes 20
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks import curves
from experiments.benchmarks.gather import HERE, console, table, verdict
from experiments.benchmarks.processes import MB, env_runners, memory
from trainables.registry import get_algorithm

ALLOWED = 1.0
"""Megabytes that a process may grow by in 5 minutes."""
PER_S = 300.0
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")

Samples = dict[str, list[list[float]]]
"""By what is measured: points of seconds since the start and megabytes."""


def main() -> None:
    """Trains, prints the slopes, writes `memory_soak.json` and draws `memory_soak.png`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--algorithm", default="IMPALA")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, default=5.0, help="minutes that do not count")
    parser.add_argument("--env-runners", type=int, default=2)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between measurements")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    curves.add_figures(parser)
    args = parser.parse_args()
    import ray

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        samples, trained = soak(args)
    finally:
        ray.shutdown()
    slopes = {name: slope(points, args.warm_up * 60) for name, points in samples.items()}
    view = table(
        f"{args.algorithm}, {args.minutes:g} minutes, {trained['env_steps']:,} steps",
        *("", "MB at the end", "since the warm-up", "MB per 5 minutes", ""),
    )
    for name, points in samples.items():
        allowed = verdict(slopes[name], ALLOWED, at_most=True)
        more = points[-1][1] - settled(points, args.warm_up * 60)[1][0]
        view.add_row(name, f"{points[-1][1]:.1f}", f"{more:+.2f}", f"{slopes[name]:+.2f}", allowed)
    console.print(view)
    kept = {"slopes": slopes, "samples": samples, **trained}
    settings = {name: getattr(args, name) for name in ("algorithm", "minutes", "warm_up")}
    settings |= {"env_runners": args.env_runners}
    curves.keep((args.out, args.figures), "memory_soak", settings, kept)
    draw(samples, slopes, args.warm_up, args.figures / "memory_soak.png")
    if max(slopes.values()) > ALLOWED:
        raise SystemExit(1)


def soak(args: argparse.Namespace) -> tuple[Samples, dict[str, Any]]:
    """Trains for the time asked; what was measured, and what training did."""
    algo = get_algorithm(args.algorithm)(
        config={
            "env": "CartPole-v1",
            "num_env_runners": args.env_runners,
            "num_envs_per_env_runner": 8,
            "min_sample_timesteps_per_iteration": 2000,
        }
    )
    result = algo.train()
    meter = Meter(args.every)
    try:
        end = time.monotonic() + args.minutes * 60
        while time.monotonic() < end:
            result = algo.train()
    finally:
        meter.stop()
        algo.stop()
    return meter.samples, {
        "env_steps": result["num_env_steps_sampled_lifetime"],
        "iterations": result["training_iteration"],
        "episode_return_mean": result["episode_return_mean"],
    }


class Meter:
    """Measures beside the training, until it is stopped."""

    def __init__(self, every_s: float):
        self.samples: Samples = {}
        self._every_s, self._start = every_s, time.monotonic()
        self._processes = {"driver": os.getpid()}
        self._processes |= {f"env runner {i}": pid for i, pid in enumerate(env_runners(), start=1)}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Measure no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self._add("object store", object_store_in_use())
            for name, pid in self._processes.items():
                for kind, value in memory(pid).items():
                    if kind != "proportional":
                        self._add(f"{name}, {kind}", value)

    def _add(self, name: str, value: float) -> None:
        point = [round(time.monotonic() - self._start, 1), round(value, 3)]
        self.samples.setdefault(name, []).append(point)


def object_store_in_use() -> float:
    """Megabytes of objects in Ray's object store."""
    import ray

    total = ray.cluster_resources()["object_store_memory"]
    return float(total - ray.available_resources().get("object_store_memory", 0.0)) / MB


def slope(points: list[list[float]], warm_up_s: float, per: float = PER_S) -> float:
    """Megabytes of growth in 5 minutes after the warm-up, or in as much as `per` says.

    The median of the slopes between any two points (Theil and Sen): what grows steadily shows, a
    single step does not.
    """
    times, values = settled(points, warm_up_s)
    first, second = np.triu_indices(len(times), k=1)
    slopes = (values[second] - values[first]) / (times[second] - times[first])
    return round(float(np.median(slopes)) * per, 3)


def settled(points: list[list[float]], warm_up_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Times and values after the warm-up, or of the second half if that is less."""
    times, values = np.array(points).T
    after = times >= min(warm_up_s, times[-1] / 2)
    return times[after], values[after]


def draw(samples: Samples, slopes: dict[str, float], warm_up: float, path: Path) -> None:
    """What every process holds beyond what it held after the warm-up, and the object store."""
    title = "Memory of each process since the end of the warm-up"
    with curves.figure(
        path, title, "MB more than then", x_label="minutes", loc="best", fontsize="small"
    ) as axes:
        names = [name for name in samples if not name.endswith("own")]
        for color, name in zip(COLORS, names, strict=False):
            times, values = np.array(samples[name]).T
            start = settled(samples[name], warm_up * 60)[1][0]
            label = f"{name} ({slopes[name]:+.2f} MB per 5 minutes)"
            axes.plot(times / 60, values - start, color=color, label=label, linewidth=1.2)
        axes.axvline(warm_up, color="0.6", linewidth=0.8, linestyle="--")


if __name__ == "__main__":
    main()
