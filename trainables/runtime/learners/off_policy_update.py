"""The update of algorithms that learn from drawn batches, wherever their learner is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from trainables.core.data.batch import Batch, tree_of
from trainables.core.learning.drawn import Drawn
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.q_sequences import q_sequences
from trainables.core.learning.ranks import Ranks
from trainables.core.policy.policy import Policy
from trainables.runtime.learners.group import LearnerWorker

_ADAPTATION_INTERVAL = 8  # updates; an adaptation costs about a third of one


class LearnsFromDraws(Protocol):
    """What an algorithm says of its gradient steps, as `OffPolicy` does."""

    def loss_at(self, worker: LearnerWorker, module_id: str, update: int) -> LossFn:
        """Return the loss of a module's gradient step, of which `update` came before it."""

    def draw_noise(self, worker: LearnerWorker, module_id: str) -> None:
        """Draw the noise that networks of a module have in a gradient step."""


class UpdatePlan(NamedTuple):
    """What is known of updates before they are made.

    Attributes:
        rates: Learning rates, of all parameters or by group.
        first: Number of the first update among the module's, from 0.
        move_targets: Whether the targets move after each of them.
    """

    rates: float | Mapping[str, float]
    first: int
    move_targets: list[bool]


@dataclass
class Learned:
    """What came of updates, over all learners.

    Attributes:
        names: Names of the reported scalars.
        scalars: Their values in each update, `[num_updates, len(names)]`.
        priorities: New ones of the rows of each update, `[num_updates, B]`; None if none are kept.
        exploration: What exploring means from now on, as far as updates have changed it.
    """

    names: list[str]
    scalars: Tensor
    priorities: Tensor | None
    exploration: dict[str, float]

    def __getstate__(self) -> dict[str, Any]:
        # In process the scalars stay on the device until they are reported; who reads them out of
        # another process may have no GPU.
        return self.__dict__ | {"scalars": self.scalars.cpu()}


def off_policy_update(
    worker: LearnerWorker,
    drawn: Drawn,
    module_id: str,
    algorithm: LearnsFromDraws,
    plan: UpdatePlan,
) -> Learned:
    """Take a gradient step on each of the batches.

    Args:
        worker: What is trained.
        drawn: Batches, with what `OffPolicy.prepare` makes of them; of several learners each has
            its rows of every batch.
        module_id: Which module they are of.
        algorithm: Says what the loss is, and draws the noise of networks.
        plan: What is known before.
    """
    policy, learner, ranks = worker.policies[module_id], worker.learners[module_id], worker.ranks
    learner.set_lr(plan.rates)
    prioritized = worker.resolved.replay.prioritized
    tau = worker.config_of(module_id).tau
    steps: list[Metrics] = []
    priorities: list[Tensor] = []
    shares: list[float] = []
    exploration: dict[str, float] = {}
    for number, batch in enumerate(_batches(worker, module_id, drawn)):
        share = None
        if ranks.size > 1:
            share = len(batch["actions"]) / drawn.num_rows[number]
            shares.append(share)
            if not share:
                batch = with_a_row(batch)
        batch = worker.with_parts(module_id, batch, share)
        algorithm.draw_noise(worker, module_id)
        loss_fn = algorithm.loss_at(worker, module_id, plan.first + number)
        metrics = learner.update_step(batch, loss_fn, share)
        new = metrics.pop("priorities")
        if prioritized:
            priorities.append(new)
        if module_id in worker.parts:
            reported = worker.part_metrics(module_id).items()
            metrics |= {n: torch.tensor(value, device=policy.device) for n, value in reported}
        steps.append(metrics)
        if (plan.first + number) % _ADAPTATION_INTERVAL == 0:
            exploration |= _adapted_exploration(policy, batch, worker)
        if plan.move_targets[number]:
            for name in learner.targets:
                learner.update_target(name, tau)
    names = list(steps[0])
    scalars = torch.stack([value.reshape(()) for step in steps for value in step.values()])
    scalars = scalars.view(len(steps), -1)
    rows = torch.stack(priorities) if priorities else None
    if ranks.size > 1:
        weights = torch.tensor(shares, device=scalars.device)[:, None]
        scalars = of_all_rows(names, scalars, weights, ranks)
        if rows is not None:
            rows = torch.cat(ranks.gather(rows.T.contiguous())).T
    return Learned(names, scalars, None if rows is None else rows.cpu(), exploration)


def of_all_rows(names: list[str], scalars: Tensor, shares: Tensor, ranks: Ranks) -> Tensor:
    """Return what is reported of the rows of all ranks: means, but for the greatest Q.

    What parts report, by names with a slash, is of all ranks as it is.

    Args:
        names: Names of the scalars.
        scalars: Of this rank's rows, times their share, `[num_updates, len(names)]`.
        shares: Of this rank in each update, `[num_updates, 1]`.
        ranks: All of them.
    """
    parts = torch.stack(ranks.gather(torch.cat([scalars, shares], dim=1)))
    whole, of_rank = parts[..., :-1].sum(0), parts[..., -1]
    for i, name in enumerate(names):
        if name == "q_max":
            maxima = parts[..., i] / of_rank
            whole[:, i] = maxima.masked_fill(of_rank == 0, -torch.inf).amax(0)
        elif "/" in name:
            whole[:, i] = parts[0, :, i]
    return whole


def with_a_row(batch: Batch) -> Batch:
    """Return a batch of sequences without valid rows with one row, which counts nothing.

    A rank that has such a batch takes part in the sums of the others.
    """
    return {
        name: column if len(column) else column.new_zeros((1, *column.shape[1:]))
        for name, column in batch.items()
    }


def _batches(worker: LearnerWorker, module_id: str, drawn: Drawn) -> Iterator[Batch]:
    """Yield what a module's loss takes of each batch, on its device."""
    device = worker.policies[module_id].device
    if not drawn.are_sequences:
        yield from drawn.on(device).batches()
        return
    shape, gamma = worker.resolved_of(module_id).sequences, worker.config_of(module_id).gamma
    for sequences in drawn.batches():
        batch = q_sequences(sequences, tree_of(sequences, "features"), shape, gamma)
        yield {name: column.to(device) for name, column in batch.items()}


def _adapted_exploration(policy: Policy, batch: Batch, worker: LearnerWorker) -> dict[str, float]:
    """Steer noise on parameters by what it does to actions on replayed observations."""
    explorer: Any = policy.explorer
    if not explorer.is_adapted:
        return {}
    features = tree_of(batch, "features")
    gather = worker.ranks.gather
    stddev = explorer.adapted(policy.module, features, worker.generator, gather)
    policy.set_exploration(stddev=stddev)
    return {"stddev": stddev}
