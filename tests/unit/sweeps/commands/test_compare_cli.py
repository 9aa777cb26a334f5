"""`tunescape compare`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from analysis_sweeps import make_runs, make_sweep

from analysis.comparison import comparison
from analysis.errors import ResultsError
from experiments import cli
from experiments.commands.compare import compare_folders

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose number nothing here depends on."""
    monkeypatch.setattr(comparison, "compare", partial(comparison.compare, resamples=300))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two grids over seed, which the commands name by their folders."""
    monkeypatch.chdir(tmp_path)
    for name, level in (("good", 100.0), ("poor", 50.0)):
        make_runs(tmp_path, name, [[level / 2, level + seed] for seed in range(6)])
    return tmp_path


def tunescape(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit status of a command."""
    monkeypatch.setattr("sys.argv", ["tunescape", *arguments])
    with pytest.raises(SystemExit) as done:
        cli.main()
    return int(done.value.code or 0)


def test_table_and_verdict(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert tunescape(monkeypatch, "compare", "A=good", "poor", "--threshold", "60") == 0
    output = capsys.readouterr().out
    assert "A is better than poor: P(improvement) 1.00 [1.00, 1.00], p = 0.00" in output
    assert "episode_return_mean (higher is better) at 200 environment steps" in output
    assert "102.5 [" in output and "never" in output and "100 %" in output
    assert "Caution: Intervals of 6 seeds are too narrow" in output


def test_markdown_and_json(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert tunescape(monkeypatch, "compare", "good", "poor", "--as", "markdown") == 0
    output = capsys.readouterr().out
    assert output.startswith("## good, poor: episode_return_mean\n\n| algorithm | runs |")
    assert "- **good is better than poor" in output
    assert tunescape(monkeypatch, "compare", "good", "poor", "--as", "json") == 0

    def strict(constant: str) -> None:
        raise AssertionError(constant)

    document = json.loads(capsys.readouterr().out, parse_constant=strict)
    assert document["verdict"][0].startswith("good is better than poor")
    assert document["budget"] == 200 and len(document["runs"]) == 12
    assert document["curves"][0]["iqm"] is None  # before the first report


def test_files(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    endings = ("png", "pdf", "csv", "json", "md")
    files = [word for ending in endings for word in ("-o", f"out/c.{ending}")]
    assert tunescape(monkeypatch, "compare", "good", "poor", "--budget", "150", *files) == 0
    said = capsys.readouterr()
    for name in ("c.png", "c.pdf", "c.csv", "c-pairs.csv", "c-runs.csv", "c.json", "c.md"):
        assert (runs / "out" / name).stat().st_size > 100
        assert f"Wrote out/{name}" in said.err
    with (runs / "out/c-runs.csv").open() as file:
        values = [float(row["value"]) for row in csv.DictReader(file)]
    # Half-way from 50 at 100 steps to 100, 101 … at 200; from 25 to 50, 51 ….
    assert values == [level + seed / 2 for level in (75, 37.5) for seed in range(6)]
    assert (runs / "out/c.png").read_bytes().startswith(b"\x89PNG")


def test_the_objective_is_the_sweeps(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def say(name: str, mode: str) -> None:
        objective = {"metric": "episode_return_mean", "mode": mode}
        spec = {"trainable": "PPO", "name": name, "config": {"env": "CartPole-v1"}}
        spec |= {"objective": objective, "stop": {"training_iteration": 2}}
        (runs / name / "spec.yaml").write_text(yaml.safe_dump(spec))

    say("good", "min"), say("poor", "min")
    assert tunescape(monkeypatch, "compare", "good", "poor") == 0
    assert "poor is better than good" in capsys.readouterr().out
    say("poor", "max")
    assert tunescape(monkeypatch, "compare", "good", "poor") == 2
    assert "different objectives" in capsys.readouterr().err
    assert tunescape(monkeypatch, "compare", "good", "poor", "--mode", "max") == 2
    capsys.readouterr()
    options = ("--mode", "max", "--metric", "episode_reward_mean")
    assert tunescape(monkeypatch, "compare", "good", "poor", *options) == 0
    assert "good is better than poor" in capsys.readouterr().out


MISTAKES = [
    (["good"], "two or more, not 1 (good)"),
    (["good", "por"], "did you mean 'poor'"),
    (["good", "poor", "--as", "tabel"], "allowed: table, markdown, json"),
    (["good", "poor", "-o", "c.gif"], "allowed endings: .png"),
    (["none", "poor", "-o", "/dev/null/c.md"], "cannot be written (Not a directory)"),
    (["good", "poor", "--budget", "900"], "ended at 200"),
    (["good", "poor", "--unit", "luck"], "unit must be one of"),
    (["good", "poor", "--by", "episode_return_mean"], "counted in one of"),
    (["good", "poor", "--metric", "episode_return"], "episode_return_mean"),
    (["good", "poor", "--reference", "CartPole-v1=a"], "ENV=LOW,HIGH"),
    (["good", "poor", "--unit", "held-out"], "good on CartPole-v1: best; poor"),
]


def test_mistakes_are_one_message(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for arguments, message in MISTAKES:
        assert tunescape(monkeypatch, "compare", *arguments) == 2
        said = capsys.readouterr().err
        assert message in said and "Traceback" not in said, arguments


def test_reference_scores(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    given = ("--reference", "CartPole-v1=0,500")
    assert tunescape(monkeypatch, "compare", "good", "poor", *given) == 0
    output = capsys.readouterr().out
    assert "0.205 [" in output and "by the given scores" in output


def test_sweeps_without_an_environment_are_compared_where_they_are_evaluated(
    tmp_path: Path,
) -> None:
    """By steps that were trained on: nobody samples any."""
    metric, steps = "evaluation/episode_return_mean", "num_env_steps_trained_lifetime"
    config = {"evaluation_config": {"env": "CartPole-v1"}}
    folders = []
    for name, best in (("slow", 20.0), ("fast", 90.0)):
        trials = {}
        for seed in range(4):
            rows: list[dict[str, Any]] = [
                {"training_iteration": i, steps: 50 * i, "time_total_s": i, metric: best * i + seed}
                for i in (1, 2)
            ]
            trials[f"{name}{seed}"] = {"rows": rows, "config": {**config, "seed": seed}}
        folders.append(str(make_sweep(tmp_path, trials, name)))
    judged: dict[str, Any] = {"metric": metric, "mode": "max"}
    found = compare_folders(folders, **judged)
    assert (found.x, found.budget) == (steps, 100)
    assert list(found.tasks["task"]) == ["CartPole-v1"]
    found = compare_folders(folders, by="training_iteration", **judged)
    assert (found.x, found.budget) == ("training_iteration", 2)


REPORTED: list[tuple[dict[str, list[int]], str, float]] = [
    # Rows trained on at each report: the other's end lies beyond each first one.
    ({"BC": [2000, 4000], "CQL": [256, 2560]}, "num_env_steps_trained_lifetime", 2560),
    ({"BC": [4000, 8000], "CQL": [256, 2560]}, "training_iteration", 2),
    ({"BC": [0, 4000], "CQL": [256]}, "end_of_training", 1),
]


@pytest.mark.parametrize(("trained", "x", "budget"), REPORTED)
def test_sweeps_of_one_data_file_are_compared_by_what_they_share(
    tmp_path: Path, trained: dict[str, list[int]], x: str, budget: float
) -> None:
    """A report of 0 rows stands for an iteration without a value, as of evaluations in between."""
    metric, steps = "evaluation/ope/wis/v_target", "num_env_steps_trained_lifetime"
    for name, level in (("BC", 10.0), ("CQL", 5.0)):
        trials = {
            f"{name}{seed}": {
                "rows": [
                    {"training_iteration": i, steps: rows, "time_total_s": i}
                    | ({metric: level + seed / 10} if rows else {})
                    for i, rows in enumerate(trained[name], start=1)
                ],
                "config": {"input_": "data", "seed": seed},
            }
            for seed in range(5)
        }
        make_sweep(tmp_path, trials, name)
    folders = [str(tmp_path / name) for name in trained]
    found = compare_folders(folders, metric=metric, mode="max")
    assert (found.x, found.budget) == (x, budget)
    assert found.verdict.startswith("BC is better than CQL")
    assert list(found.summary["iqm"].round(6)) == [10.2, 5.2]
    said = {
        steps: "at 2,560 steps trained on, the largest budget that every run reached",
        "training_iteration": "at 2 training iterations, the largest budget",
        "end_of_training": "at the end of its training: each run counts with its last value.",
    }
    assert said[x] in found.notes[0]
    whys = [line for line in found.notes if line.startswith("The budget is not in ")]
    assert len(whys) == list(said).index(x)
    if whys:
        assert "steps trained on, because the runs share none" in whys[0]
        with pytest.raises(ResultsError, match="reported first at"):
            compare_folders(folders, metric=metric, mode="max", by=steps)
