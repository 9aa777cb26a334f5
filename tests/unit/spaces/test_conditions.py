"""Conditional settings: searched when they should be, absent otherwise, wrong ones refused."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.samplers import RandomSampler
from refusals import Golden, refusals
from sweep_dummy import DummyConfig

from experiments.search.optuna_search import OptunaSearch
from experiments.search.variant_search import VariantSearch
from experiments.sweep.load import dump_spec, load_spec, make_spec, spec_space
from search_spaces import SearchSpace, SpecError

CHAIN = {
    # Children before their parents: the order in a file does not matter.
    "leaf": {"uniform": [0, 1], "when": {"branch": 4}},
    "branch": {"randint": [1, 4], "transform": "power_of_two", "when": {"root": ["a", "b"]}},
    "root": {"choice": ["a", "b", "c"]},
    "both": {"choice": [True, False], "when": {"root": "a", "flag": True}},
    "flag": {"choice": [True, False]},
}


def right(config: dict[str, Any]) -> bool:
    return (
        ("branch" in config) == (config["root"] in "ab")
        and ("leaf" in config) == (config.get("branch") == 4)
        and ("both" in config) == (config["root"] == "a" and config["flag"])
    )


def test_draws_hold_the_active_settings_only() -> None:
    space = SearchSpace.parse(CHAIN)
    assert [p.key for p in space.ordered] == ["root", "branch", "leaf", "flag", "both"]
    generator = np.random.default_rng(0)
    configs = [space.config(space.sample(generator)) for _ in range(300)]
    assert all(map(right, configs))
    counts = Counter(len(config) for config in configs)
    assert set(counts) == {2, 3, 4, 5}
    assert list(configs[0]) == [key for key in CHAIN if key in configs[0]]  # the file's order


def test_round_trip() -> None:
    space = SearchSpace.parse(CHAIN)
    assert SearchSpace.parse(space.to_dict()) == space
    assert space.to_dict()["both"]["when"] == {"root": "a", "flag": True}
    lists = {"a": {"choice": [[1], [2]]}, "b": {"uniform": [0, 1], "when": {"a": [[1]]}}}
    assert SearchSpace.parse(lists).to_dict() == lists


def test_true_is_not_one() -> None:
    space = {"a": {"choice": [1, 2]}, "b": {"uniform": [0, 1], "when": {"a": True}}}
    with pytest.raises(SpecError, match="a is never True; its values: 1, 2"):
        SearchSpace.parse(space)


def grid(entries: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    search = VariantSearch(SearchSpace.parse(entries), metric="x", mode="max", **options)
    found: list[dict[str, Any]] = []
    while isinstance(config := search.suggest("id"), dict):
        found.append(config)
    return found


def test_a_grid_has_no_point_twice() -> None:
    entries = {
        "n_step": {"grid": [1, 2, 3], "when": {"noisy": True}},
        "noisy": {"choice": [True, False]},
        "lr": {"grid": [0.1, 0.2]},
    }
    found = grid(entries, whole_grid=True)
    assert len(found) == 2 * (3 + 1)
    assert len({tuple(sorted(config.items())) for config in found}) == 8
    assert all(("n_step" in config) == config["noisy"] for config in found)
    # noisy is drawn here: a grid that hangs on a drawn setting is crossed with the draws.
    drawn = grid(entries, num_samples=4, seed=0)
    assert len(drawn) == 4 * 6
    assert all(("n_step" in config) == config["noisy"] for config in drawn)
    assert {config.get("n_step") for config in drawn} == {1, 2, 3, None}


def test_to_tune_gives_inactive_settings_their_default() -> None:
    from ray.tune.search.variant_generator import generate_variants

    space = SearchSpace.parse({**CHAIN, "inner": {"uniform": [5, 6], "when": {"both": True}}})
    defaults = {"leaf": -1, "branch": 4, "both": True, "inner": -3}
    param_space = space.to_tune(defaults)
    seen = set()
    for _ in range(60):
        ((_, spec),) = generate_variants({"config": dict(param_space)})
        config = spec["config"]
        active = {"flag": config["flag"], "root": config["root"]}
        if config["root"] == "c":
            # The default of branch is 4, but that is nobody's choice.
            assert config["branch"] == 4 and config["leaf"] == -1
        elif config["branch"] == 4:
            assert 0 <= config["leaf"] <= 1
        if not (config["root"] == "a" and config["flag"]):
            assert config["both"] is True and config["inner"] == -3
        seen.add(tuple(active.values()))
    assert len(seen) == 6
    with pytest.raises(SpecError, match="pass the settings' defaults"):
        space.to_tune()


# -- from a spec -----------------------------------------------------------------------------------

GOOD = """\
name: sweep
trainable: sweep_dummy:Dummy
config: {num_epochs: 2}
search_space:
  minibatch_size: {choice: [32, 64]}
  lr: {uniform: [0.1, 1], when: {minibatch_size: 32}}
