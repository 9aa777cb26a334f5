"""A sweep that does not begin leaves nothing open and no other sweep overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import experiments.running.tuner
import experiments.search.build
from experiments.errors import PreflightError
from experiments.running import runner
from experiments.running.runner import resume_sweep, run_sweep
from experiments.spec.paths import SPEC_FILE, sweep_dir
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import dump_spec, load_spec
from experiments.sweep.sweep import Sweep

TEXT = """\
name: study
trainable: sweep_dummy:Dummy
search_space: {lr: {uniform: [0.1, 1]}}
stop: {num_env_steps_sampled_lifetime: 1000}
mlflow: {enabled: false}
"""


@pytest.fixture
def spec(tmp_path: Path) -> SweepSpec:
    (tmp_path / "study.yaml").write_text(TEXT)
    return load_spec(tmp_path / "study.yaml", [f"storage={tmp_path / 'runs'}"])


def run_it(spec: SweepSpec) -> None:
    run_sweep(Sweep.of(spec))


def resume_it(spec: SweepSpec) -> None:
    folder = sweep_dir(spec)
    folder.mkdir(parents=True)
    (folder / SPEC_FILE).write_text(dump_spec(spec))
    (folder / "experiment_state-now.json").touch()
    resume_sweep(folder)


@pytest.mark.parametrize("begin", [run_it, resume_it])
def test_a_sweep_that_does_not_begin_closes_the_copy_of_its_study(
    begin: Callable[[SweepSpec], None], spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    class Study:
        def close(self) -> None:
            closed.append(self)

    def no_cluster(*_: Any, **__: Any) -> None:
        raise PreflightError("no cluster")

    monkeypatch.setattr(experiments.search.build, "study_copy", lambda *_, **__: Study())
    monkeypatch.setattr(runner, "ray_session", no_cluster)
    with pytest.raises(PreflightError, match="no cluster"):
        begin(spec)
    assert len(closed) == 1


def test_a_sweep_begun_while_the_checks_ran_is_not_overwritten(
    spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(_: Sweep) -> None:
        sweep_dir(spec).mkdir(parents=True)  # by another process, which has ended since
        (sweep_dir(spec) / SPEC_FILE).write_text("of the other")

    monkeypatch.setattr(runner, "ray_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(runner, "_check_cluster", check)
    monkeypatch.setattr(
        experiments.running.tuner, "prepare_tuner", lambda *_, **__: pytest.fail("begun")
    )
    with pytest.raises(PreflightError, match="exists already"):
        run_sweep(Sweep.of(spec))


def test_tune_is_told_how_to_run_a_sweep_for_as_long_as_it_runs(
    spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def no_cluster(*_: Any, **__: Any) -> None:
        seen.append(os.environ.get("TUNE_RESULT_BUFFER_LENGTH"))
        raise PreflightError("no cluster")

    monkeypatch.delenv("TUNE_RESULT_BUFFER_LENGTH", raising=False)
    monkeypatch.setattr(runner, "ray_session", no_cluster)
    with pytest.raises(PreflightError, match="no cluster"):
        run_it(spec)
    assert seen == ["1"] and "TUNE_RESULT_BUFFER_LENGTH" not in os.environ
