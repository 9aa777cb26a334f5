"""The samples of the reference's documents run as they are written there, imports translated.

Sizes are small, and one Ray and one algorithm of a kind are shared. What a planned family has is
left out. The command lines are in `test_reference_commands.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray import tune
from ray.tune import Checkpoint
from ray.tune.logger import pretty_print
from reference_cases import Corridor, Curriculum, CustomMetrics, Own, next_task

from trainables import (
    PPO,
    APPOConfig,
    CQLConfig,
    DQNConfig,
    IMPALAConfig,
    MemoryTrackingCallbacks,
    PPOConfig,
    SACConfig,
)
from trainables.algorithm import Algorithm
from trainables.core.checkpoint import CheckpointError
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.lifecycle.folder_trainable import StoppedError
from trainables.runtime.actors.bundles import Bundles

SMALL: dict[str, Any] = {"train_batch_size": 256, "sgd_minibatch_size": 64, "num_sgd_iter": 1}


pytestmark = pytest.mark.usefixtures("ray_here")


def small(config: AlgorithmConfig | None = None) -> PPOConfig:
    made: PPOConfig = (config or PPOConfig()).environment("CartPole-v1").training(**SMALL)
    return made


@pytest.fixture(scope="module")
def algo() -> Iterator[PPO]:
    """A PPO on CartPole after an iteration. Tests leave its settings alone."""
    algo = small().debugging(seed=0).build()
    algo.train()
    yield algo
    algo.stop()


@pytest.fixture(scope="module")
def dqn() -> Iterator[Algorithm]:
    algo = DQNConfig().environment("CartPole-v1").framework("torch").build()
    yield algo
    algo.stop()


def run_config(tmp_path: Path, **more: Any) -> tune.RunConfig:
    return tune.RunConfig(
        stop={"training_iteration": 1}, storage_path=str(tmp_path), verbose=0, **more
    )


# ------------------------------------------------------------------ configs and their algorithms


def test_basic_usage(tmp_path: Path) -> None:
    algo = (
        PPOConfig()
        .rollouts(num_rollout_workers=1)
        .resources(num_gpus=0)
        .environment(env="CartPole-v1")
        .training(**SMALL)
        .build()
    )
    for i in range(2):
        result = algo.train()
        assert "episode_reward_mean" in pretty_print(result)
        if i % 5 == 0:
            checkpoint_dir = algo.save(str(tmp_path / "checkpoint")).checkpoint.path
            assert Path(checkpoint_dir).is_dir()
    algo.stop()


def test_a_config_builds_its_algorithm() -> None:
    config = (
        PPOConfig()
        .training(gamma=0.9, lr=0.01, **SMALL)
        .environment(env="CartPole-v1")
        .resources(num_gpus=0)
        .rollouts(num_rollout_workers=0)
        .callbacks(MemoryTrackingCallbacks)
    )
    rllib_algo = config.build()
    assert rllib_algo.config.gamma == 0.9 and config.total_train_batch_size == 256
    rllib_algo.stop()
    for build in (config.build, config.build_algo):
        with build(env="Acrobot-v1") as other:
            assert other.config.env == "Acrobot-v1" and config.env == "CartPole-v1"
    with pytest.raises(ConfigError, match=r"belongs to no algorithm; use e\.g\. PPOConfig"):
        AlgorithmConfig().environment(env="CartPole-v1").build()


def test_the_older_defaults_make_a_config() -> None:
    from trainables.ppo import DEFAULT_CONFIG

    ppo_config = PPOConfig.from_dict(DEFAULT_CONFIG)
    with ppo_config.training(**SMALL).build(env="Pendulum-v1") as ppo:
        assert ppo.train()["training_iteration"] == 1


def test_an_environment_by_its_path() -> None:
    with small().build(env="reference_cases.Corridor") as algo:
        assert algo.workers.foreach_env(lambda env: env.end)[0][0] == 5


def test_a_frozen_config() -> None:
    config = PPOConfig().training(model={"fcnet_hiddens": [8]})
    config.freeze()
    with pytest.raises(ConfigError, match="frozen"):
        config.lr = 0.1
    config.model["fcnet_hiddens"].append(9)  # in place: nobody sees it
    assert config.model["fcnet_hiddens"] == [8, 9]
    thawed = config.copy(copy_frozen=False)
    thawed.model = {"fcnet_hiddens": [4]}
    assert config.model["fcnet_hiddens"] == [8, 9]


def test_a_logger_is_refused_with_the_reason() -> None:
    for refused in (
        lambda: PPO(small(), logger_creator=lambda config: None),  # type: ignore[arg-type]
        lambda: small().build(logger_creator=lambda config: None),
        lambda: small().debugging(logger_creator=lambda config: None),
    ):
        with pytest.raises(ConfigError, match=r"logger_creator.*Tune's callbacks log results"):
            refused()


def test_an_algorithm_is_made_of_what_the_documents_give(tmp_path: Path) -> None:
    env_class = Corridor
    config = PPOConfig().training(**SMALL)
    algo = PPO(config=config, env=env_class)
    algo.train()
    checkpoint_path = algo.save(str(tmp_path))
    again = PPO(config=config.to_dict(), env=env_class)
    again.restore(checkpoint_path)
    assert again.iteration == 1
    np.testing.assert_equal(again.get_weights(), algo.get_weights())
    for each in (algo, again):
        each.stop()
    with pytest.raises(TypeError, match="no_such_argument"):
        PPO(config=config, env="CartPole-v1", no_such_argument=1)


def test_a_training_step_of_ones_own(tmp_path: Path) -> None:
    with Own(config=small()) as algo:
        assert algo.train()["num_own_steps"] == 1 and algo.train()["stepped"] == 1
    [result] = tune.Tuner(Own, param_space=small().to_dict(), run_config=run_config(tmp_path)).fit()
    assert result.metrics["num_own_steps"] == 1 and result.metrics["stepped"] == 1
    assert result.metrics["num_cpus"] == 2


def test_a_subclass_saves_more(tmp_path: Path) -> None:
    with Own(config=small()) as algo, Own(config=small()) as again:
        algo.train()
        again.restore(algo.save(str(tmp_path)))
        assert again.num_own_steps == 1


class Sampler(Algorithm):
    """An algorithm that does not learn."""

    def training_step(self) -> dict[str, Any]:
        return {"num_columns": float(self.sample()["default_policy"].actions.shape[1])}


def test_an_algorithm_of_ones_own() -> None:
    with Sampler(config={"env": "CartPole-v1", "rollout_fragment_length": 50}) as algo:
        assert algo.train()["num_columns"] == algo.config.num_envs_per_env_runner


class Refuses(PPO):
    """Takes no environment whose actions are discrete."""

    @staticmethod
    def validate_env(env: Any, env_context: Any) -> None:
        raise ValueError(f"{env_context['corridor_length']} steps are too few")


def test_an_environment_can_be_refused() -> None:
    with pytest.raises(ValueError, match="3 steps are too few"):
        Refuses(config=PPOConfig().environment(Corridor, env_config={"corridor_length": 3}))


class LongConfig(PPOConfig):
    """Of an algorithm of one's own."""


