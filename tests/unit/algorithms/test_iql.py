"""IQL on recorded data, and how it goes on with the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from offline_fakes import CARTPOLE, random_episodes
from q_learning_runs import ONLINE, PENDULUM, on, weights_of
from ray import tune
from recorded_data import recorded, write
from refusals import Golden, refusals

from trainables import IQL, SAC, Algorithm, IQLConfig, Policy
from trainables.core.config.model import ModelConfig
from trainables.core.errors import ConfigError
from trainables.core.networks.implicit_q import ImplicitQ
from trainables.runtime.offline.cache import VARIABLE
from trainables.runtime.offline.episode import DataSpaces

spaces = pytest.mark.parametrize("space", [CARTPOLE, PENDULUM])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))


def target_of(algo: Any) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = (
        algo.learners["default_policy"].targets["critic"].network.state_dict()
    )
    return weights


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


@spaces
def test_a_resumed_run_is_the_same_to_the_bit(space: DataSpaces, tmp_path: Path) -> None:
    """Networks, targets, moments and the draws."""
    folder = write(tmp_path / "data", random_episodes(space, [20, 30, 25]), space)
    with IQL(on(folder)) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "saved"))
        algo.train()
        expected = weights_of(algo)
        target = target_of(algo)
    with Algorithm.from_checkpoint(saved, trust=[folder]) as again:
        again.train()
        assert same(weights_of(again), expected)
        found = target_of(again)
        assert all(torch.equal(found[name], target[name]) for name in target)


@pytest.mark.parametrize(("end", "value"), [("terminated", 0.0), ("truncated", 1.0)])
def test_what_follows_a_terminal_state_is_nothing(end: str, value: float, tmp_path: Path) -> None:
    """And after a time limit the value of what was seen last."""
    folder = write(tmp_path / "data", random_episodes(CARTPOLE, [1] * 10, ends=(end,)), CARTPOLE)
    with IQL(on(folder, gamma=0.9)) as algo:
        drawn = next(iter(algo.experience.draws({"default_policy": 1}, 1.0)))[1]
        assert np.unique(drawn.columns["discounts"].numpy()) == pytest.approx([0.9 * value])


def test_only_the_groups_with_a_rate_move(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", random_episodes(PENDULUM, [20, 30]), PENDULUM)
    prefixes = {"actor_lr": "actor", "critic_lr": "critic", "value_lr": "state_value"}
    for rate, prefix in prefixes.items():
        with IQL(on(folder, lr=0.0, **{rate: 1e-2})) as algo:
            before = weights_of(algo)
            result = algo.train()
            after = weights_of(algo)
        moved = {n.partition(".")[0] for n in before if not np.array_equal(before[n], after[n])}
        assert moved == {prefix}
        assert result[f"learner/default_policy/curr_{rate}"] == 1e-2


def test_expectile_and_beta_reach_the_losses(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", random_episodes(PENDULUM, [20, 30]), PENDULUM)
    found = []
    for more in ({}, {"expectile": 0.99}, {"beta": 0.1}):
        with IQL(on(folder, **more)) as algo:
            found.append({n.rpartition("/")[2]: v for n, v in algo.train().items()})
    assert found[1]["v_mean"] > found[0]["v_mean"]  # nearer to the best of the actions
    assert abs(found[2]["mean_weight"] - 1) < abs(found[0]["mean_weight"] - 1)


def test_it_mixes_data_with_what_it_samples() -> None:
    settings = {**ONLINE, "input_": {"sampler": 0.5, recorded("Pendulum-v1"): 0.5}}
    with IQL(settings) as algo:
        result = algo.train()
    assert result["num_env_steps_sampled_lifetime"] >= 40 and result["num_updates_lifetime"] > 0


# ------------------------------------------------------------------ going on


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("iql")
    with IQL(on(recorded("Pendulum-v1"))) as algo:
        algo.train()
        algo.save(str(folder / "checkpoint"))
    return folder / "checkpoint"


@pytest.mark.parametrize(
    ("algorithm", "more", "fresh"),
    [(IQL, {}, set()), (SAC, {"initial_alpha": 0.1}, {"log_alpha"})],
)
def test_it_goes_on_with_the_environment(
    algorithm: Any, more: dict[str, Any], fresh: set[str], learned: Path
) -> None:
    """IQL with all that it has learned, SAC with policy and Q-functions and its own alpha."""
    obs = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    policy = Policy.load(learned)
    stored, actions = policy.get_weights(), policy.compute_actions(obs, explore=False)
    with algorithm({**ONLINE, **more, "load_state_path": str(learned)}) as algo:
        begins = weights_of(algo)
        assert begins.keys() - stored.keys() == fresh
        assert all(np.array_equal(begins[n], stored[n]) for n in begins.keys() - fresh)
        if fresh:
            assert begins["log_alpha"] == pytest.approx(np.log(0.1))
        assert np.array_equal(algo.compute_actions(obs, explore=False), actions)
        target = target_of(algo)
        assert all(np.array_equal(v.numpy(), stored[f"critic.{n}"]) for n, v in target.items())
        algo.train()
        assert not same(weights_of(algo), begins)


def test_other_networks_are_refused(learned: Path) -> None:
    with pytest.raises(ConfigError, match=r"there module is \{'twin_q': True.*'twin_q': False"):
        SAC({**ONLINE, "twin_q": False, "load_state_path": str(learned)})
    with pytest.raises(ConfigError, match=r"there the model has fcnet_hiddens = \[8\]"):
        SAC({**ONLINE, "model": {"fcnet_hiddens": [9]}, "load_state_path": str(learned)})


# ------------------------------------------------------------------ settings


def test_bad_settings_are_refused(golden: Golden) -> None:
    cases = [
        {"expectile": 1.0},
        {"expectile": 0.0},
        {"beta": 0.0},
        {"tau": 1.5},
        {"value_lr": -1.0},
        {"q_model_config": {"fcnet_hidden": [8]}},
        {"model": {"use_lstm": True}},
        {"model": {"free_log_std": True}},
        {"alpha_lr": 1e-3},
        {"exploration_config": {"type": "GaussianNoise"}},
    ]
    golden(
        "iql/bad_settings_are_refused",
        refusals(
            lambda settings: IQLConfig.from_dict({"env": "Pendulum-v1", **settings}).validate(),
            cases,
        ),
    )


def test_action_spaces_that_it_has_no_values_of_are_refused() -> None:
    for space in (gym.spaces.MultiDiscrete([2, 3]), gym.spaces.Box(-np.inf, np.inf, (1,))):
        with pytest.raises(ConfigError, match="is not supported by implicit Q-learning"):
            ImplicitQ.distribution_of(space, ModelConfig.of({}))


def test_tune_knows_its_name() -> None:
    tuner = tune.Tuner("IQL", param_space={"env": "Pendulum-v1", "expectile": 0.9})
    assert tuner is not None
    config = IQLConfig().training(expectile=0.9, beta=0.5, actor_lr=[[0, 3e-4], [1000, 0.0]])
    assert config.own_algorithm() is IQL
