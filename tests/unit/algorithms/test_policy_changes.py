"""Policies that are added and removed while an algorithm runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_row import check_rows
from telling_agents import JoinLater, TwoKinds
from tiers import rarely

from trainables import Policy, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError
from trainables.registry import get_algorithm

GAME = "multi_agent_cartpole"
KINDS = ["PPO", "DQN", "SAC", "IMPALA", "APPO", "A2C"]


def by_number(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    return "a" if agent_id.endswith("0") else "b"


def with_c(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    return "c" if agent_id.endswith("0") else "b"


def build(kind: str = "PPO", env: Any = GAME, **multi_agent: Any) -> Any:
    multi_agent = {"policies": ["a", "b"], "policy_mapping_fn": by_number, **multi_agent}
    if kind == "PPO":
        config: Any = PPOConfig().training(train_batch_size=96, minibatch_size=48, num_epochs=1)
    elif kind in ("IMPALA", "APPO", "A2C"):
        config = get_algorithm(kind).config_class().training(train_batch_size=96)
        if kind != "A2C":
            config.env_runners(rollout_fragment_length=16)
        if kind == "APPO":
            config.training(use_kl_loss=True)
    else:
        config = (
            get_algorithm(kind)
            .config_class()
            .training(
                num_steps_sampled_before_learning_starts=16,
                replay_buffer_config={"capacity": 2000},
                train_batch_size=16,
                training_intensity=4.0,  # SAC's own 256 is 16 updates a step of such batches
            )
        )
        config.env_runners(rollout_fragment_length=8)
        config.reporting(min_sample_timesteps_per_iteration=64)
    config.training(model={"fcnet_hiddens": [16]})  # wide ones are as right, and take seconds
    config.environment(env, env_config={"num_agents": 2})
    config.env_runners(num_envs_per_env_runner=2).debugging(seed=5)
    return config.multi_agent(**multi_agent).build()


def differ(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return any((one[name] != value).any() for name, value in other.items())


@pytest.mark.parametrize("kind", rarely(KINDS, ["PPO", "APPO", "DQN"]))
def test_one_that_is_added_acts_learns_and_is_in_the_checkpoint(kind: str, tmp_path: Path) -> None:
    algo = build(kind)
    algo.train()
    kept = algo.get_policy("b")
    first = algo.add_policy("c", policy_mapping_fn=with_c).get_weights()
    assert algo.get_policy("b") is kept
    result = [algo.train() for _ in range(3)][-1]
    assert result["module/c/episode_return_mean"] > 0
    assert any(name.startswith("learner/c/") for name in result)
    assert differ(first, algo.get_weights()["c"])
    assert algo.evaluate()["module/c/episode_return_mean"] > 0
    algo.save(str(tmp_path))
    weights = algo.get_weights()
    algo.stop()
    again = type(algo).from_checkpoint(str(tmp_path), trust=[f"{__name__}:with_c"])
    assert not any(differ(weights[m], own) for m, own in again.get_weights().items())
    again.train()
    again.stop()


@pytest.mark.parametrize("kind", rarely(KINDS, ["PPO", "APPO", "DQN"]))
def test_the_others_learn_as_if_nobody_had_come(kind: str) -> None:
    """A policy to which no agent is mapped changes nothing."""
    weights = []
    for adds in (False, True):
        algo = build(kind)
        algo.train()
        if adds:
            algo.add_policy("c")
        algo.train()
        weights.append(algo.get_weights(["a", "b"]))
        algo.stop()
    for module_id, own in weights[0].items():
        assert not differ(own, weights[1][module_id])


def test_whoever_plays_keeps_its_policy_until_its_episode_ends() -> None:
    algo = build()
    runner = algo.env_runners.local_env_runner
    runner.sample(3)
    algo.add_policy("c", policy_mapping_fn=with_c)
    algo.remove_policy("a")
    assert [*algo.policies] == [*runner.policies] == ["b", "c"]
    rollouts, _ = runner.sample(2)  # no pole has fallen yet
    assert set(rollouts) == {"a", "b"}
    for _ in range(60):
        rollouts, _ = runner.sample(5)
    assert set(rollouts) == {"b", "c"}
    assert set(algo.train()) & {"module/a/episode_return_mean", "module/c/episode_return_mean"}
    algo.stop()


def test_an_id_is_free_for_another_policy_while_the_one_before_still_acts() -> None:
    algo = build()
    runner = algo.env_runners.local_env_runner
    runner.sample(3)
    before = algo.get_policy("a")
    algo.remove_policy("a", policy_mapping_fn={"*": "b"})
    added = algo.add_policy("a", config={"lr": 1e-6}, policy_mapping_fn=by_number)
    assert added is algo.get_policy("a") is runner.policies["a"] is not before
    acting = runner._lanes.recorded  # by id, until the episodes end that run
    assert [lanes.recorder.policy for m, lanes in acting.items() if m != "b"] == [before, added]
    rollouts, _ = runner.sample(2)  # no pole has fallen yet
    assert set(rollouts) == {"b"}  # nobody learns what the one before does
    for _ in range(60):
        rollouts, _ = runner.sample(5)
    assert set(rollouts) == {"a", "b"} == set(acting)
    assert acting["a"].recorder.policy is added
    runner.reseed(np.random.SeedSequence(3))
    assert set(runner.sample(2)[0]) == {"a", "b"}
    algo.stop()


@pytest.mark.parametrize("kind", rarely(KINDS, ["PPO", "APPO", "DQN"]))
def test_a_policy_whose_id_was_used_before_learns_from_its_own_rows(kind: str) -> None:
    algo = build(kind)
    for _ in range(2):
        algo.train()
    algo.remove_policy("a", policy_mapping_fn={"*": "b"})
    first = algo.add_policy("a", config={"gamma": 0.5}, policy_mapping_fn=by_number).get_weights()
    result = [algo.train() for _ in range(3)][-1]
    assert algo.config_of("a").gamma == 0.5
    assert any(name.startswith("learner/a/") for name in result)
    assert differ(first, algo.get_weights()["a"])
    algo.stop()


@pytest.mark.parametrize("kind", ["IMPALA", "APPO"])
def test_fragments_of_before_are_not_trained_on_by_one_that_has_the_id_again(kind: str) -> None:
    algo = build(kind)
    algo.train()
    runners, before = algo.env_runners, algo.env_runners.ready_samples()
    algo._fragments.add(before[0])
    algo.remove_policy("a", policy_mapping_fn={"*": "b"})
    algo.add_policy("a", policy_mapping_fn=by_number)
    assert len(algo._fragments) == 0
    late, runners.ready_samples = runners.ready_samples, lambda timeout_s=None: before
    assert algo._receive(0.0) and len(algo._fragments) == 0  # it was under way
    runners.ready_samples = late
    assert algo._receive(0.0) and len(algo._fragments) == 1
    algo.stop()


def test_a_run_is_not_resumed_with_another_policy_of_the_same_id(tmp_path: Path) -> None:
    algo = build()
    algo.remove_policy("a", policy_mapping_fn={"*": "b"})
    algo.add_policy("a", config={"lr": 1e-6}, policy_mapping_fn={"agent_0": "a", "*": "b"})
    algo.save(str(tmp_path))
    algo.stop()
    mapping = {"agent_0": "a", "*": "b"}
    with pytest.raises(CheckpointError, match="the policy 'a' was removed and is another by then"):
        resumed("PPO", tmp_path, policy_mapping_fn=mapping)
    policies = {"a": {"config": {"lr": 1e-6}}, "b": None}
    again = resumed("PPO", tmp_path, policy_mapping_fn=mapping, policies=policies)
    assert again.config_of("a").lr == 1e-6
    again.stop()
    rebuilt = type(algo).from_checkpoint(str(tmp_path))
    assert rebuilt.config_of("a").lr == 1e-6
    rebuilt.stop()


def test_one_that_is_removed_is_gone_from_learners_and_checkpoints(tmp_path: Path) -> None:
    algo = build("DQN", policies=["a", "b", "c"])
    algo.train()
    algo.remove_policy("b", policy_mapping_fn=lambda agent_id, *_: "a")
    for _ in range(3):
        algo.train()
    assert [*algo.policies] == [*algo.experience] == [*algo.learners.worker.learners] == ["a", "c"]
    assert algo.get_policy("b") is None
    with pytest.raises(KeyError, match=r"no policy 'default_policy'; there are \['a', 'c'\]"):
        algo.get_policy()
    algo.save(str(tmp_path))
    assert sorted(path.name for path in (tmp_path / "policies").iterdir()) == ["a", "c"]
    algo.stop()


def test_weights_of_another_runs_policy(tmp_path: Path) -> None:
    other = build()
    other.train()
    folder = other.export_policy_checkpoint(str(tmp_path / "policy"), policy_id="a")
    taken = other.get_weights()["a"]
    other.stop()
    algo = build(policies_to_train=["a", "b"])
    algo.add_policy("frozen", policy=Policy.load(folder))
    assert not differ(taken, algo.get_weights()["frozen"])
    algo.train()
    assert not differ(taken, algo.get_weights()["frozen"])  # it is not among those that learn
    algo.stop()


def resumed(kind: str, folder: Path, **multi_agent: Any) -> Any:
    """What Tune does with a trial whose process has died."""
    algo = build(kind, **multi_agent)
    algo.restore(str(folder))
    return algo


@pytest.mark.parametrize("kind", rarely(KINDS, ["PPO", "APPO", "DQN"]))
def test_a_run_that_is_resumed_has_what_was_added_and_removed(kind: str, tmp_path: Path) -> None:
    algo = build(kind, policy_mapping_fn={"*": "a"})
    algo.train()
    algo.add_policy("c", config={"lr": 2e-4}, policy_mapping_fn={"agent_0": "c", "*": "a"})
    algo.add_policy("chance", "random")
    algo.remove_policy("b")
    algo.train()
    algo.save(str(tmp_path))
    algo.train()
    weights = algo.get_weights()
    algo.stop()
    again = resumed(kind, tmp_path, policy_mapping_fn={"*": "a"})
    assert [*again.policies] == [*weights] == ["a", "c"]
    assert again.config_of("c").lr == 2e-4
    if kind not in ("DQN", "SAC"):  # they would need their replay buffers
        again.train()
        assert not any(differ(weights[m], own) for m, own in again.get_weights().items())
    again.add_policy("b")
    assert [*again.policies] == ["a", "c", "b"]
    again.stop()


def test_a_resumed_run_imports_no_code_that_a_checkpoint_names(tmp_path: Path) -> None:
    algo = build()
    algo.add_policy("c", policy_mapping_fn=with_c)
    algo.save(str(tmp_path))
    algo.stop()
    with pytest.raises(CheckpointError, match="with_c"):
        resumed("PPO", tmp_path)
    again = resumed("PPO", tmp_path, policy_mapping_fn=with_c, policies=["a", "b", "c"])
    assert [*again.policies] == ["a", "b", "c"]
    again.stop()


def test_a_policy_written_by_hand() -> None:
    algo = build(env=JoinLater)
    assert (
        algo.add_policy("chance", "random", policy_mapping_fn={"agent_1": "chance", "*": "a"})
        is None
    )
    result = [algo.train() for _ in range(3)][-1]
    assert result["module/chance/episode_return_mean"] > 0
    algo.stop()


def test_settings_of_its_own() -> None:
    algo = build()
    algo.add_policy("c", config={"lr": 1e-6}, policy_mapping_fn=with_c)
    result = [algo.train() for _ in range(3)][-1]
    assert result["learner/c/curr_lr"] == 1e-6
    algo.stop()


def test_what_cannot_be_added() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"policy_id": "a"}, "there is a policy 'a' in this run"),
        ({"policy_id": "x/y"}, "names a folder"),
        ({"policy_id": "c", "workers": [1]}, "workers is not supported"),
        ({"policy_id": "c", "evaluation_workers": False}, "evaluation_workers = False"),
        ({"policy_id": "c", "policies_to_train": ["d"]}, "there is no policy 'd'"),
        ({"policy_id": "c", "policy_mapping_fn": {"*": "d"}}, "there is no policy 'd'"),
        ({"policy_id": "c", "config": {"env": "x"}}, "env"),
        ({"policy_id": "c", "policy_cls": "no"}, "policy_class"),
    ]
    algo = build()

    def check(given: dict[str, Any], words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            algo.add_policy(**given)
        assert [*algo.policies] == ["a", "b"]

    check_rows(check, wrong)
    algo.train()  # nothing has changed
    algo.stop()


def test_spaces_that_no_agent_has() -> None:
    algo = build(env=TwoKinds, policy_mapping_fn=by_number)
    with pytest.raises(ConfigError, match="'c'"):
        algo.add_policy("c")  # no agent says which spaces it has
    added = algo.add_policy("c", policy_mapping_fn=with_c)
    assert added.observation_space == algo.get_policy("a").observation_space
    algo.stop()


def test_an_environment_of_one_agent_has_one_policy_or_those_of_the_setting() -> None:
    config = PPOConfig().training(train_batch_size=64, minibatch_size=64, num_epochs=1)
    config.environment("CartPole-v1").env_runners(num_envs_per_env_runner=2)
    with config.copy().build() as algo:
        with pytest.raises(ConfigError, match=r"has one agent.*e.g. policies=\['main'\]"):
            algo.add_policy("c")
        with pytest.raises(ConfigError, match=r"has one agent.*e.g. policies=\['main'\]"):
            algo.remove_policy("default_policy")
    with config.multi_agent(policies=["main"]).build() as algo:
        algo.add_policy("c", policy_mapping_fn={"*": "c"})
        assert [algo.train() for _ in range(3)][-1]["module/c/episode_return_mean"] > 0


def test_the_last_one_stays() -> None:
    algo = build(policies=["a"], policy_mapping_fn=None)
    with pytest.raises(ConfigError, match="the only policy"):
        algo.remove_policy("a")
    with pytest.raises(KeyError, match="no policy 'z'"):
        algo.remove_policy("z")
    algo.stop()