class Long(PPO):
    config_class = LongConfig


class Older(PPO):
    @classmethod
    def get_default_config(cls) -> PPOConfig:
        return LongConfig()


def test_a_subclass_names_its_config() -> None:
    with Long(config={"env": "CartPole-v1"}) as algo:
        assert type(algo.config) is LongConfig
    with pytest.raises(
        ConfigError, match=r"Older\.get_default_config is never called here: set the"
    ):
        Older(config={"env": "CartPole-v1"})


def test_a_small_train_batch() -> None:
    with pytest.raises(ConfigError, match="minibatch_size"):
        PPOConfig().environment("CartPole-v1").training(train_batch_size=128).build()
    small().training(train_batch_size=128, sgd_minibatch_size=128).validate()


# ------------------------------------------------------------------ what an algorithm says and does


def test_what_an_algorithm_says_of_itself(algo: PPO) -> None:
    assert algo.iteration == algo.training_iteration >= 1
    assert Path(algo.logdir).is_dir()
    assert algo.trial_id == "default" and algo.trial_name == "default"
    assert algo.trial_resources is None or algo.trial_resources
    assert algo.get_config()["env"] == "CartPole-v1"
    few = algo.get_auto_filled_metrics(debug_metrics_only=True)
    assert {"pid", "hostname"} <= set(few) < set(algo.get_auto_filled_metrics())
    algo.log_result({"episode_reward_mean": 1.0})


