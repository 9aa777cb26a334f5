"""Digests of short training runs, to see that a change of the code changes no bit of training.

Before the change `python -m tests.golden_runs write -o FILE`, after it `check --against FILE`.
Without a file it is `golden/runs.json`, which holds what the runs of the repository are. `--only`
chooses runs by the beginning of their names, as a regular expression. Those of Ray's actors run
only if they are asked for: `--only ray`.

Float arithmetic differs between processors and releases of PyTorch. So a file holds a fingerprint
of the arithmetic too, and is compared only where that is the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # classes and hooks belong to the module that tests import
    os.environ |= {"OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled"}
    here = str(Path(__file__).parent)
    sys.path.insert(0, here)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    import golden_runs

    sys.exit(golden_runs.main(sys.argv[1:]))

import gymnasium
import numpy as np
import policy_kinds
import pyarrow.parquet as parquet
import torch
from recorded_data import recorded
from safetensors.numpy import load_file
from short_runs import EPISODES, short_settings_of
from small_runs import (
    home,
    is_asynchronous,
    learns_from_replay,
    samples,
    without_clocks,
)

from trainables.core.config.exploration import INTRINSIC_OPTIONS
from trainables.core.features import using
from trainables.core.trust import NotTrusted
from trainables.registry import algorithm_names, get_algorithm
from trainables.runtime.members.meeting import Meeting

FILE = Path(__file__).parent / "golden" / "runs.json"
ITERATIONS, AFTER_RESTORE = 20, 2
CHEAP = ("BC", "DQN/lstm", "DreamerV3", "PPO", "PPO/members", "SAC/agents")
"""Of each kind one, for the default tier."""

Settings = dict[str, Any]
Digests = dict[str, str]

LSTM: Settings = {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8], "max_seq_len": 5}
RICH: Settings = {
    "lr": [[0, 1e-3], [2000, 1e-4]],
    "evaluation_interval": 5,
    "evaluation_duration": 2,
}
AGENTS: Settings = {
    "env": "multi_agent_cartpole",
    "env_config": {"num_agents": 3},
    "policies": ["a", "b"],
    "policy_mapping_fn": {"agent_0": "a", "*": "b"},
    "model": {"fcnet_hiddens": [16]},
}
FROM_DATA: Settings = {
    "seed": 3,
    "train_batch_size_per_learner": 32,
    "dataset_num_iters_per_learner": 5,
    "model": {"fcnet_hiddens": [16]},
}
OUTPUT = "output"  # in the folder of a run
# Rows of a rollout; those of its fields that every algorithm's have.
_SAMPLED = ("obs", "actions", "rewards", "terminated", "truncated", "logp", "valid")
_DRAWN = re.compile("(?<=-)[0-9a-f]{8}(?=-)")
# What differs between two runs or two machines by nature, in results and checkpoints.
_BY_NATURE = {"hostname", "node_ip", "time_total_s", "tunescape_version", "files", "sha256"}


# ------------------------------------------------------------------ which runs there are


@dataclass(frozen=True)
class Run:
    """A training run.

    Attributes:
        algorithm: Its name.
        settings: Makes the settings; data are recorded only when they are needed.
        members: How many trials learn as one program, each with a seed and a rate of its own.
        uses_ray: Whether actors take part.
    """

    algorithm: str
    settings: Callable[[], Settings]
    members: int = 0
    uses_ray: bool = False


def all_runs() -> dict[str, Run]:
    """Return the runs by name: the algorithm, and a variant after a slash."""
    runs: dict[str, Run] = {}
    for name in algorithm_names():
        for variant, settings in _variants(name):
            runs[f"{name}/{variant}" if variant else name] = Run(name, settings)
        if name in ("A2C", "DQN", "PPO", "QMIX", "SAC"):
            runs[f"{name}/members"] = Run(name, _settings(name), members=3)
    for kind in policy_kinds.KINDS:
        runs[f"PPO/kind-{kind}"] = Run("PPO", partial(policy_kinds.settings_of, kind))
    actors = {"num_cpus_per_env_runner": 0.5, "num_cpus_per_learner": 0.5}
    for name in algorithm_names():
        if is_asynchronous(name):  # the order in which fragments arrive is no seed's
            continue
        if samples(name):
            more = {"num_env_runners": 2, "num_cpus_per_env_runner": 0.5, **_filter(name)}
            runs[f"ray/{name}/runners"] = Run(name, _settings(name, **more), uses_ray=True)
        if "num_learners" in get_algorithm(name).config_class.settings():
            learners = {"num_learners": 2, "num_cpus_per_learner": 0.5}
            runs[f"ray/{name}/learners"] = Run(name, _settings(name, **learners), uses_ray=True)
    both = {**AGENTS, "num_env_runners": 2, "num_learners": 2, **actors}
    for name in ("PPO", "DQN"):
        agents = _settings(name, **both)
        runs[f"ray/{name}/agents"] = Run(name, agents, uses_ray=True)
    return runs


def _variants(name: str) -> Iterator[tuple[str, Callable[[], Settings]]]:
    """Yield what an algorithm supports, with the settings of each."""
    config_class = get_algorithm(name).config_class
    yield "", _settings(name)
    yield "rich", _settings(name, **RICH, **_filter(name))
    if config_class.without_memory is None:
        without = config_class.model_without
        model = {key: value for key, value in LSTM.items() if key not in without}
        # The priorities of sequences are others than those of rows.
        buffer = {"replay_buffer_config": {"capacity": 4000}} if learns_from_replay(name) else {}
        yield "lstm", _settings(name, model=model, **buffer)
    if config_class.several_agents is None:
        yield "agents", _settings(name, **AGENTS)
    if samples(name):
        yield "episodes", _settings(name, batch_mode="complete_episodes")
        yield "output", _settings(name, output=OUTPUT)
    if not config_class.why_no_intrinsic:
        kinds = list(INTRINSIC_OPTIONS) if name in ("PPO", "DQN") else ["Curiosity"]
        steps = {"n_step": 1} if "n_step" in config_class.settings() else {}
        for kind in kinds:
            bonus = {"exploration_config": {"type": kind, "eta": 1.0}, **steps}
            yield f"curiosity-{kind}", _settings(name, **bonus)
    if config_class.learns_from_data and samples(name) and name != "QMIX":
        yield "data", lambda: {**FROM_DATA, "env": home(name), "input_": recorded(home(name))}
        yield "mixed", lambda: _mixed(name)
    if name == "SAC":
        yield "discrete", _settings(name, env="CartPole-v1", env_config={})
    if name == "QMIX":
        yield "team", _settings(name, env="two_step_game", env_config={})


def _settings(name: str, **more: Any) -> Callable[[], Settings]:
    def made() -> Settings:
        given = {"env": home(name), "env_config": EPISODES, **more}
        return short_settings_of(name, given.pop("env"), **given)

    return made


def _filter(name: str) -> Settings:
    return {"observation_filter": "MeanStdFilter"} if samples(name) else {}


def _mixed(name: str) -> Settings:
    data = recorded(home(name))
    buffer = {"replay_buffer_config": {"type": "ReplayBuffer", "capacity": 2000}}
    return short_settings_of(name, home(name), input_={data: 0.5, "sampler": 0.5}, **buffer)


# ------------------------------------------------------------------ a run, and its digests

_seen: list[str] = []  # of samples of this process


def note_sample(*, samples: Mapping[str, Any], **kwargs: Any) -> None:
    """A hook: keep the digest of a sample."""
    rows = {
        module: {name: getattr(rollout, name) for name in _SAMPLED}
        for module, rollout in samples.items()
    }
    _seen.append(digest(rows))


def digests_of(run: Run) -> Digests:
    """Train, save, restore and train on; return the digests of all that came out, by name."""
    settings = run.settings()
    if run.members:
        return _of_members(run, settings)
    kind = get_algorithm(run.algorithm)
    in_process = samples(run.algorithm) and not run.uses_ray
    if in_process and settings.get("input_") is None:
        settings["on_sample_end"] = "golden_runs:note_sample"
    found: Digests = {}
    output: str | None = None
    with tempfile.TemporaryDirectory(prefix="golden-run-") as work:
        _seen.clear()
        if settings.get("output") == OUTPUT:
            settings["output"] = output = f"{work}/{OUTPUT}"
        with kind(config=settings) as algo:
            found |= _trained(algo, ITERATIONS)
            algo.save(f"{work}/checkpoint")
        if _seen:
            found["sampled/last"], found["sampled"] = _seen[-1], digest(_seen)
        found |= checkpoint_digests(Path(work, "checkpoint"), _places(settings, work))
        if output is not None:
            found["output"] = digest(recorded_rows(Path(output)))
        with _restored(kind, f"{work}/checkpoint") as again:
            later = _trained(again, AFTER_RESTORE)
    return found | {f"restored/{name}": value for name, value in later.items()}


def _of_members(run: Run, settings: Settings) -> Digests:
    """Train trials as one program."""
    kind, meeting, found = get_algorithm(run.algorithm), Meeting(), {}
    with ExitStack() as stack:
        stack.enter_context(using("batching"))  # as a host makes its trials
        trials = {
            str(seed): stack.enter_context(
                kind(config={**settings, "seed": seed, "gamma": 0.9 + 0.02 * seed})
            )
            for seed in range(run.members)
        }
        results: dict[str, list[Any]] = {name: [] for name in trials}
        for _ in range(ITERATIONS):
            for name, result in meeting.run({n: t.train for n, t in trials.items()}).items():
                if isinstance(result, BaseException):
                    raise result
                results[name].append(told(result))
        for name, algo in trials.items():
            found[f"{name}/metrics"] = digest(results[name])
            found[f"{name}/weights"] = digest(algo.get_weights())
    found["together"] = digest([dict(meeting.num_together), dict(meeting.num_alone)])
    return found


def _trained(algo: Any, num_iterations: int) -> Digests:
    results = [told(algo.train()) for _ in range(num_iterations)]
    weights = {f"weights/{m}": digest(own) for m, own in algo.get_weights().items()}
    return {"metrics/first": digest(results[0]), "metrics": digest(results), **weights}


def recorded_rows(folder: Path) -> list[Any]:
    """Return the columns of a folder's files; in ids of episodes without what is drawn for each."""
    tables = [parquet.read_table(file).to_pydict() for file in sorted(folder.rglob("*.parquet"))]
    for table in tables:
        table["episode_id"] = [_DRAWN.sub("", episode_id) for episode_id in table["episode_id"]]
    return tables


