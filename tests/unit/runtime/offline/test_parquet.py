"""Our Parquet files: what is written is what is read, to the bit, and pandas reads it too."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from episode_files import BIG, assert_same, read, with_logp, written
from offline_fakes import CARTPOLE, random_episodes

from trainables.core.errors import ConfigError
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.writers import make_writer


def test_fragments_written_at_different_times_are_one_episode(tmp_path: Path) -> None:
    episodes = with_logp(random_episodes(CARTPOLE, [30, 31, 32]))
    writer = make_writer(tmp_path, CARTPOLE, max_file_size=BIG, max_rows_per_file=25)
    for start in range(0, 40, 10):  # as three slots of an env runner write them
        for episode in episodes:
            if start < len(episode):
                writer.write(episode.part(start, min(start + 10, len(episode))))
    writer.close()
    assert len(list(tmp_path.iterdir())) >= 4
    assert_same(read(tmp_path), episodes, CARTPOLE)


def test_a_fragment_whose_beginning_is_missing_says_so(tmp_path: Path) -> None:
    [episode] = random_episodes(CARTPOLE, [30])
    late = episode.part(10, 30)
    written(tmp_path, [episode.part(0, 5), late], CARTPOLE)
    first, second = read(tmp_path)
    assert (len(first), first.first_step, first.terminated, first.truncated) == (5, 0, False, False)
    assert np.array_equal(first.obs, episode.obs[:6])
    assert (len(second), second.first_step) == (20, 10)
    assert np.array_equal(second.obs, late.obs)


def test_a_writer_keeps_nothing_of_the_callers_arrays(tmp_path: Path) -> None:
    [episode] = random_episodes(CARTPOLE, [5])
    given = replace(episode, obs=episode.obs.copy(), rewards=episode.rewards.copy())
    writer = make_writer(tmp_path, CARTPOLE)
    writer.write(given)
    given.obs[...] = given.rewards[...] = 0
    writer.close()
    assert_same(read(tmp_path), [episode], CARTPOLE)


def test_pandas_reads_numbers_vectors_and_images(tmp_path: Path) -> None:
    import pandas as pd

    space = gym.spaces.Dict(
        {
            "position": gym.spaces.Box(-9, 9, (3,), np.float32),
            "camera": gym.spaces.Box(0, 255, (4, 5, 3), np.uint8),
            "gear": gym.spaces.Discrete(3),
        }
    )
    spaces = DataSpaces(space, gym.spaces.Box(-1, 1, (2,), np.float32))
    episodes = random_episodes(spaces, [2, 3], ends=("truncated", "terminated"))
    written(tmp_path, episodes, spaces, env_id="Own-v0")
    frame = pd.read_parquet(tmp_path)
    assert frame["t"].tolist() == [0, 1, 0, 1, 2]
    assert frame["episode_id"].tolist() == ["0-0"] * 2 + ["0-1"] * 3
    assert frame["truncated"].tolist() == [False, True, False, False, False]
    assert frame["terminated"].tolist() == [False, False, False, False, True]
    assert frame["reward"].dtype == np.float32
    assert set(frame["agent_id"]) == {"default_agent"}
    assert set(frame["module_id"]) == {"default_policy"}
    obs = np.concatenate([episode.obs[:-1] for episode in episodes])
    assert np.array_equal(np.stack(frame["obs/position"]), obs["position"])
    assert frame["obs/position"][0].dtype == np.float32
    assert frame["obs/gear"].tolist() == obs["gear"].tolist()
    camera = np.frombuffer(frame["obs/camera"][3], np.uint8).reshape(4, 5, 3)
    assert np.array_equal(camera, obs["camera"][3])
    assert np.array_equal(np.stack(frame["action"]), np.concatenate([e.actions for e in episodes]))
    last = frame["next_obs/position"]
    assert last.isna().tolist() == [True, False, True, True, False]
    assert np.array_equal(last[1], episodes[0].obs["position"][-1])


def test_only_the_columns_asked_for_are_compressed(tmp_path: Path) -> None:
    written(tmp_path, random_episodes(CARTPOLE, [5]), CARTPOLE, compress_columns=["obs", "actions"])
    [file] = tmp_path.iterdir()
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    packed = {c.path_in_schema.split(".")[0] for c in columns if c.compression != "UNCOMPRESSED"}
    assert packed == {"obs", "action"}


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    for options, problem in (
        ({"format": "parqet"}, "'parqet' of output is not known.*did you mean 'parquet'"),
        ({"compress_columns": ["obz"]}, "no column is called 'obz'.*did you mean 'obs'"),
        ({"max_file_size": 0}, "size 0 is not allowed"),
        ({"max_rows_per_file": 0}, "rows_per_file 0 is not allowed"),
    ):
        with pytest.raises(ConfigError, match=problem):
            make_writer(tmp_path, CARTPOLE, **options)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    writer = make_writer(tmp_path / "file", CARTPOLE)
    writer.write(random_episodes(CARTPOLE, [5])[0])
    with pytest.raises(DataError, match="file cannot be written to"):
        writer.close()


def test_files_that_state_different_spaces_are_both_named(tmp_path: Path) -> None:
    written(tmp_path, random_episodes(CARTPOLE, [5]), CARTPOLE)
    other = DataSpaces(CARTPOLE.observation, gym.spaces.Discrete(3))
    written(tmp_path, random_episodes(other, [5]), other)
    with pytest.raises(DataError, match=r"data-000001.parquet, column 'action'.*data-000000"):
        find_source(tmp_path).spaces()


def test_reading_takes_bounded_memory(tmp_path: Path) -> None:
    spaces = DataSpaces(gym.spaces.Box(0, 255, (64, 64, 3), np.uint8), gym.spaces.Discrete(2))
    episodes = random_episodes(spaces, [50])
    writer = make_writer(tmp_path, spaces, max_file_size=BIG)
    for number in range(100):  # 61 MB
        writer.write(replace(episodes[0], episode_id=str(number), terminated=True))
    writer.close()
    source, arrow = find_source(tmp_path), 0
    tracemalloc.start()
    for _ in source.episodes(spaces):
        arrow = max(arrow, pa.total_allocated_bytes())
    peak = tracemalloc.get_traced_memory()[1] + arrow
    tracemalloc.stop()
    assert peak < 45e6


def test_a_footer_of_lists_in_lists_is_one_error(tmp_path: Path) -> None:
    footer = b"\x19" * 5_000  # each a field, or a list of one list
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(DataError, match=r"a\.parquet.*it is nested too deeply"):
        read(tmp_path)
