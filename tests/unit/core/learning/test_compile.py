"""`torch_compile_learner`: the same training, and errors that name the setting."""

from typing import Any

import numpy as np
import pytest
from small_runs import settings_of

from trainables.core.errors import ConfigError
from trainables.registry import get_algorithm


def weights_after(name: str, **more: Any) -> dict[str, np.ndarray]:
    with get_algorithm(name)(config=settings_of(name, "CartPole-v1", **more)) as algo:
        algo.train()
        return algo.get_weights()["default_policy"]


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_a_compiled_loss_is_the_same_loss(name: str) -> None:
    """Captured and run as a graph; which code is made of it is the backend's business."""
    plain = weights_after(name)
    compiled = weights_after(
        name, torch_compile_learner=True, torch_compile_learner_dynamo_backend="aot_eager"
    )
    for key, value in plain.items():
        np.testing.assert_allclose(compiled[key], value, rtol=1e-3, atol=1e-5)


def test_an_unknown_backend_names_the_setting() -> None:
    with pytest.raises(ConfigError, match=r"torch_compile_learner.*inductr"):
        weights_after(
            "DQN", torch_compile_learner=True, torch_compile_learner_dynamo_backend="inductr"
        )


def test_other_algorithms_do_not_ignore_it() -> None:
    with pytest.raises(ConfigError, match="torch_compile_learner"):
        weights_after("PPO", torch_compile_learner=True)
