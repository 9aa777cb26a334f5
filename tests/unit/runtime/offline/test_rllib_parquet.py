"""Parquet files with RLlib's column names, and files that others made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.packed_columns import pack

SPACES = DataSpaces(gym.spaces.Box(-9, 9, (2,), np.float32), gym.spaces.Discrete(2))
BOXED = DataSpaces(SPACES.observation, gym.spaces.Box(0, 4, (1,), np.float32))


def rows(lengths: tuple[int, ...] = (3, 2), **changes: Any) -> dict[str, Any]:
    """Columns as RLlib's newer generation calls them: an episode counts up, the next goes on."""
    count = sum(lengths)
    ends = np.cumsum(lengths) - 1
    obs = [[number + 0.25, -number] for number in range(count)]
    columns = {
        "obs": obs,
        "new_obs": [[first + 0.5, second] for first, second in obs],
        "actions": [number % 2 for number in range(count)],
        "rewards": [float(number) for number in range(count)],
        "terminateds": [number == ends[0] for number in range(count)],
        "truncateds": [number == ends[-1] for number in range(count)],
        "eps_id": np.repeat(np.arange(len(lengths)) + 7, lengths).tolist(),
        "agent_id": ["0"] * count,
        "module_id": ["default_policy"] * count,
        "t": np.concatenate([np.arange(length) for length in lengths]).tolist(),
        "action_logp": [-0.5 * number for number in range(count)],
        "weights_seq_no": [1] * count,
    }
    columns |= changes
    return {name: column for name, column in columns.items() if column is not None}


def episodes(
    path: Path, columns: dict[str, Any], spaces: DataSpaces = SPACES, **options: Any
) -> list[Episode]:
    """What is read of a file of these columns."""
    file = path / "rows.parquet"
    pq.write_table(pa.table(columns), file)
    return list(find_source(file, **options).episodes(spaces))


def test_the_newer_names(tmp_path: Path) -> None:
    first, second = episodes(tmp_path, rows())
    assert (first.episode_id, second.episode_id) == ("7", "8")
    assert (first.terminated, first.truncated) == (True, False)
    assert (second.terminated, second.truncated) == (False, True)
    assert first.obs.tolist() == [[0.25, 0], [1.25, -1], [2.25, -2], [2.75, -2]]
    assert first.obs.dtype == np.float32
    assert second.obs.tolist() == [[3.25, -3], [4.25, -4], [4.75, -4]]
    assert second.actions.tolist() == [1, 0]
    assert second.rewards.tolist() == [3, 4]
    assert second.logp is not None and second.logp.tolist() == [-1.5, -2]
    assert (second.file, second.row) == (str(tmp_path / "rows.parquet"), 3)
    assert second.module_id == "default_policy"


def test_the_older_names_of_which_done_means_terminated(tmp_path: Path) -> None:
    dones = [False, False, True, False, False]
    older = rows(terminateds=None, truncateds=None, dones=dones, agent_id=None, module_id=None)
    first, second = episodes(tmp_path, older | {"agent_index": [0] * 5, "unroll_id": [0] * 5})
    assert (first.terminated, first.truncated) == (True, False)
    assert (second.terminated, second.truncated) == (False, False)  # cut amid the episode


def test_a_done_that_is_truncated_does_not_terminate(tmp_path: Path) -> None:
    dones = [False, False, True, False, True]
    first, second = episodes(tmp_path, rows(terminateds=None, dones=dones))
    assert (first.terminated, first.truncated) == (True, False)
    assert (second.terminated, second.truncated) == (False, True)


def test_without_ids_ends_tell_episodes_apart(tmp_path: Path) -> None:
    found = episodes(tmp_path, rows(eps_id=None, t=None))
    assert [len(episode) for episode in found] == [3, 2]
    assert [episode.rewards.tolist() for episode in found] == [[0, 1, 2], [3, 4]]


def test_without_successors_a_truncated_episode_is_whole_and_ends_with_its_last_observation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = episodes(tmp_path, rows(new_obs=None))
    assert len(first) == 3 and first.terminated
    assert (len(second), second.terminated, second.truncated) == (2, False, True)
    assert second.obs[-1].tolist() == second.obs[-2].tolist()
    [said] = [record.getMessage() for record in caplog.records]
    assert "1 episodes are truncated, and nothing says what their last action led to" in said
    assert "a column 'next_obs', needed in that row only" in said


