"""Readers of one's own: names, batches of columns, what is drawn from them, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from offline_cases import make_policy_of
from offline_fakes import CARTPOLE, FakeSource, random_episodes

from trainables.core.errors import ConfigError
from trainables.marwil import MARWILConfig
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.experience import make_offline_experience
from trainables.runtime.offline.io_context import IOContext
from trainables.runtime.offline.read_options import ReadOptions
from trainables.runtime.offline.reader_batches import data_set_of, episodes_of
from trainables.runtime.offline.reader_experience import ReaderExperience
from trainables.runtime.offline.readers import (
    InputReader,
    input_creator,
    make_reader,
    register_input,
)

SEED = np.random.SeedSequence(3)


class Counting(InputReader):
    """Batches of an episode each, whose rewards count up over all batches."""

    def __init__(self, length: int = 5, context: IOContext | None = None):
        self.length, self.context, self.count = length, context, 0

    def next(self) -> dict[str, Any]:
        rows = np.arange(self.count, self.count + self.length, dtype=np.float32)
        self.count += self.length
        obs = np.repeat(rows[:, None] / 1000, 4, axis=1)
        ends = np.arange(self.length) == self.length - 1
        return {
            "obs": obs,
            "new_obs": obs + np.float32(0.001),
            "actions": rows.astype(np.int64) % 2,
            "rewards": rows,
            "terminateds": ends,
        }


class Resuming(Counting):
    """One that can tell where it is."""

    def get_state(self) -> dict[str, Any]:
        return {"count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def counting(context: IOContext) -> Counting:
    return Counting(context=context)


def experience(reader: Any, num_batches: int = 0, **options: Any) -> ReaderExperience:
    policy = make_policy_of(CARTPOLE)
    return ReaderExperience(reader, "reader", policy, SEED, num_batches=num_batches, **options)


def drawn(given: ReaderExperience, batch_size: int = 64, **options: Any) -> set[float]:
    """The rewards of a draw."""
    return set(given.sample(batch_size, gamma=0.9, **options)["rewards"].tolist())


def test_a_draw_is_of_the_last_batch() -> None:
    given = experience(Counting())
    assert drawn(given, 5) <= {0, 1, 2, 3, 4}
    assert drawn(given, 5) <= {5, 6, 7, 8, 9}
    assert (given.num_steps, given.num_added) == (5, 10)


def test_as_many_rows_are_read_as_are_drawn() -> None:
    given = experience(Counting())
    rewards = drawn(given, 64)
    assert rewards <= set(range(65)) and len(rewards) > 30
    assert (given.num_added, given.num_steps) == (65, 65)
    assert drawn(given, 10) <= set(range(65, 75))
    assert given.num_steps == 10


def test_a_shuffle_buffer_keeps_batches_and_is_filled_first() -> None:
    reader = Counting()
    given = experience(reader, 4)
    assert reader.count == 20
    assert drawn(given, 5, num_batches=4) <= set(range(20))
    later = [drawn(given, 5) for _ in range(40)]
    assert reader.count == 20 + 40 * 5
    newest = [max(rewards) // 5 * 5 for rewards in later]
    spread = [max(rewards) - min(rewards) for rewards in later]
    assert max(spread) > 10 and max(spread) < 20
    assert newest[-1] > 150


def test_transitions_windows_and_returns_are_those_of_the_batch() -> None:
    given = experience(Counting())
    batch = given.sample(5, gamma=0.5)
    assert torch.equal(batch["obs"][:, 0] * 1000, batch["rewards"])
    assert torch.allclose(batch["next_obs"][:, 0] * 1000, batch["rewards"] + 1)
    assert batch["discounts"].tolist() == [0.0 if r == 4 else 0.5 for r in batch["rewards"]]
    batch = given.sample(5, gamma=0.5, n_step="end")  # the second batch: 5, 6, 7, 8, 9
    first = (batch["obs"][:, 0] * 1000).round().to(torch.int64)
    for row, begin in enumerate(first.tolist()):
        steps = range(begin, 10)
        expected = sum(0.5**k * reward for k, reward in enumerate(steps))
        assert batch["rewards"][row].item() == pytest.approx(expected)
        assert batch["n_steps"][row] == len(steps)
        assert batch["discounts"][row] == 0
        assert batch["next_obs"][row, 0].item() == pytest.approx(0.01)
    sequences = given.sample_sequences(3, 2)
    assert sequences["obs"].shape == (3, 3, 4)


def test_a_cut_at_the_end_of_a_batch_bootstraps() -> None:
    class Cut(Counting):
        def next(self) -> dict[str, Any]:
            return super().next() | {"terminateds": np.zeros(self.length, np.bool_)}

    batch = experience(Cut()).sample(5, gamma=0.5, n_step="end")
    assert (batch["discounts"] > 0).all()
    assert np.allclose(batch["next_obs"][:, 0], 0.005)


def test_a_reader_that_tells_where_it_is_is_resumed_exactly() -> None:
    given = experience(Resuming())
    for _ in range(3):
        given.sample(5, gamma=0.9)
    state = given.get_state()
    expected = [given.sample(5, gamma=0.9)["rewards"].tolist() for _ in range(3)]
    resumed = experience(Resuming())
    resumed.set_state(state)
    assert [resumed.sample(5, gamma=0.9)["rewards"].tolist() for _ in range(3)] == expected
    assert resumed.num_added == given.num_added


def test_a_reader_that_does_not_tell_begins_again_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = experience(Counting())
    with caplog.at_level("WARNING"):
        given.set_state(given.get_state())
    assert "reader has no get_state" in caplog.text


def batch_of(**changes: Any) -> dict[str, Any]:
    columns = Counting().next() | changes
    return {name: column for name, column in columns.items() if column is not None}


def test_bad_batches_are_named() -> None:
    bad: list[tuple[Any, str]] = [
        (["rows"], "it is of type list; allowed: a dict of columns"),
        (batch_of(rewards=None), "column 'reward': the column is missing"),
        (batch_of(obs=np.zeros((5, 3), np.float32)), r"row 0, column 'obs': .*\(3,\), not \(4,\)"),
        (batch_of(actions=np.array([0, 1, 0, 1, 2])), r"row 4, column 'actions': 2 is not in"),
        (batch_of(terminateds=np.zeros(4)), "column 'terminateds': it has 4 rows"),
        (batch_of(rewards=np.array([0, 1, np.nan, 3, 4])), "row 2, column 'rewards': nan is not"),
    ]
    for batch, problem in bad:
        with pytest.raises(DataError, match=f"batch 7 of mine.*{problem}"):
            episodes_of(batch, CARTPOLE, ReadOptions(), "batch 7 of mine")


def test_nested_observations_are_dicts_of_arrays() -> None:
    space = gym.spaces.Dict({"a": gym.spaces.Box(-9, 9, (2,)), "n": gym.spaces.Discrete(3)})
    obs = {"a": np.ones((5, 2), np.float32), "n": np.arange(5) % 3}
    spaces = DataSpaces(space, CARTPOLE.action)
    [episode] = episodes_of(batch_of(obs=obs, new_obs=obs), spaces, ReadOptions(), "batch")
    assert episode.obs["n"].tolist() == [0, 1, 2, 0, 1, 1]


def test_a_data_set_in_memory_is_laid_out_as_one_on_the_disk(tmp_path: Path) -> None:
    episodes = random_episodes(CARTPOLE, [3, 1, 4])
    made = data_set_of(episodes, CARTPOLE, "made")
    loaded = load_data_set(FakeSource(episodes, CARTPOLE), cache=tmp_path)
    assert (made.num_rows, made.num_steps) == (loaded.num_rows, loaded.num_steps)
    for name, column in loaded.columns.items():
        assert made.columns[name].tobytes() == column.tobytes(), name
    for name in ("next_valid", "first_rows", "steps_before"):
        assert np.array_equal(getattr(made, name), getattr(loaded, name)), name


def test_readers_that_end_or_give_nothing_are_refused() -> None:
    class Ends(Counting):
        def next(self) -> dict[str, Any]:
            raise StopIteration

    class Empty(Counting):
        def next(self) -> dict[str, Any]:
            return {name: column[:0] for name, column in super().next().items()}

    with pytest.raises(DataError, match="batch 0 of reader: the reader has no more"):
        experience(Ends())
    with pytest.raises(DataError, match="reader gave 1000 batches without rows"):
        experience(Empty())


def test_what_a_name_stands_for() -> None:
    assert input_creator(counting) is counting
    assert input_creator(f"{__name__}:counting") is not None
    for data in ("data/*.parquet", "minari:D4RL/x", "s3://bucket/x", ("a", "b"), "sampler"):
        assert input_creator(data) is None
    with pytest.raises(ConfigError, match="cannot be found"):
        input_creator(f"{__name__}:missing")
    with pytest.raises(ConfigError, match="returned dict; allowed: an InputReader"):
        make_reader(lambda context: {}, IOContext("", None))  # type: ignore[arg-type]


def test_a_registered_name_is_a_reader() -> None:
    register_input("counting rewards", counting)
    assert input_creator("counting rewards") is not None
    with pytest.raises(ConfigError, match="allowed: a callable"):
        register_input("x", 3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="says something else"):
        register_input("sampler", counting)


def test_input_names_a_reader_that_is_told_of_its_trial() -> None:
    config = MARWILConfig().offline_data(
        input_=counting, input_config={"mine": 3}, shuffle_buffer_size=2
    )
    policy = make_policy_of(CARTPOLE)
    given = make_offline_experience(config, policy, SEED, _no_buffer, "folder")
    assert isinstance(given, ReaderExperience)
    context = given._reader.context
    assert (context.log_dir, context.input_config, context.worker_index) == (
        "folder",
        {"mine": 3},
        0,
    )
    assert given.num_added == 10
    with pytest.raises(ConfigError, match="a reader cannot sample"):
        context.default_sampler_input()


def _no_buffer(seed: np.random.SeedSequence) -> Any:
    raise AssertionError("nothing is sampled")
