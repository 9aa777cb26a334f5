"""Seconds that a trial costs beyond its training: 50 trials of one tiny iteration.

A whole sweep as `tunescape run` runs it, one trial at a time, with MLflow and with reuse of actors.
A trial's cost is the time from the result before to its own, less what it trained: choosing a
configuration, resetting the actor, building the networks, the checkpoint, logging. The first trial
also starts the process and is left out::

    python -m experiments.benchmarks.trial_overhead
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from experiments.benchmarks.gather import HERE, console, keep, table, verdict

ALLOWED = 0.2
"""Seconds, median."""


def main() -> None:
    """Measures, prints the table and writes `trial_overhead.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=50, help="trials of the sweep")
    parser.add_argument("--no-mlflow", action="store_true", help="without MLflow")
    parser.add_argument("--no-reuse", action="store_true", help="a new process for each trial")
    parser.add_argument(
        "--out", type=Path, default=HERE / "results", help="folder for the JSON file"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as storage:
        start = time.perf_counter()
        folder = _run(storage, args.trials, not args.no_mlflow, not args.no_reuse)
        total = time.perf_counter() - start
        costs = overheads(folder)
    view = table(f"A trial's cost beyond its training ({len(costs)} trials)", "", "seconds", "")
    view.add_row("median", f"{median(costs):.3f}", verdict(median(costs), ALLOWED, at_most=True))
    view.add_row("90th percentile", f"{quantiles(costs, n=10)[-1]:.3f}", "")
    view.add_row("whole sweep, with Ray", f"{total:.1f}", "")
    console.print(view)
    settings = {"trials": args.trials, "mlflow": not args.no_mlflow, "reuse": not args.no_reuse}
    results = {"median": median(costs), "total_seconds": total, "seconds": costs}
    keep(args.out, "trial_overhead", settings, results)


def overheads(folder: Path) -> list[float]:
    """Seconds from one trial's result to the next, less the latter's own training."""
    ends = []
    for file in folder.glob("*/result.json"):
        # Tune's logger flushes each row: the file's time is the result's, finer than any key in it.
        [row] = file.read_text(encoding="utf-8").splitlines()
        ends.append((file.stat().st_mtime, float(json.loads(row)["time_total_s"])))
    ends.sort()
    return [end - before - trained for (before, _), (end, trained) in pairwise(ends)]


def _run(storage: str, trials: int, mlflow: bool, reuse: bool) -> Path:
    from experiments import make_spec, run

    spec: dict[str, Any] = {
        "name": "overhead",
        "trainable": "PPO",
        "config": {
            "env": "CartPole-v1",
            "train_batch_size_per_learner": 256,
            "num_epochs": 1,
            "minibatch_size": 256,
        },
        "search_space": {"lr": {"loguniform": [1e-4, 1e-2]}},
        "stop": {"training_iteration": 1},
        "num_samples": trials,
        "max_concurrent": 1,
        "seed": 0,
        "resources": {"num_cpus": 2, "reuse_actors": reuse},
        "storage": storage,
        "mlflow": {"enabled": mlflow},
    }
    run(make_spec(spec))
    return Path(storage, "overhead")


if __name__ == "__main__":
    main()
