"""Search spaces in a hand-written `tune.Tuner`, with Tune's own random and Optuna search."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from search_spaces import SearchSpace, SpecError, load_space
from search_spaces.conditions import look_up
from trainables.dqn import DQNConfig
from trainables.ppo import PPO, PPOConfig

METRIC = "episode_return_mean"
CONDITIONAL = {
    "lr": {"loguniform": [1e-4, 1e-3]},
    "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
    "minibatch_size": {"randint": [5, 7], "transform": "power_of_two"},
    "use_kl_loss": {"choice": [True, False]},
    "kl_coeff": {"uniform": [0.5, 0.9], "when": {"use_kl_loss": True}},
    "model.fcnet_hiddens": {"choice": [[8], [8, 8]]},
}
FIXED = {
    "env": "CartPole-v1",
    "train_batch_size_per_learner": 128,
    "num_epochs": 1,
    "num_envs_per_env_runner": 4,
}


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split("/")
        node = result
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return result


def test_define_by_run_suggests_what_is_active() -> None:
    import optuna

    space = load_space("dqn/wide")
    function = space.to_optuna()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    names = set()
    for _ in range(60):
        trial = study.ask()
        flat = function(trial)
        assert list(trial.params) == list(flat)
        assert ("sigma0" in flat) == flat["noisy"] and ("v_min" in flat) == (
            flat["num_atoms"] == 51
        )
        assert 0.8 <= flat["gamma"] <= 0.9999
        assert math.log2(flat["train_batch_size_per_learner"]).is_integer()
        DQNConfig.from_dict({"env": "CartPole-v1", **nested(flat)}).validate()
        names |= set(flat)
    assert names == {key.replace(".", "/") for key in space.keys}


def test_a_grid_is_refused() -> None:
    with pytest.raises(SpecError, match="lr: Optuna cannot search a grid; write choice"):
        SearchSpace.parse({"lr": {"grid": [1]}}).to_optuna()


@pytest.mark.parametrize("name", ["ppo/zoo", "dqn/wide"])
def test_tunes_optuna_search_suggests_and_goes_on(name: str, tmp_path: Path) -> None:
    from ray.tune.search.optuna import OptunaSearch

    config_class: Any = PPOConfig if name.startswith("ppo") else DQNConfig
    searches = [
        OptunaSearch(load_space(name).to_optuna(), metric=METRIC, mode="max", seed=0)
        for _ in range(2)
    ]
    for number in range(12):
        config = searches[0].suggest(str(number))
        assert config is not None
        config_class.from_dict({"env": "CartPole-v1", **config}).validate()
        searches[0].on_trial_complete(str(number), {METRIC: config["lr"], "training_iteration": 1})
    searches[0].save(str(tmp_path / "state"))
    searches[1].restore(str(tmp_path / "state"))
    assert searches[0].suggest("next") == searches[1].suggest("next")


def fit(tmp_path: Path, param_space: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """The configs of trials of one iteration, all of which must succeed."""
    results = tune.Tuner(
        PPO,
        param_space=param_space,
        tune_config=tune.TuneConfig(
            metric=METRIC, mode="max", max_concurrent_trials=1, reuse_actors=True, **options
        ),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 1}, verbose=0
        ),
    ).fit()
    assert results.num_errors == 0, results.errors
    return [result.config for result in results if result.config is not None]


def check(configs: list[dict[str, Any]]) -> None:
    for config in configs:
        assert 1e-4 <= config["lr"] <= 1e-3 and 0.9 <= config["gamma"] <= 0.999
        assert config["minibatch_size"] in (32, 64)
        assert config["model"]["fcnet_hiddens"] in ([8], [8, 8])
    assert len({config["gamma"] for config in configs}) == len(configs)


@pytest.mark.usefixtures("ray_here")
def test_tunes_random_search(tmp_path: Path) -> None:
    space = SearchSpace.parse(CONDITIONAL)
    configs = fit(tmp_path, {**FIXED, **space.to_tune(PPOConfig())}, num_samples=4)
    assert len(configs) == 4
    check(configs)
    for config in configs:
        assert config["use_kl_loss"] == (config["kl_coeff"] != 0.2)


@pytest.mark.usefixtures("ray_here")
def test_tunes_optuna_search(tmp_path: Path) -> None:
    from ray.tune.search.optuna import OptunaSearch

    space = SearchSpace.parse(CONDITIONAL)
    search = OptunaSearch(space.to_optuna(), metric=METRIC, mode="max", seed=0)
    configs = fit(tmp_path, FIXED, search_alg=search, num_samples=4)
    assert len(configs) == 4
    check(configs)
    for config in configs:
        assert config["use_kl_loss"] == look_up(config, ("kl_coeff",))[0]
        assert config["env"] == "CartPole-v1"
