"""Whether the memory of a sweep's hosts grows while trials come and go.

A sweep of short trials of PPO, which share a few processes. After each 50 trials what every host
and the driver hold in memory is read. After a warm-up no host may grow by more than 10 kB with each
trial. Figure and numbers are kept in `figures/`::

    python -m experiments.benchmarks.hosted_soak --trials 1000
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from experiments.benchmarks import curves
from experiments.benchmarks.gather import HERE, console, table, verdict
from experiments.benchmarks.memory_soak import COLORS, Samples, slope
from experiments.benchmarks.processes import memory
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.trial_info import read_json_lines

ALLOWED = 10.0
"""Kilobytes that a host may grow by with each trial."""
EVERY = 50
KB = 1000.0
"""Growth of so many trials in megabytes is that of one in kilobytes."""


def main() -> None:
    """Runs the sweep, prints the slopes, writes `hosted_soak.json` and draws `hosted_soak.png`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--warm-up", type=int, default=200, help="trials that do not count")
    parser.add_argument("--at-once", type=int, default=32, help="trials at a time")
    parser.add_argument("--width", type=int, default=64, help="units of each of two layers")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    curves.add_figures(parser)
    args = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        samples = soak(Path(folder), args)
    seconds = round(time.monotonic() - start, 1)
    slopes = {name: slope(points, args.warm_up, per=KB) for name, points in samples.items()}
    view = table(
        f"{args.trials} trials, {args.at_once} at a time, {seconds:.0f} s",
        *("", "MB at the end", "kB per trial after the warm-up", ""),
    )
    for name, points in samples.items():
        allowed = "" if name == "driver" else verdict(slopes[name], ALLOWED, at_most=True)
        view.add_row(name, f"{points[-1][1]:.1f}", f"{slopes[name]:+.2f}", allowed)
    console.print(view)
    settings = {name: getattr(args, name) for name in ("trials", "warm_up", "at_once", "width")}
    kept = {"seconds": seconds, "slopes": slopes, "samples": samples}
    curves.keep((args.out, args.figures), "hosted_soak", settings, kept)
    draw(samples, slopes, args.warm_up, args.figures / "hosted_soak.png")
    if max(value for name, value in slopes.items() if name != "driver") > ALLOWED:
        raise SystemExit(1)


def soak(folder: Path, args: argparse.Namespace) -> Samples:
    """Runs the sweep; of each process points of trials that have ended and megabytes."""
    file = folder / "memory.jsonl"
    meter = {"class": "experiments.benchmarks.hosted_soak:Meter", "args": {"file": str(file)}}
    data = {
        "name": "soak",
        "trainable": "PPO",
        "config": {
            "env": "CartPole-v1",
            "num_envs_per_env_runner": 8,
            "train_batch_size_per_learner": 128,
            "minibatch_size": 64,
            "num_epochs": 2,
            "model": {"fcnet_hiddens": [args.width] * 2},
        },
        "search_space": {"lr": {"loguniform": [1e-4, 1e-2]}},
        "num_samples": args.trials,
        "seed": 0,
        "stop": {"training_iteration": 3},
        "max_concurrent": args.at_once,
        "resources": {"num_cpus": 2},
        "trial_batching": "auto",
        "callbacks": [meter],
        "storage": str(folder),
        "mlflow": {"enabled": False},
    }
    outcome = run_sweep(Sweep.of(make_spec(data)))
    if outcome.failures:
        raise SystemExit(f"{len(outcome.failures)} trials failed: {outcome.failures[0][1]}")
    samples: Samples = {}
    for row in read_json_lines(file):
        for name, value in row["memory"].items():
            samples.setdefault(name, []).append([row["trials"], value])
    return samples


class Meter(tune.Callback):
    """Measures the processes after each `EVERY` trials.

    Args:
        file: That gets a line of each measurement.
    """

    def __init__(self, file: str) -> None:
        self._file, self._ended = Path(file), 0
        self._processes = {"driver": os.getpid()}

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Counts trials that have ended."""
        self._ended += 1
        result = trial.last_result
        self._processes[f"host {result['host']}"] = result["pid"]
        if self._ended % EVERY:
            return
        row = {
            "trials": self._ended,
            "memory": {n: round(memory(pid)["own"], 3) for n, pid in self._processes.items()},
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def draw(samples: Samples, slopes: dict[str, float], warm_up: int, path: Path) -> None:
    """What every process has allocated, by the trials that have ended."""
    title = "Memory of a sweep's hosts while trials come and go"
    with curves.figure(
        path, title, "MB", x_label="trials that have ended", loc="best", fontsize="small"
    ) as axes:
        for color, (name, points) in zip(COLORS, sorted(samples.items()), strict=False):
            trials, values = np.array(points).T
            label = f"{name} ({slopes[name]:+.1f} kB per trial)"
            axes.plot(trials, values, color=color, label=label, linewidth=1.2)
        axes.set_ylim(bottom=0)
        axes.axvline(warm_up, color="0.6", linewidth=0.8, linestyle="--")


if __name__ == "__main__":
    main()
