"""What the drivers share: start a contestant, read its JSON line, show and keep results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
SCRIPTS: dict[str, dict[str, tuple[str, ...]]] = {
    "ppo": {
        "ours": ("ours.py",),
        "batched": ("ours.py", "--together"),
        "bare": ("bare_ppo.py",),
        "sb3": ("peer_sb3.py",),
        "rllib": ("peer_rllib.py",),
    },
    "curiosity": {
        "ours": ("ours_curiosity.py",),
        "plain": ("ours_curiosity.py",),
        "equal_work": ("ours_curiosity.py",),
        "rllib": ("peer_rllib_curiosity.py",),
    },
    "minatar": {"ours": ("ours_minatar.py",), "sb3": ("peer_sb3_minatar.py",)},
    **{
        algorithm: {
            "ours": ("ours_off_policy.py", algorithm),
            "compiled": ("ours_off_policy.py", algorithm),
            "bare": (f"bare_{algorithm}.py",),
            "sb3": ("peer_sb3_off_policy.py", algorithm),
            "rllib": ("peer_rllib_off_policy.py", algorithm),
        }
        for algorithm in ("dqn", "sac")
    },
    **{
        algorithm: {
            "ours": ("ours_actors.py", algorithm),
            "rllib": ("peer_rllib_actors.py", algorithm),
        }
        for algorithm in ("impala", "appo")
    },
    **{
        algorithm: {
            "ours": ("ours_offline.py", algorithm),
            "bare": ("bare_bc.py" if algorithm == "bc" else "bare_offline.py", algorithm),
            "d3rlpy": ("peer_d3rlpy_offline.py", algorithm),
            "rllib": ("peer_rllib_offline.py", algorithm),
            "rllib_anew": ("peer_rllib_offline.py", f"{algorithm}_anew"),
        }
        for algorithm in ("bc", "cql", "iql")
    },
    "marwil": {
        "ours": ("ours_offline.py", "marwil"),
        "rllib": ("peer_rllib_offline.py", "marwil"),
    },
    "agents_speed": {
        "ours": ("ours_agents.py", "cartpole_dict", "speed"),
        "native": ("ours_agents.py", "cartpole_native", "speed"),
        "rllib": ("peer_rllib_agents.py", "cartpole_dict", "speed"),
    },
    "agents": {"ours": ("ours_agents.py",), "rllib": ("peer_rllib_agents.py",)},
    "dreamerv3": {
        "ours": ("ours_dreamer.py",),
        "equal_work": ("ours_dreamer.py", "--depth", "13"),
        "bare": ("ours_dreamer.py", "--bare"),
        "rllib": ("peer_rllib_dreamer.py",),
    },
    "ppo_actors": {
        "ours": ("ours_actors.py", "ppo"),
        "evaluating": ("ours_actors.py", "ppo"),
    },
}
"""By algorithm and contestant: the script, and what its command line starts with."""
TITLES = {
    "ppo": "PPO on CartPole",
    "dqn": "DQN on CartPole",
    "sac": "SAC on Pendulum",
    "impala": "IMPALA on CartPole",
    "appo": "APPO on CartPole",
}
LABELS = {
    "ours": "Tunescape",
    "batched": "Tunescape, together",
    "compiled": "Tunescape, compiled",
    "evaluating": "Tunescape, evaluating",
    "native": "Tunescape, native",
    "equal_work": "Tunescape, equal work",
    "plain": "Tunescape, without",
    "bare": "bare loop",
    "sb3": "Stable-Baselines3",
    "d3rlpy": "d3rlpy",
    "rllib": "RLlib",
    "rllib_anew": "RLlib, drawing anew",
}
PEERS = ("sb3", "d3rlpy", "rllib", "rllib_anew")

Result = dict[str, Any]
console = Console()


class BenchmarkError(SystemExit):
    """A contestant could not be started or did not give a result; ends the driver."""


def arguments(description: str | None, contestants: Sequence[str]) -> argparse.ArgumentParser:
    """A parser with the options that every driver has."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument(
        "--peers-python", type=Path, help="the peers' interpreter; without it they are left out"
    )
    parser.add_argument(
        "--only", nargs="+", choices=contestants, help="measure these contestants only"
    )
    parser.add_argument(
        "--out", type=Path, default=HERE / "results", help="folder for the JSON file"
    )
    return parser


