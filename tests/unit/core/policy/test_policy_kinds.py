"""A loaded policy acts as it did in evaluation, and so does its exported program: every kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiers import rarely

from tests.policy_kinds import KINDS, NUMPY_KINDS, TRUST, DiaryEnv, Step, settings_of
from trainables import Policy, PPOConfig
from trainables.core.errors import ConfigError
from trainables.core.export.exported_policy import ExportedPolicy
from trainables.core.export.torch_program import export_torch_program


def same(action: Any, other: Any) -> bool:
    if isinstance(action, dict):
        return all(same(action[key], other[key]) for key in action)
    return bool(np.allclose(action, other, rtol=1e-4, atol=1e-5))


def replayed(policy: Policy, episode: list[Step]) -> list[Any]:
    """The greedy actions of a policy that is shown an episode's observations one by one."""
    actions = []
    state: Any = policy.get_initial_state()
    before: dict[str, Any] = {}
    for step in episode:
        result = policy.compute_single_action(
            step.obs, state, **before, explore=False, full_fetch=True
        )
        state = result.state
        actions.append(result.actions)
        if (
            policy.observations.layout.dtype.names
            and "@prev_action" in policy.observations.layout.dtype.names
        ):
            before["prev_action"] = result.extra.get("module_actions", step.action)
        if (
            policy.observations.layout.dtype.names
            and "@prev_reward" in policy.observations.layout.dtype.names
        ):
            before["prev_reward"] = step.reward
    return actions


def shaken(policy: Policy) -> dict[str, np.ndarray]:
    """Weights that make much of small differences, so that actions differ."""
    rng = np.random.default_rng(0)
    weights = policy.get_weights()
    for weight in weights.values():
        if weight.ndim > 1:  # a bias would favour the same action always
            weight += rng.normal(0, 0.7, weight.shape)
    return weights


@pytest.fixture(scope="module", params=KINDS)
def evaluated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[list[Step]]]:
    """A trained policy's folder, and what it did in an evaluation."""
    folder = tmp_path_factory.mktemp("policies") / request.param
    with PPOConfig.from_dict(settings_of(request.param)).build() as algorithm:
        algorithm.train()
        algorithm.set_weights({"default_policy": shaken(algorithm.get_policy())})
        DiaryEnv.diary = []
        algorithm.evaluate()
        algorithm.save(str(folder))
    return folder, DiaryEnv.diary[:3]


def test_a_loaded_policy_acts_as_it_was_evaluated(
    evaluated: tuple[Path, list[list[Step]]],
) -> None:
    folder, diary = evaluated
    policy = Policy.load(folder, trust=TRUST)
    assert len(diary) == 3
    for episode in diary:
        actions = replayed(policy, episode)
        assert all(map(same, actions, [step.action for step in episode]))
    assert len({str(step.action) for episode in diary for step in episode}) > 1


def played(policy: ExportedPolicy, episode: list[Step]) -> list[Any]:
    """The actions of an exported graph that is shown an episode's observations one by one."""
    actions: list[Any] = []
    state: Any = None
    before: dict[str, Any] = {}
    for step in episode:
        result = policy.compute_single_action(step.obs, state, **before, full_fetch=True)
        actions.append(result.actions)
        state = result.state
        if policy.observations.extras(torch.empty(1), [0.0], [False]):
            before["prev_reward"] = step.reward
    return actions


@pytest.mark.parametrize(
    "evaluated",
    rarely(
        # Vectors, boxes and filters alone are exported in test_export_graph.py.
        [k for k in KINDS if k not in {*NUMPY_KINDS, "vector", "box_actions", "filtered"}],
        ["gru_nested_and_masked"],
    ),
    indirect=True,
)
def test_the_exported_program_is_the_policy(
    evaluated: tuple[Path, list[list[Step]]], tmp_path: Path
) -> None:
    policy = Policy.load(evaluated[0], trust=TRUST)
    export_torch_program(policy, tmp_path)  # compared on 1,000 observations there
    exported = ExportedPolicy.load(tmp_path, trust=["torch.export"])
    for episode in evaluated[1]:
        assert all(map(same, played(exported, episode), [step.action for step in episode]))


@pytest.mark.parametrize("evaluated", sorted(NUMPY_KINDS), indirect=True)
def test_numpy_functions_of_actions_are_not_exported(
    evaluated: tuple[Path, list[list[Step]]], tmp_path: Path
) -> None:
    policy = Policy.load(evaluated[0], trust=TRUST)
    with pytest.raises(ConfigError, match=r"(rounded|Torques) works on numpy arrays, not on"):
        export_torch_program(policy, tmp_path)
    assert not list(tmp_path.iterdir())


WITHOUT_RAY = """
import sys

class NoRay:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ray", "mlflow", "optuna"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, NoRay())
import numpy as np
from trainables import Policy

policy = Policy.load(sys.argv[1])
record = np.load(sys.argv[2])
state, before = policy.get_initial_state(), {}
for obs, action, reward in zip(record["obs"], record["actions"], record["rewards"]):
    result = policy.compute_single_action(obs, state, explore=False, **before)
    assert np.allclose(result.actions, action, atol=1e-5), (result.actions, action)
    state, before = result.state, {"prev_action": action, "prev_reward": reward}
print("acted", len(record["obs"]), [m for m in sys.modules if m.startswith("ray")])
"""


@pytest.mark.full("test_the_exported_program_is_the_policy")
@pytest.mark.parametrize("evaluated", ["lstm_with_previous"], indirect=True)
def test_a_policy_with_a_memory_acts_without_ray(
    evaluated: tuple[Path, list[list[Step]]], tmp_path: Path
) -> None:
    folder, diary = evaluated
    record = {
        "obs": np.stack([step.obs for step in diary[0]]),
        "actions": np.stack([step.action for step in diary[0]]),
        "rewards": np.array([step.reward for step in diary[0]]),
    }
    np.savez(tmp_path / "record.npz", **record)
    command = [sys.executable, "-c", WITHOUT_RAY, str(folder), str(tmp_path / "record.npz")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == f"acted {len(diary[0])} []"
