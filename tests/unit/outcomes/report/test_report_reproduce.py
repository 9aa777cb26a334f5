"""The commands of a report give the configuration that they stand beside."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from analysis_sweeps import make_sweep, row

from analysis.overview.overview import ReportData
from analysis.report.reproduce import commands_of, sweep_commands, trial_command
from experiments.sweep.load import dump_spec, load_specs, make_spec

SPEC = {
    "name": "sweep",
    "trainable": "PPO",
    "config": {"env": "CartPole-v1", "gamma": 0.9},
    "search_space": {
        "lr": {"loguniform": [1e-4, 1e-2]},
        "model.fcnet_hiddens": {"choice": [[8], [64, 64]]},
        "model.fcnet_activation": {"choice": ["relu", "tanh"]},
    },
    "search": "tpe",
    "scheduler": "asha",
    "stop": {"num_env_steps_sampled_lifetime": 1000},
    "num_samples": 4,
    "seed": 3,
}
CONFIG = {
    "env": "CartPole-v1",
    "gamma": 0.9,
    "lr": 0.0012345678901234567,
    "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "relu"},
}
SEARCHED = {"lr": 1, "model/fcnet_hiddens": 1, "model/fcnet_activation": 1}


def sweep_of(root: Path, spec: dict, iterations: int = 10, **trial: object) -> ReportData:
    rows = [row(i, float(i), done=i == iterations) for i in range(1, iterations + 1)]
    made = {"rows": rows, "config": CONFIG, "searched": SEARCHED, **trial}
    sweep = make_sweep(root, {"t0": made})
    (sweep / "spec.yaml").write_text(dump_spec(make_spec(spec)))
    return ReportData(sweep)


def again(command: str) -> dict:
    """The spec that the command would run."""
    words = shlex.split(command)
    assert words[:2] == ["tunescape", "run"] and words[3] == "--name"
    sets = [word for flag, word in pairwise(words) if flag == "--set"]
    (spec,) = load_specs(words[2], sets)
    return spec.model_dump()


def test_the_command_gives_the_trials_own_configuration(tmp_path: Path) -> None:
    data = sweep_of(tmp_path, SPEC)
    spec = again(trial_command(data, data.sweep.trials[0]))
    assert spec["config"] == CONFIG
    assert spec["search_space"] == {} and spec["num_samples"] == 1 and spec["seed"] == 3
    assert spec["scheduler"]["algorithm"] == "fifo" and spec["search"]["algorithm"] == "random"
    assert spec["stop"] == {"num_env_steps_sampled_lifetime": 1000}


def test_a_trial_that_was_stopped_early_stops_there(tmp_path: Path) -> None:
    data = sweep_of(tmp_path, SPEC, iterations=4)
    spec = again(trial_command(data, data.sweep.trials[0]))
    assert spec["stop"] == {"num_env_steps_sampled_lifetime": 400}


def test_seeds_are_kept_and_the_final_is_not(tmp_path: Path) -> None:
    data = sweep_of(tmp_path, {**SPEC, "seeds": [4, 5], "scheduler": "fifo"})
    assert again(trial_command(data, data.sweep.trials[0]))["seeds"]["values"] == [4, 5]
    (data.folder / "spec.yaml").write_text(
        dump_spec(make_spec({**SPEC, "scheduler": "fifo", "final": {"top": 1, "seeds": 2}}))
    )
    (data.folder / "final.json").write_text('{"configurations": []}')
    data = ReportData(data.folder)
    assert again(trial_command(data, data.sweep.trials[0]))["final"] is None


def test_a_seed_that_was_searched_is_named(tmp_path: Path) -> None:
    spec = {**SPEC, "search_space": {"seed": {"grid": [0, 1]}}, "search": "grid", "num_samples": 1}
    del spec["seed"]
    data = sweep_of(tmp_path, spec, config={**CONFIG, "seed": 1}, searched={"seed": 1})
    assert again(trial_command(data, data.sweep.trials[0]))["config"]["seed"] == 1


def test_of_a_population_the_schedule_is_replayed(tmp_path: Path) -> None:
    space = {"lr": {"loguniform": [1e-4, 1e-2]}}
    spec = {**SPEC, "search": "random", "scheduler": "pbt", "search_space": space}
    data = sweep_of(tmp_path, spec)
    exploit = {"exploit": 1, "trial": "t0", "donor": "t1", "budget": 100, "donor_budget": 100}
    exploit |= {"time_attr": "num_env_steps_sampled_lifetime", "score": 1.0, "donor_score": 2.0}
    exploit |= {"before": {"lr": 1e-3}, "donor_settings": {"lr": 1e-2}, "after": {"lr": 2e-3}}
    (data.folder / "lineage.jsonl").write_text(json.dumps(exploit) + "\n")
    scheduler = again(trial_command(data, data.sweep.trials[0]))["scheduler"]
    assert scheduler["algorithm"] == "pbt_replay" and scheduler["trial"] == "t0"


def test_commands_name_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sweep_of(tmp_path, SPEC)
    lines = [line for line, _ in sweep_commands(data)]
    assert not any("evaluate" in line or "--retry-errored" in line for line in lines)
    (data.folder / "best").mkdir()
    (data.folder / "trial_t0" / "checkpoint_000001").mkdir()
    (data.folder / "trial_t0" / "checkpoint_000001" / "checkpoint.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    data = ReportData(data.folder)
    assert "tunescape evaluate sweep --episodes 100 --seed 0" in [
        c for c, _ in sweep_commands(data)
    ]
    (_, play) = commands_of(data, data.sweep.trials[0])
    assert play[0].split()[:3] == ["tunescape", "evaluate", "sweep/trial_t0/checkpoint_000001"]


def test_paths_are_as_the_spec_names_its_storage(tmp_path: Path) -> None:
    root = tmp_path / "work" / "runs"
    root.mkdir(parents=True)
    data = sweep_of(root, {**SPEC, "storage": "runs"})
    assert trial_command(data, data.sweep.trials[0]).split()[2] == "runs/sweep/spec.yaml"
