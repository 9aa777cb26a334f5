"""Conversion of episodes to mapped columns: what lies where, and that it is whole or not there."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pytest
from offline_fakes import CARTPOLE, FakeSource, random_episodes

from trainables.runtime.offline import columns as columns_module
from trainables.runtime.offline.cache import VARIABLE, cache_folder, locked
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.read_options import ReadOptions

LENGTHS = (3, 1, 4)
NESTED = DataSpaces(
    gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,)), "b": gym.spaces.Discrete(3)}),
    gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (1,))]),
)


def source(spaces: DataSpaces = CARTPOLE, lengths: tuple[int, ...] = LENGTHS) -> FakeSource:
    return FakeSource(random_episodes(spaces, lengths), spaces)


def test_episodes_lie_one_behind_another_each_with_a_row_for_its_last_observation(
    tmp_path: Path,
) -> None:
    given = source()
    data = load_data_set(given, cache=tmp_path)
    columns = data.columns
    assert (data.num_rows, data.num_steps, data.num_episodes) == (11, 8, 3)
    assert columns["valid"].tolist() == [1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0]
    assert data.next_valid.tolist() == [1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0]
    assert columns["is_first"].nonzero()[0].tolist() == [0, 4, 6]
    assert columns["terminated"].nonzero()[0].tolist() == [2]
    assert columns["truncated"].nonzero()[0].tolist() == [4]  # the third ends amid the episode
    assert np.isnan(columns["logp"]).all()
    obs = np.concatenate([episode.obs for episode in given.given])
    assert (columns["obs"] == obs).all()
    for name in ("actions", "rewards"):
        rows = np.concatenate([getattr(episode, name) for episode in given.given])
        assert (columns[name][columns["valid"]] == rows).all()
        assert not columns[name][~columns["valid"]].any()
    table = data.episodes
    assert table["first_row"].tolist() == data.first_rows[:-1].tolist() == [0, 4, 6]
    assert data.steps_before.tolist() == [0, 3, 4] and data.first_rows[-1] == 11
    assert table["length"].tolist() == [*LENGTHS]
    assert table["return"] == pytest.approx([e.rewards.sum() for e in given.given], rel=1e-6)
    assert table["row"].tolist() == [0, 3, 4] and data.files == ("fake",)
    assert not any(column.flags.writeable for column in columns.values())


def test_columns_are_files_of_arrow_that_nothing_is_copied_from(tmp_path: Path) -> None:
    data = load_data_set(source(), cache=tmp_path)
    for name in ("obs", "actions", "rewards", "valid"):
        table = pa.ipc.open_file(pa.memory_map(str(data.folder / f"{name}.arrow"))).read_all()
        rows = np.array(table.column(0).to_pylist())
        assert (rows[: data.num_rows] == data.columns[name]).all()
        assert not data.columns[name].flags.owndata
    assert data.nbytes == sum(path.stat().st_size for path in data.folder.glob("*.arrow"))


def test_nested_spaces_are_records(tmp_path: Path) -> None:
    given = source(NESTED)
    data = load_data_set(given, cache=tmp_path)
    obs = np.concatenate([episode.obs for episode in given.given])
    for name in ("a", "b"):
        assert (data.columns["obs"][name] == obs[name]).all()
    assert data.columns["actions"].dtype == NESTED.action_layout.dtype


def test_log_probabilities_are_kept_where_somebody_noted_them(tmp_path: Path) -> None:
    episodes = random_episodes(CARTPOLE, (2, 2))
    episodes[1] = replace(episodes[1], logp=np.array([-1, -2], np.float32))
    logp = load_data_set(FakeSource(episodes, CARTPOLE), cache=tmp_path).columns["logp"]
    np.testing.assert_array_equal(logp, [np.nan] * 3 + [-1, -2, np.nan])


def test_pieces_of_an_episode_become_one_where_they_follow_each_other(tmp_path: Path) -> None:
    [whole] = random_episodes(CARTPOLE, (6,))
    pieces = [
        replace(
            whole,
            obs=whole.obs[a : b + 1],
            actions=whole.actions[a:b],
            rewards=whole.rewards[a:b],
            terminated=whole.terminated and b == 6,
            first_step=a,
        )
        for a, b in ((0, 2), (2, 5), (5, 6))
    ]
    one = load_data_set(FakeSource([whole], CARTPOLE), cache=tmp_path)
    joined = load_data_set(FakeSource(pieces, CARTPOLE), cache=tmp_path)
    assert one.folder != joined.folder
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column, joined.columns[name])
    assert (joined.num_episodes, joined.episodes["length"].tolist()) == (1, [6])
    gone = load_data_set(FakeSource([pieces[0], pieces[2]], CARTPOLE), cache=tmp_path)
    assert gone.num_episodes == 2 and gone.columns["is_first"].tolist() == [1, 0, 0, 1, 0]
    assert gone.episodes["first_step"].tolist() == [0, 5]


def test_it_is_converted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = source()
    with caplog.at_level(logging.INFO, "trainables"):
        first = load_data_set(given, cache=tmp_path)
        again = load_data_set(given, cache=tmp_path)
    assert given.reads == 1
    assert (first.digest, first.folder) == (again.digest, again.folder)
    [said] = [record.getMessage() for record in caplog.records]
    assert "8 steps of 3 episodes" in said and "MB on the disk" in said and str(tmp_path) in said


def test_other_contents_spaces_or_ways_to_read_are_another_data_set(tmp_path: Path) -> None:
    given = source()
    first = load_data_set(given, cache=tmp_path)
    wider = DataSpaces(gym.spaces.Box(-99, 99, (4,), np.float32), CARTPOLE.action)
    assert load_data_set(given, wider, tmp_path).digest != first.digest
    assert load_data_set(source(lengths=(3, 1)), cache=tmp_path).digest != first.digest
    given.options = ReadOptions(clip_actions=True)
    assert load_data_set(given, cache=tmp_path).digest != first.digest
    assert given.reads == 3


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine"))
    assert load_data_set(source()).folder.parent == tmp_path / "mine"
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "tunescape" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "tunescape" / "data"


# ------------------------------------------------------------------ damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def garbled(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("obs.arrow", cut),
        ("rewards.arrow", Path.unlink),
        ("valid.arrow", garbled),
        ("contents.json", garbled),
        ("contents.json", Path.unlink),
    ],
)
def test_a_damaged_cache_is_named_and_made_again(
    name: str, damage: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = source()
    first = load_data_set(given, cache=tmp_path)
    expected = {name: column.copy() for name, column in first.columns.items()}
    damage(first.folder / name)
    with caplog.at_level(logging.WARNING, "trainables"):
        again = load_data_set(given, cache=tmp_path)
    assert given.reads == 2
    for column, values in expected.items():
        np.testing.assert_array_equal(again.columns[column], values)
    [said] = [record.getMessage() for record in caplog.records]
    assert str(first.folder) in said and "made again" in said


def test_a_full_disk_is_one_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(columns_module, "write_column", full)
    with pytest.raises(DataError, match=r"fake cannot be converted .*: the disk is full; .*CACHE"):
        load_data_set(source(), cache=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    monkeypatch.undo()
    assert load_data_set(source(), cache=tmp_path).num_steps == 8


def test_notes_that_are_none_are_made_again(tmp_path: Path) -> None:
    folder = load_data_set(source(), cache=tmp_path).folder
    whole = json.loads((folder / "contents.json").read_text())
    noted = whole["noted"]
    for bad in (
        *({}, [], "x", None),
        *({**noted, "num_rows": "x"}, {**noted, "num_steps": 3}, {**noted, "files": 3}),
        *({**noted, "num_rows": 10**30, "num_steps": 10**30 - 3}, {**noted, "files": [1]}),
    ):
        (folder / "contents.json").write_text(json.dumps({**whole, "noted": bad}))
        assert load_data_set(source(), cache=tmp_path).num_steps == 8, bad
    for text in ("{}", "[]", '"x"', "[" * 10**5, '{"files": [], "noted": {}}'):
        (folder / "contents.json").write_text(text)
        assert load_data_set(source(), cache=tmp_path).num_steps == 8, text
    assert json.loads((folder / "contents.json").read_text()) == whole


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=rf"fake cannot be converted into .*{VARIABLE}"):
        load_data_set(source(), cache=tmp_path / "file" / "below")


def test_an_error_of_the_data_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fake holds no step to learn from"):
        load_data_set(FakeSource([], CARTPOLE), cache=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_spaces_are_given_stated_or_inferred(tmp_path: Path) -> None:
    other = DataSpaces(gym.spaces.Box(-1, 1, (3,), np.float32), CARTPOLE.action)
    with pytest.raises(DataError, match=r"fake, column 'obs': it states Box.*shape \(3,\) against"):
        load_data_set(source(), other, tmp_path)
    silent = FakeSource(random_episodes(CARTPOLE, LENGTHS), CARTPOLE, states_spaces=False)
    assert load_data_set(silent, cache=tmp_path).spaces == CARTPOLE


# ------------------------------------------------------------------ several processes

_CONVERT = """
import sys, time
from pathlib import Path
import offline_fakes
from trainables.runtime.offline.data_set import load_data_set

