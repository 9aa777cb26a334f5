"""RLlib's Parquet files with an episode a row, made here as RLlib 2.60 makes them."""

from __future__ import annotations

import base64
import io
import pickle
import zlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import Golden, refusals

from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.inputs import find_source

BOX = gym.spaces.Box(np.array([-9, -np.inf], np.float32), np.array([9, np.inf], np.float32))
SPACES = DataSpaces(BOX, gym.spaces.Discrete(2))


def encoded(value: Any) -> Any:
    """An array, or a number of numpy's, as msgpack_numpy encodes it."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return {b"nd": True, b"type": "|O", b"kind": b"O", b"data": pickle.dumps(value)}
        fields = {b"type": value.dtype.str, b"kind": b"", b"shape": value.shape}
        return {b"nd": True, **fields, b"data": value.tobytes()}
    return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}


def numbers(array: np.ndarray) -> str:
    """An array as RLlib writes those of spaces."""
    file = io.BytesIO()
    np.save(file, array)
    return base64.b64encode(zlib.compress(file.getvalue())).decode()


def described(space: gym.Space) -> dict[str, Any]:
    """A space as RLlib describes it."""
    if isinstance(space, gym.spaces.Box):
        ends = {"low": numbers(space.low), "high": numbers(space.high)}
        return {"space": "box", **ends, "shape": space.shape, "dtype": space.dtype.str}
    if isinstance(space, gym.spaces.Discrete):
        return {"space": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {
            "space": "multi-discrete",
            "nvec": numbers(space.nvec),
            "dtype": space.dtype.str,
        }
    if isinstance(space, gym.spaces.MultiBinary):
        return {"space": "multi-binary", "n": space.n}
    if isinstance(space, gym.spaces.Tuple):
        return {"space": "tuple", "spaces": [described(part) for part in space.spaces]}
    assert isinstance(space, gym.spaces.Dict)
    return {"space": "dict", "spaces": {key: described(p) for key, p in space.spaces.items()}}


def buffer(data: Any, lookback: int = 0) -> dict[str, Any]:
    return {"data": data, "lookback": lookback, "finalized": False, "space": None}


def state(length: int = 3, spaces: DataSpaces = SPACES, **changes: Any) -> dict[str, Any]:
    """An episode's state, of observations that count up."""
    obs = [np.array([step, -step], np.float32) for step in range(length + 1)]
    return {
        "id_": "first",
        "agent_id": None,
        "module_id": None,
        "observations": buffer(obs),
        "actions": buffer([np.int64(step % 2) for step in range(length)]),
        "rewards": buffer([float(step) for step in range(length)]),
        "infos": buffer(np.array([None, {}], object)),
        "extra_model_outputs": {
            "action_logp": buffer([np.float32(-step) for step in range(length)]),
        },
        "is_terminated": np.bool_(True),
        "is_truncated": False,
        "t_started": 0,
        "t": length,
        "_observation_space": described(spaces.observation),
        "_action_space": described(spaces.action),
        **changes,
    }


def written(file: Path, *states: Any) -> Path:
    """A file of these episodes."""
    items = [
        each if isinstance(each, bytes) else msgpack.packb(each, default=encoded) for each in states
    ]
    pq.write_table(pa.table({"item": pa.array(items, pa.binary())}), file)
    return file


def read(file: Path, spaces: DataSpaces | None = None) -> list[Episode]:
    source = find_source(file)
    found = spaces or source.spaces()
    assert found is not None
    return list(source.episodes(found))


def test_episodes_are_read(tmp_path: Path) -> None:
    file = written(tmp_path / "x.parquet", state(), state(2, id_="second", is_terminated=False))
    assert find_source(file).spaces() == SPACES
    first, second = read(file)
    assert first.obs.tolist() == [[0, 0], [1, -1], [2, -2], [3, -3]]
    assert first.actions.tolist() == [0, 1, 0]
    assert first.rewards.tolist() == [0, 1, 2]
    assert first.logp is not None and first.logp.tolist() == [0, -1, -2]
    assert (first.terminated, first.truncated, first.episode_id) == (True, False, "first")
    assert (second.terminated, second.truncated, second.row) == (False, False, 1)
    assert len(second) == 2


