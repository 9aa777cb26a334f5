"""Search spaces in plain Tune: its own Optuna search takes them as functions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from search_spaces import SearchSpace, SpecError, load_space
from search_spaces.define_by_run import DefineByRun
from trainables.dqn import DQNConfig
from trainables.ppo import PPOConfig

METRIC = "episode_return_mean"


class FakeTrial:
    """An Optuna trial that draws with a generator of its own and notes what it is asked."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.names: list[str] = []

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        self.names.append(name)
        return choices[int(self.generator.integers(len(choices)))]

    def suggest_int(self, name: str, low: int, high: int, **options: Any) -> int:
        self.names.append(name)
        step = options.get("step", 1)
        return int(low + step * self.generator.integers((high - low) // step + 1))

    def suggest_float(self, name: str, low: float, high: float, **options: Any) -> float:
        self.names.append(name)
        drawn = self.generator.uniform(
            *map(math.log, (low, high)) if options.get("log") else (low, high)
        )
        return float(math.exp(drawn) if options.get("log") else drawn)


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
    space = load_space("dqn/wide")
    function = space.to_optuna()
    names = set()
    for seed in range(60):
        trial = FakeTrial(seed)
        flat = function(trial)
        assert trial.names == list(flat)
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
        DefineByRun(SearchSpace.parse({"lr": {"grid": [1]}}))


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