def chosen(args: argparse.Namespace, contestants: Sequence[str]) -> list[str]:
    """The contestants to measure, of those that know the algorithm; peers with an interpreter.

    Raises:
        SystemExit: The peers' interpreter does not exist, or peers are asked for without one.
    """
    known = SCRIPTS.get(getattr(args, "algorithm", ""), contestants)
    names = [n for n in contestants if n in known and (args.only is None or n in args.only)]
    if args.peers_python is None:
        if args.only and any(n in PEERS for n in args.only):
            raise SystemExit("--only names a peer: give --peers-python PATH (see README.md)")
        return [n for n in names if n not in PEERS]
    if not args.peers_python.is_file():
        raise SystemExit(f"--peers-python {args.peers_python}: there is no such file")
    return names


def measure(
    name: str, peers_python: Path | None, *arguments: object, algorithm: str = "ppo"
) -> Result:
    """Runs a contestant in a process of its own and returns what it printed last.

    Args:
        name: A contestant in `SCRIPTS`.
        peers_python: The interpreter for the peers; the others run under this one.
        arguments: The script's command line.
        algorithm: Which of `SCRIPTS`.

    Raises:
        BenchmarkError: It failed; the message ends with what it wrote last.
    """
    # Not resolved: a virtual environment's python is a link, and what it is called says which one.
    python = str(peers_python.absolute()) if name in PEERS and peers_python else sys.executable
    script, *first = SCRIPTS[algorithm][name]
    command = [python, str(HERE / script), *first, *map(str, arguments)]
    # One thread each, and nothing of this environment leaks into the peers' one.
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # Tune's files of each result cost the loop 18 ms of a CPU that trials want; nobody reads them.
    env["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    if name not in PEERS:
        env["PYTHONPATH"] = str(HERE.parents[1])
    with tempfile.TemporaryDirectory() as cwd:  # MuJoCo writes a log into the working directory
        done = subprocess.run(
            command, env=env, cwd=cwd, capture_output=True, text=True, check=False
        )
    lines = done.stdout.strip().splitlines()
    try:
        result = json.loads(lines[-1]) if done.returncode == 0 else None
    except (IndexError, ValueError):
        result = None
    if not isinstance(result, dict):
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        code = done.returncode
        raise BenchmarkError(f"{LABELS[name]} gave no result (exit code {code}):\n{tail}")
    return result


def rounds(
    names: Sequence[str],
    count: int,
    task: Callable[[str, int], Result],
    show: Callable[[Result], str],
    peer_count: int | None = None,
) -> dict[str, list[Result]]:
    """Measures every contestant once a round, one after the other; peers in the first rounds only.

    Interleaved, so that a slow minute of the machine hits all of them alike.
    """
    results: dict[str, list[Result]] = {name: [] for name in names}
    for number in range(count):
        for name in names:
            if name in PEERS and peer_count is not None and number >= peer_count:
                continue
            result = task(name, number)
            results[name].append(result)
            console.print(f"round {number + 1}/{count}  {LABELS[name]:<18} {show(result)}")
    return results


def middle(results: Sequence[Result], key: str) -> float:
    """The median of one key."""
    return float(median(float(result[key]) for result in results))


def spread(results: Sequence[Result], key: str) -> str:
    """Lowest and highest value of one key, for people."""
    values = [float(result[key]) for result in results]
    form = ",.0f" if max(values) >= 1000 else ".1f"
    return f"{min(values):{form}}-{max(values):{form}}"


def verdict(value: float, required: float | None, *, at_most: bool = False) -> str:
    """Whether a number is what it has to be: at least `required`, or at most."""
    if required is None:
        return ""
    holds = value <= required if at_most else value >= required
    return f"{'ok' if holds else 'MISSED'} ({'<=' if at_most else '>='} {required:g})"


def table(title: str, *columns: str) -> Table:
    """An empty table: the first column left, the others right."""
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return made


def keep(out: Path, name: str, settings: dict[str, Any], results: Any) -> Path:
    """Writes `<name>.json`: when, where, how and every single measurement."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    record = {
        "benchmark": name,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.platform(),
        },
        "settings": settings,
        "results": results,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console.print(f"every measurement: {path}", soft_wrap=True, highlight=False)
    return path


def by_algorithm(benchmark: str, algorithm: str) -> str:
    """The name of a benchmark's results; PPO's carry no suffix."""
    return benchmark if algorithm == "ppo" else f"{benchmark}_{algorithm}"


def processor() -> str:
    """The processor's name, or its architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
