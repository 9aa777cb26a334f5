"""Mutations stay on the searched scale, inside their bounds, and whole where numbers are whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.schedulers.mutation import Mutation, from_unit, perturbed, searched_value, to_unit
from search_spaces.domains import parse_domain
from search_spaces.space import SearchSpace

MOVES: list[tuple[Any, Any, Any, Any]] = [
    ({"loguniform": [1e-5, 1e-2]}, 1e-3, 1.2e-3, 0.8e-3),
    ({"loguniform": [1e-5, 1e-2]}, 9e-3, 1e-2, 7.2e-3),
    ({"uniform": [-1, 1]}, 0.0, 0.4, -0.4),
    ({"uniform": [0.1, 0.4]}, 0.38, 0.4, 0.32),
    ({"quniform": [0, 1, 0.1]}, 0.5, 0.7, 0.3),
    ({"randint": [1, 4]}, 2, 3, 1),
    ({"randint": [1, 4]}, 3, 3, 2),
    ({"lograndint": [10, 1000]}, 100, 120, 80),
    ({"lograndint": [1, 10]}, 2, 3, 1),
    ({"choice": ["a", "b", "c"]}, "b", "c", "a"),
    ({"choice": ["a", "b", "c"]}, "c", "c", "b"),
    ({"grid": [[1], [2]]}, [1], [2], [1]),
    ({"loguniform": [1e-3, 0.1], "transform": "one_minus"}, 0.99, 0.988, 0.992),
    ({"randint": [5, 9], "transform": "power_of_two"}, 64, 128, 32),
]


def test_a_setting_moves_on_its_scale() -> None:
    for entry, value, *ends in MOVES:
        domain = parse_domain(entry)
        searched = searched_value(domain, value)
        for factor, expected in zip((1.2, 0.8), ends, strict=True):
            moved = domain.value(perturbed(domain, searched, factor))
            assert type(moved) is type(expected), (entry, value)
            same = pytest.approx(expected) if isinstance(expected, float) else expected
            assert moved == same, (entry, value)


SPACE = SearchSpace.parse(
    {
        "lr": {"loguniform": [1e-5, 1e-2]},
        "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
        "batch": {"randint": [5, 9], "transform": "power_of_two"},
        "model.hiddens": {"choice": [[32], [64, 64]]},
    }
)


def test_many_mutations_stay_inside_the_space_and_leave_the_rest() -> None:
    random = np.random.default_rng(1)
    mutation = Mutation(SPACE.parameters[:3], factors=(5.0, 0.2), resample_probability=0.3)
    config: dict[str, Any] = {
        "lr": 1e-3, "gamma": 0.99, "batch": 64, "model": {"hiddens": [32]}, "env": "x",
    }  # fmt: skip
    seen = set()
    for _ in range(300):
        before = {**config}
        config = mutation(config, random)
        assert before["model"] == config["model"] and config["env"] == "x"
        assert 1e-5 <= config["lr"] <= 1e-2
        assert 0.9 - 1e-12 <= config["gamma"] <= 0.999 + 1e-12
        assert config["batch"] in (32, 64, 128, 256)
        seen.add(config["batch"])
    assert seen == {32, 64, 128, 256}


def test_an_invalid_mutation_is_drawn_again_or_not_made() -> None:
    def even(config: dict[str, Any]) -> None:
        if config["n"] % 2:
            raise ValueError("odd")

    space = SearchSpace.parse({"n": {"randint": [0, 100]}})
    mutation = Mutation(space.parameters, resample_probability=1.0, check=even)
    random = np.random.default_rng(0)
    assert all(mutation({"n": 4}, random)["n"] % 2 == 0 for _ in range(50))
    stuck = Mutation(space.parameters, check=lambda config: even({"n": 1}))
    assert stuck({"n": 4}, random) == {"n": 4}


def test_a_value_that_is_not_listed_is_drawn() -> None:
    mutation = Mutation(SPACE.parameters[3:], resample_probability=0.0)
    drawn = mutation({"model": {"hiddens": [7]}}, np.random.default_rng(0))
    assert drawn["model"]["hiddens"] in ([32], [64, 64])


@pytest.mark.parametrize("entry", [{"uniform": [-2, 3]}, {"loguniform": [1e-5, 1e-1]}])
def test_unit_scale_round_trip(entry: Any) -> None:
    domain = parse_domain(entry)
    for position in (0.0, 0.3, 1.0):
        assert to_unit(domain, from_unit(domain, position)) == pytest.approx(position)
    assert from_unit(domain, 2.0) == domain.probes()[1]
