"""An exported MLflow model: served by MLflow, without this project, it acts as its policy."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from dreamers import dreamer_policy
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from experiments.tracking.model import export_mlflow
from trainables import Policy
from trainables.core.checkpoint import CheckpointError
from trainables.core.data.spaces import PLAIN, leaves_of
from trainables.core.export.serving import example_inputs, serve

VECTOR = Box(-1, 1, (4,), np.float32)
MASKED = Dict({"obs": Box(-1, 1, (3,), np.float32), "action_mask": MultiBinary(4)})
NESTED = Dict(
    {
        "camera": Box(0, 255, (7, 7, 3), np.uint8),
        "at": Dict({"x": Discrete(5, start=-2), "v": Box(-1, 1, (2,), np.float64)}),
        "action_mask": Box(0, 1, (4,), np.int8),
    }
)
IMAGES = Box(0, 255, (12, 12, 1), np.uint8)
FILTERS = {"conv_filters": [[4, [3, 3], 2]], "frame_stack": 3}
LSTM = {"use_lstm": True, "lstm_cell_size": 4}
AIM = Dict({"go": Discrete(3), "push": Tuple([Box(-2, 2, (2,), np.float32)])})


def _policy(space: gym.Space, actions: gym.Space, model: dict[str, Any]) -> Policy:
    model = dict(model)
    frames = model.pop("frame_stack", 1)
    return Policy(space, actions, model, seed=0, frame_stack=frames)


def _exported(policy: Policy, tmp_path: Path) -> Path:
    return export_mlflow(policy.save(tmp_path / "policy"), tmp_path / "model")


def _rows(policy: Policy, count: int) -> Any:
    """Inputs of `count` rows: an array, or arrays by name."""
    policy.observation_space.seed(3)
    trees = [policy.observation_space.sample() for _ in range(count)]
    leaves = [leaves_of(policy.observation_space, tree) for tree in trees]
    named = {key: np.stack([np.asarray(leaf[key]) for leaf in leaves]) for key in leaves[0]}
    if "action_mask" in named:
        named["action_mask"][:, 1] = 1  # something is always allowed
    state = policy.initial_state(count)
    if set(named) == {PLAIN} and not state:
        return named[PLAIN]
    if state:  # with the action before, of a policy that looks at it
        example: Any = example_inputs(policy)
        begin = {name: part for name, part in example.items() if name.startswith("state/")}
        named |= {name: part.repeat(count, 0) for name, part in begin.items()}
    return {"obs" if key == PLAIN else key: value for key, value in named.items()}


@pytest.mark.parametrize(
    ("space", "actions", "model"),
    [
        (VECTOR, Discrete(3), {}),
        (VECTOR, Box(-2, 2, (2,), np.float32), LSTM),
        (Box(-np.inf, np.inf, (), np.float64), MultiDiscrete([3, 2]), {}),
        (Discrete(5, start=-2), MultiBinary(2), {}),
        (MultiBinary(4), AIM, {}),
        (MASKED, Discrete(4), LSTM),
        (NESTED, Discrete(4), {}),
        (IMAGES, Discrete(4), FILTERS),
        (Tuple([VECTOR, Discrete(3)]), Discrete(2), {}),
    ],
    ids=["vector", "lstm", "scalar", "one", "bits", "masked-lstm", "nested", "stacked", "tuple"],
)
def test_the_server_answers_json_as_the_policy_acts(
    space: gym.Space, actions: gym.Space, model: dict[str, Any], tmp_path: Path
) -> None:
    from mlflow import pyfunc
    from mlflow.pyfunc.scoring_server import invocations

    policy = _policy(space, actions, model)
    served = pyfunc.load_model(str(_exported(policy, tmp_path)))
    rows = _rows(policy, 3)
    expected = serve(policy, rows)
    if isinstance(rows, dict):
        columns: Any = {name: part.tolist() for name, part in rows.items()}
        records = [{name: part[i].tolist() for name, part in rows.items()} for i in range(3)]
    else:
        columns = records = rows.tolist()
    for body in ({"inputs": columns}, {"instances": records}):
        answer = invocations(
            json.dumps(body), "application/json", served, served.metadata.get_input_schema()
        )
        assert answer.status == 200, answer.response
        _assert_equal(json.loads(answer.response)["predictions"], expected)
    _assert_equal(served.predict(rows), expected)


def _assert_equal(got: Any, expected: Any) -> None:
    if not isinstance(expected, dict):
        got, expected = {"": got}, {"": expected}
    assert set(got) == set(expected)
    for name, part in expected.items():
        assert np.shape(got[name]) == part.shape
        np.testing.assert_allclose(got[name], part, rtol=1e-6, atol=1e-7, err_msg=name)


def test_what_is_exported_names_no_machine_and_holds_no_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow.models
    from mlflow.utils import requirements_utils

    # The installed versions are not compared with themselves.
    monkeypatch.delattr(requirements_utils, "_check_requirement_satisfied")
    monkeypatch.setattr(requirements_utils._logger, "warning", pytest.fail)

    policy = Policy(VECTOR, Discrete(3), seed=0)
    folder = policy.save(tmp_path / "policy")
    said = {"sweep": "quick", "value": 500.0, "config": {"lr": 1e-3}}
    (folder / "export.json").write_text(json.dumps(said))
    model = export_mlflow(folder, tmp_path / "model")
    files = [path for path in model.rglob("*") if path.is_file()]
    assert not [p.name for p in files if p.suffix in {".pkl", ".pickle", ".pt", ".pyc"}]
    texts = [path.read_bytes() for path in files]
    for place in (tmp_path, Path(__file__).parents[2]):
        assert not any(str(place).encode() in text for text in texts)
    assert "+" not in (model / "requirements.txt").read_text()  # torch==2.13.0+cpu resolves nowhere
    assert mlflow.models.Model.load(str(model)).metadata == said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "policy"]


def test_a_damaged_policy_is_not_exported(tmp_path: Path) -> None:
    folder = Policy(VECTOR, Discrete(3), seed=0).save(tmp_path / "policy")
    (folder / "policy.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"policy"):
        export_mlflow(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()


# As on a machine that has the model's requirements only: MLflow's own command, twice.
_ELSEWHERE = """
import importlib.util, sys
from pathlib import Path
model, first, second = sys.argv[1:]
sys.path[:] = [p for p in sys.path if not (Path(p or ".") / "trainables").is_dir()]
sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in getattr(f, "__module__", "")]
sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in getattr(f, "__name__", "")]
for name in ("ray", "experiments", "analysis", "search_spaces"):
    sys.modules[name] = None
