"""The update of DreamerV3: a gradient step on each batch of sequences, wherever its learner is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.learning.drawn import Drawn
from trainables.core.learning.learner import Metrics
from trainables.core.learning.ranks import Ranks
from trainables.dreamerv3.losses import Coefficients, dreamer_loss
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.learners.off_policy_update import Learned, UpdatePlan

_AFTER = "after/"


@dataclass
class LearnedAndSeen(Learned):
    """What came of updates, and the states of the world model that they found.

    Attributes:
        after: The states after the rows of all batches, `[T, num_updates * B, …]` by name.
    """

    after: dict[str, Tensor]


def dreamer_update(
    worker: LearnerWorker, drawn: Drawn, module_id: str, plan: UpdatePlan
) -> LearnedAndSeen:
    """Take a gradient step on each of the batches; the slow critic follows.

    Args:
        worker: What is trained.
        drawn: Batches of sequences; of several learners each has its sequences of every batch.
        module_id: Which module they are of.
        plan: What is known before.
    """
    policy, learner, ranks = worker.policies[module_id], worker.learners[module_id], worker.ranks
    config = worker.config_of(module_id)
    slow_critic: Any = learner.targets["critic"].network
    generator = torch.Generator(policy.device)
    loss_fn = partial(
        dreamer_loss,
        slow_critic=slow_critic,
        distribution=policy.distribution,
        coefficients=coefficients_of(config),
        generator=generator,
        ranks=ranks,
        products=torch.bfloat16 if config.use_float16 else None,
    )
    share = None if ranks.size == 1 else 1 / ranks.size  # each has as many sequences
    steps: list[Metrics] = []
    after: list[dict[str, Tensor]] = []
    for number, batch in enumerate(drawn.on(policy.device).batches()):
        learner.set_lr(warmed_up(plan.rates, plan.first + number, config.num_warmup_updates))
        generator.manual_seed(own_seed(worker.generator, ranks))
        steps.append(learner.update_step(batch, loss_fn, share))
        after.append(states_after(batch, ranks))
        if plan.move_targets[number]:
            learner.update_target("critic", config.tau)
    names = list(steps[0])
    scalars = torch.stack([value.reshape(()) for step in steps for value in step.values()])
    # Where the replay buffer is, there may be no GPU.
    states = {name: torch.cat([one[name] for one in after], 1).cpu() for name in after[0]}
    means = ranks.sum(scalars.view(len(steps), -1))
    return LearnedAndSeen(names, means, priorities=None, exploration={}, after=states)


def coefficients_of(config: object) -> Coefficients:
    """Return the numbers in the losses that settings say."""
    names = {
        "horizon": "horizon_H",
        "dynamics": "dynamics_loss_scale",
        "representation": "representation_loss_scale",
        "replay_critic": "replay_critic_loss_scale",
        "slow_critic": "slow_critic_scale",
        "range_decay": "return_normalization_decay",
    }
    fields = Coefficients._fields
    return Coefficients(**{field: getattr(config, names.get(field, field)) for field in fields})


def warmed_up(
    rates: float | Mapping[str, float], update: int, num_warmup_updates: int
) -> dict[str, float]:
    """Return learning rates of a gradient step: they rise in a line at first.

    Args:
        rates: By group.
        update: Gradient steps before this one.
        num_warmup_updates: Gradient steps until they are reached.
    """
    assert isinstance(rates, Mapping)
    factor = min(1.0, (update + 1) / (num_warmup_updates + 1))
    return {name: rate * factor for name, rate in rates.items()}


def own_seed(generator: torch.Generator, ranks: Ranks) -> int:
    """Return a seed of this rank; the stream it is drawn from is the same on all of them."""
    return int(torch.randint(2**62, (ranks.size,), generator=generator)[ranks.rank])


def states_after(batch: Batch, ranks: Ranks) -> dict[str, Tensor]:
    """Return what the loss has put into a batch: the states of all ranks' rows, `[T, B, …]`."""
    own = {n.removeprefix(_AFTER): part for n, part in batch.items() if n.startswith(_AFTER)}
    if ranks.size == 1:
        return own
    return {
        name: torch.cat(ranks.gather(part.transpose(0, 1).contiguous())).transpose(0, 1)
        for name, part in own.items()
    }
