"""Noisy layers: their statistics, and that the noise really explores (arXiv 1706.10295)."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from fakes import EndlessEnv
from torch import Tensor
from torch.nn.functional import linear

from trainables import DQN, Policy
from trainables.core.networks.q_network import NoisyLinear


def noisy_layer(num_inputs: int, num_outputs: int, sigma0: float = 0.5) -> NoisyLinear:
    return NoisyLinear(num_inputs, num_outputs, sigma0, torch.Generator().manual_seed(0))


def weights_in_use(layer: NoisyLinear) -> tuple[Tensor, Tensor]:
    """Weight `[out, in]` and bias `[out]` as the forward pass has them."""
    with torch.no_grad():
        bias = layer(torch.zeros(1, layer.weight.shape[1]))[0]
        return (layer(torch.eye(layer.weight.shape[1])) - bias).T, bias


def test_without_noise_it_is_the_linear_layer_of_its_means() -> None:
    layer, x = noisy_layer(5, 3), torch.randn(7, 5)
    expected = linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), expected)
    layer.set_noise(torch.Generator().manual_seed(1))
    assert not torch.allclose(layer(x), expected)
    layer.set_noise(None)
    torch.testing.assert_close(layer(x), expected)


def test_noise_is_factorised_and_the_biass_is_that_of_the_outputs() -> None:
    """eps_w = f(eps_out) f(eps_in)^T has rank one, and f(eps_out) is the bias's."""
    layer = noisy_layer(6, 4)
    layer.set_noise(torch.Generator().manual_seed(1))
    weight, bias = weights_in_use(layer)
    noise = ((weight - layer.weight) / layer.weight_sigma).detach()
    bias_noise = ((bias - layer.bias) / layer.bias_sigma).detach()
    singular = torch.linalg.svdvals(noise)
    assert singular[0] > 0.1 and singular[1] < 1e-4
    columns = noise / noise[:1]  # every column is a multiple of f(eps_out)
    torch.testing.assert_close(columns[:, 0], bias_noise / bias_noise[0], rtol=1e-3, atol=1e-3)


def test_statistics_of_the_noise() -> None:
    """f(x) = sign(x) sqrt|x| of a normal x: mean 0, variance E|x| = sqrt(2/pi), fourth moment 1."""
    layer, generator = noisy_layer(1000, 1000), torch.Generator().manual_seed(1)
    draws = []
    for _ in range(100):
        layer.set_noise(generator)
        draws += [layer.eps_in.clone(), layer.eps_out.clone()]
    noise = torch.cat(draws)
    error = 5 / len(noise) ** 0.5
    assert noise.mean().abs() < error
    assert (noise.square().mean() - math.sqrt(2 / math.pi)).abs() < error
    assert (noise**4).mean().sub(1).abs() < 3 * error
    inputs, outputs = torch.cat(draws[::2]), torch.cat(draws[1::2])
    assert (inputs * outputs).mean().abs() < 2 * error  # independent
    assert (noise[:-1] * noise[1:]).mean().abs() < error


@pytest.mark.parametrize("sigma0", [0.1, 0.5])
def test_sigma_and_means_at_the_start(sigma0: float) -> None:
    layer = noisy_layer(64, 300, sigma0)
    for sigma in (layer.weight_sigma, layer.bias_sigma):
        torch.testing.assert_close(sigma, torch.full_like(sigma, sigma0 / 8))
    for mean in (layer.weight, layer.bias):  # uniform within 1/sqrt(64)
        assert mean.abs().max() <= 1 / 8
        assert mean.std().item() == pytest.approx(1 / 8 / 3**0.5, rel=0.1)


