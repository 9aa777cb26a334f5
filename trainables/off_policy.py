"""What algorithms share that learn from replayed experience: buffer, replay ratio, targets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from trainables.algorithm import Algorithm
from trainables.core.config.exploration import per_worker_mean
from trainables.core.config.off_policy import OffPolicyConfig
from trainables.core.config.resolved import SequenceShape
from trainables.core.data.batch import Batch, Rollout, tree_columns, tree_of
from trainables.core.data.per_module import from_store, to_store
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import LossFn
from trainables.core.learning.q_sequences import q_sequences
from trainables.core.learning.schedules import Clock
from trainables.core.logs import is_debug, logger, shapes
from trainables.core.networks.state import state_arrays
from trainables.core.policy.explorers import ParameterNoise
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import (
    Reported,
    learned,
)
from trainables.runtime.learners.group import LocalLearnerGroup
from trainables.runtime.metrics import TensorMeans
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.replay.stores import StateLayout

# Batches that are drawn and gathered at once. More would save nothing, and priorities that one
# update changes are seen by the next draw only.
_BATCHES_AT_ONCE = 16
_BYTES_AT_ONCE = 256 * 2**20  # of observations and features
_MAX_IDLE_REFILLS = 3
_ADAPTATION_INTERVAL = 8  # updates; an adaptation costs about a third of one
_MAX_DRAWS = 100


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


class OffPolicy(Algorithm):
    """Part of DQN, SAC and what extends them: experience is stored, drawn and learned from.

    A subclass writes `training_step` with `remember`, `replayed`, `learn` and `update_targets`, and
    makes its losses in `make_loss`. It may also override `prepare`, which adds columns to what is
    drawn, and `explores_uniformly`.

    Attributes:
        replays: Replay buffers by module id.
        num_updates: Gradient steps so far.
        learners: In this process, see `one_learner`: priorities must be back before the next draw.
    """

    config_class = OffPolicyConfig
    config: OffPolicyConfig
    learners: LocalLearnerGroup
    reported_metrics: ClassVar[tuple[Reported, ...]] = (
        Reported("num_updates_lifetime", "", "gradient steps so far"),
        Reported("replay/num_steps", "env steps", "in the replay buffer"),
        Reported("replay/memory_bytes", "bytes", "that the replay buffer has allocated"),
    )
    keeps_columns: ClassVar[bool] = True  # the replay buffer has rows of every slot

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        self.num_updates = 0
        self._num_synced_updates = 0
        self._resolved = self.config.resolve()
        self._exploring = self._resolved.exploration
        # The trial's own policy explores as its env runners do on average.
        self._scale = (
            per_worker_mean(self.config.num_env_runners)
            if self._resolved.explores_per_worker
            else self._exploring.scale
        )
        self._updates_at_refill, self._num_idle_refills = -1, 0
        self._make_replays(seed)
        batch_bytes = 2 * self.config.train_batch_size_per_learner * self._row_bytes
        self._batches_at_once = max(1, min(_BATCHES_AT_ONCE, _BYTES_AT_ONCE // batch_bytes))
        rate = self.config.updates_per_env_step
        self._update_clocks = {m: Clock(rate) for m in self.policies}
        # Counted in updates, so that it does not depend on how many slots are sampled at once.
        frequency = self.config.target_network_update_freq
        target_rate = 1 / (rate * frequency) if frequency else Fraction(1)
        if frequency and self.config.training_intensity is None:
            target_rate = Fraction(1, frequency)  # for each environment step of the round
        self._target_clocks = {m: Clock(target_rate) for m in self.policies}
        self._losses = {m: self.make_loss(m) for m in self.policies}
        self._means = {m: TensorMeans() for m in self.policies}

    @property
    def _row_bytes(self) -> int:
        """Bytes of the widest observation and its features; images are both in one."""
        return max(
            policy.observations.num_frames * policy.observations.layout.nbytes
            + 4 * policy.observations.preprocessor.num_features
            for policy in self.policies.values()
        )

    @abstractmethod
    def make_loss(self, module_id: str) -> LossFn:
        """Return the loss of a module."""

    def _reseed_replay(self, seed: np.random.SeedSequence) -> None:
        children = seed.spawn(len(self.replays))
        for replay, child in zip(self.replays.values(), children, strict=True):
            replay.reseed(child)

    def _make_replays(self, seed: np.random.SeedSequence) -> None:
        self.replays = {
            module_id: ReplayBuffer(
                self._resolved.replay,
                policy.observations.layout,
                policy.distribution.action_shape,
                policy.distribution.action_dtype,
                self.config.num_slots,
                child,
                policy.observations.num_frames,
                self._state_layout(policy),
            )
            for (module_id, policy), child in zip(
                self.policies.items(), seed.spawn(len(self.policies)), strict=True
            )
        }

    def _state_layout(self, policy: Policy) -> StateLayout | None:
        """Return the recurrent states that the buffer keeps: those before the sequences."""
        if not policy.is_recurrent:
            return None
        fields = state_arrays(policy.module.initial_state(1))  # frames are in the rows before
        return StateLayout(
            self._resolved.sequence_length,
            {name: (part.shape[1:], part.dtype) for name, part in fields.items()},
        )

    # ------------------------------------------------------------------ experience

    def remember(self, rollouts: dict[str, Rollout]) -> dict[str, int]:
        """Store what was sampled.

        Returns:
            How many of the steps updates are due for, by module id: none of those that only fill
            the buffer, which are not made up for later.
        """
        starts = self.config.num_steps_sampled_before_learning_starts
        num_new_steps = {}
        for module_id, rollout in rollouts.items():
            replay = self.replays[module_id]
            before = max(starts, replay.num_added)
            if self.config.batch_mode == "complete_episodes":
                replay.add_episodes(rollout)
            else:
                replay.add(rollout)
            num_new_steps[module_id] = max(0, replay.num_added - before)
        return num_new_steps

    @property
    def learning_has_started(self) -> bool:
        """Whether the buffers hold enough to learn from."""
        starts = self.config.num_steps_sampled_before_learning_starts
        shape = self._resolved.sequences
        return all(
            replay.num_added >= max(1, starts)
            and (shape is None or replay.num_sequences(shape.num_rows) > 0)
            for replay in self.replays.values()
        )

    def replayed(self, num_new_steps: dict[str, int]) -> Iterator[tuple[str, Batch]]:
        """Yield a module's id and a batch for every gradient step that is due.

        Args:
            num_new_steps: What `remember` returned.
        """
        shape = self._resolved.sequences
        for module_id, num_steps in num_new_steps.items():
            due = self._updates_due(module_id, num_steps)
            if shape is None:
                for batch in self._drawn_rows(module_id, due):
                    yield module_id, batch
            else:
                for _ in range(due):
                    yield module_id, self._drawn_sequences(module_id, shape)

    def _drawn_rows(self, module_id: str, due: int) -> Iterator[Batch]:
        """Yield as many batches as are due, several of which are drawn at once."""
        config, replay = self.config, self.replays[module_id]
        size = config.train_batch_size_per_learner
        beta = self.scheduled(self._resolved.replay.beta)
        while due:
            count = min(due, self._batches_at_once)
            due -= count
            drawn = replay.sample(
                size, count, gamma=config.gamma, n_step=self._resolved.n_steps, beta=beta
            )
            batch = self.prepare(self.policies[module_id], drawn)
            if is_debug():
                logger.debug("%d updates with rows of %s", count, shapes(batch))
            if count == 1:
                yield batch
                continue
            columns = {name: column.split(size) for name, column in batch.items()}
            for i in range(count):
                yield {name: parts[i] for name, parts in columns.items()}

    def _drawn_sequences(self, module_id: str, shape: SequenceShape) -> Batch:
        """Return sequences of which some row can be trained on, see `q_sequences`."""
        config, policy = self.config, self.policies[module_id]
        for _ in range(_MAX_DRAWS):
            drawn = self.replays[module_id].sample_sequences(
                self._resolved.num_sequences, shape.num_rows, n_step=self._resolved.n_steps
            )
            if drawn["valid"][shape.burn_in : shape.burn_in + shape.length].any():
                break
        else:
            raise ConfigError(
                f"no sequence of {shape.length} rows in the replay buffer holds a step to train "
                "on: raise max_seq_len (model) or replay_buffer_config: capacity"
            )
        features = policy.features(tree_of(drawn, "obs"))
        batch = q_sequences(drawn, features, shape, config.gamma)
        return {name: column.to(policy.device) for name, column in batch.items()}

    def _updates_due(self, module_id: str, num_new_steps: int) -> int:
        if not self.learning_has_started:
            return 0
        if self.config.training_intensity is None:
            return 1
        return self._update_clocks[module_id].advance(num_new_steps)

    def prepare(self, policy: Policy, batch: Batch) -> Batch:
        """Return what the loss needs of drawn rows `[B, …]`, for several batches at once.

        Override to add columns, e.g. the noise that the loss uses.
        """
        device = policy.device
        columns = {
            name: column.to(device)
            for name, column in batch.items()
            if name.partition("/")[0] not in ("obs", "next_obs")
        }
        columns |= tree_columns("features", policy.features(tree_of(batch, "obs")))
        columns |= tree_columns("next_features", policy.features(tree_of(batch, "next_obs")))
        return columns

    # ------------------------------------------------------------------ learning

    def learn(self, module_id: str, batch: Batch) -> None:
        """Take one gradient step, then set new priorities."""
        ids = batch.pop("ids")
        metrics = self.learners[module_id].update_step(batch, self._losses[module_id])
        priorities = metrics.pop("priorities")
        if self._resolved.replay.prioritized:
            # On the CPU anyway, so that a diverged run ends here with the losses named.
            new = priorities.cpu()
            if not new.isfinite().all():
                self._check_finite(
                    {f"learner/{module_id}/{n}": v.item() for n, v in metrics.items()}
                )
            self.replays[module_id].update(ids.cpu(), {"priorities": new})
        self._means[module_id].add(metrics)
        self._adapt_exploration(module_id, batch)
        self.num_updates += 1
        self.num_env_steps_trained += len(ids)

    def set_exploration(self) -> dict[str, float]:
        """Set what exploring means now, by the environment steps so far; metrics to report."""
        values = self.exploration_at(self.num_env_steps_sampled)
        for policy in self.policies.values():
            policy.set_exploration(**values)
        shown = self.get_policy().exploration
        return {f"exploration/{n}": float(shown[n]) for n in ("scale", "stddev") if n in shown}

    def exploration_at(self, num_env_steps: int) -> dict[str, Any]:
        values: dict[str, Any] = {"uniform": self.explores_uniformly(num_env_steps)}
        if self._exploring.has_scale:
            values["scale"] = self.scheduled(self._scale, num_env_steps)
        return values

    def explores_uniformly(self, num_env_steps: int) -> bool:
        """Tell whether actions are drawn uniformly after so many environment steps."""
        if self._exploring.type == "Random":
            return True
        return num_env_steps < (self._exploring.random_timesteps or 0)

    def _adapt_exploration(self, module_id: str, batch: Batch) -> None:
        """Steer the noise on parameters by what it does to actions on replayed observations."""
        policy = self.policies[module_id]
        if not isinstance(policy.explorer, ParameterNoise):
            return
        if self.num_updates % _ADAPTATION_INTERVAL == 0:
            stddev = policy.explorer.adapted(
                policy.module, tree_of(batch, "features"), self.learners.generator
            )
            policy.set_exploration(stddev=stddev)

    def sync_weights(self) -> None:
        """Give the env runners what has been learned since the last time."""
        has_filter = any(
            policy.observations.filter is not None for policy in self.policies.values()
        )
        if has_filter or self.num_updates > self._num_synced_updates:
            super().sync_weights()
            self._num_synced_updates = self.num_updates

    def iteration_is_full(self, elapsed: float, sampled: int, trained: int) -> bool:
        # The first result waits for an update, so that no metric of learning appears later.
        return self.num_updates > 0 and super().iteration_is_full(elapsed, sampled, trained)

    def update_targets(self, module_id: str, num_new_steps: int) -> None:
        """Move a module's targets where it is due, after each gradient step.

        Args:
            module_id: Which module was trained.
            num_new_steps: Environment steps of this round, which count where a round is an update.
        """
        is_natural = self.config.training_intensity is None
        if not self._target_clocks[module_id].advance(num_new_steps if is_natural else 1):
            return
        learner = self.learners[module_id]
        for name in learner.targets:
            learner.update_target(name, self.config.tau)

    def iteration_metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {"num_updates_lifetime": self.num_updates}
        for module_id, means in self._means.items():
            for name, value in means.take().items():
                metrics[f"learner/{module_id}/{name}"] = value
        metrics["replay/num_steps"] = sum(r.num_steps for r in self.replays.values())
        metrics["replay/memory_bytes"] = sum(r.nbytes for r in self.replays.values())
        return metrics

    # ------------------------------------------------------------------ state

    def get_learned_state(self) -> dict[str, Any]:
        return {
            "num_updates": self.num_updates,
            "refills": [self._updates_at_refill, self._num_idle_refills],
            "update_clock": to_store({m: c.get_state() for m, c in self._update_clocks.items()}),
            "target_clocks": {m: clock.get_state() for m, clock in self._target_clocks.items()},
            "means": {m: means.get_state() for m, means in self._means.items()},
        }

    def set_learned_state(self, state: dict[str, Any]) -> None:
        self.num_updates = int(state["num_updates"])
        self._updates_at_refill, self._num_idle_refills = state["refills"]
        for module_id, clock in from_store(state["update_clock"], self.policies).items():
            self._update_clocks[module_id].set_state(clock)
        for module_id, means in self._means.items():
            self._target_clocks[module_id].set_state(state["target_clocks"][module_id])
            means.set_state(state["means"][module_id])

    def state_besides_policies(self) -> dict[str, Any]:
        state = super().state_besides_policies()
        if self.config.store_buffer_in_checkpoints:
            state["replay"] = {m: replay.get_state() for m, replay in self.replays.items()}
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        if "replay" not in state and self._is_clone_of(state):
            raise ConfigError(
                "store_buffer_in_checkpoints = False: a clone of another trial (population-based "
                "training) would train on an empty replay buffer; set it to True"
            )
        for module_id, replay in self.replays.items():
            if "replay" in state:
                replay.check_state(state["replay"][module_id])  # before anything is taken over
        super().set_state(state)
        if "replay" in state:
            for module_id, replay in self.replays.items():
                replay.set_state(state["replay"][module_id])
            if self._is_clone_of(state):
                self._reseed_replay(self._clone_streams().storage)
            return
        self._refill()

    def _refill(self) -> None:
        """Start with an empty buffer; refuse to do so again and again without an update between.

        That is what a scheduler does to a trial that it pauses (HyperBand, or population-based
        training with more trials than fit): it would sample for ever and learn nothing.
        """
        learned_nothing = self.num_updates == self._updates_at_refill
        self._num_idle_refills = self._num_idle_refills + 1 if learned_nothing else 0
        self._updates_at_refill = self.num_updates
        if self._num_idle_refills >= _MAX_IDLE_REFILLS:
            raise ConfigError(
                "store_buffer_in_checkpoints = False: this run was restored "
                f"{self._num_idle_refills + 1} times before its replay buffer was full enough for "
                "an update, as by a scheduler that pauses trials; set it to True"
            )
        for replay in self.replays.values():
            replay.clear()
        logger.warning(
            "the checkpoint holds no replay buffer: training goes on after %d steps have refilled "
            "it (store_buffer_in_checkpoints=True keeps it)",
            self.config.num_steps_sampled_before_learning_starts,
        )
