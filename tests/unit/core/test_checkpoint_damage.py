"""Checkpoints as a whole: files of others, what is no file, and values that make no sense."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from forged import forge, forge_files
from safetensors.torch import load_file, save_file
from small_runs import settings_of

from trainables import Algorithm, Policy
from trainables.core.checkpoint import CheckpointError, policy_folder
from trainables.registry import get_algorithm

POLICY = "policies/default_policy"
FILES = (
    "checkpoint.json",
    "checkpoint.safetensors",
    f"{POLICY}/policy.json",
    f"{POLICY}/policy.safetensors",
)


def saved_by(name: str, folder: Path, **settings: Any) -> Path:
    given = settings_of(name, observation_filter="MeanStdFilter", **settings)
    with get_algorithm(name)(config=given) as algorithm:
        algorithm.train()
        return Path(algorithm.save(str(folder)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A small checkpoint of an algorithm, written once."""
    root, small = tmp_path_factory.mktemp("saved"), {"model": {"fcnet_hiddens": [8]}}

    def find(name: str) -> Path:
        folder = root / name
        return folder if folder.is_dir() else saved_by(name, folder, **small)

    return find


@pytest.fixture
def whole(saved: Callable[[str], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved("PPO"), tmp_path / "copy"))


def refused(folder: Path, message: str, *, by_policies: bool = True) -> None:
    """By everything that reads the checkpoint, or its policy where it lies."""
    by: list[Callable[[Path], Any]] = [Algorithm.from_checkpoint]
    if by_policies:
        by += [Policy.load, lambda folder: Policy.load(policy_folder(folder))]
    for load in by:
        with pytest.raises(CheckpointError, match=message):
            load(folder)
    with (
        get_algorithm("PPO")(config=settings_of("PPO")) as algorithm,
        pytest.raises(CheckpointError, match=message),
    ):
        algorithm.restore(folder)


# ------------------------------------------------------------------ the files as a whole


def test_the_policies_of_another_trial_are_damage(whole: Path, tmp_path: Path) -> None:
    other = saved_by("PPO", tmp_path / "other", model={"fcnet_hiddens": [8]}, seed=9)
    shutil.rmtree(whole / "policies")
    shutil.copytree(other / "policies", whole / "policies")
    refused(whole, r"is damaged: .*policy\.json has been changed, or is of another checkpoint")
    Policy.load(shutil.copytree(policy_folder(whole), tmp_path / "alone"))  # whole by itself


def test_an_exported_program_belongs_to_it(tmp_path: Path) -> None:
    folder = saved_by("PPO", tmp_path / "c", export_native_model_files=True)
    with (folder / POLICY / "model.pt2").open("ab") as file:
        file.write(b"more")
    refused(folder, r"model\.pt2 has been changed")


@pytest.mark.parametrize("version", ["2.0", "true", '"2"', "null", "[2]", "1", "NaN"])
@pytest.mark.parametrize("name", ["checkpoint.json", f"{POLICY}/policy.json"])
def test_format_versions_are_whole_numbers(whole: Path, name: str, version: str) -> None:
    text = (whole / name).read_text()
    (whole / name).write_text(text.replace('"format_version": 2', f'"format_version": {version}'))
    if "policy" in name:
        shutil.copytree(policy_folder(whole), whole / "alone")
        with pytest.raises(CheckpointError, match="has format version"):
            Policy.load(whole / "alone")
    else:
        refused(whole, "has format version")


def _circle(path: Path) -> None:
    path.symlink_to(path.name)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [Path.mkdir, _circle, os.mkfifo, _device])
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_damage(whole: Path, name: str, put: Callable[[Path], Any]) -> None:
    (whole / name).unlink()
    put(whole / name)
    # Of what training goes on with, which can be large, a policy reads nothing.
    by_policies = name != "checkpoint.safetensors"
    message = rf"is damaged: .*{Path(name).name} (is no file|cannot be read)"
    refused(whole, message, by_policies=by_policies)


