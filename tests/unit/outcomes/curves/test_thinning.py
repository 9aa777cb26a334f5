"""Curves with fewer points, and many curves as a few."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.curves.thinning import curve_quantiles, has_full_budget, median_curve, thin


def test_a_thinned_curve_keeps_both_ends_and_every_extreme() -> None:
    x = np.arange(10_000.0)
    y = np.sin(x / 500)
    y[4321], y[8765] = 50.0, -60.0  # one-point spikes
    thin_x, thin_y = thin(x, y, 100)
    assert len(thin_x) <= 100
    assert (thin_x[0], thin_x[-1]) == (0.0, 9999.0)
    assert thin_y[thin_x == 4321] == 50.0
    assert thin_y[thin_x == 8765] == -60.0
    assert (np.diff(thin_x) > 0).all()
    assert all(y[int(step)] == value for step, value in zip(thin_x, thin_y, strict=True))


def test_a_short_curve_stays_as_it_is() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])
    assert thin(x, y, 4)[1].tolist() == [3.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="at least 4"):
        thin(x, y, 3)


def test_each_curve_counts_only_where_it_ran() -> None:
    ramps = [(np.array([0.0, n]), np.array([0.0, n])) for n in (2.0, 4.0, 4.0, 8.0)]
    flat = (np.array([0.0, 4.0]), np.array([1.0, 1.0]))
    found = curve_quantiles([*ramps, flat], [0.5, 0.0])
    assert found is not None
    steps, (median, lowest) = found
    # At 2: ramps give 2, 2, 2, 2 and the flat one 1. At 4 the first ramp has ended: 4, 4, 4, 1.
    assert steps.tolist() == [0.0, 2.0, 4.0]
    assert median.tolist() == [0.0, 2.0, 4.0]
    assert lowest.tolist() == [0.0, 1.0, 1.0]
    assert curve_quantiles(ramps[:2], [0.5]) is None


def test_trials_that_end_at_slightly_different_steps_end_together() -> None:
    curves = [(np.array([0.0, 10_000 + 30 * i]), np.array([20.0, 60.0 + 5 * i])) for i in range(10)]
    found = curve_quantiles(curves, [0.5])
    assert found is not None
    assert found[0][-1] == 10_270 and found[1][0, -1] == pytest.approx(82.5)


def test_a_median_ends_with_the_first_that_was_not_stopped() -> None:
    """Over seconds, where two of five are slow, and one was stopped early."""
    ends, budgets = [10.0, 11.0, 40.0, 42.0, 2.0], [100, 100, 98, 100, 20]
    curves = [(np.linspace(0, end, 11), np.linspace(0, end, 11)) for end in ends]
    is_full = has_full_budget([*budgets[:-1], math.nan])
    assert is_full == [True] * 5 and has_full_budget(budgets) == [True] * 4 + [False]
    median = median_curve(curves, has_full_budget(budgets))
    assert median is not None and median[0][-1] == 10.0
    assert median_curve(curves[:2], [True] * 2) is None


def test_many_different_steps_are_put_on_a_grid() -> None:
    curves = [(np.arange(k, 1000.0, 3), np.arange(k, 1000.0, 3)) for k in range(3)]
    found = curve_quantiles(curves, [0.5], points=50)
    assert found is not None
    assert len(found[0]) <= 50
    np.testing.assert_allclose(found[1][0], found[0], atol=1)  # they end at 997, 998 and 999
