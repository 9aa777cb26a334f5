"""Two modules with different settings learn, to the bit, what each learns alone with its own."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from trainables import (
    A2C,
    APPO,
    DQN,
    IMPALA,
    PPO,
    SAC,
    DQNConfig,
    DreamerV3Config,
    PPOConfig,
)
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.config.policies import config_of_module
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.part import no_parts
from trainables.core.policy.policy import Policy
from trainables.on_policy import on_policy_update
from trainables.ppo import PPOCoefficients
from trainables.runtime.learners.group import LearnerWorker, make_worker
from trainables.runtime.learners.off_policy_update import UpdatePlan, off_policy_update
from trainables.runtime.replay.replayed import Replayed

ONE, OTHER = "one", "other"
REPLAYS = (DQN, SAC)
PPO_SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": 120,
    "minibatch_size": 50,
    "num_epochs": 2,
    "model": {"fcnet_hiddens": [8]},
}
PPO_OWN: dict[str, dict[str, Any]] = {
    ONE: {
        "lr": [[0, 0.02], [400, 0.001]],
        "gamma": 0.9,
        "lambda_": 0.5,
        "entropy_coeff": [[0, 0.1], [400, 0.0]],
        "clip_param": [[0, 0.3], [400, 0.1]],
        "minibatch_size": 32,
        "num_epochs": 3,
        "use_kl_loss": True,
        "kl_coeff": 0.7,
        "kl_target": 1e-4,
        "grad_clip": 0.05,
        "normalize_advantages": False,
    },
    OTHER: {
        "lr": 0.01,
        "vf_loss_coeff": 0.1,
        "vf_clip_param": 2.0,
        "grad_clip_by": "norm",
        "minibatch_size": None,
        "use_critic": False,
        "use_gae": False,
        "advantage_std_floor": 0.5,
        "optimizer": {"type": "sgd"},
    },
}
DQN_SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs_per_env_runner": 2,
    "num_steps_sampled_before_learning_starts": 40,
    "min_sample_timesteps_per_iteration": 60,
    "train_batch_size_per_learner": 8,
    "training_intensity": 1.0,
    "model": {"fcnet_hiddens": [8]},
    "replay_buffer_config": {"type": "PrioritizedReplayBuffer", "capacity": 300},
}
DQN_OWN: dict[str, dict[str, Any]] = {
    ONE: {
        "lr": [[0, 0.01], [200, 0.001]],
        "gamma": 0.8,
        "n_step": 3,
        "double_q": False,
        "td_error_loss_fn": "mse",
        "tau": 0.1,
        "target_network_update_freq": 7,
        "adam_epsilon": 1e-3,
        "grad_clip": 0.5,
        "epsilon": [[0, 1.0], [150, 0.1]],
    },
    OTHER: {
        "lr": 0.002,
        "n_step": [1, 4],
        "dueling": False,
        "num_atoms": 5,
        "target_network_update_freq": 20,
        "optimizer": {"type": "sgd"},
        "exploration_config": {"type": "SoftQ", "temperature": 2.0},
    },
}


def of_two(config: Any, own: dict[str, dict[str, Any]]) -> Any:
    """Return a frozen config of two policies, the settings of one in its spec."""
    policies = {ONE: {"config": own[ONE]}, OTHER: None}
    overrides = {OTHER: own[OTHER]}
    made = config.update_from_dict(
        {"policies": policies, "algorithm_config_overrides_per_module": overrides}
    )
    made.freeze()
    return made


def weights(policy: Policy) -> dict[str, np.ndarray]:
    return {name: array.copy() for name, array in policy.get_weights().items()}


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name])


def worker_of(config: Any, algorithm: Any, sampled_by: dict[str, Policy]) -> LearnerWorker:
    """Return a worker that starts with the weights of the policies that sampled."""
    policies = {m: Policy(**policy.recipe) for m, policy in sampled_by.items()}
    for module_id, policy in policies.items():
        policy.set_weights(sampled_by[module_id].get_weights())
    connectors = {m: LearnerConnectors(None) for m in policies}
    return make_worker(config, policies, algorithm.make_learner, no_parts, connectors, 7)


# ---------------------------------------------------------------------- PPO


def coefficients_of(config: PPOConfig) -> PPOCoefficients:
    def first(value: Any) -> float:
        return float(value[0][1] if isinstance(value, list) else value)

    return PPOCoefficients(
        clip=first(config.clip_param),
        entropy=first(config.entropy_coeff),
        kl=config.kl_coeff if config.use_kl_loss else 0.0,
        value=config.vf_loss_coeff if config.use_critic else 0.0,
        value_clip=config.vf_clip_param,
    )


@pytest.mark.parametrize("shuffled", [False, True])
def test_ppo_updates_each_module_by_its_settings(shuffled: bool) -> None:
    shared = {**PPO_SETTINGS, "shuffle_batch_per_epoch": shuffled}
    two = of_two(PPOConfig.from_dict(shared), PPO_OWN)
    rollouts: dict[str, Rollout] = {}
    sampled_by, expected = {}, {}
    found: dict[str, dict[str, float]] = {}
    rates = {ONE: 0.02, OTHER: 0.01}
    used = {m: coefficients_of(config_of_module(two, m)) for m in PPO_OWN}
    for module_id, own in PPO_OWN.items():
        alone = PPOConfig.from_dict({**shared, **own})
        with PPO(alone) as algo:
            rollouts[module_id] = algo.sample()[DEFAULT_MODULE_ID]
            sampled_by[module_id] = algo.get_policy()
        worker = worker_of(algo.config, PPO, {module_id: sampled_by[module_id]})
        before = weights(worker.policies[module_id])
        for _ in range(2):
            worker.reseed(5)
            result = on_policy_update(
                worker,
                {module_id: rollouts[module_id]},
                {module_id: rates[module_id]},
                {module_id: used[module_id]},
                PPO,
            )
        expected[module_id] = (weights(worker.policies[module_id]), result[module_id])
        assert any((before[n] != w).any() for n, w in expected[module_id][0].items())
    worker = worker_of(two, PPO, sampled_by)
    for _ in range(2):
        if not shuffled:
            found = on_policy_update(worker, rollouts, rates, used, PPO)
            continue
        for module_id in PPO_OWN:  # permutations are drawn from one stream
            worker.reseed(5)
            part = {module_id: rollouts[module_id]}
            found |= on_policy_update(worker, part, rates, used, PPO)
    for module_id, (after, reported) in expected.items():
        assert_same(weights(worker.policies[module_id]), after)
        assert found[module_id] == reported
    assert "kl_after_update" in found[ONE] and "kl_after_update" not in found[OTHER]


@pytest.mark.parametrize("own", PPO_OWN.values(), ids=[ONE, OTHER])
def test_ppo_has_settings_of_a_policy_for_all_that_it_does(own: dict[str, Any]) -> None:
    """Schedules, the adaptive coefficient, and what is reported of them."""
    overrides = {"algorithm_config_overrides_per_module": {DEFAULT_MODULE_ID: own}}
    check_runs(PPO, {**PPO_SETTINGS, **own}, PPO_SETTINGS | overrides)


def check_runs(algorithm: Any, alone: dict[str, Any], two: dict[str, Any]) -> None:
    """Run an algorithm by two dicts of settings, which mean the same."""
    runs = []
    for settings in (alone, two):
        with algorithm(settings) as algo:
            results = [algo.train() for _ in range(2)]
            runs.append((results, weights(algo.get_policy())))
    (expected, after), (found, same) = runs
    assert_same(after, same)
    for one, other in zip(expected, found, strict=True):
        learned = {n: v for n, v in one.items() if n.startswith(("learner/", "exploration/"))}
        assert learned and all(other[name] == value for name, value in learned.items())


# ---------------------------------------------------------------------- DQN


def test_dqn_draws_and_updates_by_the_settings_of_each_module() -> None:
    two = of_two(DQNConfig.from_dict(DQN_SETTINGS), DQN_OWN)
    stores, sampled_by, rollouts, expected = {}, {}, {}, {}
    moves = [False, True, False, True]
    for module_id, own in DQN_OWN.items():
        with DQN({**DQN_SETTINGS, **own}) as algo:
            policy = algo.get_policy()
            seeds = [np.random.SeedSequence(1) for _ in range(2)]
            buffers = [algo._make_buffer(DEFAULT_MODULE_ID, policy, seed) for seed in seeds]
            stores[module_id] = buffers[0]
            sampled_by[module_id] = policy
            rollouts[module_id] = [algo.sample()[DEFAULT_MODULE_ID] for _ in range(40)]
            worker = worker_of(algo.config, DQN, {module_id: sampled_by[module_id]})
            drawn = Replayed(algo.config, {module_id: buffers[1]}, row_bytes=4)
            expected[module_id] = learned(worker, drawn, rollouts, module_id, moves)
    worker, drawn = worker_of(two, DQN, sampled_by), Replayed(two, stores, row_bytes=4)
    for module_id, (after, target, scalars) in expected.items():
        mine, own_target, found = learned(worker, drawn, rollouts, module_id, moves)
        assert_same(mine, after)
        assert torch.equal(own_target, target) and torch.equal(found, scalars)


def learned(
    worker: LearnerWorker,
    replayed: Replayed,
    rollouts: dict[str, list[Rollout]],
    module_id: str,
    moves: list[bool],
) -> tuple[dict[str, np.ndarray], torch.Tensor, torch.Tensor]:
    """Return weights, the target's, and what losses report, after some updates."""
    for rollout in rollouts[module_id]:
        replayed.add({module_id: rollout})
    policy, scalars = worker.policies[module_id], []
    before = weights(policy)
    for first in (0, 4):
        drawn = replayed.draw(module_id, len(moves), beta=0.5)
        batch = DQN.prepare(None, policy, drawn.columns)  # type: ignore[arg-type]
        plan = UpdatePlan(0.01, first, moves)
        found = off_policy_update(worker, drawn.with_columns(batch), module_id, DQN, plan)
        scalars.append(found.scalars)
    after = weights(policy)
    assert any((before[name] != array).any() for name, array in after.items())
    target = worker.learners[module_id].targets["q"].network
    vector = torch.nn.utils.parameters_to_vector(target.parameters()).detach().clone()
    return after, vector, torch.cat(scalars)


