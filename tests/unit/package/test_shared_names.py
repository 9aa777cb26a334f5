"""A project has packages of the names of ours: both are found, or an error says why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ray._private.ray_constants import WORKER_PROCESS_SETUP_HOOK_ENV_VAR

from tunescape import shared_names

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an `analysis` package and an `experiments` package."""
    for name in ("analysis", "experiments"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"print('their {name} runs')\nmine = '{name}'")
    (tmp_path / "analysis" / "own.py").write_text("value = 7\n")
    return tmp_path


def run(project: Path, *arguments: str, status: int = 0) -> str:
    """What a Python there prints, of both streams."""
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_command_in_a_folder_that_is_no_more(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os; os.rmdir(os.getcwd()); from tunescape.command import main; main()"
    shown = run(gone, "-c", code, status=1)
    assert shown.splitlines() == [
        "tunescape: the folder that it is called in cannot be read (No such file or directory): it "
        "was deleted or moved, perhaps; call it in one that is there"
    ]


def test_both_packages_are_found(project: Path) -> None:
    code = (
        "import tunescape as ts; ts.leaderboard, ts.load_spec; "
        "print('ours'); from analysis.own import value; from analysis import mine; "
        "import experiments; print(value, mine, experiments.mine, ts.leaderboard.__module__)"
    )
    shown = run(project, "-c", code)
    assert shown.splitlines() == [
        "ours",  # nothing of theirs runs before it is used
        "their analysis runs",
        "their experiments runs",
        "7 analysis experiments analysis.ranking.leaderboard",
    ]


def test_theirs_was_imported_before(project: Path) -> None:
    code = "from analysis import mine; import analysis, tunescape; print(tunescape.leaderboard)"
    shown = run(project, "-c", f"{code}; from analysis.own import value; print(analysis.mine)")
    assert "function leaderboard" in shown and shown.splitlines()[-1] == "analysis"


@pytest.mark.full("test_both_packages_are_found")
def test_a_deep_module_and_the_sweeps_package(project: Path) -> None:
    shown = run(
        project, "-c", "import tunescape; from experiments.sweep.load import load_spec; print(1)"
    )
    assert shown == "1\n"
    (project / "experiments" / "__init__.py").unlink()  # a folder of specs, say
    shown = run(project, "-c", "from experiments import load_spec; print(load_spec.__name__)")
    assert shown == "load_spec\n"


def test_a_script_of_that_name_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "analysis.py").write_text(
        "import tunescape\nprint('once', tunescape.leaderboard.__name__)\n"
        "import pickle, analysis\nprint(hasattr(analysis, 'x'))\n"
    )
    assert run(tmp_path, "analysis.py") == "once leaderboard\nFalse\n"
    assert run(tmp_path, "-c", "import tunescape; tunescape.leaderboard") == ""  # nor at all


def test_a_module_that_fails_is_told_whenever_it_is_used(project: Path) -> None:
    (project / "analysis" / "__init__.py").write_text("raise OSError('theirs fails')\n")
    code = (
        "import tunescape; tunescape.leaderboard\n"
        "for _ in range(2):\n"
        "    try:\n        from analysis import mine\n"
        "    except OSError as error:\n        print(error)"
    )
    assert run(project, "-c", code) == "theirs fails\ntheirs fails\n"


def test_modules_of_one_name_are_an_error_that_names_the_folder(project: Path) -> None:
    (project / "analysis" / "plots.py").touch()
    shown = run(project, "-c", "import tunescape; tunescape.PPO", status=1)
    assert shown.splitlines()[-1].endswith(
        f"SharedNameError: {project / 'analysis'} hides Tunescape's package 'analysis', and the "
        "two cannot be joined: both have analysis.plots; rename that folder, or move it into "
        "another package (my_project/analysis)"
    )
    assert "runs" not in shown


@pytest.mark.parametrize("clash", [False, pytest.param(True, marks=pytest.mark.full)])
def test_the_command(project: Path, clash: bool) -> None:
    if clash:  # without one the command is run below, too
        (project / "experiments" / "cli.py").write_text("print('theirs')\n")
        assert "quickstart" in run(project, "-m", "tunescape", "list")
    installed = "import sys; sys.path.remove(''); from tunescape.command import main; main()"
    assert "quickstart" in run(project, "-c", installed, "list")


def test_the_command_finds_what_a_spec_names_there(project: Path) -> None:
    (project / "analysis" / "plots.py").touch()  # which ours has, too
    (project / "analysis" / "model.py").write_text(
        "from ray import tune\n\n\nclass Mine(tune.Trainable):\n    pass\n"
    )
    (project / "x.yaml").write_text(
        "trainable: analysis.model:Mine\nstop: {training_iteration: 1}\nmlflow: {enabled: false}\n"
    )
    shown = run(project, "-m", "tunescape", "run", "x.yaml", "--dry-run")
    assert "trainable: analysis.model:Mine" in shown and "their analysis" not in shown


def test_workers_are_told_only_where_a_name_is_shared(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared_names._WORKERS_VARIABLE == WORKER_PROCESS_SETUP_HOOK_ENV_VAR
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert shared_names.needs_room_in_workers() is None
    monkeypatch.chdir(project)
    hook = shared_names.needs_room_in_workers()
    assert hook == "tunescape.shared_names.make_room_in_worker"
    assert callable(getattr(shared_names, hook.rpartition(".")[2]))


@pytest.mark.parametrize(("arguments", "status"), [(["--version"], 0), (["no-such"], 2)])
def test_the_command_ends_the_process_as_python_would(arguments: list[str], status: int) -> None:
    program = (
        "import atexit, sys, threading, time; from tunescape.command import main\n"
        "atexit.register(lambda: print('at exit'))\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()\n"
        "sys.stdout.reconfigure(line_buffering=False)\n"
        f"sys.argv[1:] = {arguments!r}; main(); print('never')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == status
    assert done.stdout.splitlines()[-2:] == ["thread", "at exit"]
