"""The frames of seeds, of exploits and of costs, and frames as files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from analysis_sweeps import make_sweep, row

from analysis import (
    ResultsError,
    cost_frame,
    lineage_frame,
    load_sweep,
    seeds_frame,
    trials_frame,
    write_frame,
)
from experiments.commands.frames import make_frame, output_frame
from experiments.errors import SweepError

STEPS = "num_env_steps_sampled_lifetime"
RETURN = "episode_return_mean"


def of_seeds(iteration: int, **values: float) -> dict[str, Any]:
    """A result of several seeds: ``s0=1.0`` is seed 0's return after 100 steps an iteration."""
    seeds = {int(name[1:]): value for name, value in values.items()}
    own = {f"seed_{seed}/{RETURN}": value for seed, value in seeds.items()}
    steps = {f"seed_{seed}/{STEPS}": (100 + seed) * iteration for seed in seeds}
    return {**row(iteration, sum(seeds.values()) / len(seeds)), **own, **steps}


# ---- seeds


def test_seeds_in_long_form(tmp_path: Path) -> None:
    rows = [of_seeds(1, s10=1.0, s2=5.0), of_seeds(2, s10=2.0, s2=math.nan)]
    sweep = make_sweep(tmp_path, {"b": {"rows": rows}, "a": {"rows": rows[:1]}, "one": {}})
    frame = seeds_frame(sweep)
    assert list(frame) == ["trial_id", "seed", "training_iteration", STEPS, "value"]
    assert frame.to_numpy().tolist() == [
        ["b", 2, 1, 102, 5.0],
        ["b", 10, 1, 110, 1.0],
        ["b", 10, 2, 220, 2.0],
        ["a", 2, 1, 102, 5.0],
        ["a", 10, 1, 110, 1.0],
    ]
    assert next(iter(seeds_frame([sweep]))) == "sweep"


def test_seeds_of_another_metric_are_named(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"t0": {"rows": [of_seeds(1, s0=1.0)]}})
    with pytest.raises(ResultsError, match=f"'loss' of each; of each seed .* {RETURN}$"):
        seeds_frame(sweep, "loss")
    single = make_sweep(tmp_path, {"t0": {}}, "single")
    with pytest.raises(ResultsError, match="no trial trained several seeds"):
        seeds_frame(single)


# ---- lineage


