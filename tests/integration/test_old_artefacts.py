"""Checkpoints and sweeps of older commits still load, act, train on and resume.

They lie in `golden/`, in a folder of the commit that `make_artefacts.py` was run with. Replay
buffers and data sets of the older one are refused, so those are of the later one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_artefacts import (
    CHECKPOINTS,
    DATA,
    NUM_ITERATIONS,
    SWEEPS,
    TINY,
    computed,
    plain,
    policies_of,
)
from refusals import Golden

from analysis import best_checkpoint, curves_frame, leaderboard, load_sweep, trials_frame
from experiments.running.runner import resume_sweep
from trainables import Algorithm, Policy
from trainables.dreamerv3.sizes import SIZES

GOLDEN = Path(__file__).parents[1] / "golden"
SAVED = sorted(path.parent.relative_to(GOLDEN) for path in GOLDEN.glob("*/*/*/expected.json"))
SWEEPS_OF = "e4b1100"
METRIC = "episode_return_mean"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sweeps, wherever that is."""
    shutil.copytree(GOLDEN / SWEEPS_OF / "sweeps", tmp_path / "sweeps")
    return tmp_path / "sweeps"


# ------------------------------------------------------------------ checkpoints


def close(found: Any, expected: Any) -> None:
    """The same lists and names, and numbers that differ by rounding only."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            close(found[name], expected[name])
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_there_is_a_checkpoint_of_each_kind() -> None:
    assert {path.name for path in SAVED} == CHECKPOINTS.keys()


@pytest.mark.parametrize("saved", SAVED, ids=str)
def test_a_checkpoint_loads_acts_as_it_did_and_trains_on(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = GOLDEN / saved
    monkeypatch.chdir(saved.parent)  # data are found by a relative path
    monkeypatch.setitem(SIZES, "nano", TINY)
    expected = json.loads((saved / "expected.json").read_text())
    for module_id, told in expected.items():
        policy = Policy.load(saved / "policies" / module_id)
        close(plain(computed({module_id: policy})), {module_id: told})
    with Algorithm.from_checkpoint(saved, trust=[DATA]) as algo:
        assert algo.training_iteration == NUM_ITERATIONS
        close(plain(computed(policies_of(algo))), expected)
        before = algo.get_weights()
        for _ in range(3):  # without a stored buffer it is filled first
            result = algo.train()
        for module_id, own in algo.get_weights().items():
            assert any(not np.array_equal(own[key], before[module_id][key]) for key in own)
        algo.save(str(tmp_path / "again"))
    with Algorithm.from_checkpoint(tmp_path / "again", trust=[DATA]) as again:
        assert again.training_iteration == result["training_iteration"] == NUM_ITERATIONS + 3


# ------------------------------------------------------------------ sweeps


def described(folder: Path) -> str:
    """What analysis tells of a sweep: trials, curves, ranks, and the best checkpoint."""
    best = best_checkpoint(folder, METRIC, "max")
    curves = curves_frame(folder, [METRIC])
    parts = {
        "trials": trials_frame(folder).set_index("trial_id").T.to_csv(),
        "curves": curves.to_csv(index=False),
        "leaderboard": leaderboard(folder, METRIC, "max").to_csv(index=False),
        "best checkpoint": f"{best.path.relative_to(folder)}: {best.value}\n",
    }
    return "\n".join(f"{title}\n{text}" for title, text in parts.items())


def test_sweeps_are_read_as_they_were(folder: Path, golden: Golden) -> None:
    names = [*SWEEPS, "final/final"]
    golden("old_sweeps", {name: described(folder / name) for name in names})


@pytest.mark.usefixtures("ray_here")
def test_an_interrupted_sweep_resumes_in_another_folder(folder: Path) -> None:
    sweep = folder / "interrupted"
    whole, cut = sorted(sweep.glob("0*/result.json"))
    first, begun = whole.read_bytes(), cut.read_text().splitlines()
    assert 0 < len(begun) < 12
    outcome = resume_sweep(sweep)
    assert outcome.succeeded and outcome.num_trials == 2
    assert whole.read_bytes() == first
    rows = cut.read_text().splitlines()
    assert [json.loads(row)["training_iteration"] for row in rows] == [*range(1, 13)]
    kept = json.loads(begun[-1])["training_iteration"] // 2 * 2  # the last checkpoint
    assert rows[:kept] == begun[:kept]
    assert {trial.status for trial in load_sweep(sweep).trials} == {"TERMINATED"}


@pytest.mark.full("test_an_interrupted_sweep_resumes_in_another_folder")
@pytest.mark.usefixtures("ray_here")
def test_a_finished_sweep_is_extended_by_the_search_that_it_had(folder: Path) -> None:
    sweep = folder / "finished"
    before = {file.parent.name: file.read_bytes() for file in sweep.glob("0*/result.json")}
    outcome = resume_sweep(sweep, num_samples=4)
    assert outcome.succeeded and outcome.num_trials == len(before) + 1 == 4
    assert all((sweep / name / "result.json").read_bytes() == rows for name, rows in before.items())
    searched = [json.dumps(trial.config, sort_keys=True) for trial in load_sweep(sweep).trials]
    assert len({*searched}) == 4


@pytest.mark.full("test_an_interrupted_sweep_resumes_in_another_folder")
@pytest.mark.usefixtures("ray_here")
def test_a_final_that_is_over_is_not_run_again(folder: Path) -> None:
    sweep = folder / "final"
    report = json.loads((sweep / "final.json").read_text())
    runs = {file: file.read_bytes() for file in sweep.rglob("result.json")}
    outcome = resume_sweep(sweep)
    assert outcome.final is not None and outcome.final.winner is not None
    assert {file: file.read_bytes() for file in sweep.rglob("result.json")} == runs
    again = json.loads((sweep / "final.json").read_text())
    assert {**again, "caution": ""} == {**report, "caution": ""}  # whose words have changed
