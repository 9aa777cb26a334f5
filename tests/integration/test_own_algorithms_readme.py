"""The example of the guide to algorithms of one's own, also under Tune."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from own_algorithms import SMALL
from page_blocks import block_with
from ray import tune

from trainables import Algorithm
from trainables.core.checkpoint import CheckpointError

NAME = "my_ppo:MyPPO"


@pytest.fixture
def my_ppo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_here: None) -> Iterator[Any]:
    module = block_with("trainables/guides/your_own.md", "class MyPPO")
    (tmp_path / "my_ppo.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import my_ppo  # type: ignore[import-not-found]

    # The shared Ray's workers do not know this folder: they get the classes themselves.
    ray.cloudpickle.register_pickle_by_value(my_ppo)
    yield my_ppo
    ray.cloudpickle.unregister_pickle_by_value(my_ppo)
    del sys.modules["my_ppo"]


def test_the_example(my_ppo: Any, tmp_path: Path) -> None:
    config = my_ppo.MyConfig(my_ppo.MyPPO, reward_weight=2.0).update_from_dict(SMALL)
    with config.build() as algo:
        assert algo.train()["reward_weight"] == 2
    with pytest.raises(ValueError, match="reward_weight is less"):
        my_ppo.MyConfig(my_ppo.MyPPO, reward_weight=0).update_from_dict(SMALL).build()

    result = tune.Tuner(
        my_ppo.MyPPO,
        param_space=config.training(reward_weight=tune.grid_search([3.0])),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 1}, verbose=0
        ),
    ).fit()[0]
    assert result.error is None
    assert result.metrics["reward_weight"] == 3
    with pytest.raises(CheckpointError, match=rf"trust=\['{NAME}'\]"):
        Algorithm.from_checkpoint(result.checkpoint)
    for again in (
        my_ppo.MyPPO.from_checkpoint(result.checkpoint),
        Algorithm.from_checkpoint(result.checkpoint, trust=[NAME]),
    ):
        with again:
            assert type(again) is my_ppo.MyPPO
            assert again.train()["reward_weight"] == 3
