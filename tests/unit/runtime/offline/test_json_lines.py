"""JSON lines: RLlib's are read, ours come back to the bit, and RLlib's reader would take them."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pytest
from episode_files import (
    assert_same,
    assert_same_rows,
    batch,
    json_file,
    read,
    with_logp,
    written,
)
from offline_fakes import CARTPOLE, random_episodes
from test_packed_columns import packed as packed_thing

from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.writers import make_writer

NESTED = DataSpaces(
    gym.spaces.Dict(
        [
            ("z", gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (2,))])),
            ("camera", gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)),
        ]
    ),
    gym.spaces.Tuple([gym.spaces.Discrete(4, start=-1), gym.spaces.Box(-1, 1, (2,))]),
)


def packed(values: Any) -> str:
    """A column as RLlib packs it."""
    return packed_thing(np.array(values))


# ---------------------------------------------------------------------------- ours


def test_a_long_episode_is_several_lines_and_comes_back_as_one(tmp_path: Path) -> None:
    spaces = DataSpaces(gym.spaces.Box(0, 255, (40, 40, 3), np.uint8), gym.spaces.Discrete(3))
    episodes = random_episodes(spaces, [300, 5], ends=["truncated", "terminated"])
    folder = written(tmp_path, episodes, spaces, format="json", compress_columns=["obs", "new_obs"])
    [file] = folder.glob("*.json")
    assert len(file.read_text().splitlines()) > 2
    assert_same(read(folder), episodes, spaces)


def test_extreme_floats_come_back_to_the_bit(tmp_path: Path) -> None:
    """Subnormal numbers, the largest ones, -0.0, and each of float32 that text rounds badly."""
    info = np.finfo(np.float32)
    bits = np.random.default_rng(0).integers(0, 0x7F7FFFFF, 4000, np.uint32)
    values = [
        bits.view(np.float32),
        [info.max, -info.max, info.tiny, info.smallest_subnormal, -0.0],
    ]
    obs = np.concatenate(values).astype(np.float32)[:, None]
    spaces = DataSpaces(gym.spaces.Box(-np.inf, np.inf, (1,)), gym.spaces.Discrete(2))
    [episode] = random_episodes(spaces, [len(obs) - 1])
    episode.obs[:] = obs
    episode.rewards[:] = obs[1:, 0]
    for compressed in ([], ["obs", "new_obs", "rewards"]):
        folder = tmp_path / str(len(compressed))
        written(folder, [episode], spaces, format="json", compress_columns=compressed)
        assert_same(read(folder), [episode], spaces)


def test_lines_are_as_rllib_has_them(tmp_path: Path) -> None:
    [episode] = with_logp(random_episodes(CARTPOLE, [1, 3], ends=["truncated"]))[1:]
    [file] = written(
        tmp_path, [episode], CARTPOLE, format="json", compress_columns=["new_obs"]
    ).glob("*.json")
    [line] = map(json.loads, file.read_text().splitlines())
    assert line.pop("type") == "SampleBatch"
    assert line["obs"] == episode.obs[:-1].tolist()
    assert line["actions"] == episode.actions.tolist()
    assert line["rewards"] == episode.rewards.tolist()
    assert line["terminateds"] == [False] * 3
    assert line["truncateds"] == [False, False, True]
    assert line["t"] == [0, 1, 2] and line["agent_index"] == [0] * 3
    assert line["action_logp"] == episode.logp.tolist()  # type: ignore[union-attr]
    frame = base64.b64decode(line["new_obs"])
    with pa.CompressedInputStream(pa.BufferReader(frame), "lz4") as stream:
        assert np.array_equal(pickle.loads(stream.read()), episode.obs[1:])
    # Its reader takes what lies in a folder as "*.json"; the spaces stand in none of these.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_spaces", file.name]


def test_nested_spaces_are_objects_and_lists_of_columns(tmp_path: Path) -> None:
    [episode] = random_episodes(NESTED, [3])
    [file] = written(tmp_path, [episode], NESTED, format="json").glob("*.json")
    line = json.loads(file.read_text())
    assert line["obs"]["z"][0] == episode.obs["z/0"][:-1].tolist()
    assert line["obs"]["camera"] == episode.obs["camera"][:-1].tolist()
    assert line["actions"][1] == episode.actions["1"].tolist()


def test_a_folder_keeps_to_one_pair_of_spaces(tmp_path: Path) -> None:
    folder = written(tmp_path, random_episodes(CARTPOLE, [3]), CARTPOLE, format="json")
    written(folder, random_episodes(CARTPOLE, [3], seed=1), CARTPOLE, format="json")
    with pytest.raises(DataError, match=r"column 'obs': .* comes from the files that lie there"):
        make_writer(folder, NESTED, format="json")


# ---------------------------------------------------------------------------- RLlib's


def test_an_older_batch_says_done_only(tmp_path: Path) -> None:
    line = batch(terminateds=None, truncateds=None, dones=[False, False, False, True])
    [episode] = read(json_file(tmp_path / "a.json", line))
    assert episode.terminated and not episode.truncated
    assert episode.obs.tolist() == [[0.5, t, 0.25, -1.0] for t in range(5)]
    assert episode.actions.tolist() == [0, 1, 0, 1]
    assert episode.episode_id == "7"


def test_packed_columns_are_read(tmp_path: Path) -> None:
    [expected] = read(json_file(tmp_path / "plain.json", batch()))
    spaces = find_source(tmp_path / "plain.json").infer_spaces()
    for column in ("obs", "new_obs", "actions", "rewards", "terminateds", "t"):
        line = batch()
        line[column] = packed(line[column])
        [found] = read(json_file(tmp_path / f"{column}.json", line))
        assert_same_rows(found, expected, spaces)


def test_columns_that_are_not_needed_are_not_looked_at(tmp_path: Path) -> None:
    more = {
        "infos": [{"a": 1}, {}, None, {}],
        "seq_lens": [4],
        "vf_preds": packed([1.0]),
        "state_in_0": "not packed at all",
        "prev_actions": [[1], [2, 3]],
    }
    assert len(read(json_file(tmp_path / "a.json", batch(**more)))) == 1


def test_lines_of_one_episode_are_joined_also_across_files(tmp_path: Path) -> None:
    whole = batch(6)
    cut = [
        {n: c if n == "type" else c[start : start + 2] for n, c in whole.items()}
        for start in (0, 2, 4)
    ]
    json_file(tmp_path / "a.json", cut[0], batch(2, eps_id=[8, 8]), "", cut[1])
    json_file(tmp_path / "b.json", cut[2])
    found = {episode.episode_id: episode for episode in read(tmp_path)}
    assert {name: len(episode) for name, episode in found.items()} == {"7": 6, "8": 2}
    assert found["7"].obs[:, 1].tolist() == [*range(7)]
    assert found["7"].row == 0 and found["7"].file.endswith("a.json")


def test_several_episodes_lie_in_one_line(tmp_path: Path) -> None:
    line = batch(
        6,
        eps_id=[1, 1, 2, 2, 2, 3],
        t=[0, 1, 0, 1, 2, 5],
        terminateds=[False, True, False, False, False, False],
        truncateds=[False, False, False, False, True, False],
    )
    episodes = {e.episode_id: e for e in read(json_file(tmp_path / "a.json", line))}
    assert {name: (len(e), e.terminated, e.truncated) for name, e in episodes.items()} == {
        "1": (2, True, False),
        "2": (3, False, True),
        "3": (1, False, False),
    }
    assert episodes["3"].first_step == 5 and episodes["2"].row == 2


def test_without_ids_an_episode_ends_with_its_line(tmp_path: Path) -> None:
    lines = [batch(n, eps_id=None, t=None) for n in (2, 3)]
    lines += [batch(2, eps_id=None, t=None, terminateds=[False, False])] * 2
    assert [len(e) for e in read(json_file(tmp_path / "a.json", *lines))] == [2, 3, 2, 2]


def test_without_a_successor_the_last_row_of_a_cut_episode_is_left_out(tmp_path: Path) -> None:
    lines = [batch(new_obs=None), batch(new_obs=None, eps_id=[8] * 4, terminateds=[False] * 4)]
    found = {e.episode_id: e for e in read(json_file(tmp_path / "a.json", *lines))}
    assert {name: len(episode) for name, episode in found.items()} == {"7": 4, "8": 3}
    assert found["8"].obs.tolist() == lines[0]["obs"]


def test_a_batch_of_one_policy_of_several_is_read(tmp_path: Path) -> None:
    inner = batch(agent_index=None)
    del inner["type"]
    line = {"type": "MultiAgentBatch", "count": 4, "policy_batches": {"default_policy": inner}}
    [episode] = read(json_file(tmp_path / "a.json", line))
    assert len(episode) == 4


def test_a_batch_of_several_policies_is_an_episode_of_each_agent(tmp_path: Path) -> None:
    batches = {"left": batch(agent_index=[0] * 4), "right": batch(agent_index=[1] * 4)}
    line = {"type": "MultiAgentBatch", "count": 4, "policy_batches": batches}
    file = json_file(tmp_path / "a.json", line)
    found = read(file)
    assert [(e.episode_id, e.agent_id, e.module_id, len(e)) for e in found] == [
        ("7", "0", "left", 4),
        ("7", "1", "right", 4),
    ]
    assert find_source(file).agents() == [{"0", "1"}]


def test_a_module_is_the_policy_of_a_batch(tmp_path: Path) -> None:
    """As RLlib has them; what only one policy can have done is a plain batch."""
    episodes = [
        replace(episode, module_id=module)
        for episode, module in zip(
            random_episodes(CARTPOLE, [3, 4, 2]), ["left", "default_policy", "right"], strict=True
        )
    ]
    folder = written(tmp_path, episodes, CARTPOLE, format="json")
    [file] = folder.glob("*.json")
    types = [json.loads(line)["type"] for line in file.read_text().splitlines()]
    assert types == ["MultiAgentBatch", "SampleBatch", "MultiAgentBatch"]
    found = read(folder)
    assert_same(found, episodes, CARTPOLE)
    assert [episode.module_id for episode in found] == ["left", "", "right"]


def test_log_probabilities_are_read_where_somebody_noted_them(tmp_path: Path) -> None:
    noted = batch(action_logp=[-0.5, None, -1.5, -2.0])
    lines = [noted, batch(eps_id=[8] * 4)]
    found = {e.episode_id: e for e in read(json_file(tmp_path / "a.json", *lines))}
    assert np.array_equal(
        found["7"].logp, np.array([-0.5, np.nan, -1.5, -2], np.float32), equal_nan=True
    )
    assert found["8"].logp is None


def test_gzipped_lines_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        file.write(json.dumps(batch()))
    assert [len(episode) for episode in read(tmp_path)] == [4]


FLAT = {
    "discrete": gym.spaces.Discrete(5),
    "multi discrete": gym.spaces.MultiDiscrete([2, 3]),
    "dict": gym.spaces.Dict(
        {"a": gym.spaces.Discrete(3), "b": gym.spaces.Dict({"c": gym.spaces.Box(-1, 1, (2, 2))})}
    ),
    "tuple": gym.spaces.Tuple([gym.spaces.MultiBinary(3), gym.spaces.Discrete(4)]),
}


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("is_packed", [False, True])
def test_observations_that_rllib_has_flattened_are_read(
    tmp_path: Path, name: str, is_packed: bool
) -> None:
    """Its preprocessors flatten as gymnasium does: choices one-hot, parts side by side."""
    space = FLAT[name]
    space.seed(0)
    seen = [space.sample() for _ in range(8)]
    flat = [gym.spaces.flatten(space, obs).astype(float).tolist() for obs in seen]
    columns = {"obs": flat[:-1], "new_obs": flat[1:]}
    if is_packed:
        columns = {name: packed(column) for name, column in columns.items()}
    file = json_file(tmp_path / "a.json", batch(7, **columns))
    spaces = DataSpaces(space, gym.spaces.Discrete(2))
    [episode] = read(file, spaces)
    rows = np.concatenate([spaces.obs_layout.rows(obs, batched=False) for obs in seen])
    expected = spaces.obs_layout.leaves(rows)
    for path, leaf in spaces.obs_layout.leaves(episode.obs).items():
        assert np.array_equal(leaf, expected[path])


def test_a_choice_that_is_not_one_hot_is_named(tmp_path: Path) -> None:
    rows = [[0, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]]
    file = json_file(tmp_path / "a.json", batch(obs=rows, new_obs=rows))
    with pytest.raises(DataError, match=r"row 2, column 'obs': \[0, 1, 1\] is not one-hot"):
        read(file, DataSpaces(gym.spaces.Discrete(3), gym.spaces.Discrete(2)))


# ---------------------------------------------------------------------------- spaces


def test_spaces_are_told_from_the_data(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    json_file(tmp_path / "a.json", batch(), batch(eps_id=[8] * 4, actions=[0, 2, 1, 0]))
    with caplog.at_level(logging.WARNING):
        spaces = find_source(tmp_path).infer_spaces()
    assert spaces.observation == gym.spaces.Box(-np.inf, np.inf, (4,))
    assert spaces.action == gym.spaces.Discrete(3)
    assert "told from the largest values" in caplog.text


def test_nested_spaces_are_told_from_objects(tmp_path: Path) -> None:
    obs = {"x": [[0.5, 1]] * 4, "n": {"count": [0, 1, 5, 2]}}
    actions = [[0, 3], [1, 0], [1, 1], [0, 0]]
    line = batch(obs=obs, new_obs=obs, actions=actions)
    spaces = find_source(json_file(tmp_path / "a.json", line)).infer_spaces()
    assert spaces.observation == gym.spaces.Dict(
        {
            "x": gym.spaces.Box(-np.inf, np.inf, (2,)),
            "n": gym.spaces.Dict({"count": gym.spaces.Box(-np.inf, np.inf, ())}),
        }
    )
    assert spaces.action == gym.spaces.MultiDiscrete([2, 4])
    [episode] = read(tmp_path / "a.json")
    assert episode.obs["n/count"].tolist() == [0, 1, 5, 2, 2]


def test_whole_numbers_are_no_categories(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    obs = {"customers": [12, 199_989, 3, 4], "open": [True, False, True, True]}
    source = find_source(json_file(tmp_path / "a.json", batch(obs=obs, new_obs=obs)))
    with caplog.at_level(logging.WARNING):
        found = source.infer_spaces().observation
    assert found["customers"] == gym.spaces.Box(-np.inf, np.inf, ())
    assert found["open"] == gym.spaces.Discrete(2)
    assert "whole numbers in observations of" in caplog.text
    assert "give observation_space if they are some" in caplog.text
    json_file(tmp_path / "a.json", batch(actions=[0, 255, 1, 2]))
    assert source.infer_spaces().action == gym.spaces.Discrete(256)
    json_file(tmp_path / "a.json", batch(actions=[0, 256, 1, 2]))
    with pytest.raises(DataError, match=r"257 choices in action_space; allowed .*: 256; give"):
        source.infer_spaces()


def test_a_column_goes_before_its_leaves(tmp_path: Path) -> None:
    line = batch() | {"obs/x": [1.0] * 4}
    spaces = find_source(json_file(tmp_path / "a.json", line)).infer_spaces()
    assert spaces.observation == gym.spaces.Box(-np.inf, np.inf, (4,))


def test_packed_bytes_are_told_as_such(tmp_path: Path) -> None:
    obs = packed(np.zeros((4, 6, 6), np.uint8))
    line = batch(obs=obs, new_obs=obs)
    spaces = find_source(json_file(tmp_path / "a.json", line)).infer_spaces()
    assert spaces.observation == gym.spaces.Box(0, 255, (6, 6), np.uint8)


# ---------------------------------------------------------------------------- memory


def test_many_lines_are_read_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("w") as file:
        for number in range(100):
            file.write(json.dumps(batch(200, eps_id=[number] * 200)) + "\n")
    size = (tmp_path / "a.json").stat().st_size
    tracemalloc.start()
    rows = sum(len(episode) for episode in find_source(tmp_path).episodes(CARTPOLE))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 20_000
    assert peak < size / 2  # as Python's own numbers the file would take ten times its size
