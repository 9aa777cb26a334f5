"""Policies as one graph from observations to actions, by torch.export."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tiers import rarely

from trainables.core.checkpoint import CheckpointError
from trainables.core.data.spaces import leaves_of
from trainables.core.errors import ConfigError
from trainables.core.export import graph_verification
from trainables.core.export import torch_program as export
from trainables.core.export.exported_policy import ExportedPolicy, is_exported, load_player
from trainables.core.export.graph_verification import sampled
from trainables.core.export.policy_graph import on_cpu
from trainables.core.export.torch_program import export_torch_program
from trainables.core.policy.policy import Policy

Box, Discrete, Dict, Tuple = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.Dict, gym.spaces.Tuple
VECTOR = Box(-2, 2, (4,), np.float32)
LSTM = {"use_lstm": True, "lstm_cell_size": 8}
TRUST = ["torch.export"]
RAINBOW = {
    "type": "q_network",
    "dueling": True,
    "hiddens": [8],
    "noisy": True,
    "num_atoms": 11,
    "v_min": -5.0,
    "v_max": 5.0,
}
MASKED = Dict({"action_mask": gym.spaces.MultiBinary(3), "x": VECTOR})


def torque(actions: Any) -> Any:
    """Of numpy arrays and tensors alike."""
    return (actions[:, None] - 2) * 0.5


class Torques:
    """Five torques for a Box: another action space than the environment's."""

    def space(self, action_space: gym.Space) -> gym.Space:
        return Discrete(5)

    def __call__(self, actions: Any) -> Any:
        return torque(actions)


# Observation space, action space, what else the policy is made with.
POLICIES: dict[str, tuple[gym.Space, gym.Space, dict[str, Any]]] = {
    "starts": (VECTOR, Discrete(3, start=5), {}),
    "dqn": (VECTOR, Discrete(3, start=-1), {"module": RAINBOW}),
    "dqn_masked": (MASKED, Discrete(3), {"module": RAINBOW}),
    "dqn_lstm": (VECTOR, Discrete(3), {"module": {"type": "q_network"}, "model": LSTM}),
    "sac": (VECTOR, Box(-2, 1, (2,), np.float32), {"module": {"type": "soft_actor_critic"}}),
    "sac_discrete": (VECTOR, Discrete(4), {"module": {"type": "soft_actor_critic"}}),
    "multi_discrete": (VECTOR, gym.spaces.MultiDiscrete([2, 4], start=[3, -1]), {}),
    "multi_binary": (VECTOR, gym.spaces.MultiBinary(3), {}),
    "bytes": (VECTOR, Box(3, 9, (2,), np.uint8), {}),
    "unbounded": (VECTOR, Box(-np.inf, np.inf, (2,), np.float64), {}),
    "wide": (Box(-3e38, 3e38, (2,), np.float32), Box(-1e3, 1e3, (), np.float64), {}),
    "clipped": (
        VECTOR,
        Box(-0.1, 0.1, (2, 1), np.float32),
        {"normalize_actions": False, "clip_actions": True},
    ),
    "squashed_with_previous": (
        VECTOR,
        Box(-3, 1, (2,), np.float64),
        {"model": {**LSTM, "squash_actions": True, "lstm_use_prev_action": True}},
    ),
    "clipped_with_previous": (
        VECTOR,
        Dict({"a": Box(-0.01, 0.01, (2,), np.float32), "b": Discrete(2)}),
        {"model": {**LSTM, "lstm_use_prev_action": True, "lstm_use_prev_reward": True}},
    ),
    "doubles": (Box(-1, 1, (3,), np.float64), Discrete(2), {"observation_filter": "MeanStdFilter"}),
    "numbers": (
        Tuple([Discrete(3, start=2), gym.spaces.MultiDiscrete([2, 3])]),
        Tuple([Discrete(2), Dict({"x": Box(-1, 1, (), np.float32)})]),
        {},
    ),
    "halves": (Box(-1, 1, (2,), np.float16), Box(-3, 2, (), np.float16), {}),
    "words": (Box(0, 999, (5,), np.uint16), Box(2**63, 2**63 + 3, (2,), np.uint64), {}),
    "frames": (Box(0, 255, (10, 10), np.uint8), Discrete(3), {"frame_stack": 3}),
    "of_both": (VECTOR, Box(-1, 1, (1,), np.float32), {"module_to_env_connector": Torques}),
}


QUICK = (
    "starts",
    "dqn_masked",
    "sac",
    "bytes",
    "squashed_with_previous",
    "doubles",
    "numbers",
    "frames",
    "of_both",
)


