"""`Learner`: the networks of one module, their optimiser, their targets, and one gradient step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.callables import resolve_callable
from trainables.core.config.model import OptimizerConfig
from trainables.core.config.reference.uncalled_hooks import LEARNER, refuse_uncalled
from trainables.core.config.resolved import CompileOptions
from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.core.learning.denormals import FlushedDenormals
from trainables.core.learning.flat_parameters import (
    FlatParameters,
    TargetNetwork,
    collect_gradients,
    flat_groups,
    zero_gradients,
)
from trainables.core.learning.minibatches import minibatches, shared_minibatches, trained_rows
from trainables.core.learning.optimizers import check_optimizer, check_storable, make_optimizer
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.logs import is_debug, logger, shapes

Metrics = dict[str, Tensor]
LossFn = Callable[[Any, Batch], tuple[Tensor, Metrics]]
"""From the module and a minibatch to the scalar loss and detached scalars to report.

A loss over replayed rows also gives their new `priorities`, `[B]`.
"""


Reduction = Literal["mean", "sum"]  # over the rows of a loss


class Learner:
    """Updates one module by gradient steps on a loss.

    All parameters are stepped by one fused optimiser. Groups of them may have a learning rate each
    and are clipped apart, as if each had an optimiser of its own.

    Args:
        module: The networks.
        optimizer: The `optimizer` of the config.
        grad_clip: Bound of the gradients, None for none.
        grad_clip_by: "value", "norm" or "global_norm" (over a group).
        groups: Parameters by the name of their group; None: all in one.
        targets: Networks that get a target network, by the name of a group. Those of their
            parameters that are in the group follow it.
        undecayed: Groups that weight decay leaves alone.
        compile: Compile losses; None leaves them as they are.
        microbatch_size: Rows, or sequences, of a minibatch that are on the device at a time; their
            gradients are added up. None: the whole minibatch.

    Attributes:
        groups: All parameters of each group in one vector.
        gradient: That of all groups, `[P]`: theirs are views into it.
        targets: Target networks by the name of their group.
        ranks: The learners of this module that compute each gradient together.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: OptimizerConfig | Mapping[str, Any],
        grad_clip: float | None = None,
        grad_clip_by: str = "global_norm",
        *,
        groups: Mapping[str, Iterable[nn.Parameter]] | None = None,
        targets: Mapping[str, nn.Module] | None = None,
        undecayed: Collection[str] = (),
        compile: CompileOptions | None = None,
        microbatch_size: int | None = None,
    ):
        self.module = module
        self.ranks: Ranks = ALONE
        all_parameters = {"all": module.parameters()}
        by_group = {n: list(p) for n, p in (groups or all_parameters).items()}
        self.targets = {n: TargetNetwork(net, by_group[n]) for n, net in (targets or {}).items()}
        self.gradient, self.groups = flat_groups(by_group)
        self.optimizer = self.make_optimizer(
            [
                {"params": [flat.vector], **({"weight_decay": 0.0} if name in undecayed else {})}
                for name, flat in self.groups.items()
            ],
            OptimizerConfig.of(optimizer),
        )
        vectors = [flat.vector for flat in self.groups.values()]
        check_optimizer(self.optimizer, vectors, type(self).__qualname__)
        # A learner may be written as PyTorch's examples are: they let go of gradients. No reference
        # to the learner, a cycle with which would keep its memory for longer.
        flats, gradient = list(self.groups.values()), self.gradient
        self.optimizer.zero_grad = lambda *_, **__: zero_gradients(flats, gradient)  # type: ignore[method-assign]
        self.optimizer.register_step_pre_hook(lambda *_: collect_gradients(flats))
        self._type = type(self.optimizer).__name__
        # The state of another one may have any shape.
        self._has_own_optimizer = type(self).make_optimizer is not Learner.make_optimizer
        self._grad_clip, self._grad_clip_by = grad_clip, grad_clip_by
        self._microbatch_size = microbatch_size
        self._compile, self._compiled = compile, dict[Any, Any]()
        if compile is not None:
            # Compiled code is kept by where it stands in the source: the trials that a process
            # has run before would use up the number of its versions.
            torch.compiler.reset()

    def make_optimizer(
        self, groups: list[dict[str, Any]], settings: OptimizerConfig
    ) -> torch.optim.Optimizer:
        """Return the optimiser of all groups. Override to step by one of your own.

        It is called in the constructor: `module`, `groups` and `targets` are there, what a
        subclass sets after `super().__init__` is not. The learning rate is set before each update.

        Args:
            groups: One for each name in `self.groups`, in their order: `{"params": [vector]}`, with
                what differs from the settings. The vector holds the parameters of the group, `[P]`.
                Give them to the optimiser in this order; a group may get further options.
            settings: The `optimizer` of the config, over the algorithm's own.

        Returns:
            One that steps by the gradients there are, and has a learning rate. Its state, tensors
            and numbers, goes into checkpoints.
        """
        return make_optimizer(groups, settings)

    def set_lr(self, lr: float | Mapping[str, float]) -> None:
        """Set the learning rate of the steps to come, for all or by group."""
        for name, group in zip(self.groups, self.optimizer.param_groups, strict=True):
            group["lr"] = lr[name] if isinstance(lr, Mapping) else lr

    def collect_gradients(self) -> None:
        """Bring into `gradient` what is elsewhere, e.g. since `module.zero_grad()` cut the views.

        `optimizer.step()` begins with it.
        """
        collect_gradients(self.groups.values())

    def update_step(
        self,
        batch: Batch,
        loss_fn: LossFn,
        share: Tensor | float | None = None,
        *,
        reduction: Reduction = "mean",
    ) -> Metrics:
        """Take one gradient step on one minibatch.

        Args:
            batch: This rank's rows.
            loss_fn: A mean over rows; what it reports are means in any case.
            share: What it counts in the mean over all ranks: its part of their rows. None if there
                is no other rank.
            reduction: "mean" of a loss that is a mean over rows; "sum" of one that is a sum: every
                rank's counts in full.

        Returns:
            What the loss reports, times the share: sums over ranks are means over all rows. They
            stay on the device.
        """
        self.optimizer.zero_grad()
        add_gradient = self._add_gradient if self._microbatch_size is None else self._add_gradients
        metrics = add_gradient(batch, loss_fn, share, reduction)
        self.collect_gradients()
        self.ranks.sum(self.gradient)
        for name, flat in self.groups.items():
            prefix = "" if len(self.groups) == 1 else f"{name}_"
            norm = self._clip_gradients(flat)  # the same on each rank
            metrics[f"{prefix}grad_norm"] = norm if self.ranks.size == 1 else norm / self.ranks.size
        with FlushedDenormals():
            self.optimizer.step()
        return metrics

    def _add_gradient(
        self, batch: Batch, loss_fn: LossFn, share: Tensor | float | None, reduction: Reduction
    ) -> Metrics:
        """Add a loss's gradient; returns what it reports, times the share."""
        loss, metrics = self._compiled_loss(loss_fn)(self.module, batch)
        if share is not None:
            weight = torch.as_tensor(share > 0 if reduction == "sum" else share, dtype=loss.dtype)
            loss = loss * weight
            metrics = {name: value * share for name, value in metrics.items()}
        loss.backward()
        return metrics

    def _add_gradients(
        self, batch: Batch, loss_fn: LossFn, share: Tensor | float | None, reduction: Reduction
    ) -> Metrics:
        """Do as `_add_gradient` does, one microbatch after the other."""
        total = trained_rows(batch).sum().double().clamp_min(1)
        metrics: Metrics = {}
        for part in minibatches(batch, 1, self._microbatch_size, None):
            part_share = trained_rows(part).sum() / total * (1.0 if share is None else share)
            found = self._add_gradient(self._moved(part), loss_fn, part_share, reduction)
            metrics = {name: metrics.get(name, 0.0) + value for name, value in found.items()}
        return metrics

    def update(
        self,
        batch: Batch,
        loss_fn: LossFn,
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        generator: torch.Generator | None = None,
        normalize: Mapping[str, float] | None = None,
        ids: Tensor | None = None,
        reduction: Reduction = "mean",
    ) -> dict[str, float]:
        """Take several epochs of minibatch steps.

        Args:
            batch: Columns `[B, …]`.
            loss_fn: The loss.
            num_epochs: Passes over the rows.
            minibatch_size: Rows of a gradient step at most, over all ranks; None takes all.
            generator: CPU generator of the permutations; None keeps the order.
            normalize: Columns that get mean 0 and standard deviation 1 in each minibatch, with the
                least deviation that each is divided by.
            ids: With several ranks, the number of each row among those of all, see `row_ids`.
            reduction: Whether the loss is a mean over rows, or a sum.

        Returns:
            Means of the reported scalars over all gradient steps.
        """
        if is_debug():
            logger.debug("learner %d updates with %s", self.ranks.rank, shapes(batch))
        if ids is None:
            if self.ranks.size > 1:
                raise ValueError("several learners train together: give `ids`, see `row_ids`")
            parts = minibatches(batch, num_epochs, minibatch_size, generator, normalize)
            steps = [self.update_step(self.on_device(part), loss_fn) for part in parts]
        else:
            shared = shared_minibatches(
                batch, ids, self.ranks, num_epochs, minibatch_size, generator, normalize
            )
            steps = [
                self.update_step(self.on_device(part), loss_fn, share, reduction=reduction)
                for part, share in shared
            ]
        # One transfer at the end: an .item() per step would wait for the device each time.
        scalars = torch.stack([scalar for step in steps for scalar in step.values()])
        means = self.ranks.sum(scalars.view(len(steps), -1).mean(0))
        return dict(zip(steps[0], means.tolist(), strict=True))

    def on_device(self, minibatch: Batch) -> Batch:
        """Return a minibatch where the networks are.

        The batch that it is of stays in host memory: a GPU holds a minibatch, whatever the size of
        the train batch, and of that a microbatch if there are any.
        """
        return minibatch if self._microbatch_size is not None else self._moved(minibatch)

    def _moved(self, minibatch: Batch) -> Batch:
        device = self.gradient.device
        if device.type == "cpu":
            return minibatch
        # Out of pinned memory the copy runs beside what the GPU still computes.
        return {k: v.pin_memory().to(device, non_blocking=True) for k, v in minibatch.items()}

    def update_target(self, name: str, tau: float) -> None:
        """Move a target network towards its group's parameters."""
        self.targets[name].update(self.groups[name], tau)

    def _compiled_loss(self, loss_fn: LossFn) -> LossFn:
        """Return the loss, compiled when it is used first."""
        if self._compile is None:
            return loss_fn
        if loss_fn not in self._compiled:
            self._compiled[loss_fn] = _compiled(loss_fn, self._compile)
        return self._compiled[loss_fn]

    def _clip_gradients(self, flat: FlatParameters) -> Tensor:
        """Clip a group's gradient in place; returns its norm before clipping."""
        norm = torch.linalg.vector_norm(flat.gradient)
        bound = self._grad_clip
        if bound is None:
            return norm
        if self._grad_clip_by == "value":
            flat.gradient.clamp_(-bound, bound)
        elif self._grad_clip_by == "norm":
            for parameter in flat.parameters:
                nn.utils.clip_grad_norm_([parameter], bound)
        else:
            flat.gradient.mul_((bound / (norm + 1e-6)).clamp_max(1.0))
        return norm

    def get_state(self) -> dict[str, Any]:
        """Return what the optimiser has learned, and the targets. Rates are settings."""
        moments = copy.deepcopy(self.optimizer.state_dict()["state"])
        check_storable(self.optimizer, moments)
        targets = {name: target.get_state() for name, target in self.targets.items()}
        return {"type": self._type, "moments": moments, "targets": targets}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s; this learner's own settings stay.

        Another kind of optimiser starts without moments: they mean something else to it.
        """
        for name, target in self.targets.items():
            target.set_state(state["targets"][name])
        if state["type"] != self._type:
            return
        groups = self.optimizer.state_dict()["param_groups"]
        moments = copy.deepcopy(state["moments"])
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        for index, of_parameter in moments.items():
            for name, moment in of_parameter.items():
                same = np.shape(moment) == tuple(parameters[index].shape)
                if np.ndim(moment) and not same and not self._has_own_optimizer:
                    raise ConfigError(f"{name} of the optimiser is of another network")
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})


def learner_type(given: Any) -> type[Learner]:
    """Return the class that the setting `learner_class` means; it is imported if it is a name.

    Args:
        given: The setting: None, a subclass of `Learner`, or its name as `module:Name`.

    Raises:
        ConfigError: if it is no such class, or overrides what nothing calls.
    """
    if given is None:
        return Learner
    found = resolve_callable(given) if isinstance(given, str) else given
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ConfigError(
            f"learner_class = {given!r} is not allowed; allowed: a subclass of "
            "trainables.core.learning.learner.Learner, or its name as 'module:Name'"
        )
    refuse_uncalled(found, LEARNER)
    return found


def _compiled(loss_fn: LossFn, options: CompileOptions) -> LossFn:
    """Return a loss compiled by `torch.compile`, whose failures name the setting.

    Raises:
        ConfigError: if PyTorch cannot compile here, at once or when it is called first.
    """
    # Here, since they cost more than a second of every start.
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import InductorError

    try:
        compiled = torch.compile(loss_fn, backend=options.backend, mode=options.mode)
    except RuntimeError as error:
        raise _cannot_compile(error) from None

    def call(module: Any, batch: Batch) -> tuple[Tensor, Metrics]:
        try:
            return compiled(module, batch)
        except (TorchDynamoException, InductorError) as error:
            raise _cannot_compile(error) from None

    return call


def _cannot_compile(error: Exception) -> ConfigError:
    reason = str(error).strip().partition("\n")[0]
    return ConfigError(f"torch_compile_learner = True: PyTorch cannot compile here: {reason}")