def test_stopping_twice_does_no_harm() -> None:
    algo = small().build()
    algo.stop()
    algo.stop()
    algo.cleanup()
    for attempt in (algo.train, algo.save):
        with pytest.raises(StoppedError, match="stop"):
            attempt()


def test_an_episode_by_hand(algo: PPO) -> None:
    env = gym.make("CartPole-v1")
    episode_reward = 0.0
    terminated = truncated = False
    obs, _ = env.reset(seed=1)
    while not terminated and not truncated:
        action = algo.compute_single_action(obs)
        obs, reward, terminated, truncated, _ = env.step(action)
        episode_reward += float(reward)
    assert episode_reward >= 8
    assert algo.compute_single_action(observation=obs, explore=False) in (0, 1)


def test_what_an_action_can_be_asked(algo: PPO) -> None:
    obs = np.zeros(4, np.float32)
    action, state, extra = algo.compute_single_action(obs, full_fetch=True, explore=False)
    assert action in (0, 1) and not state
    assert {"action_dist_inputs", "action_logp", "vf_preds"} <= set(extra)
    assert algo.compute_single_action(obs, policy_id="default_policy", explore=False) == action
    with pytest.raises(KeyError, match="other"):
        algo.compute_single_action(obs, policy_id="other")
    assert algo.get_policy("default_policy") is algo.get_policy()
    assert algo.get_policy("other") is None
    batch = np.stack([obs, obs])
    assert list(algo.compute_actions(batch, explore=False)) == [action, action]
    actions, _, extra = algo.compute_actions(batch, full_fetch=True)
    assert len(actions) == len(extra["vf_preds"]) == 2
    assert algo.compute_actions({"a": obs, "b": obs}, explore=False) == {"a": action, "b": action}
    by_key, _, extra = algo.compute_actions({"a": obs}, full_fetch=True, explore=False)
    assert by_key == {"a": action} and "vf_preds" in extra
    assert (
        algo.compute_single_action(
            input_dict={"obs": obs}, explore=False, timestep=10, info={}, episode=None
        )
        == action
    )


