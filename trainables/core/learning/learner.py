"""`Learner`: the networks of one module, their optimisers, their targets, and a gradient step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial, wraps
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn

from trainables.core.callables import refuse_uncalled, resolve_callable
from trainables.core.config.model import OptimizerConfig
from trainables.core.config.resolved import CompileOptions
from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.learning.flat_parameters import (
    TargetNetwork,
    collect_gradients,
    flat_groups,
    zero_gradients,
)
from trainables.core.learning.minibatches import minibatches, shared_minibatches, trained_rows
from trainables.core.learning.optimizers import make_optimizer
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.learning.stepping import (
    OptimizerOptions,
    Stepping,
    check_parameters,
    ordered_groups,
)
from trainables.core.logs import is_debug, logger, shapes

Metrics = dict[str, Tensor]
LossFn = Callable[[Any, Batch], tuple[Tensor, Metrics]]
"""From the module and a minibatch to the scalar loss and detached scalars to report.

A loss over replayed rows also gives their new `priorities`, `[B]`.
"""

Losses = LossFn | Mapping[str, LossFn]
"""A loss that all optimisers step by, or one for each named optimiser, in the order of their steps.

What one of several puts into the batch, the ones after it see.
"""

Reduction = Literal["mean", "sum"]  # over the rows of a loss

F = TypeVar("F", bound=Callable[..., Any])


def in_memory(method: F) -> F:
    """Return a method of a learner, which brings back the learner's memory first."""

    @wraps(method)
    def called(learner: Learner, *args: Any, **kwargs: Any) -> Any:
        if learner.shelved is not None:
            learner.shelved.use()
        return method(learner, *args, **kwargs)

    return cast(F, called)


