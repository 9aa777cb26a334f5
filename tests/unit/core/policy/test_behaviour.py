"""What records data says of log-probabilities: exact, or nothing."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
import torch

from trainables import Policy
from trainables.core.errors import ConfigError
from trainables.core.policy.behaviour import Behaviour, UniformPolicy

OBS = gym.spaces.Box(-1, 1, (3,), np.float32)
ROWS = np.random.default_rng(0).uniform(-1, 1, (4000, 3)).astype(np.float32)


def discrete(count: int = 4) -> Policy:
    return Policy(OBS, gym.spaces.Discrete(count), seed=0)


def acted(behaviour: Behaviour, explore: bool) -> np.ndarray:
    generator = torch.Generator().manual_seed(1)
    return np.asarray(behaviour.act(ROWS, explore, generator, {}, {}).env_actions)


@pytest.mark.parametrize("explore", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_a_mixture_has_the_probabilities_that_it_says(explore: bool, epsilon: float) -> None:
    policy = discrete()
    behaviour = Behaviour(policy, epsilon=epsilon)
    actions = acted(behaviour, explore)
    inputs = policy.act(ROWS, False).inputs
    own = torch.softmax(inputs, -1).numpy()
    if not explore:
        own = np.eye(4)[inputs.argmax(-1).numpy()]
    mixed = (1 - epsilon) * own + epsilon / 4
    expected = np.log(np.take_along_axis(mixed, actions[:, None], 1)[:, 0])
    np.testing.assert_allclose(behaviour.logp, expected, atol=1e-5)
    # And it acts so: how often the greedy action is taken is what it says.
    greedy = inputs.argmax(-1).numpy()
    share = np.take_along_axis(mixed, greedy[:, None], 1).mean()
    assert (actions == greedy).mean() == pytest.approx(share, abs=0.04)


def test_slots_that_are_random_are_so_for_all_actions() -> None:
    behaviour = Behaviour(discrete(), may_be_random=True)
    behaviour.random_slots = np.arange(len(ROWS)) % 2 == 0
    actions = acted(behaviour, explore=False)
    np.testing.assert_allclose(behaviour.logp[::2], -math.log(4), rtol=1e-6)
    assert (behaviour.logp[1::2] == 0).all()
    counts = np.bincount(actions[::2], minlength=4) / 2000
    np.testing.assert_allclose(counts, 0.25, atol=0.05)


def test_masked_actions_are_never_drawn_and_share_no_probability() -> None:
    space = gym.spaces.Dict(
        {"action_mask": gym.spaces.MultiBinary(4), "x": gym.spaces.Box(-1, 1, (3,), np.float32)}
    )
    behaviour = Behaviour(UniformPolicy(space, gym.spaces.Discrete(4)))
    obs = {"action_mask": np.tile(np.array([0, 1, 1, 0], np.int8), (4000, 1)), "x": ROWS}
    rows = behaviour.observations.layout.rows(obs)
    actions = behaviour.act(rows, True, torch.Generator().manual_seed(0), {}, {}).env_actions
    assert {*np.asarray(actions).tolist()} == {1, 2}
    np.testing.assert_allclose(behaviour.logp, -math.log(2), rtol=1e-6)


def test_a_density_is_noted_where_nothing_is_mixed_in() -> None:
    policy = Policy(OBS, gym.spaces.Box(-2, 2, (1,), np.float32), seed=0)
    behaviour = Behaviour(policy)
    acting = behaviour.act(ROWS, True, torch.Generator().manual_seed(0), {}, {})
    expected = policy.distribution.logp(acting.inputs, acting.actions).numpy()
    inside = np.abs(acting.env_actions[:, 0]) < 2
    assert 0.5 < inside.mean() < 0.9
    np.testing.assert_allclose(behaviour.logp[inside], expected[inside], rtol=1e-5)
    taken = policy.actions.logp(acting.inputs, acting.actions).numpy()  # of clipped ones, too
    np.testing.assert_array_equal(behaviour.logp, taken)
    behaviour.act(ROWS, False, None, {}, {})
    assert np.isnan(behaviour.logp).all()  # one action has all the probability
    mixed = Behaviour(policy, epsilon=0.5)
    actions = acted(mixed, explore=False)
    assert np.isnan(mixed.logp).all() and np.abs(actions).max() <= 2
    assert np.abs(actions).max() > 1.9  # as far as the bounds


def test_uniform_actions_fill_every_space() -> None:
    space = gym.spaces.Dict(
        {
            "a": gym.spaces.Discrete(3, start=-1),
            "b": gym.spaces.MultiDiscrete([2, 5]),
            "c": gym.spaces.MultiBinary(3),
            "d": gym.spaces.Box(np.float32([0, -4]), np.float32([1, 4])),
            "e": gym.spaces.Box(0, 7, (2,), np.uint8),
        }
    )
    policy = UniformPolicy(OBS, space)
    actions = policy.act(ROWS, True, torch.Generator().manual_seed(0)).env_actions
    for number in range(0, 4000, 100):
        assert space.contains({key: values[number] for key, values in actions.items()})
    assert {*actions["a"].tolist()} == {-1, 0, 1}
    assert {*actions["b"][:, 1].tolist()} == {*range(5)}
    assert {*actions["e"].ravel().tolist()} == {*range(8)}
    assert actions["d"][:, 1].min() < -3.9 and actions["d"][:, 1].max() > 3.9


def test_actions_without_bounds_cannot_be_random() -> None:
    unbounded = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    with pytest.raises(ConfigError, match="need bounds"):
        UniformPolicy(OBS, unbounded)
    with pytest.raises(ConfigError, match="need bounds"):
        Behaviour(Policy(OBS, unbounded), epsilon=0.1)