def test_sigma_learns_by_the_noise() -> None:
    layer, x = noisy_layer(5, 3), torch.randn(7, 5)
    layer.set_noise(torch.Generator().manual_seed(1))
    layer(x).square().sum().backward()
    assert layer.weight.grad is not None and layer.weight_sigma.grad is not None
    expected = layer.weight.grad * torch.outer(layer.eps_out, layer.eps_in)
    torch.testing.assert_close(layer.weight_sigma.grad, expected)
    assert expected.abs().min() > 0
    assert layer.bias.grad is not None
    assert torch.equal(layer.bias_sigma.grad, layer.bias.grad * layer.eps_out)  # type: ignore[arg-type]


def test_noise_is_no_part_of_the_weights() -> None:
    layer = noisy_layer(5, 3)
    assert set(layer.state_dict()) == {"weight", "bias", "weight_sigma", "bias_sigma"}
    assert not any("eps" in name for name in make_policy().get_weights())


# ---------------------------------------------------------------------- exploring


def make_policy(**options: Any) -> Policy:
    box = gym.spaces.Box(-1, 1, (3,), np.float32)
    module = {"type": "q_network", "noisy": True, "dueling": True, **options}
    return Policy(box, gym.spaces.Discrete(4), {"fcnet_hiddens": [16]}, module=module, seed=0)


OBS = np.array([[0.5, -0.2, 0.9]], np.float32)


def test_the_noise_alone_explores() -> None:
    policy, generator = make_policy(), torch.Generator().manual_seed(1)
    assert policy.distribution.epsilon == 0  # type: ignore[attr-defined]
    explored = [policy.act(OBS, True, generator)[0].item() for _ in range(100)]
    greedy = [policy.act(OBS, False, generator)[0].item() for _ in range(20)]
    assert len(set(explored)) > 1 and len(set(greedy)) == 1
    best = policy.module.dist_inputs(policy.features(OBS)).argmax(-1).item()
    assert set(greedy) == {best}  # of the network of means
    assert len(set(policy.compute_actions(OBS.repeat(50, 0), explore=False))) == 1


def test_no_sigma_no_exploration() -> None:
    policy, generator = make_policy(sigma0=0.0), torch.Generator().manual_seed(1)
    assert len({policy.act(OBS, True, generator)[0].item() for _ in range(100)}) == 1


def test_values_are_without_noise_whatever_was_done_before() -> None:
    policy = make_policy()
    expected = policy.forward(OBS).dist_inputs
    policy.compute_actions(OBS, explore=True)
    assert torch.equal(policy.forward(OBS).dist_inputs, expected)
    policy.compute_actions(OBS, explore=True)
    _, _, extra = policy.compute_actions(OBS, explore=False, full_fetch=True)
    assert torch.equal(torch.from_numpy(extra["action_dist_inputs"]), expected)


def test_online_and_target_network_draw_their_own_noise_for_every_update() -> None:
    settings = {
        "env": EndlessEnv,
        "seed": 1,
        "noisy": True,
        "num_envs_per_env_runner": 4,
        "num_steps_sampled_before_learning_starts": 20,
        "training_intensity": 32,
        "model": {"fcnet_hiddens": [8]},
    }
    seen: list[Tensor] = []
    with DQN(settings) as algo:
        learner = algo.learners["default_policy"]
        update_step = learner.update_step

        def recording(*args: Any) -> Any:
            for net in (learner.module, learner.targets["q"].network):
                seen.append(net.advantage[0].eps_in.clone())  # type: ignore[union-attr, index]
            return update_step(*args)

        learner.update_step = recording  # type: ignore[method-assign]
        before = {k: v.copy() for k, v in algo.get_weights()["default_policy"].items()}
        for _ in range(12):
            metrics = algo.training_step()
        after = algo.get_weights()["default_policy"]
    assert len(seen) > 20
    assert len({tuple(noise.tolist()) for noise in seen}) == len(seen)
    assert all(noise.abs().min() > 0 for noise in seen)
    assert metrics["exploration/epsilon"] == 0
    moved = [k for k in before if "sigma" in k and not np.array_equal(before[k], after[k])]
    assert len(moved) == 4  # sigma learns: of weights and biases of both heads