@pytest.mark.parametrize("own", DQN_OWN.values(), ids=[ONE, OTHER])
def test_dqn_has_settings_of_a_policy_for_all_that_it_does(own: dict[str, Any]) -> None:
    overrides = {"algorithm_config_overrides_per_module": {DEFAULT_MODULE_ID: own}}
    check_runs(DQN, {**DQN_SETTINGS, **own}, DQN_SETTINGS | overrides)


# ---------------------------------------------------------------------- all others

A2C_SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": 64,
    "min_sample_timesteps_per_iteration": 64,
    "model": {"fcnet_hiddens": [8]},
}
ASYNCHRONOUS: dict[str, Any] = {**A2C_SETTINGS, "rollout_fragment_length": 16}
SAC_SETTINGS: dict[str, Any] = {
    **{n: v for n, v in DQN_SETTINGS.items() if n != "num_envs_per_env_runner"},
    "env": "Pendulum-v1",
}
OTHERS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (
        A2C,
        A2C_SETTINGS,
        {
            "lr": [[0, 0.02], [400, 0.001]],
            "gamma": 0.9,
            "lambda_": 0.5,
            "entropy_coeff": [[0, 0.1], [400, 0.0]],
            "vf_loss_coeff": 0.1,
            "normalize_advantages": True,
            "microbatch_size": 13,
            "grad_clip": 0.05,
            "optimizer": {"type": "rmsprop"},
        },
    ),
    (A2C, A2C_SETTINGS, {"use_critic": False, "use_gae": False}),
    (
        IMPALA,
        ASYNCHRONOUS,
        {
            "lr": [[0, 0.02], [400, 0.001]],
            "gamma": 0.9,
            "lambda_": 0.5,
            "entropy_coeff": [[0, 0.1], [400, 0.0]],
            "vf_loss_coeff": 0.1,
            "vtrace_clip_rho_threshold": 0.9,
            "vtrace_clip_pg_rho_threshold": 0.8,
            "loss_reduction": "sum",
            "num_epochs": 2,
            "minibatch_size": 32,
            "shuffle_batch_per_epoch": False,
        },
    ),
    (IMPALA, ASYNCHRONOUS, {"vtrace": False, "_separate_vf_optimizer": True, "_lr_vf": 0.01}),
    (
        APPO,
        ASYNCHRONOUS,
        {
            "lr": [[0, 0.02], [400, 0.001]],
            "gamma": 0.9,
            "clip_param": [[0, 0.3], [400, 0.1]],
            "entropy_coeff": [[0, 0.1], [400, 0.0]],
            "target_worker_clipping": 0.9,
            "use_kl_loss": True,
            "kl_coeff": 0.7,
            "kl_target": 1e-4,
            "target_network_update_freq": 0.25,
            "tau": 0.3,
            "num_epochs": 2,
            "minibatch_size": 32,
        },
    ),
    (APPO, ASYNCHRONOUS, {"vtrace": False, "use_gae": False, "vf_loss_coeff": 0.1}),
    (
        SAC,
        SAC_SETTINGS,
        {
            "lr": 0.002,
            "actor_lr": [[0, 0.01], [200, 0.001]],
            "critic_lr": 0.003,
            "alpha_lr": 0.02,
            "gamma": 0.8,
            "n_step": 3,
            "tau": 0.1,
            "target_network_update_freq": 7,
            "initial_alpha": 0.2,
            "target_entropy": -3.0,
            "twin_q": False,
            "policy_model_config": {"fcnet_hiddens": [6]},
            "grad_clip": 0.5,
        },
    ),
    (SAC, SAC_SETTINGS, {"_deterministic_loss": True, "q_model_config": {"fcnet_hiddens": [6]}}),
    (SAC, SAC_SETTINGS, {"exploration_config": {"type": "GaussianNoise", "random_timesteps": 20}}),
]


