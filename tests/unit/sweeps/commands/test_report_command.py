"""`tunescape report`: where the page lies, and figures for a paper."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from analysis_sweeps import make_sweep, row
from rich.console import Console

from analysis import ResultsError, write_figures, write_report
from analysis.results.sources import load_sweeps
from experiments.commands.report import make_report
from experiments.errors import ExperimentError


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    trials = {
        f"t{n}": {
            "rows": [row(i, float(i * n), done=i == 3) for i in (1, 2, 3)],
            "config": {"lr": n % 2},
            "searched": {"lr": 1},
        }
        for n in range(1, 7)
    }
    return make_sweep(tmp_path, trials)


def report(*folders: Path, out: Path | None = None, **options: object) -> str:
    told = io.StringIO()
    nothing = dict.fromkeys(("metric", "mode", "title", "figures"))
    given = {**nothing, "log_to_mlflow": False, **options}
    make_report(list(folders), out, console=Console(file=told, width=200), **given)  # type: ignore[arg-type]
    return told.getvalue()


def test_it_says_where_the_page_is(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sweep.parent)
    assert "Report: sweep/report.html (" in report(sweep)
    assert (sweep / "report.html").is_file()


def test_older_names_of_metrics_are_known(sweep: Path, tmp_path: Path) -> None:
    report(sweep, out=tmp_path / "page.html", metric="episode_reward_mean", mode="min")
    text = (tmp_path / "page.html").read_text()
    assert "Trial t1 won with 3" in text and "lower is better" in text


def test_figures_for_a_paper(sweep: Path, tmp_path: Path) -> None:
    told = report(sweep, out=tmp_path / "page.html", figures=tmp_path / "paper")
    names = {path.name for path in (tmp_path / "paper").iterdir()}
    plots = ("learning_curves", "learning_curves_by_time", "effects", "cost")
    assert names >= {f"{plot}.{ending}" for plot in plots for ending in ("png", "pdf")}
    assert not any(name.startswith("lineage") for name in names)
    assert f"{len(names)} files in" in told
    assert (tmp_path / "paper" / "learning_curves.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.full("test_figures_for_a_paper")
def test_figures_of_several_sweeps_have_a_folder_each(sweep: Path, tmp_path: Path) -> None:
    other = make_sweep(tmp_path, {"x": {"rows": [row(1, 1.0, done=True)]}}, name="other")
    report(sweep, other, out=tmp_path / "page.html", figures=tmp_path / "paper")
    assert (tmp_path / "paper" / "sweep" / "learning_curves.png").is_file()
    assert (tmp_path / "paper" / "other" / "learning_curves.png").is_file()


def test_a_sweep_name_leads_nowhere_else(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's tags name a sweep as they like."""
    named = [replace(s, name=f"../{s.name}") for s in load_sweeps(sweep)] + load_sweeps(sweep)
    monkeypatch.setattr("analysis.results.sources.load_sweeps", lambda _: named)
    with pytest.raises(ResultsError, match=r"'\.\./sweep' leads out of the folder"):
        write_figures("both", tmp_path / "paper")
    assert not (tmp_path / "paper").exists()


def test_a_report_that_cannot_be_written_leaves_nothing(sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "page.html").mkdir(parents=True)
    with pytest.raises(ResultsError, match="cannot write the report"):
        write_report(sweep, out / "page.html")
    assert [path.name for path in out.iterdir()] == ["page.html"]


def test_what_cannot_be_logged_is_refused_before_anything_is_written(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ExperimentError, match="mlflow:tunescape/sweep is in MLflow"):
        report(Path("mlflow:tunescape/sweep"), log_to_mlflow=True)
    for mlflow, message in (
        ({"enabled": False}, r"mlflow\.enabled is false"),
        ({"tracking_uri": "http://127.0.0.1:9"}, "cannot be reached"),
    ):
        spec = {"name": "sweep", "trainable": "PPO", "mlflow": mlflow}
        spec["config"] = {"env": "CartPole-v1"}
        (sweep / "spec.yaml").write_text(yaml.safe_dump(spec))
        with pytest.raises(ExperimentError, match=message):
            report(sweep, log_to_mlflow=True)
    renamed = sweep.rename(sweep.with_name("sweep (copy)"))
    with pytest.raises(ExperimentError, match=r"sweep \(copy\): its name is no sweep's, rename it"):
        report(renamed, log_to_mlflow=True)
    assert not list((tmp_path / "here").iterdir())
    assert not (renamed / "report.html").exists()