def told(result: Mapping[str, Any]) -> dict[str, Any]:
    """What of a result does not depend on when and where it was made."""
    plain = without_clocks(dict(result))
    return {k: v for k, v in plain.items() if k != "config" and k not in _BY_NATURE}


def _places(settings: Settings, work: str) -> list[str]:
    """The folders of this machine that settings name."""
    given = settings.get("input_")
    data = [given] if isinstance(given, str) else list(given or ())
    return [work, *(place for place in data if os.path.isabs(place))]


def _restored(kind: type[Any], folder: str) -> Any:
    """Restore what a run has saved, and trust all that it asks for."""
    try:
        return kind.from_checkpoint(folder)
    except NotTrusted as refused:
        asked = re.findall(r"'([^']+)'", str(refused).rpartition("trust=")[2])
        return kind.from_checkpoint(folder, trust=asked)


def checkpoint_digests(folder: Path, places: Iterable[str] = ()) -> Digests:
    """Return the digests of a checkpoint's parts, by file and, of a state, by its sections.

    Args:
        folder: With the checkpoint.
        places: Folders of this machine that are taken out of texts.
    """
    parts: dict[str, list[Any]] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        home = name.rpartition("/")[0]
        if file.suffix == ".json":
            text = file.read_text(encoding="utf-8")
            for place in places:
                text = text.replace(place, "PLACE")
            content = _without(json.loads(text), _BY_NATURE)
            if name == "checkpoint.json":
                for section, value in content.pop("state").items():
                    parts.setdefault(section, []).append(value)
            parts.setdefault(name, []).append(content)
        elif file.suffix == ".safetensors":
            for tensor, value in sorted(load_file(file).items()):
                section = home or tensor.strip("/").partition("/")[0]
                parts.setdefault(section, []).append([tensor, value])
        else:
            parts.setdefault(name, []).append(file.read_bytes())
    return {f"checkpoint/{name}": digest(part) for name, part in parts.items()}


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {k: _without(v, names) for k, v in value.items() if k not in names}
    return [_without(one, names) for one in value] if isinstance(value, list) else value


