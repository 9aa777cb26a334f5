"""Which module acts in which slot, and how what slots have is parted among modules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.errors import ConfigError

SlotsOf = Mapping[str, np.ndarray]
"""The slots of a vector environment by the id of the module that acts in them, each `[M]`."""


class ModuleSlots:
    """The mapping from the slots of env runners to modules. It travels to actors.

    Args:
        module_ids: The ids of all modules.
        module_of_slot: Gives the id of a slot's module, for the number of the slot, from 0, and
            the index of the env runner: 0 in process, and 1, 2, … for actors. One module has all
            slots, so that it is not called; None is for that.
    """

    def __init__(
        self,
        module_ids: Sequence[str] = (DEFAULT_MODULE_ID,),
        module_of_slot: Callable[[int, int], str] | None = None,
    ):
        self.module_ids = tuple(module_ids)
        self._module_of_slot = module_of_slot

    def of(self, worker_index: int, num_slots: int, first: int = 0) -> dict[str, np.ndarray]:
        """Return the slots of each module that has any in an env runner, in order of the modules.

        Args:
            worker_index: The index of the env runner.
            num_slots: Number of its slots.
            first: What the first slot counts as: an evaluation counts its episodes through, so that
                all modules play, however few slots are stepped together.

        Raises:
            ConfigError: if a slot's module is none of the modules.
        """
        if len(self.module_ids) == 1:
            return {self.module_ids[0]: np.arange(num_slots)}
        assert self._module_of_slot is not None
        slots: dict[str, list[int]] = {module_id: [] for module_id in self.module_ids}
        for slot in range(num_slots):
            number = first + slot
            module_id = self._module_of_slot(number, worker_index)
            if module_id not in slots:
                raise ConfigError(
                    f"module_of_slot({number}, {worker_index}) = {module_id!r} is not allowed; "
                    f"allowed: {', '.join(map(repr, self.module_ids))}"
                )
            slots[module_id].append(slot)
        return {module_id: np.array(own) for module_id, own in slots.items() if own}

    def num_slots(self, config: AlgorithmConfig, module_id: str) -> int:
        """Return how many slots of all env runners a module has in training."""
        indices = range(1, config.num_env_runners + 1) if config.num_env_runners else [0]
        each = [self.of(index, config.num_envs_per_env_runner) for index in indices]
        return sum(len(slots.get(module_id, ())) for slots in each)

    def check(self, config: AlgorithmConfig) -> None:
        """See that every module acts in a slot of training.

        Raises:
            ConfigError: naming one that does not.
        """
        for module_id in self.module_ids:
            if not self.num_slots(config, module_id):
                raise ConfigError(
                    f"the module {module_id!r} acts in none of {config.num_slots} slots; allowed: "
                    "more slots (num_envs_per_env_runner), or another module_of_slot"
                )

    def check_each_runner(self, config: AlgorithmConfig, module_ids: Iterable[str]) -> None:
        """See that modules act in a slot of each env runner.

        Args:
            config: The algorithm's config.
            module_ids: The modules that learn.

        Raises:
            ConfigError: naming a module and an env runner without.
        """
        for index in range(1, config.num_env_runners + 1):
            own = self.of(index, config.num_envs_per_env_runner)
            for module_id in module_ids:
                if module_id not in own:
                    raise ConfigError(
                        f"num_learners = {config.num_learners} is not possible where the module "
                        f"{module_id!r} acts in no slot of env runner {index}: a learner might get "
                        "no fragment of it; allowed: num_learners of at most 1, or a "
                        "module_of_slot that gives each env runner slots of every module"
                    )


def module_seeds(
    module_ids: Collection[str], seed: np.random.SeedSequence
) -> dict[str, np.random.SeedSequence]:
    """Return a seed for each module, e.g. of its exploration; one that is alone has this one."""
    if len(module_ids) == 1:
        return dict.fromkeys(module_ids, seed)
    return dict(zip(module_ids, seed.spawn(len(module_ids)), strict=True))


def of_slots(batch: Any, slots: np.ndarray) -> Any:
    """Return a batch's rows of some slots.

    Args:
        batch: An array `[N, …]`, or a tree of them in dicts and tuples.
        slots: The numbers of the slots, `[M]`.
    """
    if isinstance(batch, np.ndarray):
        return batch[slots]
    if isinstance(batch, Mapping):
        return {key: of_slots(part, slots) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(of_slots(part, slots) for part in batch)
    return np.asarray(batch)[slots]


def join_slots(batches: Mapping[str, Any], slots_of: SlotsOf) -> Any:
    """Return the batch of all slots: undoes `of_slots`.

    Args:
        batches: The batches of the modules, alike but for their number of rows.
        slots_of: The slots of the modules, all of them together.
    """
    first = next(iter(batches.values()))
    if len(batches) == 1:
        return first
    if isinstance(first, Mapping):
        return {
            key: join_slots({m: batch[key] for m, batch in batches.items()}, slots_of)
            for key in first
        }
    if isinstance(first, tuple):
        return tuple(
            join_slots({m: batch[index] for m, batch in batches.items()}, slots_of)
            for index in range(len(first))
        )
    num_slots = sum(len(slots_of[module_id]) for module_id in batches)
    joined = np.empty((num_slots, *first.shape[1:]), first.dtype)
    for module_id, batch in batches.items():
        joined[slots_of[module_id]] = batch
    return joined


class Acts(Protocol):
    """The interface of what acts in slots: a `SlotActor`, or several as one."""

    def observe(
        self,
        obs: Any,
        rewards: np.ndarray,
        is_first: np.ndarray,
        lengths: np.ndarray,
        *,
        slots: np.ndarray | None = None,
    ) -> None:
        """Take note of what the environment shows; see `SlotActor.observe`."""

    def act(
        self, resets_next: np.ndarray, lengths: np.ndarray, slots: np.ndarray | None = None
    ) -> Any:
        """Return actions for the environment, of all slots; see `SlotActor.act`."""


class SlotActors:
    """Acts as one `SlotActor` does: each slot's row goes to its module, and its action comes back.

    Args:
        actors: What acts in the slots of each module, by module id.
        slots: The numbers of each module's slots, `[M]` by module id; all together they are all.
    """

    def __init__(self, actors: Mapping[str, Acts], slots: SlotsOf):
        self._actors, self._slots = dict(actors), slots

    def observe(
        self,
        obs: Any,
        rewards: np.ndarray,
        is_first: np.ndarray,
        lengths: np.ndarray,
        *,
        slots: np.ndarray | None = None,
    ) -> None:
        """Have each module take note of its slots; see `SlotActor.observe`."""
        for module_id, actor in self._actors.items():
            mine = self._slots[module_id]
            actor.observe(
                of_slots(obs, mine),
                rewards[mine],
                is_first[mine],
                lengths[mine],
                slots=None if slots is None else slots[mine],
            )

    def act(
        self, resets_next: np.ndarray, lengths: np.ndarray, slots: np.ndarray | None = None
    ) -> Any:
        """Return the actions of all modules, in the order of the slots; see `SlotActor.act`."""
        actions = {}
        for module_id, actor in self._actors.items():
            mine = self._slots[module_id]
            asked = None if slots is None else slots[mine]
            actions[module_id] = actor.act(resets_next[mine], lengths[mine], asked)
        return join_slots(actions, self._slots)


def together(actors: Mapping[str, Acts], slots: SlotsOf) -> Acts:
    """Return what acts in all slots of an environment: the only actor itself, or all as one.

    Args:
        actors: What acts in the slots of each module, by module id.
        slots: The numbers of each module's slots, `[M]` by module id.
    """
    if len(actors) == 1:  # there is nothing to be gathered
        return next(iter(actors.values()))
    return SlotActors(actors, slots)
