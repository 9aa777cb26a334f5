"""Minari's data sets: read from their local files, written for Minari to load."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from episode_files import assert_same, assert_same_rows, read, with_logp, written
from offline_fakes import CARTPOLE, random_episodes
from q_learning_runs import PENDULUM
from refusals import Golden, refusals

from trainables.core.errors import ConfigError
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.writers import make_writer

ID = "cartpole/some_play-v0"


@pytest.fixture(autouse=True)
def minari() -> Any:
    pytest.importorskip("h5py")
    return pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all data sets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    return tmp_path / "sets"


def record(spaces: DataSpaces = CARTPOLE, lengths: Any = (3, 10, 1), **options: Any) -> Any:
    """Episodes that have been written as a data set."""
    episodes = with_logp(random_episodes(spaces, lengths))
    written(f"minari:{ID}", episodes, spaces, format="minari", **options)
    return episodes


def test_minari_loads_what_we_write(minari: Any) -> None:
    episodes = record(env_id="CartPole-v1")
    data_set = minari.load_dataset(ID)
    assert data_set.id == ID and data_set.total_episodes == 3 and data_set.total_steps == 14
    assert data_set.observation_space == CARTPOLE.observation
    assert data_set.env_spec.id == "CartPole-v1"
    for found, expected in zip(data_set.iterate_episodes(), episodes, strict=True):
        assert np.array_equal(found.observations, expected.obs)
        assert np.array_equal(found.actions, expected.actions)
        assert np.array_equal(found.rewards, expected.rewards)
        assert [*found.terminations] == [False] * (len(expected) - 1) + [expected.terminated]
        assert [*found.truncations] == [False] * (len(expected) - 1) + [expected.truncated]


def test_what_we_write_comes_back_to_the_bit(root: Path) -> None:
    episodes = record(lengths=[3, 10, 1, 25, 4, 7])
    source = find_source(f"minari:{ID}")
    assert source.spaces() == CARTPOLE
    assert_same(list(source.episodes(CARTPOLE)), episodes, CARTPOLE)
    assert_same(read(root / ID, format="minari"), episodes, CARTPOLE)  # by its folder
    assert load_data_set(source).num_steps == 50


def test_a_data_set_that_minari_made_itself_is_read(minari: Any) -> None:
    """Without our notes: spaces as Minari states them, episodes by their numbers."""
    episodes = random_episodes(PENDULUM, [5, 3], ends=["truncated"])
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations=episode.obs,
            actions=episode.actions,
            rewards=episode.rewards.astype(np.float64),
            terminations=np.zeros(len(episode), bool),
            truncations=np.arange(len(episode)) == len(episode) - 1,
        )
        for episode in episodes
    ]
    with pytest.warns(UserWarning):
        minari.create_dataset_from_buffers(ID, buffers, env="Pendulum-v1")
    source = find_source(f"minari:{ID}")
    assert source.spaces() == PENDULUM
    found = list(source.episodes(PENDULUM))
    assert [episode.episode_id for episode in found] == ["0", "1"]
    assert [episode.row for episode in found] == [0, 5]
    for one, other in zip(found, episodes, strict=True):
        assert_same_rows(one, other, PENDULUM)
        assert one.truncated and not one.terminated


def test_images_that_jpeg_does_not_hold_are_refused(tmp_path: Path) -> None:
    frames = DataSpaces(gym.spaces.Box(0, 255, (64, 64, 4), np.uint8), gym.spaces.Discrete(2))
    with pytest.raises(ConfigError, match="Minari stores images as JPEG, of shape"):
        make_writer(tmp_path / "x", frames, format="minari")


def test_images_come_back_altered_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    frames = DataSpaces(gym.spaces.Box(0, 255, (64, 64, 3), np.uint8), gym.spaces.Discrete(2))
    record(frames, [3])
    assert "Minari stores images as JPEG" in caplog.text
    [episode] = read(f"minari:{ID}")
    assert episode.obs.shape == (4, 64, 64, 3) and episode.obs.dtype == np.uint8


def test_a_writer_that_is_not_closed_leaves_no_data_set(root: Path) -> None:
    writer = make_writer(f"minari:{ID}", CARTPOLE, format="minari")
    for episode in random_episodes(CARTPOLE, [2000] * 3):
        writer.write(episode)
    assert not (root / ID).exists()
    with pytest.raises(DataError, match="there is no such data set"):
        find_source(f"minari:{ID}")
    writer.close()
    assert sum(map(len, read(f"minari:{ID}"))) == 6000
    assert [path.name for path in (root / ID).parent.iterdir()] == [Path(ID).name]


def test_a_data_set_is_not_written_over() -> None:
    record()
    with pytest.raises(DataError, match="there is something already"):
        record()


def test_an_id_that_minari_would_not_find_is_refused() -> None:
    for name in ("no version", "x", "a.b-v0", "-v"):
        with pytest.raises(ConfigError, match="is no id of a Minari data set"):
            make_writer(f"minari:{name}", CARTPOLE, format="minari")


def test_any_other_folder_may_have_any_name(minari: Any, tmp_path: Path) -> None:
    folder = written(tmp_path / "my data", record(), CARTPOLE, format="minari")
    assert minari.MinariDataset(folder / "data").id == "my_data-v0"


def test_rows_per_file_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_rows_per_file=5 is not allowed"):
        record(max_rows_per_file=5)


# ---------------------------------------------------------------------------- what is wrong


def test_an_unknown_data_set_names_the_command_that_gets_it() -> None:
    record()
    with pytest.raises(DataError, match=r"get it by `minari download D4RL/pen/human-v2`"):
        find_source("minari:D4RL/pen/human-v2")
    with pytest.raises(DataError, match=rf"did you mean '{ID}'"):
        find_source("minari:cartpole/same_play-v0")


def test_an_environment_of_a_stranger_is_not_made(root: Path) -> None:
    """Minari would make it to learn the spaces, and its description may name any code."""
    record(env_id="CartPole-v1")
    path = root / ID / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    for key in ("observation_space", "action_space", "tunescape"):
        del metadata[key]
    metadata["env_spec"] = metadata["env_spec"].replace(
        "gymnasium.envs.classic_control.cartpole:CartPoleEnv", "this:d"
    )
    assert "this:d" in metadata["env_spec"]
    path.write_text(json.dumps(metadata))
    source = find_source(f"minari:{ID}")
    assert source.spaces() is None
    for ask in (source.infer_spaces, lambda: [*source.episodes(CARTPOLE)]):
        with pytest.raises(DataError, match="it states no spaces, only the environment"):
            ask()


@pytest.mark.parametrize("left_out", [("observation_space",), ("action_space",)])
def test_nor_where_our_own_notes_state_the_spaces(root: Path, left_out: tuple[str]) -> None:
    record(env_id="CartPole-v1")
    path = root / ID / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    metadata["env_spec"] = metadata["env_spec"].replace(
        "gymnasium.envs.classic_control.cartpole:CartPoleEnv", "this:d"
    )
    path.write_text(json.dumps({k: v for k, v in metadata.items() if k not in left_out}))
    with pytest.raises(DataError, match="it states no spaces, only the environment"):
        read(f"minari:{ID}")
    assert "this" not in sys.modules  # a module that prints when it is imported


def in_place_of(name: str, make: Callable[[Any, str], Any], root: Path) -> None:
    """Record, and put something else in the place of a dataset of the first episode."""
    import h5py

    record()
    with h5py.File(root / ID / "data" / "main_data.hdf5", "r+") as file:
        group = file["episode_0"]
        group.move(name, "moved")
        make(group, name)
        if "moved" in group:
            del group["moved"]


def linked(target: str, path: str) -> Callable[[Any, str], None]:
    def make(group: Any, name: str) -> None:
        import h5py

        with h5py.File(target, "w") as other:
            other[path] = np.zeros((4, 4), np.float32)
        group[name] = h5py.ExternalLink(target, path)

    return make


def soft(group: Any, name: str) -> None:
    import h5py

    group[name] = h5py.SoftLink("/episode_1/observations")


def in_itself(group: Any, name: str) -> None:
    inner = group.create_group(name)
    inner["again"] = inner


def twice(group: Any, name: str) -> None:
    group[name] = group["actions"]


def external(group: Any, name: str) -> None:
    group.create_dataset(name, (4, 4), np.float32, external=[("/etc/passwd", 0, 64)])


def virtual(group: Any, name: str) -> None:
    import h5py

    layout = h5py.VirtualLayout((4, 4), np.float32)
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4, 4))
    group.create_virtual_dataset(name, layout)


def declared(group: Any, name: str) -> None:
    group.create_dataset(name, (2**28, 4), np.float32, chunks=(2**16, 4), maxshape=(None, 4))


def chunk(group: Any, name: str) -> None:
    group.create_dataset(name, (4, 4), np.float32, chunks=(2**27, 4), maxshape=(None, 4))


def one_number(group: Any, name: str) -> None:
    group.create_dataset(name, data=1.0)


def pictures(group: Any, name: str) -> None:
    from PIL import Image

    file = io.BytesIO()
    Image.new("L", (4000, 4000)).save(file, "JPEG")
    one = np.frombuffer(file.getvalue(), np.uint8)
    group.create_dataset(name, data=[one[:2000]] * 50)


def test_what_hdf5_would_read_elsewhere_or_make_of_few_bytes_is_refused(
    root: Path, tmp_path: Path, golden: Golden
) -> None:
    other = str(tmp_path / "other.h5")
    cases = {
        "link into another file": linked(other, "x"),
        **{make.__name__: make for make in (soft, in_itself, twice, external, virtual)},
        **{make.__name__: make for make in (declared, chunk, pictures, one_number)},
    }

    def load(make: Callable[[Any, str], Any]) -> None:
        shutil.rmtree(root, ignore_errors=True)
        in_place_of("observations", make, root)
        tracemalloc.start()
        try:
            read(f"minari:{ID}")
        finally:
            assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
            tracemalloc.stop()

    texts = refusals(load, cases, DataError, replace={str(tmp_path): "<folder>"})
    size = re.compile(r"(of a file of )[\d,]+")
    golden("bad_data/hdf5", {case: size.sub(r"\1<size>", text) for case, text in texts.items()})


@pytest.mark.parametrize("name", ["rewards", "terminations", "truncations", "infos/action_logp"])
def test_columns_that_are_no_numbers_are_named(root: Path, name: str) -> None:
    import h5py

    record()
    with h5py.File(root / ID / "data" / "main_data.hdf5", "r+") as file:
        del file["episode_1"][name]
        file["episode_1"].create_dataset(name, (10,), h5py.vlen_dtype("u1"))
    with pytest.raises(
        DataError, match=r"episode 1, row 0, column .*: values are object, of shape"
    ):
        read(f"minari:{ID}")


def test_more_episodes_than_there_are_is_one_error(root: Path) -> None:
    record()
    path = root / ID / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    for number in (10**12, -1, "many", None):
        path.write_text(json.dumps({**metadata, "total_episodes": number}))
        with pytest.raises(DataError, match=r"total_episodes = .*; allowed: as many as there are"):
            read(f"minari:{ID}")


def test_a_space_of_more_numbers_than_any_has_is_one_error(root: Path) -> None:
    record()
    path = root / ID / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    box = {"type": "Box", "dtype": "float32", "shape": [10**6, 10**6], "low": 0, "high": 1}
    for space in (box, {"type": "Dict", "subspaces": {"x": {"type": "Tuple", "subspaces": [box]}}}):
        path.write_text(json.dumps({**metadata, "observation_space": json.dumps(space)}))
        with pytest.raises(DataError, match=r"the spaces that it states are unreadable: .*1e\+12"):
            read(f"minari:{ID}")


def test_a_pipe_or_a_linked_folder_among_the_files_is_refused(root: Path) -> None:
    record()
    data = root / ID / "data"
    (data / "0").symlink_to("/etc")
    with pytest.raises(DataError, match="0 is a pipe, a device, or a link to a folder"):
        read(f"minari:{ID}")
    (data / "0").unlink()
    (data / "metadata.json").unlink()
    os.mkfifo(data / "metadata.json")
    with pytest.raises(DataError, match=r"metadata\.json is a pipe"):
        read(f"minari:{ID}")


def test_damaged_files_are_one_error(root: Path) -> None:
    record()
    folder = root / ID / "data"
    good = (folder / "main_data.hdf5").read_bytes()
    for bad in (b"", good[:500], b"\0" * len(good)):
        (folder / "main_data.hdf5").write_bytes(bad)
        with pytest.raises(DataError, match=rf"minari:{ID}, episode 0: it is unreadable"):
            read(f"minari:{ID}")
    (folder / "metadata.json").write_text("{")
    with pytest.raises(DataError, match=r"metadata\.json is unreadable"):
        find_source(f"minari:{ID}")
    shutil.rmtree(folder)
    with pytest.raises(DataError, match="there is no such data set"):
        find_source(f"minari:{ID}")


@pytest.mark.parametrize(
    ("column", "row", "value", "problem"),
    [
        ("observations", 2, np.nan, "row 2, column 'observations': .*nan.* is not finite"),
        ("actions", 1, 5, r"row 1, column 'actions': 5 is not in Discrete\(2\)"),
        ("rewards", 0, np.inf, "row 0, column 'rewards': inf is not finite"),
        ("terminations", 1, True, "row 1, column 'terminations': the episode goes on after"),
    ],
)
def test_bad_values_are_named(root: Path, column: str, row: int, value: Any, problem: str) -> None:
    import h5py

    record(lengths=[4, 4])
    with h5py.File(root / ID / "data" / "main_data.hdf5", "r+") as file:
        file[f"episode_1/{column}"][row] = value
    with pytest.raises(DataError, match=f"minari:{ID}, episode 1, {problem}"):
        read(f"minari:{ID}")


def test_other_spaces_are_refused() -> None:
    record()
    with pytest.raises(DataError, match=r"column 'obs': it states Box.* comes from the settings"):
        read(f"minari:{ID}", PENDULUM)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ConfigError, match=r"pip install 'tunescape\[minari\]'"):
        find_source(f"minari:{ID}")
