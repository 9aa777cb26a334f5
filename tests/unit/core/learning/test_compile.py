"""`torch_compile_learner`: the same training, and errors that name the setting."""

import shutil
from typing import Any

import numpy as np
import pytest
from refusals import Golden, refusals
from small_runs import settings_of, without_memory
from tiers import rarely

from trainables.core.errors import ConfigError
from trainables.registry import get_algorithm

COMPILED = {
    "torch_compile_learner": True,
    "torch_compile_learner_dynamo_backend": "aot_eager",
}
SCHEDULED = ["A2C", "APPO", "PPO"]  # their losses take numbers that follow a schedule


def weights_after(name: str, **more: Any) -> dict[str, np.ndarray]:
    with get_algorithm(name)(config=settings_of(name, "CartPole-v1", **more)) as algo:
        algo.train()
        return algo.get_weights()["default_policy"]


def same(compiled: dict[str, np.ndarray], plain: dict[str, np.ndarray]) -> None:
    for key, value in plain.items():
        np.testing.assert_allclose(compiled[key], value, rtol=1e-3, atol=1e-5)


@pytest.mark.full("test_a_compiled_loss_is_the_same_and_compiled_once")
@pytest.mark.parametrize("name", [name for name in without_memory() if name not in SCHEDULED])
def test_a_compiled_loss_is_the_same_loss(name: str) -> None:
    """Captured and run as a graph; which code is made of it is the backend's business."""
    same(weights_after(name, **COMPILED), weights_after(name))


@pytest.mark.parametrize("name", rarely(SCHEDULED, ["PPO"]))
def test_a_compiled_loss_is_the_same_and_compiled_once(name: str) -> None:
    """The first time for numbers as they are, the second for any; whatever they become."""
    from torch._dynamo import reset
    from torch._dynamo.utils import counters

    reset()
    clip = {} if name == "A2C" else {"clip_param": [[0, 0.3], [20_000, 0.1]]}
    settings = settings_of(
        name,
        "CartPole-v1",
        **clip,
        entropy_coeff=[[0, 0.01], [20_000, 0.0]],
    )
    with get_algorithm(name)(config=settings) as plain:
        plain.train()
        expected = plain.get_weights()["default_policy"]
    with get_algorithm(name)(config=settings | COMPILED) as algo:
        algo.train()
        same(algo.get_weights()["default_policy"], expected)
        algo.train()
        before = counters["stats"]["unique_graphs"]
        for _ in range(2):
            algo.train()
        assert counters["stats"]["unique_graphs"] == before > 0


@pytest.mark.full("test_a_compiled_loss_is_the_same_and_compiled_once")
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("name", ["MARWIL", "PPO"])
def test_inductor_compiles_a_loss(name: str) -> None:
    plain, compiled = weights_after(name), weights_after(name, torch_compile_learner=True)
    for key, value in plain.items():
        np.testing.assert_allclose(compiled[key], value, rtol=1e-2, atol=1e-4)


def test_an_unknown_backend_names_the_setting() -> None:
    with pytest.raises(ConfigError, match=r"torch_compile_learner.*inductr"):
        weights_after(
            "DQN", torch_compile_learner=True, torch_compile_learner_dynamo_backend="inductr"
        )


def test_sequences_are_not_compiled(golden: Golden) -> None:
    def act(name: str) -> None:
        config = get_algorithm(name).config_class(env="CartPole-v1", model={"use_lstm": True})
        config.validate()
        config.framework(torch_compile_learner=True).validate()

    cases = ["A2C", "APPO", "DQN", "IMPALA", "PPO"]
    golden("compile/sequences_are_not_compiled", refusals(act, cases))


def test_fragments_of_any_length_are_not_compiled() -> None:
    """APPO's loss is of rows, however many: one program."""
    given: dict[str, Any] = {"env": "CartPole-v1", "batch_mode": "complete_episodes"}
    get_algorithm("APPO").config_class(**given, torch_compile_learner=True).validate()
    config = get_algorithm("IMPALA").config_class(**given)
    config.validate()
    with pytest.raises(ConfigError, match=r"torch_compile_learner .* batch_mode .* length"):
        config.framework(torch_compile_learner=True).validate()
