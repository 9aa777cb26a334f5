"""Stored actions and those of environments, there and back."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from every_row import check_rows
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import Golden, refusals
from space_strategies import ACTION_LEAVES, nested_spaces

from trainables.core.distributions.build import distribution_for
from trainables.core.distributions.joint import Joint
from trainables.core.errors import ConfigError
from trainables.core.networks.soft_actor_critic import SoftActorCritic
from trainables.core.policy.actions import ActionConnector, single_action

Box, Dict, Tuple = gym.spaces.Box, gym.spaces.Dict, gym.spaces.Tuple
Discrete, MultiDiscrete = gym.spaces.Discrete, gym.spaces.MultiDiscrete
MultiBinary = gym.spaces.MultiBinary

NESTED = Dict(
    [
        ("z", Box(np.float32([0, -2]), np.float32([1, 6]))),
        ("a", Tuple([Discrete(3, start=-1), Dict(bits=MultiBinary(2))])),
        ("steps", Box(-128, 127, (2,), np.int8)),
    ]
)
STORED = torch.tensor([[-1.0, 0.5, 2.0, 1.0, 0.0, 0.0, 255.0], [3.0, -1.0, 0.0, 0.0, 1.0, 7, 8]])


def connector_of(space: gym.Space, squash: bool = False, **options: bool) -> ActionConnector:
    options = {"normalize": True, "clip": False} | options
    return ActionConnector(space, distribution_for(space, squash=squash), **options)


def equal(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[key], two[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(two) and all(map(equal, one, two))
    return np.array_equal(one, two)


def test_nested_actions_by_hand() -> None:
    actions = connector_of(NESTED)(STORED)
    expected = {
        "z": np.float32([[0, 4], [1, -2]]),  # stretched; what lies beyond the bounds is clipped
        "a": (np.array([1, -1]), {"bits": np.int8([[1, 0], [0, 1]])}),
        "steps": np.int8([[-128, 127], [-121, -120]]),
    }
    assert equal(actions, expected)
    assert actions["steps"].dtype == np.int8 and actions["a"][0].dtype == np.int64
    first = single_action(NESTED, actions)
    assert NESTED.contains(first) and isinstance(first["a"][0], np.int64)
    assert first["a"][0] == 1 and first["z"].tolist() == [0, 4]
    assert single_action(NESTED, actions, 1)["steps"].tolist() == [-121, -120]


def test_back_to_stored_by_hand() -> None:
    connector = connector_of(NESTED)
    clipped = STORED.clone()
    clipped[1, 0] = 1.0
    back = connector.to_stored(connector(STORED))
    torch.testing.assert_close(back, clipped)
    assert back.dtype == torch.float32
    one = single_action(connector.space, connector(STORED), 1)
    torch.testing.assert_close(connector.to_stored(one, batched=False), clipped[1])
    singles = [single_action(connector.space, connector(STORED), index) for index in range(2)]
    torch.testing.assert_close(connector.to_stored(singles), clipped)


class Recorder(gym.Env[Any, Any]):
    """Keeps the last action; refuses one that is not of its space."""

    observation_space = Box(0, 1)

    def __init__(self, space: gym.Space):
        self.action_space = space
        self.taken: Any = None

    def reset(self, **options: Any) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.taken = action
        return np.zeros(1, np.float32), 0.0, False, False, {}


@given(nested_spaces(kinds=ACTION_LEAVES), st.integers(0, 2**16), st.booleans())
@settings(max_examples=75, deadline=None)
@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
def test_environments_get_actions_of_their_space(space: gym.Space, seed: int, squash: bool) -> None:
    """Through gymnasium's vector environment, which takes a batch apart, and one by one."""
    squash = squash and all(
        np.isfinite([leaf.low, leaf.high]).all()
        for leaf in boxes(space)  # else refused
    )
    distribution = distribution_for(space, squash=squash)
    connector = ActionConnector(space, distribution, normalize=True, clip=False)
    generator = torch.Generator().manual_seed(seed)
    inputs = 3 * torch.randn(3, distribution.num_inputs, generator=generator)
    stored = distribution.sample(inputs, generator)
    actions = connector(stored)
    assert batch_space(space, 3).contains(actions)
    vector = SyncVectorEnv([lambda: Recorder(space)] * 3)
    vector.reset()
    vector.step(actions)
    for index, env in enumerate(vector.envs):
        single = single_action(connector.space, actions, index)
        assert space.contains(single)
        assert equal(single, env.unwrapped.taken)  # type: ignore[attr-defined]
    # An environment's action comes back from what is stored of it.
    again = connector.to_stored(actions)
    assert again.shape == stored.shape and again.dtype == stored.dtype
    assert batch_space(space, 3).contains(connector(again))
    same_tree(space, connector(again), actions)


