"""The layers that a module of one's own adds follow the seed, and leave the others as they were."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from trainables import Policy
from trainables.core.networks.modules import ActorCritic


class Extended(ActorCritic):
    """Adds a layer that draws its weights from the global stream."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.extra = nn.Linear(3, 5)


def weights(seed: int, **model: Any) -> dict[str, Tensor]:
    policy = Policy(gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2), model, seed=seed)
    return policy.module.state_dict()


def test_a_seed_gives_the_weights_of_the_layers_that_a_module_adds() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, second, other = (weights(seed, custom_model=Extended) for seed in (7, 7, 8))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
    assert not torch.equal(first["extra.weight"], other["extra.weight"])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_layers_of_the_catalogue_are_as_they_are_without_a_class() -> None:
    extended = weights(7, custom_model=Extended)
    for name, value in weights(7).items():
        assert torch.equal(extended[name], value), name
