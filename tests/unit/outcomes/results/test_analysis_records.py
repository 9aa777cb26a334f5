"""Reading a sweep: fabricated folders with every wound a kill, a resume or a move leaves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from analysis_sweeps import add_checkpoint, add_trial, make_sweep, row

from analysis import ResultsError, curves_frame, load_sweep, trials_frame


def test_resumed_iterations_are_there_once_as_last_written(tmp_path: Path) -> None:
    # Killed after iteration 3, resumed from the checkpoint of iteration 2.
    rows = [row(1, 10.0), row(2, 20.0), row(3, 30.0), row(3, 31.0), row(4, 41.0)]
    sweep = make_sweep(tmp_path, {"t0": {"rows": rows}})
    curves = curves_frame(sweep, ["episode_return_mean"])
    assert curves["training_iteration"].tolist() == [1, 2, 3, 4]
    assert curves["episode_return_mean"].tolist() == [10.0, 20.0, 31.0, 41.0]
    assert curves["num_env_steps_sampled_lifetime"].tolist() == [100, 200, 300, 400]


def test_rows_of_the_run_that_was_cut_off_are_gone(tmp_path: Path) -> None:
    # It was at iteration 5, resumed from 2 and killed again at 3: nothing after 3 counts.
    rows = [row(i, float(i)) for i in (1, 2, 3, 4, 5)] + [row(3, 33.0)]
    sweep = make_sweep(tmp_path, {"t0": {"rows": rows}})
    assert curves_frame(sweep)["episode_return_mean"].tolist() == [1.0, 2.0, 33.0]
    assert trials_frame(sweep)["episode_return_mean"].tolist() == [33.0]


def test_a_clone_whose_steps_went_back_has_one_timeline(tmp_path: Path) -> None:
    # PBT: at 600 steps by 200 a time it took over a donor that had 400 after 4 of 100; the first
    # row thereafter has as many steps as one of its own.
    own, cloned = {"batch": 200}, {"batch": 150}
    steps = [(1, 200, own), (2, 400, own), (3, 600, own), (5, 400, cloned), (6, 550, cloned)]
    rows = [
        {**row(i, float(n), config=c), "num_env_steps_sampled_lifetime": n} for i, n, c in steps
    ]
    sweep = make_sweep(tmp_path, {"t0": {"rows": rows}})
    curves = curves_frame(sweep)
    assert curves["num_env_steps_sampled_lifetime"].tolist() == [200, 400, 550]
    assert curves["training_iteration"].tolist() == [1, 5, 6]


def test_iterations_that_sample_nothing_are_kept(tmp_path: Path) -> None:
    offline = {"num_env_steps_sampled_lifetime": 0}
    rows = [{**row(i, float(i)), **offline} for i in (1, 2, 3)]
    without = [{"training_iteration": i, "episode_return_mean": 1.0} for i in (1, 2)]
    sweep = make_sweep(tmp_path, {"t0": {"rows": rows}, "t1": {"rows": without}})
    assert curves_frame(sweep)["training_iteration"].tolist() == [1, 2, 3, 1, 2]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"rows": [row(1, 10.0)]}})
    with (sweep / "trial_t0" / "result.json").open("a") as file:
        file.write(json.dumps(row(2, 20.0))[:25])
    assert curves_frame(sweep)["training_iteration"].tolist() == [1]


def test_a_row_behind_a_torn_one_is_found(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"rows": [row(1, 10.0)]}})
    with (sweep / "trial_t0" / "result.json").open("a") as file:
        file.write(json.dumps(row(2, 20.0))[:25] + json.dumps(row(2, 22.0)) + "\n")
        file.write(json.dumps(row(3, 30.0)) + "\n")
    assert curves_frame(sweep)["episode_return_mean"].tolist() == [10.0, 22.0, 30.0]


def test_progress_csv_where_there_is_no_json(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"rows": [row(1, 10.0)]}, "t1": {"rows": [row(1, 11.0)]}})
    for number, name in enumerate(["t0", "t1"]):
        folder = sweep / f"trial_{name}"
        (folder / "result.json").unlink()
        flat = {"training_iteration": [1, 2], "episode_return_mean": [1.0, 2.0]}
        frame = pd.DataFrame({**flat, "config/lr": 0.1 * number, "config/model/width": 64})
        frame.to_csv(folder / "progress.csv", index=False)
    frame = trials_frame(sweep)
    assert frame["episode_return_mean"].tolist() == [2.0, 2.0]
    assert frame["config/lr"].tolist() == [0.0, 0.1]
    assert frame["config/model/width"].tolist() == [64, 64]
    assert frame.attrs["varying"] == ["config/lr"]


def test_columns_of_what_varies(tmp_path: Path) -> None:
    shared = {"env": "CartPole-v1", "gamma": 0.99}
    sweep = make_sweep(
        tmp_path,
        {
            "t0": {"config": {**shared, "lr": 0.1, "model": {"width": 32, "depth": 2}}},
            "t1": {"config": {**shared, "lr": 0.2, "model": {"width": 64, "depth": 2}}},
            "t2": {"config": {**shared, "lr": 0.2, "model": {"width": 64, "depth": 2}, "clip": 1}},
        },
    )
    expected = ["config/lr", "config/model/width", "config/clip"]
    assert trials_frame(sweep).attrs["varying"] == expected
    curves = curves_frame(sweep)
    assert [c for c in curves if c.startswith("config/")] == expected
    assert curves.groupby("trial_id")["config/model/width"].first().tolist() == [32, 64, 64]


def test_a_setting_that_only_the_first_trial_has_varies(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"config": {"a": 1, "b": 2}}, "t1": {"config": {"a": 1}}})
    assert trials_frame(sweep).attrs["varying"] == ["config/b"]


def test_what_was_searched_varies_even_where_one_value_came_up(tmp_path: Path) -> None:
    trial = {"config": {"lr": 0.1, "gamma": 0.99}, "searched": {"lr": 0.1}}
    sweep = make_sweep(tmp_path, {"t0": trial})
    assert trials_frame(sweep).attrs["varying"] == ["config/lr"]


def test_a_config_that_pbt_changed_on_the_way(tmp_path: Path) -> None:
    rows = [row(1, 1.0, config={"lr": 0.1}), row(2, 2.0, config={"lr": 0.5})]
    sweep = make_sweep(tmp_path, {"t0": {"rows": rows}})
    assert curves_frame(sweep)["config/lr"].tolist() == [0.1, 0.5]
    assert trials_frame(sweep)["config/lr"].tolist() == [0.5]


def test_statuses(tmp_path: Path) -> None:
    sweep = make_sweep(
        tmp_path,
        {
            "done": {"status": "TERMINATED"},
            "bad": {"status": "ERROR"},
            # The snapshot was older than the row that ended the trial.
            "stale": {"status": "RUNNING", "rows": [row(1, 1.0, done=True)]},
            "cut": {"status": "RUNNING"},
            "waiting": {"status": "PENDING", "rows": []},
        },
    )
    frame = trials_frame(sweep).set_index("trial_id")
    assert frame["status"].to_dict() == {
        "done": "TERMINATED",
        "bad": "ERROR",
        "stale": "TERMINATED",
        "cut": "RUNNING",
        "waiting": "PENDING",
    }
    assert frame.loc["waiting", "training_iteration"] == 0
    assert pd.isna(frame.loc["waiting", "episode_return_mean"])


def test_trials_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    tags = {"b": "2_lr=1", "k": "11_lr=1", "a": "1_lr=1"}
    sweep = make_sweep(tmp_path, {name: {"tag": tag} for name, tag in tags.items()})
    assert trials_frame(sweep)["trial_id"].tolist() == ["a", "b", "k"]


def test_trials_younger_than_the_snapshot_are_found(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {}})
    add_trial(sweep, "young", {"rows": [row(1, 7.0)]})
    assert trials_frame(sweep)["trial_id"].tolist() == ["t0", "young"]


def test_the_newest_snapshot_counts(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"status": "TERMINATED"}})
    [snapshot] = sweep.glob("experiment_state-*.json")
    older = snapshot.read_text().replace("TERMINATED", "ERROR")
    (sweep / "experiment_state-2020-01-01_00-00-00.json").write_text(older)
    assert trials_frame(sweep)["status"].tolist() == ["TERMINATED"]


def test_a_torn_snapshot_falls_back_to_the_one_before(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"status": "ERROR"}})
    (sweep / "experiment_state-2030-01-01_00-00-00.json").write_text('{"trial_data": [')
    assert trials_frame(sweep)["status"].tolist() == ["ERROR"]


def test_a_moved_sweep(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"rows": [row(1, 10.0)]}})
    add_checkpoint(sweep, "t0", 0, iteration=1)
    moved = shutil.move(sweep, tmp_path / "elsewhere")
    [trial] = load_sweep(moved).trials
    assert [c.metrics["episode_return_mean"] for c in trial.checkpoints] == [10.0]
    assert trial.checkpoints[0].path.is_relative_to(tmp_path / "elsewhere")


def test_checkpoints_find_their_row_by_iteration_then_by_steps(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"rows": [row(i, 10.0 * i) for i in (1, 2, 3)]}})
    add_checkpoint(sweep, "t0", 0, iteration=2)
    add_checkpoint(sweep, "t0", 1, env_steps=300)
    add_checkpoint(sweep, "t0", 2)
    [trial] = load_sweep(sweep).trials
    assert [c.metrics["training_iteration"] for c in trial.checkpoints] == [2, 3]
    assert [path.name for path in trial.unplaced] == ["checkpoint_000002"]


def test_reading_a_folder_unpickles_nothing(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {}})
    witness = tmp_path / "ran"
    payload = f"cposix\nsystem\n(S'touch {witness}'\ntR.".encode()
    for file in (sweep / "tuner.pkl", sweep / "trial_t0" / "params.pkl"):
        file.write_bytes(payload)
    snapshot = next(sweep.glob("experiment_state-*.json"))
    state = json.loads(snapshot.read_text())
    planted = {"_type": "CLOUDPICKLE_FALLBACK", "value": payload.hex()}
    state["runner_data"] = planted
    inner = json.loads(state["trial_data"][0][0])
    inner["storage"] = planted
    state["trial_data"][0] = [json.dumps(inner), json.dumps({"checkpoint_manager": planted})]
    snapshot.write_text(json.dumps(state))
    code = (
        "import sys, analysis; analysis.trials_frame(sys.argv[1]);"
        "assert not {'ray', 'torch', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(sweep)], check=True, timeout=240)
    assert not witness.exists()


@pytest.mark.parametrize("make", ["absent", "empty", "parent"])
def test_what_is_no_sweep_is_named(tmp_path: Path, make: str) -> None:
    make_sweep(tmp_path, {"t0": {}}, name="cartpole")
    if make == "absent":
        path, hint = tmp_path / "cartpoel", "did you mean 'cartpole'"
    elif make == "parent":
        path, hint = tmp_path, "it contains the sweeps cartpole"
    else:
        path, hint = tmp_path / "empty", "not a sweep folder"
        path.mkdir()
    with pytest.raises(ResultsError, match=hint) as error:
        load_sweep(path)
    assert str(path) in str(error.value)


def test_an_unknown_metric_names_the_nearest(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {}})
    with pytest.raises(ResultsError, match="did you mean 'episode_return_mean'"):
        curves_frame(sweep, ["episode_return_meen"])


@pytest.mark.parametrize("wrong", [None, 3, {"path": "x"}])
def test_results_of_another_type(wrong: Any) -> None:
    with pytest.raises(ResultsError, match=f"not {type(wrong).__name__}"):
        trials_frame(wrong)


def test_no_results_at_all_give_an_empty_curves_frame(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"rows": []}})
    assert len(curves_frame(sweep)) == 0
    with pytest.raises(ResultsError, match="no trial has reported a result yet"):
        curves_frame(sweep, ["episode_return_mean"])
