"""Pairs of algorithms: the tests against scipy's, and how often a verdict is wrong or misses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from analysis.comparison.pairs import compare_pairs, holm, iqm_difference, permutation_test
from analysis.comparison.verdict import verdict_lines
from analysis.statistics import iqm

GENERATOR = np.random.default_rng(5)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 10), (10, 10)])
def test_the_permutation_test_is_mann_whitneys(n: int, m: int) -> None:
    for shift in (0.0, 0.7, 1.5):
        x, y = GENERATOR.normal(shift, size=(n, 1)), GENERATOR.normal(size=(m, 1))
        exact = stats.mannwhitneyu(x[:, 0], y[:, 0], method="exact").pvalue
        found, _ = permutation_test(x, y)
        assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 9_999) + 2e-4)


def test_ties_and_the_least_probability_that_shows() -> None:
    # Of 5 and 5 different values, U <= 2 of 25 has the two-sided p 8/252 and U <= 3 has 14/252.
    assert permutation_test(np.arange(5.0)[:, None], np.arange(5.0)[:, None] + 0.5)[
        1
    ] == pytest.approx(1 - 2 / 25)
    same = np.full((10, 1), 500.0)
    assert permutation_test(same, same) == (1.0, np.inf)
    # No permutation of three and three is rarer than 2 in 20.
    apart = permutation_test(np.arange(3.0)[:, None], np.arange(3.0)[:, None] + 10)
    assert apart[0] == pytest.approx(0.1, abs=0.015) and apart[1] == np.inf


def test_labels_are_drawn_within_tasks() -> None:
    # On each task all runs of x are better, at levels so different that pooling would hide it.
    levels = 100.0 * np.arange(5)
    x, y = GENERATOR.normal(3, 0.1, (3, 5)) + levels, GENERATOR.normal(0, 0.1, (3, 5)) + levels
    assert permutation_test(x, y)[0] < 0.001


def test_holms_adjustment_worked_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.02]) == pytest.approx([0.02])


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_interval_of_a_difference_is_the_bootstraps(tasks: int) -> None:
    def means(runs: np.ndarray) -> np.ndarray:
        draws = GENERATOR.integers(len(runs), size=(4_000, *runs.shape))
        drawn = np.take_along_axis(runs[None], draws, axis=1).reshape(4_000, -1)
        return np.asarray(stats.trim_mean(drawn, 0.25, axis=1))

    x, y = GENERATOR.normal(1, size=(10, tasks)), GENERATOR.normal(size=(6, tasks))
    found = iqm_difference(x, y, resamples=4_000)
    assert found == pytest.approx(np.percentile(means(x) - means(y), [2.5, 97.5]), abs=0.12)


def test_a_pair_that_differs_and_one_that_does_not() -> None:
    b = np.arange(10.0)
    found = compare_pairs({"b": b, "a": b + 20, "c": b + 0.25})
    pairs = found.set_index(["a", "b"])
    assert pairs.loc[("a", "b"), "better"] and pairs.loc[("a", "c"), "better"]
    close = pairs.loc[("c", "b")]
    assert not close["better"] and close["probability"] == 0.55
    assert pairs.loc[("a", "b"), "difference"] == 20
    lines = verdict_lines(found.assign(handicap=""))
    assert lines[0] == "Not shown to be worse than any other: a."
    assert lines[1].startswith("a is better than b: P(improvement) 1.00 [1.00, 1.00], p = ")
    assert "The data do not show a difference between c and b: P(improvement) 0.55" in lines[2]
    assert "P(improvement) must reach 0.8" in lines[2]


def test_intervals_are_wider_for_several_pairs_and_after_a_choice() -> None:
    x, y, z = GENERATOR.normal(0.5, size=10), GENERATOR.normal(size=10), GENERATOR.normal(size=10)

    def of_x_and_y(**options: Any) -> tuple[float, float]:
        found = compare_pairs({"x": x, "y": y}, **options).iloc[0]
        return found["high"] - found["low"], found["difference_high"] - found["difference_low"]

    (plain, size), (chosen, chosen_size) = of_x_and_y(), of_x_and_y(chosen_from={"x": 9, "y": 9})
    assert chosen > plain and chosen_size > size
    # Three pairs at once: as one pair at a third of the level.
    three = compare_pairs({"x": x, "y": y, "z": z}).set_index(["a", "b"])
    alone = compare_pairs({"x": x, "y": y}, confidence=1 - 0.05 / 3).iloc[0]
    assert (
        three.loc[(alone["a"], alone["b"]), "low"] == alone["low"]
        and alone["high"] - alone["low"] > plain
    )


def test_lower_is_better_with_mode_min() -> None:
    better = compare_pairs({"a": np.arange(10.0) + 20, "b": np.arange(10.0)}, mode="min").iloc[0]
    assert (better["a"], better["b"], better["better"]) == ("b", "a", True)
    assert better["difference"] == -20


def claims(runs: int, shift: float = 0.0, draws: int = 300, algorithms: int = 2) -> float:
    """How often some algorithm is called better, of several whose runs are normal."""
    rng = np.random.default_rng(runs)
    found = 0
    for _ in range(draws):
        scores = {str(k): rng.normal(size=runs) for k in range(algorithms)}
        scores["0"] += shift
        found += bool(compare_pairs(scores, resamples=200)["better"].any())
    return found / draws


@pytest.mark.full("test_the_permutation_test_is_mann_whitneys")
def test_equal_algorithms_are_seldom_called_different() -> None:
    # Three standard errors of 300 draws at 5 % are 3.8 points.
    assert claims(10) <= 0.085
    assert claims(5) <= 0.085
    assert claims(10, draws=60, algorithms=4) <= 0.13  # of six pairs none


@pytest.mark.full("test_a_choice_is_the_best_of_independent_draws")
def test_the_best_of_several_equals_is_seldom_called_better() -> None:
    rng = np.random.default_rng(2)
    found = {"allowed for": 0, "ignored": 0}
    for _ in range(200):
        tries = rng.normal(size=(10, 10))
        scores = {"best of 10": max(tries, key=iqm), "other": rng.normal(size=10)}
        for name, chosen_from in (("allowed for", {"best of 10": 10}), ("ignored", None)):
            pairs = compare_pairs(scores, chosen_from=chosen_from, resamples=200)
            found[name] += bool(pairs["better"].item())
    assert found["allowed for"] <= 0.05 * 200 < 0.08 * 200 < found["ignored"]


def test_below_five_runs_nothing_is_claimed() -> None:
    assert claims(3, shift=50, draws=20) == claims(4, shift=50, draws=20) == 0
    few = compare_pairs({"a": [1.0, 2.0, 3.0], "b": [10.0, 11.0, 12.0]}).assign(handicap="")
    (line,) = verdict_lines(few)
    assert line.startswith(
        "Too few runs to compare b with a: 3 and 3 (at least 5 of each, better 10)"
    )
    # On several tasks three runs of each are some.
    x = GENERATOR.normal(size=(3, 5))
    assert compare_pairs({"a": x, "b": x + 9})["better"].all()
    assert not compare_pairs({"a": x[:2], "b": x[:2] + 9})["better"].any()


@pytest.mark.full("test_a_pair_that_differs_and_one_that_does_not")
def test_a_planted_difference_is_found() -> None:
    assert claims(10, shift=2.0, draws=100) >= 0.9  # two standard deviations
    assert claims(5, shift=3.0, draws=100) >= 0.85


@pytest.mark.full("test_a_choice_is_the_best_of_independent_draws")
def test_the_best_on_each_of_several_tasks_is_seldom_called_better() -> None:
    # Chosen on each task by itself: 8 ** 5 combinations, not 8.
    rng, found, real = np.random.default_rng(3), 0, 0
    for _ in range(30):
        tries, other = rng.normal(size=(5, 8, 10)), rng.normal(size=(10, 5))
        best = np.stack([max(task, key=iqm) for task in tries], axis=1)
        for shift in (0, 2):
            pairs = compare_pairs(
                {"best": best + shift, "other": other}, chosen_from={"best": [8] * 5}, resamples=100
            )
            found += bool(pairs["better"].item()) and not shift
            real += bool(pairs["better"].item()) and shift > 0
    assert found <= 4 and real >= 28


def test_a_choice_is_the_best_of_independent_draws() -> None:
    x, y = GENERATOR.normal(0.7, size=(6, 2)), GENERATOR.normal(size=(8, 2))
    found, _ = permutation_test(x, y, choices=[3, 5])
    draws = np.zeros(20_000)
    for task, choice in zip(stats.rankdata(np.concatenate([x, y]), axis=0).T, (3, 5), strict=True):
        sums = GENERATOR.permuted(np.tile(task, (len(draws) * choice, 1)), axis=1)[:, :6].sum(1)
        draws += sums.reshape(choice, -1).max(axis=0)
    ranks = stats.rankdata(np.concatenate([x, y]), axis=0)
    assert found == pytest.approx(min(1, 2 * np.mean(draws >= ranks[:6].sum() - 1e-9)), abs=0.02)


def test_many_choices_can_still_show_something() -> None:
    b = np.arange(10.0)
    found = compare_pairs({"a": b + 20, "b": b}, chosen_from={"a": 600}, resamples=200)
    # Twice 600 in the 184,756 halves of 20 runs.
    assert found["p_adjusted"].item() == pytest.approx(2 * 600 / 184_756, rel=0.01)
    assert found["better"].item() and found["needed"].item() < 1


def test_many_runs_are_drawn_not_counted() -> None:
    x, y = GENERATOR.normal(0.3, size=(90, 1)), GENERATOR.normal(size=(80, 1))
    exact = stats.mannwhitneyu(x[:, 0], y[:, 0]).pvalue
    found, _ = permutation_test(x, y)
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact / 9_999) + 1e-3)
