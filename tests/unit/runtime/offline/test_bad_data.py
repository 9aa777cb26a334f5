"""What may be wrong with data: one message each, which names file and row, or the setting."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from episode_files import batch, json_file, written
from offline_fakes import CARTPOLE, FakeSource, random_episodes
from test_packed_columns import Runs, packed

from trainables import BC, BCConfig, DQNConfig, PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.inputs import find_source

PENDULUM = DataSpaces(
    gym.make("Pendulum-v1").observation_space, gym.make("Pendulum-v1").action_space
)
Make = Callable[[Path], Path]


def parquet(edit: Callable[[pa.Table], pa.Table], spaces: DataSpaces = CARTPOLE) -> Make:
    """Parquet files of two episodes, of 3 and 4 rows, whose table was edited."""

    def make(folder: Path) -> Path:
        written(folder, random_episodes(spaces, [3, 4]), spaces)
        [file] = folder.glob("*.parquet")
        pq.write_table(edit(pq.read_table(file)), file)
        return file

    return make


def with_values(column: str, values: dict[int, Any], type_: pa.DataType | None = None) -> Make:
    """Parquet files in which some rows of a column have other values."""

    def edit(table: pa.Table) -> pa.Table:
        items = table.column(column).to_pylist()
        for row, value in values.items():
            items[row] = value
        index = table.column_names.index(column)
        new = pa.array(items, type_ or table.schema.field(column).type)
        return table.set_column(index, column, new)

    return parquet(edit)


def lines(*given: dict[str, Any] | str) -> Make:
    """A file of JSON lines."""
    return lambda folder: json_file(_made(folder) / "data.json", *given)


def content(name: str, data: bytes) -> Make:
    """A file of these bytes."""

    def make(folder: Path) -> Path:
        (_made(folder) / name).write_bytes(data)
        return folder / name

    return make


def cut(size: float) -> Make:
    """A Parquet file of which only this share of the bytes is there."""

    def make(folder: Path) -> Path:
        file = parquet(lambda table: table)(folder)
        file.write_bytes(file.read_bytes()[: int(size * file.stat().st_size)])
        return file

    return make


def scrambled(folder: Path) -> Path:
    """A Parquet file with zeros where its first column begins."""
    file = parquet(lambda table: table)(folder)
    data = file.read_bytes()
    file.write_bytes(data[:4] + bytes(600) + data[604:])
    return file


def beside(*makes: Make) -> Make:
    """A folder with several files."""

    def make(folder: Path) -> Path:
        for number, each in enumerate(makes):
            file = each(folder / f"part{number}")
            file.rename(folder / f"{number}{file.suffix}")
        return folder

    return make


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def of_pendulum(folder: Path) -> Path:
    """A whole file of other spaces."""
    return parquet(lambda table: table, PENDULUM)(folder)


def images_beside_vectors(folder: Path) -> Path:
    """Files of two spaces of the same format, neither of which states its own."""
    json_file(_made(folder) / "a.json", batch())
    json_file(folder / "b.json", batch(obs=[[1.0]] * 4, new_obs=[[1.0]] * 4))
    return folder


def no_ends(folder: Path) -> Path:
    """Steps without ids of episodes and without an end."""

    def edit(table: pa.Table) -> pa.Table:
        table = table.drop_columns(["episode_id", "t"])
        for column in ("terminated", "truncated"):
            index = table.column_names.index(column)
            table = table.set_column(index, column, pa.array([False] * len(table)))
        return table

    return parquet(edit)(folder)


def object_array(folder: Path) -> Path:
    """A packed column of Python objects, which unpickling would make by running code."""
    array = np.array([Runs(folder / "run")] * 4, object)
    return lines(batch(obs=packed(array)))(folder)


def planted(folder: Path) -> Path:
    """A packed column that runs a command when it is unpickled."""
    return lines(batch(obs=packed(Runs(folder / "run"))))(folder)


def planted_in_parquet(folder: Path) -> Path:
    """A column of pickles."""

    def edit(table: pa.Table) -> pa.Table:
        bad = pa.array([pickle.dumps(Runs(folder / "run"))] * len(table), pa.binary())
        return table.set_column(table.column_names.index("obs"), "obs", bad)

    return parquet(lambda table: edit(table.replace_schema_metadata(None)))(folder)


def packed_in_parquet(folder: Path) -> Path:
    """A column that RLlib's reader would unpack, and so unpickle, row by row."""

    def edit(table: pa.Table) -> pa.Table:
        bad = pa.array([packed(Runs(folder / "run"))] * len(table))
        table = table.replace_schema_metadata(None)
        return table.set_column(table.column_names.index("obs"), "obs", bad)

    return parquet(edit)(folder)


