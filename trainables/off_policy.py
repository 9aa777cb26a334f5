"""What algorithms share that learn from replayed experience: buffer, replay ratio, targets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np

from trainables.algorithm import Algorithm
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.per_worker import mean_value
from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.config.resolved import Resolved
from trainables.core.config.settings import Settings, setting
from trainables.core.data.batch import Batch, Rollout, tree_columns, tree_of
from trainables.core.data.per_module import from_store, to_store
from trainables.core.errors import ConfigError
from trainables.core.learning.clock import Clock, exact
from trainables.core.learning.learner import CompileOptions, LossFn
from trainables.core.learning.q_sequences import SequenceShape, q_sequences
from trainables.core.logs import is_debug, logger, shapes
from trainables.core.networks.state import state_arrays
from trainables.core.policy.explorers.parameter_noise import ParameterNoise
from trainables.core.policy.policy import Policy
from trainables.runtime.learners.group import LocalLearnerGroup
from trainables.runtime.metrics import TensorMeans
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.replay.state_store import StateLayout

_COMPILER = "a compiler that would be started"

# Batches that are drawn and gathered at once. More would save nothing, and priorities that one
# update changes are seen by the next draw only.
_BATCHES_AT_ONCE = 16
_BYTES_AT_ONCE = 256 * 2**20  # of observations and features
_MAX_IDLE_REFILLS = 3
_ADAPTATION_INTERVAL = 8  # updates; an adaptation costs about a third of one
_MAX_DRAWS = 100


@dataclass(frozen=True)
class ResolvedOffPolicy(Resolved):
    """What the settings of an algorithm with a replay buffer mean together.

    Attributes:
        replay: `replay_buffer_config` as an object.
        n_steps: Least and greatest number of steps of a return.
        sequence_length: Rows that a memory is trained on in one piece; 0 without one.
        sequences: What is drawn from the buffer instead of rows if the networks have a memory.
        num_sequences: Sequences of one gradient step.
        compile: What the `torch_compile_learner` settings say; None: losses are not compiled.
    """

    replay: ReplayBufferConfig
    n_steps: tuple[int, int]
    sequence_length: int
    sequences: SequenceShape | None
    num_sequences: int
    compile: CompileOptions | None


@dataclass(kw_only=True)
class OffPolicyConfig(AlgorithmConfig):
    """Settings of algorithms with a replay buffer."""

    without: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            ("num_epochs", "minibatch_size", "shuffle_batch_per_epoch"),
            "every update draws a batch of its own; training_intensity says how many there are",
        ),
        "max_requests_in_flight_per_env_runner": "it waits for one sample of every env runner",
    }
    model_defaults: ClassVar[dict[str, Any]] = {
        "fcnet_hiddens": [256, 256],
        "fcnet_activation": "relu",
        "fcnet_initializer": "default",
    }
    optimizer_defaults: ClassVar[dict[str, Any]] = {"eps": 1e-8}
    uses_logp: ClassVar[bool] = False
    one_learner: ClassVar[bool] = True

    replay_buffer_config: dict[str, Any] = setting(
        {}, "training", "the replay buffer, see ReplayBufferConfig"
    )
    store_buffer_in_checkpoints: bool = setting(
        False,
        "training",
        "checkpoints hold the replay buffer; without it a resumed run fills a new one first",
        fixed="it does not change how a trial learns",
    )
    num_steps_sampled_before_learning_starts: int = setting(
        1000,
        "training",
        "environment steps in the buffer before the first update",
        ge=0,
        fixed="it only counts at the start of a run",
    )
    training_intensity: float | None = setting(
        None,
        "training",
        "replayed steps per sampled step, i.e. batch size x updates per environment step; "
        "None: one update per sampling round, whatever its size",
        gt=0,
    )
    n_step: int | list[int] = setting(
        1,
        "training",
        "steps of the return, n, or [lo, hi] to draw it for each row; above 1 without correction "
        "for actions of older policies, and in SAC without the entropy of the steps in between",
        ge=1,
    )
    tau: float = setting(
        1.0, "training", "target' <- tau online + (1 - tau) target; 1 copies", ge=0, le=1
    )
    target_network_update_freq: int = setting(
        500,
        "training",
        "environment steps between target updates; 0: after every gradient step",
        ge=0,
    )
    torch_compile_learner: bool = setting(
        False,
        "framework",
        "compile the loss with torch.compile (needs a C++ compiler)",
        risk=_COMPILER,
    )
    torch_compile_learner_dynamo_backend: str = setting(
        "inductor", "framework", "backend of torch.compile", risk=_COMPILER
    )
    torch_compile_learner_dynamo_mode: str | None = setting(
        None, "framework", "mode of torch.compile, e.g. 'max-autotune'", risk=_COMPILER
    )
    # What differs from the base class by default.
    train_batch_size_per_learner: int = setting(
        256, "training", "transitions of one gradient step", ge=1
    )
    rollout_fragment_length: int | str = setting(
        "auto",
        "env_runners",
        "steps per slot and sample; 'auto': as few as make one update due",
        ge=1,
    )
    min_sample_timesteps_per_iteration: int | None = setting(
        1000, "reporting", "environment steps that train() samples at least", ge=0
    )

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        return {**super().nested_settings(), "replay_buffer_config": ReplayBufferConfig}

    def validate(self) -> None:
        super().validate()
        if self.num_learners:
            raise ConfigError(
                f"num_learners = {self.num_learners} is not possible with {self._algorithm()}: "
                "each gradient step draws from the replay buffer in the trial's own process, and "
                "new priorities must be back before the next draw; allowed: 0"
            )
        capacity = self.resolve().replay.capacity
        needed = (self.get_rollout_fragment_length() + 1) * self.num_slots
        if capacity < needed:
            raise ConfigError(
                f"replay_buffer_config: capacity = {capacity} cannot hold one sample of "
                f"{self.get_rollout_fragment_length()} steps of {self.num_slots} slots; allowed: "
                f"at least {needed}"
            )
        if self.num_steps_sampled_before_learning_starts > capacity:
            raise ConfigError(
                "num_steps_sampled_before_learning_starts = "
                f"{self.num_steps_sampled_before_learning_starts} is more than the capacity of "
                f"the replay buffer, {capacity} (replay_buffer_config)"
            )

        self._validate_memory()

    def _validate_memory(self) -> None:
        """What does not go with networks that are trained on sequences."""
        resolved = self.resolve()
        shape, replay = resolved.sequences, resolved.replay
        if shape is None:
            return
        if replay.prioritized:
            raise ConfigError(
                f"replay_buffer_config: type = {replay.type!r} is not possible with a memory "
                "(model): priorities are kept of single rows, and sequences are drawn uniformly; "
                "allowed: 'ReplayBuffer'"
            )
        if self.torch_compile_learner:
            raise ConfigError(
                "torch_compile_learner = True is not possible with a memory (model): its sequences "
                "are cut where episodes end, so every batch would be another program"
            )
        stride, capacity = resolved.sequence_length, replay.capacity
        needed = shape.num_rows + stride
        rows = capacity // self.num_slots // stride * stride
        if rows < needed:
            raise ConfigError(
                f"replay_buffer_config: capacity = {capacity} keeps {rows} rows for each of "
                f"{self.num_slots} slots; sequences need {needed} (max_seq_len, burn_in_len, "
                f"n_step): raise capacity to {-(-needed // stride) * stride * self.num_slots}"
            )

    def resolve(self) -> ResolvedOffPolicy:
        return self._resolved_as(ResolvedOffPolicy)

    def resolved_values(self) -> dict[str, Any]:
        values = super().resolved_values()
        length = values["state_stride"]
        low, high = self._n_steps()
        backend, mode = (
            self.torch_compile_learner_dynamo_backend,
            self.torch_compile_learner_dynamo_mode,
        )
        return {
            **values,
            "state_stride": int(length > 0),  # the buffer keeps those that it needs
            "replay": ReplayBufferConfig.of(self.replay_buffer_config),
            "n_steps": (low, high),
            "sequence_length": length,
            "sequences": self.sequence_shape(length, high),
            "num_sequences": max(1, self.train_batch_size_per_learner // max(1, length)),
            "compile": CompileOptions(backend, mode) if self.torch_compile_learner else None,
        }

    def sequence_shape(self, length: int, n_step: int) -> SequenceShape | None:
        """What is drawn from the buffer instead of rows if the networks have a memory.

        Args:
            length: Rows that it is trained on in one piece, 0 without one.
            n_step: Greatest number of steps of a return.
        """
        return None

    def _n_steps(self) -> tuple[int, int]:
        n_step = self.n_step
        if not isinstance(n_step, list):
            return n_step, n_step
        if not (len(n_step) == 2 and 1 <= n_step[0] <= n_step[1]):
            raise ConfigError(
                f"n_step = {n_step!r} is not allowed; allowed: int, >= 1, or [lo, hi] with "
                "1 <= lo <= hi"
            )
        return n_step[0], n_step[1]

    @property
    def updates_per_env_step(self) -> Fraction:
        """Gradient steps per environment step, exactly."""
        if self.training_intensity is None:
            return Fraction(1, self.get_rollout_fragment_length() * self.num_slots)
        resolved = self.resolve()
        rows = self.train_batch_size_per_learner
        if resolved.sequence_length:
            rows = resolved.num_sequences * resolved.sequence_length
        return exact(self.training_intensity) / rows

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        if self.training_intensity is None:
            return 1
        return max(1, ceil(1 / self.updates_per_env_step / self.num_slots))


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
    keeps_columns: ClassVar[bool] = True  # the replay buffer has rows of every slot

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        self.num_updates = 0
        self._num_synced_updates = 0
        self._resolved = self.config.resolve()
        self._exploring = self._resolved.exploration
        # The trial's own policy explores as its env runners do on average.
        self._scale = (
            mean_value(self.config.num_env_runners)
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
        """The loss of a module."""

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
        """The recurrent states that the buffer keeps: those before the sequences."""
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
        """A module's id and a batch for every gradient step that is due.

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
        """As many batches as are due, several of which are drawn at once."""
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
        """Sequences of which some row can be trained on, see `q_sequences`."""
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
        """What the loss needs of drawn rows `[B, …]`, for several batches at once.

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
        """One gradient step, then new priorities."""
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
        """Whether actions are drawn uniformly after so many environment steps."""
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
