"""Policies of a process, of which no more are in memory than `policy_map_capacity` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from trainables.core.config.config import AlgorithmConfig
from trainables.core.policy.policy import Policy
from trainables.core.policy.shelf import PolicyShelf, shelf_for

Recipes = Mapping[str, dict[str, Any]]
"""The arguments of policies, by module id."""


def shelved_policies(
    config: AlgorithmConfig,
    recipes: Recipes,
    device: torch.device,
    shelf: PolicyShelf | None = None,
) -> dict[str, Policy]:
    """Return policies of which `policy_map_capacity` are in memory, by module id.

    Args:
        config: The algorithm's config.
        recipes: Their arguments.
        device: What they compute on.
        shelf: Of the policies that there are already; None makes one if it is needed.
    """
    shelf = shelf or shelf_for(config, len(recipes))
    policies = {}
    for module_id, recipe in recipes.items():
        policies[module_id] = Policy(**recipe, device=device)
        if shelf is not None:
            shelf.add(policies[module_id])
    return policies
