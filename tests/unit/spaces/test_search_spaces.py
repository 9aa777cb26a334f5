"""Domains draw what they say, transforms give settings, and every shipped space fits its config."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from refusals import Golden, refusals
from sweep_dummy import DummyConfig

from experiments.search.optuna_search import OptunaSearch, distribution
from experiments.search.variant_search import VariantSearch
from search_spaces import SearchSpace, SpecError
from search_spaces.define_by_run import suggest
from search_spaces.domains import DOMAINS, parse_domain
from trainables import PPOConfig

METRIC = "episode_return_mean"


def draws(entry: dict[str, Any], count: int = 2000) -> list[Any]:
    domain = parse_domain(entry)
    generator = np.random.default_rng(0)
    return [domain.value(domain.sample(generator)) for _ in range(count)]


# -- domains ---------------------------------------------------------------------------------------


def test_uniform() -> None:
    values = draws({"uniform": [-1, 3]})
    assert min(values) >= -1 and max(values) <= 3
    assert np.mean(values) == pytest.approx(1, abs=0.1)
    assert all(type(value) is float for value in values)


def test_loguniform_is_uniform_in_the_logarithm() -> None:
    values = draws({"loguniform": [1e-4, 1.0]})
    assert min(values) >= 1e-4 and max(values) <= 1
    assert np.mean(np.log10(values)) == pytest.approx(-2, abs=0.1)


def test_quniform_includes_both_ends_without_float_noise() -> None:
    assert set(draws({"quniform": [0, 0.3, 0.1]})) == {0.0, 0.1, 0.2, 0.3}
    whole = draws({"quniform": [32, 96, 32]})
    assert set(whole) == {32, 64, 96}
    assert all(type(value) is int for value in whole)


def test_randint_excludes_the_upper_bound() -> None:
    counts = Counter(draws({"randint": [2, 5]}))
    assert set(counts) == {2, 3, 4}
    assert min(counts.values()) > 550


def test_lograndint() -> None:
    counts = Counter(draws({"lograndint": [1, 1000]}))
    assert min(counts) == 1 and max(counts) < 1000
    # A third of the mass in each decade.
    assert sum(n for value, n in counts.items() if value < 10) == pytest.approx(667, abs=80)


def test_choice_of_lists() -> None:
    assert {tuple(v) for v in draws({"choice": [[64, 64], [32]]})} == {(64, 64), (32,)}


def test_one_minus_and_power_of_two() -> None:
    gammas = draws({"loguniform": [1e-4, 0.1], "transform": "one_minus"})
    assert min(gammas) >= 0.9 and max(gammas) <= 0.9999
    assert np.mean(np.log10([1 - g for g in gammas])) == pytest.approx(-2.5, abs=0.1)
    assert set(draws({"randint": [3, 6], "transform": "power_of_two"})) == {8, 16, 32}


BAD_DOMAINS: list[dict[str, Any]] = [
    {"uniform": [0]},
    {"uniform": [0, "1"]},
    {"uniform": [0, math.inf]},
    {"uniform": [True, 2]},
    {"uniform": 3},
    {"uniform": [1, 1]},
    {"loguniform": [0, 1]},
    {"lograndint": [0, 5]},
    {"randint": [0.5, 2]},
    {"quniform": [0, 1]},
    {"quniform": [0, 1, 0.3]},
    {"quniform": [0, 1, -0.5]},
    {"choice": []},
    {"uniform": [0, 1], "randint": [0, 1]},
    {"uniform": [0, 1], "log": True},
    {"uniform": [0, 1], "transform": "one_minos"},
    {"uniform": [0, 1], "transform": "power_of_two"},
    {"choice": ["a"], "transform": "one_minus"},
    {"choice": [0.0, {"uniform": [0.1, 0.4]}]},
    {"choice": [[64, 64], [32, {"randint": [3, 9]}]]},
    {"grid": [1, {"grid_search": [2, 3]}]},
    {"choice": [{"width": {"choice": [1, 2], "when": {"deep": True}}}]},
    {"choice": [0.5], "transform": "power_of_two"},
]


def test_bad_domains(golden: Golden) -> None:
    golden("search_spaces/domains", refusals(parse_domain, BAD_DOMAINS, SpecError))


# -- spaces ----------------------------------------------------------------------------------------

SPACE = {
    "lr": {"loguniform": [1e-4, 1e-1]},
    "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
    "minibatch_size": {"randint": [4, 7], "transform": "power_of_two"},
    "model": {"fcnet_activation": {"choice": ["tanh", "relu"]}},
    "model.fcnet_hiddens": {"choice": [[64, 64], [32]]},
}


def test_searched_names_and_settings() -> None:
    space = SearchSpace.parse(SPACE)
    assert space.names == [
        "lr",
        "one_minus_gamma",
        "log2_minibatch_size",
        "model.fcnet_activation",
        "model.fcnet_hiddens",
    ]
    assert space.config(
        {
            "lr": 0.5,
            "one_minus_gamma": 0.25,
            "log2_minibatch_size": 5,
            "model.fcnet_activation": "relu",
            "model.fcnet_hiddens": [32],
        }
    ) == {
        "lr": 0.5,
        "gamma": 0.75,
        "minibatch_size": 32,
        "model": {"fcnet_activation": "relu", "fcnet_hiddens": [32]},
    }
    assert SearchSpace.parse(space.to_dict()) == space


BAD_SPACES: list[dict[str, Any]] = [
    {"a": {"x": {"grid": [1]}}, "a.x": {"grid": [2]}},
    {"a": {"unifrm": [0, 1]}},
    {"a": [1, 2]},
    {"a": {}},
]


def test_bad_spaces(golden: Golden) -> None:
    golden("search_spaces/spaces", refusals(SearchSpace.parse, BAD_SPACES, SpecError))


def test_values_of_a_choice_may_be_mappings() -> None:
    values = [{"grid": 3}, {"choice": [1], "of": "doors"}, {"type": "relu"}]
    assert parse_domain({"choice": values}).probes() == values


def test_a_slash_stands_for_a_dot() -> None:
    """As in the names of results, `config/model/fcnet_hiddens`."""
    model = {"model/fcnet_hiddens": {"choice": [[8]], "when": {"model/use_lstm": True}}}
    spaces = {
        **model,
        "env_config/label": {"choice": ["a/b", "c"]},
        "env_config.a/b": {"grid": [1]},
    }
    space = SearchSpace.parse(spaces).check(PPOConfig)
    assert space.keys == ["model.fcnet_hiddens", "env_config.label", "env_config.a/b"]
    assert space.to_dict()["model.fcnet_hiddens"]["when"] == {"model.use_lstm": True}


def test_check_finds_a_bound_that_the_setting_does_not_allow() -> None:
    SearchSpace.parse(SPACE).check(DummyConfig)
    with pytest.raises(SpecError, match=r"gamma = -1 is not allowed"):
        bad = {"gamma": {"uniform": [0, 2], "transform": "one_minus"}}
        SearchSpace.parse(bad).check(DummyConfig)
    with pytest.raises(SpecError, match="did you mean 'minibatch_size"):
        SearchSpace.parse({"minibatchsize": {"choice": [1]}}).check(DummyConfig)


def test_grid_points() -> None:
    space = SearchSpace.parse({"lr": {"grid": [1, 2]}, "gamma": {"choice": [0.1, 0.2]}})
    assert list(space.grid_points()) == [{"lr": 1}, {"lr": 2}]
    assert len(list(space.grid_points(whole=True))) == 4
    assert list(SearchSpace().grid_points()) == [{}]


def test_to_tune_samples_settings() -> None:
    from ray.tune.search.variant_generator import generate_variants

    space = SearchSpace.parse({**SPACE, "num_epochs": {"grid": [2, 4]}})
    variants = [spec for _, spec in generate_variants({"config": space.to_tune()})]
    assert [variant["config"]["num_epochs"] for variant in variants] == [2, 4]
    for variant in variants:
        config = variant["config"]
        assert 0.9 <= config["gamma"] <= 0.999
        assert config["minibatch_size"] in (16, 32, 64)
        assert set(config["model"]) == {"fcnet_activation", "fcnet_hiddens"}
        DummyConfig.check(config)


# -- searchers -------------------------------------------------------------------------------------


def test_every_domain_has_an_optuna_distribution_with_the_same_values() -> None:
    entries: dict[str, Any] = {
        "uniform": [0, 1],
        "loguniform": [0.1, 1],
        "quniform": [0.1, 0.5, 0.1],
        "randint": [1, 4],
        "lograndint": [1, 4],
        "choice": [[64], "a", None, 3],
        "grid": [1, 2],
    }
    assert set(entries) == set(DOMAINS)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for kind, arguments in entries.items():
        domain = parse_domain({kind: arguments})
        values = []
        for _ in range(40):
            trial = study.ask()
            values.append(suggest(trial, kind, domain))
            assert trial.distributions[kind] == distribution(domain)
        if domain.finite is not None:
            assert all(any(v == f for v in values) for f in domain.finite), kind
            assert all(any(v == f for f in domain.finite) for v in values), kind
        else:
            assert min(values) >= arguments[0] and max(values) <= arguments[1]


def variants(space: SearchSpace, **options: Any) -> list[dict[str, Any]]:
    searcher = VariantSearch(space, metric=METRIC, mode="max", **options)
    found = []
    while (config := searcher.suggest("id")) != "FINISHED":
        assert isinstance(config, dict)
        found.append(config)
    return found


def test_random_search_crosses_grids_with_draws() -> None:
    space = SearchSpace.parse({"lr": {"uniform": [0, 1]}, "num_epochs": {"grid": [2, 4]}})
    found = variants(space, num_samples=3, seed=0)
    assert [config["num_epochs"] for config in found] == [2, 4] * 3
    assert len({config["lr"] for config in found}) == 6
    assert found == variants(space, num_samples=3, seed=0)
    assert found != variants(space, num_samples=3, seed=1)


def test_grid_search_lists_every_combination_once() -> None:
    space = SearchSpace.parse(
        {"num_epochs": {"choice": [2, 4]}, "minibatch_size": {"quniform": [32, 96, 32]}}
    )
    found = variants(space, whole_grid=True)
    assert len(found) == 6
    assert len({tuple(config.values()) for config in found}) == 6


def test_variant_search_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    space = SearchSpace.parse(SPACE)
    first = VariantSearch(space, metric=METRIC, mode="max", num_samples=4, seed=1)
    first.suggest("a")
    first.save(str(tmp_path / "state"))
    second = VariantSearch(space, metric=METRIC, mode="max", num_samples=4, seed=2)
    second.restore(str(tmp_path / "state"))
    assert [first.suggest("x") for _ in range(4)] == [second.suggest("x") for _ in range(4)]


def optuna_search(*, n_startup_trials: int = 10, **options: Any) -> OptunaSearch:
    space = SearchSpace.parse(SPACE)
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=n_startup_trials)
    return OptunaSearch(space, metric=METRIC, mode="max", sampler=sampler, **options)


def result(value: Any, step: int, **more: Any) -> dict[str, Any]:
    row = {"num_env_steps_sampled_lifetime": step, "training_iteration": step // 10, **more}
    return row if value is None else {METRIC: value, **row}


ENDS: list[tuple[Any, dict[str, Any], bool, str]] = [
    (5.0, {"pruned": False}, False, "COMPLETE"),
    (5.0, {"pruned": True}, False, "PRUNED"),
    (math.nan, {"pruned": False}, False, "FAIL"),
    (math.inf, {"pruned": False}, False, "FAIL"),
    (math.nan, {"pruned": True}, False, "FAIL"),
    ("five", {"pruned": False}, False, "FAIL"),
    (None, {}, False, "FAIL"),
    (5.0, {}, True, "FAIL"),
    (5.0, {}, False, "PRUNED"),
    (5.0, {"num_env_steps_sampled_lifetime": 100}, False, "COMPLETE"),
]


def test_how_a_trial_ends_in_optuna() -> None:
    for value, more, error, state in ENDS:
        search = optuna_search(stop={"num_env_steps_sampled_lifetime": 100})
        search.suggest("a")
        search.on_trial_result("a", result(1.0, 10))
        search.on_trial_complete("a", {**result(value, 20), **more}, error=error)
        (trial,) = search.study.trials
        assert trial.state.name == state, (value, more, error)
        if state == "PRUNED":
            assert trial.intermediate_values == {10: 1.0, 20: 5.0}


def test_optuna_is_spared_what_would_end_the_sweep() -> None:
    search = optuna_search()
    search.on_trial_result("unknown", result(1.0, 10))
    search.on_trial_complete("unknown", result(1.0, 10))
    search.suggest("a")
    for value, step in ((1.0, 10), (2.0, 10), (3.0, 5), (math.nan, 20), (None, 30), (4.0, 40)):
        search.on_trial_result("a", result(value, step))
    search.on_trial_complete("a", None)
    search.on_trial_complete("a", None)
    (trial,) = search.study.trials
    assert trial.state.name == "FAIL"
    assert trial.intermediate_values == {10: 1.0, 40: 4.0}


def test_optuna_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    first = optuna_search(n_startup_trials=2)
    for number in range(4):
        first.suggest(str(number))
        first.on_trial_complete(str(number), result(float(number), 10))
    first.suggest("running")
    first.save(str(tmp_path / "state"))
    second = optuna_search()
    second.restore(str(tmp_path / "state"))
    assert first.suggest("next") == second.suggest("next")
    second.on_trial_complete("running", result(9.0, 10))
    assert second.study.best_value == 9.0


def test_optuna_learns() -> None:
    space = SearchSpace.parse({"lr": {"uniform": [0, 1]}})
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=5)
    search = OptunaSearch(space, metric=METRIC, mode="max", sampler=sampler)
    lrs = []
    for number in range(40):
        lrs.append(search.suggest(str(number))["lr"])
        search.on_trial_complete(str(number), result(-abs(lrs[-1] - 0.3), 10))
    assert np.mean(np.abs(np.array(lrs[-20:]) - 0.3)) < 0.2


def test_spaces_can_be_pickled() -> None:
    space = SearchSpace.parse(SPACE)
    assert pickle.loads(pickle.dumps(space)) == space
