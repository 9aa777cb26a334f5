"""What 1,000 trials that do nothing cost the driver: time, CPU, and memory that stays.

The same sweep as `tunescape run` runs it (MLflow, crash safety, progress, reuse of actors) and as a
plain `tune.Tuner` does, with Tune's default loggers and without any, two trials at a time. Each is
a process of its own, rounds are interleaved, the table shows medians. The clock starts when Ray is
up and stops when all is written, to MLflow too::

    python -m experiments.benchmarks.scale --trials 1000 --rounds 3
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments.benchmarks.gather import (
    HERE,
    BenchmarkError,
    Result,
    console,
    keep,
    middle,
    table,
    verdict,
)

NAMES = {"ours": "Tunescape", "tune": "Tune, its loggers", "quiet": "Tune, no logger"}
REQUIRED = 25.0
"""Trials a second, at least."""


def main() -> None:
    """Measures, prints the table and writes `scale.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1000, help="trials of a sweep")
    parser.add_argument("--results", type=int, default=1, help="results of a trial")
    parser.add_argument("--rounds", type=int, default=3, help="sweeps of each")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), help="leave out")
    parser.add_argument("--no-mlflow", action="store_true", help="ours without MLflow")
    parser.add_argument("--profile", type=Path, help="file for cProfile's numbers of the driver")
    parser.add_argument("--one", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument(
        "--out", type=Path, default=HERE / "results", help="folder for the JSON file"
    )
    args = parser.parse_args()
    if args.one is not None:
        _run_one(args)
        return
    measured: dict[str, list[Result]] = {name: [] for name in args.only}
    for number in range(args.rounds):
        for name in args.only:
            result = _measure(name, args)
            measured[name].append(result)
            console.print(f"round {number + 1}/{args.rounds}  {NAMES[name]:<18} {_shown(result)}")
    title = f"{args.trials:,} trials of {args.results} results, 2 CPUs, medians"
    view = table(title, "", "trials/s", "", "ms/result", "kB/trial", "")
    peer = middle(measured["tune"], "kb_per_trial") if "tune" in measured else None
    for name, results in measured.items():
        is_ours = name == "ours"
        speed, memory = middle(results, "trials_per_s"), middle(results, "kb_per_trial")
        view.add_row(
            NAMES[name],
            f"{speed:.1f}",
            verdict(speed, REQUIRED if is_ours else None),
            f"{middle(results, 'driver_ms_per_result'):.2f}",
            f"{memory:.0f}",
            verdict(memory, peer if is_ours else None, at_most=True),
        )
    console.print(view)
    settings = {"trials": args.trials, "results": args.results, "mlflow": not args.no_mlflow}
    keep(args.out, "scale", settings, measured)


def _shown(result: Result) -> str:
    return (
        f"{result['trials_per_s']:6.1f} trials/s  {result['kb_per_trial']:5.0f} kB/trial  "
        f"{result['driver_ms_per_result']:.2f} ms/result"
    )


def _measure(name: str, args: argparse.Namespace) -> Result:
    command = [sys.executable, "-m", "experiments.benchmarks.scale", "--one", name]
    command += ["--trials", str(args.trials), "--results", str(args.results)]
    command += ["--no-mlflow"] if args.no_mlflow else []
    command += ["--profile", str(args.profile)] if args.profile and name == "ours" else []
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{NAMES[name]} failed:\n{done.stderr[-2000:]}")
    result: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _run_one(args: argparse.Namespace) -> None:
    """One sweep in this process; its last line is the result as JSON."""
    import cProfile

    from ray.tune import Callback

    class Memory(Callback):
        """The driver's resident memory after each trial."""

        def __init__(self) -> None:
            self.kb: list[float] = []

        def __getstate__(self) -> dict[str, Any]:
            return {"kb": []}

        def on_trial_complete(
            self, iteration: int, trials: list[Any], trial: Any, **_: Any
        ) -> None:
            self.kb.append(_resident_kb())

    memory = Memory()
    with tempfile.TemporaryDirectory() as storage:
        run = (_ours if args.one == "ours" else _tune)(args, storage, memory)
        profile = cProfile.Profile()
        cpu, start = time.process_time(), time.perf_counter()
        if args.profile:
            profile.enable()
        run()
        if args.profile:
            profile.disable()
            profile.dump_stats(args.profile)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    # The first trials also fill caches and import modules.
    first = len(memory.kb) // 5
    result = {
        "trials_per_s": args.trials / seconds,
        "seconds": seconds,
        "driver_ms_per_result": 1000 * cpu / (args.trials * args.results),
        "kb_per_trial": (memory.kb[-1] - memory.kb[first]) / (len(memory.kb) - 1 - first),
    }
    print(json.dumps(result))


def _ours(args: argparse.Namespace, storage: str, memory: Any) -> Any:
    import ray

    from experiments import make_spec
    from experiments.cluster.session import prepare_environment
    from experiments.running.tuner import prepare_tuner
    from experiments.running.warm_start import History
    from experiments.sweep.sweep import Sweep
    from experiments.terminal import make_console

    spec = make_spec(
        {
            "name": "scale",
            "trainable": "experiments.benchmarks.noop:NoOp",
            "search_space": {"x": {"uniform": [0, 1]}},
            "stop": {"training_iteration": args.results},
            "num_samples": args.trials,
            "max_concurrent": 2,
            "storage": storage,
            "mlflow": {"enabled": not args.no_mlflow},
        }
    )
    prepare_environment()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    sweep = prepare_tuner(Sweep.of(spec), History(), None, console=make_console(stderr=True))
    # Tune offers no public way to add a callback to a Tuner that is made.
    internal: Any = sweep.tuner._local_tuner
    internal.get_run_config().callbacks.append(memory)

    def run() -> None:
        sweep.tuner.fit()
        if sweep.mlflow is not None:
            sweep.mlflow.close("FINISHED")

    return run


def _tune(args: argparse.Namespace, storage: str, memory: Any) -> Any:
    import ray
    from ray import tune

    from experiments.benchmarks.noop import NoOp

    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    if args.one == "quiet":
        os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    tuner = tune.Tuner(
        NoOp,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            num_samples=args.trials, max_concurrent_trials=2, reuse_actors=True
        ),
        run_config=tune.RunConfig(
            name="scale",
            storage_path=storage,
            stop={"training_iteration": args.results},
            callbacks=[memory],
            verbose=0,
        ),
    )
    return tuner.fit


def _resident_kb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


if __name__ == "__main__":
    main()
