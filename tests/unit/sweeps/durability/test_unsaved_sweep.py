from pathlib import Path

import pytest

from experiments.errors import SweepError
from experiments.running import runner
from experiments.running.runner import resume_sweep
from experiments.running.unsaved_sweep import remove_unsaved, was_saved

SPEC = """
name: mine
trainable: PPO
config: {env: CartPole-v1}
search_space: {lr: {uniform: [0.001, 0.01]}}
stop: {training_iteration: 1}
"""


def begun(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "0001_abc").mkdir(parents=True)
    for name in ("spec.yaml", "environment.json", "tuner.pkl", "0001_abc/params.json"):
        (folder / name).write_text(SPEC)
    return folder


def test_what_a_sweep_left_before_it_was_saved_is_removed(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    (folder / ".environment.json.new").write_text("{")  # cut off while it was written
    remove_unsaved(folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    "foreign", ["notes.md", "data/rows.csv", "0001_abc/result.json", "0001_abc/notes.md"]
)
def test_what_is_somebody_elses_is_kept(tmp_path: Path, foreign: str) -> None:
    folder = begun(tmp_path)
    (folder / foreign).parent.mkdir(exist_ok=True)
    (folder / foreign).write_text("mine")
    before = sorted(folder.rglob("*"))
    with pytest.raises(SweepError, match=r"result|state of the sweep|would delete"):
        remove_unsaved(folder)
    assert sorted(folder.rglob("*")) == before


def test_resuming_a_folder_with_a_spec_of_ones_own_loses_nothing(tmp_path: Path) -> None:
    """A user who keeps a spec beside notes, and takes that folder for a sweep's."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "spec.yaml").write_text(SPEC)
    (folder / "notes.md").write_text("a year of work")
    with pytest.raises(SweepError, match=r"would delete notes\.md, spec\.yaml"):
        resume_sweep(folder)
    assert (folder / "notes.md").read_text() == "a year of work"


def test_a_sweep_whose_state_has_no_trial_yet_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tune saves one at once, and cannot restore it: `list index out of range`."""
    folder, run = begun(tmp_path), []
    state = folder / "experiment_state-2026-01-01_00-00-00.json"
    state.write_text('{"trial_data": [], "runner_data": {}, "stats": {"start_time": 1.0}}')
    monkeypatch.setattr(runner, "run_sweep", lambda sweep, **_: run.append(sweep.spec.name))
    resume_sweep(folder)
    assert run == ["mine"] and not folder.exists()


def test_a_sweep_whose_state_has_a_trial_goes_on(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    (folder / "experiment_state-2026-01-01_00-00-00.json").write_text('{"trial_data": []')
    assert not was_saved(folder)
    (folder / "experiment_state-2026-01-01_00-00-05.json").write_text('{"trial_data": [["{}"')
    assert was_saved(folder)
