"""Comparisons of fabricated sweeps: what a run is, the shared budget, and what may be said."""

from __future__ import annotations

import json
import math
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysis_sweeps import make_runs, make_sweep, row

import analysis
from analysis import ResultsError

RETURN = "episode_return_mean"
# How wide intervals are is a matter of `unit/outcomes/statistics`.
compare = partial(analysis.compare, resamples=300)


def curves(level: float, runs: int = 6, reports: int = 4) -> list[list[float]]:
    """Rising curves that end near a level, each run at one of its own."""
    return [
        [(level + 0.1 * run) * i / reports for i in range(1, reports + 1)] for run in range(runs)
    ]


def seeds_trial(level: float, lr: float, seeds: int = 3, **more: Any) -> dict[str, Any]:
    """A trial of several seeds."""
    rows = []
    for i in (1, 2, 3, 4):
        own = {f"seed_{s}/{RETURN}": (level + s) * i / 4 for s in range(seeds)}
        own |= {f"seed_{s}/num_env_steps_sampled_lifetime": 100 * i for s in range(seeds)}
        rows.append(row(i, level * i / 4, num_seeds=seeds, **own))
    return {
        "rows": rows,
        "config": {"env": "CartPole-v1", "lr": lr},
        "searched": {"lr": lr},
        **more,
    }


def test_seeds_of_one_configuration(tmp_path: Path) -> None:
    good = make_runs(tmp_path, "good", curves(100))
    poor = make_runs(tmp_path, "poor", curves(50))
    found = compare([good, poor], RETURN, "max", threshold=60)
    assert found.budget == 400
    summary = found.summary.set_index("algorithm")
    assert list(summary["unit"]) == ["best", "best"] and list(summary["chosen_from"]) == [1, 1]
    # The values are 100, 100.1 … 100.5; one is cut off on each side.
    assert summary.loc["good", "iqm"] == pytest.approx(np.mean([100.1, 100.2, 100.3, 100.4]))
    # The first report's value up to it, then lines: 2/8, 3/8, 5/8, 7/8 of the level.
    assert summary.loc["good", "area"] == pytest.approx(100.25 * 17 / 32)
    assert list(summary["reached"]) == [1, 0]
    assert list(summary["threshold_median"]) == [300, math.inf]
    assert list(summary["threshold_mean"]) == [300, 400]
    assert list(summary["seconds"]) == [2, 2] and list(summary["total_env_steps"]) == [2400, 2400]
    assert found.verdict.startswith("good is better than poor: P(improvement) 1.00 [1.00, 1.00]")
    assert "difference of the IQMs 50 [" in found.verdict
    assert "6 runs of its only configuration" in "\n".join(found.notes)
    again = compare({"poor": poor, "good": good}, RETURN, "min")
    assert again.verdict.startswith("poor is better than good")
    document = json.dumps(found.to_dict(), allow_nan=False)
    assert json.loads(document)["summary"][1]["threshold_median"] is None


def test_the_budget_is_what_all_runs_had(tmp_path: Path) -> None:
    long = make_runs(tmp_path, "long", curves(100, reports=8))  # 50 at the shared budget
    short = make_runs(tmp_path, "short", curves(60, reports=4))
    found = compare([long, short], RETURN)
    assert found.budget == 400
    assert list(found.summary["iqm"].round()) == [50, 60]
    assert found.verdict.startswith("short is better than long")
    assert any("runs continued to 800" in line for line in found.cautions)
    # Reports at other budgets: the line between those at 300 and 450.
    rare = make_runs(tmp_path, "rare", curves(90, reports=3), every=150)
    found = compare([rare, short], RETURN)
    assert found.budget == 400 and found.summary["iqm"].iloc[0].round() == 80
    assert not any("apart" in line for line in compare([long, short], RETURN).cautions)
    assert any("up to 150 apart (rare), 38% of it" in line for line in found.cautions)
    assert compare([long, short], RETURN, budget=100).budget == 100
    with pytest.raises(
        ResultsError, match=r"budget 500: run short0s0 \(seed 0\) of short ended at"
    ):
        compare([long, short], RETURN, budget=500)
    with pytest.raises(ResultsError, match="reported first at 150"):
        compare([rare, short], RETURN, budget=100)
    assert compare([long, short], RETURN, x="time_total_s").budget == 2.0


