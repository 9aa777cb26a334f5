"""What a trial of several seeds reports, from the numbers of its seeds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from analysis.plots.curves import plot_learning_curves
from analysis.statistics import iqm_interval
from experiments.monitor.episode_watch import is_unknown
from experiments.seeds.multi_seed import seed_report
from experiments.sweep.sweep import processes_for

RETURN, STEPS = "episode_return_mean", "num_env_steps_sampled_lifetime"


def results(*returns: float, steps: tuple[int, ...] = ()) -> dict[int, dict[str, Any]]:
    spent = steps or (100,) * len(returns)
    return {
        10 + number: {RETURN: value, STEPS: spent[number], "learner/loss": float(number)}
        for number, value in enumerate(returns)
    }


def test_the_objective_is_the_interquartile_mean() -> None:
    report = seed_report(results(1, 1000, 2, 3, 0), [RETURN])
    assert report[RETURN] == 2  # the mean of 1, 2 and 3
    low, high = iqm_interval([1, 1000, 2, 3, 0])
    assert (report[f"seeds/{RETURN}/low"], report[f"seeds/{RETURN}/high"]) == (low, high)
    assert (report[f"seeds/{RETURN}/min"], report[f"seeds/{RETURN}/max"]) == (0, 1000)
    assert [report[f"seed_{seed}/{RETURN}"] for seed in range(10, 15)] == [1, 1000, 2, 3, 0]
    assert report["num_seeds"] == 5 and report["median_seed"] == 12
    assert report["learner/loss"] == 2 and report["done"] is False


def test_budgets_are_those_of_a_seed() -> None:
    report = seed_report(results(1, 2, 3, steps=(300, 290, 310)), [RETURN])
    assert report[STEPS] == 290
    assert report[f"seed_12/{STEPS}"] == 310
    ended = results(1, 2, 3, steps=(300, 290, 310))
    ended[11]["done"] = True  # it will spend no more, and the others go on
    assert seed_report(ended, [RETURN])[STEPS] == 300


def test_older_names_hold_the_same_value() -> None:
    given = results(1, 1000, 2, 3, 0)
    for result in given.values():
        result["episode_reward_mean"] = result[RETURN]
    assert seed_report(given, [RETURN])["episode_reward_mean"] == 2
    assert seed_report(given, ["learner/loss"])["episode_reward_mean"] == pytest.approx(201.2)


def test_a_seed_that_diverged_is_not_trimmed_away() -> None:
    report = seed_report(results(1, math.nan, 2, 3, 0), [RETURN])
    assert math.isnan(report[RETURN]) and f"seeds/{RETURN}/low" not in report
    assert report["median_seed"] == 10


def test_a_seed_without_an_episode_leaves_the_objective_unknown_and_is_no_divergence() -> None:
    """The scheduler waits for it; one that diverged is the worst of all at once."""
    waiting, diverged = results(1, math.nan, 2), results(1, math.nan, 2)
    for given, episodes in ((waiting, 0), (diverged, 7)):
        for seed, result in given.items():
            result["num_episodes_lifetime"] = episodes if seed == 11 else 5
    assert is_unknown(seed_report(waiting, [RETURN]), RETURN)
    assert not is_unknown(seed_report(diverged, [RETURN]), RETURN)
    evaluation = f"evaluation/{RETURN}"
    for seed, result in waiting.items():
        result |= {evaluation: result[RETURN], "evaluation/num_episodes": 0 if seed == 11 else 5}
    assert is_unknown(seed_report(waiting, [evaluation]), evaluation)


def test_an_objective_that_a_seed_lacks_is_not_reported() -> None:
    given = results(1, 2, 3)
    given[11]["evaluation/x"] = 1.0
    report = seed_report(given, [RETURN, "evaluation/x"])
    assert not [key for key in report if "evaluation/x" in key]
    assert report[RETURN] == 2


def test_several_objectives() -> None:
    report = seed_report(results(1, 1000, 2, 3, 0), [RETURN, "learner/loss"])
    assert report[RETURN] == 2 and report["learner/loss"] == 2
    assert report["seeds/learner/loss/max"] == 4


@pytest.mark.parametrize(
    ("seeds", "trials", "slots", "expected"),
    [
        (5, 4, [2], 1),  # trials enough for both CPUs
        (5, 1, [2], 2),
        (5, 1, [4], 3),  # two rounds with three processes as with four
        (5, 1, [16], 5),
        (5, 2, [16], 5),
        (5, 4, [16], 3),
        (10, 3, [16], 5),
        (5, 1, [2, 2], 2),  # those of a trial share a node
        (5, 1, [0], 1),  # that it fits nowhere is told elsewhere
    ],
)
def test_auto_leaves_no_cpu_idle(seeds: int, trials: int, slots: list[int], expected: int) -> None:
    assert processes_for(seeds, trials, slots) == expected


def test_the_best_trials_interval_is_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "sweep" / "0000_a"
    folder.mkdir(parents=True)
    rows = []
    for step in range(1, 13):
        growth = 40.0 * step
        given = results(growth, growth * 1.1, growth * 0.7, growth + 30, growth - 40)
        report = seed_report(given, [RETURN])
        rows.append({**report, STEPS: 1000 * step, "training_iteration": step, "trial_id": "a"})
    (folder / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    drawn = plot_learning_curves(tmp_path / "sweep", RETURN, tmp_path / "band.svg")
    without = [{k: v for k, v in row.items() if not k.startswith("seeds/")} for row in rows]
    (folder / "result.json").write_text("".join(json.dumps(row) + "\n" for row in without))
    plain = plot_learning_curves(tmp_path / "sweep", RETURN, tmp_path / "plain.svg")
    assert "FillBetween" in drawn.read_text() and "FillBetween" not in plain.read_text()
