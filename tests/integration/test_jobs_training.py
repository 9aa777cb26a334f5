"""Pages of first-day jobs run block by block in an empty folder, with smaller budgets."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from page_blocks import every_block, text_of, write_files
from page_commands import follow, run_python
from ray import tune
from ray.scripts.scripts import start as ray_start
from small_ray import small_cluster

from analysis import load_sweep
from experiments.cluster.session import sweep_environment
from experiments.sweep.env_checks import problem_of
from experiments.sweep.load import load_specs

JOBS = "docs/jobs"
ENVIRONMENT = f"{JOBS}/own_environment.md"
CODE = f"{JOBS}/own_code.md"
SB3S_MODEL = "## A Stable-Baselines3 model"
CLUSTER = f"{JOBS}/three_machines.md"
ALGORITHM = f"{JOBS}/own_algorithm.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of a user whose own sweeps are known, and may be imported from."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield tmp_path
    for name in set(sys.modules) - before:
        if (tmp_path / f"{name}.py").is_file():
            del sys.modules[name]


# ------------------------------------------------------------------ what each page promises


def test_the_environments_spec_and_the_message_of_its_mistake(folder: Path) -> None:
    write_files(ENVIRONMENT, folder)
    [spec] = load_specs("tank.yaml")
    assert problem_of(spec.config) is None
    source = (folder / "water_tank.py").read_text(encoding="utf-8")
    wrong = source.replace("self.demand], np.float32)", "self.demand])")
    assert wrong != source
    (folder / "bad_tank.py").write_text(wrong, encoding="utf-8")
    said = problem_of({**spec.config, "env": "bad_tank:WaterTank"})
    assert said is not None
    [shown] = [block for block in every_block(ENVIRONMENT) if block.language == "text"]
    assert said.replace("bad_tank", "water_tank") in " ".join(shown.code.split())


def test_the_script_reports_and_continues(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(CODE, folder)
    [spec] = load_specs("script.yaml")
    script = importlib.import_module("my_script")
    reported: list[dict[str, Any]] = []

    def report(metrics: dict[str, Any], checkpoint: tune.Checkpoint) -> None:
        state = torch.load(Path(checkpoint.path, "state.pt"), weights_only=True)
        reported.append(state)
        assert metrics["num_env_steps_sampled_lifetime"] == state["steps"]
        assert 8 <= metrics["episode_return_mean"] <= 500

    monkeypatch.setattr(script.tune, "report", report)
    monkeypatch.setattr(script.tune, "get_checkpoint", lambda: None)
    searched = {"learning_rate": 0.01, "gamma": 0.99, "hidden": 8}
    assert searched.keys() == spec.search_space.keys()
    script.train({**spec.config, **searched, "total_timesteps": 500})
    last = reported[-1]
    assert last["steps"] >= 500
    torch.save(last, folder / "state.pt")
    saved = tune.Checkpoint.from_directory(str(folder))
    monkeypatch.setattr(script.tune, "get_checkpoint", lambda: saved)
    reported.clear()
    script.train({**spec.config, **searched, "total_timesteps": last["steps"] + 1})
    [again] = reported
    assert again["steps"] > last["steps"]
    moments = again["optimizer"]["state"][0]
    assert moments["step"] == last["optimizer"]["state"][0]["step"] + 1


def test_the_clusters_commands_are_read_and_moved_trials_shown(folder: Path) -> None:
    write_files(CLUSTER, folder, {"/mnt/shared": str(folder)})
    [spec] = load_specs("three.yaml")
    assert spec.checkpoint.frequency and spec.max_failures > 1
    starts = [
        line.split() for line in text_of(CLUSTER).splitlines() if line.startswith("ray start ")
    ]
    head, other = (ray_start.make_context("start", words[2:]).params for words in starts)
    assert head["head"] and f"{head['node_ip_address']}:{head['port']}" == other["address"]
    trial = folder / "runs" / "three" / "trial_1"
    trial.mkdir(parents=True)
    rows = [{"hostname": host, "node_ip": "10.0.0.3"} for host in ("three", "three", "two")]
    (trial / "result.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    said = " ".join(run_python(["where.py"], folder).split())
    assert said == "trial_1 3 results: three (10.0.0.3) -> two (10.0.0.3)"


def test_the_algorithm_is_short_and_its_loss_is_the_papers(folder: Path) -> None:
    write_files(ALGORITHM, folder)
    assert len((folder / "my_awr.py").read_text(encoding="utf-8").splitlines()) <= 60
    module = importlib.import_module("my_awr")
    small = {"train_batch_size_per_learner": 64, "minibatch_size": 32, "num_epochs": 1}
    config = module.AWRConfig(module.AWR).environment("CartPole-v1").update_from_dict(small)
    with config.reporting(min_sample_timesteps_per_iteration=0).build() as algo:
        assert math.isfinite(algo.train()["learner/default_policy/vf_loss"])
        policy = algo.get_policy()
    batch = {
        "features": torch.zeros(2, 4),
        "actions": torch.tensor([0, 1]),
        "advantages": torch.tensor([math.log(2.0), 100.0]),
        "value_targets": torch.zeros(2),
    }
    _, metrics = module.awr_loss(policy.distribution, 1.0, 20.0, policy.module, batch)
    left, right = policy.module.dist_inputs(torch.zeros(1, 4)).log_softmax(1)[0].tolist()
    assert metrics["policy_loss"].item() == pytest.approx(-(2 * left + 20 * right) / 2, rel=1e-4)
    [spec] = load_specs("awr.yaml")
    assert set(spec.search_space) <= set(config.to_dict())
    assert [spec.trainable for spec in load_specs("check.yaml")] == ["PPO", "my_awr:AWR"]


# ------------------------------------------------------------------ each page as a whole


@pytest.mark.full("test_the_environments_spec_and_the_message_of_its_mistake")
def test_the_page_of_an_environment(folder: Path) -> None:
    smaller = {
        "30000}": "2048}",
        "num_samples: 12": "num_samples: 2",
        "{top: 2, seeds: 5}": "{top: 1, seeds: 2}",
        "--episodes 50": "--episodes 5",
    }
    said = "".join(follow(ENVIRONMENT, folder, smaller).values())
    assert "all 2 trials" in said and "Return" in said
    assert said.splitlines()[-1] in ("0", "1", "2")
    assert (folder / "runs" / "tank" / "best" / "policy.json").is_file()


@pytest.mark.full("test_the_script_reports_and_continues")
def test_the_page_of_a_script(folder: Path) -> None:
    smaller = {"30000": "1000", "num_samples: 8": "num_samples: 2", "4000}": "500}"}
    said = "".join(follow(CODE, folder, smaller, end=SB3S_MODEL).values())
    assert "all 2 trials" in said and "optimizer" not in said.splitlines()[-1]
    assert all(trial.status == "TERMINATED" for trial in load_sweep("runs/script").trials)


@pytest.mark.full("test_the_script_reports_and_continues")
def test_the_page_of_a_model_of_stable_baselines(folder: Path) -> None:
    pytest.importorskip("stable_baselines3")
    smaller = {"30000": "2048", "num_samples: 8": "num_samples: 2", "6000}": "1024}"}
    said = "".join(follow(CODE, folder, smaller, start=SB3S_MODEL).values())
    assert "all 2 trials" in said
    [spec] = load_specs("sb3.yaml", ["name=again"])
    config = {**spec.config, "learning_rate": 1e-3, "n_epochs": 1}
    model = importlib.import_module("sb3_ppo").SB3PPO
    first, second = model(config), model({**config, "seed": 1})
    first.train()
    second.restore(first.save(str(folder / "saved")))
    one, other = (algo.model.get_parameters()["policy"] for algo in (first, second))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert second.train()["num_env_steps_sampled_lifetime"] == 2 * 1024


@pytest.mark.full("test_the_clusters_commands_are_read_and_moved_trials_shown")
def test_the_page_of_a_cluster(folder: Path) -> None:
    """The environment is a module in the shared folder, where no node was started."""
    write_files(ENVIRONMENT, folder)
    with sweep_environment(), small_cluster({"num_cpus": 1}, {"num_cpus": 1}, num_cpus=1) as made:
        smaller = {
            "10.0.0.1:6379": made.address,
            "/mnt/shared": str(folder),
            "CartPole-v1": "water_tank:WaterTank",
            "100000": "4096",
            "num_samples: 48": "num_samples: 3",
        }
        said = "".join(follow(CLUSTER, folder, smaller).values())
    assert "all 3 trials" in said
    assert said.count("results:") == 3
    assert (folder / "runs" / "three" / "report.html").is_file()


@pytest.mark.full("test_the_algorithm_is_short_and_its_loss_is_the_papers")
def test_the_page_of_an_algorithm(folder: Path) -> None:
    smaller = {
        "40000}": "2048}",
        "num_samples: 12": "num_samples: 2",
        "[101, 102, 103, 104, 105]": "[101, 102]",
    }
    said = "".join(follow(ALGORITHM, folder, smaller).values())
    returns = [int(line.split()[1]) for line in said.splitlines()[:10]]
    assert returns[0] < 40 and returns[-1] > 100
    assert "all 2 trials" in said and (folder / "comparison.png").is_file()