def test_a_choice_among_many_is_allowed_for(tmp_path: Path) -> None:
    levels = np.random.default_rng(0).normal(100, 10, size=30)
    many = {f"t{k}": seeds_trial(level, 0.1 * k, seeds=5) for k, level in enumerate(levels)}
    searched = make_sweep(tmp_path, many, "searched")
    few = make_sweep(tmp_path, {k: many[k] for k in list(many)[:2]}, "few")
    weak, strong = (
        make_runs(tmp_path, name, curves(level)) for name, level in [("weak", 50), ("strong", 150)]
    )
    found = compare([searched, weak], RETURN)
    assert found.summary["chosen_from"].tolist() == [30, 1]
    # 5 and 6 runs, all apart: p is about 2/462, times 30.
    assert found.pairs["p"].item() < 0.01 < 0.05 < found.pairs["p_adjusted"].item() < 0.3
    assert found.verdict.startswith("The data do not show a difference between searched and weak")
    assert "after the choice of searched among 30" in found.verdict
    assert any("optimistic" in line for line in found.cautions)
    assert "5 runs of its best configuration, the best of 30 by these values" in found.notes[1]
    assert compare([few, weak], RETURN).verdict.startswith("few is better than weak")
    # What beats an optimistic value is better all the more: nothing is to be allowed for.
    over = compare([searched, strong], RETURN)
    assert over.verdict.startswith("strong is better than searched")
    assert over.pairs["p"].item() == over.pairs["p_adjusted"].item()


def test_held_out_runs_come_first(tmp_path: Path) -> None:
    a = make_sweep(tmp_path, {"x": seeds_trial(500, 0.1), "y": seeds_trial(400, 0.2)}, "a")
    finalists = [{"lr": 0.1}, {"lr": 0.2}]
    make_runs(a, "final", curves(100), settings=finalists)
    b = make_runs(tmp_path, "b", curves(50))
    found = compare([a, b], RETURN)
    assert found.summary["unit"].tolist() == ["held-out", "best"]
    assert found.summary["iqm"].iloc[0] == pytest.approx(100.25)  # not the search's 500
    assert found.verdict.startswith("a is better than b")
    assert (
        "6 runs on held-out seeds of its final's winner, the best of 2 by these" in found.notes[1]
    )
    assert found.summary["chosen_from"].tolist() == [2, 1]
    # The search: two trials of three seeds; the final: twelve runs.
    assert found.summary["total_env_steps"].iloc[0] == 2 * 3 * 400 + 12 * 400
    with pytest.raises(
        ResultsError, match=r"all be compared by 'held-out'.*b on CartPole-v1: best"
    ):
        compare([a, b], RETURN, unit="held-out")


def test_configurations_are_compared_as_such_where_there_are_no_seeds(tmp_path: Path) -> None:
    def single(name: str, level: float) -> Path:
        trials = {
            f"{name}{k}": {"rows": [row(1, level + k)], "config": {"env": "E", "lr": k}}
            for k in range(6)
        }
        return make_sweep(tmp_path, trials, name)

    found = compare([single("a", 0), single("b", 50)], RETURN)
    assert set(found.summary["unit"]) == {"trials"}
    assert found.verdict.startswith("b is better than a")
    assert "6 configurations" in found.notes[1]
    assert any("compares all configurations" in line for line in found.cautions)
    # Configurations beside seeds of one configuration: another kind of spread.
    one = make_runs(tmp_path, "one", [[50.0]] * 5, env="E")
    with pytest.raises(ResultsError, match=r"compared in one way.*a on E: trials; one on E: best"):
        compare([tmp_path / "a", one], RETURN)
    # Several seeds of a configuration count as one value.
    grid = make_runs(tmp_path, "grid", curves(9), settings=[{"lr": k} for k in range(5)], env="E")
    assert compare([tmp_path / "a", grid], RETURN).summary["runs"].tolist() == [6, 5]


def test_lost_runs_are_counted_and_do_not_help(tmp_path: Path) -> None:
    nan = float("nan")
    values = curves(100, runs=8)
    values[0][-1] = nan
    good = make_runs(tmp_path, "good", values)
    poor = make_runs(tmp_path, "poor", curves(50))
    found = compare([good, poor], RETURN)
    assert found.summary["lost"].tolist() == [1, 0] and found.summary["runs"].tolist() == [7, 6]
    assert found.verdict.startswith("good looks better than poor")
    assert "1 of its 8 runs failed, diverged or are not finished" in found.verdict
    # What is worse although its bad runs are left out is worse.
    low = make_runs(tmp_path, "low", [[v / 10 for v in curve] for curve in values])
    assert "poor is better than low" in compare([low, poor], RETURN).verdict


def test_few_runs_are_not_judged(tmp_path: Path) -> None:
    a, b = (make_runs(tmp_path, n, curves(v, runs=3)) for n, v in [("a", 10), ("b", 99)])
    found = compare([a, b], RETURN)
    assert found.verdict.startswith("Too few runs to compare b with a: 3 and 3")
    assert any("3 seeds are too narrow" in line for line in found.cautions)
    single = [make_runs(tmp_path, n, curves(v, runs=1)) for n, v in [("c", 10), ("d", 99)]]
    found = compare(single, RETURN)
    assert found.verdict.startswith("Too few runs to compare d with c: 1 and 1")
    json.dumps(found.to_dict(), allow_nan=False)


