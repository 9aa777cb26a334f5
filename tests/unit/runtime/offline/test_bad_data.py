"""What may be wrong with data: one message each, which names file and row, or the setting."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from episode_files import batch, json_file, written
from offline_fakes import CARTPOLE, FakeSource, random_episodes
from q_learning_runs import PENDULUM
from refusals import Golden, refusals
from test_packed_columns import Runs, packed

from trainables import BC, BCConfig, DQNConfig, PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.inputs import find_source

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
    frame = pa.compress(forged, codec="lz4", asbytes=True)
    return lines(batch(obs=base64.b64encode(frame).decode()))(folder)


CUT_LINE = json.dumps(batch(eps_id=[9] * 4))[:-40]
WIDE = [[0.5, 1.0, 0.25, -1.0, 3.0]] * 4
RAGGED = [[0.5, 1, 2, 3], [0.5, 1, 2], [0.5, 1, 2, 3], [0.5, 1, 2, 3]]
LATER = [0, 1, 2, 3], [4, 5, 6, 7]

BAD: dict[str, Make] = {
    "missing column": parquet(lambda table: table.drop_columns(["reward"])),
    "missing column of a line": lines(batch(), batch(rewards=None)),
    "no column of ends": parquet(lambda table: table.drop_columns(["terminated", "truncated"])),
    "wrong shape": lines(batch(), batch(obs=WIDE, new_obs=WIDE)),
    "ragged rows": lines(batch(obs=RAGGED)),
    "wrong shape of Parquet": with_values("obs", {n: [0.0] for n in range(7)}),
    "list as a reward": with_values("reward", {n: [1.0] for n in range(7)}, pa.list_(pa.float32())),
    "ragged rows of Parquet": with_values("obs", {5: [0.5, 1.0]}),
    "wrong type": with_values("reward", {n: "1" for n in range(7)}, pa.string()),
    "text among numbers": lines(batch(rewards=[1, 1, "one", 1])),
    "missing value": with_values("action", {4: None}),
    "missing number of an observation": with_values("obs", {4: [0.0, None, 0.0, 0.0]}),
    "missing value of a line": lines(batch(actions=[0, 1, None, 1])),
    "NaN in an observation": with_values("obs", {2: [0.0, float("nan"), 0.0, 0.0]}),
    "infinite reward": with_values("reward", {6: float("inf")}),
    "NaN reward of a line": lines(batch(rewards=[1, float("nan"), 1, 1])),
    "action outside of Discrete": with_values("action", {3: 2}),
    "fraction as a discrete action": with_values("action", {3: 0.5}, pa.float64()),
    "no episode ends": no_ends,
    "no episode ends in lines": lines(batch(eps_id=None, t=None, terminateds=[False] * 4)),
    "goes on after it terminated": lines(batch(t=LATER[0]), batch(t=LATER[1])),
    "steps out of order": lines(batch(t=[0, 2, 1, 3])),
    "steps that are none": lines(batch(t=[0, 1, 2.5, 3])),
    "several policies": lines(
        {
            "type": "MultiAgentBatch",
            "policy_batches": dict.fromkeys("ab", batch(agent_index=None)),
        }
    ),
    "no observations": lines(batch(), {**batch(), "obs": None}),
    "no observations in the first line": lines({**batch(), "obs": None}),
    "no rows of actions": lines(batch(actions=[])),
    "no parts of observations": lines(batch(obs={})),
    "a part that is none": lines(batch(obs={"x": None})),
    "lists as ids": with_values("episode_id", {n: [1] for n in range(7)}, pa.list_(pa.int64())),
    "structs as agents": with_values(
        "agent_id", {n: {"a": 1} for n in range(7)}, pa.struct({"a": pa.int64()})
    ),
    "actions without a number": parquet(
        lambda table: table.replace_schema_metadata(None).set_column(
            table.column_names.index("action"),
            "action",
            pa.array([[]] * len(table), pa.list_(pa.int64())),
        )
    ),
    "columns of different lengths": lines(batch(), batch(rewards=[1.0] * 3)),
    "observations of another length": lines(batch(obs=[[0.5, 1, 2, 3]] * 3)),
    "empty Parquet file": content("a.parquet", b""),
    "empty file of lines": content("a.json", b""),
    "no rows": parquet(lambda table: table.slice(0, 0)),
    "no rows in lines": lines(batch(0, terminateds=[])),
    "truncated Parquet": cut(0.6),
    "damaged Parquet": scrambled,
    "no Parquet": content("a.parquet", b"obs,reward\n1,2\n" * 9),
    "no JSON": lines(batch(), "obs,reward"),
    "no text": content("a.json", b"\xff\xfe{}"),
    "nested without end": content("a.json", b"[" * 10**5),
    "other JSON": lines({"a": 1}),
    "unknown type of line": lines({"type": "Trajectory"}),
    "line of a killed writer": content("a.json", f"{json.dumps(batch())}\n{CUT_LINE}".encode()),
    "planted pickle": planted,
    "packed objects": object_array,
    "pickles in Parquet": planted_in_parquet,
    "packed pickles in Parquet": packed_in_parquet,
    "huge packed column": huge,
    "no packed column": lines(batch(obs="QUJD")),
    "mixed schemas": beside(
        parquet(lambda table: table), parquet(lambda table: table.drop_columns(["action"]))
    ),
    "mixed formats": beside(parquet(lambda table: table), lines(batch())),
    "mixed spaces": beside(parquet(lambda table: table), of_pendulum),
    "mixed spaces that nothing states": images_beside_vectors,
    "spaces that are unreadable": parquet(
        lambda table: table.replace_schema_metadata({"tunescape": "{"})
    ),
}
# What a library says of what it cannot read, and how numpy writes bounds.
OF_LIBRARIES = {
    r"(cannot be reached): .*": r"\1: <why>",
    r"(no whole Parquet file|is damaged|are unreadable|no whole packed column): .*": r"\1: <why>",
    r"(it is no JSON): [^;]*": r"\1: <why>",
    r"'ascii' codec.*": "<why>",
    r"Box\(\[.*?\], \[.*?\], ": "Box(<bounds>, ",
    r"'(posix|nt)\.system'": "'<os>.system'",
}


def plain(texts: dict[str, str], folder: str) -> dict[str, str]:
    """Texts without what depends on the machine and on releases of libraries."""
    assert not [text for text in texts.values() if "\n" in text or len(text) > 900]
    hidden = {folder: "<folder>", re.escape(os.getcwd()): "<here>", **OF_LIBRARIES}
    for pattern, stands in hidden.items():
        texts = {case: re.sub(pattern, stands, text) for case, text in texts.items()}
    return texts


def test_bad_files_are_one_message(tmp_path: Path, golden: Golden) -> None:
    def load(name: str) -> None:
        path = BAD[name](tmp_path / name / "data")
        load_data_set(find_source(path), cache=tmp_path / "cache")

    texts = refusals(load, {name: name for name in BAD}, DataError)
    golden("bad_data/files", plain(texts, rf"{re.escape(str(tmp_path))}/[^/]*/data"))
    assert not [*(tmp_path / "cache").glob("*/*.arrow")]  # nothing half made is left
    assert not [*tmp_path.glob("*/data/run")]  # no planted code has run


# ---------------------------------------------------------------------------- by settings


INPUTS: list[Any] = [
    "{tmp}/nowhere.parquet",
    "{tmp}/nowhere/*.json",
    "{tmp}/nowhere/x.parquet",
    "{tmp}/empty",
    "{tmp}/others",
    "{tmp}/notes.txt",
    "host://somewhere/x.parquet",
    "minari:nobody/nothing-v0",
    "no_such_reader",
    ["file:///a.parquet", "s3://bucket/a.parquet"],
    ["minari:a", "x"],
    [],
    [""],
    3,
    {},
    {"{tmp}/a.json": 0},
    {"{tmp}/a.json": -0.5, "sampler": 1},
    {"{tmp}/a.json": float("nan")},
    {"{tmp}/a.json": "half"},
    {"{tmp}/a.json": 0.5, "{tmp}/nowhere.json": 0.5},
]
READING: list[dict[str, Any]] = [
    {"input_config": {"format": "xml"}},
    {"input_config": {"action_column": "a"}},
    {"input_config": {"action_column": ["a"]}},
    {"input_config": {"obs_columns": []}},
    {"input_config": {"obs_columns": ["a", 1]}},
    {"input_config": {"obs_columns": {"a": 1}}},
    {"input_config": {"reward_column": ""}},
    {"input_config": {"fromat": "json"}},
    {"input_config": {"clip_actions": 1}},
    {"input_config": {"format": "parquet"}},
    {"input_config": {"filesystem": "s3"}},
    {"input_config": {"paths": "s3://b/x", "filesystem": {"secret": "x"}}, "input_": "dataset"},
    {"shuffle_buffer_size": 5},
]


def test_bad_sources_and_settings_of_reading_are_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    for name in ("notes.txt", "others/notes.txt"):
        (tmp_path / name).write_text("x")
    file = json_file(tmp_path / "a.json", batch())

    def build(input_: Any, settings: dict[str, Any]) -> None:
        config = BCConfig().environment("CartPole-v1")
        config.offline_data(**{"input_": placed(input_, tmp_path), **settings}).build()

    cases: dict[str, Any] = {repr(input_): (input_, {}) for input_ in INPUTS}
    cases |= {repr(settings): (str(file), settings) for settings in READING}
    golden("bad_data/sources", plain(refusals(build, cases), re.escape(str(tmp_path))))


def placed(input_: Any, folder: Path) -> Any:
    """The value of `input_` with a folder for `{tmp}`."""
    if isinstance(input_, str):
        return input_.replace("{tmp}", str(folder))
    if isinstance(input_, dict):
        return {placed(key, folder): share for key, share in input_.items()}
    return input_


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


def test_who_learns_from_what_it_samples_refuses_data(tmp_path: Path) -> None:
    file = json_file(tmp_path / "a.json", batch())
    with pytest.raises(ConfigError, match=r"input_ = .* is not possible with PPO: its advantages"):
        PPOConfig().offline_data(input_=str(file))


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


def test_what_a_source_of_ones_own_gives_is_checked(tmp_path: Path, golden: Golden) -> None:
    [episode] = random_episodes(CARTPOLE, [3])
    episode = replace(episode, file="a.x", row=7)

    def load(change: dict[str, Any]) -> None:
        source = FakeSource([replace(episode, **change)], CARTPOLE)
        load_data_set(source, cache=tmp_path / "cache")

    second = np.arange(3) == 1
    changes = {
        "infinite observation": {
            "obs": np.float32(np.where(np.arange(4) == 1, np.inf, 0))[:, None] + episode.obs
        },
        "observations of float64": {"obs": np.zeros((4, 4))},
        "infinite reward": {"rewards": np.where(second, np.inf, 0).astype(np.float32)},
        "too few rewards": {"rewards": np.zeros(2, np.float32)},
        "rewards of float64": {"rewards": np.zeros(3)},
        "action of no space": {"actions": np.where(second, 7, 0)},
        "too few log-probabilities": {"logp": np.zeros(2, np.float32)},
    }
    golden("bad_data/sources_of_ones_own", refusals(load, changes, DataError))


def test_the_errors_reach_whoever_trains(tmp_path: Path) -> None:
    """`BC(config)` is what Tune calls."""
    file = json_file(tmp_path / "a.json", batch(rewards=[1, float("inf"), 1, 1]))
    with pytest.raises(DataError, match=r"a\.json, line 1, row 1, column 'rewards': inf"):
        BC({"env": "CartPole-v1", "input_": str(file)})
