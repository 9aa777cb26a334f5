"""Evaluations in which each slot is played by the policy of its own module."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from evaluation_cases import SEED, SMALL, config_of, evaluated, evaluation_of, without_ray

from trainables import PPO, Callbacks
from trainables.core.checkpoint import CheckpointError, policy_folder
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.callbacks import CallbackSet
from trainables.runtime.evaluation.feature import make_evaluation
from trainables.runtime.evaluation.play import evaluate_policy
from trainables.runtime.evaluation.watch import PlayedStep, Watch
from trainables.runtime.sampling.module_slots import ModuleSlots

ENV = "CartPole-v1"


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ray(monkeypatch)


def by_parity(slot: int, worker_index: int) -> str:
    assert worker_index == 0  # whoever plays it
    return "odd" if slot % 2 else "even"


SLOTS = ModuleSlots(["even", "odd"], by_parity)


def policy_of(seed: int, model: dict[str, Any] | None = None, **options: Any) -> Policy:
    env = gym.make(ENV)
    given = {"fcnet_hiddens": [16], **(model or {})}
    return Policy(env.observation_space, env.action_space, given, seed=seed, **options)


def two_policies() -> dict[str, Policy]:
    """One with a memory that sees its last action, one that sees stacked frames."""
    memory = {"use_lstm": True, "lstm_cell_size": 8, "lstm_use_prev_action": True}
    return {"odd": policy_of(1, memory), "even": policy_of(2, frame_stack=3)}


class Says(gym.Env):
    """The reward tells the action, the length the episode's slot."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(5)

    def __init__(self, config: Any):
        self.slot = config.vector_index

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        reward = float(action) if self.t == 1 else 0.0
        return np.zeros(1, np.float32), reward, self.t > self.slot, False, {}


def always(action: int) -> Policy:
    """A policy that takes one action of `Says`."""
    policy = Policy(Says.observation_space, Says.action_space, {"fcnet_hiddens": [4]}, seed=0)
    weights = {name: np.zeros_like(part) for name, part in policy.get_weights().items()}
    [bias] = [name for name, part in weights.items() if part.shape == (5,)]
    weights[bias][action] = 9.0
    policy.set_weights(weights)
    return policy


@pytest.mark.parametrize("num_envs", [1, 4, 8])
def test_each_slot_is_given_its_own_policys_action(num_envs: int) -> None:
    policies = {"odd": always(3), "even": always(4)}
    result = evaluate_policy(policies, Says, module_slots=SLOTS, num_episodes=11, num_envs=num_envs)
    # Slots are counted through: all modules play, however few are stepped together.
    np.testing.assert_array_equal(result.returns, [4.0, 3.0] * 5 + [4.0])


@pytest.mark.parametrize("explore", [False, True])
def test_each_slot_plays_as_its_policy_would_alone(explore: bool) -> None:
    policies = two_policies()
    options: dict[str, Any] = {"num_episodes": 8, "seed": 3}
    both = evaluate_policy(policies, ENV, module_slots=SLOTS, explore=explore, **options)
    assert len(set(both.returns)) > 1
    again = evaluate_policy(policies, ENV, module_slots=SLOTS, explore=explore, **options)
    np.testing.assert_array_equal(again.returns, both.returns)
    for first, module_id in enumerate(["even", "odd"]):
        alone = evaluate_policy({module_id: policies[module_id]}, ENV, explore=explore, **options)
        plain = evaluate_policy(policies[module_id], ENV, explore=explore, **options)
        np.testing.assert_array_equal(alone.returns, plain.returns)
        if not explore:
            np.testing.assert_array_equal(both.returns[first::2], alone.returns[first::2])


def test_a_watch_sees_what_the_policies_of_all_slots_thought() -> None:
    class Sees(Watch):
        wants_steps = True

        def step(self, step: PlayedStep) -> None:
            outputs = step.policy_outputs()
            inputs = outputs["action_dist_inputs"]
            assert inputs.argmax(1).tolist() == [4, 3, 4] == step.actions.tolist()
            slots_of = {m: slots.tolist() for m, slots in step.slots_of.items()}
            seen.append(slots_of)

    seen: list[Any] = []
    policies = {"odd": always(3), "even": always(4)}
    evaluate_policy(policies, Says, module_slots=SLOTS, num_episodes=3, watches=[Sees()])
    assert seen == [{"even": [0, 2], "odd": [1]}] * 3


