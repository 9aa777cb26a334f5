"""`torch_compile_worker`: what acts is compiled, and acts as it did."""

import shutil
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from small_runs import settings_of, without_memory
from tiers import rarely

from trainables.core.config.resolved import CompileOptions
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.registry import get_algorithm

OPTIONS = CompileOptions("aot_eager")
COMPILED = {"torch_compile_worker": True, "torch_compile_worker_dynamo_backend": "aot_eager"}
VECTOR = Box(-1, 1, (4,), np.float32)
MASKED = gym.spaces.Dict(obs=VECTOR, action_mask=Box(0, 1, (3,), np.int8))

KINDS: dict[str, tuple[gym.Space, dict[str, Any]]] = {
    "plain": (VECTOR, {}),
    "frames": (Box(0, 255, (12, 12, 1), np.uint8), {"frame_stack": 2}),
    "masked": (MASKED, {}),
    "noisy": (VECTOR, {"module": {"type": "q_network", "noisy": True, "num_atoms": 5}}),
    "parameter_noise": (
        VECTOR,
        {"module": {"type": "q_network"}, "exploration": {"type": "ParameterNoise"}},
    ),
    "soft": (VECTOR, {"module": {"type": "soft_actor_critic"}}),
}


def num_graphs() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


@pytest.mark.parametrize("kind", rarely(list(KINDS), ["frames", "masked"]))
def test_what_acts_acts_the_same(kind: str) -> None:
    """Also with weights that change, on several batch sizes, and with frames from step to step."""
    space, options = KINDS[kind]
    plain, compiled = (Policy(space, Discrete(3), **options, seed=0) for _ in range(2))
    compiled.compile_acting(OPTIONS)
    before = num_graphs()
    space.seed(0)
    for num_slots in (2, 5):
        states = [policy.initial_state(num_slots) for policy in (plain, compiled)]
        kept = [policy.explorer.start(num_slots) for policy in (plain, compiled)]
        for step in range(6):
            rows = plain.observations.layout.rows([space.sample() for _ in range(num_slots)])
            if kind == "masked":
                rows["action_mask"][:, 0] = 1
            acted = [
                policy.act(rows, step != 5, torch.Generator().manual_seed(step), state, slots)
                for policy, state, slots in zip((plain, compiled), states, kept, strict=True)
            ]
            states = [one.state for one in acted]
            torch.testing.assert_close(acted[1].inputs, acted[0].inputs)
            assert torch.equal(acted[1].actions, acted[0].actions)
            torch.testing.assert_close(*states)
        for policy in (plain, compiled):
            policy.set_weights({n: w * 1.5 for n, w in policy.get_weights().items()})
    assert 0 < num_graphs() - before <= 4  # not one for each step


@pytest.mark.parametrize("name", rarely(without_memory(), ["PPO"]))
def test_training_and_evaluation_go_as_they_do_without(name: str) -> None:
    runs = []
    for more in ({}, COMPILED):
        before = num_graphs()
        settings = settings_of(name, "CartPole-v1", **more, evaluation_duration=2)
        with get_algorithm(name)(config=settings) as algo:
            algo.train()
            returned = algo.evaluate()["episode_return_mean"]
            runs.append((algo.get_weights()["default_policy"], returned))
        assert (num_graphs() > before) == bool(more)
    for key, value in runs[0][0].items():
        np.testing.assert_allclose(runs[1][0][key], value, rtol=1e-4, atol=1e-6)
    assert runs[0][1] == runs[1][1]


@pytest.mark.full("test_what_acts_acts_the_same")
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_inductor_compiles_what_acts() -> None:
    plain, compiled = (Policy(VECTOR, Discrete(3), seed=0) for _ in range(2))
    compiled.compile_acting(CompileOptions())
    rows = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    torch.testing.assert_close(compiled.act(rows, False).inputs, plain.act(rows, False).inputs)


@pytest.mark.parametrize("memory", ["use_lstm", "use_attention"])
def test_a_memory_is_not_compiled(memory: str) -> None:
    config = get_algorithm("PPO").config_class(env="CartPole-v1", model={memory: True})
    config.validate()
    with pytest.raises(ConfigError, match=r"torch_compile_worker = True .* memory"):
        config.framework(torch_compile_worker=True).validate()


def test_an_unknown_backend_names_the_setting() -> None:
    settings = COMPILED | {"torch_compile_worker_dynamo_backend": "inductr"}
    with pytest.raises(ConfigError, match=r"torch_compile_worker = True: .*inductr"):
        get_algorithm("PPO")(config=settings_of("PPO", "CartPole-v1", **settings))
