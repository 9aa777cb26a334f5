"""Every kind of policy as an MLflow model: nested spaces by name, memories with their state."""

import logging
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from trainables import Policy

NESTED = Dict({"image": Box(0, 255, (7, 7, 3), np.uint8), "aim": Tuple([Discrete(3)])})
VECTOR = Box(-1, 1, (4,), np.float32)
MEMORY = {"use_lstm": True, "lstm_cell_size": 8}


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
    space: gym.Space,
    actions: gym.Space,
    model: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mlflow import pyfunc
    from mlflow.models import Model

    from experiments.tracking.model import build_model

    monkeypatch.setattr(sys, "path", [*sys.path])  # a loaded model puts its code there
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    policy = Policy(space, actions, model, seed=0)
    folder = policy.save(tmp_path / "policy")
    built = build_model(policy, folder, tmp_path / "work", Model())
    served = pyfunc.load_model(str(built))

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


def _leaves(obs: Any) -> dict[str, np.ndarray]:
    return {"image": obs["image"][None], "aim/0": np.asarray(obs["aim"][0])[None]}