@pytest.mark.parametrize(("algorithm", "settings", "own"), OTHERS)
def test_others_have_settings_of_a_policy_for_all_that_they_do(
    algorithm: Any, settings: dict[str, Any], own: dict[str, Any]
) -> None:
    overrides = {"algorithm_config_overrides_per_module": {DEFAULT_MODULE_ID: own}}
    check_runs(algorithm, {**settings, **own}, settings | overrides)


class TwoDQN(DQN):
    """Two modules by slot with settings of their own, which no setting says."""

    @classmethod
    def module_ids(cls, config: Any) -> tuple[str, ...]:
        return (ONE, OTHER)

    @staticmethod
    def module_of_slot(slot: int, worker_index: int) -> str:
        return (ONE, OTHER)[slot % 2]

    def config_of(self, module_id: str) -> Any:
        return own_config() if module_id == ONE else self.config


@cache
def own_config() -> DQNConfig:
    own = {"epsilon": 0.25, "target_network_update_freq": 80}
    config = DQNConfig.from_dict({**DQN_SETTINGS, **own})
    config.freeze()
    return config


def test_modules_explore_and_move_targets_by_their_settings() -> None:
    with TwoDQN(DQN_SETTINGS) as algo:
        result = algo.train()
        assert "exploration/epsilon" not in result
        assert result[f"exploration/{ONE}/epsilon"] == 0.25
        assert result[f"exploration/{OTHER}/epsilon"] > 0.9
        assert algo.policies[ONE].exploration["epsilon"] == 0.25
        assert algo.exploration_of(ONE, 10_000)["epsilon"] == 0.25
        assert algo.exploration_of(OTHER, 10_000)["epsilon"] == pytest.approx(0.05)
        assert algo.exploration_at(10_000) == algo.exploration_of(OTHER, 10_000)
        moved = [sum(algo._targets_due(m, 1000, 1)) for m in (ONE, OTHER)]
        assert moved == [100, 16]  # an update stands for 8 environment steps


