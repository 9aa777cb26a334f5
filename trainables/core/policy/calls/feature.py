"""What users call on a policy by hand; training never does."""

from __future__ import annotations

from trainables.core.features import Feature
from trainables.core.policy.calls.bound_distribution import BoundDistribution
from trainables.core.policy.calls.compute_actions import (
    compute_actions,
    compute_single_action,
    keyed_actions,
)
from trainables.core.policy.calls.loading import load
from trainables.core.policy.calls.model_view import forward, model_view


class PolicyCalls(Feature):
    """Computes actions for observations from anywhere, shows networks, loads policies."""

    compute_actions = staticmethod(compute_actions)
    compute_single_action = staticmethod(compute_single_action)
    keyed_actions = staticmethod(keyed_actions)
    forward = staticmethod(forward)
    model_view = staticmethod(model_view)
    bound_distribution = BoundDistribution
    load = staticmethod(load)


FEATURE = PolicyCalls()