def test_a_memory_goes_along() -> None:
    config = small().training(model={"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 10})
    with config.build() as algo:
        algo.train()
        obs, state = np.zeros(4, np.float32), None
        thoughts = []
        for _ in range(3):
            _, state, extra = algo.compute_single_action(obs, state, explore=False)
            thoughts.append(extra["vf_preds"])
        assert len({float(value) for value in thoughts}) == 3
        state = algo.get_policy().get_initial_state()
        again = algo.compute_single_action(obs, state)
        assert again[2]["vf_preds"] == pytest.approx(float(thoughts[0]))
        listed = list(state.values())  # as the documents have it
        action, listed, _ = algo.compute_single_action(obs, state=listed, explore=False)
        assert action in (0, 1) and isinstance(listed, list)


def test_weights_of_policies_and_workers() -> None:
    config = small().rollouts(
        num_rollout_workers=1,
        recreate_failed_workers=True,
        worker_health_probe_timeout_s=60,
        worker_restore_timeout_s=60,
    )
    with config.build() as algo:
        assert algo.workers.probe() == []
        weights = algo.get_policy().get_weights()
        of_local = algo.workers.local_worker().policy_map["default_policy"].get_weights()
        np.testing.assert_equal(of_local, weights)
        np.testing.assert_equal(algo.get_weights(["default_policy"])["default_policy"], weights)
        [of_worker] = algo.workers.foreach_worker(lambda worker: worker.get_policy().get_weights())
        np.testing.assert_equal(of_worker, weights)
        changed = {name: value + 1 for name, value in weights.items()}
        algo.set_weights({"default_policy": changed})
        [of_worker] = algo.workers.foreach_worker_with_index(
            lambda _id, worker: worker.get_policy().get_weights()
        )
        np.testing.assert_equal(of_worker, changed)
        [of_worker] = algo.workers.foreach_worker_with_id(
            lambda _id, worker: worker.get_policy().get_weights()
        )
        np.testing.assert_equal(of_worker, changed)
        np.testing.assert_equal(algo.get_policy().get_weights(), changed)


def test_workers_are_asked_functions(algo: PPO) -> None:
    [steps] = algo.workers.foreach_worker(lambda worker: worker.env.num_envs)
    assert steps == algo.config.num_envs_per_env_runner
    assert algo.workers.foreach_policy(lambda policy, policy_id: policy_id) == ["default_policy"]
    assert algo.workers.foreach_worker_with_index(lambda index, worker: index) == [0]
    assert algo.workers.local_worker().get_policy() is algo.get_policy()
    algo.restore_workers(algo.workers)


# ------------------------------------------------------------------ files


def test_saving_and_restoring(algo: PPO, tmp_path: Path) -> None:
    checkpoint_path = algo.save(str(tmp_path / "checkpoint")).checkpoint.path
    with pytest.raises(TypeError, match="prevent_upload"):
        algo.save(str(tmp_path / "other"), prevent_upload=True)
    assert (Path(checkpoint_path) / "policies" / "default_policy").is_dir()
    assert "format_version" in (Path(checkpoint_path) / "checkpoint.json").read_text()
    for checkpoint in (checkpoint_path, Checkpoint.from_directory(checkpoint_path)):
        with Algorithm.from_checkpoint(checkpoint) as again:
            assert type(again) is PPO and again.iteration == algo.iteration
            np.testing.assert_equal(again.get_weights(), algo.get_weights())
    from trainables import DQN

    with pytest.raises(CheckpointError, match="is of PPO, not of DQN"):
        DQN.from_checkpoint(checkpoint_path)


def test_exporting(algo: PPO, tmp_path: Path) -> None:
    algo.export_policy_model(str(tmp_path / "dir"))
    assert (tmp_path / "dir" / "model.pt2").is_file()
    with pytest.raises(ConfigError, match="allowed: 18"):
        algo.export_policy_model(str(tmp_path / "onnx"), onnx=1)
    folder = algo.export_policy_checkpoint(str(tmp_path / "export_dir"))
    assert (Path(folder) / "policy.json").is_file()
    with pytest.raises(KeyError, match="other"):
        algo.export_policy_checkpoint(str(tmp_path / "export_dir"), policy_id="other")
    with pytest.raises(TypeError, match="filename_prefix"):
        algo.export_policy_checkpoint(str(tmp_path / "export_dir"), filename_prefix="x")
    exported = algo.export_model(["checkpoint", "model"], str(tmp_path / "both"))
    assert set(exported) == {"checkpoint", "model"}
    with small().checkpointing(export_native_model_files=True).build() as native:
        saved = Path(native.save(str(tmp_path / "native")).checkpoint.path)
        assert (saved / "policies" / "default_policy" / "model.pt2").is_file()


# ------------------------------------------------------------------ models


def test_the_distribution_of_actions(algo: PPO, capsys: pytest.CaptureFixture[str]) -> None:
    policy = algo.get_policy()
    logits, _ = policy.model({"obs": np.array([[0.1, 0.2, 0.3, 0.4]])})
    dist = policy.dist_class(logits, policy.model)
    assert dist.sample().shape == (1,)
    assert dist.logp([1]).shape == dist.logp(torch.tensor([1])).shape == (1,)
    assert policy.model.value_function().shape == (1,)
    policy.model.base_model.summary()
    assert "Total params: " in capsys.readouterr().out


def test_q_values(dqn: Algorithm, capsys: pytest.CaptureFixture[str]) -> None:
    model = dqn.get_policy().model
    assert model.variables()
    model_out = model({"obs": np.array([[0.1, 0.2, 0.3, 0.4]])})
    model.base_model.summary()
    q_values = model.get_q_value_distributions(model_out)[0]
    assert q_values.shape == (1, 2)
    model.q_value_head.summary()
    assert model.get_state_value(model_out).shape == (1, 1)
    model.state_value_head.summary()
    assert capsys.readouterr().out.count("Total params: ") == 3


def test_observations_are_preprocessed() -> None:
    pytest.importorskip("ale_py")
    from trainables import get_preprocessor

    env = gym.make("ALE/Pong-v5")
    obs, _ = env.reset()
    prep = get_preprocessor(env.observation_space)(env.observation_space)
    assert obs.shape == (210, 160, 3) and prep.transform(obs).shape == prep.shape


# ------------------------------------------------------------------ sweeps


def test_a_sweep_and_its_best_result(tmp_path: Path) -> None:
    config = PPOConfig().training(lr=tune.grid_search([0.01, 0.001]), **SMALL)
    config = config.environment("CartPole-v1")
    tuner = tune.Tuner(
        "PPO",
        run_config=tune.RunConfig(
            stop={"episode_reward_mean": 5},
            storage_path=str(tmp_path),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
            verbose=0,
        ),
        param_space=config,
    )
    results = tuner.fit()
    best_result = results.get_best_result(metric="episode_reward_mean", mode="max")
    best_checkpoint = best_result.checkpoint
    with Algorithm.from_checkpoint(best_checkpoint) as algo:
        assert algo.iteration == 1 and algo.config.lr in (0.01, 0.001)


def test_tune_run(tmp_path: Path) -> None:
    analysis = tune.run(
        "PPO",
        stop={"training_iteration": 2},
        config=small().to_dict(),
        checkpoint_freq=1,
        checkpoint_at_end=True,
        storage_path=str(tmp_path),
        verbose=0,
    )
    [trial] = analysis.trials
    assert trial.last_result["training_iteration"] == 2 and trial.checkpoint is not None


def test_parameters_and_resources_of_a_trial(tmp_path: Path) -> None:
    def train_fn(config: dict[str, Any], data: list[int]) -> None:
        with PPO(config=config) as algo:
            tune.report(
                {"episode_reward_mean": algo.train()["episode_reward_mean"], "n": len(data)}
            )

    trainable = tune.with_resources(tune.with_parameters(train_fn, data=[1, 2, 3]), {"cpu": 2})
    [result] = tune.Tuner(
        trainable, param_space=small().to_dict(), run_config=run_config(tmp_path)
    ).fit()
    assert result.error is None and result.metrics["n"] == 3


@pytest.mark.full("test_a_sweep_and_its_best_result")
def test_sweeps_of_the_algorithms_page(tmp_path: Path) -> None:
    """An iteration with the defaults."""
    configs: dict[str, Any] = {
        "DQN": (DQNConfig().environment("CartPole-v1").training(num_atoms=tune.grid_search([1]))),
        "APPO": APPOConfig()
        .training(lr=tune.grid_search([0.001]))
        .environment(env="CartPole-v1")
        .to_dict(),
        "IMPALA": (
            IMPALAConfig()
            .environment("CartPole-v1")
            .env_runners(num_env_runners=1, num_cpus_per_env_runner=0.5)
            .training(lr=tune.grid_search([0.0001, 0.0002]), grad_clip=20.0)
            .learners(num_learners=1, num_cpus_per_learner=0.5)
        ),
    }
    for name, param_space in configs.items():
        results = tune.Tuner(
            name, param_space=param_space, run_config=run_config(tmp_path, name=name)
        ).fit()
        assert results.num_errors == 0 and len(results) == 1 + (name == "IMPALA")


# ------------------------------------------------------------------ algorithms


def test_ppo() -> None:
    config = PPOConfig()
    config.environment("CartPole-v1")
    config.env_runners(num_env_runners=1)
    config.training(gamma=0.9, lr=0.01, kl_coeff=0.3, train_batch_size_per_learner=256)
    algo = config.build()
    algo.train()
    algo.stop()


def test_dqn() -> None:
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .training(
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": 60000,
                "alpha": 0.5,
                "beta": 0.5,
            }
        )
        .env_runners(num_env_runners=1)
    )
    algo = config.build()
    algo.train()
    algo.stop()