class Learner:
    """Updates one module by gradient steps on a loss, or on several.

    All parameters are stepped by one fused optimiser. Groups of them may have a learning rate each
    and are clipped apart, as if each had an optimiser of its own. Where losses are to be stepped by
    one after the other, each has a named optimiser of some of the groups.

    Args:
        module: The networks.
        optimizer: The `optimizer` of the config.
        grad_clip: Bound of the gradients, None for none.
        grad_clip_by: "value", "norm", "global_norm" (over a group) or "adaptive".
        groups: Parameters by the name of their group; None: all in one.
        targets: Networks that get a target network, by the name of a group. Those of their
            parameters that are in the group follow it.
        undecayed: Groups that weight decay leaves alone.
        compile: Compile losses; None leaves them as they are.
        microbatch_size: Rows, or sequences, of a minibatch that are on the device at a time; their
            gradients are added up. None: the whole minibatch. It goes with one loss only.
        optimizers: Named optimisers and what they step, in this order; what one leaves open is as
            the arguments above say. None: one for all.
        networks: Networks beside the module, by name: learned with it, but no part of a policy.
            The learner's state has them.

    Attributes:
        groups: All parameters of each group in one vector.
        gradient: That of all groups, `[P]`: theirs are views into it.
        optimizers: By name; the only one of a learner without names is "all".
        targets: Target networks by the name of their group.
        networks: Those beside the module.
        ranks: The learners of this module that compute each gradient together.
        shelved: What its memory comes and goes with, see `Shelved.add`; None: it stays.
        microbatch_size: See the argument.
    """

    shelved: Any = None

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
        optimizers: Mapping[str, OptimizerOptions] | None = None,
        networks: Mapping[str, nn.Module] | None = None,
    ):
        self.module = module
        self.ranks: Ranks = ALONE
        self.networks = nn.ModuleDict(dict(networks or {}))
        if (own := next(module.parameters(), None)) is not None:
            self.networks.to(own.device)
        all_parameters = {"all": [*module.parameters(), *self.networks.parameters()]}
        by_group = {n: list(p) for n, p in (groups or all_parameters).items()}
        check_parameters(by_group, networks or {})
        if optimizers is None:
            optimizers = {"all": OptimizerOptions(list(by_group))}
        owners = ordered_groups(by_group, optimizers)
        self.targets = {n: TargetNetwork(net, by_group[n]) for n, net in (targets or {}).items()}
        self.gradient, self.groups = flat_groups({name: by_group[name] for name in owners})
        sizes = [
            sum(len(self.groups[g].vector) for g in owners if owners[g] == n) for n in optimizers
        ]
        gradients = self.gradient.split(sizes)
        self.steppings: dict[str, Stepping] = {}
        for (name, options), gradient in zip(optimizers.items(), gradients, strict=True):
            settings = OptimizerConfig.of(options.optimizer or optimizer)
            self.steppings[name] = Stepping(
                {g: flat for g, flat in self.groups.items() if owners[g] == name},
                self.gradient if len(sizes) == 1 else gradient,
                partial(self.make_optimizer, settings=settings),
                *options.clipping(grad_clip, grad_clip_by),
                undecayed=undecayed,
                owner=type(self).__qualname__,
                is_own=type(self).make_optimizer is not Learner.make_optimizer,
            )
        self.optimizers = {name: one.optimizer for name, one in self.steppings.items()}
        self.microbatch_size = microbatch_size
        self._compiled = None if compile is None else feature("compiling").losses(compile)

    def make_optimizer(
        self, groups: list[dict[str, Any]], settings: OptimizerConfig
    ) -> torch.optim.Optimizer:
        """Return an optimiser of some groups. Override to step by one of your own.

        It is called in the constructor, once for each named optimiser; without names once, with all
        groups. `module`, `groups` and `targets` are there, what a subclass sets after
        `super().__init__` is not. The learning rate is set before each update.

        Args:
            groups: Parameter groups, `{"params": [vector], "name": …}` with what differs from the
                settings, in the order of `self.groups`. The vector holds the parameters of the
                group, `[P]`. Give them to the optimiser in this order; a group may get further
                options.
            settings: The `optimizer` of the config, over the algorithm's own; or those of the named
                optimiser.

        Returns:
            One that steps by the gradients there are, and has a learning rate. Its state, tensors
            and numbers, goes into checkpoints.
        """
        return make_optimizer(groups, settings)

    @property
    def is_compiled(self) -> bool:
        """Whether its losses are compiled."""
        return self._compiled is not None

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The only optimiser.

        Raises:
            ValueError: if there are several, see `optimizers`.
        """
        if len(self.optimizers) > 1:
            raise ValueError(f"there are several optimizers, {list(self.optimizers)}: name one")
        [only] = self.optimizers.values()
        return only

    def set_lr(self, lr: float | Mapping[str, float]) -> None:
        """Set the learning rate of the steps to come, for all or by group.

        Raises:
            ValueError: if a group has none, or a rate no group.
        """
        if isinstance(lr, Mapping) and lr.keys() != self.groups.keys():
            raise ValueError(
                f"learning rates are of {list(lr)}, but the groups are {list(self.groups)}"
            )
        for one in self.steppings.values():
            one.set_lr(lr)

    def collect_gradients(self) -> None:
        """Bring into `gradient` what is elsewhere, e.g. since `module.zero_grad()` cut the views.

        `optimizer.step()` begins with it.
        """
        collect_gradients(self.groups.values())

    @in_memory
    def update_step(
        self,
        batch: Batch,
        loss_fn: Losses,
        share: Tensor | float | None = None,
        *,
        reduction: Reduction = "mean",
    ) -> Metrics:
        """Take one gradient step on one minibatch; of several losses one after the other.

        Args:
            batch: This rank's rows.
            loss_fn: A mean over rows; what it reports are means in any case. Or one for each named
                optimiser: what any of them reports must have a name of its own.
            share: What it counts in the mean over all ranks: its part of their rows. None if there
                is no other rank.
            reduction: "mean" of a loss that is a mean over rows; "sum" of one that is a sum: every
                rank's counts in full.

        Returns:
            What the loss reports, means times the share: sums over ranks are means over all
            rows. They stay on the device.

        Raises:
            ValueError: if a loss has no optimiser of its name, or reports what another one does.
        """
        if callable(loss_fn):
            return self._step(self.steppings.values(), batch, loss_fn, share, reduction)
        if self.microbatch_size is not None:
            raise ValueError("microbatch_size goes with one loss only")
        if unknown := [name for name in loss_fn if name not in self.steppings]:
            raise ValueError(
                f"no optimizer steps by the loss {unknown[0]!r}; there are {list(self.optimizers)}"
            )
        batch, metrics = dict(batch), Metrics()
        for name, loss in loss_fn.items():
            found = self._step([self.steppings[name]], batch, loss, share, reduction)
            if twice := metrics.keys() & found.keys():
                raise ValueError(
                    f"the loss {name!r} reports {min(twice)!r}, and so does one before it: each "
                    "needs names of its own"
                )
            metrics |= found
        return metrics

    def _step(
        self,
        steppings: Collection[Stepping],
        batch: Batch,
        loss_fn: LossFn,
        share: Tensor | float | None,
        reduction: Reduction,
    ) -> Metrics:
        """Step the groups of some optimisers by the gradient of one loss."""
        zero_gradients(self.groups.values(), self.gradient)
        add_gradient = self._add_gradient if self.microbatch_size is None else self._add_gradients
        metrics = add_gradient(batch, loss_fn, share, reduction)
        self.collect_gradients()
        for one in steppings:
            self.ranks.sum(one.gradient)
            for name, flat in one.groups.items():
                prefix = "" if len(self.groups) == 1 else f"{name}_"
                norm = one.clip_gradients(flat)  # the same on each rank
                size = self.ranks.size
                metrics[f"{prefix}grad_norm"] = norm if size == 1 else norm / size
            one.step()
        return metrics

    def _add_gradient(
        self, batch: Batch, loss_fn: LossFn, share: Tensor | float | None, reduction: Reduction
    ) -> Metrics:
        """Add a loss's gradient; returns what it reports, times the share."""
        if self._compiled is not None:
            loss_fn = self._compiled(loss_fn)
        loss, metrics = loss_fn(self.module, batch)
        if share is not None:
            weight = torch.as_tensor(share > 0 if reduction == "sum" else share, dtype=loss.dtype)
            loss = loss * weight
            # Means of rows, that is; priorities are each row's own.
            metrics = {n: v if n == "priorities" else v * share for n, v in metrics.items()}
        loss.backward()
        return metrics

    def _add_gradients(
        self, batch: Batch, loss_fn: LossFn, share: Tensor | float | None, reduction: Reduction
    ) -> Metrics:
        """Do as `_add_gradient` does, one microbatch after the other."""
        total = trained_rows(batch).sum().double().clamp_min(1)
        metrics: Metrics = {}
        for part in minibatches(batch, 1, self.microbatch_size, None):
            part_share = trained_rows(part).sum() / total * (1.0 if share is None else share)
            found = self._add_gradient(self._moved(part), loss_fn, part_share, reduction)
            metrics = {name: metrics.get(name, 0.0) + value for name, value in found.items()}
        return metrics

    def update(
        self,
        batch: Batch,
        loss_fn: Losses,
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
            loss_fn: The loss, or one for each named optimiser.
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
            return self._means(self.update_step(self.on_device(part), loss_fn) for part in parts)
        shared = shared_minibatches(
            batch, ids, self.ranks, num_epochs, minibatch_size, generator, normalize
        )
        return self._means(
            self.update_step(self.on_device(part), loss_fn, share, reduction=reduction)
            for part, share in shared
        )

    def _means(self, reports: Iterable[Metrics]) -> dict[str, float]:
        """Take gradient steps; returns means of what they report, over all ranks."""
        steps = list(reports)
        # One transfer at the end: an .item() per step would wait for the device each time.
        scalars = torch.stack([scalar for step in steps for scalar in step.values()])
        means = self.ranks.sum(scalars.view(len(steps), -1).mean(0))
        return dict(zip(steps[0], means.tolist(), strict=True))

    def on_device(self, minibatch: Batch) -> Batch:
        """Return a minibatch where the networks are.

        The batch that it is of stays in host memory: a GPU holds a minibatch, whatever the size of
        the train batch, and of that a microbatch if there are any.
        """
        return minibatch if self.microbatch_size is not None else self._moved(minibatch)

    def _moved(self, minibatch: Batch) -> Batch:
        device = self.gradient.device
        if device.type == "cpu":
            return minibatch
        # Out of pinned memory the copy runs beside what the GPU still computes.
        return {k: v.pin_memory().to(device, non_blocking=True) for k, v in minibatch.items()}

    @in_memory
    def update_target(self, name: str, tau: float) -> None:
        """Move a target network towards its group's parameters.

        Raises:
            ValueError: if the group has none.
        """
        if name not in self.targets:
            raise ValueError(f"{name!r} has no target network; {list(self.targets)} have")
        self.targets[name].update(self.groups[name], tau)

    def tensors(self) -> Iterator[Tensor]:
        """Yield parameters, gradients, moments, targets and the networks beside, as they are."""
        yield self.gradient
        for flat in self.groups.values():
            yield from flat.tensors()
        for network in (self.networks, *(target.network for target in self.targets.values())):
            yield from network.parameters()
            yield from network.buffers()
        for optimizer in self.optimizers.values():
            for of_parameter in optimizer.state.values():
                yield from (part for part in of_parameter.values() if isinstance(part, Tensor))

    def shelve(self, shelved: Any) -> None:
        """Let its memory come and go with that of its policy.

        Args:
            shelved: The policy's.
        """
        self.shelved = shelved

    @in_memory
    def get_state(self) -> dict[str, Any]:
        """Return what the optimisers have learned, and the targets. Rates are settings."""
        state: dict[str, Any] = {name: one.get_state() for name, one in self.steppings.items()}
        state = state["all"] if list(state) == ["all"] else {"optimizers": state}
        if self.networks:
            weights = self.networks.state_dict()
            state["networks"] = {name: value.detach().clone() for name, value in weights.items()}
        return {**state, "targets": {n: target.get_state() for n, target in self.targets.items()}}

    @in_memory
    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s; this learner's own settings stay.

        Another kind of optimiser starts without moments: they mean something else to it.

        Raises:
            ConfigError: if it is of other optimisers or networks.
        """
        by_name = state.get("optimizers", {"all": state})
        if by_name.keys() != self.steppings.keys():
            raise ConfigError(
                f"the state is of the optimizers {list(by_name)}, not of {list(self.optimizers)}"
            )
        if self.networks:
            self.networks.load_state_dict(state["networks"])
        for name, target in self.targets.items():
            target.set_state(state["targets"][name])
        for name, one in self.steppings.items():
            one.set_state(by_name[name])


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
    refuse_uncalled(found, "LEARNER")
    return found
