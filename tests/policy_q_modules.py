"""Small modules of a policy and Q-functions that the losses of SAC, CQL and IQL are tested with."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from trainables.core.data.features import FeatureSpec
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.gaussian import SquashedGaussian
from trainables.core.networks.soft_actor_critic import PolicyQModule, QFunctions

Module = TypeVar("Module", bound=PolicyQModule)


def with_target(
    module_class: type[Module], discrete: bool, **options: Any
) -> tuple[Module, QFunctions, Any]:
    """A module, another one's Q-functions as its target, and its distribution; float64.

    Of three features; of four discrete actions, or a continuous one of two dimensions.

    Args:
        module_class: The class of the module.
        discrete: Whether actions are discrete.
        options: Keywords of the class.
    """
    distribution: Any = Categorical(4) if discrete else SquashedGaussian((2,))
    model = {"fcnet_hiddens": [8], "fcnet_activation": "tanh", "fcnet_initializer": "default"}
    modules = [
        module_class(
            FeatureSpec(3), distribution, model, torch.Generator().manual_seed(seed), **options
        ).double()
        for seed in (8, 9)
    ]
    with torch.no_grad():  # far enough from 0 that the functions cross and the policy is not flat
        for module in modules:
            for name, parameter in module.named_parameters():
                if name != "log_alpha":
                    parameter.mul_(3)
    target = modules[1].critic.requires_grad_(True)  # as if a learner had forgotten to freeze it
    return modules[0], target, distribution