class OldHooks(TwoDQN):
    """Methods of subclasses that take no id of a module."""

    def learning_rates(self) -> float:  # type: ignore[override]
        return 0.5

    def exploration_at(self, num_env_steps: int) -> dict[str, Any]:  # type: ignore[override]
        return {**super().exploration_at(num_env_steps), "epsilon": 0.75}

    def explores_uniformly(self, num_env_steps: int) -> bool:  # type: ignore[override]
        return num_env_steps < 10

    def module_options(self) -> dict[str, Any]:  # type: ignore[override]
        return {**super().module_options(), "dueling": False}


def test_methods_of_subclasses_need_not_know_modules() -> None:
    with OldHooks(DQN_SETTINGS) as algo:
        metrics = algo.training_step()
        assert metrics[f"learner/{ONE}/curr_lr"] == 0.5
        assert algo.policies[OTHER].exploration["epsilon"] == 0.75
        assert algo.policies[OTHER].exploration["uniform"]


# ---------------------------------------------------------------------- policies to train


BY_TURNS = [
    (PPO, PPO_SETTINGS),
    (DQN, DQN_SETTINGS),
    (A2C, A2C_SETTINGS),
    (IMPALA, ASYNCHRONOUS),
    (APPO, ASYNCHRONOUS),
    (SAC, {**SAC_SETTINGS, "num_envs_per_env_runner": 2}),
]


