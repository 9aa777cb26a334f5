"""Budgets to a threshold and areas under curves, worked by hand; censored summaries."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from analysis_sweeps import make_sweep, row
from refusals import Golden, refusals

from analysis import (
    ResultsError,
    area_under_curve,
    area_under_curve_frame,
    budget_to_threshold,
    budget_to_threshold_frame,
    load_sweep,
    reached_summary,
)
from analysis.curves.run_curves import run_curves

RETURN = "episode_return_mean"
STEPS = [10, 20, 30, 40, 50]
NEVER = math.inf


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ([1, 2, 5, 4, 6], {}, 30),  # equal to the threshold is enough
        ([1, 2, 5, 4, 6], {"stays": True}, 50),  # it fell back at 40
        ([5, 5, 5, 5, 5], {"stays": True}, 10),
        ([5, 5, 5, 5, 4], {"stays": True}, NEVER),
        ([1, 2, 3, 4, 4.9], {}, NEVER),
        ([9, 0, 0, 0, 0], {"window": 2}, NEVER),  # the means are 4.5, 0, 0, 0
        ([9, 0, 4, 6, 0], {"window": 2}, 40),  # 4.5, 2, 5, 3
        ([9, 0, 4, 6, 6], {"window": 2, "stays": True}, 40),  # 4.5, 2, 5, 6
        ([9, 9, 9, 9, 9], {"window": 5}, 50),  # no mean of five reports before
        ([9, 9, 9, 9, 9], {"window": 6}, NEVER),
        ([9, 8, 5, 7, 4], {"mode": "min"}, 30),
        ([9, 8, 5, 7, 4], {"mode": "min", "stays": True}, 50),
    ],
)
def test_the_threshold_is_reached_at(values: list[float], options: dict, expected: float) -> None:
    assert budget_to_threshold(STEPS, values, 5, **options) == expected


def test_no_report_never_reaches() -> None:
    assert budget_to_threshold([], [], 5) == NEVER
    assert budget_to_threshold([], [], 5, stays=True) == NEVER


def test_areas_worked_by_hand() -> None:
    x, y = [10, 20, 40], [2, 4, 10]
    # 0-10: 2 (the first value), 10-20: 2, 20-40: 4; the last value has no width.
    assert area_under_curve(x, y) == (20 + 20 + 80) / 40
    assert area_under_curve(x, y, 30) == (20 + 20 + 40) / 30
    assert area_under_curve(x, y, 20) == (20 + 20) / 20
    assert area_under_curve(x, y, 5) == 2
    # 0-10: 2, 10-20: 3, 20-40: 7
    assert area_under_curve(x, y, method="trapezoid") == (20 + 30 + 140) / 40
    # the line is at 7 after 30 steps: 20-30: 5.5
    assert area_under_curve(x, y, 30, method="trapezoid") == pytest.approx((20 + 30 + 55) / 30)
    assert area_under_curve([0, 10], [3, 9]) == 3


NONSENSE = [
    "area_under_curve([10], [1], 11)",
    "area_under_curve([10], [1], 0)",
    "area_under_curve([], [])",
    'area_under_curve([10], [1], method="simpson")',
    "area_under_curve([10, 5], [1, 1])",
    "area_under_curve([10, 20], [1])",
    "budget_to_threshold([1], [math.nan], 1)",
    "budget_to_threshold([1], [1], math.nan)",
    "budget_to_threshold([1], [1], 1, window=0)",
    'budget_to_threshold([1], [1], 1, "best")',
    "reached_summary([], [])",
    "reached_summary([7], [5])",
]


def test_nonsense_is_refused(golden: Golden) -> None:
    calls = {call: call for call in NONSENSE}
    golden("outcomes/budgets", refusals(lambda call: eval(call), calls, ResultsError))


def test_censored_runs_count_in_the_summary() -> None:
    # Two of five never got there. Kaplan-Meier: 4/5, 3/5, 2/5 after 10, 20, 30.
    found = reached_summary([10, 20, 30, NEVER, NEVER], [100] * 5)
    assert (found.runs, found.reached, found.fraction) == (5, 3, 0.6)
    assert found.median == 30
    assert found.mean == (10 + 20 + 30 + 100 + 100) / 5 and found.horizon == 100
    assert found.median_low <= 30 <= found.median_high == NEVER
    assert found.mean_low < found.mean < found.mean_high <= 100


def test_a_run_that_was_cut_off_is_no_failure() -> None:
    # One of four was cut off at 15: 3/4 after 10, then 1/2 of that at 20, then 0 at 40.
    found = reached_summary([10, NEVER, 20, 40], [50, 15, 50, 50], horizon=50)
    assert found.median == 20  # 3/8 of the runs are left
    assert found.mean == pytest.approx(10 * 1 + 10 * 3 / 4 + 20 * 3 / 8)
    # By default the mean counts what all runs had: up to 15 none of this is censored.
    short = reached_summary([10, NEVER, 20, 40], [50, 15, 50, 50])
    assert (short.horizon, short.reached, short.median) == (15, 3, 20)
    assert short.mean == (10 + 15 + 15 + 15) / 4


def test_fewer_than_half_have_no_median_and_one_run_no_interval() -> None:
    found = reached_summary([10, NEVER, NEVER], [50, 50, 50])
    assert found.median == NEVER and found.median_high == NEVER
    assert reached_summary([NEVER, NEVER], [50, 50]).mean == 50
    one = reached_summary([10], [50])
    assert one.median == one.mean == 10 and math.isnan(one.mean_low)


def test_frames_over_the_runs_of_a_sweep(tmp_path: Path) -> None:
    def seeds(iteration: int, first: float, second: float) -> dict:
        more = {f"seed_0/{RETURN}": first, f"seed_1/{RETURN}": second}
        own = {f"seed_1/{name}": 110 * iteration for name in ["num_env_steps_sampled_lifetime"]}
        return row(iteration, (first + second) / 2, **more, **own)

    sweep = make_sweep(
        tmp_path,
        {
            "one": {"rows": [row(1, 1), row(2, 5), row(3, 2)], "config": {"seed": 7}},
            "two": {"rows": [seeds(1, 1, 2), seeds(2, 3, 6)]},
            "none": {"rows": [row(1, None)]},
        },
    )
    found = budget_to_threshold_frame(sweep, RETURN, 5)
    assert list(found["trial_id"]) == ["one", "two", "two", "none"]
    assert list(found["seed"])[:3] == [7, 0, 1]
    assert list(found["budget"]) == [200, NEVER, 220, NEVER]
    assert list(found["reached"]) == [True, False, True, False]
    assert list(found["failed"]) == [False, False, False, True]
    summary = found.attrs["summary"]
    # The one without a value never gets there, and its end limits nobody.
    assert (summary.runs, summary.reached, summary.horizon, summary.median) == (4, 2, 200, 220)
    assert budget_to_threshold_frame(sweep, RETURN, 5, stays=True)["reached"].sum() == 1
    seconds = budget_to_threshold_frame(sweep, RETURN, 5, x="time_total_s")
    # A seed has its share of its trial's time.
    assert list(seconds["budget"]) == [1.0, NEVER, 0.5, NEVER]

    areas = area_under_curve_frame(sweep, RETURN)
    assert areas.attrs["budget"] == 200
    # The third has reports at 110 and 220 only.
    assert list(areas["area"])[:3] == [1, 1, 2] and areas["failed"].tolist()[3]
    longer = area_under_curve_frame(sweep, RETURN, 300)
    assert longer["area"].iloc[0] == (100 + 100 + 500) / 300 and longer["area"].isna().sum() == 3
    with pytest.raises(ResultsError, match="episode_return_mean"):
        budget_to_threshold_frame(sweep, "episode_return", 5)
    with pytest.raises(ResultsError, match="counted in one of"):
        area_under_curve_frame(sweep, RETURN, x="episodes")


def test_curves_end_where_a_run_diverges(tmp_path: Path) -> None:
    nan, rows = float("nan"), {}
    rows["well"] = [1, 2, 3, 4]
    rows["lost"] = [1, 2, 3, nan]
    rows["hole"] = [1, nan, 3, 4]  # went on
    rows["evaluated"] = [nan, 1, nan, 2, nan]  # in every second row
    rows["never"] = [nan, nan]
    rows["late"] = [nan, nan, 1, 2, nan, nan]  # that it began late does not excuse the end
    rows["infinite"] = [1, nan, 2, math.inf]
    trials = {
        name: {"rows": [row(i, v) for i, v in enumerate(values, start=1)]}
        for name, values in rows.items()
    }
    found = [run_curves(t, RETURN)[0] for t in load_sweep(make_sweep(tmp_path, trials)).trials]
    assert [curve.diverged for curve in found] == [
        *[False, True, False, False, True],
        *[True, True],
    ]
    well = found[0]
    assert [well.at(budget) for budget in (100, 199, 200, 9999)] == [1, 1.99, 2, 4]
    assert math.isnan(well.at(99)) and well.end == 400
    never = found[4]
    assert math.isnan(never.end) and np.isnan(never.at(1e9))


def test_a_curve_at_the_threshold_has_reached_it_whatever_the_window() -> None:
    for window in range(1, 20):
        for threshold in (400.0, 475.0, 499.9, 500.0, -0.1):
            for mode in ("max", "min"):
                curve = [threshold] * 20
                found = budget_to_threshold(range(1, 21), curve, threshold, mode, window=window)
                assert found == window


def test_the_median_where_exactly_half_of_the_runs_get_there() -> None:
    for half in range(1, 21):
        budgets = [float(n) for n in range(1, half + 1)] + [NEVER] * half
        assert reached_summary(budgets, [100.0] * 2 * half, resamples=2).median == half


def test_a_run_that_crashed_early_is_no_horizon(tmp_path: Path) -> None:
    good = {str(k): {"rows": [row(i, 100.0 * i) for i in range(1, 6)]} for k in range(5)}
    crashed = {"crash": {"rows": [row(1, 5.0)], "status": "ERROR"}}
    sweep = make_sweep(tmp_path, {**good, **crashed})
    found = budget_to_threshold_frame(sweep, RETURN, 450).attrs["summary"]
    assert (found.runs, found.reached, found.median, found.horizon) == (6, 5, 500, 500)
    areas = area_under_curve_frame(sweep, RETURN)
    assert areas.attrs["budget"] == 500 and areas["area"].isna().tolist() == [False] * 5 + [True]
    alone = make_sweep(tmp_path, crashed, "alone")
    assert area_under_curve_frame(alone, RETURN)["area"].tolist() == [5]
    assert budget_to_threshold_frame(alone, RETURN, 450).attrs["summary"].reached == 0


def test_runs_that_failed_never_get_there() -> None:
    budgets, ends = [10, 20, 30, NEVER, NEVER, NEVER, NEVER], [100, 100, 100, 5, 5, 5, math.nan]
    found = reached_summary(budgets, ends, failed=[False] * 3 + [True] * 4)
    assert (found.fraction, found.median, found.horizon) == (3 / 7, NEVER, 100)
    # Cut off without a failure, they say nothing of later.
    assert reached_summary(budgets[:6], ends[:6]).median == 20
