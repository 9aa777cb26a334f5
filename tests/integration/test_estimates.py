"""Off-policy estimates from the guide to the report: objectives of sweeps where nobody plays."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from cheap_sweeps import drawn
from mlflow_client import mlflow_client
from page_blocks import block_with, blocks
from recorded_data import recorded

from analysis import agreement_frame, load_sweep
from experiments import load_spec, make_spec
from experiments.running.runner import run_sweep
from experiments.sweep.sweep import Sweep

GUIDE = "trainables/guides/estimates.md"
FQE, RETURN = "evaluation/ope/fqe/v_target", "evaluation/episode_return_mean"


def sweep(tmp_path: Path, config: dict[str, Any], **keys: Any) -> Sweep:
    quick = {"num_updates": 20, "q_model_config": {"fcnet_hiddens": [8]}}
    data = {
        "name": "chosen",
        "trainable": "IQL",
        "config": {
            "input_": recorded("CartPole-v1"),
            "seed": 1,
            "model": {"fcnet_hiddens": [8]},
            "dataset_num_iters_per_learner": 5,
            "evaluation_interval": 1,
            "off_policy_estimation_methods": {
                "fqe": {"type": "dm", **quick},
                "dr": {"type": "dr", "k": 2, **quick},
            },
            **config,
        },
        "search_space": {"lr": {"loguniform": [1e-4, 1e-2]}},
        "objective": {"metric": FQE, "mode": "max"},
        "stop": {"training_iteration": 2},
        "num_samples": 2,
        "storage": str(tmp_path),
        **keys,
    }
    return Sweep.of(make_spec(data))


@pytest.mark.usefixtures("ray_here")
def test_without_a_simulator(tmp_path: Path) -> None:
    """Optuna searches by the estimate, MLflow has it, and the best policy is exported."""
    made = sweep(tmp_path, {}, search="optuna")
    outcome = run_sweep(made)
    assert outcome.succeeded and not outcome.failures
    values = [trial.last(FQE) for trial in load_sweep(outcome.folder).trials]
    assert len(values) == 2 and all(math.isfinite(value or math.nan) for value in values)
    assert (outcome.folder / "best").is_dir()
    client = mlflow_client(made.tracking_uri)
    found = client.search_runs([e.experiment_id for e in client.search_experiments()])
    reported = {name for run in found for name in run.data.metrics}
    assert {FQE, "evaluation/ope/fqe/v_behavior", "evaluation/ope/dr/low"} <= reported
    assert RETURN not in reported


@pytest.mark.full("test_without_a_simulator")
@pytest.mark.usefixtures("ray_here")
def test_where_there_is_one_the_report_judges_the_estimates(tmp_path: Path) -> None:
    config = {
        "env": "CartPole-v1",
        "evaluation_duration": 2,
        "evaluation_config": {"explore": True},
    }
    with drawn():
        outcome = run_sweep(sweep(tmp_path, config, num_samples=3, mlflow={"enabled": False}))
    assert outcome.succeeded and not outcome.failures
    page = (outcome.folder / "report.html").read_text(encoding="utf-8")
    words = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page))
    assert "How well estimates ranked the trials" in words
    frame = agreement_frame(outcome.folder, FQE)
    assert len(frame) == 3 and 0 <= frame.attrs["relative_regret"] <= 1


@pytest.mark.full("test_without_a_simulator")
def test_the_guides_config_and_estimator(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(block_with(GUIDE, "class ClippedSampling"), names)
    code = block_with(GUIDE, "CQLConfig")
    assert "data/mixed" in code
    exec(code.replace("data/mixed", recorded("CartPole-v1")), names)
    result = names["result"]
    assert math.isfinite(result["evaluation/ope/dr/v_target"])
    assert {f"evaluation/ope/{name}/v_target" for name in ("fqe", "dr", "wis")} <= {*result}


def test_the_guides_spec_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    [text] = blocks(GUIDE, "yaml")
    Path("spec.yaml").write_text(text, encoding="utf-8")
    assert load_spec("spec.yaml").objective.metric == FQE