def by_turns(base: type[Any], settings: dict[str, Any], trains: Any) -> Any:
    class ByTurns(base):
        @classmethod
        def module_ids(cls, config: Any) -> tuple[str, ...]:
            return (ONE, OTHER)

        @staticmethod
        def module_of_slot(slot: int, worker_index: int) -> str:
            return (ONE, OTHER)[slot % 2]

    return ByTurns({**settings, "policies_to_train": trains})


@pytest.mark.parametrize(("base", "settings"), BY_TURNS)
def test_a_function_leaves_modules_out_of_updates(
    base: type[Any], settings: dict[str, Any]
) -> None:
    left_out: set[str] = set()
    asked: list[tuple[str, Any]] = []

    def trains(policy_id: str, batch: Any = None) -> bool:
        asked.append((policy_id, batch))
        return policy_id not in left_out

    with by_turns(base, settings, trains) as algo:
        first = algo.train()
        assert {m for m, _ in asked} == {ONE, OTHER}
        assert any(isinstance(batch, Rollout) for _, batch in asked)
        learned = {name for name in first if name.startswith("learner/")}
        assert {name.split("/")[1] for name in learned} == {ONE, OTHER}
        left_out.add(ONE)
        before = {m: weights(algo.get_policy(m)) for m in (ONE, OTHER)}
        second = algo.train()
        assert learned <= second.keys()
        assert_same(weights(algo.get_policy(ONE)), before[ONE])
        after = weights(algo.get_policy(OTHER))
        assert any((array != before[OTHER][name]).any() for name, array in after.items())
        left_out.add(OTHER)
        assert learned <= algo.train().keys()
        if base not in REPLAYS:
            assert_same(weights(algo.get_policy(OTHER)), after)
        state = algo.get_state()
        left_out.clear()
        algo.train()
        assert any(
            (array != before[ONE][name]).any()
            for name, array in weights(algo.get_policy(ONE)).items()
        )
    if base not in REPLAYS:
        left_out |= {ONE, OTHER}
        with by_turns(base, settings, trains) as other:
            other.set_state(state)
            assert learned <= other.train().keys()


@pytest.mark.parametrize(("base", "settings"), BY_TURNS)
def test_a_run_in_which_nothing_is_trained_has_results(
    base: type[Any], settings: dict[str, Any]
) -> None:
    with by_turns(base, settings, lambda policy_id, batch=None: batch is None) as algo:
        result = algo.train()
        assert not any(n.startswith("learner/") and "curr" not in n for n in result)
        assert result["num_env_steps_trained_lifetime"] == 0


# ---------------------------------------------------------------------- configs


def test_a_module_without_settings_has_the_config_itself() -> None:
    two = of_two(PPOConfig.from_dict(PPO_SETTINGS), {ONE: {}, OTHER: {"lr": 0.5}})
    assert config_of_module(two, ONE) is two is config_of_module(two, "no_policy")
    other = config_of_module(two, OTHER)
    assert other.lr == 0.5 and other is config_of_module(two, OTHER)
    worker = LearnerWorker(two, {}, {}, {}, 0)
    assert worker.config_of(OTHER) is other and worker.resolved_of(OTHER) is other.resolve()
    assert worker.config_of(ONE) is two and worker.resolved_of(ONE) is worker.resolved


def test_an_algorithm_of_one_agent_refuses_settings_of_a_policy() -> None:
    config = DreamerV3Config(env="CartPole-v1")
    config.algorithm_config_overrides_per_module = {DEFAULT_MODULE_ID: {"lr": 0.5}}
    with pytest.raises(ConfigError, match="'default_policy': lr: not supported by DreamerV3"):
        config.validate()