def digest(value: Any) -> str:
    """Return 16 hex digits of a value's bits; the order of a mapping's keys does not matter."""
    made = hashlib.sha256()
    for piece in _pieces(value):
        made.update(piece)
    return made.hexdigest()[:16]


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype.names:
        value = {name: value[name] for name in value.dtype.names}  # without what is between them
    if isinstance(value, Mapping):
        yield b"{"
        for key in sorted(value, key=str):
            yield f"{key}:".encode()
            yield from _pieces(value[key])
        yield b"}"
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, (list, tuple)):
        yield b"["
        for one in value:
            yield from _pieces(one)
        yield b"]"
    elif is_dataclass(value):
        yield from _pieces({field.name: getattr(value, field.name) for field in fields(value)})
    elif isinstance(value, (float, np.floating)):
        yield f"{float(value)!r};".encode()
    elif isinstance(value, (bytes, bool, int, str, np.integer, np.bool_)) or value is None:
        yield value if isinstance(value, bytes) else f"{value};".encode()
    else:
        raise TypeError(f"no digest of a {type(value).__name__}")


# ------------------------------------------------------------------ the arithmetic of a machine


def fingerprint() -> dict[str, str]:
    """Return what decides how floats are rounded: releases, and a digest of a few computations."""
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    return {
        **versions,
        "gymnasium": gymnasium.__version__,
        "arithmetic": digest(_computed()),
    }