def boxes(space: gym.Space) -> list[Any]:
    if isinstance(space, Dict):
        return [leaf for part in space.spaces.values() for leaf in boxes(part)]
    if isinstance(space, Tuple):
        return [leaf for part in space.spaces for leaf in boxes(part)]
    return [space] if isinstance(space, Box) else []


def same_tree(space: gym.Space, one: Any, two: Any) -> None:
    if isinstance(space, Dict):
        for key, part in space.spaces.items():
            same_tree(part, one[key], two[key])
    elif isinstance(space, Tuple):
        for index, part in enumerate(space.spaces):
            same_tree(part, one[index], two[index])
    elif isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        np.testing.assert_allclose(one, two, atol=2e-2 if space.dtype == np.float16 else 1e-5)
    else:
        np.testing.assert_array_equal(one, two)


def test_starts() -> None:
    def check(space: gym.Space, stored: torch.Tensor, expected: Any) -> None:
        connector = connector_of(space)
        actions = connector(stored)
        assert actions.dtype == space.dtype and np.array_equal(actions, expected)
        assert torch.equal(connector.to_stored(actions), stored)

    rows = [
        (Discrete(3, start=5), torch.tensor([2, 0]), np.array([7, 5])),
        (MultiDiscrete([[2], [3]], start=[[1], [-1]]), torch.tensor([[[1], [2]]]), [[[2], [1]]]),
        (MultiBinary([1, 2]), torch.tensor([[[1, 0]]]), [[[1, 0]]]),
        (Box(3, 9, (1,), np.uint8), torch.tensor([[6]]), [[9]]),
        (Box(2**63, 2**63 + 5, (1,), np.uint64), torch.tensor([[5]]), [[2**63 + 5]]),
        (Box(-128, 127, (1,), np.int8), torch.tensor([[255]]), [[127]]),
        (Box(0, 1, (1,), np.bool_), torch.tensor([[1]]), [[True]]),
    ]
    check_rows(check, rows)


def test_the_widest_boxes() -> None:
    """Twice the largest number is not finite."""
    for dtype in (np.float32, np.float64):
        largest = np.finfo(dtype).max
        space = Box(-largest, largest, (1,), dtype)
        actions = connector_of(space)(torch.tensor([[-1.0], [0.0], [1.0]]))
        assert actions.tolist() == [[-largest], [0], [largest]]
        assert connector_of(space).to_stored(actions).tolist() == [[-1], [0], [1]]


def test_saturated_actions_stay_inside_though_bounds_are_rounded() -> None:
    low, width = np.random.default_rng(0).random((2, 1000), dtype=np.float32)
    space = Box(low, low + width)
    connector = connector_of(space, squash=True, normalize=False)
    for stored in (-50.0, 50.0):
        assert space.contains(connector(torch.full((1, 1000), stored))[0])


def test_a_box_of_one_value() -> None:
    space = Box(np.float32([2.0, 0.0]), np.float32([2.0, 1.0]))
    actions = connector_of(space)(torch.tensor([[0.7, 0.0]]))
    assert actions.tolist() == [[2, 0.5]]
    assert connector_of(space).to_stored(actions).tolist() == [[0, 0]]


def test_options_act_on_each_box_of_floats() -> None:
    space = Tuple([Box(0, 4, (1,)), Box(-np.inf, 1, (1,))])
    stored = torch.tensor([[0.5, 3.0]])
    for options, expected in (
        ({}, [3, 1]),
        ({"normalize": False}, [0.5, 3]),
        ({"normalize": False, "clip": True}, [0.5, 1]),
    ):
        actions = connector_of(space, **options)(stored)
        assert [float(leaf.item()) for leaf in actions] == expected


def test_squashed_leaves_need_bounds() -> None:
    space = Dict(a=Discrete(2), b=Tuple([Box(-np.inf, np.inf, (1,))]))
    with pytest.raises(ConfigError, match=r"squash_actions=True needs a bounded .* at 'b/0'"):
        connector_of(space, squash=True)


