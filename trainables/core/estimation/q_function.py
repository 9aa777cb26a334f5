"""`QFunction`: action values of the target policy, on a scale that the data give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import Features
from trainables.core.estimation.target_policy import TargetPolicy, in_parts
from trainables.core.networks.soft_actor_critic import QFunctions, chosen


class QFunction:
    """Q(s, a) = offset + scale f(s, a), f a network that is about 0 at first.

    So an untrained one says what the behaviour policy earns on average, and one learning rate does
    for rewards of any size.

    Args:
        target: The policy whose actions are valued.
        model: The `model` dict of the network.
        offset: About what values are.
        scale: About how far they lie apart.
        num_actions: Actions that expectations over continuous ones are means of.
        seed: Of the initial weights, and of these actions.

    Attributes:
        functions: The network f.
    """

    def __init__(
        self,
        target: TargetPolicy,
        model: Mapping[str, Any],
        offset: float,
        scale: float,
        num_actions: int,
        seed: int,
    ):
        self._target, self._num_actions = target, num_actions
        self._generator = torch.Generator(target.policy.device).manual_seed(seed)
        self.offset, self.scale = offset, scale
        distribution, discrete = target.distribution, target.is_discrete
        self.functions = QFunctions(
            1,
            target.policy.observations.preprocessor.spec,
            0 if discrete else distribution.num_encoded,
            distribution.num_inputs if discrete else 1,
            ModelConfig.of(model),
            torch.Generator().manual_seed(seed),
        ).to(target.policy.device)

    def of_actions(self, features: Features, actions: Tensor) -> Tensor:
        """Return f of actions as they are stored, `[B]`."""
        if self._target.is_discrete:
            return chosen(self.functions(features), actions)[0]
        encoded = self._target.distribution.encode(actions)
        values: Tensor = self.functions(features, encoded)
        return values[0, :, 0]

    def expected(
        self, features: Features, ids: np.ndarray, functions: QFunctions | None = None
    ) -> Tensor:
        """Return the mean of f over the target policy's actions in rows `[B]`, `[B]`.

        Args:
            features: Of the rows.
            ids: The rows.
            functions: Another network in the place of f.
        """
        functions = functions or self.functions
        if self._target.is_discrete:
            values: Tensor = functions(features)[0]
            probabilities = self._target.probabilities(ids)
            # What a mask forbids has no probability, and a value that nobody trains.
            return (probabilities * values).sum(-1)
        draws = self._target.draws(ids, self._num_actions, self._generator)
        return functions.of_each(features, draws)[0].mean(-1)

    @torch.no_grad()
    def q_values(self, ids: np.ndarray) -> np.ndarray:
        """Return Q of what was done in rows `[M]`, `[M]`, float64."""
        return self._in_parts(
            ids, lambda f, part: self.of_actions(f, self._target.recorded_actions(part))
        )

    @torch.no_grad()
    def state_values(self, ids: np.ndarray) -> np.ndarray:
        """Return V, the mean of Q over the target policy's actions, in rows `[M]`, `[M]`."""
        return self._in_parts(ids, self.expected)

    def _in_parts(self, ids: np.ndarray, function: Any) -> np.ndarray:
        found = [
            function(self._target.features(part), part).double().cpu().numpy()
            for part in in_parts(self._target.rows, ids)
        ]
        return self.offset + self.scale * np.concatenate(found)
