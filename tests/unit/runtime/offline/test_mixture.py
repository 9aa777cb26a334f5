"""Mixtures: exact shares, rows that find their way back, draws that go on to the bit."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from offline_cases import as_buffer, as_rollout, make_policy_of
from offline_fakes import CARTPOLE, FakeSource, random_episodes

from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.mixture import Mixture
from trainables.runtime.offline.offline_data import OfflineData

GAMMA = 0.9
FIRST = 1 << 48  # of the ids of the second part


class Part:
    """Gives rows of its own number, and remembers what comes back."""

    num_steps, num_added, nbytes = 10, 0, 3

    def __init__(self, number: int):
        self.number, self.drawn, self.updated = number, 0, []  # type: ignore[var-annotated]

    def sample(self, batch_size: int, num_batches: int = 1, **options: Any) -> Batch:
        ids = torch.arange(self.drawn, self.drawn + batch_size * num_batches)
        self.drawn += len(ids)
        return {"ids": ids, "part": torch.full_like(ids, self.number)}

    def num_sequences(self, length: int) -> int:
        return self.number * 5 if length < 9 else 0

    def sample_sequences(self, batch_size: int, length: int, **options: Any) -> Batch:
        ids = torch.arange(batch_size).expand(length, -1)
        state = torch.full((batch_size, 2), float(self.number))
        return {"ids": ids, "part": torch.full_like(ids, self.number), "state/h": state}

    def update(self, ids: torch.Tensor, columns: Batch) -> None:
        self.updated.append((ids.tolist(), columns["x"].tolist()))

    def clear(self) -> None:
        self.drawn = 0


def mixture_of(shares: list[float]) -> Mixture:
    parts: Any = {str(number): Part(number) for number in range(len(shares))}
    return Mixture(parts, dict(zip(parts, shares, strict=True)))


def counts_of(part: torch.Tensor, num_parts: int) -> np.ndarray:
    return np.bincount(part.numpy().reshape(-1), minlength=num_parts)


def test_shares_are_exact_on_average_and_nearly_so_at_once() -> None:
    for shares, size in itertools.product(
        ([0.4, 0.6], [1, 1, 1], [0.9, 0.05, 0.03, 0.02], [1, 1000]), (1, 7, 32)
    ):
        mixture, share = mixture_of(shares), np.array(shares) / sum(shares)
        counted = np.zeros(len(shares), int)
        for number in range(1, 301):
            counts = counts_of(mixture.sample(size, gamma=GAMMA)["part"], len(shares))
            assert counts.sum() == size and (abs(counts - size * share) < 2).all()
            counted += counts
            # Never more than a row behind or ahead, so exact whenever the share of all is whole.
            assert (abs(counted - number * size * share) < 1 + 1e-9).all()


def test_several_batches_at_once_each_have_their_shares_in_the_order_of_parts() -> None:
    at_once, one_by_one = mixture_of([0.3, 0.7]), mixture_of([0.3, 0.7])
    drawn = at_once.sample(5, 4, gamma=GAMMA)
    for number in range(4):
        batch = one_by_one.sample(5, gamma=GAMMA)
        for name, column in batch.items():
            assert torch.equal(drawn[name][5 * number : 5 * number + 5], column), name
    assert drawn["part"].tolist() == [0, 0, 1, 1, 1, 0, 1, 1, 1, 1] * 2


def test_sequences_have_the_shares_too_and_their_states() -> None:
    mixture = mixture_of([0.25, 0.75])
    drawn = mixture.sample_sequences(8, 3)
    assert drawn["part"].shape == (3, 8) and drawn["part"][0].tolist() == [0] * 2 + [1] * 6
    assert drawn["state/h"][:, 0].tolist() == [0] * 2 + [1] * 6
    assert mixture.num_sequences(3) == 0  # the first part has none
    parts: Any = {"a": Part(1), "b": Part(2)}
    mixture = Mixture(parts, {"a": 1, "b": 1})
    assert (mixture.num_sequences(3), mixture.num_sequences(9)) == (15, 0)
    assert (mixture.num_steps, mixture.nbytes, mixture.num_added) == (20, 6, 0)


def test_what_is_written_back_finds_the_part_that_a_row_is_of() -> None:
    mixture = mixture_of([0.5, 0.5])
    ids = mixture.sample(4, gamma=GAMMA)["ids"]
    assert ids.tolist() == [0, 1, FIRST, FIRST + 1]
    mixture.update(ids.flip(0).view(2, 2), {"x": torch.arange(4.0).view(2, 2)})
    first, second = (part.updated for part in mixture.parts.values())  # type: ignore[attr-defined]
    assert (first, second) == ([([1, 0], [2.0, 3.0])], [([1, 0], [0.0, 1.0])])


def test_nothing_can_be_added_where_nothing_grows() -> None:
    policy = make_policy_of(CARTPOLE)
    with pytest.raises(ValueError, match="nothing can be added"):
        mixture_of([1, 1]).add(as_rollout(random_episodes(CARTPOLE, (3,))[0], policy))


@pytest.fixture
def sampled(tmp_path: Path) -> Mixture:
    """Data and a buffer, which has been added to."""
    policy, episodes = make_policy_of(CARTPOLE), random_episodes(CARTPOLE, (5, 3, 9, 2, 1))
    data = load_data_set(FakeSource(episodes, CARTPOLE), cache=tmp_path)
    mixture = Mixture(
        {
            "sampler": as_buffer(random_episodes(CARTPOLE, (4, 8, 20), seed=1), policy),
            "data": OfflineData(data, policy, np.random.SeedSequence(1)),
        },
        {"sampler": 0.3, "data": 0.7},
        "sampler",
    )
    mixture.add(as_rollout(random_episodes(CARTPOLE, (6,), seed=2)[0], policy))
    return mixture


def test_rows_of_a_buffer_and_of_data_have_the_same_columns(sampled: Mixture) -> None:
    assert sampled.num_added == 4 + 8 + 20 + 6
    drawn = sampled.sample(10, 2, gamma=GAMMA, n_step=(1, 3))
    of_data = drawn["ids"] >= FIRST
    assert of_data.tolist() == ([False] * 3 + [True] * 7) * 2
    names = {"obs", "next_obs", "actions", "rewards", "discounts", "n_steps", "weights", "ids"}
    assert drawn.keys() == names and {len(column) for column in drawn.values()} == {20}
    data = sampled.parts["data"].data.columns["obs"]  # type: ignore[attr-defined]
    rows = (drawn["ids"][of_data] - FIRST).numpy()
    assert (drawn["obs"][of_data].numpy() == data[rows]).all()
    assert sampled.sample_sequences(10, 3)["obs"].shape == (4, 10, 4)


def test_draws_go_on_to_the_bit(sampled: Mixture) -> None:
    sampled.sample(7, gamma=GAMMA)
    state = sampled.get_state()
    expected = [sampled.sample(7, 3, gamma=GAMMA), sampled.sample_sequences(5, 3)]
    sampled.set_state(state)
    again = [sampled.sample(7, 3, gamma=GAMMA), sampled.sample_sequences(5, 3)]
    for one, other in zip(expected, again, strict=True):
        for name, column in one.items():
            assert torch.equal(column, other[name]), name
    sampled.reseed(np.random.SeedSequence(3))
    assert not torch.equal(sampled.sample(7, 3, gamma=GAMMA)["ids"], expected[0]["ids"])


def test_a_state_of_other_parts_is_refused_and_clearing_leaves_the_data(sampled: Mixture) -> None:
    state = sampled.get_state()
    state["parts"].pop()
    with pytest.raises(ConfigError, match=r"input_ has 2 sources, .* trained on 1"):
        sampled.check_state(state)
    changed = sampled.get_state()
    changed["parts"][1]["digest"] = "another"
    with pytest.raises(ConfigError, match="other data"):
        sampled.set_state(changed)
    sampled.clear()
    assert sampled.num_added == 0 and sampled.num_steps == 20


def test_returns_to_the_end_are_refused_of_what_is_being_sampled(sampled: Mixture) -> None:
    with pytest.raises(ConfigError, match=r"need data that hold it.*without 'sampler'"):
        sampled.sample(10, gamma=GAMMA, n_step="end")
