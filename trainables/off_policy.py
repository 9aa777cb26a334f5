"""What algorithms share that learn from replayed experience: draws, updates, targets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from torch import Tensor

from trainables.algorithm import Algorithm
from trainables.core.config.experience import SAMPLER
from trainables.core.config.exploration import per_worker_mean
from trainables.core.config.off_policy import OffPolicyConfig, ResolvedOffPolicy
from trainables.core.data.batch import Batch, tree_columns, tree_of
from trainables.core.data.stored import from_store, to_store
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.learning.drawn import Drawn
from trainables.core.learning.learner import LossFn
from trainables.core.learning.schedules import Clock
from trainables.core.logs import is_debug, logger, shapes
from trainables.core.networks.memory import state_arrays
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import (
    Reported,
    learned,
)
from trainables.runtime.learners.by_module import TrainChoice
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.learners.off_policy_update import Learned, UpdatePlan, off_policy_update
from trainables.runtime.metrics import TensorMeans
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.replay.experience import Experience
from trainables.runtime.replay.replayed import Replayed
from trainables.runtime.replay.stores import StateLayout

NOISE_STDDEV = Reported(
    "exploration/stddev",
    "",
    "standard deviation of the noise on each parameter; it adapts",
    "`exploration_config` of the type ParameterNoise",
)
Q_MEAN = learned("q_mean", "discounted return", "mean Q(s, a) of replayed steps")
Q_MAX = learned(
    "q_max",
    "discounted return",
    "the greatest Q(s, a) of a batch, mean over updates; far above any possible return: Q diverges",
)


def reads_data(config: OffPolicyConfig) -> bool:
    """Return whether something else is learned from than what is sampled."""
    return {*config.input_shares} != {SAMPLER}


class OffPolicy(Algorithm):
    """Part of DQN, SAC and what extends them: experience is stored, drawn and learned from.

    A subclass makes its losses in `make_loss`. It may also override

    - `learning_rates`: the present rates of its groups of parameters;
    - `make_experience`: where what is learned from comes from, by default as `input_` says;
    - `prepare`: what is added to drawn rows before they are learned from;
    - `loss_at`: the loss of each gradient step, where not all have the same;
    - `draw_noise`: the noise of networks that have some, before each gradient step;
    - `explores_uniformly`: when actions are drawn uniformly.

    Attributes:
        experience: What is learned from, by module id.
    """

    config_class = OffPolicyConfig
    config: OffPolicyConfig
    part_hook = "on_batch"
    reported_metrics: ClassVar[tuple[Reported, ...]] = (
        Reported("num_updates_lifetime", "", "gradient steps so far"),
        Reported("replay/num_steps", "env steps", "environment steps in the replay buffer"),
        Reported("replay/memory_bytes", "bytes", "memory allocated by the replay buffer"),
    )
    keeps_columns: ClassVar[bool] = True  # the replay buffer has rows of every slot
    experience: Replayed
    _left_out: set[str]  # modules that the last rollouts were not to train

    def training_step(self) -> dict[str, float]:
        exploration = self.set_exploration()
        new_steps = self._gathered()
        if self.config.sample_while_learning:
            self.env_runners.sample_ahead()
        rates = {m: self._of_module(m, self.learning_rates) for m in self.experience}
        with self.timers("learn"):
            self.learn(new_steps, rates)
        self.sync_weights()
        present = {
            f"learner/{module_id}/{name}": rate
            for module_id, own in rates.items()
            for name, rate in self.reported_rates(own).items()
        }
        return {**exploration, **present}

    def _gathered(self) -> dict[str, int]:
        """Sample and store; returns the new steps that updates are due for, by module id."""
        if not self.config.needs_env:
            return dict.fromkeys(self.experience, 0)  # see `_draws` for whom to train
        before = self._num_sampled
        rollouts = self.sample()
        # Modules of one agent each wait for rows of their own slots.
        sampled = self._num_sampled - before if self.config.is_multi_agent() else None
        new_steps, chosen = self.experience.add(rollouts, sampled), self._choice(rollouts)
        self._left_out = rollouts.keys() - chosen.keys()
        return {m: steps for m, steps in new_steps.items() if m not in self._left_out}

    @property
    def _num_sampled(self) -> int:
        """Steps so far, as `count_steps_by` counts them."""
        if self.config.count_steps_by == "agent_steps":
            return self.num_agent_steps_sampled
        return self.num_env_steps_sampled

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        trained = self.trained_policies
        self._num_updates = dict.fromkeys(trained, 0)
        self._num_synced_updates = 0
        self._resolved = self.config.resolve()
        self._choice = TrainChoice(self.config)
        self._left_out = set()
        seeds = seed.spawn(len(trained))
        stores = {
            module_id: self.make_experience(module_id, policy, child)
            for (module_id, policy), child in zip(trained.items(), seeds, strict=True)
        }
        self.experience = Replayed(self.config, stores, self._row_bytes)
        # Where a round is an update, whatever is sampled in it, targets count its steps. Without an
        # environment there are none: they count updates.
        self._counts_steps = self.config.replay_ratio is None and self.config.needs_env
        # Counted in updates, so that it does not depend on how many slots are sampled at once.
        self._target_clocks = {m: Clock(self._target_rate(self.config_of(m))) for m in trained}
        self._means = {m: TensorMeans() for m in trained}

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        trained = self.trained_policies
        gone = [m for m in self._num_updates if m not in trained]
        added = [m for m in trained if m not in self._num_updates]
        seeds = dict(zip(added, seed.spawn(len(added)), strict=True))
        stores = {m: self.make_experience(m, trained[m], seeds[m]) for m in added}
        if reads_data(self.config):
            stores |= self._mapped_anew([m for m in self.experience if m not in gone], seed)
        self.experience.change(self.config, stores, gone, self._row_bytes)
        self._resolved, self._choice = self.config.resolve(), TrainChoice(self.config)
        of_modules: tuple[dict[str, Any], ...] = (
            self._num_updates,
            self._target_clocks,
            self._means,
        )
        for values in of_modules:
            for module_id in gone:
                values.pop(module_id, None)
        self._left_out -= {*gone}
        for module_id in added:
            self._num_updates[module_id] = 0
            self._target_clocks[module_id] = Clock(self._target_rate(self.config_of(module_id)))
            self._means[module_id] = TensorMeans()
        self.set_exploration()

    def _mapped_anew(
        self, module_ids: list[str], seed: np.random.SeedSequence
    ) -> dict[str, Experience]:
        """Return the experience of modules that stay, whose agents may be others by now.

        A module that has no agents any more goes on with the rows that it had.
        """
        found = {}
        for module_id in module_ids:
            store, policy = self.experience[module_id], self.policies[module_id]
            anew = partial(self.make_experience, module_id, policy, seed)
            found[module_id] = feature("offline").renewed(store, anew)
        return found

    def _target_rate(self, config: OffPolicyConfig) -> Fraction:
        """Return how often targets move in each update, or each environment step of the round."""
        frequency = config.target_network_update_freq
        if not frequency:
            return Fraction(1)
        if self._counts_steps or not config.needs_env:
            return Fraction(1, frequency)
        return 1 / (config.updates_per_env_step * frequency)

    def _resolved_of(self, module_id: str | None) -> ResolvedOffPolicy:
        """Return what the settings that a module learns by mean; None: those of the algorithm."""
        config = self.config if module_id is None else self.config_of(module_id)
        resolved: ResolvedOffPolicy = config.resolve()
        return resolved

    @property
    def num_updates(self) -> int:
        """Gradient steps so far, of all modules."""
        return sum(self._num_updates.values())

    @property
    def _row_bytes(self) -> int:
        """Bytes of the widest observation and its features; images are both in one."""
        return max(
            policy.observations.num_frames * policy.observations.layout.nbytes
            + 4 * policy.observations.preprocessor.num_features
            for policy in self.policies.values()
        )

    def make_experience(
        self, module_id: str, policy: Policy, seed: np.random.SeedSequence
    ) -> Experience:
        """Return what a module learns from: a replay buffer, which is empty yet, or data.

        Args:
            module_id: The module that learns.
            policy: Its policy.
            seed: The seed of the draws.
        """
        make_buffer = partial(self._make_buffer, module_id, policy)
        if not reads_data(self.config):
            return make_buffer(seed)
        if len(self.trained_policies) > 1 and not self.config.is_multi_agent():
            raise ConfigError(
                f"input_ = {self.config.input_!r} is not possible with several modules that learn "
                f"({', '.join(self.trained_policies)}) and are no policies: which rows are whose "
                "policy_mapping_fn says, of the setting policies"
            )
        found: Experience = feature("offline").experience(
            self.config, policy, seed, make_buffer, self.logdir, module_id
        )
        return found

    def _make_buffer(
        self, module_id: str, policy: Policy, seed: np.random.SeedSequence
    ) -> ReplayBuffer:
        return ReplayBuffer(
            self._resolved.replay,
            policy.observations.layout,
            policy.distribution.action_shape,
            policy.distribution.action_dtype,
            self.module_slots.num_slots(self.config, module_id),
            seed,
            policy.observations.num_frames,
            self._state_layout(module_id, policy),
        )

    @classmethod
    def spaces(
        cls, config: Any, module_id: str | None = None
    ) -> tuple[gym.Space, gym.Space] | None:
        if not reads_data(config):
            return super().spaces(config)
        found: tuple[gym.Space, gym.Space] | None
        found = feature("offline").data_spaces(config, module_id)
        return found

    def _state_layout(self, module_id: str, policy: Policy) -> StateLayout | None:
        """Return the recurrent states that the buffer keeps: those before the sequences."""
        if not policy.is_recurrent:
            return None
        fields = state_arrays(policy.module.initial_state(1))  # frames are in the rows before
        return StateLayout(
            self._resolved_of(module_id).sequence_length,
            {name: (part.shape[1:], part.dtype) for name, part in fields.items()},
        )

    # ------------------------------------------------------------------ learning

    @classmethod
    @abstractmethod
    def make_loss(cls, worker: LearnerWorker, module_id: str) -> LossFn:
        """Return the loss of a module, in whatever process it learns."""

    @classmethod
    def loss_at(cls, worker: LearnerWorker, module_id: str, update: int) -> LossFn:
        """Return the loss of a gradient step: that of `make_loss`, which is made once.

        Args:
            worker: What is trained.
            module_id: Which module learns.
            update: Its gradient steps before this one.
        """
        if module_id not in worker.losses:
            worker.losses[module_id] = cls.make_loss(worker, module_id)
        return worker.losses[module_id]

    @classmethod
    def draw_noise(cls, worker: LearnerWorker, module_id: str) -> None:
        """Draw the noise that networks of a module have in a gradient step, if they have any."""

    @abstractmethod
    def learning_rates(self, module_id: str | None = None) -> float | dict[str, float]:
        """Return the present learning rate of all parameters, or those of their groups.

        Args:
            module_id: Of which module; None: by the settings of the algorithm alone.
        """

    def reported_rates(self, rates: Any) -> dict[str, float]:
        """Return what is reported of learning rates.

        Args:
            rates: What `learning_rates` returned.
        """
        if not isinstance(rates, dict):
            return {"curr_lr": rates}
        return {f"curr_{name}_lr": rate for name, rate in rates.items()}

    def learn(self, num_new_steps: dict[str, int], rates: dict[str, Any]) -> None:
        """Take the gradient steps that are due, several to a draw.

        Args:
            num_new_steps: Environment steps of this round that updates are due for, by module id.
            rates: What `learning_rates` returned, by module id.
        """
        beta = self.scheduled(self._resolved.replay.beta)
        for module_id, drawn in self._draws(num_new_steps, beta):
            ids = drawn.columns["ids"]
            batch = self.prepare(self.policies[module_id], drawn.columns)
            if is_debug():
                logger.debug("%d updates with rows of %s", drawn.num_batches, shapes(batch))
            plan = UpdatePlan(
                rates[module_id],
                self._num_updates[module_id],
                self._targets_due(module_id, drawn.num_batches, num_new_steps[module_id]),
            )
            learned = self.learners.run(
                off_policy_update, drawn.with_columns(batch), module_id, type(self), plan
            )
            self._take_in(module_id, ids, learned)
            self._num_updates[module_id] += drawn.num_batches
            self.num_env_steps_trained += sum(drawn.num_rows)

    def _draws(self, num_new_steps: dict[str, int], beta: float) -> Iterator[tuple[str, Drawn]]:
        """Yield the draws that are due, of modules that are trained on them.

        Of what is sampled `policies_to_train` has been shown the rollouts, of data it is the draws.
        """
        for module_id, drawn in self.experience.draws(num_new_steps, beta):
            if not self.config.needs_env:
                if not self._choice({module_id: drawn.columns}):
                    self._left_out.add(module_id)
                    continue
                self._left_out.discard(module_id)
            yield module_id, drawn

    def _take_in(self, module_id: str, ids: Tensor, learned: Learned) -> None:
        """Set new priorities, and keep what is reported."""
        if learned.priorities is not None:
            if not learned.priorities.isfinite().all():
                for scalars in learned.scalars.tolist():  # so that a diverged run names the losses
                    named = zip(learned.names, scalars, strict=True)
                    self._check_finite({f"learner/{module_id}/{n}": v for n, v in named})
            priorities = learned.priorities.flatten()
            self.experience[module_id].update(ids, {"priorities": priorities})
        self._means[module_id].add(learned.names, learned.scalars)
        if learned.exploration:
            self.policies[module_id].set_exploration(**learned.exploration)

    def _targets_due(self, module_id: str, num_updates: int, num_new_steps: int) -> list[bool]:
        """Return which of so many updates are followed by a move of the targets.

        Args:
            module_id: Which module is trained.
            num_updates: Updates to come.
            num_new_steps: Environment steps of this round, which count where a round is an update.
        """
        units = num_new_steps if self._counts_steps else 1
        clock = self._target_clocks[module_id]
        return [clock.advance(units) > 0 for _ in range(num_updates)]

    def prepare(self, policy: Policy, batch: Batch) -> Batch:
        """Return what the loss needs of drawn rows `[B, …]`, for several batches at once.

        With a memory they are sequences `[T, B, …]`. Override to add columns, e.g. the noise that
        the loss uses.
        """
        columns = {
            name: column
            for name, column in batch.items()
            if name.partition("/")[0] not in ("obs", "next_obs")
        }
        columns |= tree_columns("features", policy.features(tree_of(batch, "obs")))
        if not policy.is_recurrent:
            columns |= tree_columns("next_features", policy.features(tree_of(batch, "next_obs")))
        return columns

    # ------------------------------------------------------------------ exploration

    def set_exploration(self) -> dict[str, float]:
        """Set what exploring means now, by the environment steps so far; metrics to report."""
        for module_id, policy in self.policies.items():
            policy.set_exploration(**self.exploration_of(module_id, self.num_env_steps))
        is_alone = len(self.policies) == 1
        return {
            f"exploration/{name}" if is_alone else f"exploration/{module_id}/{name}": float(value)
            for module_id, policy in self.policies.items()
            for name, value in policy.exploration.items()
            if name in ("scale", "stddev")
        }

    def exploration_of(self, module_id: str, num_env_steps: int) -> dict[str, Any]:
        """Return what schedules of a module's exploration say, see `exploration_at`."""
        values: dict[str, Any] = self._of_module(module_id, self.exploration_at, num_env_steps)
        return values

    def exploration_at(self, num_env_steps: int, module_id: str | None = None) -> dict[str, Any]:
        """Return what schedules of exploration say, as `Policy.set_exploration` takes it.

        Args:
            num_env_steps: Environment steps since the trial began.
            module_id: Of which module; None: by the settings of the algorithm alone.
        """
        resolved = self._resolved_of(module_id)
        if module_id is None:
            uniform = self.explores_uniformly(num_env_steps)
        else:
            uniform = self._of_module(module_id, self.explores_uniformly, num_env_steps)
        values: dict[str, Any] = {"uniform": uniform}
        if resolved.exploration.has_scale:
            scale = resolved.exploration.scale
            if resolved.explores_per_worker:
                # The trial's own policy explores as its env runners do on average.
                scale = per_worker_mean(self.config.num_env_runners)
            values["scale"] = self.scheduled(scale, num_env_steps)
        return values

    def explores_uniformly(self, num_env_steps: int, module_id: str | None = None) -> bool:
        """Tell whether actions are drawn uniformly after so many environment steps.

        Args:
            num_env_steps: Environment steps since the trial began.
            module_id: Of which module; None: by the settings of the algorithm alone.
        """
        exploring = self._resolved_of(module_id).exploration
        if exploring.type == "Random":
            return True
        return num_env_steps < (exploring.random_timesteps or 0)

    def sync_weights(self) -> None:
        """Give the env runners what has been learned since the last time."""
        has_filter = any(
            policy.observations.filter is not None for policy in self.policies.values()
        )
        if has_filter or self.num_updates > self._num_synced_updates:
            super().sync_weights()
            self._num_synced_updates = self.num_updates

    def iteration_is_full(self, elapsed: float, sampled: int, trained: int) -> bool:
        # The first result waits for an update of each module that has rows, so that no metric of
        # learning appears later.
        return (
            (self.num_updates > 0 or self._none_is_chosen)
            and super().iteration_is_full(elapsed, sampled, trained)
            and (self.iteration > 0 or self._all_have_learned)
        )

    @property
    def _all_have_learned(self) -> bool:
        """Whether every module that has rows, and is not left out, has made an update."""
        return all(
            self._num_updates[m] > 0 or store.num_steps == 0 or m in self._left_out
            for m, store in self.experience.items()
        )

    @property
    def _none_is_chosen(self) -> bool:
        """Whether `policies_to_train` leaves out every module."""
        return self._left_out >= self.experience.keys()

    def iteration_metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {"num_updates_lifetime": self.num_updates}
        for module_id, means in self._means.items():
            for name, value in means.take().items():
                metrics[f"learner/{module_id}/{name}"] = value
        metrics["replay/num_steps"] = self.experience.num_steps
        metrics["replay/memory_bytes"] = self.experience.nbytes
        return metrics

    # ------------------------------------------------------------------ state

    def get_learned_state(self) -> dict[str, Any]:
        return {
            "num_updates": to_store(self._num_updates),
            **self.experience.get_progress(),
            "target_clocks": {m: clock.get_state() for m, clock in self._target_clocks.items()},
            "means": {m: means.get_state() for m, means in self._means.items()},
        }

    def set_learned_state(self, state: dict[str, Any]) -> None:
        counts = from_store(state["num_updates"], self._num_updates)
        self._num_updates = {module_id: int(count) for module_id, count in counts.items()}
        self._num_synced_updates = 0  # else an older state's updates reached no env runner for long
        self.experience.set_progress(state)
        for module_id, means in self._means.items():
            self._target_clocks[module_id].set_state(state["target_clocks"][module_id])
            means.set_state(state["means"][module_id])

    def state_besides_policies(self) -> dict[str, Any]:
        state = super().state_besides_policies()
        # What does not grow is no part of it: its state says where its draws are.
        if self.config.store_buffer_in_checkpoints or not self.config.needs_env:
            state["replay"] = self.experience.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        if "replay" not in state and self.is_clone_of(state):
            raise ConfigError(
                "store_buffer_in_checkpoints = False: a clone of another trial (population-based "
                "training) would train on an empty replay buffer; set it to True"
            )
        if "replay" in state:
            self.experience.check_state(state["replay"])  # before anything is taken over
        super().set_state(state)
        if "replay" not in state:
            self.experience.refill(self._num_updates)
            logger.warning(
                "the checkpoint holds no replay buffer: training goes on after %d steps have "
                "refilled it (store_buffer_in_checkpoints=True keeps it)",
                self.config.num_steps_sampled_before_learning_starts,
            )
            return
        self.experience.set_state(state["replay"])
        if self.is_clone_of(state):
            self.experience.reseed(self.clone_streams().storage)
