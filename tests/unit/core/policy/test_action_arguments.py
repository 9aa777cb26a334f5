"""`compute_actions` and `compute_single_action` with the keywords and forms of the reference."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from trainables import DQNConfig, Policy, PPOConfig, SACConfig
from trainables.core.errors import ConfigError

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete
SPACE = Box(-1, 1, (3,), np.float32)
OBS = np.array([0.1, -0.2, 0.3], np.float32)
BATCH = np.stack([OBS, -OBS, 2 * OBS])


def recurrent(**more: Any) -> Policy:
    return Policy(
        SPACE, Discrete(2), {"use_lstm": True, "lstm_cell_size": 5, **more}, seed=0, explore=False
    )


def gaussian(**options: Any) -> Policy:
    """Its mean is 0.5 in the normalised space, so 15 in an environment whose actions are 0 to 20.

    Without `normalize_actions` it is 0.5 as it is.
    """
    policy = Policy(SPACE, Box(0, 20, (1,), np.float32), seed=0, explore=False, **options)
    for parameter in policy.module.get_submodule("policy_head").parameters():
        parameter.data.zero_()
    policy.module.get_parameter("policy_head.0.bias").data[0] = 0.5
    return policy


def test_keywords_of_the_reference_are_taken() -> None:
    policy = Policy(SPACE, Discrete(2), seed=0, explore=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        action = policy.compute_single_action(
            OBS, [], info={"a": 1}, timestep=5, episode=object(), unsquash_action=True
        )
        actions = policy.compute_actions(BATCH, [], info=[{}], timestep=5, episodes=[None])
    assert action == actions[0]


def test_unknown_keywords_give_one_warning() -> None:
    policy = Policy(SPACE, Discrete(2), seed=0, explore=False)
    for compute, obs in ((policy.compute_single_action, OBS), (policy.compute_actions, BATCH)):
        with pytest.warns(UserWarning) as told:
            compute(obs, anything="goes", more=1)
        assert len(told) == 1
        assert "no effect on the action: anything, more;" in str(told[0].message)


@pytest.mark.parametrize(
    ("options", "asked", "action"),
    [
        ({}, {}, 15.0),
        ({}, {"unsquash_action": False}, 0.5),
        ({}, {"unsquash_actions": False}, 0.5),  # an older name
        ({}, {"unsquash_actions": -1}, 15.0),  # how the reference says that it is not given
        ({}, {"unsquash_action": True}, 15.0),
        ({"normalize_actions": False}, {}, 0.5),
        ({"normalize_actions": False}, {"unsquash_action": True}, 15.0),
        ({"model": {"squash_actions": True}}, {"unsquash_action": False}, np.tanh(0.5)),
        ({"model": {"squash_actions": True}}, {}, 10 + 10 * np.tanh(0.5)),
    ],
)
def test_unsquashed_actions(options: Any, asked: Any, action: float) -> None:
    policy = gaussian(**options)
    assert policy.compute_single_action(OBS, **asked) == pytest.approx([action])
    several = {name.replace("action", "actions").rstrip("s") + "s": v for name, v in asked.items()}
    several = {name.replace("actionss", "actions"): value for name, value in several.items()}
    assert policy.compute_actions(BATCH, **several) == pytest.approx(np.full((3, 1), action))


def test_clipped_actions() -> None:
    policy = gaussian(normalize_actions=False)
    policy.module.get_parameter("policy_head.0.bias").data[0] = -3.0
    assert policy.compute_single_action(OBS) == -3.0
    assert policy.compute_single_action(OBS, clip_action=True) == 0.0
    assert policy.compute_actions(BATCH, clip_actions=True).tolist() == [[0.0]] * 3
    policy = gaussian(normalize_actions=False, clip_actions=True)
    policy.module.get_parameter("policy_head.0.bias").data[0] = -3.0
    assert policy.compute_single_action(OBS, clip_action=False) == -3.0


def doubled(action: Any) -> Any:
    return action * 2


def test_scales_are_not_changed_before_a_connector() -> None:
    policy = gaussian(module_to_env_connector=doubled)
    assert policy.compute_single_action(OBS, unsquash_action=True) == 30.0
    with pytest.raises(ConfigError, match=r"cannot be changed before a module_to_env_connector"):
        policy.compute_single_action(OBS, unsquash_action=False)


def test_a_state_comes_back_in_the_form_that_was_given() -> None:
    policy = recurrent()
    start = policy.get_initial_state()
    assert all(part.shape == (5,) for part in start.values())
    by_name = policy.compute_single_action(OBS, start)
    as_list = policy.compute_single_action(OBS, list(start.values()))
    as_tuple = policy.compute_single_action(OBS, tuple(start.values()))
    empty = policy.compute_single_action(OBS, [])
    assert isinstance(by_name.state, dict) and list(by_name.state) == list(start)
    assert isinstance(as_list.state, list) and isinstance(empty.state, list)
    assert isinstance(as_tuple.state, tuple)
    for other in (as_list, as_tuple, empty):
        for mine, theirs in zip(by_name.state.values(), other.state, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    batch = [np.zeros((3, 5), np.float32)] * len(start)
    after = policy.compute_actions(BATCH, batch).state
    assert isinstance(after, list) and after[0].shape == (3, 5)
    np.testing.assert_allclose(after[0][0], as_list.state[0], rtol=1e-5)


def test_wrong_states_are_named() -> None:
    with pytest.raises(
        ConfigError, match=r"has 1 parts; the policy's has 4: \['policy\..*None begins"
    ):
        recurrent().compute_single_action(OBS, [np.zeros(5)])
    with pytest.raises(ConfigError, match=r"state is a ndarray; allowed: a dict by name, or a li"):
        recurrent().compute_single_action(OBS, np.zeros(5))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"the policy's has 0: it is not recurrent"):
        Policy(SPACE, Discrete(2)).compute_single_action(OBS, [np.zeros(5)])


def test_an_input_dict_stands_for_all() -> None:
    policy = recurrent(lstm_use_prev_reward=True, lstm_use_prev_action=True)
    start = [np.full(5, 0.1 * number, np.float32) for number in range(4)]
    expected = policy.compute_single_action(OBS, start, prev_action=1, prev_reward=2.0)
    columns = {f"state_in_{number}": part for number, part in enumerate(start)}
    shuffled = dict(reversed(columns.items()))
    found = policy.compute_single_action(
        input_dict={"obs": OBS, **shuffled, "prev_actions": 1, "prev_rewards": 2.0, "t": 3}
    )
    np.testing.assert_array_equal(
        found.extra["action_dist_inputs"], expected.extra["action_dist_inputs"]
    )
    for mine, theirs in zip(found.state, expected.state, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    named = dict(zip(policy.get_initial_state(), start, strict=True))
    by_name = policy.compute_single_action(
        input_dict={"obs": OBS, **{f"state_in_{n}": part for n, part in named.items()}}
    )
    assert list(by_name.state) == list(named)


def test_an_input_dict_of_a_policy_that_sees_less() -> None:
    policy = Policy(SPACE, Discrete(2), seed=0, explore=False)
    with pytest.warns(UserWarning, match=r"no effect on the action: input_dict\['my_view'\];"):
        action = policy.compute_single_action(
            input_dict={"obs": OBS, "prev_actions": 1, "my_view": 0}
        )
    assert action == policy.compute_single_action(OBS)
    with pytest.raises(ConfigError, match="input_dict has no 'obs'; it has \\['t'\\]"):
        policy.compute_single_action(input_dict={"t": 0})
    with pytest.raises(ConfigError, match="both are given"):
        policy.compute_single_action(OBS, input_dict={"obs": OBS})
    with pytest.raises(ConfigError, match=r"first argument or as input_dict\['obs'\]; none is"):
        policy.compute_single_action()


# ------------------------------------------------------------------ through an algorithm


@pytest.fixture(scope="module")
def ppo() -> Iterator[Any]:
    algo = PPOConfig().environment("Pendulum-v1").debugging(seed=0).build()
    yield algo
    algo.stop()


def test_an_algorithm_passes_all_on(ppo: Any) -> None:
    policy = ppo.get_policy()
    obs, asked = OBS, {"explore": False}
    normal = ppo.compute_single_action(observation=obs, unsquash_action=False, **asked)
    assert ppo.compute_single_action(obs, **asked) == pytest.approx(2 * normal)  # to [-2, 2]
    assert policy.compute_single_action(obs, unsquash_action=False, **asked) == normal
    assert ppo.compute_single_action(input_dict={"obs": obs}, **asked) == 2 * normal
    with pytest.warns(UserWarning, match="no effect on the action: anything;"):
        ppo.compute_single_action(obs, anything="goes", timestep=3, info={}, episode=None)


def test_observations_by_key_drop_nothing(ppo: Any) -> None:
    keyed = {"a": OBS, "b": -OBS}
    normal = ppo.compute_actions(keyed, explore=False, unsquash_actions=False)
    stretched = ppo.compute_actions(keyed, explore=False)
    batch = ppo.compute_actions(np.stack([OBS, -OBS]), explore=False)
    assert list(normal) == ["a", "b"]
    for row, key in enumerate(keyed):
        np.testing.assert_allclose(stretched[key], 2 * normal[key])
        np.testing.assert_array_equal(stretched[key], batch[row])
    with pytest.warns(UserWarning) as told:
        ppo.compute_actions(keyed, unsquash_actions=False, anything="goes")
    assert len(told) == 1 and "no effect on the action: anything;" in str(told[0].message)
    actions, states, extra = ppo.compute_actions(keyed, full_fetch=True)
    assert (set(actions), states) == ({"a", "b"}, {"a": {}, "b": {}})
    assert extra["vf_preds"].shape == (2,)
    assert ppo.compute_actions({}) == {}


def test_states_by_key() -> None:
    config = PPOConfig().environment("Pendulum-v1").debugging(seed=0)
    config.training(
        model={"use_lstm": True, "lstm_cell_size": 5, "lstm_use_prev_action": True},
        minibatch_size=None,
    )
    with config.build() as algo:
        keyed = {"a": OBS, 7: -OBS}
        _, states, _ = algo.compute_actions(keyed, explore=False)
        policy = algo.get_policy()
        first = policy.compute_single_action(OBS, explore=False)
        np.testing.assert_allclose(
            list(states["a"].values()), list(first.state.values()), rtol=1e-4, atol=1e-6
        )
        before = {"a": list(states["a"].values())}  # 7 begins an episode
        previous = {"a": [0.5], 7: [0.0]}
        actions, after, _ = algo.compute_actions(keyed, before, prev_action=previous, explore=False)
        alone = policy.compute_single_action(
            OBS, states["a"], prev_action=np.array([0.5], np.float32), explore=False
        )
        np.testing.assert_allclose(actions["a"], alone.actions, rtol=1e-4, atol=1e-6)
        assert isinstance(after["a"], list) and isinstance(after[7], dict)
        with pytest.raises(ConfigError, match=r"state must be a dict by the keys of the obser"):
            algo.compute_actions(keyed, {"c": before["a"]})
        with pytest.raises(ConfigError, match="does not fit the policy's"):
            algo.compute_actions(keyed, {"a": {"x": 0}})


def test_exploration_at_a_timestep() -> None:
    config = DQNConfig().environment("CartPole-v1").debugging(seed=0)
    config.training(epsilon=[[0, 1.0], [1000, 0.0]])
    obs = np.zeros((200, 4), np.float32)
    with config.build() as algo:
        algo.get_policy().set_exploration(epsilon=0.25)
        before = dict(algo.get_policy().exploration)
        assert len(set(algo.compute_actions(obs, timestep=0).tolist())) == 2
        assert len(set(algo.compute_actions(obs, timestep=1000).tolist())) == 1
        assert {algo.compute_single_action(obs[0], timestep=1000) for _ in range(50)} == {
            algo.compute_single_action(obs[0], explore=False)
        }
        assert algo.get_policy().exploration == before
        assert algo.get_policy().distribution.epsilon == 0.25


def test_a_timestep_before_and_after_the_warm_up() -> None:
    config = SACConfig().environment("Pendulum-v1").debugging(seed=0)
    config.training(num_steps_sampled_before_learning_starts=500)
    with config.build() as algo:
        told = [algo.exploration_at(steps)["uniform"] for steps in (0, 500, 501)]
        assert told == [True, True, False]
