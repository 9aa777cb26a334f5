"""`batched`: a Tuner whose trials are trained together in a few processes."""

from __future__ import annotations

import dataclasses
from typing import Any

from ray import tune
from ray.tune.schedulers import ResourceChangingScheduler
from ray.tune.search import ConcurrencyLimiter

from experiments.cluster.session import available_nodes
from experiments.internals.hosted_actors import HostedTuner
from experiments.internals.hosts import Hosts
from experiments.internals.tune import OpenedTuner
from experiments.seeds.multi_seed import MultiSeed
from experiments.spec.schema import Resources
from experiments.sweep.hosting import ENOUGH, host_plan
from trainables.core.errors import ConfigError


def batched(tuner: tune.Tuner) -> tune.Tuner:
    """Return a Tuner that trains the trials of another one together, several in a process.

    There are as many processes as trials would fit on the nodes, each with up to 32 trials, which
    come and go as Tune starts and ends them. What a trial learns is what it learns alone, but for
    the rounding of float32. Results, checkpoints and schedulers are Tune's; `host` in a result is
    the number of the process.

    Args:
        tuner: A new or restored Tuner of PPO, DQN or SAC, or of several seeds of one
            (`with_seeds`). Its `reuse_actors` does not count: there are no actors.

    Returns:
        A Tuner for `fit`, in place of the other one; the other one itself, if each of its trials
        (or seeds) can have a CPU for itself.

    Raises:
        ConfigError: Its trials cannot be trained together; the message says why.

    Example:
        >>> batched(tune.Tuner(PPO, param_space=space)).fit()  # doctest: +SKIP
    """
    opened = OpenedTuner(tuner)
    settings = opened.tune_config
    if isinstance(settings.scheduler, ResourceChangingScheduler):
        raise ConfigError("batched: ResourceChangingScheduler gives trials CPUs of their own")
    if opened.run_config.log_to_file:
        raise ConfigError("batched: log_to_file is of a process, and trials share some")
    trainable, seeds = _one_seed(opened.trainable)
    most = settings.max_concurrent_trials or opened.num_trials()
    nodes = available_nodes(Resources())
    plan = host_plan(trainable, [opened.first_config()], most, nodes, seeds)
    if plan == ENOUGH:
        return tuner
    if isinstance(plan, str):
        raise ConfigError(f"batched: trials are not trained together: {plan}")
    # That searcher has a limit of its own, and Tune takes one of the two.
    limited = isinstance(settings.search_alg, ConcurrencyLimiter)
    limit = {} if limited else {"max_concurrent_trials": plan.places}
    opened.tune_config = dataclasses.replace(settings, reuse_actors=False, **limit)
    return HostedTuner.of(tuner, Hosts(plan.num_hosts, plan.resources, plan.places_each))


def _one_seed(trainable: Any) -> tuple[Any, int]:
    """Return the class that trains one seed of a trial, and how many a trial has."""
    if not (isinstance(trainable, type) and issubclass(trainable, MultiSeed)):
        return trainable, 1
    if trainable.parallel > 1:
        raise ConfigError(
            f"batched: parallel = {trainable.parallel} gives each trial its own processes; use "
            "parallel=1 and batched=True"
        )
    if not trainable.batched:
        raise ConfigError("batched: the seeds learn one by one; use with_seeds(…, batched=True)")
    return trainable.trainable_class, len(trainable.seeds)
