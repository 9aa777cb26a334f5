"""A distribution over nested actions: independent parts, one for each leaf of the space."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from trainables.core.distributions.base import Distribution, Taken, sum_logps


class Joint(Distribution):
    """Independent distributions side by side; log-probs, entropies and divergences add up.

    A stored action is one vector `[..., D]`, the parts' actions flattened in order: int64 if every
    part is discrete, else float32, which holds integers below 2^24 exactly.

    Args:
        parts: Distributions by the path of their leaf; an attribute, too.
    """

    def __init__(self, parts: Mapping[str, Distribution]):
        self.parts = dict(parts)
        self._parts = list(self.parts.values())
        self._inputs = [part.num_inputs for part in self._parts]
        self._masks = [part.num_mask for part in self._parts]
        self._actions = [math.prod(part.action_shape) for part in self._parts]
        self.num_inputs, self.num_mask = sum(self._inputs), sum(self._masks)
        self.num_encoded = sum(part.num_encoded for part in self._parts)
        self.action_shape = (sum(self._actions),)
        dtypes = {part.action_dtype for part in self._parts}
        self.action_dtype = torch.int64 if dtypes == {torch.int64} else torch.float32
        starts = accumulate(self._inputs, initial=0)
        self.log_std_inputs = tuple(
            start + column
            for part, start in zip(self._parts, starts, strict=False)
            for column in part.log_std_inputs
        )

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._joined(inputs, lambda part, own: part.sample(own, generator))

    def uniform(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._joined(inputs, lambda part, own: part.uniform(own, generator))

    def mode(self, inputs: Tensor) -> Tensor:
        return self._joined(inputs, lambda part, own: part.mode(own))

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        triples = zip(self._parts, self._split(inputs), self.split(actions), strict=True)
        return sum_logps(_stack([part.logp(own, action) for part, own, action in triples]))

    def taken_logp(self, inputs: Tensor, actions: Tensor, taken: Taken) -> Tensor:
        of_parts = zip(*(column.split(self._actions) for column in taken), strict=True)
        rows = zip(self._parts, self._split(inputs), self.split(actions), of_parts, strict=True)
        logps = [part.taken_logp(own, action, Taken(*of)) for part, own, action, of in rows]
        return sum_logps(_stack(logps))

    def entropy(self, inputs: Tensor) -> Tensor:
        pairs = zip(self._parts, self._split(inputs), strict=True)
        return _stack([part.entropy(own) for part, own in pairs]).sum(-1)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        triples = zip(self._parts, self._split(inputs), self._split(other), strict=True)
        return _stack([part.kl(p, q) for part, p, q in triples]).sum(-1)

    def logp_and_entropy(self, inputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        triples = zip(self._parts, self._split(inputs), self.split(actions), strict=True)
        both = [part.logp_and_entropy(own, action) for part, own, action in triples]
        return sum_logps(_stack([logp for logp, _ in both])), _stack([h for _, h in both]).sum(-1)

    def encode(self, actions: Tensor) -> Tensor:
        pairs = zip(self._parts, self.split(actions), strict=True)
        return torch.cat([part.encode(action) for part, action in pairs], -1)

    def mask(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """See `Distribution.mask`; the discrete parts' masks lie side by side, in order."""
        if not self.num_mask:
            return super().mask(inputs, mask)
        triples = zip(self._parts, self._split(inputs), mask.split(self._masks, -1), strict=True)
        masked = [part.mask(own, m) if part.num_mask else own for part, own, m in triples]
        return torch.cat(masked, -1)

    def allows_something(self, mask: Tensor) -> Tensor:
        if not self.num_mask:
            return super().allows_something(mask)
        pairs = zip(self._parts, mask.split(self._masks, -1), strict=True)
        return _stack([part.allows_something(own) for part, own in pairs if part.num_mask]).all(-1)

    def split(self, actions: Tensor) -> list[Tensor]:
        """Return the parts' actions of stored ones `[..., D]`, each `[..., *action_shape]`."""
        pairs = zip(self._parts, actions.split(self._actions, -1), strict=True)
        return [
            own.reshape(*own.shape[:-1], *part.action_shape).to(part.action_dtype)
            for part, own in pairs
        ]

    def _split(self, inputs: Tensor) -> Sequence[Tensor]:
        return inputs.split(self._inputs, -1)

    def _joined(self, inputs: Tensor, act: Callable[[Distribution, Tensor], Tensor]) -> Tensor:
        """Return stored actions of what `act` gives for each part and its inputs."""
        leading = inputs.shape[:-1]
        return torch.cat(
            [
                act(part, own).reshape(*leading, -1).to(self.action_dtype)
                for part, own in zip(self._parts, self._split(inputs), strict=True)
            ],
            -1,
        )


def _stack(values: list[Tensor]) -> Tensor:
    return torch.stack(values, -1)
