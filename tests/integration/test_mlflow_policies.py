"""Every kind of policy as an MLflow model: nested spaces by name, memories with their state."""

import logging
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from dreamers import dreamer_policy
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from trainables import Policy
from trainables.core.data.features import PREV_ACTION

NESTED = Dict({"image": Box(0, 255, (7, 7, 3), np.uint8), "aim": Tuple([Discrete(3)])})
VECTOR = Box(-1, 1, (4,), np.float32)
MEMORY = {"use_lstm": True, "lstm_cell_size": 8}


def served_model(policy: Policy, folder: Path) -> Any:
    """What MLflow makes of the policy's model; its code is put on the path, until the test ends."""
    from mlflow import pyfunc
    from mlflow.models import Model

    from experiments.tracking.model import build_model

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    saved = policy.save(folder / "policy")
    return pyfunc.load_model(str(build_model(policy, saved, folder / "work", Model())))


@pytest.mark.parametrize(
    ("space", "actions", "model"),
    [
        (NESTED, Dict({"go": Discrete(3), "push": Box(-1, 1, (2,))}), {}),
        (VECTOR, MultiBinary(3), MEMORY),
        (NESTED, Discrete(4), MEMORY),
    ],
    ids=["nested", "memory", "nested with memory"],
)
def test_a_logged_model_acts_as_the_policy(
    space: gym.Space, actions: gym.Space, model: dict[str, Any], tmp_path: Path
) -> None:
    policy = Policy(space, actions, model, seed=0)
    served = served_model(policy, tmp_path)
    space.seed(1)
    state: dict[str, np.ndarray] | None = None
    for _ in range(3):
        obs = space.sample()
        given = {"obs": obs[None]} if space is VECTOR else _leaves(obs)
        before = state or {n: s[None] for n, s in policy.get_initial_state().items()}
        given |= {f"state/{name}": part for name, part in before.items()}
        outputs = served.predict(given)
        expected = policy.compute_single_action(
            obs, {n: s[0] for n, s in before.items()} or None, explore=False
        )
        if policy.is_recurrent:
            np.testing.assert_array_equal(outputs["action"][0], expected.actions)
            state = {name: outputs[f"state/{name}"] for name in before}
        else:
            assert outputs["action/go"][0] == expected["go"]
            np.testing.assert_allclose(outputs["action/push"][0], expected["push"])


@pytest.mark.parametrize(
    ("space", "actions"),
    [(NESTED, Discrete(4)), (VECTOR, Box(-2, 2, (2,), np.float32))],
    ids=["nested", "vector"],
)
def test_a_world_model_is_served_with_its_state_and_the_action_before(
    space: gym.Space, actions: gym.Space, tmp_path: Path
) -> None:
    policy = dreamer_policy(space, actions)
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():  # so that what it remembers decides
        for parameter in policy.module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=rng))
    served = served_model(policy, tmp_path)
    inputs = set(served.metadata.get_input_schema().input_names())
    state = dict(policy.get_initial_state())
    assert inputs >= {f"state/{name}" for name in state} | {f"state/{PREV_ACTION}"}

    space.seed(1)
    example: Any = served.input_example
    begin = {name: np.asarray(x) for name, x in example.items() if name.startswith("state/")}
    given: dict[str, Any] = begin
    before, told = None, []
    for _ in range(6):
        obs = space.sample()
        outputs = served.predict(({"obs": obs[None]} if space is VECTOR else _leaves(obs)) | given)
        done, after, _ = policy.compute_single_action(
            obs, state, prev_action=before, explore=False, full_fetch=True
        )
        np.testing.assert_allclose(outputs["action"][0], done, rtol=1e-5, atol=1e-6)
        for name, part in after.items():
            np.testing.assert_allclose(outputs[f"state/{name}"][0], part, rtol=1e-5, atol=1e-6)
        given = {name: part for name, part in outputs.items() if name.startswith("state/")}
        before, state = done, after
        told.append(np.asarray(done).tolist())
    assert any(one != told[0] for one in told)
    forgetful = served.predict(({"obs": obs[None]} if space is VECTOR else _leaves(obs)) | begin)
    assert not np.allclose(forgetful["state/h"], given["state/h"], atol=1e-4)


def _leaves(obs: Any) -> dict[str, np.ndarray]:
    return {"image": obs["image"][None], "aim/0": np.asarray(obs["aim"][0])[None]}
