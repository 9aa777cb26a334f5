"""`Stepping`: one optimiser of a learner with the groups of parameters that it steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.model import OptimizerConfig
from trainables.core.errors import ConfigError
from trainables.core.learning.flat_parameters import (
    FlatParameters,
    collect_gradients,
    zero_gradients,
)
from trainables.core.learning.optimizers import check_optimizer, check_storable, step

_SMALLEST = 5e-324  # a denormal number: where those are flushed, it counts as 0


class FlushedDenormals:
    """A context in which this thread's denormal numbers are 0, as `torch.set_flush_denormal` says.

    The moments of a unit that is never active halve and halve until they are denormal, and stay
    there: an optimiser's step then takes up to seven times as long, and moves no weight by them.
    Outside of it they are left alone: what environments compute is theirs.
    """

    def __enter__(self) -> None:
        self._were_flushed = _SMALLEST * 1.0 == 0.0
        torch.set_flush_denormal(True)

    def __exit__(self, *_: object) -> None:
        if not self._were_flushed:
            torch.set_flush_denormal(False)


@dataclass(frozen=True)
class OptimizerOptions:
    """What an optimiser of a learner with several is made of.

    Attributes:
        groups: Names of the groups that it steps; None: the one of its own name.
        optimizer: Its settings; None: the learner's.
        grad_clip: Bound of the gradients; None: the learner's, `math.inf` for none.
        grad_clip_by: "value", "norm", "global_norm" (over a group) or "adaptive"; None: the
            learner's.
    """

    groups: Sequence[str] | None = None
    optimizer: OptimizerConfig | Mapping[str, Any] | None = None
    grad_clip: float | None = None
    grad_clip_by: str | None = None

    def clipping(self, grad_clip: float | None, grad_clip_by: str) -> tuple[float | None, str]:
        """Return the bound, None for none, and how it is meant.

        Args:
            grad_clip: The learner's bound.
            grad_clip_by: How that is meant.
        """
        bound = grad_clip if self.grad_clip is None else self.grad_clip
        return None if bound == math.inf else bound, self.grad_clip_by or grad_clip_by


class Stepping:
    """An optimiser with the groups that it steps, each clipped apart.

    Args:
        groups: By name. Their gradients are views into one vector.
        gradient: That vector, `[P]`.
        make_optimizer: Makes the optimiser of parameter groups.
        grad_clip: Bound of the gradients, None for none.
        grad_clip_by: "value", "norm", "global_norm" (over a group) or "adaptive".
        undecayed: Groups that weight decay leaves alone.
        owner: The learner's class, for messages.
        is_own: Whether the optimiser may be one of the user's own: its state may have any shape.
    """

    def __init__(
        self,
        groups: Mapping[str, FlatParameters],
        gradient: Tensor,
        make_optimizer: Callable[[list[dict[str, Any]]], torch.optim.Optimizer],
        grad_clip: float | None,
        grad_clip_by: str,
        *,
        undecayed: Collection[str] = (),
        owner: str = "Learner",
        is_own: bool = False,
    ):
        self.groups, self.gradient = groups, gradient
        self.grad_clip, self.grad_clip_by, self.is_own = grad_clip, grad_clip_by, is_own
        self.optimizer = make_optimizer(
            [
                {
                    "params": [flat.vector],
                    "name": name,
                    **({"weight_decay": 0.0} if name in undecayed else {}),
                }
                for name, flat in groups.items()
            ]
        )
        check_optimizer(self.optimizer, [flat.vector for flat in groups.values()], owner)
        self._type = type(self.optimizer).__name__
        # A learner may be written as PyTorch's examples are: they let go of gradients. No reference
        # to the learner, a cycle with which would keep its memory for longer.
        flats = list(groups.values())
        self.optimizer.zero_grad = lambda *_, **__: zero_gradients(flats, gradient)  # type: ignore[method-assign]
        self._collected = collected = [False]
        self._hook = self.optimizer.register_step_pre_hook(
            lambda *_: None if collected[0] else collect_gradients(flats)
        )

    def step(self) -> None:
        """Step by gradients that have been collected, and perhaps clipped."""
        self._collected[0] = True
        try:
            with FlushedDenormals():
                step(self.optimizer, self._hook)
        finally:
            self._collected[0] = False

    def set_lr(self, lr: float | Mapping[str, float]) -> None:
        """Set the learning rate of the steps to come, for all groups or by group."""
        for name, group in zip(self.groups, self.optimizer.param_groups, strict=True):
            group["lr"] = lr[name] if isinstance(lr, Mapping) else lr

    def clip_gradients(self, flat: FlatParameters) -> Tensor:
        """Clip a group's gradient in place; returns its norm before clipping."""
        norm = torch.linalg.vector_norm(flat.gradient)
        bound = self.grad_clip
        if bound is None:
            return norm
        if self.grad_clip_by == "value":
            flat.gradient.clamp_(-bound, bound)
        elif self.grad_clip_by == "adaptive":
            clip_adaptively(flat, bound)
        elif self.grad_clip_by == "norm":
            for parameter in flat.parameters:
                nn.utils.clip_grad_norm_([parameter], bound)
        else:
            flat.gradient.mul_((bound / (norm + 1e-6)).clamp_max(1.0))
        return norm

    def get_state(self) -> dict[str, Any]:
        """Return the kind of optimiser, and what it has learned. Rates are settings."""
        # A copy of a tensor alone: of memory that is shared with others `deepcopy` copies all.
        moments = {
            index: {name: _copied(part) for name, part in of_parameter.items()}
            for index, of_parameter in self.optimizer.state_dict()["state"].items()
        }
        check_storable(self.optimizer, moments)
        return {"type": self._type, "moments": moments}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over `get_state`'s; the present settings stay.

        Another kind of optimiser starts without moments: they mean something else to it.
        """
        if state["type"] != self._type:
            return
        groups = self.optimizer.state_dict()["param_groups"]
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        # The last groups may be stepped no longer, as the values of MARWIL with beta = 0.
        stored = {i: m for i, m in state["moments"].items() if i < len(parameters)}
        moments = copy.deepcopy(stored)
        for index, of_parameter in moments.items():
            for name, moment in of_parameter.items():
                same = np.shape(moment) == tuple(parameters[index].shape)
                if np.ndim(moment) and not same and not self.is_own:
                    raise ConfigError(f"{name} of the optimiser is of another network")
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _copied(part: Any) -> Any:
    return part.detach().clone() if isinstance(part, Tensor) else copy.deepcopy(part)


_LEAST_NORM = 1e-3  # else what is 0 at the start would stay so


@torch.no_grad()
def clip_adaptively(flat: FlatParameters, bound: float) -> None:
    """Scale each tensor's gradient to a share of that tensor's norm at most, in place.

    Adaptive gradient clipping (Brock et al., 2021, arXiv 2102.06171, eq. 3), by whole tensors.

    Args:
        flat: The parameters and their gradients.
        bound: The share; 0.3 lets no step turn a tensor around.
    """
    gradients = [p.grad for p in flat.parameters if p.grad is not None]  # all have one
    norms = torch.stack(torch._foreach_norm(gradients))
    sizes = torch.stack(torch._foreach_norm([p.detach() for p in flat.parameters]))
    scales = (bound * sizes.clamp_min(_LEAST_NORM) / norms).clamp_max(1.0)
    by_tensor: Any = scales.nan_to_num(1.0).unbind()
    torch._foreach_mul_(gradients, by_tensor)


def check_parameters(
    by_group: Mapping[str, Sequence[nn.Parameter]], networks: Mapping[str, nn.Module]
) -> None:
    """Check that each parameter can be stepped, and by one group only.

    Args:
        by_group: Parameters by the name of their group.
        networks: Those beside the module, by name.

    Raises:
        ConfigError: naming the groups of a parameter that is in two, a group without parameters, or
            a network that is in no group.
    """
    owners: dict[nn.Parameter, str] = {}
    for name, parameters in by_group.items():
        if not parameters:
            raise ConfigError(f"the group {name!r} has no parameters")
        for parameter in parameters:
            if parameter in owners:
                raise ConfigError(
                    f"a parameter of shape {list(parameter.shape)} is twice in groups, in "
                    f"{owners[parameter]!r} and {name!r}; one optimizer steps each"
                )
            owners[parameter] = name
    for name, network in networks.items():
        trained = [p for p in network.parameters() if p.requires_grad]
        if trained and not any(p in owners for p in trained):
            raise ConfigError(
                f"nothing would train the network {name!r}: none of the groups {list(by_group)} "
                "has its parameters"
            )


def ordered_groups(
    by_group: Mapping[str, Any], options: Mapping[str, OptimizerOptions]
) -> dict[str, str]:
    """Return the optimiser of each group, group by group in the order of the optimisers.

    Raises:
        ConfigError: naming the group that none steps, or that is stepped twice or not there.
    """
    owners: dict[str, str] = {}
    for name, one in options.items():
        for group in (name,) if one.groups is None else one.groups:
            if group not in by_group or group in owners:
                allowed = ", ".join(g for g in by_group if g not in owners) or "none"
                raise ConfigError(
                    f"the optimizer {name!r} is to step the group {group!r}; allowed: {allowed}"
                )
            owners[group] = name
    left = [group for group in by_group if group not in owners]
    if left:
        raise ConfigError(f"no optimizer steps the group {left[0]!r}")
    return owners