def _computed() -> list[Any]:
    drawn = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=drawn)

    with torch.random.fork_rng():
        torch.manual_seed(0)
        lstm, conv = torch.nn.LSTM(16, 32), torch.nn.Conv2d(3, 8, 3, stride=2)
        mlp = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(mlp.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        mlp(draw(33, 16)).square().mean().backward()
        optimizer.step()
    given = draw(50, 37)
    return [
        *(given @ draw(37, 29), given.exp(), given.tanh(), given.log_softmax(-1), given.sum(0)),
        *(lstm(draw(7, 5, 16))[0], conv(draw(2, 3, 17, 17)), *mlp.parameters()),
        *(np.sin(given.numpy()), np.exp(given.numpy().astype(np.float64))),
    ]


# ------------------------------------------------------------------ commands


@contextmanager
def _surroundings(runs: Mapping[str, Run]) -> Iterator[None]:
    """One thread, no notes in the user's home, and a Ray where it is needed."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # that some environments do not give their state
    with ExitStack() as stack:
        cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="golden-cache-"))
        os.environ.setdefault("TUNESCAPE_DATA_CACHE", cache)
        if any(run.uses_ray for run in runs.values()):
            from small_ray import small_ray

            from experiments.workers.warm import warm_workers

            stack.enter_context(warm_workers())  # actors are forks, which have imported all
            stack.enter_context(small_ray(num_cpus=8))
        yield


def found_in(runs: Mapping[str, Run], tell: Callable[[str, Digests, float], None]) -> None:
    """Train the runs, and tell of each: its name, its digests and the CPU seconds it took."""
    for name, run in runs.items():
        before = time.process_time()
        digests = digests_of(run)
        tell(name, digests, time.process_time() - before)


def differences(expected: Digests, found: Digests) -> list[str]:
    """Return the names of digests that are not the same, or only in one."""
    names = [*found, *(name for name in expected if name not in found)]
    return [name for name in names if expected.get(name) != found.get(name)]


def chosen(pattern: str | None) -> dict[str, Run]:
    """Return the runs whose names begin so; without a pattern those without actors."""
    runs = all_runs()
    if pattern is None:
        return {name: run for name, run in runs.items() if not run.uses_ray}
    return {name: run for name, run in runs.items() if re.match(pattern, name)}


def read(file: Path) -> dict[str, Any]:
    """Return a file's content: `fingerprint`, and `runs` by name."""
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def other_arithmetic(content: Mapping[str, Any]) -> str | None:
    """Return why a file's digests are not those of this machine; None: they are."""
    mine, theirs = fingerprint(), content["fingerprint"]
    other = [f"{name} {theirs.get(name)}, here {mine[name]}" for name in mine]
    other = [text for text, name in zip(other, mine, strict=True) if theirs.get(name) != mine[name]]
    return f"digests of another arithmetic: {'; '.join(other)}" if other else None


def write(file: Path, runs: Mapping[str, Run], *, is_part: bool) -> int:
    """Write the digests of runs; of a part of them beside those that are there."""
    kept: dict[str, Digests] = {}
    if is_part and file.is_file():
        content = read(file)
        if why := other_arithmetic(content):
            print(f"{file}: {why}; write all runs")
            return 2
        kept = content["runs"]

    def tell(name: str, digests: Digests, seconds: float) -> None:
        kept[name] = digests
        print(f"{name}: {len(digests)} digests, {seconds:.1f} s", flush=True)

    found_in(runs, tell)
    lines = [f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept)]
    head = json.dumps(fingerprint())
    text = f'{{"fingerprint": {head},\n"runs": {{\n' + ",\n".join(lines) + "\n}}\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return 0


def check(file: Path, runs: Mapping[str, Run]) -> int:
    """Compare runs with a file's digests, and print what differs."""
    content = read(file)
    if why := other_arithmetic(content):
        print(f"{file}: {why}")
        return 2
    different: list[str] = []

    def tell(name: str, digests: Digests, seconds: float) -> None:
        expected = content["runs"].get(name)
        says = "is not in the file" if expected is None else ""
        if expected is not None and (names := differences(expected, digests)):
            says = "DIFFERS: " + ", ".join(names)
        if says:
            different.append(name)
        print(f"{name}: {says or 'same'}, {seconds:.1f} s", flush=True)

    found_in(runs, tell)
    print(f"{len(different)} of {len(runs)} runs differ" + "".join(f"\n  {n}" for n in different))
    return 1 if different else 0


def main(arguments: list[str]) -> int:
    """Run a command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden_runs", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, option in (("write", ("-o", "--output")), ("check", ("--against",))):
        its = commands.add_parser(command)
        its.add_argument("--only", metavar="PATTERN", help="the beginning of names")
        its.add_argument(*option, dest="file", type=Path, default=FILE)
    given = parser.parse_args(arguments)
    runs = chosen(given.only)
    if not runs:
        parser.error(f"no run begins with {given.only}; there are {', '.join(all_runs())}")
    with _surroundings(runs):
        if given.command == "check":
            return check(given.file, runs)
        return write(given.file, runs, is_part=given.only is not None)