num_samples: 4
"""


def load(tmp_path: Path, old: str = "", new: str = "") -> Any:
    path = tmp_path / "sweep.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    return load_spec(path)


def test_a_condition_on_a_fixed_setting_or_a_default_is_decided_at_once(tmp_path: Path) -> None:
    spec = load(tmp_path, "{minibatch_size: 32}", "{minibatch_size: 32, num_epochs: [2, 4]}")
    assert spec.search_space["lr"]["when"] == {"minibatch_size": 32}
    again = tmp_path / "again.yaml"
    again.write_text(dump_spec(spec))
    assert load_spec(again) == spec
    spec = load(tmp_path, "{minibatch_size: 32}", "{gamma: 0.99}")  # the default
    assert "when" not in spec.search_space["lr"]
    assert [p.conditions for p in spec_space(spec).parameters] == [(), ()]


def test_a_space_by_name_loses_what_is_never_active(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(
        "trainable: PPO\nparameters:\n"
        "  lr: {choice: [0.1, 1], when: {num_epochs: 4}}\n"
        "  gamma: {uniform: [0.1, 1], when: {lr: 1}}\n"
        "  minibatch_size: {choice: [32, 64]}\n"
    )
    path = tmp_path / "sweep.yaml"
    path.write_text(
        f"trainable: sweep_dummy:Dummy\nsearch_space: {tmp_path / 'space.yaml'}\nnum_samples: 2\n"
    )
    assert load_spec(path, ["config.num_epochs=2"]).search_space.keys() == {"minibatch_size"}
    assert set(load_spec(path, ["config.num_epochs=4"]).search_space) == {
        "lr",
        "gamma",
        "minibatch_size",
    }


WRONG = [
    ("{minibatch_size: 32}", "{minibatchsize: 32}"),
    ("{minibatch_size: 32}", "{lr: 0.5}"),
    ("{minibatch_size: 32}", "{minibatch_size: 48}"),
    ("{minibatch_size: 32}", "{minibatch_size: -1}"),
    ("{minibatch_size: 32}", "{minibatch_size: []}"),
    ("{minibatch_size: 32}", "{model: {x: 1}}"),
    ("{minibatch_size: 32}", "minibatch_size"),
    ("{minibatch_size: 32}", "{num_epochs: 4}"),
    ("{minibatch_size: 32}", "{gamma: 0.5}"),
    ("{choice: [32, 64]}", "{quniform: [32, 64, 32], when: {lr: 0.5}}"),
    ("{uniform: [0.1, 1], when", "{uniform: [0.1, 1], wen"),
    (
        "{choice: [32, 64]}",
        "{choice: [32, 64], when: {seed: 1}}\n  seed: {choice: [1], when: {lr: 0.5}}",
    ),
]


def test_wrong_conditions(tmp_path: Path, golden: Golden) -> None:
    texts = refusals(partial(load, tmp_path), WRONG, SpecError, replace={str(tmp_path): "<folder>"})
    golden("search_spaces/conditions", texts)


def test_a_circle_is_named() -> None:
    with pytest.raises(SpecError, match="in a circle: a -> b -> a"):
        SearchSpace.parse(
            {"a": {"choice": [1, 2], "when": {"b": 1}}, "b": {"choice": [1], "when": {"a": 2}}}
        )


def test_check_gives_conditions_canonical_names() -> None:
    class Config(DummyConfig):
        @classmethod
        def check(cls, values: Any) -> dict[str, Any]:
            return super().check(
                {"lr" if k == "learning_rate" else k: v for k, v in values.items()}
            )

    entries = {
        "gamma": {"uniform": [0, 1], "when": {"learning_rate": 0.5}},
        "learning_rate": {"choice": [0.5, 0.1]},
    }
    space = SearchSpace.parse(entries).check(Config)
    assert space.to_dict()["gamma"]["when"] == {"lr": 0.5}
    assert space.keys == ["gamma", "lr"]


def test_points_to_evaluate_are_checked_against_conditions() -> None:
    data = {
        "name": "x",
        "trainable": "sweep_dummy:Dummy",
        "search_space": {
            "minibatch_size": {"choice": [32, 64]},
            "lr": {"uniform": [0.1, 1], "when": {"minibatch_size": 32}},
        },
        "search": {"algorithm": "random", "points_to_evaluate": [{"lr": 0.5}]},
        "num_samples": 2,
    }
    make_spec(data)
    data["search"] = {
        "algorithm": "tpe",
        "points_to_evaluate": [{}, {"lr": 0.5, "minibatch_size": 64}],
    }
    with pytest.raises(SpecError, match=r"points_to_evaluate\[1\]: lr is searched only when"):
        make_spec(data)


def test_optuna_hits_a_condition_on_a_step_of_a_float_range() -> None:
    """0.1 + 2 * 0.1 is 0.30000000000000004."""
    space = SearchSpace.parse(
        {
            "x": {"quniform": [0.1, 0.5, 0.1]},
            "y": {"uniform": [0, 1], "when": {"x": 0.3}},
        }
    )
    search = OptunaSearch(space, metric="m", mode="max", sampler=RandomSampler(seed=0))
    configs = [search.suggest(str(number)) for number in range(30)]
    assert {config["x"] for config in configs} == {0.1, 0.2, 0.3, 0.4, 0.5}
    assert all(("y" in config) == (config["x"] == 0.3) for config in configs)