def test_exploits_as_a_table(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"a": {}, "b": {}})
    lines = [
        {
            **{"exploit": n, "time_attr": STEPS, "trial": "b", "donor": "a", "budget": 100 * n},
            **{"donor_budget": 200 * n, "score": None, "donor_score": 2.0},
            **{"before": {"lr": 1.0, "model.act": "relu"}, "donor_settings": {"lr": 2.0}},
            "after": {"lr": 1.6},
        }
        for n in (1, 2)
    ]
    (sweep / "lineage.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    frame = lineage_frame(sweep)
    assert frame["exploit"].tolist() == [1, 2]
    assert frame[["trial_id", "donor_id"]].to_numpy().tolist() == [["b", "a"]] * 2
    assert frame["donor_budget"].tolist() == [200, 400]
    assert frame[["before/lr", "donor/lr", "after/lr"]].to_numpy().tolist() == [[1.0, 2.0, 1.6]] * 2
    assert frame["before/model/act"].tolist() == ["relu"] * 2
    assert frame["score"].isna().all()
    other = make_sweep(tmp_path, {"a": {}}, "other")
    assert lineage_frame([other, sweep])["sweep"].tolist() == ["sweep"] * 2
    with pytest.raises(ResultsError, match=r"other has no lineage\.jsonl"):
        lineage_frame(other)


# ---- cost


def test_cost_is_what_was_held_for_as_long_as_it_was(tmp_path: Path) -> None:
    held = [{"num_cpus": 2.0, "num_gpus": 0.5}, {"num_cpus": 6.0, "num_gpus": 0.5}]
    rows = [{**row(i, 1.0), **h, "time_total_s": 10.0 * i} for i, h in enumerate(held, 1)]
    trials = {
        "grew": {"rows": rows},
        "unknown": {"rows": [row(1, 1.0), row(2, 1.0)]},
        "half known": {"rows": [row(1, 1.0), rows[1]]},
        "seeds": {"rows": [of_seeds(3, s0=1.0, s1=2.0)]},
        "nothing": {"rows": []},
    }
    frame = cost_frame(make_sweep(tmp_path, trials)).set_index("trial_id")
    assert frame.loc["grew"].tolist() == [200, 20.0, 2 * 10 + 6 * 10, 10.0]
    assert frame.loc["unknown"].tolist()[:2] == [200, 1.0]
    assert frame.loc["unknown", ["cpu_s", "gpu_s"]].isna().all()
    assert frame.loc["half known", ["cpu_s", "gpu_s"]].isna().all()
    assert frame.loc["seeds", "env_steps"] == 300 + 303
    assert frame.loc["nothing"].tolist() == [0.0] * 4


def test_cost_of_a_trainable_that_does_not_say_what_it_holds(tmp_path: Path) -> None:
    sweep = load_sweep(make_sweep(tmp_path, {"t0": {}}))
    sweep.trials[0].held = {"CPU": 3.0}  # as a ResultGrid tells
    assert cost_frame(sweep)[["wall_s", "cpu_s", "gpu_s"]].to_numpy().tolist() == [[0.5, 1.5, 0.0]]


# ---- files


MIXED = {
    "trial_id": ["a", "b", "c"],
    "hiddens": [[64, 64], [32], None],
    "model": [{"act": "relu"}, {}, {"act": "tanh", "n": 1}],
    "kinds": [1, "1", None],
    "whole": pd.Series([1, None, 3], dtype=object),
    "flag": pd.Series([True, None, False], dtype=object),
    "text": ["x", None, "y,z\n"],
    "value": [1.5, math.nan, math.inf],
    "count": [1, 2, 3],
}


def test_parquet_keeps_types_and_attributes(tmp_path: Path) -> None:
    frame = pd.DataFrame(MIXED)
    frame.attrs["varying"] = ["config/lr"]
    before = frame.copy()
    path = write_frame(frame, tmp_path / "new" / "frame.parquet")
    pd.testing.assert_frame_equal(frame, before)
    assert frame.attrs == {"varying": ["config/lr"]}
    back = pd.read_parquet(path)
    assert back.attrs["varying"] == ["config/lr"]
    assert back.attrs["json_columns"] == ["hiddens", "model", "kinds"]
    assert [json.loads(v) for v in back["hiddens"].dropna()] == [[64, 64], [32]]
    assert [json.loads(v) for v in back["model"]] == MIXED["model"]
    assert [json.loads(v) for v in back["kinds"].dropna()] == [1, "1"]
    assert back["whole"].dropna().tolist() == [1, 3]
    assert back["flag"].dropna().tolist() == [True, False]
    assert back["text"].tolist()[2] == "y,z\n"
    assert back["value"].tolist()[2] == math.inf
    assert back["count"].dtype == "int64"
    assert [p.name for p in path.parent.iterdir()] == ["frame.parquet"]


def test_csv_is_read_back(tmp_path: Path) -> None:
    back = pd.read_csv(write_frame(pd.DataFrame(MIXED), tmp_path / "frame.csv"))
    assert list(back) == list(MIXED)
    assert json.loads(back["hiddens"][0]) == [64, 64]
    assert [json.loads(v) for v in back["kinds"].dropna()] == [1, "1"]
    assert back["text"].tolist()[2] == "y,z\n"
    assert back["value"].tolist()[2] == math.inf
    assert back.isna().sum().to_dict()["kinds"] == 1


def test_every_frame_of_a_real_shape_is_written(tmp_path: Path) -> None:
    configs = [{"model": {"hiddens": [64, 64]}, "x": 1}, {"model": {"hiddens": [32]}, "x": "a"}]
    sweep = make_sweep(tmp_path, {f"t{i}": {"config": c} for i, c in enumerate(configs)})
    back = pd.read_parquet(write_frame(trials_frame(sweep), tmp_path / "trials.parquet"))
    assert back["config/model/hiddens"].tolist() == ["[64, 64]", "[32]"]
    assert back.attrs["varying"] == ["config/model/hiddens", "config/x"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"\.parquet or \.csv, not '\.xlsx'"):
        write_frame(pd.DataFrame(), tmp_path / "frame.xlsx")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot be written"):
        write_frame(pd.DataFrame(), tmp_path / "file" / "frame.csv")


# ---- the command


def test_the_command_makes_each_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**of_seeds(1, s0=1.0, s1=2.0), "loss": 0.5}]
    sweep = str(make_sweep(tmp_path, {"t0": {"rows": rows}}))
    assert len(make_frame("trials", [sweep])) == 1
    curves = make_frame("curves", [sweep, sweep], ["loss"])
    assert list(curves) == [
        "sweep",
        "trial_id",
        "training_iteration",
        STEPS,
        "time_total_s",
        "loss",
    ]
    for name in (RETURN, "episode_reward_mean"):
        assert make_frame("seeds", [sweep], [name])["value"].tolist() == [1.0, 2.0]
    assert make_frame("cost", [sweep])["wall_s"].tolist() == [0.5]
    assert output_frame(make_frame("cost", [sweep]), None) == ""
    assert capsys.readouterr().out.splitlines()[0] == "trial_id,env_steps,wall_s,cpu_s,gpu_s"
    monkeypatch.chdir(tmp_path)
    told = output_frame(make_frame("cost", [sweep]), tmp_path / "cost.parquet")
    assert told == "1 rows, 5 columns: cost.parquet"


@pytest.mark.parametrize(
    ("what", "metrics", "message"),
    [
        ("curve", (), "no such table; allowed: trials, .*did you mean 'curves'"),
        ("trials", ("loss",), "--metric loss: trials have no metric"),
        ("seeds", ("a", "b"), "one metric at a time"),
    ],
)
def test_the_command_refuses(what: str, metrics: tuple[str, ...], message: str) -> None:
    with pytest.raises(SweepError, match=message):
        make_frame(what, ["runs/none"], metrics)
