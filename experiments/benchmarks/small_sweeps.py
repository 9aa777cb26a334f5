"""What a small sweep costs beyond its training, and how soon a mistake in a spec is told.

Each round runs the same commands with the code of each tree, in turns: this one, and others, such
as a clone of an older commit::

    python -m experiments.benchmarks.small_sweeps --tree before=/path/to/clone

CPU seconds are the driver's, and those of it and of all processes that it started, less those of
the trials themselves: nobody waits for forks of the process that workers come from. On a shared
machine they say more than wall-clock seconds do. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from experiments.benchmarks.gather import HERE, console, keep, table
from experiments.benchmarks.processes import cpu_seconds

_PPO = """
name: small
trainable: PPO
config: {{env: {env}, num_envs_per_env_runner: 32, train_batch_size_per_learner: 2048, {lr}: 0.001}}
search_space: {{gamma: {{uniform: [0.98, 0.99]}}}}
stop: {{{stop}}}
num_samples: 2
seed: 0
"""
_RIGHT = {"env": "CartPole-v1", "lr": "lr", "stop": "time_total_s: 10"}
COMMANDS: dict[str, tuple[dict[str, str], tuple[str, ...], int]] = {
    "10 s of training": (_RIGHT, (), 0),
    "one iteration": (_RIGHT | {"stop": "training_iteration: 1"}, (), 0),
    "wrong setting": (_RIGHT | {"lr": "lrr"}, ("--dry-run",), 2),
    "wrong env": (_RIGHT | {"env": "CartPol-v1"}, ("--dry-run",), 2),
}
"""What is run, by name: what the spec says, options of `tunescape run`, and the exit status."""
_SUBREAPER = 36  # prctl: processes whose parent has ended become children of this one


def main() -> None:
    """Measures, prints the table and writes `small_sweeps.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the JSON")
    args = parser.parse_args()
    given = dict(tree.split("=", 1) for tree in args.tree)
    trees = {name: Path(folder) for name, folder in given.items()} | {"this": HERE.parents[1]}
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for number in range(args.rounds):
        for command in args.only:
            for name in sorted(trees, reverse=number % 2 == 1):
                measured = measure(trees[name], command)
                found.setdefault(command, {}).setdefault(name, []).append(measured)
                console.print(number, command, name, measured)
    view = table(f"Medians of {args.rounds} rounds, seconds", "", "", "driver", "all", "wall")
    for command, by_tree in found.items():
        for name, runs in by_tree.items():
            numbers = [median(run[key] for run in runs) for key in ("driver", "all", "wall")]
            view.add_row(command, name, *(f"{number:.2f}" for number in numbers))
    console.print(view)
    keep(args.out, "small_sweeps", {"rounds": args.rounds}, found)


def measure(tree: Path, command: str) -> dict[str, float]:
    """Run a command; return CPU seconds of its process and of all, wall-clock seconds, the load.

    Args:
        tree: The folder that holds the packages.
        command: One of `COMMANDS`.

    Raises:
        SystemExit: It ended with another exit status.
    """
    said, options, status = COMMANDS[command]
    before = _of_children()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "small.yaml").write_text(_PPO.format(**said), encoding="utf-8")
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "tunescape.command", "run", "small.yaml", *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays, to be asked
        wall, driver = time.perf_counter() - start, cpu_seconds(process.pid)
        if process.wait() != status:
            raise SystemExit(f"{tree}: {command}: exit status {process.returncode}, not {status}")
        while _wait_for_any():
            pass
    load = os.getloadavg()[0]
    return {"driver": driver, "all": _of_children() - before, "wall": wall, "load": load}


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_any() -> bool:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