def test_without_successors_the_last_row_of_what_did_not_end_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = episodes(tmp_path, rows(new_obs=None, truncateds=None))
    assert len(first) == 3 and first.terminated
    assert (len(second), second.terminated, second.truncated) == (1, False, False)
    [said] = [record.getMessage() for record in caplog.records]
    assert "the last rows of 1 episodes are left out" in said
    assert "give a column 'next_obs', or 'truncated' where a limit ended them" in said
    assert second.obs.tolist() == [[3.25, -3], [4.25, -4]]


def test_interleaved_rows_of_two_episodes(tmp_path: Path) -> None:
    columns = rows((3, 3))
    order = [0, 3, 1, 4, 2, 5]
    mixed = {name: [column[row] for row in order] for name, column in columns.items()}
    straight = episodes(tmp_path, columns)
    for one, other in zip(straight, episodes(tmp_path, mixed), strict=True):
        assert one.obs.tolist() == other.obs.tolist()
        assert one.rewards.tolist() == other.rewards.tolist()


def test_lists_of_any_kind_and_other_types_of_numbers(tmp_path: Path) -> None:
    columns = rows()
    expected = [episode.obs.tolist() for episode in episodes(tmp_path, columns)]
    for kind in (pa.list_(pa.float64(), 2), pa.large_list(pa.float32()), pa.list_(pa.float16())):
        obs = pa.array(columns["obs"], pa.list_(pa.float64())).cast(pa.list_(pa.float64(), 2))
        if kind != obs.type:
            value = kind.value_type.to_pandas_dtype()
            lists = [list(map(value, row)) for row in columns["obs"]]
            obs = pa.array(lists, kind)
        found = episodes(tmp_path, columns | {"obs": obs})
        assert [episode.obs.tolist() for episode in found] == expected, kind
    whole = columns | {"actions": [float(action) for action in columns["actions"]]}
    assert episodes(tmp_path, whole)[0].actions.dtype == np.int64


def test_nested_observations_as_structs_and_images_as_lists(tmp_path: Path) -> None:
    space = gym.spaces.Dict(
        {"image": gym.spaces.Box(0, 255, (2, 2, 1), np.uint8), "n": gym.spaces.Discrete(9)}
    )
    spaces = DataSpaces(space, SPACES.action)
    obs = [{"image": [[[n], [1]], [[2], [3]]], "n": n} for n in range(5)]
    columns = rows(obs=obs, new_obs=obs)
    first, second = episodes(tmp_path, columns, spaces)
    assert first.obs["n"].tolist() == [0, 1, 2, 2]
    assert second.obs["image"][0].tolist() == [[[3], [1]], [[2], [3]]]
    inferred = find_source(tmp_path).infer_spaces()
    assert inferred.observation == gym.spaces.Dict(
        {
            "image": gym.spaces.Box(-(2**63), 2**63 - 1, (2, 2, 1), np.int64),
            "n": gym.spaces.Box(-(2**63), 2**63 - 1, (), np.int64),
        }
    )


def test_packed_columns_are_read_without_unpickling(tmp_path: Path) -> None:
    columns = rows()
    packed = {
        name: [pack(np.array(row, np.float32)) for row in columns[name]]
        for name in ("obs", "new_obs")
    }
    straight, found = episodes(tmp_path, columns), episodes(tmp_path, columns | packed)
    for one, other in zip(straight, found, strict=True):
        assert one.obs.tolist() == other.obs.tolist()


def test_files_of_a_row_each_as_rllib_writes_small_ones(tmp_path: Path) -> None:
    columns = rows(t=None)
    columns |= {name: pa.nulls(5) for name in ("agent_id", "module_id")}
    columns["new_obs"] = [*columns["obs"][1:], [9.0, 9.0]]
    straight = episodes(tmp_path, columns)
    (tmp_path / "rows.parquet").unlink()
    table = pa.table(columns)
    for row in range(5):
        folder = tmp_path / f"run-00000{row // 2}"
        folder.mkdir(exist_ok=True)
        pq.write_table(table.slice(row, 1), folder / f"{row}.parquet")
    found = list(find_source(tmp_path).episodes(SPACES))
    assert [len(episode) for episode in found] == [len(episode) for episode in straight] == [3, 2]
    for one, other in zip(straight, found, strict=True):
        assert one.obs.tolist() == other.obs.tolist()


