"""Checkpoints: what comes back, what is refused, and that loading runs no code."""

from __future__ import annotations

import json
import math
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from every_row import check_rows
from fakes import EndlessEnv
from forged import forge, forge_config
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.tune.trainable.trainable import _DICT_CHECKPOINT_FILE_NAME

from trainables import PPO, Algorithm, Policy, PPOConfig
from trainables.core.callables import UntrustedName
from trainables.core.checkpoint import (
    CheckpointError,
    _digest,
    load_state,
    policy_folder,
    save_state,
)
from trainables.core.data.space_json import space_to_json
from trainables.core.errors import ConfigError
from trainables.core.trust import resolved

Box, Discrete, MultiDiscrete = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete


def round_trip(folder: Path, value: Any) -> Any:
    save_state(folder, "state", {"value": value})
    return load_state(folder, "state")["value"]


def same(one: Any, other: Any) -> bool:
    """Equal in type, dtype, shape and every bit, NaN included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and same(one.numpy(), other.numpy())
    if isinstance(one, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


# ------------------------------------------------------------------ round trips


def test_round_trip(tmp_path: Path) -> None:
    def check(value: Any) -> None:
        assert same(round_trip(tmp_path, value), value)

    rows = [
        None,
        True,
        0,
        -(2**200) + 1,
        0.1,
        -0.0,
        5e-324,
        math.inf,
        -math.inf,
        math.nan,
        "",
        "text with \n 'quotes' and Grüße 😀",
        [],
        {},
        [1, [2.0, None, {"a": []}]],
        {0: "a", -3: {7: 1.5}, "7": 2},
        {True: 1, None: 2},
        {"__tensor__": "not one", "a": 1},
        {"__callable__": "os:system"},
        {"__items__": [[1, 2]]},
        {"__space__": {}},
        {"__scalar__": 1.0},
        np.float32(0.1),  # as a Python float it would be computed with in another precision
        torch.zeros(0),
        torch.zeros(0, 3),
        torch.tensor(1.5),
        torch.arange(6.0).reshape(2, 3).T,  # not contiguous
        torch.tensor([True, False]),
        torch.tensor([0, 255], dtype=torch.uint8),
        torch.tensor([2**62], dtype=torch.int64),
        torch.tensor([1.5], dtype=torch.float64),
        torch.tensor([math.nan, math.inf, -math.inf]),
        torch.Generator().manual_seed(3).get_state(),
        np.zeros((0, 2), np.float32),
        np.array(2.5),
        np.arange(6).reshape(2, 3).T,
        np.array([True, False]),
        np.array([1, 2], np.uint8),
        np.array([1, 2], np.int32),
        np.array([2**31, 5], np.uint32),
        np.array([1.5], np.float16),
        np.array([math.nan, -0.0]),
        np.random.PCG64(3).state,
        np.random.SFC64(3).state,
        np.random.MT19937(3).state,
        np.random.Philox(3).state,
        {"a/b": torch.tensor(1), "a": {"b": torch.tensor(2)}},
        {1: torch.tensor(1), "1": torch.tensor(2), "1'": torch.tensor(3)},
    ]
    check_rows(check, rows)


def test_numbers_of_numpy_become_plain_and_tuples_lists(tmp_path: Path) -> None:
    result = round_trip(tmp_path, [np.float64(0.1), np.int64(3), np.bool_(True), (1, (2,))])
    assert same(result, [0.1, 3, True, [1, [2]]])


def test_spaces(tmp_path: Path) -> None:
    def check(space: gym.Space) -> None:
        json.dumps(space_to_json(space), allow_nan=False)  # strict JSON
        result = round_trip(tmp_path, space)
        assert result == space
        assert result.dtype == space.dtype
        if isinstance(space, Box):
            assert same(result.low, space.low) and same(result.high, space.high)

    rows = [
        Box(-1, 1, (3,), np.float32),
        Box(-np.inf, np.inf, (), np.float64),
        Box(0, 255, (4, 2), np.uint8),
        Box(np.array([-1, -np.inf, 0.1]), np.array([1.5, np.inf, np.inf]), dtype=np.float64),
        Box(np.array([-0.1, 0.3], np.float32), np.array([0.1, 0.7], np.float32)),
        Box(0, 1, (0,), np.float32),
        Discrete(5),
        Discrete(5, start=-2),
        MultiDiscrete([3, 2, 4]),
        MultiDiscrete([3, 2], start=[1, -5], dtype=np.int32),
        MultiDiscrete([[1, 2], [3, 4]]),
    ]
    check_rows(check, rows)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.text() | st.integers(), children, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=30, deadline=None)
@given(TREES)
def test_any_tree_comes_back(tmp_path_factory: Any, tree: Any) -> None:
    assert same(round_trip(tmp_path_factory.getbasetemp() / "tree", tree), tree)


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", object(), 1j, Path("x"), gym.spaces.Text(3)])
def test_what_cannot_be_saved_is_named(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError, match=type(value).__name__):
        round_trip(tmp_path, {"a": [value]})
    assert not (tmp_path / "state.json").exists()


def test_tensors_are_copies(tmp_path: Path) -> None:
    """Writing to what was loaded must not fail, nor reach the file."""
    loaded = round_trip(tmp_path, {"a": np.zeros(3), "t": torch.zeros(3)})
    loaded["a"][:] = 1
    loaded["t"][:] = 1
    again = load_state(tmp_path, "state")["value"]
    assert not again["a"].any() and not again["t"].any()


# ------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of PPO after one iteration."""
    folder = tmp_path_factory.mktemp("checkpoint")
    config = PPOConfig.from_dict({"env": "CartPole-v1", "seed": 1, "train_batch_size": 256})
    with config.build() as algorithm:
        algorithm.train()
        algorithm.save(str(folder))
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(saved, tmp_path / "copy"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(bytes(data))


def load_all(folder: Path) -> None:
    PPO.from_checkpoint(folder).stop()


def test_no_pickle_is_written(saved: Path) -> None:
    names = {path.name for path in saved.rglob("*") if path.is_file()}
    ours = {"checkpoint.json", "checkpoint.safetensors", "policy.json", "policy.safetensors"}
    # Tune adds a JSON file of its own.
    assert ours <= names and {Path(name).suffix for name in names} <= {".json", ".safetensors"}
    assert not [name for name in names if name.endswith(".part")]


def test_a_whole_one_loads(copy: Path) -> None:
    with PPO.from_checkpoint(copy) as algorithm, Algorithm.from_checkpoint(str(copy)) as other:
        assert type(other) is PPO
        assert algorithm.iteration == other.iteration == 1
    assert Policy.load(copy).metadata["env"] == "CartPole-v1"
    assert Policy.load(policy_folder(copy)).metadata["algorithm"] == "PPO"


FILES = (
    "checkpoint.json",
    "checkpoint.safetensors",
    "policies/default_policy/policy.json",
    "policies/default_policy/policy.safetensors",
)


@pytest.mark.parametrize("name", FILES)
def test_missing_file(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(CheckpointError, match=Path(name).name) as error:
        load_all(copy)
    assert str((copy / name).parent) in str(error.value)


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_anywhere(copy: Path, name: str) -> None:
    path = copy / name
    whole = path.read_bytes()
    size = len(whole)
    for position in sorted({0, 1, 9, size // 3, size // 2, size - 2, size - 1}):
        flip(path, position)
        state = "policy" if "policy" in name else "checkpoint"
        if path.suffix == ".json" and _same_json(whole, path.read_bytes()):
            path.write_bytes(whole)
            continue  # another white space says the same
        with pytest.raises(CheckpointError) as error:
            load_state(path.parent, state)
        assert str(path.parent) in str(error.value), position
        path.write_bytes(whole)
    load_state(path.parent, state)


def _same_json(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


@pytest.mark.parametrize("name", FILES)
def test_cut_short(copy: Path, name: str) -> None:
    path = copy / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match="is damaged"):
        load_all(copy)


def test_a_changed_digit_is_noticed(copy: Path) -> None:
    """A digest of the tensors alone would not tell."""
    path = copy / "checkpoint.json"
    text = path.read_text()
    assert '"gamma": 0.99' in text
    path.write_text(text.replace('"gamma": 0.99', '"gamma": 0.98'))
    with pytest.raises(CheckpointError, match=r"damaged: .*checkpoint\.json has been changed"):
        load_all(copy)


def test_json_of_something_else(copy: Path) -> None:
    for text in ("", "[]", "null", "{}", '{"format_version": 2}', "[" * 100_000):
        (copy / "checkpoint.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"checkpoint\.json is unreadable"):
            load_all(copy)


def test_another_format_version(copy: Path) -> None:
    path = copy / "checkpoint.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"format_version": 99}))
    with pytest.raises(CheckpointError, match="has format version 99; this is version 2"):
        load_all(copy)


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    for load in (PPO.from_checkpoint, Policy.load):
        with pytest.raises(CheckpointError, match="there is no such folder") as error:
            load(tmp_path / "nowhere")
        assert str(tmp_path / "nowhere") in str(error.value)
        with pytest.raises(CheckpointError, match=r"is no checkpoint: it has no \w+\.json"):
            load(tmp_path)


@pytest.mark.parametrize("name", ["../elsewhere.safetensors", "/etc/passwd", "..", ".", "x/y", ""])
def test_files_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inside"
    save_state(tmp_path, "elsewhere", {"secret": torch.ones(1)})
    save_state(folder, "state", {"value": torch.zeros(1)})
    path = folder / "state.json"
    document = json.loads(path.read_text())
    document["files"][name] = "0" * 64
    document["sha256"] = _digest(document["files"], document["state"])
    path.write_text(json.dumps(document))
    with pytest.raises(CheckpointError, match="is damaged") as error:
        load_state(folder, "state")
    assert str(folder) in str(error.value)


# ------------------------------------------------------------------ interruption


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_interrupted_save_leaves_no_checkpoint(
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    calls: int,
) -> None:
    """Whichever of the four files the disk fails at, also when an older checkpoint is there."""
    folder = tmp_path / "half"
    over_another = (calls % 2 == 0) == (function == "fsync")  # each in turn
    with PPO.from_checkpoint(saved) as algorithm:
        if over_another:
            algorithm.save(str(folder))
            algorithm.train()
        left = [calls]

        def fail(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise OSError("the disk is full")
            return original(*args, **kwargs)

        owner: Any = os if function == "fsync" else Path
        original = getattr(owner, function)
        monkeypatch.setattr(owner, function, fail)
        with pytest.raises(OSError, match="the disk is full"):
            algorithm.save(str(folder))
        monkeypatch.setattr(owner, function, original)
        with pytest.raises(CheckpointError):
            PPO.from_checkpoint(folder)
        with pytest.raises(CheckpointError):
            algorithm.restore(str(folder))
        algorithm.save(str(folder))  # and the next save is whole
        algorithm.restore(str(folder))


# ------------------------------------------------------------------ nothing is run


class Planted:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self) -> Any:
        return (Path.touch, (Path(self.path),))


@pytest.mark.parametrize(
    "name", [_DICT_CHECKPOINT_FILE_NAME, "algorithm_state.pkl", "policy_state.pkl", "state.pkl"]
)
def test_planted_pickles_are_not_read(copy: Path, tmp_path: Path, name: str) -> None:
    mark = tmp_path / "was_run"
    data = pickle.dumps(Planted(mark))
    for folder in (copy, policy_folder(copy)):
        (folder / name).write_bytes(data)
    with PPO.from_checkpoint(copy) as algorithm:
        algorithm.restore(str(copy))
        algorithm.restore(copy)
    Policy.load(copy)
    Policy.load(policy_folder(copy))
    assert not mark.exists()
    pickle.loads(data)
    assert mark.exists()  # so it would have been noticed


@pytest.fixture
def system_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What is passed to `os.system`."""
    calls: list[Any] = []
    monkeypatch.setattr(os, "system", lambda *args, **kwargs: calls.append(args))
    yield calls


CALLABLE = {"__callable__": "os:system"}


@pytest.mark.parametrize(
    "settings",
    [
        {"env": CALLABLE},
        {"env": "os:system"},
        {"env_config": {"a": [{"b": CALLABLE}]}},
        {"env_config": {"__items__": [[1, CALLABLE]]}},
        {"evaluation_config": {"env": CALLABLE}},
        {"evaluation_config": {"env": "os:system"}},
        {"custom_evaluation_function": "os:system"},
    ],
    ids=str,
)
def test_named_callables_are_refused(
    copy: Path, system_calls: list[Any], settings: dict[str, Any]
) -> None:
    forge_config(copy, evaluation_interval=1)
    forge_config(copy, **settings)
    with pytest.raises(CheckpointError, match=r"'os:system'.*pass trust=\['os:system'\]") as error:
        algorithm = PPO.from_checkpoint(copy)
        algorithm.train()
    assert str(copy) in str(error.value)
    assert system_calls == []


def test_nothing_is_imported(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not a module that does not look dangerous."""
    (tmp_path / "planted_module.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for env in ("planted_module:Env", {"__callable__": "planted_module:Env"}):
        forge_config(copy, env=env)
        with pytest.raises(CheckpointError, match="planted_module:Env"):
            PPO.from_checkpoint(copy)
        with pytest.raises(CheckpointError, match="planted_module:Env"):
            PPO.from_checkpoint(copy, trust=["planted_module", "planted_module:Other"])
        with PPO(config={"env": "CartPole-v1"}) as algorithm:
            algorithm.restore(str(copy))  # only what was learned; settings stay
            assert algorithm.config.env == "CartPole-v1"
        Policy.load(copy)
    assert "planted_module" not in sys.modules
    assert not (tmp_path / "ran").exists()


def test_random_generators_are_not_callables(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's generator is found by name, but only among numpy's."""

    def rename(state: dict[str, Any]) -> None:
        (runner,) = state["env_runners"]["runners"]
        runner["env"]["random"]["bit_generator"] = "test"

    forge(copy, rename)
    monkeypatch.setattr(np.random, "test", lambda: pytest.fail("was called"))
    with pytest.raises(CheckpointError, match="'test' is no bit generator"):
        PPO.from_checkpoint(copy)


def test_trusted_class(tmp_path: Path) -> None:
    name = "fakes:EndlessEnv"
    config = PPOConfig.from_dict({"env": EndlessEnv, "train_batch_size": 64, "minibatch_size": 64})
    with config.build() as algorithm:
        algorithm.train()
        algorithm.save(str(tmp_path))
    assert Policy.load(tmp_path).metadata["env"] == name
    with pytest.raises(CheckpointError, match=rf"env = '{name}' \(code that would be imported\)"):
        PPO.from_checkpoint(tmp_path)
    with PPO.from_checkpoint(tmp_path, trust=[name]) as again:
        assert again.config.env is EndlessEnv
        assert again.iteration == 1
        again.train()


def test_resolved_values() -> None:
    tree = {"a": [UntrustedName("math:sqrt")], "b": 1, "c": "math:sqrt"}
    found = resolved(tree, ["math:sqrt"], "x")
    assert found == {"a": [math.sqrt], "b": 1, "c": "math:sqrt"}
    with pytest.raises(CheckpointError, match="'math:sqrt'"):
        resolved(tree, ["math:cos"], "x")
    with pytest.raises(ConfigError, match="'math:sqrrt' cannot be found"):
        resolved(UntrustedName("math:sqrrt"), ["math:sqrrt"], "x")


def test_local_callables_are_refused_when_they_are_looked_up(tmp_path: Path) -> None:
    def local() -> None:
        pass

    (name,) = round_trip(tmp_path, [local])
    assert isinstance(name, UntrustedName)
    assert name.endswith("<locals>.local")
    with pytest.raises(ConfigError, match=r"define it at the top of a module, or register it"):
        resolved(name, [name], "x")
