"""Optimisers: those of the settings, and what `Learner.make_optimizer` may return instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _global_optimizer_post_hooks as _TOLD_AFTER_ANY
from torch.optim.optimizer import _global_optimizer_pre_hooks as _TOLD_BEFORE_ANY

from trainables.core.callables import resolve_callable
from trainables.core.config.model import OptimizerConfig
from trainables.core.errors import ConfigError

# PyTorch imports its compiler, a second and more, when an optimiser is made or saved for the first
# time, only to have it look away from these functions. Nobody compiles a caller of them here. Where
# PyTorch stops to ask for the attribute, this does nothing.
for _name in ("add_param_group", "state_dict", "load_state_dict"):
    if _function := getattr(getattr(torch.optim.Optimizer, _name), "__wrapped__", None):
        _function.__dict__.setdefault("__dynamo_disable", _function)


def make_optimizer(
    groups: list[dict[str, Any]], settings: OptimizerConfig
) -> torch.optim.Optimizer:
    """Return the optimiser that the `optimizer` of a config describes, fused into one kernel.

    Args:
        groups: Parameter groups with what differs from the settings, as PyTorch takes them.
        settings: See `OptimizerConfig`.
    """
    decay = settings.weight_decay
    betas = (settings.beta1, settings.beta2)
    if settings.type == "adam":
        return torch.optim.Adam(
            groups, betas=betas, eps=settings.eps, weight_decay=decay, fused=True
        )
    if settings.type == "adamw":
        return torch.optim.AdamW(
            groups, betas=betas, eps=settings.eps, weight_decay=decay, fused=True
        )
    if settings.type == "laprop":
        la_prop = resolve_callable("trainables.core.learning.laprop:LaProp")
        return la_prop(groups, betas=betas, eps=settings.eps, weight_decay=decay)
    if settings.type == "rmsprop":
        return torch.optim.RMSprop(
            groups,
            alpha=settings.decay,
            eps=settings.eps,
            momentum=settings.momentum,
            weight_decay=decay,
            foreach=True,
        )
    return torch.optim.SGD(groups, momentum=settings.momentum, weight_decay=decay, fused=True)


def step(optimizer: torch.optim.Optimizer, own_hook: Any = None) -> None:
    """Step by the gradients there are, as `optimizer.step()` does.

    PyTorch's own optimisers would import its compiler, a second of each process, for their first
    step: around each they tell a compiler to look away. Of them the function within is called.

    Args:
        optimizer: Any optimiser.
        own_hook: The handle of a hook before steps that this one need not call.
    """
    own = 0 if own_hook is None else 1
    hooks = len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
    within = None
    if hooks == own and "step" not in vars(optimizer) and not (_TOLD_BEFORE_ANY or _TOLD_AFTER_ANY):
        optimizer_class: Any = type(optimizer)
        within = _within_step(optimizer_class)
    if within is None or optimizer.defaults.get("differentiable"):
        optimizer.step()
        return
    with torch.no_grad():
        within(optimizer)


@functools.cache
def _within_step(optimizer_class: Any) -> Callable[..., Any] | None:
    """Return what `step` of a class of PyTorch's does within its wrappers; None of another's."""
    if not optimizer_class.__module__.startswith("torch.optim."):
        return None
    return inspect.unwrap(optimizer_class.step)


def check_optimizer(optimizer: Any, vectors: Sequence[Tensor], owner: str) -> None:
    """See that a learner can step by an optimiser, set its rates, and store it.

    Args:
        optimizer: What `make_optimizer` returned.
        vectors: The parameters of each group, `[P]`.
        owner: The learner's class, for messages.

    Raises:
        ConfigError: saying what is wrong with it.
    """
    what = f"{owner}.make_optimizer returned {type(optimizer).__name__}"
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"{what}; allowed: a torch.optim.Optimizer")
    held = [group["params"] for group in optimizer.param_groups]
    is_same = len(held) == len(vectors) and all(
        len(parameters) == 1 and parameters[0] is vector
        for parameters, vector in zip(held, vectors, strict=True)
    )
    if not is_same:
        raise ConfigError(
            f"{what} of other parameters than it was given; allowed: its `groups`, in their order: "
            "the parameters of each are one vector, of which the network's are views"
        )
    if any("lr" not in group for group in optimizer.param_groups):
        raise ConfigError(f"{what}, which has no learning rate: the setting lr would do nothing")
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ConfigError(
            f"{what}, whose step needs a closure; allowed: one that steps by the gradient there is"
        )


def check_storable(optimizer: torch.optim.Optimizer, state: Mapping[Any, Any]) -> None:
    """See that a checkpoint can hold the state of an optimiser.

    Raises:
        ConfigError: naming what it cannot hold.
    """
    for of_parameter in state.values():
        for name, value in of_parameter.items():
            if not isinstance(value, (Tensor, int, float, str, type(None))):
                raise ConfigError(
                    f"make_optimizer: {type(optimizer).__name__} keeps {name!r} as "
                    f"{type(value).__name__}, which a checkpoint cannot hold; allowed: tensors and "
                    "numbers"
                )
