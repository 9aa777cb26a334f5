"""`tunescape export` and `export_best` in every format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from analysis_sweeps import add_checkpoint, make_sweep, row
from page_blocks import block_with
from refusals import Golden, refusals
from typer.testing import CliRunner

from analysis import ResultsError, export_best
from analysis.results.records import POLICY
from experiments.cli import app
from experiments.commands.export import export_policy
from experiments.errors import ExperimentError
from trainables.core.export.exported_policy import load_player
from trainables.core.export.onnx_program import export_onnx
from trainables.core.policy.policy import Policy

TRUST = ["torch.export"]
OBS = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


def policy_of(seed: int, **metadata: Any) -> Policy:
    space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    model = {"fcnet_hiddens": [8]}
    return Policy(space, gym.spaces.Discrete(2), model, seed=seed, metadata=metadata)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two trials; the checkpoints of the better one, t1, are of the seeds 10 and 11."""
    trials = {
        "t0": {"rows": [row(1, 5.0)]},
        "t1": {"rows": [row(1, 30.0), row(2, 20.0)]},
    }
    folder = make_sweep(tmp_path, trials)
    for trial, index, seed in (("t0", 0, 9), ("t1", 0, 10), ("t1", 1, 11)):
        place = add_checkpoint(folder, trial, index, iteration=index + 1) / POLICY
        shutil.rmtree(place)
        policy_of(seed, env="CartPole-v1", env_config={}).save(place)
    spec = {
        "name": "sweep",
        "trainable": "PPO",
        "config": {"env": "CartPole-v1"},
        "objective": {"metric": "episode_return_mean", "mode": "max"},
        "stop": {"training_iteration": 2},
    }
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    return folder


def actions_of(folder: Path) -> list[int]:
    found = load_player(folder, trust=TRUST).compute_actions(OBS, explore=False)
    return [int(action) for action in found]


def expected(seed: int) -> list[int]:
    return [int(action) for action in policy_of(seed).compute_actions(OBS, explore=False)]


@pytest.mark.parametrize("form", ["policy", "torch", "onnx"])
def test_every_format_holds_the_best_policy(sweep: Path, tmp_path: Path, form: str) -> None:
    assert expected(10) != expected(11) and expected(10) != expected(9)
    done = CliRunner().invoke(app, ["export", str(sweep), "--format", form])
    assert done.exit_code == 0, done.output
    out = sweep / ("best" if form == "policy" else f"best-{form}")
    assert f"Exported to {out}" in done.output
    assert actions_of(out) == expected(10)
    said = json.loads((out / "export.json").read_text())
    assert (said["trial_id"], said["value"]) == ("t1", 30.0)
    if form != "policy":
        assert "acts as the policy does" in done.output
        assert "1000 of CartPole-v1" in done.output
        assert load_player(out, trust=TRUST).metadata == {"env": "CartPole-v1", "env_config": {}}


def test_python_exports_as_the_command_does(sweep: Path, tmp_path: Path) -> None:
    out = export_policy(sweep)
    again = export_best(sweep, tmp_path / "python")
    assert actions_of(again) == expected(10)
    assert sorted(p.name for p in again.iterdir()) == sorted(p.name for p in out.iterdir())