REPLAY: list[dict[str, Any]] = [
    {"type": "MultiAgentReplayBuffer", "capacity": 50000, "replay_sequence_length": 1},
    {
        "type": "MultiAgentPrioritizedReplayBuffer",
        "capacity": 50000,
        "prioritized_replay_alpha": 0.6,
        "prioritized_replay_beta": 0.4,
        "prioritized_replay_eps": 1e-6,
        "replay_sequence_length": 1,
    },
]


@pytest.mark.full("test_dqn")
@pytest.mark.parametrize("given", REPLAY, ids=lambda given: given["type"])
def test_replay_buffers(given: dict[str, Any]) -> None:
    given = {"_enable_replay_buffer_api": True, **given}
    for config in (
        DQNConfig().environment("CartPole-v1").training(replay_buffer_config=given),
        SACConfig().environment("Pendulum-v1").training(replay_buffer_config=given),
    ):
        with config.reporting(min_sample_timesteps_per_iteration=50).build() as algo:
            algo.train()
            assert algo.config.resolve().replay.capacity == 50000


def test_a_buffer_in_a_checkpoint_is_taken(tmp_path: Path) -> None:
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .training(store_buffer_in_checkpoints=True)
        .reporting(min_sample_timesteps_per_iteration=100)
    )
    without = config.copy().training(store_buffer_in_checkpoints=False)
    with config.build() as algo, without.build() as again:
        algo.train()
        again.restore(algo.save(str(tmp_path)))
        assert len(again.experience["default_policy"]) == len(algo.experience["default_policy"]) > 0


