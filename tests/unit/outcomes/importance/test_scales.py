"""On which scale a setting is drawn."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from analysis.importance.scales import Scale, label, number, scales_of

SPACE = {
    "lr": {"loguniform": [1e-5, 1e-2]},
    "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
    "train_batch_size_per_learner": {"randint": [8, 11], "transform": "power_of_two"},
    "num_epochs": {"choice": [10, 4, 6]},
    "clip_param": {"uniform": [0.1, 0.4]},
    "num_layers": {"randint": [1, 4]},
    "model": {"fcnet_activation": {"choice": ["tanh", "relu"], "when": {"num_layers": 2}}},
    "model.fcnet_hiddens": {"grid": [[64, 64], [256]]},
}
VALUES = pd.DataFrame(
    {
        "lr": [2e-5, 3e-5, 4e-5],  # less than a decade: the guess would be linear
        "gamma": [0.9, 0.99, 0.999],
        "train_batch_size_per_learner": [256, 1024, 512],
        "num_epochs": [4, 10, 4],
        "clip_param": [0.1, 0.2, 0.4],
        "num_layers": [1, 3, 3],
        "model/fcnet_activation": ["relu", None, "tanh"],
        "model/fcnet_hiddens": ["[64, 64]", "[256]", "[256]"],
    }
)


def test_the_scale_is_that_of_the_search() -> None:
    scales = scales_of(VALUES, list(VALUES), SPACE)
    kinds = {name: scale.kind for name, scale in scales.items()}
    assert kinds == {
        "lr": "log",
        "gamma": "one_minus",
        "train_batch_size_per_learner": "log",
        "num_epochs": "category",
        "clip_param": "linear",
        "num_layers": "linear",
        "model/fcnet_activation": "category",
        "model/fcnet_hiddens": "category",
    }
    assert scales["num_epochs"].levels == ("4", "6", "10")  # one that no trial had, too
    assert scales["model/fcnet_activation"].levels == ("tanh", "relu", "none")
    assert scales["model/fcnet_hiddens"].levels == ("[64, 64]", "[256]")
    assert scales["train_batch_size_per_learner"].marks == (256, 512, 1024)


def test_without_a_spec_the_values_say_how() -> None:
    values = pd.DataFrame(
        {
            "wide": np.geomspace(1e-5, 1e-2, 20),
            "narrow": np.linspace(0.1, 0.4, 20),
            "discount": 1 - np.geomspace(1e-4, 0.1, 20),
            "levels": [32, 64] * 10,
            "signed": np.linspace(-1, 1000, 20),
            "flag": [True, False] * 10,
        }
    )
    kinds = {name: scale.kind for name, scale in scales_of(values, list(values)).items()}
    assert kinds == {
        "wide": "log",
        "narrow": "linear",
        "discount": "one_minus",
        "levels": "category",
        "signed": "linear",
        "flag": "category",
    }


def test_positions() -> None:
    assert Scale("log").positions([1e-3, 10, 0, None, "x"]).tolist()[:2] == pytest.approx([-3, 1])
    assert np.isnan(Scale("log").positions([0, None, "x", True])).all()
    found = Scale("one_minus").positions([0.9, 0.99, 0.999])
    np.testing.assert_allclose(found, [1, 2, 3])
    levels = Scale("category", ("tanh", "relu", "none"))
    assert levels.positions(["relu", None, float("nan"), "tanh"]).tolist() == [1, 2, 2, 0]


@pytest.mark.parametrize(
    ("kind", "low", "high", "labels"),
    [
        ("log", -6, -2, ["1e-6", "1e-5", "0.0001", "0.001", "0.01"]),
        ("log", math.log10(3e-4), math.log10(5e-3), ["0.0003", "0.001", "0.003"]),
        ("one_minus", 1, 4, ["0.9", "0.99", "0.999", "0.9999"]),
        ("one_minus", -math.log10(0.05), -math.log10(0.005), ["0.95", "0.98", "0.99", "0.995"]),
        ("linear", 0.1, 0.4, ["0.1", "0.2", "0.3", "0.4"]),
        ("linear", 40.9, 371.6, ["100", "200", "300"]),
        ("linear", 0, 200_000, ["0", "50k", "100k", "150k", "200k"]),
        ("linear", 5, 5, ["5"]),
    ],
)
def test_ticks_are_round_values(kind: str, low: float, high: float, labels: list[str]) -> None:
    places, texts = Scale(kind).ticks(low, high)  # type: ignore[arg-type]
    assert texts == labels
    assert places == sorted(places)
    assert min(places) >= low - 1e-9
    assert max(places) <= high + 1e-9


def test_numbers_are_short() -> None:
    assert [number(v) for v in (0.0003, 1e-6, 0, 512, 9999, 50_000, 1.5e6, -3.2e-7)] == [
        *("0.0003", "1e-6", "0", "512", "9999", "50k", "1.5M", "-3.2e-7")
    ]
    assert [label(v) for v in (None, True, [64, 64], "tanh", 3e-4)] == [
        *("none", "true", "[64, 64]", "tanh", "0.0003")
    ]