def made(name: str) -> Policy:
    """A policy with weights that make much of small differences."""
    observations, actions, options = POLICIES[name]
    model = {"fcnet_hiddens": [8], **options.get("model", {})}
    metadata = {"env": "CartPole-v1", "env_config": {}}
    policy = Policy(observations, actions, seed=0, metadata=metadata, **{**options, "model": model})
    rng = np.random.default_rng(0)
    weights = policy.get_weights()
    for weight in weights.values():
        if weight.ndim > 1:
            weight += rng.normal(0, 0.7, weight.shape).astype(weight.dtype)
    policy.set_weights(weights)
    if policy.observations.filter is not None:
        state = {"count": 50, "mean": rng.normal(size=3), "m2": rng.uniform(1, 9, 3)}
        policy.observations.filter.set_state(state)
    return policy


def obs_of(policy: Policy, num: int) -> list[Any]:
    space = policy.observation_space
    space.seed(3)
    found = [space.sample() for _ in range(num)]
    if isinstance(space, Dict) and "action_mask" in space.spaces:
        for obs in found:
            obs["action_mask"][0] = 1
    return found


@pytest.fixture(scope="module")
def graph_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a policy's graph, each written once."""
    folder = tmp_path_factory.mktemp("graphs")
    return cache(lambda name: export_torch_program(made(name), folder / name))


@pytest.mark.parametrize("name", rarely(list(POLICIES), QUICK))
def test_a_graph_acts_as_its_policy(graph_of: Callable[[str], Path], name: str) -> None:
    policy = made(name)
    exported = ExportedPolicy.load(graph_of(name).parent, trust=TRUST)
    assert exported.has_state == bool(policy.has_state)
    theirs: Any = None
    ours: Any = None
    before: dict[str, Any] = {}
    remembered: dict[str, Any] = {}
    chosen = set()
    # To the bit; but actions that are handed back to a policy are rounded by NumPy.
    tolerance = 1e-6 if name == "squashed_with_previous" else 0
    for step, obs in enumerate(obs_of(policy, 12)):
        if step == 7:  # another episode
            ours = theirs = None
            before, remembered = {}, {}
        first = policy.compute_single_action(
            obs, ours, **before, **remembered, explore=False, full_fetch=True
        )
        second = exported.compute_single_action(obs, theirs, **before, full_fetch=True)
        ours, theirs = first.state, second.state
        chosen.add(str(first.actions))
        assert type(first.actions) is type(second.actions)
        sides = [leaves_of(policy.action_space, side.actions) for side in (first, second)]
        for expected, given in zip(*(side.values() for side in sides), strict=True):
            assert np.asarray(expected).dtype == np.asarray(given).dtype
            np.testing.assert_allclose(given, expected, rtol=tolerance, atol=tolerance)
        assert set(second.extra) == set(first.extra) - {"action_logp", "module_actions"}
        assert ("vf_preds" in first.extra) == (name.partition("_")[0] not in ("dqn", "sac"))
        for said, given in second.extra.items():
            np.testing.assert_allclose(given, first.extra[said], rtol=tolerance, atol=tolerance)
        if "with_previous" in name:
            remembered["prev_action"] = first.actions
        if name == "clipped_with_previous":
            before["prev_reward"] = float(step)
    assert len(chosen) > 1
    assert policy.action_space.contains(second.actions)


