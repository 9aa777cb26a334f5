"""Several agents with env runners, learners and evaluations in actors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from telling_agents import by_env_runner, killed, killed_amid_a_sample, moving, num_in_memory
from tiers import rarely

from trainables import PPOConfig, QMIXConfig
from trainables.registry import get_algorithm
from trainables.runtime.sampling.agents.runner import AgentsEnvRunner

GAME = "multi_agent_cartpole"


pytestmark = pytest.mark.usefixtures("ray_here")


def build(kind: str = "PPO", **settings: Any) -> Any:
    config: Any
    if kind == "PPO":
        config = PPOConfig().training(train_batch_size=128, minibatch_size=64, num_epochs=2)
    elif kind == "QMIX":
        config = QMIXConfig().environment("two_step_game").debugging(seed=7)
        config.env_runners(num_env_runners=2, num_envs_per_env_runner=2, rollout_fragment_length=8)
        config.training(num_steps_sampled_before_learning_starts=32, train_batch_size=16)
        config.env_runners(num_cpus_per_env_runner=0.25)
        config.reporting(min_sample_timesteps_per_iteration=64)
        return config.update_from_dict(settings).build()
    elif kind in ("A2C", "APPO", "IMPALA"):
        config = get_algorithm(kind).config_class().training(train_batch_size=128)
        if kind != "A2C":
            config.env_runners(rollout_fragment_length=8)
    else:
        config = (
            get_algorithm(kind)
            .config_class()
            .training(
                num_steps_sampled_before_learning_starts=32,
                replay_buffer_config={"capacity": 4000},
                train_batch_size=16,
            )
        )
        config.env_runners(rollout_fragment_length=8)
        config.training(store_buffer_in_checkpoints=True)
        config.reporting(min_sample_timesteps_per_iteration=64)
    config.environment(GAME, env_config={"num_agents": 3})
    config.env_runners(num_env_runners=2, num_envs_per_env_runner=2)
    config.multi_agent(policies=["a", "b"], policy_mapping_fn=moving)
    config.debugging(seed=7).training(model={"fcnet_hiddens": [16]})
    config.env_runners(num_cpus_per_env_runner=0.25)
    if settings.get("num_learners"):
        config.learners(num_cpus_per_learner=0.25)
    return config.update_from_dict(settings).build()


def weights_of(algo: Any) -> list[np.ndarray]:
    return [own for by_name in algo.get_weights().values() for own in by_name.values()]


def assert_equal(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", rarely(["PPO", "DQN"], ["PPO"]))
def test_a_resumed_run_is_equal_to_the_bit(kind: str, tmp_path: Path) -> None:
    with build(kind) as algo:
        algo.train()
        algo.save(str(tmp_path))
        results = [algo.train() for _ in range(2)]
        weights = weights_of(algo)
    with build(kind) as again:
        again.restore(str(tmp_path))
        repeated = [again.train() for _ in range(2)]
        assert_equal(weights, weights_of(again))
    for name in ("module/a/episode_return_mean", "num_agent_steps_sampled_lifetime"):
        assert [r[name] for r in results] == [r[name] for r in repeated]


@pytest.mark.full("test_policies_come_and_go_on_actors")
def test_policies_on_disk_are_so_in_every_process() -> None:
    found = []
    for capacity in (None, 1):
        settings = {
            "policy_map_capacity": capacity,
            "num_learners": 1,
            "evaluation_interval": 1,
            "evaluation_duration": 2,
            "evaluation_num_env_runners": 1,
        }
        with build(**settings) as algo:
            returns = [algo.train()["evaluation/episode_return_mean"] for _ in range(2)]
            found.append((weights_of(algo), returns))
            in_memory = algo.env_runners.foreach_env_runner(num_in_memory)
            algo.add_policy("c")
            algo.train()
        assert in_memory == [capacity] * 2
    assert_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize(
    ("kind", "shared"),
    [
        ("PPO", False),
        pytest.param("PPO", True, marks=pytest.mark.full),
        pytest.param("A2C", False, marks=pytest.mark.full),
    ],
)
def test_two_learners_learn_what_one_does(kind: str, shared: bool) -> None:
    found = []
    for num_learners in (0, 1, 2):
        rows = 128 // max(num_learners, 1)
        own = {"train_batch_size_per_learner": rows, "shared_encoders": shared}
        with build(kind, num_learners=num_learners, **own) as algo:
            for _ in range(2):
                algo.train()
            found.append(weights_of(algo))
    assert_equal(found[0], found[1])
    # Adam's first steps have the sign even of a gradient that is nothing but rounding.
    parts = [np.concatenate([own.ravel() for own in weights]) for weights in (found[0], found[2])]
    assert np.median(np.abs(parts[0] - parts[1])) < 1e-5
    assert np.abs(parts[0] - parts[1]).max() < 1e-2


def test_policies_come_and_go_on_actors() -> None:
    with build(num_learners=1, evaluation_num_env_runners=1) as algo:
        algo.train()
        added = algo.add_policy("c", policy_mapping_fn={"agent_0": "c", "*": "b"}).get_weights()
        algo.remove_policy("a")
        for _ in range(4):
            result = algo.train()
        assert result["module/c/episode_return_mean"] > 0
        own = algo.get_weights()["c"]
        assert any((own[name] != value).any() for name, value in added.items())
        seen = algo.env_runners.foreach_env_runner(
            lambda runner: (sorted(runner.policies), runner.policies["c"].get_weights())
        )
        assert len(seen) == 2
        for ids, theirs in seen:
            assert ids == ["b", "c"]
            assert all((theirs[name] == value).all() for name, value in own.items())
        assert algo.evaluate()["module/c/episode_return_mean"] > 0


@pytest.mark.parametrize("kind", rarely(["IMPALA", "APPO"], ["IMPALA"]))
def test_fragments_of_some_policies_come_to_two_learners(kind: str) -> None:
    """Each env runner, and so many a fragment of a learner, has columns of one policy alone."""
    settings = {"observation_filter": "MeanStdFilter", "policy_mapping_fn": by_env_runner}
    with build(kind, num_learners=2, train_batch_size_per_learner=32, **settings) as algo:
        before = algo.get_weights()
        deadline = time.monotonic() + 120
        learned: set[str] = set()
        while len(learned) < 2:  # who begins late is waited for
            assert time.monotonic() < deadline, learned
            result = algo.train()
            learned = {
                module_id
                for module_id, own in algo.get_weights().items()
                if any((own[name] != value).any() for name, value in before[module_id].items())
            }
        for module_id in learned:
            assert result[f"learner/{module_id}/policy_lag"] >= 0
        assert result["num_agent_steps_sampled_lifetime"] > 100


@pytest.mark.parametrize("kind", rarely(["IMPALA", "APPO"], ["IMPALA"]))
def test_policies_come_and_go_while_fragments_are_under_way(kind: str) -> None:
    chosen = {"a", "b", "c"}
    settings = {"observation_filter": "MeanStdFilter", "num_learners": 1}
    settings["policies_to_train"] = lambda m, batch=None: batch is None or m in chosen
    with build(kind, **settings) as algo:
        for _ in range(2):
            algo.train()
        algo.add_policy("c", policy_mapping_fn={"agent_0": "c", "*": "b"})
        algo.remove_policy("a")
        chosen.remove("b")
        first = algo.get_weights()
        for _ in range(12):
            result = algo.train()
        after = algo.get_weights()
        assert any((after["c"][name] != value).any() for name, value in first["c"].items())
        assert all((after["b"][name] == value).all() for name, value in first["b"].items())
        assert not any(name.startswith("learner/a/") for name in result)
        assert result["module/c/episode_return_mean"] > 0


@pytest.mark.parametrize("kind", rarely(["PPO", "DQN", "IMPALA"], ["IMPALA"]))
def test_training_survives_the_death_of_an_env_runner(kind: str) -> None:
    with build(kind, restart_failed_env_runners=True) as algo:
        algo.train()
        algo.add_policy("c", policy_mapping_fn={"agent_0": "c", "*": "b"})
        algo.env_runners.foreach_env_runner(killed, env_runner_ids=[1])
        results = [algo.train() for _ in range(3)]
        assert algo.env_runners.restore() or results[-1]["num_env_runner_restarts"] == 1
        algo.train()
        kinds = algo.env_runners.foreach_env_runner(
            lambda runner: (type(runner).__name__, sorted(runner.policies))
        )
        assert kinds == [(AgentsEnvRunner.__name__, ["a", "b", "c"])] * 2


@pytest.mark.parametrize("kind", rarely(["PPO", "DQN", "QMIX"], ["PPO"]))
def test_the_death_of_an_env_runner_amid_a_sample_costs_that_sample_alone(kind: str) -> None:
    with build(kind, restart_failed_env_runners=True) as algo:
        arrived, sample = [0], algo.env_runners.sample

        def counted(**options: Any) -> Any:
            rollouts, episodes = sample(**options)
            arrived.append(episodes.num_env_steps)
            return rollouts, episodes

        algo.env_runners.sample = counted
        algo.train()
        algo.env_runners.foreach_env_runner(killed_amid_a_sample, env_runner_ids=[1])
        during = len(arrived)
        for _ in range(3):
            result = algo.train()
            assert result["num_env_steps_sampled_lifetime"] == sum(arrived)
        most = 0.75 * arrived[during - 1]  # steps that only reset do not count
        assert 0 < arrived[during] < most
        assert algo.env_runners.restore() or result["num_env_runner_restarts"] == 1
        trained = result["num_env_steps_trained_lifetime"]
        assert algo.train()["num_env_steps_trained_lifetime"] > trained and arrived[-1] > most
        seen = algo.env_runners.foreach_env_runner(
            lambda runner: {m: policy.get_weights() for m, policy in runner.policies.items()}
        )
        assert len(seen) == 2
        for policy_id in algo.policies:
            one, other = (found[policy_id] for found in seen)
            assert_equal([*one.values()], [*other.values()])


def encoders(weights: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [value for name, value in weights.items() if "encoder" in name]


@pytest.mark.parametrize("kind", rarely(["PPO", "IMPALA"], ["PPO"]))
def test_policies_with_one_encoder_on_two_learners(kind: str, tmp_path: Path) -> None:
    rows = {"num_learners": 2, "train_batch_size_per_learner": 64}
    with build(kind, shared_encoders=True, **rows) as algo:
        first = algo.get_weights()
        for _ in range(3):
            algo.train()
        algo.add_policy("c", policy_mapping_fn={"agent_0": "c", "*": "b"})
        added = algo.get_weights()
        assert_equal(encoders(added["b"]), encoders(added["c"]))
        for _ in range(3):
            algo.train()
        algo.set_weights({"a": first["a"]})
        assert_equal(encoders(algo.get_weights()["c"]), encoders(first["a"]))
        for _ in range(2):
            algo.train()
        algo.save(str(tmp_path))  # what was submitted is done
        algo.sync_weights()
        weights = algo.get_weights()
        acting = algo.env_runners.foreach_env_runner(
            lambda runner: {m: policy.get_weights() for m, policy in runner.policies.items()}
        )
    for learned in (weights, *acting):
        assert_equal(encoders(learned["a"]), encoders(learned["b"]))
        assert_equal(encoders(learned["a"]), encoders(learned["c"]))
        assert (learned["b"]["policy_head.0.bias"] != learned["c"]["policy_head.0.bias"]).any()
    for one, other in zip(encoders(first["b"]), encoders(weights["b"]), strict=True):
        assert (one != other).any()


@pytest.mark.full("test_policies_with_one_encoder_on_two_learners")
def test_encoders_that_become_one_do_so_on_learners(tmp_path: Path) -> None:
    with build("APPO", num_learners=1) as algo:
        for _ in range(3):
            algo.train()
        before = algo.get_weights()
        assert (before["a"]["encoder.0.bias"] != before["b"]["encoder.0.bias"]).any()
        algo.save(str(tmp_path))  # what was submitted is done
        learned = algo.get_weights()["b"]
        algo.add_policy("c", shared_encoders=[["b", "a"]])
        for m in "ab":
            assert_equal(encoders(algo.get_weights()[m]), encoders(learned))
        for _ in range(3):
            algo.train()
        algo.save(str(tmp_path))
        weights = algo.get_weights()
        assert_equal(encoders(weights["a"]), encoders(weights["b"]))
        assert (weights["a"]["encoder.0.bias"] != learned["encoder.0.bias"]).any()
