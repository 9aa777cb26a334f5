"""Writes `rliable_numbers.json`: what rliable 1.2.0 gives for fixed scores.

rliable needs arch < 8, which cannot be imported beside pandas 3, so it is no dependency, not even
of the tests. It takes an environment of its own, a minute to run:
``pip install "rliable==1.2.0" "arch<8" "pandas<3" && python tests/make_rliable_numbers.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = Path(__file__).with_name("rliable_numbers.json")
SHAPES = ((3, 1), (5, 1), (5, 3), (10, 4), (7, 6))
THRESHOLDS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
RESAMPLES = 20_000


def scores(name: str, shape: tuple[int, int]) -> np.ndarray:
    """Fixed scores around 0.6, with ties (rounded) and some above 1."""
    rng = np.random.default_rng([len(name), *shape])
    return np.round(rng.normal(0.6 + 0.1 * len(name), 0.4, size=shape), 2)


def numbers() -> list[dict[str, Any]]:
    """Every statistic of rliable for every shape; intervals from its own resampling."""
    from rliable import library, metrics

    found = []
    for shape in SHAPES:
        x, y = scores("x", shape), scores("yy", (shape[0] + 1, shape[1]))
        statistics = {
            "mean": metrics.aggregate_mean,
            "median": metrics.aggregate_median,
            "iqm": metrics.aggregate_iqm,
            "optimality_gap": metrics.aggregate_optimality_gap,
        }
        np.random.seed(0)
        values, intervals = library.get_interval_estimates(
            {"x": x},
            lambda s, all=statistics: np.array([one(s) for one in all.values()]),  # type: ignore[misc]
            reps=RESAMPLES,
        )
        profile, band = library.create_performance_profile(
            {"x": x}, np.array(THRESHOLDS), reps=5000
        )
        average, _ = library.create_performance_profile(
            {"x": x}, np.array(THRESHOLDS), use_score_distribution=False, reps=100
        )
        better, better_interval = library.get_interval_estimates(
            {"x,y": (x, y)},
            lambda a, b: np.array([metrics.probability_of_improvement(a, b)]),
            reps=5_000,
        )
        found.append(
            {
                "x": x.tolist(),
                "y": y.tolist(),
                "values": dict(zip(statistics, values["x"].tolist(), strict=True)),
                "intervals": dict(zip(statistics, intervals["x"].T.tolist(), strict=True)),
                "profile": profile["x"].tolist(),
                "band": band["x"].tolist(),
                "average_profile": average["x"].tolist(),
                "improvement": float(better["x,y"][0]),
                "improvement_interval": better_interval["x,y"][:, 0].tolist(),
            }
        )
    return found


if __name__ == "__main__":
    cases = ",\n".join(json.dumps(case) for case in numbers())
    head = f'"rliable": "1.2.0", "thresholds": {json.dumps(THRESHOLDS)}'
    NUMBERS.write_text(f'{{{head}, "cases": [\n{cases}\n]}}\n', encoding="utf-8")