def test_callbacks_know_the_module_of_each_episode() -> None:
    told: list[Any] = []

    class Tells(Callbacks):
        def on_episode_end(self, *, episode: Any, rl_module: Any, policies: Any) -> None:
            assert rl_module is policies[episode.module_id].module
            told.append((episode.module_id, episode.agent_rewards))

    policies = {"odd": always(3), "even": always(4)}
    hooks = CallbackSet(config_of().callbacks(Tells))
    evaluate_policy(policies, Says, module_slots=SLOTS, num_episodes=3, num_envs=2, callbacks=hooks)
    of_even, of_odd = (
        (module_id, {("agent0", module_id): total})
        for module_id, total in (("even", 4.0), ("odd", 3.0))
    )
    assert told == [of_even, of_odd, of_even]


def test_a_policy_that_does_not_fit_is_named() -> None:
    policies = {"odd": always(3), "even": policy_of(0)}
    with pytest.raises(ConfigError, match=r"observation space .* does not fit the environment's"):
        evaluate_policy(policies, Says, module_slots=SLOTS, num_episodes=2)


@pytest.mark.parametrize(
    "settings",
    [{}, {"evaluation_duration": 150, "evaluation_duration_unit": "timesteps"}],
    ids=["episodes", "timesteps"],
)
def test_groups_play_all_modules_with_their_present_weights(settings: dict[str, Any]) -> None:
    policies, results = two_policies(), []
    for number in (0, 1, 3):
        config = config_of(evaluation_num_env_runners=number, **settings)
        group = make_evaluation(None, config, policies, SLOTS, None)
        before = evaluated(group)
        weights = {m: policy.get_weights() for m, policy in policies.items()}
        for m, policy in policies.items():
            policy.set_weights({name: -part for name, part in weights[m].items()})
        results.append((before, evaluated(group)))
        for m, policy in policies.items():
            policy.set_weights(weights[m])
        ids = group.foreach_env_runner(lambda runner: list(runner.policies))
        assert ids == [["odd", "even"]] * max(1, number)
        group.stop()
    for results_of_group in results[1:]:
        for result, expected in zip(results_of_group, results[0], strict=True):
            np.testing.assert_array_equal(result.returns, expected.returns)
            np.testing.assert_array_equal(result.cut_lengths, expected.cut_lengths)
    before, after = results[0]
    assert before.returns.tolist() != after.returns.tolist()


def test_one_module_of_any_name_plays_as_the_default_one() -> None:
    policy = policy_of(4)
    returns = []
    for module_id in ("default_policy", "own"):
        group = make_evaluation(
            None,
            config_of(evaluation_num_env_runners=2),
            {module_id: policy},
            ModuleSlots([module_id]),
            None,
        )
        group.sync_weights(1, 1, SEED)
        played = group.play()
        assert played is not None
        returns.append(played.returns.tolist())
    assert returns[0] == returns[1]


class ByParity(PPO):
    """Even slots are one module's, odd ones another's with other networks."""

    @classmethod
    def module_ids(cls, config: Any) -> tuple[str, ...]:
        return "even", "odd"

    @staticmethod
    def module_of_slot(slot: int, worker_index: int) -> str:
        return by_parity(slot, worker_index)

    def policy_options(self, module_id: str) -> dict[str, Any]:
        return {"model": {"fcnet_hiddens": [8]}} if module_id == "odd" else {}


def test_beside_training_modules_play_with_the_weights_that_the_iteration_begins_with() -> None:
    settings = {**SMALL, "evaluation_interval": 1, "observation_filter": "MeanStdFilter"}
    names = ("episode_return_mean", "num_env_steps")

    def played(**more: Any) -> list[list[float]]:
        with ByParity(config_of(**settings | more)) as algo:
            if not more:
                algo.evaluate()
            results = [evaluation_of(algo.train()) for _ in range(3)]
        return [[result[name] for name in names] for result in results]

    between = played(evaluation_num_env_runners=0)
    assert len({total for total, _ in between}) == 3  # it trains
    assert played() == between
    beside = played(evaluation_num_env_runners=2, evaluation_parallel_to_training=True)
    assert beside[1:] == between[:-1]


def test_a_checkpoint_of_several_policies_is_loaded_by_the_folder_of_one(tmp_path: Path) -> None:
    with ByParity(config_of(**SMALL)) as algo:
        algo.save(str(tmp_path))
        weights = algo.get_weights()
    with pytest.raises(CheckpointError, match=r"several policies \(even, odd\): .*policies/even$"):
        Policy.load(tmp_path)
    for module_id in ("even", "odd"):
        loaded = Policy.load(policy_folder(tmp_path, module_id))
        np.testing.assert_equal(loaded.get_weights(), weights[module_id])
    shutil.rmtree(policy_folder(tmp_path, "odd"))
    np.testing.assert_equal(Policy.load(tmp_path).get_weights(), weights["even"])