class Slow(offline_fakes.FakeSource):
    def episodes(self, spaces):
        Path(sys.argv[2]).write_text("reads")
        for episode in self.given:
            time.sleep(float(sys.argv[3]))
            yield episode

episodes = offline_fakes.random_episodes(offline_fakes.CARTPOLE, (3, 1, 4))
data = load_data_set(Slow(episodes, offline_fakes.CARTPOLE), cache=Path(sys.argv[1]))
print(data.num_steps)
"""


def converting(cache: Path, begun: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that converts the same as `source`, so many seconds for an episode."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", _CONVERT, str(cache), str(begun), str(seconds)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=env)


def wait_for(path: Path) -> None:
    until = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.full("test_the_lock_is_held_by_one_at_a_time")
def test_of_two_processes_one_converts_and_the_other_waits(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    process = converting(tmp_path / "cache", begun, 0.3)
    wait_for(begun)
    given = source()
    data = load_data_set(given, cache=tmp_path / "cache")
    output, _ = process.communicate(timeout=120)
    assert (given.reads, data.num_steps, output) == (0, 8, "8\n")


@pytest.mark.full("test_an_error_of_the_data_leaves_nothing")
def test_a_killed_conversion_leaves_nothing_that_is_taken_for_whole(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    process = converting(tmp_path / "cache", begun, 60)
    wait_for(begun)
    [part] = (tmp_path / "cache").glob("*.part")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert part.exists()
    given = source()
    data = load_data_set(given, cache=tmp_path / "cache")
    assert given.reads == 1 and data.num_steps == 8
    assert not part.exists()


def test_the_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path / "a", "it"):
        with locked(tmp_path / "b", "it"):
            pass
        with (tmp_path / "a.lock").open("w") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
