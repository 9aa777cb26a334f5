"""The sweeps of a matrix: run one after another, compared, and continued as a whole."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
import yaml
from sweep_dummy import NAME, STEPS
from typed_commands import typed

from experiments.errors import PreflightError
from experiments.running.matrix import resume_matrix, run_matrix
from experiments.running.matrix_state import MATRIX_FILE, Matrix
from experiments.sweep.load import load_specs
from experiments.sweep.sweep import Sweep

TEXT = f"""\
name: study
trainable: {NAME}
config: {{model: {{secret: "$${{env:NAME}}"}}}}
search_space: {{lr: {{grid: [0.01, 0.5]}}}}
search: grid
stop: {{num_env_steps_sampled_lifetime: {3 * STEPS}}}
resources: {{num_cpus: 2}}
matrix:
  fails:
    never: {{}}
    always: {{config: {{fail_at: 1}}, max_failures: 0}}
    late: {{search_space: {{lr: {{grid: [0.02]}}}}}}
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, ray_here: None) -> tuple[Path, Matrix]:
    """A matrix of three sweeps, the second of which fails."""
    folder = tmp_path_factory.mktemp("matrix")
    (folder / "study.yaml").write_text(TEXT)
    specs = load_specs(folder / "study.yaml", [f"storage={folder / 'runs'}"])
    return folder, run_matrix([Sweep.of(spec) for spec in specs])


def comparison(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "runs" / "study" / "comparison.csv").open() as file:
        return {row["sweep"]: row for row in csv.DictReader(file)}


def test_the_others_run_when_one_fails(study: tuple[Path, Matrix]) -> None:
    folder, matrix = study
    assert {name: row.status for name, row in matrix.rows.items()} == {
        "never": "finished",
        "always": "failed",
        "late": "finished",
    }
    assert matrix.any_failed and not matrix.interrupted
    rows = comparison(folder)
    assert float(rows["never"]["value"]) == 3.0  # lr = 0.01 is the best there is
    assert float(rows["late"]["value"]) == pytest.approx(3 * 0.99)
    assert "fails as asked" in rows["always"]["note"]
    assert rows["never"]["trials"] == "2" and rows["never"]["env_steps"] == str(3 * STEPS)
    # One tracking database for all of them, beside the group's folder.
    assert (folder / "runs" / "mlflow.db").is_file()
    assert not (folder / "runs" / "study" / "mlflow.db").exists()


def test_a_matrix_is_never_overwritten(study: tuple[Path, Matrix]) -> None:
    _, matrix = study
    with pytest.raises(PreflightError, match=r"tunescape resume .*runs/study`"):
        run_matrix([Sweep.of(spec) for spec in matrix.specs.values()])


def test_resume_runs_what_is_left(study: tuple[Path, Matrix]) -> None:
    """As after a kill in the third sweep before it had a result, and the folder moved."""
    folder, _ = study
    moved = folder / "elsewhere" / "renamed"
    shutil.copytree(folder / "runs" / "study", moved)
    state = yaml.safe_load((moved / MATRIX_FILE).read_text())
    late = state["sweeps"]["late"]
    late["row"]["status"] = "waiting"
    late["spec"]["mlflow"]["enabled"] = False  # a second database would only cost time
    (moved / MATRIX_FILE).write_text(yaml.safe_dump(state, sort_keys=False))
    shutil.rmtree(moved / "late")
    (moved / "late").mkdir()
    before = {file: file.stat().st_mtime_ns for file in moved.glob("*/*/result.json")}
    matrix = resume_matrix(moved)
    assert matrix.rows["late"].status == "finished" and matrix.rows["late"].value is not None
    assert matrix.rows["always"].status == "failed"
    assert len(list((moved / "late").glob("*/result.json"))) == 1
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert matrix.specs["late"].config["model"] == {"secret": "${env:NAME}"}
    assert resume_matrix(moved).rows == matrix.rows  # nothing is left to do


def test_the_command_line(
    study: tuple[Path, Matrix], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = study
    run = typed(monkeypatch, capsys)
    status, output, _ = run("run", str(folder / "study.yaml"), "--dry-run")
    assert status == 0
    assert "# 3 sweeps" in output and "study/late: 1 trials of" in output
    status, output, _ = run("resume", str(folder / "runs" / "study"))
    assert status == 1  # one of them has failed
    assert "--retry-errored" in output and "fails as asked" in output