def matrix(root: Path, scale: float = 1.0) -> Path:
    """A folder of sweeps as a matrix writes it: two algorithms on two environments."""
    folder = root / f"study{scale:g}"
    folder.mkdir()
    for env, factor in [("CartPole-v1", 1.0), ("my/Env-v0", 10.0 * scale)]:
        for name, level in [("PPO", 100), ("DQN", 60)]:
            runs = [[factor * value for value in curve] for curve in curves(level)]
            make_runs(folder, f"{env.replace('/', '-')}-{name}", runs, env=env)
    return folder


def test_environments_are_tasks_on_one_scale(tmp_path: Path) -> None:
    found = compare(matrix(tmp_path), RETURN)
    assert sorted(found.summary["algorithm"]) == ["DQN", "PPO"]
    assert found.summary["tasks"].tolist() == [2, 2]
    tasks = found.tasks.set_index("task")
    assert tasks.loc["my/Env-v0", ["low", "high"]].tolist() == [600, 1005]
    assert found.runs["score"].min() == 0 and found.runs["score"].max() == 1
    assert found.verdict.startswith("PPO is better than DQN")
    assert any("normalised from 0 to 1 by the worst and the best compared run" in n
               for n in found.notes)  # fmt: skip
    # The scale of a task is nothing to the comparison.
    other = compare(matrix(tmp_path, 7.0), RETURN)
    assert other.summary["iqm"].tolist() == pytest.approx(found.summary["iqm"].tolist())
    given = compare(
        tmp_path / "study1", RETURN, reference={"CartPole-v1": (0, 200), "my/Env-v0": (0, 2000)}
    )
    assert given.summary.set_index("algorithm").loc["PPO", "iqm"] == pytest.approx(0.50125)
    down = compare(tmp_path / "study1", RETURN, "min")
    assert down.verdict.startswith("DQN is better than PPO")


def test_nonsense_is_refused(tmp_path: Path) -> None:
    study = matrix(tmp_path)
    a, b = make_runs(tmp_path, "a", curves(10)), make_runs(tmp_path, "b", curves(9), env="Other")

    def refused(message: str, sources: Any, **options: Any) -> None:
        with pytest.raises(ResultsError, match=message):
            compare(sources, RETURN, **options)

    refused("share no environment. a: CartPole-v1; b: Other", [a, b])
    refused("two or more, not 1", [a])
    refused("two or more, not 1", [a, a])
    refused("write LABEL=FOLDER", [f"={a}", str(b)])
    refused("'x' names two sweeps on CartPole-v1", [f"x={a}", f"x={study}/CartPole-v1-PPO"])
    refused("there is no such sweep folder", [a, tmp_path / "c"])
    refused("threshold is of one task", study, threshold=1)
    refused("counted in one of", study, x="episodes")
    refused("unit must be one of", study, unit="luck")
    refused("'Acrobot-v1' is no compared task", study, reference={"Acrobot-v1": (0, 1)})
    refused("scores of my/Env-v0 are missing", study, reference={"CartPole-v1": (0, 1)})
    failed = make_sweep(tmp_path, {"f": {**seeds_trial(9, 0.1), "status": "ERROR"}}, "failed")
    refused("failed on CartPole-v1: no finished run", [a, failed])
    both = dict.fromkeys(["CartPole-v1", "my/Env-v0"], (5, 1))
    refused("must lie below", study, reference=both)
    same = [make_runs(tmp_path, f"{n}{e}", [[7.0]] * 5, env=e) for n in "pq" for e in "EF"]
    labelled = [f"{path.name[0]}={path}" for path in same]
    refused("E: all runs have the value 7", labelled)


def test_a_population_is_one_run(tmp_path: Path) -> None:
    b = make_runs(tmp_path, "b", curves(9))
    config = {"env": "CartPole-v1"}
    rows = [row(i, 1.0, config={**config, "lr": 0.1 * i}) for i in (1, 2)]
    trials = {name: {"rows": rows, "config": config} for name in "xy"}
    with pytest.raises(ResultsError, match="its trials are a population"):
        compare([make_sweep(tmp_path, trials, "pbt"), b], RETURN)