def test_pieces_of_an_episode_are_joined_without_what_lies_before_them(tmp_path: Path) -> None:
    whole = state(5)
    data = {name: whole[name]["data"] for name in ("observations", "actions", "rewards")}
    early = state(2, is_terminated=False)
    late = state(
        3,
        t_started=2,
        observations=buffer(data["observations"][1:], 1),
        actions=buffer(data["actions"][1:], 1),
        rewards=buffer(data["rewards"][1:], 1),
        extra_model_outputs=None,
    )
    written(tmp_path / "1.parquet", early)
    written(tmp_path / "2.parquet", late)
    [episode] = read(tmp_path)
    [expected] = read(written(tmp_path / "whole.parquet", whole))
    assert episode.obs.tobytes() == expected.obs.tobytes()
    assert episode.rewards.tolist() == [0, 1, 2, 3, 4]
    assert episode.terminated


def test_nested_spaces_and_whole_arrays(tmp_path: Path) -> None:
    spaces = DataSpaces(
        gym.spaces.Dict({"x": BOX, "y": gym.spaces.Tuple([gym.spaces.MultiBinary(3)])}),
        gym.spaces.MultiDiscrete([2, 3]),
    )
    obs = [{"x": np.float32([n, n]), "y": (np.array([0, 1, n % 2], np.int8),)} for n in range(4)]
    actions = np.array([[0, 1], [1, 2], [0, 0]])
    nested = state(3, spaces, observations=buffer(obs), actions=buffer(actions))
    file = written(tmp_path / "x.parquet", nested)
    assert find_source(file).spaces() == spaces
    [episode] = read(file)
    assert episode.obs["x"].tolist() == [[n, n] for n in range(4)]
    assert episode.obs["y/0"].tolist() == [[0, 1, n % 2] for n in range(4)]
    assert episode.actions.tolist() == actions.tolist()


def test_spaces_come_from_settings_where_none_are_stated(tmp_path: Path) -> None:
    file = written(tmp_path / "x.parquet", state(_observation_space=None))
    assert find_source(file).spaces() is None
    assert len(read(file, SPACES)) == 1
    with pytest.raises(DataError, match=r"x.parquet, row 0: the episode states no spaces: give"):
        find_source(file).infer_spaces()


PLANTED = np.array([None], object)
HUGE = {b"nd": True, b"type": "<f8", b"kind": b"", b"shape": [2**40], b"data": b"1234"}


def test_bad_episodes_are_named(tmp_path: Path, golden: Golden) -> None:
    bad = {
        "no msgpack": b"\xc1",
        "another thing": msgpack.packb({"a": 1}),
        "pickled observations": state(observations=buffer(PLANTED)),
        "a pickle as observation": state(observations=buffer([PLANTED] * 4)),
        "no buffer": state(observations=3),
        "too few observations": state(observations=buffer([np.zeros(2)] * 3)),
        "observations of another shape": state(observations=buffer([np.zeros(3)] * 4)),
        "ragged observations": state(observations=buffer([np.zeros(n) for n in range(4)])),
        "NaN in observations": state(observations=buffer([np.full(2, np.nan)] * 4)),
        "more claimed than held": state(observations=buffer([HUGE] * 4)),
        "action outside of Discrete": state(actions=buffer([np.int64(2)] * 3)),
        "text as action": state(actions=buffer(["left"] * 3)),
        "infinite reward": state(rewards=buffer([np.inf] * 3)),
        "list as reward": state(rewards=buffer([[0.0]] * 3)),
    }
    place = {str(tmp_path): "<folder>"}

    def refused(item: Any) -> None:
        read(written(tmp_path / "x.parquet", state(), item), SPACES)

    golden("rllib_episodes/bad", refusals(refused, bad, DataError, replace=place))


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "load", None)
    with_pickles = state(infos=buffer([PLANTED] * 4), custom_data={"x": PLANTED})
    assert len(read(written(tmp_path / "x.parquet", with_pickles))) == 1


def test_damaged_spaces_are_named(tmp_path: Path) -> None:
    broken = described(BOX) | {"low": numbers(np.array([None], object))}
    for space, problem in ((broken, "unreadable"), ({"space": "text"}, "kind 'text' is not")):
        file = written(tmp_path / "x.parquet", state(_observation_space=space))
        with pytest.raises(DataError, match=f"row 0: the space that it states is .*{problem}"):
            find_source(file).spaces()
