"""IMPALA: importance-weighted actors and learners (Espeholt et al., 2018, arXiv 1802.01561)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import nn

from trainables.algorithm import Algorithm
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.fragments import (
    all_steps,
    fragment_batch,
    fragments_per_step,
)
from trainables.core.learning.impala_loss import MOMENTS, IMPALACoefficients, fragments_loss
from trainables.core.learning.minibatches import consecutive_ids
from trainables.core.learning.returns import Estimation, explained_by_moments
from trainables.core.networks.modules import PolicyModule
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import ASYNCHRONOUS, HALF_VALUE_LOSS, Reported, learned
from trainables.runtime.learners.by_module import LatestMetrics, TrainChoice
from trainables.runtime.learners.group import DataLost, LearnerWorker, fetched
from trainables.runtime.sampling.fragment_queue import FragmentQueue
from trainables.runtime.sampling.group import Sample
from trainables.settings.impala import IMPALAConfig as IMPALAConfig


class IMPALA(Algorithm):
    """Actors sample without waiting, V-trace corrects for the weights that they had.

    A subclass may override `next_fragments` (what a train batch is), `submit` (the update and what
    it is given), `take_in` (what follows from its results), `trains_again` and `learner_metrics`.
    """

    config_class = IMPALAConfig
    config: IMPALAConfig
    part_hook = "on_rollout"
    reported_metrics: ClassVar[tuple[Reported, ...]] = (
        learned(
            "total_loss",
            "",
            "policy_loss + `vf_loss_coeff` x vf_loss - `entropy_coeff` x entropy: a mean over "
            'rows, also with `loss_reduction` "sum"',
        ),
        learned(
            "policy_loss",
            "",
            "-mean log pi(a|s) A, A V-trace's advantage with its rho (Espeholt et al., 2018, 4.2)",
        ),
        HALF_VALUE_LOSS,
        learned(
            "mean_rho",
            "",
            "mean of pi(a|s) / mu(a|s), mu the policy that sampled, unclipped; 1: they agree",
        ),
        *ASYNCHRONOUS,
    )
    trains_again_by: ClassVar[str] = "replay_proportion"

    def training_step(self) -> dict[str, float]:
        fragments = self.next_fragments()
        with self.timers("learn"):
            self.submit(fragments)
            results = self._results()
        lag = np.mean([self.env_runners.weights_version - f.weights_version for f in fragments])
        self._broadcast_if_due()
        return self.learner_metrics(results, float(lag))

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        config = self.config
        self._choice = TrainChoice(config)
        if config.num_learners > 1:  # each has whole fragments, and steps with the others
            self.module_slots.check_each_runner(config, self.learner_connectors)
        self._first_version = 0  # of the weights that sampled what is trained on
        self._forget_fragments(seed)
        self._latest = LatestMetrics()
        self._num_updates = self._num_broadcast = 0  # that are finished; of those, broadcast

    def _forget_fragments(self, seed: np.random.SeedSequence) -> None:
        """Train on none of the fragments that have arrived."""
        config = self.config
        self._fragments = FragmentQueue(
            config.total_train_batch_size,
            config.replay_proportion,
            config.replay_buffer_num_slots,
            seed,
            min_fragments=max(1, config.num_learners),  # each has its own
            counts_agents=self.agent_groups is not None and config.count_steps_by == "agent_steps",
        )

    def change_policies(
        self, config: AlgorithmConfig, states: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._finish(0)  # learners that are made for other modules do not answer for what is queued
        again = self.policy_changes.used_again(config)
        super().change_policies(config, states)
        if again:  # what was sampled so far may be of those that had the ids before
            self._forget_fragments(self.policy_changes.streams(",".join(sorted(again))).storage)
            self._first_version = self.env_runners.weights_version

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        self._choice = TrainChoice(self.config)
        self._latest.keep(self.trained_policies)

    def set_state(self, state: dict[str, Any]) -> None:
        # Fragments from before are another run's.
        self.set_up_learning(self._random_streams(state["counters"]["iteration"]).storage)
        super().set_state(state)
        self._num_updates = self.num_training_steps
        self._num_broadcast = self._num_updates - self._num_updates % self.config.broadcast_interval

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        if not config._separate_vf_optimizer:
            return {}
        groups: dict[str, list[nn.Parameter]] = {"policy": [], "vf": []}
        for name, parameter in module.named_parameters():
            groups["vf" if name.startswith("value_") else "policy"].append(parameter)
        return {"groups": groups}

    def make_learner_connectors(self, policy: Policy) -> LearnerConnectors:
        connectors = super().make_learner_connectors(policy)
        if connectors.has_state and (self.trains_again or self.config.num_learners):
            raise ConfigError(
                "learner_connector: one with a state would count a fragment as often as it is "
                f"trained on ({self.trains_again_by}), or see a share of it (num_learners); "
                "allowed: connectors without get_state, or neither of these"
            )
        return connectors

    @property
    def trains_again(self) -> bool:
        """Whether a fragment may be in several train batches."""
        return self.config.replay_proportion > 0

    def submit(self, fragments: list[Sample]) -> None:
        """Have a train batch trained on."""
        rollouts = [fragment.rollouts for fragment in fragments]
        trained = self.modules_to_train(rollouts)
        coefficients = {m: self._of_module(m, self.coefficients) for m in trained}
        self.learners.submit(impala_update, rollouts, self._rates(trained), coefficients)

    def modules_to_train(self, rollouts: list[Any]) -> list[str]:
        """Return the ids of the modules that a train batch is to train.

        Only a function `policies_to_train` needs to see it, in this process.

        Args:
            rollouts: Those of its fragments by module id, or references to that.
        """
        trained = [*self.trained_policies]
        if not self._choice.asks:
            return trained
        with suppress(DataLost):  # then learners find nothing, either
            parts: list[dict[str, Rollout]] = fetched(rollouts)
            joined = {m: [part[m] for part in parts if m in part] for m in trained}
            whole = {m: Rollout.concatenate(own) for m, own in joined.items() if own}
            return [*self._choice(whole)]
        return trained

    def next_fragments(self) -> list[Sample]:
        """Return a train batch's fragments; env runners go on while it is trained on."""
        with self.timers("sample"):
            while (fragments := self._fragments.next_batch()) is None:
                self._await_fragments()
        return fragments

    def _await_fragments(self) -> None:
        timeout = self.config.learner_queue_timeout
        if not self._receive(timeout):
            raise RuntimeError(
                f"no env runner answered in learner_queue_timeout = {timeout:g} seconds"
            )

    def _receive(self, timeout_s: float) -> bool:
        """Take in what has come, waiting at most so long for something; whether there was any."""
        samples = self.env_runners.ready_samples(timeout_s)
        for sample in samples:
            self.episodes.add(sample.episodes)
            self.num_env_steps_sampled += sample.num_env_steps
            self.num_agent_steps_sampled += sample.episodes.num_agent_steps
            if sample.weights_version >= self._first_version:
                self._fragments.add(sample)
        return bool(samples)

    def _rates(self, module_ids: Iterable[str]) -> dict[str, float | dict[str, float]]:
        """Return the present learning rates of modules, of each one or one by group."""
        return {m: self._rates_of(self.config_of(m)) for m in module_ids}

    def _rates_of(self, config: IMPALAConfig) -> float | dict[str, float]:
        lr = self.scheduled(config.lr)
        if not config._separate_vf_optimizer:
            return lr
        return {"policy": lr, "vf": lr if config._lr_vf is None else self.scheduled(config._lr_vf)}

    def estimation(self, module_id: str | None = None) -> Estimation:
        """Return how value targets and advantages of a module are estimated.

        Args:
            module_id: Which module; None: by the settings of the algorithm alone.
        """
        config = self.config if module_id is None else self.config_of(module_id)
        return Estimation(
            gamma=config.gamma,
            lambda_=config.lambda_,
            vtrace=config.vtrace,
            rho_bar=config.vtrace_clip_rho_threshold,
            pg_rho_bar=config.vtrace_clip_pg_rho_threshold,
        )

    def coefficients(self, module_id: str | None = None) -> IMPALACoefficients:
        """Return the numbers in the loss of a module as they are now.

        Args:
            module_id: Which module; None: by the settings of the algorithm alone.
        """
        config = self.config if module_id is None else self.config_of(module_id)
        return IMPALACoefficients(
            self.estimation() if module_id is None else self._of_module(module_id, self.estimation),
            value=config.vf_loss_coeff,
            entropy=self.scheduled(config.entropy_coeff),
            reduction="sum" if config.loss_reduction == "sum" else "mean",
            masked=config.torch_compile_learner,
        )

    def _results(self) -> dict[str, dict[str, float]]:
        """Return what the last finished update reports; waits while too many others are queued."""
        self._finish(self.config.learner_queue_size if self._latest else 0)
        return self._latest.by_module

    def _finish(self, most: int) -> None:
        """Take in the results of finished updates; waits while more than `most` are queued.

        Those that were lost with a learner have none, and count nowhere.
        """
        timeout, learners = self.config.learner_queue_timeout, self.learners
        until = time.monotonic() + timeout
        while True:
            is_full = learners.num_queued > most
            remaining = until - time.monotonic()
            finished = learners.finished(max(0.0, remaining) if is_full else 0.0)
            self._num_updates += len(finished)
            for results in finished:
                self.num_env_steps_trained += sum(
                    result["num_env_steps_trained"] for result in results.values()
                )
                self.take_in(results)
                self._latest.add(results)
            if not is_full:
                return
            if not finished and remaining <= 0 and learners.num_queued > most:
                raise RuntimeError(
                    f"no learner finished an update in learner_queue_timeout = {timeout:g} seconds"
                )

    def state_besides_policies(self) -> dict[str, Any]:
        self._finish(0)  # what is queued is part of the learners' state
        return super().state_besides_policies()

    def _broadcast_if_due(self) -> None:
        if self._num_updates - self._num_broadcast >= self.config.broadcast_interval:
            self._num_broadcast = self._num_updates
            self.sync_weights()

    def take_in(self, results: dict[str, dict[str, float]]) -> None:
        """Take in the results of an update. Called with those of every one."""

    def learner_metrics(self, results: dict[str, dict[str, float]], lag: float) -> dict[str, float]:
        metrics: dict[str, float] = {"learner_queue_length": self.learners.num_queued}
        for module_id, rates in self._rates(results).items():
            present = {
                "curr_entropy_coeff": self.scheduled(self.config_of(module_id).entropy_coeff),
                "policy_lag": lag,  # versions
            }
            if isinstance(rates, float):
                present["curr_lr"] = rates
            else:
                present |= {"curr_lr": rates["policy"], "curr_vf_lr": rates["vf"]}
            found = {**results[module_id], **present}
            metrics |= {f"learner/{module_id}/{name}": value for name, value in found.items()}
        return metrics

    def get_learned_state(self) -> dict[str, Any]:
        return self._latest.get_state(self.trained_policies)

    def set_learned_state(self, state: dict[str, Any]) -> None:
        self._latest.set_state(state)


