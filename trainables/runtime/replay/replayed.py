"""`Replayed`: the experience of every module, and the draws of it that are due."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from trainables.core.config.off_policy import OffPolicyConfig, ResolvedOffPolicy
from trainables.core.config.policies import config_of_module
from trainables.core.config.resolved import SequenceShape
from trainables.core.data.batch import Batch, Rollout
from trainables.core.data.stored import from_store, to_store
from trainables.core.errors import ConfigError
from trainables.core.learning.drawn import Drawn, sequence_axis
from trainables.core.learning.schedules import Clock
from trainables.runtime.replay.experience import Experience, GrowingExperience

# Batches that are drawn and gathered at once. More would save nothing, and priorities that one
# update changes are seen by the next draw only.
_BATCHES_AT_ONCE = 16
_BYTES_AT_ONCE = 256 * 2**20  # of observations and features
# The same of data alone: of rows as wide as images one batch at a time is as fast.
_DATA_BYTES_AT_ONCE = 32 * 2**20
_MAX_IDLE_REFILLS = 3
_MAX_DRAWS = 100
_BY_MODULE = [
    "_stores",
    "_configs",
    "_resolved",
    "_clocks",
    "_batches_at_once",
    "_refills",
    "_sampled",
]


class Replayed(Mapping[str, Experience]):
    """Experience by module id.

    Args:
        config: The algorithm's config; a module's draws are made by its own.
        stores: The experience of each module.
        row_bytes: Bytes of the widest observation and its features.

    Raises:
        ConfigError: without an environment, for experience that nothing can be drawn from.
    """

    def __init__(
        self,
        config: OffPolicyConfig,
        stores: Mapping[str, Experience],
        row_bytes: int,
    ):
        self._config, self._stores = config, dict(stores)
        configs = {m: config_of_module(config, m) for m in self._stores}
        self._configs: dict[str, OffPolicyConfig] = configs
        self._resolved: dict[str, ResolvedOffPolicy] = {m: c.resolve() for m, c in configs.items()}
        # By rounds: an update for each, whatever is sampled in it.
        self._by_rounds = config.replay_ratio is None
        self._clocks = {m: Clock(own.updates_per_env_step) for m, own in configs.items()}
        self._batches_at_once = {m: self._most_at_once(m, row_bytes) for m in self._stores}
        # Steps that a module has waited for its first update, since it had no rows.
        self._sampled = {m: store.num_added for m, store in self._stores.items()}
        # By module id, the updates at its last refill, and how many in a row none came between.
        self._refills: dict[str, list[int]] = {m: [-1, 0] for m in self._stores}
        if not config.needs_env:
            self._check_sources()

    def change(
        self,
        config: OffPolicyConfig,
        added: Mapping[str, Experience],
        gone: Collection[str],
        row_bytes: int,
    ) -> None:
        """Go on with the experience of other modules.

        Args:
            config: The algorithm's config.
            added: The experience of modules that are new.
            gone: The ids of those that are no more.
            row_bytes: Bytes of the widest observation and its features.
        """
        new = Replayed(config, added, row_bytes)
        self._config = config
        for name in _BY_MODULE:
            values = getattr(self, name)
            for module_id in gone:
                values.pop(module_id, None)
            values.update(getattr(new, name))

    def _most_at_once(self, module_id: str, row_bytes: int) -> int:
        """Return how many batches of a module are drawn at once at most."""
        resolved, rows = self._resolved[module_id], self._config.total_train_batch_size
        if resolved.sequences is not None:
            rows = resolved.num_sequences * (resolved.sequences.num_rows + 1)
        at_once = _BYTES_AT_ONCE if self._config.needs_env else _DATA_BYTES_AT_ONCE
        return max(1, min(_BATCHES_AT_ONCE, at_once // (2 * rows * row_bytes)))

    def _check_sources(self) -> None:
        """Refuse what nothing can be drawn from: it does not grow, so no update would come."""
        for module_id, store in self._stores.items():
            shape = self._resolved[module_id].sequences
            if store.num_steps < 1:
                raise ConfigError(
                    f"make_experience({module_id!r}) gives no rows to learn from, and training "
                    "steps no environment that would add some"
                )
            if shape is not None and store.num_sequences(shape.num_rows) < 1:
                raise ConfigError(
                    f"make_experience({module_id!r}) gives no sequence of {shape.num_rows} rows, "
                    "which networks with a memory are trained on (max_seq_len, burn_in_len, n_step)"
                )

    def __getitem__(self, module_id: str) -> Experience:
        return self._stores[module_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stores)

    def __len__(self) -> int:
        return len(self._stores)

    @property
    def num_steps(self) -> int:
        """Rows that can be drawn."""
        return sum(store.num_steps for store in self._stores.values())

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return sum(store.nbytes for store in self._stores.values())

    def add(
        self, rollouts: Mapping[str, Rollout], num_sampled: int | None = None
    ) -> dict[str, int]:
        """Store what was sampled.

        Args:
            rollouts: By module id.
            num_sampled: The steps of the sample, which all modules wait for; None: each waits for
                rows of its own.

        Returns:
            How many of the steps updates are due for, by module id: none of those that only fill
            the store, which are not made up for later.
        """
        starts = self._config.num_steps_sampled_before_learning_starts
        whole_episodes = self._config.batch_mode == "complete_episodes"
        num_new_steps = {}
        for module_id, store in self._stores.items():
            before, rollout = store.num_added, rollouts.get(module_id)
            if rollout is None:
                self._sampled[module_id] += num_sampled or 0
                continue
            growing: GrowingExperience = store  # type: ignore[assignment]  # who samples has these
            if whole_episodes:
                growing.add_episodes(rollout)
            else:
                growing.add(rollout)
            num_rows = store.num_added - before
            steps = num_rows if num_sampled is None else num_sampled
            self._sampled[module_id] += steps
            beyond = min(steps, max(0, self._sampled[module_id] - starts))
            num_new_steps[module_id] = num_rows * beyond // max(1, steps)
        return num_new_steps

    def is_enough(self, module_id: str) -> bool:
        """Tell whether a module has enough to learn from."""
        if not self._config.needs_env:
            return True  # it does not grow: what nothing can be drawn from was refused
        starts = self._config.num_steps_sampled_before_learning_starts
        store, shape = self._stores[module_id], self._resolved[module_id].sequences
        is_due = store.num_added > 0 and self._sampled[module_id] >= starts
        return is_due and (shape is None or store.num_sequences(shape.num_rows) > 0)

    def draws(self, num_new_steps: Mapping[str, int], beta: float) -> Iterator[tuple[str, Drawn]]:
        """Yield a module's id and the batches of updates that are due, several at once.

        What an update changes, as priorities, is seen by draws after it.

        Args:
            num_new_steps: What `add` returned.
            beta: Exponent of the importance weights.
        """
        for module_id, num_steps in num_new_steps.items():
            due = self._updates_due(module_id, num_steps)
            while due:
                count = min(due, self._batches_at_once[module_id])
                due -= count
                yield module_id, self.draw(module_id, count, beta)

    def _updates_due(self, module_id: str, num_new_steps: int) -> int:
        if not self.is_enough(module_id):
            return 0
        if not self._config.needs_env:
            return self._config.dataset_num_iters_per_learner or 1
        return 1 if self._by_rounds else self._clocks[module_id].advance(num_new_steps)

    def draw(self, module_id: str, num_batches: int, beta: float) -> Drawn:
        """Return so many batches of a module: of rows, or with a memory of sequences."""
        config, resolved = self._configs[module_id], self._resolved[module_id]
        shape, store = resolved.sequences, self._stores[module_id]
        if shape is None:
            size, steps = config.total_train_batch_size, resolved.n_steps
            columns = store.sample(size, num_batches, gamma=config.gamma, n_step=steps, beta=beta)
            return Drawn(columns, [size] * num_batches)
        drawn = [self._sequences(module_id, shape) for _ in range(num_batches)]
        columns = drawn[0][0]
        if num_batches > 1:
            columns = {
                name: torch.cat([batch[name] for batch, _ in drawn], sequence_axis(name))
                for name in columns
            }
        return Drawn(columns, [num_rows for _, num_rows in drawn], are_sequences=True)

    def _sequences(self, module_id: str, shape: SequenceShape) -> tuple[Batch, int]:
        """Return sequences of which some row can be trained on, and how many of their rows can."""
        store, resolved = self._stores[module_id], self._resolved[module_id]
        steps: Any = resolved.n_steps
        trained = slice(shape.burn_in, shape.burn_in + shape.length)
        for _ in range(_MAX_DRAWS):
            drawn = store.sample_sequences(resolved.num_sequences, shape.num_rows, n_step=steps)
            count = int(drawn["valid"][trained].sum())
            if count:
                return drawn, count
        raise ConfigError(
            f"no sequence of {shape.length} rows in the replay buffer holds a step to train on: "
            "raise max_seq_len (model) or replay_buffer_config: capacity"
        )

    # ------------------------------------------------------------------ state

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draw from other random streams from now on."""
        children = seed.spawn(len(self._stores))
        for store, child in zip(self._stores.values(), children, strict=True):
            store.reseed(child)

    def refill(self, num_updates: Mapping[str, int]) -> None:
        """Start with nothing stored; refuse to do so again and again without an update between.

        That is what a scheduler does to a trial that it pauses (HyperBand, or population-based
        training with more trials than fit): it would sample for ever and learn nothing.

        Args:
            num_updates: Gradient steps so far by module id.

        Raises:
            ConfigError: naming what to set.
        """
        for module_id, (before, idle) in self._refills.items():
            idle = idle + 1 if num_updates[module_id] == before else 0
            self._refills[module_id] = [num_updates[module_id], idle]
        idle = min(idle for _, idle in self._refills.values())  # some modules may get no rows
        if idle >= _MAX_IDLE_REFILLS:
            raise ConfigError(
                f"store_buffer_in_checkpoints = False: this run was restored {idle + 1} times "
                "before its replay buffer was full enough for an update, as by a scheduler "
                "that pauses trials; set it to True"
            )
        for module_id, store in self._stores.items():
            store.clear()
            self._sampled[module_id] = store.num_added

    def get_progress(self) -> dict[str, Any]:
        """Return how far updates are, which is small and belongs to every checkpoint."""
        return {
            "refills": to_store(self._refills),
            "sampled": to_store(self._sampled),
            "update_clock": to_store({m: clock.get_state() for m, clock in self._clocks.items()}),
        }

    def set_progress(self, state: Mapping[str, Any]) -> None:
        """Take over `get_progress`'s."""
        refills = from_store(state["refills"], self._stores)
        self._refills = {module_id: list(pair) for module_id, pair in refills.items()}
        unknown = to_store(dict.fromkeys(self._stores, -1))
        sampled = from_store(state.get("sampled", unknown), self._stores)
        self._sampled = {module_id: int(count) for module_id, count in sampled.items()}
        for module_id, clock in from_store(state["update_clock"], self._stores).items():
            self._clocks[module_id].set_state(clock)

    def get_state(self) -> dict[str, Any]:
        """Return a copy of what is stored, by module id."""
        return {module_id: store.get_state() for module_id, store in self._stores.items()}

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise what `set_state` would raise, and change nothing."""
        for module_id, store in self._stores.items():
            store.check_state(state[module_id])

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: if something does not fit.
        """
        for module_id, store in self._stores.items():
            store.set_state(state[module_id])
            if self._sampled[module_id] < 0:  # of a checkpoint that does not say
                self._sampled[module_id] = store.num_added
