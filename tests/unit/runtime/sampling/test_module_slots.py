"""`ModuleSlots`: which module acts in which slot, and how batches are parted and joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.sampling.module_slots import ModuleSlots, join_slots, of_slots


def by_slot(slot: int, worker_index: int) -> str:
    return "rest" if slot or worker_index > 1 else "first"


def of(slots: ModuleSlots, worker_index: int, num_slots: int) -> dict[str, list[int]]:
    return {m: own.tolist() for m, own in slots.of(worker_index, num_slots).items()}


def test_one_module_has_all_slots() -> None:
    assert of(ModuleSlots(), 3, 4) == {"default_policy": [0, 1, 2, 3]}
    assert of(ModuleSlots(["own"], lambda slot, index: "never called"), 0, 2) == {"own": [0, 1]}


def test_a_module_without_a_slot_is_missing() -> None:
    slots = ModuleSlots(["rest", "first"], by_slot)
    assert of(slots, 1, 3) == {"rest": [1, 2], "first": [0]}
    assert of(slots, 2, 3) == {"rest": [0, 1, 2]}
    assert of(slots, 1, 1) == {"first": [0]}


def test_the_slots_of_a_module_in_all_env_runners() -> None:
    slots = ModuleSlots(["rest", "first"], by_slot)
    config = PPOConfig(num_env_runners=3, num_envs_per_env_runner=4)
    assert (slots.num_slots(config, "first"), slots.num_slots(config, "rest")) == (1, 11)
    config = PPOConfig(num_envs_per_env_runner=4)
    assert (slots.num_slots(config, "first"), slots.num_slots(config, "rest")) == (1, 3)
    assert ModuleSlots().num_slots(config, "default_policy") == 4


def test_a_module_that_there_is_not() -> None:
    message = r"module_of_slot\(0, 1\) = 'first' is not allowed; allowed: 'rest', 'other'"
    with pytest.raises(ConfigError, match=message):
        ModuleSlots(["rest", "other"], by_slot).of(1, 2)


def test_what_is_parted_is_joined_again() -> None:
    slots_of = {"rest": np.array([4, 0, 2]), "first": np.array([1, 3])}
    batches: list[Any] = [
        np.arange(10).reshape(5, 2),
        {"a": np.arange(5.0), "b": {"c": np.ones((5, 2, 3), bool)}},
        (np.arange(5), {"d": np.arange(5, dtype=np.int8)}),
    ]
    for batch in batches:
        parts = {module_id: of_slots(batch, slots) for module_id, slots in slots_of.items()}
        joined = join_slots(parts, slots_of)
        assert repr(joined) == repr(batch)  # kinds of numbers, too