def test_a_wrong_action_is_named() -> None:
    connector = connector_of(NESTED)
    actions = connector(STORED)
    with pytest.raises(ConfigError, match=r"^action has no key 'steps'"):
        connector.to_stored({key: actions[key] for key in ("z", "a")})
    with pytest.raises(ConfigError, match=r"^action at 'z' has shape \(2,\), not \(batch, 2\)"):
        connector.to_stored(actions | {"z": actions["z"][0]})
    with pytest.raises(ConfigError, match=r"^action has the value 3, which Discrete"):
        connector_of(Discrete(3)).to_stored(3, batched=False)


BOXES = Dict(a=Box(-1, 1, (2,)), b=Tuple([Box(0, 4, (1, 2), np.float64)]))


def test_soft_actor_critic_has_one_gaussian_over_nested_boxes() -> None:
    distribution = SoftActorCritic.distribution_of(BOXES, {})
    assert not isinstance(distribution, Joint) and distribution.action_shape == (4,)
    connector = ActionConnector(BOXES, distribution, normalize=True, clip=False)
    stored = torch.tensor([[0.0, 50.0, -50.0, 0.0]])
    actions = connector(stored)
    assert actions["a"].tolist() == [[0, 1]] and actions["b"][0].tolist() == [[[0, 2]]]
    torch.testing.assert_close(connector.to_stored(actions).tanh(), stored.tanh())


def test_what_soft_actor_critic_refuses(golden: Golden) -> None:
    cases = [
        Dict(a=Box(0, 1, (1,)), b=Discrete(2)),
        MultiDiscrete([2, 2]),
        Tuple([Box(0, np.inf, (1,))]),
        Box(0, 3, (1,), np.int64),
    ]
    golden(
        "action_connector/what_soft_actor_critic_refuses",
        refusals(lambda space: SoftActorCritic.distribution_of(space, {}), cases),
    )


@pytest.mark.parametrize(("squash", "normalize"), [(False, True), (False, False), (True, True)])
def test_what_is_clipped_has_the_mass_beyond_the_bound(squash: bool, normalize: bool) -> None:
    """It is known again in what was recorded, and probabilities sum to one."""
    low, high = (-1.0, 1.0) if normalize else (2.0, 6.0)
    connector = connector_of(Box(2.0, 6.0, (1,)), squash, normalize=normalize, clip=True)
    mean, std = 0.3 * (high - low) / 2 + (high + low) / 2, (high - low) / 2
    inputs = torch.tensor([mean, math.log(std)]).expand(40_001, 2)
    reach = 12.0 if squash else 3 * (high - low)
    stored = torch.linspace(low - reach, high + reach, 40_001)[:, None]
    logp = connector.logp(inputs, stored)
    again = connector.to_stored(connector(stored))
    assert torch.allclose(connector.logp(inputs, again), logp, atol=0.05 if squash else 1e-4)
    actions = torch.from_numpy(connector(stored))[:, 0].double()
    is_low, is_high = actions < 2.001, actions > 5.999
    inside = ~(is_low | is_high)
    normalised = (actions[inside] - 4) / 2  # which densities are of, whatever is stored
    total = torch.trapezoid(logp[inside].double().exp(), normalised)
    assert float(logp[0].exp() + logp[-1].exp() + total) == pytest.approx(1, abs=2e-3)
    assert logp[:1000].unique().numel() == 1 and float(logp[0].exp()) > (0 if squash else 0.02)
    given = inputs[[0, 20_000, 40_000]].clone().requires_grad_()
    connector.logp(given, stored[[0, 20_000, 40_000]]).sum().backward()
    assert given.grad is not None and bool(given.grad.isfinite().all())


def test_the_probability_of_nested_actions_is_that_of_their_parts() -> None:
    connector = connector_of(NESTED)
    inputs = torch.randn(2, distribution_for(NESTED).num_inputs)
    lone = connector_of(NESTED["z"])
    places = distribution_for(NESTED["z"]).num_inputs
    own, of_all = lone.logp(inputs[:, :places], STORED[:, :2]), connector.logp(inputs, STORED)
    unclipped = distribution_for(NESTED).logp(inputs, STORED)
    density = distribution_for(NESTED["z"]).logp(inputs[:, :places], STORED[:, :2])
    torch.testing.assert_close(of_all - own, unclipped - density)
    assert not torch.allclose(own, density)