def test_rainbow() -> None:
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .training(n_step=3, noisy=True, num_atoms=2, v_min=-10.0, v_max=10.0, train_batch_size=32)
        .training(num_steps_sampled_before_learning_starts=32)
        .reporting(min_sample_timesteps_per_iteration=64)
    )
    with config.build() as algo:
        assert algo.train()["num_env_steps_trained_lifetime"] > 0


@pytest.mark.full("test_dqn")
def test_sac() -> None:
    config = (
        SACConfig()
        .environment("Pendulum-v1")
        .env_runners(num_env_runners=1)
        .training(gamma=0.9, actor_lr=0.001, critic_lr=0.002, train_batch_size_per_learner=32)
    )
    algo = config.build()
    algo.train()
    algo.stop()


@pytest.mark.full("test_dqn")
def test_cql(tmp_path: Path) -> None:
    """As it is written there: on CartPole, with the sampler as its source."""
    config = CQLConfig().training(gamma=0.9, lr=0.01)
    config = config.resources(num_gpus=0)
    config = config.env_runners(num_env_runners=4, num_cpus_per_env_runner=0.25)
    print(config.to_dict())
    algo = config.build(env="CartPole-v1")
    result = algo.train()
    algo.stop()
    assert result["num_healthy_workers"] == 4 and result["num_updates_lifetime"] > 0
    assert np.isfinite(result["learner/default_policy/cql_gap"])
    config = config.environment("CartPole-v1")
    [swept] = tune.Tuner("CQL", param_space=config, run_config=run_config(tmp_path)).fit()
    assert swept.error is None and swept.metrics["num_healthy_workers"] == 4
    assert swept.metrics["num_cpus"] == 2 and swept.metrics["num_updates_lifetime"] > 0


@pytest.mark.full("test_ppo")
def test_appo_and_impala() -> None:
    config = APPOConfig().training(lr=0.01, grad_clip=30.0, train_batch_size_per_learner=50)
    config = config.learners(num_learners=1)
    config = config.env_runners(num_env_runners=1)
    config = config.environment("CartPole-v1")
    algo = config.build()
    algo.train()
    algo.stop()
    config = (
        IMPALAConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=1)
        .training(lr=0.0003, train_batch_size_per_learner=512)
        .learners(num_learners=1)
    )
    algo = config.build()
    algo.train()
    algo.stop()


# ------------------------------------------------------------------ environments


def test_the_context_of_an_environment() -> None:
    config = small().environment(Corridor, env_config={"corridor_length": 7})
    with config.rollouts(num_envs_per_worker=2).build() as algo:
        assert algo.workers.foreach_env(lambda env: env.end) == [[7, 7]]
        [contexts] = algo.workers.foreach_env_with_context(lambda env, ctx: (env.context, ctx))
        for index, (seen, told) in enumerate(contexts):
            assert seen["corridor_length"] == told["corridor_length"] == 7
            assert seen.vector_index == told.vector_index == index
            assert seen.worker_index == seen.num_rollout_workers == 0 and seen.remote is False
    tune.register_env("corridor", lambda env_ctx: Corridor(env_ctx))
    with small().environment("corridor").build() as algo:
        assert algo.train()["episode_reward_max"] <= 1


def test_a_curriculum() -> None:
    config = small().environment(
        Curriculum, env_config={"corridor_length": 2}, env_task_fn=next_task
    )
    with config.build() as algo:
        algo.train()
        algo.train()
        [tasks] = algo.workers.foreach_env(lambda env: env.get_task())
        assert set(tasks) == {4}