def impala_update(
    worker: LearnerWorker,
    fragments: list[dict[str, Rollout]],
    rates: dict[str, float | dict[str, float]],
    coefficients: dict[str, IMPALACoefficients],
) -> dict[str, dict[str, float]]:
    """Take gradient steps on fragments that any version of the policy sampled.

    Args:
        worker: What is trained.
        fragments: Rollouts `[T, N]` by module id, of any number of env runners. Of several
            learners each has its own.
        rates: Learning rates, or one by group, by id of the modules that are trained.
        coefficients: Of their losses.

    Returns:
        What losses report, means over all steps, by module id, of modules that acted in any.
    """
    return update_modules(worker, fragments, rates, coefficients, _learn)


def update_modules(
    worker: LearnerWorker,
    fragments: list[dict[str, Rollout]],
    rates: dict[str, float | dict[str, float]],
    plans: Mapping[str, Any],
    learn: Callable[[LearnerWorker, str, Rollout, Any], dict[str, float]],
    end: Callable[[LearnerWorker, str, Any], None] | None = None,
) -> dict[str, dict[str, float]]:
    """Let modules learn from fragments, one after the other.

    Args:
        worker: See `impala_update`, as the others.
        fragments: See `worker`.
        rates: See `worker`.
        plans: What is known of modules' updates, by id.
        learn: Takes the gradient steps of a module on its rollout, with its plan.
        end: Ends the update of a module, also of one that did not act.

    Returns:
        What modules report, by id, with what parts do and the number of steps; of those that acted.
    """
    worker.set_rates(rates)
    results = {}
    for module_id, plan in plans.items():
        rollout = worker.joined(module_id, fragments)
        num_steps = 0 if rollout is None else all_steps(rollout, worker.ranks)
        if rollout is not None and num_steps:
            rollout = worker.with_parts(module_id, rollout)
            results[module_id] = {
                **learn(worker, module_id, rollout, plan),
                **worker.part_metrics(module_id),
                "num_env_steps_trained": num_steps,
            }
        if end is not None:
            end(worker, module_id, plan)
        if num_steps:
            worker.share_encoder(module_id)
    return results


def _learn(
    worker: LearnerWorker, module_id: str, rollout: Rollout, coefficients: IMPALACoefficients
) -> dict[str, float]:
    config: IMPALAConfig = worker.config_of(module_id)
    policy = worker.policies[module_id]
    batch = fragment_batch(rollout, policy)
    metrics = worker.learners[module_id].update(
        batch,
        partial(fragments_loss, distribution=policy.distribution, coefficients=coefficients),
        num_epochs=config.num_epochs,
        minibatch_size=fragments_per_step(config, rollout, worker.ranks),
        generator=worker.generator if config.shuffle_batch_per_epoch else None,
        ids=consecutive_ids(len(batch["valid"]), worker.ranks),
        reduction=coefficients.reduction,
    )
    metrics["vf_explained_var"] = explained_by_moments(*(metrics.pop(name) for name in MOMENTS))
    return metrics


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(IMPALAConfig)
