"""The intrinsic curiosity module: its losses, its bonuses and who learns from which of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from every_row import check_rows
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.icm import IntrinsicCuriosity, inverse_loss
from trainables.core.curiosity.novelty import BONUS
from trainables.core.curiosity.rnd import RandomDistillation
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import FeatureSpec
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.build import distribution_for
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.learning.ranks import ALONE

ROWS, WIDTH, ACTIONS = 12, 4, 3


def made(normalized: bool = False, seed: int = 0, **options: Any) -> IntrinsicCuriosity:
    torch.manual_seed(seed)
    settings = ExplorationConfig.of(
        {
            "type": "Curiosity",
            "feature_dim": 5,
            "feature_net_config": {"fcnet_hiddens": [7]},
            "inverse_net_hiddens": [6],
            "forward_net_hiddens": [8],
            "normalize_observations": normalized,
            **options,
        }
    )
    return IntrinsicCuriosity(FeatureSpec(WIDTH), Categorical(ACTIONS), settings)


def transitions(seed: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return {
        "features": torch.randn(ROWS, WIDTH, generator=generator),
        "next_features": torch.randn(ROWS, WIDTH, generator=generator),
        "actions": torch.randint(0, ACTIONS, (ROWS,), generator=generator),
    }


def dense(network: nn.Module, row: np.ndarray) -> np.ndarray:
    """Layers of one row, by their weights."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            weight = layer.weight.detach().double().numpy()
            row = weight @ row + layer.bias.detach().double().numpy()
        elif isinstance(layer, nn.ReLU):
            row = np.maximum(row, 0)
    return row


def slow(icm: IntrinsicCuriosity, batch: Batch) -> tuple[list[float], list[float]]:
    """Inverse and forward losses of each row."""
    inverse, forward = [], []
    for i in range(ROWS):
        before = dense(icm.features, batch["features"][i].double().numpy())
        after = dense(icm.features, batch["next_features"][i].double().numpy())
        action = int(batch["actions"][i])
        logits = dense(icm.inverse, np.concatenate([before, after]))
        inverse.append(math.log(sum(math.exp(x) for x in logits)) - logits[action])
        done = np.array([float(a == action) for a in range(ACTIONS)])
        predicted = dense(icm.forward_model, np.concatenate([before, done]))
        forward.append(sum((p - f) ** 2 for p, f in zip(predicted, after, strict=True)) / 2)
    return inverse, forward


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.2, 1.0])
def test_losses_and_bonuses_are_those_of_a_loop_over_rows(beta: float, detached: bool) -> None:
    icm, batch = made(beta=beta, detach_features=detached), transitions()
    inverse, forward = slow(icm, batch)
    np.testing.assert_allclose(icm.bonus(batch).detach(), forward, rtol=1e-4)
    loss, metrics = icm.loss(batch)
    expected = (1 - beta) * np.mean(inverse) + beta * np.mean(forward)
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-5)
    np.testing.assert_allclose(float(metrics["inverse_loss"]), np.mean(inverse), rtol=1e-5)
    np.testing.assert_allclose(float(metrics["forward_loss"]), np.mean(forward), rtol=1e-5)


@pytest.mark.parametrize("detached", [False, True])
def test_the_loss_leaves_the_bonuses_in_the_batch(detached: bool) -> None:
    icm, batch = made(detach_features=detached), transitions()
    expected = icm.bonus(batch).detach()
    icm.loss(batch)
    torch.testing.assert_close(batch[BONUS], expected)
    assert not batch[BONUS].requires_grad


def gradients(**options: Any) -> dict[str, Tensor]:
    icm = made(**options)
    assert icm.trained is not None
    assert {id(p) for p in icm.trained.parameters()} == {id(p) for p in icm.parameters()}
    icm.loss(transitions())[0].backward()
    networks = {"features": icm.features, "inverse": icm.inverse, "forward": icm.forward_model}
    return {
        name: torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
        for name, network in networks.items()
    }


@pytest.mark.parametrize(
    ("options", "learning"),
    [
        ({"beta": 0.0}, {"features", "inverse"}),
        ({"beta": 1.0}, {"features", "forward"}),
        ({"beta": 0.2}, {"features", "inverse", "forward"}),
        ({"beta": 0.0, "detach_features": True}, {"features", "inverse"}),
        ({"beta": 1.0, "detach_features": True}, {"forward"}),
    ],
)
def test_who_learns_from_which_loss(options: dict[str, Any], learning: set[str]) -> None:
    found = {name for name, gradient in gradients(**options).items() if gradient.any()}
    assert found == learning


def test_features_learn_from_both_losses_by_their_weights() -> None:
    inverse, forward = (gradients(beta=beta)["features"] for beta in (0.0, 1.0))
    torch.testing.assert_close(gradients(beta=0.3)["features"], 0.7 * inverse + 0.3 * forward)
    detached = gradients(beta=0.3, detach_features=True)
    torch.testing.assert_close(detached["features"], 0.7 * inverse)
    torch.testing.assert_close(detached["forward"], gradients(beta=0.3)["forward"])


