"""CQL on recorded data and with the sampler, its multiplier, and how SAC goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from offline_fakes import CARTPOLE, random_episodes
from q_learning_runs import ONLINE, PENDULUM, SMALL, on, weights_of
from ray import tune
from recorded_data import recorded, write
from refusals import Golden, refusals

from trainables import CQL, SAC, Algorithm, CQLConfig, Policy
from trainables.core.errors import ConfigError
from trainables.runtime.offline.cache import VARIABLE
from trainables.runtime.offline.episode import DataSpaces

spaces = pytest.mark.parametrize("space", [CARTPOLE, PENDULUM])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))


def short(result: dict[str, Any]) -> dict[str, Any]:
    return {name.rpartition("/")[2]: value for name, value in result.items()}


def test_the_samples_of_the_reference() -> None:
    """But for the four env runners, which take processes."""
    config = CQLConfig().training(gamma=0.9, lr=0.01)
    config = config.resources(num_gpus=0)
    config = config.env_runners(num_env_runners=0)
    assert config.to_dict()["gamma"] == 0.9
    config = config.training(num_steps_sampled_before_learning_starts=100)
    config = config.reporting(min_sample_timesteps_per_iteration=120)
    algo = config.build(env="CartPole-v1")
    result = algo.train()
    algo.stop()
    assert result["num_updates_lifetime"] > 0
    assert np.isfinite(short(result)["cql_gap"])


@spaces
def test_a_resumed_run_is_the_same_to_the_bit(space: DataSpaces, tmp_path: Path) -> None:
    """Networks, moments, draws, and the multiplier that is beside the networks."""
    folder = write(tmp_path / "data", random_episodes(space, [20, 30, 25]), space)
    with CQL(on(folder, lagrangian=True, lagrangian_thresh=1.0, bc_iters=7)) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "saved"))
        multiplier = short(algo.train())["alpha_prime"]
        expected = weights_of(algo)
    assert multiplier != 1.0
    with Algorithm.from_checkpoint(saved, trust=[folder]) as again:
        assert short(again.train())["alpha_prime"] == multiplier
        found = weights_of(again)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert not [name for name in expected if "prime" in name]  # it is no part of the policy


@pytest.mark.parametrize(("bc_iters", "moves"), [(0, True), (3, True), (5, False)])
def test_cloning_ends_after_bc_iters(bc_iters: int, moves: bool, tmp_path: Path) -> None:
    """As long as it lasts the policy does not ask what Q says: Q's step size changes nothing."""
    folder = write(tmp_path / "data", random_episodes(CARTPOLE, [20, 30]), CARTPOLE)
    actors = []
    for critic_lr in (1e-2, 1e-1):
        settings = on(folder, bc_iters=bc_iters, critic_lr=critic_lr, actor_lr=1e-2)
        with CQL(settings) as algo:
            algo.train()  # 5 updates
            weights = weights_of(algo)
        actors.append({n: v for n, v in weights.items() if n.startswith("actor")})
    one, other = actors
    assert all(np.array_equal(one[name], other[name]) for name in one) is not moves


def test_proposals_are_of_the_actions_that_q_sees(tmp_path: Path) -> None:
    """In (-1, 1), though Pendulum's torques are in [-2, 2]."""
    folder = write(tmp_path / "data", random_episodes(PENDULUM, [20, 30]), PENDULUM)
    with CQL(on(folder, num_actions=4)) as algo:
        drawn = next(iter(algo.experience.draws({"default_policy": 1}, 1.0)))[1]
        columns = algo.prepare(algo.policies["default_policy"], drawn.columns)
    rows = len(columns["rewards"])
    assert columns["uniform"].shape == (rows, 4, 1)
    assert columns["proposal_noise"].shape == (rows, 8, 1)
    assert columns["uniform"].abs().max() <= 1 and columns["actions"].abs().max() <= 1
    assert torch.equal(columns["actions"], columns["before_tanh"].tanh())


def test_a_greater_weight_presses_q_down(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", random_episodes(PENDULUM, [40, 40]), PENDULUM)
    gaps = []
    for weight in (0.0, 50.0):
        settings = on(folder, min_q_weight=weight, dataset_num_iters_per_learner=60)
        with CQL(settings) as algo:
            gaps.append(short(algo.train())["cql_gap"])
    assert gaps[1] < gaps[0]


def test_it_mixes_data_with_what_it_samples() -> None:
    settings = {**ONLINE, "input_": {"sampler": 0.5, recorded("Pendulum-v1"): 0.5}}
    with CQL(settings) as algo:
        result = algo.train()
    assert result["num_env_steps_sampled_lifetime"] >= 40 and result["num_updates_lifetime"] > 0


def test_sac_goes_on_with_the_environment(tmp_path: Path) -> None:
    """With the same networks: policy, Q-functions and the weight of the entropy."""
    with CQL(on(recorded("Pendulum-v1"), lagrangian=True)) as algo:
        algo.train()
        algo.save(str(tmp_path / "cql"))
    stored = Policy.load(tmp_path / "cql").get_weights()
    with SAC({**ONLINE, "load_state_path": str(tmp_path / "cql")}) as algo:
        begins = weights_of(algo)
        assert begins.keys() == stored.keys()
        assert all(np.array_equal(begins[name], stored[name]) for name in stored)
        algo.train()
        after = weights_of(algo)
    assert not all(np.array_equal(begins[name], after[name]) for name in begins)


def test_bad_settings_are_refused(golden: Golden) -> None:
    cases = [
        {"temperature": 0.0},
        {"num_actions": 0},
        {"bc_iters": -1},
        {"min_q_weight": -1.0},
        {"lagrangian_thresh": 3.0},
        {"lagrangian": True, "min_q_weight": 0.0},
        {"expectile": 0.9},
        {"model": {"use_lstm": True}},
    ]
    golden(
        "cql/bad_settings_are_refused",
        refusals(
            lambda settings: CQLConfig.from_dict({"env": "Pendulum-v1", **settings}).validate(),
            cases,
        ),
    )


def test_num_actions_has_no_effect_on_discrete_ones() -> None:
    with pytest.raises(ConfigError, match="num_actions = 4 has no effect with discrete actions"):
        CQL({**SMALL, "env": "CartPole-v1", "num_actions": 4})


def test_tune_knows_its_name() -> None:
    tuner = tune.Tuner("CQL", param_space={"env": "Pendulum-v1", "min_q_weight": 2.0})
    assert tuner is not None
    assert CQLConfig().training(lagrangian=True).own_algorithm() is CQL


def test_cloning_takes_actions_of_any_shape(tmp_path: Path) -> None:
    observations = gym.make("Pendulum-v1").observation_space
    space = DataSpaces(observations, gym.spaces.Box(-2.0, 2.0, (2, 1)))
    folder = write(tmp_path / "data", random_episodes(space, [20, 30]), space)
    with CQL(on(folder, bc_iters=3)) as algo:
        result = algo.train()  # 3 updates that clone, 2 that do not
    assert np.isfinite(short(result)["policy_loss"])
