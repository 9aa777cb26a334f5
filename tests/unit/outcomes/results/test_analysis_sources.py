"""Several sweeps at once: which folders they are, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from analysis_sweeps import make_sweep, row

from analysis import ResultsError, curves_frame, load_sweep, load_sweeps, trials_frame


def test_names_are_told_apart_by_as_much_of_the_path_as_it_takes(tmp_path: Path) -> None:
    for folder in ("a/x", "b/x", "c"):
        (tmp_path / folder).mkdir(parents=True)
    paths = [make_sweep(tmp_path / f, {"t0": {}}, "ppo") for f in ("a/x", "b/x", "c")]
    paths.append(make_sweep(tmp_path, {"t0": {}}, "dqn"))
    names = [sweep.name for sweep in load_sweeps(paths)]
    assert names == ["a/x/ppo", "b/x/ppo", "c/ppo", "dqn"]


def test_the_given_sweep_keeps_its_name(tmp_path: Path) -> None:
    sweep = load_sweep(make_sweep(tmp_path, {"t0": {}}))
    assert [s.name for s in load_sweeps([sweep, sweep])] == ["sweep", "sweep (2)"]
    assert sweep.name == "sweep"
    assert load_sweeps(sweep) == [sweep]


def test_a_folder_of_sweeps_stands_for_them(tmp_path: Path) -> None:
    (tmp_path / "runs" / "study").mkdir(parents=True)
    for name in ("lr_10", "lr_2"):
        make_sweep(tmp_path / "runs" / "study", {"t0": {}}, name)
    single = make_sweep(tmp_path / "runs", {"t0": {}}, "single")
    make_sweep(single, {"f0": {}}, "final")  # of the sweep's own: no further sweep
    found = [sweep.name for sweep in load_sweeps(tmp_path / "runs")]
    assert found == ["single", "lr_2", "lr_10"]
    again = load_sweeps([single, tmp_path / "runs", str(single)])
    assert [sweep.name for sweep in again] == found


def test_frames_of_several_sweeps_name_the_sweep(tmp_path: Path) -> None:
    a = make_sweep(tmp_path, {"t0": {"config": {"lr": 0.1, "env": "A"}}}, "a")
    b = make_sweep(tmp_path, {"t0": {"config": {"lr": 0.1, "env": "B"}}}, "b")
    for source in ([a, b], tmp_path):
        trials = trials_frame(source)
        assert list(trials.columns[:2]) == ["sweep", "trial_id"]
        assert trials["sweep"].tolist() == ["a", "b"]
        assert trials.attrs["varying"] == ["config/env"]
        curves = curves_frame(source, ["episode_return_mean"])
        assert list(curves.columns[:2]) == ["sweep", "trial_id"]
        assert curves["config/env"].tolist() == ["A", "B"]
    assert "sweep" in trials_frame([a])
    assert "sweep" not in trials_frame(a)


def test_curves_have_both_clocks(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"rows": [row(1, 1.0), row(2, 2.0)]}})
    curves = curves_frame(sweep, ["episode_return_mean"])
    assert curves["num_env_steps_sampled_lifetime"].tolist() == [100, 200]
    assert curves["time_total_s"].tolist() == [0.5, 1.0]


def test_a_metric_that_one_of_the_sweeps_lacks(tmp_path: Path) -> None:
    a = make_sweep(tmp_path, {"t0": {}}, "a")
    b = make_sweep(tmp_path, {"t0": {"rows": [row(1, None)]}}, "b")
    with pytest.raises(ResultsError, match=r"/b: no trial reported"):
        curves_frame([a, b], ["episode_return_mean"])


def test_no_source_at_all(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no sweep was given"):
        load_sweeps([])
    with pytest.raises(ResultsError, match="not a sweep folder"):
        load_sweeps(tmp_path)