def test_a_model_for_mlflow(sweep: Path, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    out = export_policy(sweep, tmp_path / "model", format="mlflow")
    model = mlflow.pyfunc.load_model(str(out))
    assert model.predict(OBS).tolist() == expected(10)
    assert export_policy(sweep, out, format="mlflow") == out  # is replaced


def test_other_checkpoints_and_policies(sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cases: list[tuple[Path, dict[str, Any], int]] = [
        (sweep, {"checkpoint": Path("trial_t0/checkpoint_000000")}, 9),
        (sweep, {"mode": "min"}, 9),
        (sweep / "trial_t1" / "checkpoint_000001", {}, 11),
        (sweep / "trial_t1", {}, 10),
    ]
    for folder, options, seed in cases:
        export_policy(folder, out, **options)
        assert actions_of(out) == expected(seed)
    said = json.loads((out / "export.json").read_text())
    assert said["checkpoint"] == "trial_t1/checkpoint_000000"
    assert said["chosen"].startswith("the trial's best checkpoint checkpoint_000000")
    graph = export_policy(out, tmp_path / "graph", format="torch")
    assert actions_of(graph) == expected(10)
    assert json.loads((graph / "export.json").read_text()) == said  # from where it was exported


BAD_OPTIONS: list[dict[str, Any]] = [
    {"format": "onx"},
    {"format": "torch", "opset": 18},
    {"opset": 18},
    {"format": "onnx", "opset": 11},
    {"checkpoint": Path("trial_t1/checkpoint_7")},
    {"checkpoint": Path("x"), "mode": "min"},
    {"format": "mlflow", "trust": ["a:b"]},
]


def test_bad_options(sweep: Path, tmp_path: Path, golden: Golden) -> None:
    def export(options: dict[str, Any]) -> None:
        export_policy(sweep, tmp_path / "out", **options)

    errors = (ExperimentError, ResultsError, ValueError)
    texts = refusals(export, BAD_OPTIONS, *errors, replace={str(tmp_path): "<folder>"})
    golden("sweeps/export_options", texts)
    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_is_no_sweep_needs_a_place_and_has_no_best(sweep: Path, tmp_path: Path) -> None:
    policy = policy_of(1).save(tmp_path / "policy")
    with pytest.raises(ExperimentError, match="name a folder for its policy with -o"):
        export_policy(policy)
    with pytest.raises(ExperimentError, match="is no sweep: --metric, --mode and --checkpoint"):
        export_policy(policy, tmp_path / "out", metric="episode_return_mean")
    graph = export_policy(policy, tmp_path / "graph", format="torch")
    with pytest.raises(ExperimentError, match="is a graph already"):
        export_policy(graph, tmp_path / "out", format="onnx")


def test_an_environment_that_is_not_to_be_imported(sweep: Path, tmp_path: Path) -> None:
    policy = policy_of(1, env="tests.nowhere:Env").save(tmp_path / "policy")
    with pytest.warns(UserWarning, match=r"not on those of 'tests.nowhere:Env': .*code that"):
        export_policy(policy, tmp_path / "out", format="torch")
    assert actions_of(tmp_path / "out") == expected(1)


def test_what_is_there_already_is_left_alone(sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ResultsError, match="left alone"):
        export_policy(sweep, tmp_path / "mine", format="torch")


@pytest.mark.full("test_every_format_holds_the_best_policy")
def test_the_readmes_example_runs(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = block_with("analysis/README.md", "import onnxruntime")
    export_best(sweep, tmp_path / "policy_onnx", format="onnx")
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(example, found)
    expected_of = policy_of(10).compute_actions(np.zeros((5, 4), np.float32), explore=False)
    assert found["actions"].tolist() == expected_of.tolist() and found["state"] == {}
    space, model = policy_of(10).observation_space, {"use_lstm": True, "lstm_cell_size": 4}
    recurrent = Policy(space, gym.spaces.Discrete(2), model, seed=0)
    shutil.rmtree("policy_onnx")
    export_onnx(recurrent, "policy_onnx")
    exec(example, found)
    after = recurrent.compute_actions(np.zeros((5, 4), np.float32), full_fetch=True).state
    assert {name: part.shape for name, part in found["state"].items()} == {
        f"state/{name}": part.shape for name, part in after.items()
    }


def test_the_policy_of_another_sweep_is_spared(sweep: Path, tmp_path: Path) -> None:
    out = export_policy(sweep, tmp_path / "out")
    other = tmp_path / "moved" / "other"
    shutil.copytree(sweep, other)
    assert export_policy(sweep, out, mode="min") == out  # of the same sweep it is replaced
    for source in (other, other / "trial_t1/checkpoint_000000"):
        with pytest.raises(ExperimentError, match=r"sweep 'sweep' is there already; .*--overwrite"):
            export_policy(source, out)
    assert json.loads((out / "export.json").read_text())["sweep"] == "sweep"
    assert actions_of(out) == expected(9)
    done = CliRunner().invoke(app, ["export", str(other), "-o", str(out), "--overwrite"])
    assert done.exit_code == 0 and actions_of(out) == expected(10)
    assert json.loads((out / "export.json").read_text())["sweep"] == "other"