def test_gpus_that_driver_and_workers_share() -> None:
    gpu_count, num_workers = 2, 4
    num_gpus = 0.0001
    num_gpus_per_worker = (gpu_count - num_gpus) / num_workers
    config = PPOConfig().resources(num_gpus=num_gpus, num_gpus_per_worker=num_gpus_per_worker)
    bundles = Bundles(config.rollouts(num_rollout_workers=num_workers)).request().bundles
    assert sum(bundle.get("GPU", 0) for bundle in bundles) == pytest.approx(gpu_count)
    assert len(bundles) == 1 + num_workers and bundles[0]["GPU"] == num_gpus


# ------------------------------------------------------------------ evaluation and callbacks


def evaluated(algorithm: Any, eval_workers: Any) -> dict[str, float]:
    """Two workers' environments with different corridors, as the documents' example."""
    eval_workers.foreach_worker(lambda worker: worker.get_policy())
    played = eval_workers.play()
    return {"mine": 1.0, "episode_return_mean": float(np.mean(played.returns))}


def test_a_custom_evaluation_function() -> None:
    config = small().evaluation(
        evaluation_interval=1, evaluation_duration=3, custom_evaluation_function=evaluated
    )
    with config.build() as algo:
        result = algo.train()
        assert result["evaluation/mine"] == 1 and result["evaluation/episode_return_mean"] > 0


def test_evaluation_between_iterations() -> None:
    config = small().evaluation(
        evaluation_interval=2,
        evaluation_duration=2,
        evaluation_config={"explore": False},
        always_attach_evaluation_results=True,
    )
    of_evaluation = config.get_evaluation_config_object()
    assert of_evaluation.explore is False and config.explore is True
    assert of_evaluation.get_evaluation_config_object().explore is False
    with config.build() as algo:
        results = [algo.train() for _ in range(3)]
        assert [result["evaluation/num_episodes"] for result in results[1:]] == [2, 2]
        assert (
            results[1]["evaluation/episode_return_mean"]
            == (results[2]["evaluation/episode_return_mean"])
        )
    for none in (None, 0):
        with small().evaluation(evaluation_interval=none).build() as algo:
            assert not any(key.startswith("evaluation/") for key in algo.train())


def test_custom_metrics_of_callbacks() -> None:
    with small().callbacks(CustomMetrics).build() as algo:
        result = algo.train()
    assert result["hist_stats/pole_angles_max"] >= result["custom_metrics/pole_angle_mean"]
    assert 0 < result["custom_metrics/pole_angle_mean"] <= result["custom_metrics/pole_angle_max"]
    assert result["callback_ok"] == 1


def test_how_many_episodes_are_averaged() -> None:
    with small().reporting(metrics_num_episodes_for_smoothing=1).build() as algo:
        first, second = algo.train(), algo.train()
        assert second["num_episodes"] > 1
        assert second["episode_reward_min"] < second["episode_reward_max"]
    with small().reporting(metrics_num_episodes_for_smoothing=1000).build() as algo:
        first, second = algo.train(), algo.train()
        assert second["episode_reward_min"] <= first["episode_reward_min"]


def test_the_machine_is_reported() -> None:
    with small().debugging(log_sys_usage=True, log_level="INFO").build() as algo:
        assert algo.train()["perf"]["ram_util_percent"] > 0
    with small().debugging(log_sys_usage=False).build() as algo:
        assert "perf" not in algo.train()


def to_half(env: Any) -> Any:
    """A connector's factory, as the documents have it."""
    assert env.observation_space.shape == (4,)
    return lambda obs: obs / 2


def left_as_they_are(env: Any, rl_module: Any) -> Any:
    return lambda actions: actions


def without_rewards(input_observation_space: Any, input_action_space: Any) -> Any:
    assert input_action_space.n == 2
    return lambda rollout, policy: replace(rollout, rewards=0 * rollout.rewards)


def test_connectors() -> None:
    config = small().env_runners(
        env_to_module_connector=to_half, module_to_env_connector=left_as_they_are
    )
    with config.training(learner_connector=without_rewards).build() as algo:
        policy = algo.get_policy()
        obs = np.ones((1, 4), np.float32)
        np.testing.assert_allclose(policy.features(obs), obs / 2)
        assert algo.train()["episode_reward_mean"] > 1  # the environment's
        assert not algo.sample()["default_policy"].rewards.any()