def test_graphs_that_gave_a_value_of_their_action_values_still_do(
    graph_of: Callable[[str], Path],
) -> None:
    """Graphs of DQN and SAC that were exported when these named one have it as an output."""
    exported = ExportedPolicy.load(graph_of("dqn_masked").parent, trust=TRUST)
    run = exported._run

    def older(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = run(inputs)
        return outputs | {"vf_preds": outputs["action_dist_inputs"].max(-1)}

    (obs,) = obs_of(made("dqn_masked"), 1)
    new = exported.compute_single_action(obs, full_fetch=True)
    old = ExportedPolicy(older, exported.description).compute_single_action(obs, full_fetch=True)
    assert set(old.extra) - set(new.extra) == {"vf_preds"}
    assert old.extra["vf_preds"] == new.extra["action_dist_inputs"].max()
    assert old.actions == new.actions


def test_batches_of_any_size_and_lists(graph_of: Callable[[str], Path]) -> None:
    policy = made("numbers")
    exported = ExportedPolicy.load(graph_of("numbers").parent, trust=TRUST)
    for size in (1, 2, 5, 300):
        batch = obs_of(policy, size)
        expected = policy.compute_actions(batch, explore=False)
        given = exported.compute_actions(batch)
        np.testing.assert_array_equal(given[0], expected[0])
        np.testing.assert_array_equal(given[1]["x"], expected[1]["x"])


def test_the_file_beside_it_tells_the_story(graph_of: Callable[[str], Path]) -> None:
    path = graph_of("squashed_with_previous")
    found = json.loads((path.parent / "model.pt2.json").read_text())
    assert [entry["name"] for entry in found["inputs"]] == [
        "obs",
        *(f"state/{side}.{part}" for side in ("policy", "value") for part in "hc"),
        "state/@prev_action",
    ]
    assert [entry["name"] for entry in found["outputs"]][:3] == [
        "action",
        "action_dist_inputs",
        "vf_preds",
    ]
    assert found["states"]["state/@prev_action"] == "next_state/@prev_action"
    assert found["metadata"] == {"env": "CartPole-v1", "env_config": {}}
    assert found["verified"]["observations"] == {"space": 1000}
    assert found["verified"]["max_difference"]["action"] <= 1e-5
    assert sorted(p.name for p in path.parent.iterdir()) == ["model.pt2", "model.pt2.json"]


ALONE = """
import sys

class Alone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("trainables", "gymnasium", "ray", "safetensors"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Alone())
import torch

program = torch.export.load(sys.argv[1]).module()
state = {f"state/{side}.{part}": torch.zeros(2, 8) for side in ("policy", "value") for part in "hc"}
made = program({"obs": torch.ones(2, 4), "state/@prev_action": torch.zeros(2, 2), **state})
print(*made["action"][0].tolist())
"""


@pytest.mark.full("test_a_graph_acts_as_its_policy")
def test_a_program_needs_torch_alone(graph_of: Callable[[str], Path], tmp_path: Path) -> None:
    policy = made("squashed_with_previous")
    command = [sys.executable, "-c", ALONE, str(graph_of("squashed_with_previous"))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    action = policy.compute_single_action(np.ones(4, np.float32), explore=False).actions
    assert [float(part) for part in result.stdout.split()] == pytest.approx(action, abs=1e-6)


def test_a_graph_that_acts_otherwise_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = made("sac")
    true = export.torch_program

    def wrong(path: Any) -> Any:
        run = true(path)
        return lambda inputs: {**run(inputs), "action": run(inputs)["action"] + np.float32(1e-4)}

    monkeypatch.setattr(export, "torch_program", wrong)
    with pytest.raises(ConfigError, match=r"does not act as the policy does: action: a difference"):
        export_torch_program(policy, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def traced() -> tuple[Policy, export.TracedGraph]:
    policy = made("squashed_with_previous")
    return policy, export.TracedGraph(policy)


@pytest.mark.parametrize(
    "output",
    ["action", "vf_preds", "action_dist_inputs", "next_state/value.c", "next_state/@prev_action"],
)
def test_every_output_is_compared(traced: tuple[Policy, export.TracedGraph], output: str) -> None:
    policy, graph = traced[0], traced[1].graph

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            found = graph({name: torch.from_numpy(a) for name, a in inputs.items()})
        arrays = {name: part.numpy() for name, part in found.items()}
        if calls.append(0) or len(calls) == 50:  # type: ignore[func-returns-value]  # the last one
            arrays[output] = arrays[output].copy()
            arrays[output].flat[-1] += 1e-3
        return arrays

    calls: list[int] = []
    with pytest.raises(ConfigError, match=f"{output}: a difference"):
        graph_verification.verified(policy, graph, run)


def test_a_tie_may_be_broken_otherwise() -> None:
    policy = made("starts")
    weights = policy.get_weights()
    weights = {n: w * 0 if n.startswith("policy_head") else w for n, w in weights.items()}
    policy.set_weights(weights)  # all actions are equal
    traced = export.TracedGraph(policy)

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            found = traced.graph({name: torch.from_numpy(a) for name, a in inputs.items()})
        arrays = {name: part.numpy() for name, part in found.items()}
        arrays["action_dist_inputs"] = arrays["action_dist_inputs"] + np.float32([0, 0, 1e-7])
        return {**arrays, "action": arrays["action"] * 0 + wanted}

    wanted = 7  # the third of 5, 6, 7
    assert graph_verification.verified(policy, traced.graph, run)["ties"] == 1000
    wanted = 6  # which its own inputs do not say
    with pytest.raises(ConfigError, match=r"action: . became 6"):
        graph_verification.verified(policy, traced.graph, run)


def test_a_policy_on_another_device_is_exported_from_a_copy() -> None:
    for name in ("doubles", "dqn"):
        policy = made(name)
        twin = on_cpu(policy)
        obs = np.stack(obs_of(policy, 9))
        expected, given = (p.compute_actions(obs, explore=False) for p in (policy, twin))
        np.testing.assert_array_equal(given, expected)
        expected, given = (p.forward(obs).dist_inputs for p in (policy, twin))
        np.testing.assert_array_equal(given, expected)
        assert twin.metadata == policy.metadata


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    class Sines(torch.nn.Module):
        width = 3

        def __init__(self, spec: Any):
            super().__init__()
            self.layer = torch.nn.Linear(spec.num_features, 3)

        def forward(self, features: Any) -> Any:
            return self.layer(features).sin()

    class Asks(Sines):
        def forward(self, features: Any) -> Any:
            return self.layer(features) if features.sum() > 0 else self.layer(-features)

    export_torch_program(Policy(VECTOR, Discrete(3), {"custom_model": Sines}), tmp_path)
    exported = ExportedPolicy.load(tmp_path, trust=TRUST)
    assert exported.compute_actions(np.zeros((2, 4), np.float32)).shape == (2,)
    with pytest.raises(ConfigError, match="a connector or custom model does what depends on"):
        export_torch_program(Policy(VECTOR, Discrete(3), {"custom_model": Asks}), tmp_path)


def test_loading_a_program_takes_trust(graph_of: Callable[[str], Path]) -> None:
    path = graph_of("starts")
    with pytest.raises(CheckpointError, match=r"runs what the file says.*\['torch.export'\]"):
        ExportedPolicy.load(path.parent)
    assert isinstance(load_player(path.parent, trust=TRUST), ExportedPolicy)
    assert is_exported(path)


def test_what_is_no_exported_policy_is_named(
    graph_of: Callable[[str], Path], tmp_path: Path
) -> None:
    policy = made("starts")
    with pytest.raises(CheckpointError, match=r"has no policy.onnx and no model.pt2"):
        ExportedPolicy.load(tmp_path)
    policy.save(tmp_path / "policy")
    assert not is_exported(tmp_path / "policy")
    assert isinstance(load_player(tmp_path / "policy"), Policy)
    shutil.copytree(graph_of("starts").parent, tmp_path, dirs_exist_ok=True)
    beside = tmp_path / "model.pt2.json"
    said = json.loads(beside.read_text())
    for change, message in (
        ({"format_version": 9}, "format version 9 is unknown"),
        ({"kind": "x"}, "describes no policy's graph"),
        ({"inputs": 3}, "is damaged"),
    ):
        beside.write_text(json.dumps({**said, **change}))
        with pytest.raises(CheckpointError, match=message):
            ExportedPolicy.load(tmp_path, trust=TRUST)
    beside.unlink()
    with pytest.raises(CheckpointError, match=r"model.pt2.json is missing"):
        ExportedPolicy.load(tmp_path, trust=TRUST)


def test_wrong_use_is_named(graph_of: Callable[[str], Path]) -> None:
    exported = ExportedPolicy.load(graph_of("dqn_masked").parent, trust=TRUST)
    obs = {"action_mask": np.zeros(3, np.int8), "x": np.zeros(4, np.float32)}
    with pytest.raises(ConfigError, match="'action_mask' allows no action"):
        exported.compute_single_action(obs)
    obs["action_mask"][1] = 1
    assert exported.compute_single_action(obs) == 1
    with pytest.raises(ConfigError, match="explore = True is not possible"):
        exported.compute_single_action(obs, explore=True)
    with pytest.raises(ConfigError, match="does not look at it"):
        exported.compute_single_action(obs, prev_reward=1.0)
    with pytest.raises(ConfigError, match="does not fit the exported policy's"):
        exported.compute_single_action(obs, {"h": np.zeros(3)})
    with pytest.raises(ConfigError, match="observation at 'x' has shape"):
        exported.compute_single_action({**obs, "x": np.zeros(3, np.float32)})


def test_names_that_stand_for_two_things_are_refused(tmp_path: Path) -> None:
    space = Dict({"prev_reward": Box(-1, 1, (), np.float32)})
    model = {**LSTM, "lstm_use_prev_reward": True}
    with pytest.raises(ConfigError, match="leaf 'prev_reward' has the name of another input"):
        export_torch_program(Policy(space, Discrete(2), model), tmp_path)


def test_sampled_observations_are_of_their_space() -> None:
    policy = made("wide")
    recording = sampled(policy, 50, 20)
    assert np.abs(recording.rows).max() < 10  # not what overflows
    assert recording.is_first[0].all() and 50 < recording.is_first.sum() < 200
    policy = made("numbers")
    rows = sampled(policy, 50, 20).rows
    assert {*rows["0"].ravel().tolist()} == {2, 3, 4}
