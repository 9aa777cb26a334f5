"""Seconds that a trial costs beyond its training: 50 trials of one tiny iteration.

A whole sweep as `tunescape run` runs it, one trial at a time, with MLflow and with reuse of actors.
A trial's cost is the time from the result before to its own, less what it trained: choosing a
configuration, resetting the actor, building the networks, the checkpoint, logging. The first trial
also starts the process and is left out::

    python -m experiments.benchmarks.trial_overhead
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from ray.tune import Callback

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
        ends = _run(storage, args.trials, not args.no_mlflow, not args.no_reuse)
        total = time.perf_counter() - start
        costs = overheads(ends)
    view = table(f"A trial's cost beyond its training ({len(costs)} trials)", "", "seconds", "")
    view.add_row("median", f"{median(costs):.3f}", verdict(median(costs), ALLOWED, at_most=True))
    view.add_row("90th percentile", f"{quantiles(costs, n=10)[-1]:.3f}", "")
    view.add_row("whole sweep, with Ray", f"{total:.1f}", "")
    console.print(view)
    settings = {"trials": args.trials, "mlflow": not args.no_mlflow, "reuse": not args.no_reuse}
    results = {"median": median(costs), "total_seconds": total, "seconds": costs}
    keep(args.out, "trial_overhead", settings, results)


class Clock(Callback):
    """Notes when Tune's driver got each trial's result, and how long the trial had trained."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, float]] = []

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        self.ends.append((time.monotonic(), float(result["time_total_s"])))


def overheads(ends: list[tuple[float, float]]) -> list[float]:
    """Seconds from one trial's result to the next, less the latter's own training."""
    return [end - before - trained for (before, _), (end, trained) in pairwise(ends)]


def _run(storage: str, trials: int, mlflow: bool, reuse: bool) -> list[tuple[float, float]]:
    from experiments import make_spec
    from experiments.cluster.session import prepare_environment, ray_session
    from experiments.running.tuner import prepare_tuner
    from experiments.running.warm_start import History
    from experiments.sweep.sweep import Sweep

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
    prepare_environment()
    parsed, clock = make_spec(spec), Clock()
    with ray_session(parsed.resources):
        sweep = prepare_tuner(Sweep.of(parsed), History(), None)
        # Tune offers no public way to add a callback to a Tuner that is made.
        internal: Any = sweep.tuner._local_tuner
        internal.get_run_config().callbacks.append(clock)
        sweep.tuner.fit()
        if sweep.mlflow is not None:
            sweep.mlflow.close("FINISHED")
    return clock.ends


if __name__ == "__main__":
    main()
