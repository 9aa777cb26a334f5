r"""Kill a sweep's driver again and again, resume it each time, and see that nothing was lost.

A sweep of 24 trials under ASHA runs in a process of its own, as `tunescape run` starts it. Ten
times it is killed by SIGKILL, with the Ray that it started: half a second after a trial ended, at a
random moment, or while it starts up. Each time `tunescape resume` continues it. In the end there
must be all trials, each once, none that had ended run again, ASHA's rungs as the results on disk
say, the same in MLflow, and the best result that the sweep has without a kill::

    python -m experiments.benchmarks.crash_drill --kills 10

With `--trial-batching` the trials are members of a few processes, and really learn. `--victims`
names who is killed in turn: everything (`all`), the driver alone, a process of trials, Ray's raylet
or GCS, the MLflow server that the sweep then logs to; or the signal that the driver gets. After
each the driver has to end in time and leave no process, or to go on. `--scheduler pbt` has all
trials trained to the end, and clones among them::

    python -m experiments.benchmarks.crash_drill --kills 20 --trial-batching \
        --victims all driver host server raylet gcs_server SIGINT SIGTERM
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from analysis.results.mlflow_tags import OUTCOME_TAG, PARENT_TAG, TRIAL_TAG
from experiments.benchmarks.drill_victims import GOES_ON, GROUP, SERVER, VICTIMS, ending, kill
from experiments.benchmarks.gather import HERE, BenchmarkError, console, keep
from experiments.benchmarks.mlflow_server import MLflowServer
from experiments.benchmarks.scripted import SMALL
from experiments.trial_info import read_json_lines

STEPS, METRIC, BUDGET = 100, "num_env_steps_sampled_lifetime", 800
OBJECTIVE = "episode_return_mean"
MOMENTS = ("after an end", "at random", "after an end", "at the start")
DEADLINE_S = 300.0
SCHEDULERS: dict[str, dict[str, Any]] = {
    "asha": {"grace_period": 2 * STEPS, "reduction_factor": 2},
    "pbt": {"perturbation_interval": 2 * STEPS, "quantile_fraction": 0.25, "synch": True},
}

Rows = dict[str, list[dict[str, Any]]]


@dataclass
class Report:
    """What a drill did and what it found wrong.

    Attributes:
        kills: For each kill its moment, who was killed, how many trials had ended by then, and
            the seconds until the driver had ended, if it had to.
        problems: One line for each thing that is not as it has to be.
    """

    kills: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def main() -> None:
    """Runs the drill, prints what it found and writes `crash_drill.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0, help="of the sweep and of the moments")
    parser.add_argument("--seconds", type=float, default=0.2, help="that an iteration lasts")
    parser.add_argument(
        "--trial-batching", action="store_true", help="trials are members of a few processes"
    )
    parser.add_argument(
        "--out", type=Path, default=HERE / "results", help="folder for the JSON file"
    )
    parser.add_argument(
        "--victims", nargs="+", choices=VICTIMS, default=[GROUP], help="who is killed, in turn"
    )
    parser.add_argument("--scheduler", choices=sorted(SCHEDULERS), default="asha")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="crash-drill-"))
    report = drill(
        folder,
        kills=args.kills,
        trials=args.trials,
        seed=args.seed,
        seconds=args.seconds,
        trial_batching=args.trial_batching,
        victims=args.victims,
        scheduler=args.scheduler,
        say=console.print,
    )
    if report.problems:
        console.print(f"what is left of the sweep: {folder}", highlight=False)
    else:
        shutil.rmtree(folder)
    for problem in report.problems:
        console.print(problem, style="red", highlight=False)
    settings = {
        name: getattr(args, name) for name in ("kills", "trials", "seed", "victims", "scheduler")
    }
    name = "crash_drill_batched" if args.trial_batching else "crash_drill"
    name += "_pbt" if args.scheduler == "pbt" else ""
    keep(args.out, name, settings, {"kills": report.kills, "problems": report.problems})
    console.print(f"{len(report.kills)} kills, {len(report.problems)} problems")
    if report.problems:
        raise SystemExit(1)


def drill(
    storage: Path,
    *,
    kills: int,
    trials: int,
    seed: int,
    seconds: float,
    trial_batching: bool = False,
    victims: Sequence[str] = (GROUP,),
    scheduler: str = "asha",
    say: Any = lambda line: None,
) -> Report:
    """Runs, kills and resumes a sweep in `storage`, and checks what came out."""
    sweep, report, moments = storage / "drill", Report(), random.Random(seed)
    spec = storage / "drill.yaml"
    data = _spec(storage, trials, seed, seconds, scheduler)
    if trial_batching:
        data |= _batched(seconds)
        if scheduler != "pbt":  # in which all have begun before any goes on
            data["max_concurrent"] = 8
    server = MLflowServer(storage) if SERVER in victims else None
    if server is not None:
        server.start()
        data["mlflow"] = {"tracking_uri": server.uri}
    spec.write_text(yaml.safe_dump(data), encoding="utf-8")
    driver = _start(storage, "run", str(spec))
    try:
        for number in range(kills):
            moment = MOMENTS[number % len(MOMENTS)] if number else MOMENTS[0]
            # Each victim meets each moment, whatever their numbers.
            victim = victims[(number + number // len(MOMENTS)) % len(victims)]
            _wait_for(moment, driver, sweep, moments, storage)
            if driver.poll() is not None:
                break  # it was faster
            before = rows_of(sweep)
            if not kill(victim, driver, sweep, server):
                say(f"kill {number + 1}: {moment}, {victim}: there is none")
                continue
            note: dict[str, Any] = {"moment": moment, "victim": victim}
            if victim not in GOES_ON:
                note["seconds"], problems = ending(victim, driver)
                report.problems += problems
                before = rows_of(sweep)
            ended = {name for name, rows in before.items() if rows[-1].get("done")}
            report.kills.append({**note, "ended": len(ended)})
            told = f"kill {number + 1}: {moment}, {victim}, {len(ended)} of {trials} had ended"
            say(told + (f"; the driver after {note['seconds']:.1f} s" if "seconds" in note else ""))
            if victim not in GOES_ON:
                driver = _start(storage, "resume", str(sweep))
            report.problems += _watched(driver, sweep, before, ended)
        if driver.wait(timeout=DEADLINE_S):
            raise BenchmarkError(f"the last driver failed:\n{_log(storage)}")
    finally:
        if server is not None:
            server.kill()
    report.problems += check(sweep, storage, trials, seed, scheduler)
    return report


def rows_of(sweep: Path) -> Rows:
    """The result rows of each trial's folder that has any."""
    found = {f.parent.name: read_json_lines(f) for f in sorted(sweep.glob("*/result.json"))}
    return {name: rows for name, rows in found.items() if rows}


def check(sweep: Path, storage: Path, trials: int, seed: int, scheduler: str = "asha") -> list[str]:
    """What is wrong with a sweep that has ended, one line each."""
    rows = rows_of(sweep)
    numbers = sorted(int(name.split("_")[0]) for name in rows)
    problems = []
    if numbers != list(range(1, trials + 1)):
        problems.append(f"trials on disk: {numbers}, expected 1 to {trials}, each once")
    for name, results in rows.items():
        steps = sorted({row["training_iteration"] for row in results})
        if steps != list(range(1, steps[-1] + 1)) or not results[-1].get("done"):
            problems.append(f"{name}: its rows are not whole: {steps}")
        elif "pruned" not in results[-1]:
            problems.append(f"{name}: its last row, of {steps[-1]}, does not say why it is")
    problems += _check_mlflow(storage, rows)
    if scheduler == "pbt":
        last = {results[-1][METRIC] for results in rows.values()}
        return problems + ([f"trials ended after {last} steps"] if last != {BUDGET} else [])
    problems += _check_rungs(sweep, rows)
    best = max(row[OBJECTIVE] for results in rows.values() for row in results)
    # The same draws, and the best configuration is the best at every rung: it is never stopped.
    expected = max(_draws(trials, seed)) * BUDGET / STEPS
    if abs(best - expected) > 1e-9:
        problems.append(f"the best result is {best}, without a kill it is {expected}")
    return problems


def _draws(trials: int, seed: int) -> list[float]:
    from experiments.search.build import build_search
    from experiments.sweep.load import make_spec, spec_space

    spec = make_spec(_spec(Path("unused"), trials, seed, 0.0, "asha"))
    search: Any = build_search(spec, spec_space(spec), trials)
    return [search.suggest(str(number))["x"] for number in range(trials)]


def _spec(storage: Path, trials: int, seed: int, seconds: float, scheduler: str) -> dict[str, Any]:
    return {
        "name": "drill",
        "trainable": "experiments.benchmarks.noop:NoOp",
        "config": {"seconds": seconds},
        "search_space": {"x": {"uniform": [0.5, 1.0]}},
        "scheduler": {"algorithm": scheduler, **SCHEDULERS[scheduler]},
        "stop": {METRIC: BUDGET},
        "num_samples": trials,
        "seed": seed,
        "checkpoint": {"frequency": 1},
        "max_failures": 100,  # hosts are killed
        "resources": {"num_cpus": 2},
        "storage": str(storage),
    }


def _batched(seconds: float) -> dict[str, Any]:
    """What differs where trials share processes."""
    return {
        "trainable": "experiments.benchmarks.scripted:Scripted",
        "config": {**SMALL, "seconds": seconds},
        "trial_batching": "auto",
    }


def _start(storage: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    with (storage / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "experiments.cli", *arguments],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its Ray can be killed with it
        )


def _wait_for(
    moment: str,
    driver: subprocess.Popen[bytes],
    sweep: Path,
    moments: random.Random,
    storage: Path,
) -> None:
    """Returns at the moment of a kill, or when the driver has ended."""
    if moment == "at the start" and any(sweep.glob("experiment_state-*.json")):
        time.sleep(moments.uniform(0.2, 4.0))
        return
    count = _num_ended if moment == "after an end" else _num_rows
    before, deadline = count(sweep), time.monotonic() + DEADLINE_S
    while count(sweep) <= before and driver.poll() is None:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"nothing happened for {DEADLINE_S:.0f} s:\n{_log(storage)}")
        time.sleep(0.02)
    if driver.poll() not in (None, 0):
        raise BenchmarkError(f"the driver failed:\n{_log(storage)}")
    time.sleep(0.5 if moment == "after an end" else moments.uniform(0, 3))


def _num_ended(sweep: Path) -> int:
    return sum(bool(rows[-1].get("done")) for rows in rows_of(sweep).values())


def _num_rows(sweep: Path) -> int:
    return sum(map(len, rows_of(sweep).values()))


def _watched(
    driver: subprocess.Popen[bytes], sweep: Path, before: Rows, ended: set[str]
) -> list[str]:
    """What the resumed driver does to trials that had ended, until it has gone on."""
    total, deadline = sum(map(len, before.values())), time.monotonic() + DEADLINE_S
    while _num_rows(sweep) <= total and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    now = rows_of(sweep)
    return [
        f"{name} had ended, and ran again" for name in sorted(ended) if now[name] != before[name]
    ]


def _check_rungs(sweep: Path, rows: Rows) -> list[str]:
    """Compares ASHA's rungs with the results on disk: each trial's first at or above a rung."""
    saved = pickle.loads(max(sweep.glob("callback-states-*.pkl")).read_bytes())
    state = next(state["scheduler"] for state in saved.values() if state and "scheduler" in state)
    problems = []
    for milestone, seen in pickle.loads(state)["_brackets"][0]._rungs:
        expected = {}
        for name, results in rows.items():
            reached = [row[OBJECTIVE] for row in results if row[METRIC] >= milestone]
            if reached:
                expected[name.split("_")[1]] = reached[0]
        if seen != expected:
            problems.append(f"ASHA's rung at {milestone:g}: {seen}, by the results {expected}")
    return problems


def _check_mlflow(storage: Path, rows: Rows) -> list[str]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{storage}/mlflow.db")
    experiment: Any = client.get_experiment_by_name("tunescape")
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    children = {r.data.tags[TRIAL_TAG]: r for r in runs if PARENT_TAG in r.data.tags}
    problems = []
    if len(runs) != len(children) + 1:
        problems.append(f"MLflow has {len(runs)} runs of {len(children)} trials and a parent")
    ids = {name.split("_")[1]: results for name, results in rows.items()}
    for trial_id, run in children.items():
        if trial_id not in ids:  # made less than 0.1 s before a kill
            if run.info.status != "KILLED":
                problems.append(f"MLflow: {trial_id} is unknown and {run.info.status}")
            continue
        last = ids[trial_id][-1]
        history = client.get_metric_history(run.info.run_id, OBJECTIVE)
        steps = [point.step for point in history]
        outcome = "pruned" if last.get("pruned") else "finished"
        whole = list(range(STEPS, last[METRIC] + 1, STEPS))
        if run.info.status != "FINISHED" or run.data.tags[OUTCOME_TAG] != outcome:
            problems.append(f"MLflow: {trial_id} is {run.info.status}, expected {outcome}")
        if sorted(steps) != whole or run.data.metrics[OBJECTIVE] != last[OBJECTIVE]:
            problems.append(f"MLflow: {trial_id} has results at {sorted(steps)}, not at {whole}")
    if missing := set(ids) - set(children):
        problems.append(f"MLflow lacks {sorted(missing)}")
    return problems


def _log(storage: Path) -> str:
    return (storage / "driver.log").read_text(encoding="utf-8", errors="replace")[-3000:]


if __name__ == "__main__":
    main()