def test_episodes_of_the_same_name_in_several_files_stay_apart(tmp_path: Path) -> None:
    cut = rows(t=None, terminateds=[False] * 5, truncateds=None)
    for name in ("first", "second"):
        pq.write_table(pa.table(cut), tmp_path / f"{name}.parquet")
    found = list(find_source(tmp_path).episodes(SPACES))
    assert [len(episode) for episode in found] == [3, 2, 3, 2]


def test_what_pandas_writes(tmp_path: Path) -> None:
    import pandas as pd

    columns = rows()
    frame = pd.DataFrame({"obs": list(np.array(columns["obs"])), "action": columns["actions"]})
    frame["reward"], frame["terminated"] = columns["rewards"], columns["terminateds"]
    frame.to_parquet(tmp_path / "rows.parquet")
    found = list(find_source(tmp_path).episodes(SPACES))
    assert [len(episode) for episode in found] == [3, 1]


def test_spaces_are_told_from_the_data(tmp_path: Path) -> None:
    episodes(tmp_path, rows(actions=[0, 1, 2, 1, 0]), DataSpaces(SPACES[0], gym.spaces.Discrete(3)))
    source = find_source(tmp_path)
    assert source.spaces() is None
    found = source.infer_spaces()
    assert found.observation == gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    assert found.action == gym.spaces.Discrete(3)


def test_whole_numbers_are_no_categories(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A pandas column of customers was one of 199,990 categories, and the network had as many."""
    columns = rows(obs=None, new_obs=None)
    columns["obs/customers"] = [12, 199_989, 3, 4, -5]
    columns["obs/open"] = [True, False, True, True, True]
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    found = find_source(tmp_path).infer_spaces()
    assert found.observation["customers"] == gym.spaces.Box(-(2**63), 2**63 - 1, (), np.int64)
    assert found.observation["open"] == gym.spaces.Discrete(2)
    assert "whole numbers in observations of" in caplog.text
    columns["actions"] = [0, 256, 1, 2, 3]
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"257 choices in action_space; allowed .*: 256; give"):
        find_source(tmp_path).infer_spaces()


def test_bounds_of_continuous_actions_are_not_told(tmp_path: Path) -> None:
    episodes(tmp_path, rows(actions=[[0.5]] * 5), BOXED)
    with pytest.raises(DataError, match="column 'actions': the bounds of continuous actions"):
        find_source(tmp_path).infer_spaces()


def test_actions_outside_of_the_bounds_are_refused_or_clipped(tmp_path: Path) -> None:
    outside = rows(actions=[[0.5], [4.5], [-1.0], [2.0], [4.00001]])
    with pytest.raises(
        DataError, match=r"rows.parquet, row 1, column 'actions': \[4.5\] .*'clip_actions': True"
    ):
        episodes(tmp_path, outside, BOXED)
    found = episodes(tmp_path, outside, BOXED, input_config={"clip_actions": True})
    assert np.concatenate([e.actions for e in found]).ravel().tolist() == [0.5, 4, 0, 2, 4]


def test_normalised_actions_are_stretched_to_the_bounds(tmp_path: Path) -> None:
    columns = rows(actions=[[-1.0], [0.0], [1.0], [0.5], [-0.5]])
    found = episodes(tmp_path, columns, BOXED, actions_normalized=True)
    assert np.concatenate([e.actions for e in found]).ravel().tolist() == [0, 2, 4, 3, 1]
    with pytest.raises(DataError, match=r"row 3, column 'actions': \[1.5\] is outside"):
        columns["actions"][3] = [1.5]
        episodes(tmp_path, columns, BOXED, actions_normalized=True)


def test_rows_of_several_agents_are_episodes_of_each(tmp_path: Path) -> None:
    """Two agents in one episode, row by row; the second has terminated at t = 1."""
    columns = rows(
        eps_id=[7] * 5,
        agent_id=["a", "b", "a", "b", "a"],
        t=[0, 0, 1, 1, 2],
        terminateds=[False, False, False, True, False],
    )
    second, first = episodes(tmp_path, columns)
    assert [(e.episode_id, e.agent_id, len(e)) for e in (first, second)] == [
        ("7", "a", 3),
        ("7", "b", 2),
    ]
    assert first.rewards.tolist() == [0, 2, 4] and second.rewards.tolist() == [1, 3]
    assert (first.truncated, second.terminated) == (True, True)
    source = find_source(tmp_path / "rows.parquet")
    assert source.agents() == [{"a", "b"}]
