"""Seconds of five seeds as one trial over those of five single runs: PPO on CartPole, 2 CPUs.

Sweeps that train the same seeds equally long: a trial for each seed, one trial of five seeds, and
the same with `trial_batching`, of one configuration and of two. Rounds are interleaved::

    python -m experiments.benchmarks.seeds
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from experiments.benchmarks.gather import HERE, console, keep, spread, table, verdict
from experiments.sweep.sweep import Sweep

KINDS = {"seeds": ("seeds as one trial", 1.1), "batched": ("the same, batched", 0.55)}
"""What is compared with single runs, and the seconds that it may take over theirs."""


def main() -> None:
    """Measures, prints the table and writes `seeds.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="sweeps of each kind")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of a configuration")
    parser.add_argument("--steps", type=int, default=40_000, help="environment steps of a seed")
    parser.add_argument(
        "--configurations", type=int, choices=(1, 2), nargs="+", default=[1, 2], help="at a time"
    )
    parser.add_argument(
        "--out", type=Path, default=HERE / "results", help="folder for the JSON file"
    )
    args = parser.parse_args()
    results = _measure(args.rounds, args.seeds, args.steps, args.configurations)
    view = table(f"{args.seeds} seeds, {args.steps:,} steps each, 2 CPUs", "", "seconds", "range")
    view.add_column("ratio", justify="right")
    view.add_column("", justify="right")
    for count in args.configurations:
        name = f"{count} configuration" + ("s" if count > 1 else "")
        single = results[f"{count} single"]
        base = median(run["seconds"] for run in single)
        view.add_row(f"{name}, single runs", f"{base:.1f}", spread(single, "seconds"))
        for kind, (text, allowed) in KINDS.items():
            runs = results[f"{count} {kind}"]
            seconds = median(run["seconds"] for run in runs)
            view.add_row(
                f"{name}, {text}",
                f"{seconds:.1f}",
                spread(runs, "seconds"),
                f"{seconds / base:.2f}",
                verdict(seconds / base, allowed, at_most=True),
            )
    console.print(view)
    settings = {"rounds": args.rounds, "seeds": args.seeds, "steps": args.steps}
    keep(args.out, "seeds", settings, results)


def _measure(
    rounds: int, seeds: int, steps: int, configurations: list[int]
) -> dict[str, list[dict[str, Any]]]:
    from experiments.cluster.session import prepare_environment, ray_session
    from experiments.sweep.load import make_spec

    prepare_environment()
    results: dict[str, list[dict[str, Any]]] = {}
    resources = make_spec(_spec("warm-up", "", 1, 2, 1, "single")).resources
    with ray_session(resources), tempfile.TemporaryDirectory() as storage:
        _run(_spec("warm-up", storage, 1, 2, 1, "single"))
        for number in range(rounds):
            for count in configurations:
                for kind in ("single", *KINDS):
                    name = f"{count}-{kind}-{number}"
                    seconds = _run(_spec(name, storage, count, seeds, steps, kind))
                    results.setdefault(f"{count} {kind}", []).append({"seconds": seconds})
                    console.print(f"round {number + 1}, {count} x {kind}: {seconds:.1f} s")
    return results


def _run(data: dict[str, Any]) -> float:
    from experiments.running.runner import run_sweep
    from experiments.sweep.load import make_spec

    spec = make_spec(data)
    start = time.perf_counter()
    outcome = run_sweep(Sweep.of(spec))
    if outcome.failures:
        raise SystemExit(f"a trial failed: {outcome.failures[0][1]}")
    return time.perf_counter() - start


def _spec(
    name: str, storage: str, configurations: int, seeds: int, steps: int, kind: str
) -> dict[str, Any]:
    space: dict[str, Any] = {"lr": {"grid": [1e-3, 3e-4][:configurations]}}
    several: dict[str, Any] = {"seeds": seeds}
    if kind == "batched":
        several["trial_batching"] = "auto"
    if kind == "single":
        space["seed"] = {"grid": list(range(seeds))}
        several = {}
    return {
        "name": name,
        "trainable": "PPO",
        "config": {
            "env": "CartPole-v1",
            "num_envs_per_env_runner": 32,
            "train_batch_size_per_learner": 2048,
            "num_epochs": 6,
            "minibatch_size": 256,
        },
        "search_space": space,
        "stop": {"num_env_steps_sampled_lifetime": steps},
        "resources": {"num_cpus": 2},
        "storage": storage or "runs",
        "mlflow": {"enabled": False},
        **several,
    }


if __name__ == "__main__":
    main()
