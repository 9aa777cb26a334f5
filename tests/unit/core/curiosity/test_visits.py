"""How often each state of a Discrete space was learned from."""

from __future__ import annotations

from collections import Counter

import gymnasium as gym
import torch
from every_row import check_rows
from gymnasium import spaces
from thread_ranks import on_ranks
from torch import Tensor
from torch.nn.functional import one_hot

from trainables.core.curiosity.seen import MOST_STATES, StateVisits, visits_of
from trainables.core.data.features import ACTION_MASK, VECTOR
from trainables.core.learning.ranks import ALONE, Ranks

STATES = torch.randint(0, 5, (60,), generator=torch.Generator().manual_seed(0))
ROWS = one_hot(STATES, 7).float()  # two states that are never seen


def test_states_are_counted() -> None:
    visits, counted = StateVisits(7), Counter[int]()
    assert visits.num_states == 0
    for own in (slice(0, 2), slice(2, 2), slice(2, 60)):
        visits.update(ROWS[own], ALONE)
        counted.update(STATES[own].tolist())
        assert visits.counts.tolist() == [counted[state] for state in range(7)]
        assert visits.num_states == len(counted)
    assert len(counted) == 5


def test_a_mask_beside_them_is_passed_over() -> None:
    visits = StateVisits(7)
    visits.update({VECTOR: ROWS, ACTION_MASK: torch.ones(60, 9, dtype=torch.bool)}, ALONE)
    assert visits.counts.tolist() == [STATES.tolist().count(state) for state in range(7)]


def test_ranks_count_together() -> None:
    def counts_on(ranks: Ranks) -> Tensor:
        visits = StateVisits(7)
        for own in ((ROWS[:0], ROWS[:13]), (ROWS[13:50], ROWS[50:])):
            visits.update(own[ranks.rank], ranks)
        return visits.counts

    for counts in on_ranks(2, counts_on):
        assert counts.tolist() == [STATES.tolist().count(state) for state in range(7)]


def test_only_small_discrete_spaces_have_counters() -> None:
    def check(space: gym.Space, expected: int | None) -> None:
        visits = visits_of(space)
        assert (None if visits is None else len(visits.counts)) == expected

    rows = [
        (spaces.Discrete(16), 16),
        (spaces.Discrete(16, start=-3), 16),
        (spaces.Discrete(MOST_STATES), MOST_STATES),
        (spaces.Discrete(MOST_STATES + 1), None),
        (spaces.MultiDiscrete([2, 3]), None),
        (spaces.Box(0, 1, (3,)), None),
        (spaces.Dict({"a": spaces.Discrete(3)}), None),
    ]
    check_rows(check, rows)