# ------------------------------------------------------------------ values

WRONG = (None, "x", -1, 2**63, 10**12, 10**400, 1e308, math.nan, 0.5, True, [], {}, [[1]], [10**9])


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a tree; of long lists of the first few."""
    if path:
        yield path
    first = dict(enumerate(tree[:3])) if isinstance(tree, list) else tree
    for key, part in first.items() if isinstance(first, dict) else ():
        yield from places(part, (*path, key))


def put_at(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


def outcome(load: Callable[[], Any], where: str) -> bool:
    """Whether it loads. Anything but a `CheckpointError` fails, and so does what takes long."""
    start = time.monotonic()
    try:
        made = load()
        if isinstance(made, Algorithm):
            made.stop()
    except CheckpointError:
        return False
    except Exception as error:
        raise AssertionError(f"{where}: {error!r}") from error
    assert time.monotonic() - start < 30, where
    return True


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "state", "num_values"),  # at each place
    [
        ("PPO", "checkpoint", 1),
        pytest.param("DQN", "checkpoint", 2, marks=pytest.mark.full),
        ("SAC", "policy", 1),
    ],
)
def test_values_that_make_no_sense_are_one_error(
    saved: Callable[[str], Path], tmp_path: Path, name: str, state: str, num_values: int
) -> None:
    folder = Path(shutil.copytree(saved(name), tmp_path / "copy"))
    inside = policy_folder(folder) if state == "policy" else folder
    if state == "policy":  # by itself: with a right digest
        inside = Path(shutil.copytree(inside, tmp_path / "alone"))
    path, draw, before = inside / f"{state}.json", random.Random(0), _memory()
    text = path.read_text()
    loaded = [0, 0]
    for place in list(places(json.loads(text)["state"])):
        for value in draw.sample(WRONG, num_values):
            path.write_text(text)
            forge(inside, lambda s, p=place, v=value: put_at(s, p, copy.deepcopy(v)), state)
            where = f"{name}: {'.'.join(map(str, place))} = {value!r:.40}"
            load = Policy.load if state == "policy" else Algorithm.from_checkpoint
            loaded[outcome(lambda load=load: load(inside), where)] += 1
            assert _memory() - before < 1.5, where
    assert loaded[False] > 50 and loaded[True] > 5


def _memory() -> float:
    """GB that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def trained(algorithm: Algorithm) -> Algorithm:
    """After another iteration: what is taken over must be of use."""
    with algorithm:
        algorithm.train()
    return algorithm


@pytest.mark.parametrize(
    ("name", "num_changes"),  # of each tensor
    [("PPO", 1), *(pytest.param(name, 3, marks=pytest.mark.full) for name in ("DQN", "SAC"))],
)
@pytest.mark.parametrize("state", ["checkpoint", f"{POLICY}/policy"])
def test_tensors_of_other_shapes_and_types(
    saved: Callable[[str], Path], tmp_path: Path, name: str, state: str, num_changes: int
) -> None:
    """They are refused, or taken over as what they stand for: then training goes on."""
    folder = Path(shutil.copytree(saved(name), tmp_path / "copy"))
    path = folder / f"{state}.safetensors"
    whole = load_file(path)
    changes: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
        lambda t: t.reshape(-1)[: t.numel() // 2].clone(),
        lambda t: t.unsqueeze(0).repeat(3, *[1] * t.dim()),
        lambda t: t.to(torch.float64 if t.dtype != torch.float64 else torch.int32),
    )
    for index, key in enumerate(whole):
        for number in range(index, index + num_changes):
            change = changes[number % len(changes)]
            save_file({**whole, key: change(whole[key])}, path)
            if state != "checkpoint":
                forge_files(policy_folder(folder), "policy")
            forge_files(folder)
            where = f"{name} {state} {key}: change {number % len(changes)}"
            outcome(lambda: trained(Algorithm.from_checkpoint(folder)), where)
    assert len(whole) > 3
