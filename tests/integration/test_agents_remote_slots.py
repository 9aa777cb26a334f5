"""Slots with several agents in processes of their own: what is learned, and what fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from breaking_agents import BreakingAgents, shifted
from telling_agents import PATTERNS, moving
from tiers import rarely

from trainables import DQNConfig, PPOConfig

REMOTE = "remote_worker_envs"


def config_of(kind: str, env: Any, **settings: Any) -> Any:
    config: Any
    if kind == "PPO":
        config = PPOConfig().training(train_batch_size=64, minibatch_size=32, num_epochs=2)
    else:
        config = DQNConfig().training(
            num_steps_sampled_before_learning_starts=32,
            replay_buffer_config={"capacity": 4000},
            train_batch_size=16,
            store_buffer_in_checkpoints=True,
        )
        config.env_runners(rollout_fragment_length=8)
        config.reporting(min_sample_timesteps_per_iteration=64)
    config.environment(env, env_config={"num_agents": 3, "length": 4})
    config.env_runners(num_envs_per_env_runner=2, num_cpus_per_env_runner=0.5).training(
        model={"fcnet_hiddens": [8]}
    )
    config.multi_agent(policies=["a", "b"], policy_mapping_fn=moving).debugging(seed=7)
    return config.update_from_dict(settings)


def sampled(config: Any) -> Any:
    with config.build() as algorithm:
        runner = algorithm.env_runners.local_env_runner
        found = [runner.sample(length) for length in (7, 25)]
    return [
        ({module: vars(rollout) for module, rollout in rollouts.items()}, vars(episodes))
        for rollouts, episodes in found
    ]


OTHERS: dict[str, dict[str, Any]] = {
    "function": {"env": PATTERNS["join later"], "observation_fn": shifted},
    "one agent": {"env": "CartPole-v1", "env_config": {}, "policy_mapping_fn": {"*": "b"}},
    "pettingzoo": {"env": "pettingzoo:classic.tictactoe_v3", "env_config": {}},
    "parallel": {"env": "pettingzoo:mpe2.simple_spread_v3", "env_config": {}},
}


@pytest.mark.parametrize(
    "pattern", rarely([p for p in PATTERNS if p != "two kinds"], ["random turns", "masked"])
)
def test_all_patterns_give_the_rows_of_slots_in_this_process(pattern: str) -> None:
    one, other = (
        sampled(config_of("PPO", PATTERNS[pattern], remote_worker_envs=r)) for r in (False, True)
    )
    np.testing.assert_equal(one, other)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", rarely(list(OTHERS), ["function"]))
def test_so_do_other_environments(name: str) -> None:
    settings = OTHERS[name]
    if "pettingzoo" in str(settings["env"]):
        pytest.importorskip("pettingzoo")
        pytest.importorskip("mpe2")
        settings = {**settings, "policy_mapping_fn": {"*": "a"}}
    one, other = (
        sampled(config_of("PPO", **settings, remote_worker_envs=r)) for r in (False, True)
    )
    np.testing.assert_equal(one, other)


def weights_of(algo: Any) -> list[Any]:
    return [own for by_name in algo.get_weights().values() for own in by_name.values()]


@pytest.mark.parametrize("kind", rarely(["PPO", "DQN"], ["PPO"]))
def test_actors_with_remote_slots_learn_the_same_and_resume(
    kind: str, ray_here: None, tmp_path: Path
) -> None:
    weights, returns, played = [], [], []
    for remote in (False, True):
        settings = {REMOTE: remote, "num_env_runners": 2, "evaluation_duration": 3}
        config = config_of(kind, PATTERNS["random turns"], **settings)
        with config.build() as algo:
            algo.train()
            if remote:
                algo.save(str(tmp_path))
            results = [algo.train() for _ in range(2)]
            weights.append(weights_of(algo))
            returns.append([result["episode_return_mean"] for result in results])
            played.append(algo.evaluate()["episode_return_mean"])
    with config.build() as again:  # in other processes, amid the same episodes
        again.restore(str(tmp_path))
        results = [again.train() for _ in range(2)]
        weights.append(weights_of(again))
        returns.append([result["episode_return_mean"] for result in results])
    assert returns[0] == returns[1] == returns[2]
    assert played[0] == played[1]
    np.testing.assert_equal(weights[0], weights[1])
    np.testing.assert_equal(weights[0], weights[2])


@pytest.mark.parametrize("what", rarely(["raise", "die"], ["die"]))
def test_what_fails_in_an_actor_is_replaced_and_counted(
    what: str, ray_here: None, tmp_path: Path
) -> None:
    env_config = {"breaks": {1: what}, "once": str(tmp_path), "length": 4}
    settings = {REMOTE: True, "num_env_runners": 1, "env_config": env_config}
    config = config_of("PPO", BreakingAgents, restart_failed_sub_environments=True, **settings)
    with config.build() as algo:
        results = [algo.train() for _ in range(2)]
    assert [result["num_sub_environment_restarts"] for result in results] == [1, 1]
    assert results[-1]["num_env_runner_restarts"] == 0


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("raise", "step 2 raised OSError: lost"),
        pytest.param("die", r"its process has ended \(signal 9\)", marks=pytest.mark.full),
    ],
)
def test_else_it_is_one_error_that_names_the_slot(what: str, says: str, ray_here: None) -> None:
    settings = {REMOTE: True, "num_env_runners": 1, "env_config": {"breaks": {1: what}}}
    with (
        config_of("PPO", BreakingAgents, **settings).build() as algo,
        pytest.raises(Exception, match=f"BreakingAgents', slot 1 of env runner 1: {says}"),
    ):
        algo.train()