def test_networks_see_normalised_observations() -> None:
    icm, batch = made(normalized=True), transitions()
    for name in ("features", "next_features"):
        batch[name] = 30 * batch[name] + 1000
    icm.observe(tree_of(batch, "next_features"), ALONE)
    after = batch["next_features"].double().numpy()
    plain, scaled = made(), dict(batch)
    for name in ("features", "next_features"):
        seen = (batch[name].double().numpy() - after.mean(0)) / after.std(0, ddof=1)
        scaled[name] = torch.from_numpy(seen.clip(-5, 5)).float()
    torch.testing.assert_close(icm.bonus(batch), plain.bonus(scaled), rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------ inverse losses


def choice(told: Tensor, action: Tensor) -> float:
    return float(functional.cross_entropy(told.unsqueeze(0), action.long().reshape(1)))


def choices(counts: list[int]) -> Callable[[Tensor, Tensor], float]:
    def of_row(told: Tensor, action: Tensor) -> float:
        parts = zip(told.split(counts), action.flatten(), strict=True)
        return sum(choice(own, number) for own, number in parts)

    return of_row


def bits(told: Tensor, action: Tensor) -> float:
    summed = functional.binary_cross_entropy_with_logits(
        told, action.flatten().float(), reduction="sum"
    )
    return float(summed)


def plain(told: Tensor, action: Tensor) -> float:
    return sum((float(t) - float(a)) ** 2 / 2 for t, a in zip(told, action.flatten(), strict=True))


def squashed(told: Tensor, action: Tensor) -> float:
    return plain(told, torch.tensor([math.tanh(float(a)) for a in action.flatten()]))


def nested(told: Tensor, action: Tensor) -> float:
    """Of the dict below: leaves in order of their names; 2 numbers, 2 bits, 4 choices, 2 and 3."""
    continuous = plain(told[:2], action[:2])
    discrete = choice(told[4:8], action[4])
    return (
        continuous + bits(told[2:4], action[2:4]) + discrete + choices([2, 3])(told[8:], action[5:])
    )


def box(*shape: int) -> spaces.Box:
    return spaces.Box(-2.0, 2.0, shape)


NESTED = spaces.Dict(
    {
        "a": box(2),
        "b": spaces.Dict({"bits": spaces.MultiBinary(2), "one": spaces.Discrete(4)}),
        "c": spaces.MultiDiscrete([2, 3]),
    }
)
INVERSE: dict[str, tuple[gym.Space, bool, Callable[[Tensor, Tensor], float]]] = {
    "Discrete": (spaces.Discrete(4), False, choice),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 5, 3]), False, choices([2, 5, 3])),
    "MultiBinary": (spaces.MultiBinary(4), False, bits),
    "MultiBinary of two axes": (spaces.MultiBinary([2, 3]), False, bits),
    "Box": (box(3), False, plain),
    "Box of two axes": (box(2, 2), False, plain),
    "squashed Box": (box(3), True, squashed),
    "Box of integers": (spaces.Box(0, 3, (2,), np.int64), False, choices([4, 4])),
    "Dict": (NESTED, False, nested),
    "Dict of Boxes": (spaces.Dict({"a": box(2), "b": box(1)}), False, plain),
    "squashed Dict of Boxes": (spaces.Dict({"a": box(2), "b": box(1)}), True, squashed),
}


def drawn(distribution: Distribution) -> tuple[Tensor, Tensor]:
    """What an inverse model may say, and actions."""
    generator = torch.Generator().manual_seed(4)
    told = 2 * torch.randn(ROWS, distribution.num_encoded, generator=generator)
    return told, distribution.sample(torch.zeros(ROWS, distribution.num_inputs), generator)


def test_inverse_losses_are_those_of_the_action_space() -> None:
    def check(name: str) -> None:
        space, squash, formula = INVERSE[name]
        distribution = distribution_for(space, squash=squash)
        told, actions = drawn(distribution)
        found = inverse_loss(distribution, told, actions)
        assert found.shape == (ROWS,)
        expected = [formula(told[i], actions[i]) for i in range(ROWS)]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)

    check_rows(check, INVERSE)


def test_parts_of_a_nested_action_may_be_squashed() -> None:
    space = spaces.Dict({"a": spaces.Discrete(3), "b": box(2)})
    distribution = distribution_for(space, squash=True)
    told, actions = drawn(distribution)
    pairs = zip(told, actions, strict=True)
    expected = [choice(t[:3], a[0]) + squashed(t[3:], a[1:]) for t, a in pairs]
    np.testing.assert_allclose(inverse_loss(distribution, told, actions), expected, rtol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 2.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_how_actions_were_explored_is_none_of_its_business(
    epsilon: float, temperature: float
) -> None:
    distribution = EpsilonGreedy(4, temperature)
    distribution.epsilon = epsilon
    told, actions = drawn(distribution)
    found = inverse_loss(distribution, told.requires_grad_(), actions)
    expected = [choice(told[i].detach(), actions[i]) for i in range(ROWS)]
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-5)
    found.sum().backward()
    assert told.grad is not None and (told.grad != 0).all()


def test_bonuses_of_a_rollout_are_those_of_its_steps() -> None:
    torch.manual_seed(3)
    spec, settings = FeatureSpec(4), ExplorationConfig.of({"type": "Curiosity"})
    models = [
        IntrinsicCuriosity(spec, distribution_for(gym.spaces.Discrete(3)), settings),
        RandomDistillation(spec, ExplorationConfig.of({"type": "RND"})),
    ]
    features, actions = torch.randn(6, 2, 4), torch.randint(3, (5, 2))
    for model in models:
        found = model.rollout_bonus(features, actions)
        assert found.shape == (5, 2)
        for t in range(5):
            step = {"features": features[t], "next_features": features[t + 1]}
            torch.testing.assert_close(found[t], model.bonus({**step, "actions": actions[t]}))
