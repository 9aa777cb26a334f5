"""`SharedEncoders`: policies whose networks have one encoder, of which each keeps a copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.policies import SHARED_ENCODERS as NAME
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy


class SharedEncoders:
    """Groups of policies with one encoder, and a value encoder where that is apart.

    All parameters of a learner are one vector of its own, so that no two learners can have the same
    tensors. Each steps its own copy, by moments of its own, and the others take it over before
    anything else is learned: as policies learn one after the other, that is one encoder.

    Args:
        groups: Ids of policies; each is in one group at most.
        policies: By id, all that are in groups.

    Raises:
        ConfigError: for policies of a group whose networks, or what they see, differ.
    """

    def __init__(self, groups: Sequence[Sequence[str]], policies: Mapping[str, Policy]):
        self._groups = [[*group] for group in groups]
        self._group_of = {m: group for group in self._groups for m in group}
        self._policies = policies
        for group in self._groups:
            for policy_id in group:
                self._check_encoder(policy_id)
                self._check_alike(group[0], policy_id)

    @torch.no_grad()
    def hand_on(self, policy_id: str) -> None:
        """Let the others of its group take over a policy's encoder; one of no group has no others.

        It is called after each update of the policy.
        """
        for other in self._group_of.get(policy_id, ()):
            if other != policy_id:
                torch._foreach_copy_(self._tensors(other), self._tensors(policy_id))

    def unlike(self, policy_id: str) -> list[str]:
        """Return the ids of those in its group whose encoders differ from a policy's."""
        own = self._tensors(policy_id)
        return [
            other
            for other in self._group_of.get(policy_id, ())
            if not all(map(torch.equal, own, self._tensors(other)))
        ]

    def begin(self, *known: Collection[str]) -> dict[str, list[str]]:
        """Let all of each group begin with the encoder of one of them.

        Args:
            known: Ids of those whose encoders are worth more, the most first; else, and of several,
                it is that of the first of the group.

        Returns:
            By the id of the one whose encoder it is, the ids of those that had another one.
        """
        found = {}
        for group in self._groups:
            among = [m for ids in known for m in group if m in ids]
            [source, *_] = [*among, *group]
            found[source] = self.unlike(source)
            self.hand_on(source)
        return found

    def check_given(self, weights: Mapping[str, Mapping[str, Any]]) -> None:
        """Check that weights which somebody would set are of one encoder, where policies have one.

        Args:
            weights: By policy id and name.

        Raises:
            ConfigError: naming two policies that are given different ones.
        """
        for group in self._groups:
            given = [m for m in group if m in weights]
            for other in given[1:]:
                for name, value in weights[given[0]].items():
                    is_shared = name.partition(".")[0] in self._policies[other].module.encoders()
                    if is_shared and not np.array_equal(value, weights[other].get(name, ())):
                        raise ConfigError(
                            f"{NAME}: {given[0]!r} and {other!r} have one encoder, but are given "
                            f"different weights {name}; allowed: the same, or those of one alone"
                        )

    def _tensors(self, policy_id: str) -> list[Tensor]:
        encoders = self._policies[policy_id].module.encoders().values()
        return [t for encoder in encoders for t in (*encoder.parameters(), *encoder.buffers())]

    def _check_encoder(self, policy_id: str) -> None:
        if policy_id not in self._policies:  # by trained_modules of a class of one's own
            raise ConfigError(f"{NAME}: {policy_id!r} does not learn; allowed: policies that do")
        module = self._policies[policy_id].module
        if not module.encoders():
            raise ConfigError(
                f"{NAME}: the network of {policy_id!r}, {type(module).__name__}, has no encoder "
                "apart from its heads (PolicyModule.encoders); allowed: an ActorCritic"
            )

    def _check_alike(self, first: str, other: str) -> None:
        one, two = self._policies[first], self._policies[other]
        if one.observation_space != two.observation_space:
            raise ConfigError(
                f"{NAME}: {first!r} and {other!r} see different things, {one.observation_space} "
                f"and {two.observation_space}; allowed: policies with equal observation spaces"
            )
        if _description(one.module) != _description(two.module):
            raise ConfigError(
                f"{NAME}: the encoders of {first!r} and {other!r} are not of one build, as "
                "lstm_use_prev_action with other actions, or policy_options, make them; allowed: "
                "networks that differ in their heads alone"
            )


def _description(module: nn.Module) -> list[object]:
    """Return what two encoders have in common that may compute the same."""
    encoders = module.encoders()  # type: ignore[operator]
    return [
        (name, repr(encoder), [(n, p.shape, p.dtype) for n, p in encoder.state_dict().items()])
        for name, encoder in encoders.items()
    ]