def test_a_comparison_repeats_and_moves(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name in "ab":
        make_runs(tmp_path, name, rng.normal(size=(10, 3)).cumsum(axis=1).tolist())
    first = compare([tmp_path / "a", tmp_path / "b"], RETURN).to_dict()
    shutil.copytree(tmp_path / "a", tmp_path / "else/where")
    again = compare([f"a={tmp_path}/else/where", tmp_path / "b"], RETURN).to_dict()
    assert first == again


def single(root: Path, name: str, values: dict[tuple[float, int], float], **more: Any) -> Path:
    """A sweep of trials of one report each, by setting and seed."""
    trials = {
        f"{name}{k}": {"rows": [row(1, v)], "config": {"env": "E", "lr": lr, "seed": seed}, **more}
        for k, ((lr, seed), v) in enumerate(values.items())
    }
    return make_sweep(root, trials, name)


def test_more_runs_do_not_make_a_configuration_the_best(tmp_path: Path) -> None:
    b = make_runs(tmp_path, "b", curves(9), env="E")
    few = {(1.0, s): 100.0 for s in range(4)} | {(2.0, s): 500.0 for s in range(3)}
    found = compare([single(tmp_path, "a", few), b], RETURN)
    assert found.summary["iqm"].iloc[0] == 500
    # One that a search happened to draw twice is not the best for that.
    twice = {(float(k), 0): 10.0 * k for k in range(20)} | {(3.0, 1): 30.0}
    found = compare([single(tmp_path, "c", twice), single(tmp_path, "d", twice)], RETURN)
    assert set(found.summary["unit"]) == {"trials"} and found.summary["runs"].tolist() == [20, 20]


def test_lost_seeds_of_configurations_are_runs_lost(tmp_path: Path) -> None:
    solid = {(float(k), s): 100.0 + k for k in range(10) for s in range(5)}
    trials = {
        f"f{k}s{s}": {
            "rows": [row(1, 500.0 + k)],
            "config": {"env": "E", "lr": k, "seed": s},
            "status": "ERROR" if s < 3 else "TERMINATED",
        }
        for k in range(10)
        for s in range(5)
    }
    fragile = make_sweep(tmp_path, trials, "fragile")
    found = compare([fragile, single(tmp_path, "solid", solid)], RETURN, unit="trials")
    assert found.summary["lost"].tolist() == [30, 0]
    assert "the data do not show it: 30 of its 50 runs failed" in found.verdict


def test_the_same_run_again_counts_once(tmp_path: Path) -> None:
    def copies(name: str, value: float) -> Path:
        trials = {
            f"{name}{k}": {"rows": [row(1, value)], "config": {"env": "E", "seed": 0}}
            for k in range(8)
        }
        return make_sweep(tmp_path, trials, name)

    found = compare([copies("a", 100), copies("b", 99)], RETURN)
    assert found.summary["runs"].tolist() == [1, 1] and not found.pairs["better"].any()


def test_trials_of_a_search_that_learns_are_not_independent(tmp_path: Path) -> None:
    good = single(tmp_path, "good", {(float(k), 0): 100.0 + k for k in range(10)})
    poor = single(tmp_path, "poor", {(float(k), 0): 1.0 + k for k in range(10)})
    assert compare([good, poor], RETURN).verdict.startswith("good is better than poor")
    (good / "spec.yaml").write_text("search: {algorithm: tpe}")
    verdict = compare([good, poor], RETURN).verdict
    assert verdict.startswith("good looks better than poor") and "each trial of TPE was" in verdict
    (good / "spec.yaml").write_text("search: random")
    assert compare([good, poor], RETURN).verdict.startswith("good is better than poor")


def test_rare_reports_are_no_handicap(tmp_path: Path) -> None:
    # The same curve, reported every 100 and every 2,500 steps; one run ended at 5,900.
    often = [[4.0 * i + s for i in range(1, 60 if s == 0 else 101)] for s in range(8)]
    rarely = [[100.0 * i + s + 0.5 for i in range(1, 5)] for s in range(8)]
    a = make_runs(tmp_path, "a", often)
    b = make_runs(tmp_path, "b", rarely, every=2500)
    found = compare([a, b], RETURN)
    assert found.budget == 5900 and not found.pairs["better"].any()
    assert found.summary["iqm"].diff().iloc[1] == pytest.approx(0.5)


def test_what_came_after_the_shared_budget_does_not_count(tmp_path: Path) -> None:
    short = [[100.0, 500.0, 500.0, 500.0]] * 5
    dips = [[*curve, 500.0, 0.0, 500.0] for curve in short]
    a, b = make_runs(tmp_path, "a", dips), make_runs(tmp_path, "b", short)
    found = compare([a, b], RETURN, threshold=450, stays=True).summary
    assert found["reached"].tolist() == [1, 1] and found["threshold_median"].tolist() == [200, 200]


def test_lost_runs_never_reach_a_threshold(tmp_path: Path) -> None:
    nan = float("nan")
    well = [[100.0, 500.0, 500.0]] * 5
    a = make_runs(tmp_path, "a", [*well, *[[100.0, 200.0, nan]] * 7])
    found = compare([a, make_runs(tmp_path, "b", well)], RETURN, threshold=450).summary
    assert found["reached"].tolist() == [pytest.approx(5 / 12), 1]
    assert found["threshold_median"].tolist() == [math.inf, 200]
