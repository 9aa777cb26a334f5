"""One file, several sweeps: what each combination of a matrix is, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import Golden, refusals

from experiments.commands.results.tracking_ui import store_of
from experiments.errors import SweepError
from experiments.running.matrix_state import Matrix, Row, load_matrix, save_matrix
from experiments.sweep.load import dump_spec, load_spec, load_specs, make_spec
from search_spaces.documents import SpecError

BASE = """\
name: study
trainable: sweep_dummy:Dummy
config: {gamma: 0.9, model: {a: 1, b: 2}}
search_space: {lr: {loguniform: [1e-4, 1e-1]}}
search: {algorithm: tpe, n_startup_trials: 3}
stop: {num_env_steps_sampled_lifetime: 1000}
num_samples: 4
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return path


def test_combinations_and_their_names(tmp_path: Path) -> None:
    text = """\
name: study
stop: {num_env_steps_sampled_lifetime: 1000}
matrix: {env: [CartPole-v1, Acrobot-v1], trainable: [PPO, DQN], config.lr: [1e-3, 0.5]}
"""
    specs = load_specs(write(tmp_path, text))
    assert [spec.name for spec in specs][:3] == [
        "study/CartPole-v1-PPO-lr_0.001",
        "study/CartPole-v1-PPO-lr_0.5",
        "study/CartPole-v1-DQN-lr_0.001",
    ]
    assert len(specs) == 8
    assert [(s.config["env"], s.trainable, s.config["lr"]) for s in specs][-1] == (
        "Acrobot-v1",
        "DQN",
        0.5,
    )
    assert load_spec(write(tmp_path, dump_spec(specs[3]))) == specs[3]  # the sweep's spec.yaml


def test_values_are_merged_like_a_file_that_extends(tmp_path: Path) -> None:
    text = f"""{BASE}
matrix:
  search: [random, {{algorithm: tpe, n_ei_candidates: 9}}]
  size:
    small: {{config: {{model: {{a: 0}}}}, num_samples: 2}}
    free: {{config: {{model: null}}}}
  exclude: [{{search: random, size: free}}]
"""
    specs = load_specs(write(tmp_path, text))
    assert [spec.name for spec in specs] == [
        "study/random-small",
        "study/tpe-small",
        "study/tpe-free",
    ]
    assert specs[0].search.algorithm == "random"
    assert specs[1].search.model_dump()["n_startup_trials"] == 3
    assert specs[1].search.model_dump()["n_ei_candidates"] == 9
    assert specs[0].config["model"] == {"a": 0, "b": 2}
    assert "model" not in specs[2].config
    assert [spec.num_samples for spec in specs] == [2, 2, 4]


def test_a_spec_without_a_matrix_is_one_sweep(tmp_path: Path) -> None:
    (spec,) = load_specs(write(tmp_path, BASE), ["seed=3"])
    assert (spec.name, spec.seed) == ("study", 3)


def test_names_stay_apart(tmp_path: Path) -> None:
    specs = load_specs(write(tmp_path, f"{BASE}matrix: {{config.model: [{{a: x}}, {{a: y}}]}}\n"))
    assert [spec.name for spec in specs] == ["study/model_1", "study/model_2"]
    same = load_specs(write(tmp_path, f"{BASE}matrix: {{mlflow.experiment_name: [a b, a-b]}}\n"))
    assert len({spec.name for spec in same}) == 2


def test_one_sweep_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, BASE + "matrix: {seed: [1, 2]}\n")
    with pytest.raises(SpecError, match=r"study.yaml:8: a matrix is several sweeps: .*load_specs"):
        load_spec(path)
    with pytest.raises(SpecError, match="load_specs"):
        make_spec({"name": "x", "matrix": {"seed": [1]}})


BAD: list[tuple[str, tuple[str, ...]]] = [
    ("[1]", ()),
    ("{}", ()),
    ("{sed: [1]}", ()),
    ("{exclud: [1]}", ()),
    ("{seed: 3}", ()),
    ("{seed: [3, 3]}", ()),
    ("{storage: [a, b]}", ()),
    ("{v: {a: {name: x}}}", ()),
    ("{v: {a: 3}}", ()),
    ("{seed: [1], exclude: [{seed: 1}]}", ()),
    ("{seed: [1], exclude: [{sed: 1}]}", ()),
    ("{seed: [1], exclude: [{seed: 2}]}", ()),
    ("{seed: [1]}", ("seed=4",)),
    ("{config.lr: [1]}", ("config={}",)),
    ("{seed: [1]}", ("matrix.seed=[-1]",)),
    ("\n  seed: [1]\n  config.num_epochs:\n    - 2\n    - 3\n", ()),
    ("{v: {a: {config: {gama: 1}}}}", ()),
]


def test_bad_matrices(tmp_path: Path, golden: Golden) -> None:
    def read(matrix: str, overrides: tuple[str, ...]) -> None:
        load_specs(write(tmp_path, f"{BASE}matrix: {matrix}\n"), overrides)

    golden("sweeps/matrices", refusals(read, BAD, SpecError, replace={str(tmp_path): "<folder>"}))


def test_the_folder_of_a_matrix(tmp_path: Path) -> None:
    """What a kill leaves is read back, wherever the folder is then; its tracking is the group's."""
    specs = load_specs(write(tmp_path, BASE + "matrix: {seed: [1, 2]}\n"))
    folder = tmp_path / "runs" / "moved"
    folder.mkdir(parents=True)
    rows = {
        "seed_1": Row(status="finished", value=2.5, measure="last value", note="a: b"),
        "seed_2": Row(),
    }
    matrix = Matrix(folder, dict(zip(rows, specs, strict=True)), rows)
    save_matrix(matrix)
    again = load_matrix(folder)
    assert again.rows == rows
    assert [spec.seed for spec in again.specs.values()] == [1, 2]
    assert again.specs["seed_2"].name == "moved/seed_2"
    assert again.specs["seed_2"].storage == str(tmp_path / "runs")
    (tmp_path / "runs" / "mlflow.db").touch()
    assert store_of(folder) == f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}"
    (folder / "matrix.yaml").write_text("sweeps: {a: 1}\n")
    with pytest.raises(SweepError, match="cannot be read"):
        load_matrix(folder)
