"""Seconds and memory that the analysis of a large sweep takes: 1,000 trials of 200 results.

The sweep is fabricated (`fabricated_sweep.py`) in a temporary folder; each task is a process of its
own that starts from the folder, and its seconds include reading it::

    python -m experiments.benchmarks.analysis_scale
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.benchmarks.fabricated_sweep import fabricate
from experiments.benchmarks.gather import HERE, console, keep, table, verdict

METRIC = "episode_return_mean"
ALLOWED = {"frames": 5.0, "report": 30.0}
"""Seconds."""
ALLOWED_MB = 1000


def main() -> None:
    """Measures, prints the table and writes `analysis_scale.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1000, help="trials of the sweep")
    parser.add_argument("--results", type=int, default=200, help="results of each")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--out", type=Path, default=HERE / "figures", help="folder of the JSON")
    parser.add_argument("--measure", nargs=2, metavar=("TASK", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*args.measure)))
        return
    with tempfile.TemporaryDirectory() as root:
        folder = fabricate(Path(root) / "sweep", trials=args.trials, results=args.results)
        size = sum(path.stat().st_size for path in folder.glob("*/result.json"))
        results = {task: _best(task, folder, args.rounds) for task in args.tasks}
    title = f"Analysis of {args.trials} trials x {args.results} results ({size / 1e6:.0f} MB)"
    view = table(title, "", "seconds", "", "CPU seconds", "peak MB", "")
    for task, found in results.items():
        allowed, peak = ALLOWED.get(task), found["peak_mb"]
        view.add_row(
            task,
            f"{found['seconds']:.1f}",
            verdict(found["seconds"], allowed, at_most=True),
            f"{found['cpu_seconds']:.1f}",
            f"{peak:.0f}",
            verdict(peak, ALLOWED_MB, at_most=True),
        )
    console.print(view)
    settings = {"trials": args.trials, "results": args.results, "result_bytes": size}
    keep(args.out, "analysis_scale", {**settings, "rounds": args.rounds}, results)


def _best(task: str, folder: Path, rounds: int) -> dict[str, float]:
    """The quickest of some rounds: what the machine does besides is not ours."""
    command = [sys.executable, "-m", __spec__.name, "--measure", task, str(folder)]
    found = [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        for _ in range(rounds)
    ]
    return min(found, key=lambda each: float(each["seconds"]))


def measure(task: str, folder: str) -> dict[str, float]:
    """Seconds and CPU seconds of a task, and the most memory (MB) that this process ever had."""
    start, cpu = time.perf_counter(), time.process_time()
    TASKS[task](folder)
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": peak_mb(),
    }


def peak_mb() -> float:
    """The largest resident set of this process."""
    try:
        # getrusage also counts the process that started this one.
        text = Path("/proc/self/status").read_text(encoding="ascii")
        return int(re.findall(r"VmHWM:\s+(\d+) kB", text)[0]) / 1000
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def _frames(folder: str) -> None:
    from analysis import curves_frame, load_sweep, trials_frame

    sweep = load_sweep(folder)
    trials_frame(sweep)
    curves_frame(sweep, [METRIC])


def _leaderboard(folder: str) -> None:
    from analysis import best_checkpoint, effects_frame, leaderboard, load_sweep

    sweep = load_sweep(folder)
    leaderboard(sweep, METRIC)
    effects_frame(sweep, METRIC)
    best_checkpoint(sweep, METRIC)


def _report(folder: str) -> None:
    from analysis import write_report

    with tempfile.TemporaryDirectory() as root:
        write_report([folder], Path(root) / "report.html")


TASKS: dict[str, Callable[[str], Any]] = {
    "frames": _frames,
    "leaderboard": _leaderboard,
    "report": _report,
}


if __name__ == "__main__":
    main()
