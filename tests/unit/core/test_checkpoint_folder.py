"""Checkpoints as paths, as Ray's objects, and as what `save` returned."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
import pytest
from ray.train import Checkpoint, Result
from ray.train._internal.session import _TrainingResult

from trainables import PPO, Algorithm, Policy, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.export.exported_policy import load_player

OBS = np.zeros((3, 4), np.float32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("saved") / "checkpoint"
    with PPOConfig().environment("CartPole-v1").build() as algorithm:
        return algorithm.save(str(folder))


def elsewhere(saved: Any) -> Checkpoint:
    """The same folder on a file system that is not this machine's."""
    local = pyarrow.fs.SubTreeFileSystem(os.path.dirname(saved), pyarrow.fs.LocalFileSystem())
    return Checkpoint(os.path.basename(saved), filesystem=local)


def result(saved: Any) -> Result:
    return Result(metrics={}, checkpoint=saved.checkpoint, path=str(saved), error=None)


FORMS: tuple[Any, ...] = (
    str,
    Path,
    lambda saved: saved,
    lambda saved: saved.checkpoint,
    Checkpoint.from_directory,
    elsewhere,
    result,
)


@pytest.mark.parametrize("form", FORMS)
def test_whatever_stands_for_a_checkpoint_is_one(saved: Any, form: Any) -> None:
    expected = Policy.load(str(saved)).compute_actions(OBS, explore=False)
    for cls in (PPO, Algorithm):
        with cls.from_checkpoint(form(saved)) as algorithm:
            assert (algorithm.compute_actions(OBS, explore=False) == expected).all()
            algorithm.restore(form(saved))
    for load in (Policy.load, load_player):
        assert (load(form(saved)).compute_actions(OBS, explore=False) == expected).all()


def test_what_save_returns_is_of_both_generations(saved: Any) -> None:
    assert isinstance(saved, str) and isinstance(saved, _TrainingResult)
    assert saved == saved.checkpoint.path and "checkpoint.json" in os.listdir(saved)
    assert saved.metrics == {} and f"{saved}" == saved.checkpoint.path
    again = pickle.loads(pickle.dumps(saved))
    assert again == saved and again.checkpoint.path == saved.checkpoint.path


def test_a_new_folder_where_none_is_given() -> None:
    with PPOConfig().environment("CartPole-v1").build() as algorithm:
        assert Policy.load(algorithm.save()).metadata["env"] == "CartPole-v1"


@pytest.mark.parametrize("given", [None, 3, {"a": 1}])
def test_what_stands_for_none_is_refused(given: Any) -> None:
    for load in (PPO.from_checkpoint, Policy.load, load_player):
        with pytest.raises(CheckpointError, match=f"not a {type(given).__name__}"):
            load(given)


def test_one_that_is_gone_elsewhere_is_named(tmp_path: Path) -> None:
    local = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    with pytest.raises(CheckpointError, match="gone"):
        Policy.load(Checkpoint("gone", filesystem=local))