assert importlib.util.find_spec("trainables") is None
from mlflow.cli import cli
for given, out in ((first, first + ".out"), (second, second + ".out")):
    if given == second:  # the state goes back in
        import json
        inputs = json.loads(Path(given).read_text())["inputs"]
        outputs = json.loads(Path(first + ".out").read_text())["predictions"]
        inputs |= {name: part for name, part in outputs.items() if name.startswith("state/")}
        Path(given).write_text(json.dumps({"inputs": inputs}))
    command = ["models", "predict", "-m", model, "-i", given, "-o", out]
    cli([*command, "--env-manager", "local"], standalone_mode=False)
import trainables
assert Path(trainables.__file__).is_relative_to(model), trainables.__file__
"""


@pytest.mark.full("test_the_server_answers_json_as_the_policy_acts")
@pytest.mark.parametrize("kind", ["lstm", "world model"])
def test_mlflows_command_runs_it_without_this_project(kind: str, tmp_path: Path) -> None:
    if kind == "lstm":
        policy = _policy(MASKED, Discrete(4), LSTM)
    else:
        policy = dreamer_policy(MASKED, Discrete(4))
    model = _exported(policy, tmp_path)
    inputs = _rows(policy, 2)
    files = [tmp_path / "first.json", tmp_path / "second.json"]
    for file in files:
        file.write_text(json.dumps({"inputs": {k: v.tolist() for k, v in inputs.items()}}))
    done = subprocess.run(
        [sys.executable, "-I", "-c", _ELSEWHERE, str(model), *map(str, files)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "Add type hints" not in done.stderr
    expected = serve(policy, inputs)
    for file in files:
        _assert_equal(json.loads(Path(f"{file}.out").read_text())["predictions"], expected)
        state = {name: part for name, part in expected.items() if name.startswith("state/")}
        expected = serve(policy, inputs | state)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # a loaded model puts its code there
    logging.getLogger("mlflow").setLevel(logging.ERROR)