def huge(folder: Path) -> Path:
    """A packed column of few bytes that stands for 2^60 numbers."""
    forged = pickle.dumps(np.zeros(4, np.float32), protocol=0).replace(b"I4\n", b"I%d\n" % 2**60)
    import base64

    frame = pa.compress(forged, codec="lz4", asbytes=True)
    return lines(batch(obs=base64.b64encode(frame).decode()))(folder)


CUT_LINE = json.dumps(batch(eps_id=[9] * 4))[:-40]
WIDE = [[0.5, 1.0, 0.25, -1.0, 3.0]] * 4
RAGGED = [[0.5, 1, 2, 3], [0.5, 1, 2], [0.5, 1, 2, 3], [0.5, 1, 2, 3]]
LATER = [0, 1, 2, 3], [4, 5, 6, 7]

# What is wrong, and what the message must say. `{file}` stands for the file's name.
BAD: dict[str, tuple[Make, str]] = {
    "missing column": (
        parquet(lambda table: table.drop_columns(["reward"])),
        r"{file}, row 0, column 'reward': the column is missing; needed: .*'rewards'",
    ),
    "missing column of a line": (
        lines(batch(), batch(rewards=None)),
        r"{file}, line 2, row 0, column 'reward': the column is missing",
    ),
    "no column of ends": (
        parquet(lambda table: table.drop_columns(["terminated", "truncated"])),
        r"{file}, row 0, column 'terminated': the column is missing; needed: .*'terminateds'",
    ),
    "wrong shape": (
        lines(batch(), batch(obs=WIDE, new_obs=WIDE)),
        r"{file}, line 2, row 0, column 'obs': values have shape \(5,\), not \(4,\)",
    ),
    "ragged rows": (
        lines(batch(obs=RAGGED)),
        r"{file}, line 1, row 1, column 'obs': the row has shape \(3,\), those before it \(4,\)",
    ),
    "ragged rows of Parquet": (
        with_values("obs", {5: [0.5, 1.0]}),
        r"{file}, row 5, column 'obs': 2 values, 4 in the rows before it",
    ),
    "wrong type": (
        with_values("reward", {n: "1" for n in range(7)}, pa.string()),
        r"{file}, row 0, column 'reward': it is bytes, or a text, but no packed array",
    ),
    "text among numbers": (
        lines(batch(rewards=[1, 1, "one", 1])),
        r"{file}, line 1, row [02], column 'rewards': the value is '.*'; allowed: numbers",
    ),
    "missing value": (
        with_values("action", {4: None}),
        r"{file}, row 4, column 'action': the value is missing \(null\)",
    ),
    "missing value of a line": (
        lines(batch(actions=[0, 1, None, 1])),
        r"{file}, line 1, row 2, column 'actions': the value is missing \(null\)",
    ),
    "NaN in an observation": (
        with_values("obs", {2: [0.0, float("nan"), 0.0, 0.0]}),
        r"{file}, row 2, column 'obs': \[.*nan.*\] is not finite",
    ),
    "infinite reward": (
        with_values("reward", {6: float("inf")}),
        r"{file}, row 6, column 'reward': inf is not finite",
    ),
    "NaN reward of a line": (
        lines(batch(rewards=[1, float("nan"), 1, 1])),
        r"{file}, line 1, row 1, column 'rewards': nan is not finite",
    ),
    "action outside of Discrete": (
        with_values("action", {3: 2}),
        r"{file}, row 3, column 'action': 2 is not in Discrete\(2\)",
    ),
    "fraction as a discrete action": (
        with_values("action", {3: 0.5}, pa.float64()),
        r"{file}, row 3, column 'action': 0.5 does not fit the type int64 of Discrete\(2\)",
    ),
    "no episode ends": (
        no_ends,
        r"{file}, row 6, column 'terminated': no row up to this one ends an episode",
    ),
    "no episode ends in lines": (
        lines(batch(eps_id=None, t=None, terminateds=[False] * 4)),
        r"{file}, line 1, row 0, column 'terminateds': no row up to this one ends an episode",
    ),
    "goes on after it terminated": (
        lines(batch(t=LATER[0]), batch(t=LATER[1])),
        r"{file}, row 4: the episode '7' goes on with step 4, but step 3 has terminated it",
    ),
    "steps out of order": (
        lines(batch(t=[0, 2, 1, 3])),
        r"{file}, row 2, column 't': step 1 of the episode '7' comes after step 2",
    ),
    "steps that are none": (
        lines(batch(t=[0, 1, 2.5, 3])),
        r"{file}, line 1, row 2, column 't': 2.5 is no whole number",
    ),
    "several policies": (
        lines(
            {
                "type": "MultiAgentBatch",
                "policy_batches": dict.fromkeys("ab", batch(agent_index=None)),
            }
        ),
        r"{file}, line 1: it has the policies \['a', 'b'\], and not all of them have a column 'age",
    ),
    "columns of different lengths": (
        lines(batch(), batch(rewards=[1.0] * 3)),
        r"{file}, line 2, row 0: the columns have different numbers of rows: .*'rewards': 3",
    ),
    "observations of another length": (
        lines(batch(obs=[[0.5, 1, 2, 3]] * 3)),
        r"{file}, line 1, row 3, column 'obs': it has 3 rows, 'rewards' has 4",
    ),
    "empty Parquet file": (content("a.parquet", b""), r"{file}: it is no whole Parquet file"),
    "empty file of lines": (content("a.json", b""), r"{file}.*there are no rows"),
    "no rows": (parquet(lambda table: table.slice(0, 0)), r"{file}.*there are no rows"),
    "no rows in lines": (lines(batch(0, terminateds=[])), r"{file}.*there are no rows"),
    "truncated Parquet": (cut(0.6), r"{file}: it is no whole Parquet file"),
    "damaged Parquet": (scrambled, r"{file}, row 0 or one soon after it: the file is damaged"),
    "no Parquet": (content("a.parquet", b"obs,reward\n1,2\n" * 9), r"{file}: it is no whole Parq"),
    "no JSON": (lines(batch(), "obs,reward"), r"{file}, line 2: it is no JSON"),
    "no text": (content("a.json", b"\xff\xfe{}"), r"{file}, line 1: it is no JSON"),
    "nested without end": (content("a.json", b"[" * 10**5), r"{file}, line 1: it is no JSON"),
    "other JSON": (lines({"a": 1}), r"{file}, line 1: it is no object with a 'type'"),
    "unknown type of line": (
        lines({"type": "Trajectory"}),
        r"{file}, line 1: type 'Trajectory' is not known; allowed: 'SampleBatch'",
    ),
    "line of a killed writer": (
        lambda folder: content("a.json", f"{json.dumps(batch())}\n{CUT_LINE}".encode())(folder),
        r"{file}, line 2: it is no JSON: .*; a writer that is killed leaves such a last line",
    ),
    "planted pickle": (planted, r"{file}, line 1, row 0, column 'obs': .*pickles are not loaded"),
    "packed objects": (object_array, r"{file}, line 1, row 0, column 'obs': .*array of type 'O8'"),
    "pickles in Parquet": (
        planted_in_parquet,
        r"{file}, row 0, column 'obs': it is bytes, or a text, but no packed array",
    ),
    "packed pickles in Parquet": (
        packed_in_parquet,
        r"{file}, row 0, column 'obs': .*pickles are not loaded",
    ),
    "huge packed column": (huge, r"{file}, line 1, row 0, column 'obs': it is no whole packed"),
    "no packed column": (
        lines(batch(obs="QUJD")),
        r"{file}, line 1, row 0, column 'obs': it is no whole packed column",
    ),
    "mixed schemas": (
        beside(parquet(lambda table: table), parquet(lambda table: table.drop_columns(["action"]))),
        r"1\.parquet, row 0, column 'action': the column is missing",
    ),
    "mixed formats": (
        beside(parquet(lambda table: table), lines(batch())),
        r"files of several formats lie together, .*0\.parquet and .*1\.json; allowed: one format",
    ),
    "mixed spaces": (
        beside(parquet(lambda table: table), of_pendulum),
        r"1\.parquet, column 'obs': it states Box\(.*0\.parquet",
    ),
    "mixed spaces that nothing states": (
        images_beside_vectors,
        r"b\.json, line 1, row 0, column 'obs': values have shape \(1,\), not \(4,\)",
    ),
    "spaces that are unreadable": (
        parquet(lambda table: table.replace_schema_metadata({"tunescape": "{"})),
        r"{file}: the spaces that it states are unreadable",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_message(name: str, tmp_path: Path) -> None:
    make, problem = BAD[name]
    path = make(tmp_path / "data")
    with pytest.raises(DataError) as caught:
        load_data_set(find_source(path), cache=tmp_path / "cache")
    message = str(caught.value)
    assert re.search(problem.replace("{file}", re.escape(path.name)), message), message
    assert "\n" not in message and len(message) < 900
    assert caught.value.__cause__ is None and caught.value.__suppress_context__ in (True, False)
    assert not [*(tmp_path / "cache").glob("*/*.arrow")]  # nothing half made is left
    assert not (tmp_path / "data" / "run").exists()  # no planted code has run


# ---------------------------------------------------------------------------- by settings


@pytest.mark.parametrize(
    ("input_", "problem"),
    [
        ("{tmp}/nowhere.parquet", r"nowhere\.parquet: there is no such file or folder"),
        ("{tmp}/nowhere/*.json", r"nowhere/\*\.json: no file matches"),
        ("{tmp}/empty", r"empty: the folder has no files of data; allowed: \.parquet"),
        ("{tmp}/notes.txt", r"notes\.txt: its name tells no format; allowed: \.parquet"),
        ("host://somewhere/x.parquet", r"host://somewhere/x\.parquet cannot be reached"),
        ("minari:nobody/nothing-v0", r"nobody/nothing-v0: .*minari download|extra `minari`"),
        ("no_such_reader", r"no_such_reader"),
        ([], r"input_ = \[\] is not allowed: .*one at least"),
        ([""], r"input_ = \[''\] is not allowed"),
        (3, r"input_ = 3 is not allowed"),
        ({}, r"input_ = \{\} is not allowed: its shares sum to 0"),
        ({"{tmp}/a.json": 0}, r"its shares sum to 0, so nothing would be drawn"),
        ({"{tmp}/a.json": -0.5, "sampler": 1}, r"the share of '.*a\.json' is -0\.5"),
        ({"{tmp}/a.json": float("nan")}, r"the share of '.*a\.json' is nan"),
        ({"{tmp}/a.json": "half"}, r"the share of '.*a\.json' is 'half'"),
        ({"{tmp}/a.json": 0.5, "{tmp}/nowhere.json": 0.5}, r"nowhere\.json: there is no such file"),
    ],
)
def test_bad_sources_are_one_message(
    input_: Any, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    json_file(tmp_path / "a.json", batch())
    with pytest.raises(ConfigError) as caught:
        BCConfig().environment("CartPole-v1").offline_data(input_=placed(input_, tmp_path)).build()
    message = str(caught.value)
    assert re.search(problem, message), message
    assert "\n" not in message


def placed(input_: Any, folder: Path) -> Any:
    """The value of `input_` with a folder for `{tmp}`."""
    if isinstance(input_, str):
        return input_.replace("{tmp}", str(folder))
    if isinstance(input_, dict):
        return {placed(key, folder): share for key, share in input_.items()}
    return input_


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"input_config": {"format": "csv"}}, r"format ?= ?'csv' is not"),
        ({"input_config": {"fromat": "json"}}, r"'fromat'.*did you mean 'format'"),
        ({"input_config": {"clip_actions": 1}}, r"clip_actions ?= ?1 is not allowed"),
        ({"input_config": {"format": "parquet"}}, r"a\.json: it is no whole Parquet file"),
        ({"shuffle_buffer_size": 5}, r"shuffle_buffer_size = 5 has no effect"),
    ],
)
def test_bad_settings_of_reading_are_one_message(
    settings: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    file = json_file(tmp_path / "a.json", batch())
    with pytest.raises(ConfigError, match=problem):
        BCConfig().environment("CartPole-v1").offline_data(input_=str(file), **settings).build()


def test_data_of_other_spaces_than_the_settings_are_refused(tmp_path: Path) -> None:
    file = json_file(tmp_path / "a.json", batch())
    config = BCConfig().offline_data(input_=str(file))
    spaces = {"observation_space": PENDULUM.observation, "action_space": CARTPOLE.action}
    with pytest.raises(DataError, match=r"a\.json, line 1, row 0, column 'obs': values have shape"):
        config.copy().environment(**spaces).build()
    with pytest.raises(DataError, match=r"a\.json, line 1, row 0, column 'obs': values have shape"):
        config.copy().environment("Pendulum-v1").build()
    stated = written(tmp_path / "stated", random_episodes(CARTPOLE, [3]), CARTPOLE)
    config = BCConfig().offline_data(input_=str(stated))
    with pytest.raises(ConfigError, match=r"observation_space = Box.* does not fit the data's Box"):
        config.copy().environment(**spaces).build()
    with pytest.raises(DataError, match=r"data-000000\.parquet, column 'obs': it states Box"):
        config.copy().environment("Pendulum-v1").build()


def test_two_sources_of_different_spaces_are_refused(tmp_path: Path) -> None:
    shares = {
        str(written(tmp_path / "a", random_episodes(CARTPOLE, [3]), CARTPOLE)): 0.5,
        str(written(tmp_path / "b", random_episodes(PENDULUM, [3]), PENDULUM)): 0.5,
    }
    with pytest.raises(ConfigError, match=r"input_: .*a and .*b are of different spaces"):
        BCConfig().offline_data(input_=shares).build()


def test_an_action_outside_of_its_bounds_says_what_to_do(tmp_path: Path) -> None:
    [episode] = random_episodes(PENDULUM, [4])
    episode.actions[2] = 2.5
    file = written(tmp_path, [episode], PENDULUM)
    message = r"row 2, column 'action': \[2\.5\] is outside of Box.*clip_actions.*normalized=True"
    with pytest.raises(DataError, match=message):
        load_data_set(find_source(file), cache=tmp_path / "cache")
    clipped = load_data_set(find_source(file, {"clip_actions": True}), cache=tmp_path / "cache")
    assert clipped.columns["actions"][2] == 2


def test_bounds_of_continuous_actions_must_be_given(tmp_path: Path) -> None:
    line = batch(obs=[[1.0] * 3] * 4, new_obs=[[1.0] * 3] * 4, actions=[[0.5]] * 4)
    file = json_file(tmp_path / "a.json", line)
    with pytest.raises(DataError, match=r"column 'actions': the bounds of continuous actions"):
        BCConfig().offline_data(input_=str(file)).build()
    given = (
        BCConfig()
        .offline_data(input_=str(file))
        .environment(observation_space=PENDULUM.observation, action_space=PENDULUM.action)
    )
    given.build().stop()


@pytest.mark.parametrize("config_class", [PPOConfig])
def test_who_learns_from_what_it_samples_refuses_data(config_class: Any, tmp_path: Path) -> None:
    file = json_file(tmp_path / "a.json", batch())
    with pytest.raises(ConfigError, match=r"input_ = .* is not possible with PPO: its advantages"):
        config_class().offline_data(input_=str(file))


def test_dqn_names_the_row_too(tmp_path: Path) -> None:
    file = json_file(tmp_path / "a.json", batch(actions=[0, 1, 5, 1]))
    config = DQNConfig().environment("CartPole-v1")
    config.offline_data(input_={"sampler": 0.5, str(file): 0.5})
    with pytest.raises(DataError, match=r"a\.json, line 1, row 2, column 'actions': 5 is not in"):
        config.build()


# ---------------------------------------------------------------------------- while it is read


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    file = json_file(tmp_path / "a.json", batch())
    file.chmod(0)
    source, me = find_source(file), os.geteuid()
    try:
        if me == 0:  # who may read all files
            os.seteuid(65534)
        with pytest.raises(DataError, match=r"(a\.json|_spaces): cannot be read: .*[Pp]ermission"):
            load_data_set(source, CARTPOLE, cache=tmp_path / "cache")
    finally:
        os.seteuid(me)


def test_a_file_that_is_gone_when_it_is_read_is_named(tmp_path: Path) -> None:
    for file in (json_file(tmp_path / "a.json", batch()), parquet(lambda t: t)(tmp_path / "b")):
        source = find_source(file)
        file.unlink()
        with pytest.raises(DataError, match=rf"{file.name}: cannot be read: .*[Nn]o such file"):
            load_data_set(source, cache=tmp_path / "cache")


def test_a_file_that_changes_while_it_is_read_is_no_data_set(tmp_path: Path) -> None:
    """Its digest would promise what is not in the columns."""
    file = json_file(tmp_path / "a.json", batch(), batch(eps_id=[8] * 4))
    source = find_source(file)
    read = source.episodes

    def changing(spaces: DataSpaces) -> Any:
        for episode in read(spaces):
            yield episode
            json_file(file, batch(eps_id=[9] * 4))

    source.episodes = changing  # type: ignore[method-assign]
    with pytest.raises(DataError, match=r"a\.json has changed while it was read"):
        load_data_set(source, cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"obs": np.zeros((4, 4), np.float32)}, "column 'obs': values are float32"),
        ({"rewards": np.zeros(3)}, "column 'rewards': values are float64"),
        ({"actions": np.full(3, 7)}, r"column 'actions': 7 is not in Discrete\(2\)"),
        ({"logp": np.zeros(2, np.float32)}, "column 'logp': values are float32"),
    ],
)
def test_what_a_source_of_ones_own_gives_is_checked(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    [episode] = random_episodes(CARTPOLE, [3])
    if "obs" in change:
        change = {"obs": np.full((4, 4), np.inf, np.float32)}
        problem = "column 'obs': .*inf.* is not finite"
    source = FakeSource([replace(episode, **change)], CARTPOLE)
    with pytest.raises(DataError, match=problem):
        load_data_set(source, cache=tmp_path / "cache")


def test_the_errors_reach_whoever_trains(tmp_path: Path) -> None:
    """`BC(config)` is what Tune calls."""
    file = json_file(tmp_path / "a.json", batch(rewards=[1, float("inf"), 1, 1]))
    with pytest.raises(DataError, match=r"a\.json, line 1, row 1, column 'rewards': inf"):
        BC({"env": "CartPole-v1", "input_": str(file)})
