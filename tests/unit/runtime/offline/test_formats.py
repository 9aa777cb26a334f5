"""What is written is read, to the bit, in every format and of every space."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pyarrow.parquet as pq
import pytest
from episode_files import BIG, assert_same, read, with_logp, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from offline_fakes import CARTPOLE, random_episodes
from space_strategies import ACTION_LEAVES, nested_spaces

from trainables.core.errors import ConfigError
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.writers import make_writer

quick = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def num_rows(file: Path) -> int:
    if file.suffix == ".parquet":
        return int(pq.ParquetFile(file).metadata.num_rows)
    return sum(len(json.loads(line)["eps_id"]) for line in file.read_text().splitlines())


@pytest.mark.parametrize("format_", ["parquet", "json"])
@quick
@given(
    observation=nested_spaces(2),
    action=nested_spaces(1, ACTION_LEAVES),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    max_rows=st.sampled_from([None, 1, 5, 20]),
    max_size=st.sampled_from([1, 2000, BIG]),
    compressed=st.lists(st.sampled_from(["obs", "new_obs", "actions", "reward"]), unique=True),
    seed=st.integers(0, 2**16),
)
def test_random_episodes_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    format_: str,
    observation: gym.Space,
    action: gym.Space,
    lengths: list[int],
    max_rows: int | None,
    max_size: int,
    compressed: list[str],
    seed: int,
) -> None:
    spaces = DataSpaces(observation, action)
    episodes = with_logp(random_episodes(spaces, lengths, seed), seed)
    folder = written(
        tmp_path_factory.mktemp("data"),
        episodes,
        spaces,
        format=format_,
        max_rows_per_file=max_rows,
        max_file_size=max_size,
        compress_columns=compressed,
    )
    assert find_source(folder).spaces() == spaces
    assert_same(read(folder), episodes, spaces)
    sizes = [num_rows(file) for file in folder.glob(f"*.{format_}")]
    assert sizes and (max_rows is None or max(sizes) <= max_rows)


@quick
@given(
    observation=nested_spaces(2),
    action=nested_spaces(1, ACTION_LEAVES),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    seed=st.integers(0, 2**16),
)
def test_random_episodes_come_back_from_minari(
    tmp_path_factory: pytest.TempPathFactory,
    observation: gym.Space,
    action: gym.Space,
    lengths: list[int],
    seed: int,
) -> None:
    pytest.importorskip("minari")
    pytest.importorskip("h5py")
    spaces = DataSpaces(observation, action)
    episodes = with_logp(random_episodes(spaces, lengths, seed), seed)
    folder = tmp_path_factory.mktemp("data") / "set"
    try:
        written(folder, episodes, spaces, format="minari")
    except ConfigError as error:
        assert "format 'minari' does not hold the key" in str(error)
        return
    source = find_source(folder, {"format": "minari"})
    assert source.spaces() == spaces
    assert_same(list(source.episodes(spaces)), episodes, spaces)


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_many_episodes_of_several_writers_come_back(tmp_path: Path, format_: str) -> None:
    episodes = [random_episodes(CARTPOLE, [1 + n % 9 for n in range(125)], s) for s in range(4)]
    writers = [
        make_writer(tmp_path, CARTPOLE, format=format_, max_file_size=10_000) for _ in episodes
    ]
    for of_one_row in zip(*episodes, strict=True):
        for writer, episode in zip(writers, of_one_row, strict=True):
            writer.write(episode)
    for writer in writers:
        writer.close()
    assert len([*tmp_path.glob(f"*.{format_}")]) > 8
    assert_same(read(tmp_path), [e for each in episodes for e in each], CARTPOLE)
