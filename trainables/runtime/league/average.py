"""`AveragePolicy`: a learner's average over time, as its frozen copies are it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainables.core.policy.policy import Policy


class AveragePolicy:
    """A mixture of policies: one of them is drawn for an episode and acts until it ends.

    Where best responses go round in circles no single policy is near an equilibrium; their average
    over time is (Brown, 1951, of fictitious play).

    Args:
        members: The policies by id, each as likely.

    Attributes:
        members: The same.
    """

    def __init__(self, members: Mapping[str, Policy]):
        self.members = dict(members)

    def of_episode(self, episode_id: int, seed: int = 0) -> Policy:
        """Return the policy that acts in an episode, drawn by its number and a seed."""
        (word,) = np.random.SeedSequence((seed, episode_id)).generate_state(1)
        return [*self.members.values()][int(word) % len(self.members)]

    def action_probabilities(self, observation: Any) -> np.ndarray:
        """Return how likely each action is in an episode that begins with an observation.

        Of discrete actions alone. Later in an episode it is the member that was drawn that counts:
        which one it is depends on what it has done.

        Args:
            observation: As the environment gives it.

        Returns:
            `[actions]`; the sum is 1.
        """
        return np.mean(
            [probabilities(policy, observation) for policy in self.members.values()], axis=0
        )


def probabilities(policy: Policy, observation: Any) -> np.ndarray:
    """Return how likely each of a policy's discrete actions is, `[actions]`."""
    _, _, extra = policy.compute_single_action(observation, full_fetch=True)
    logits = np.asarray(extra["action_dist_inputs"], np.float64).reshape(-1)
    return chances_of(logits)


def chances_of(logits: np.ndarray) -> np.ndarray:
    """Return how likely each action is by its logit, `[…, actions]`."""
    likely = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(likely / likely.sum(-1, keepdims=True))
