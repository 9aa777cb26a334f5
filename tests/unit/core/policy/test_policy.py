"""`Policy`: the one path from observations to actions, in training and from an exported folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from refusals import Golden, refusals
from tiers import covering

from trainables import Algorithm, Policy, PPOConfig
from trainables.core.checkpoint import CheckpointError, load_state, save_state
from trainables.core.errors import ConfigError
from trainables.core.export.torch_program import export_torch_program
from trainables.core.policy.filter import RunningMoments

Box, Discrete, MultiDiscrete = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete

OBSERVATIONS = [
    Box(-1, 1, (4,), np.float32),
    Box(-np.inf, np.inf, (), np.float64),
    Box(0, 255, (3, 2), np.uint8),
    Box(-5, 5, (1,), np.int32),
    Discrete(5),
    Discrete(5, start=-2),
    MultiDiscrete([3, 2, 4]),
    MultiDiscrete([3, 2], start=[1, -5]),
]
ACTIONS = [
    Discrete(3),
    Discrete(3, start=10),
    MultiDiscrete([3, 2]),
    MultiDiscrete([3, 2], start=[-1, 4]),
    Box(-2, 2, (3,), np.float32),
    Box(-1, 3, (), np.float32),
    Box(np.array([0, -np.inf], np.float32), np.array([1, np.inf], np.float32)),
    Box(-1, 1, (2, 2), np.float64),
]


def sample(space: gym.Space, count: int, seed: int = 0) -> np.ndarray:
    space.seed(seed)
    return np.stack([np.asarray(space.sample()) for _ in range(count)])


def with_filter(space: gym.Space, **more: Any) -> Policy:
    """A policy whose filter has seen some frames."""
    policy = Policy(space, Discrete(3), observation_filter="MeanStdFilter", seed=0, **more)
    moments = RunningMoments(policy.observations.preprocessor.num_features)
    rng = np.random.default_rng(0)
    moments.update(rng.normal(3.0, 2.0, (100, policy.observations.preprocessor.num_features)))
    assert policy.observations.filter is not None
    policy.observations.filter.merge(moments)
    return policy


# ------------------------------------------------------------------ spaces


@pytest.mark.parametrize(
    ("observation_space", "action_space"), covering(OBSERVATIONS, ACTIONS, strength=1)
)
def test_every_space(tmp_path: Path, observation_space: gym.Space, action_space: gym.Space) -> None:
    policy = Policy(observation_space, action_space, seed=1)
    batch = sample(observation_space, 6)
    for explore in (True, False):
        actions = policy.compute_actions(batch, explore=explore)
        assert actions.dtype == action_space.dtype
        for action in actions:
            assert action_space.contains(
                np.asarray(action) if isinstance(action_space, (Box, MultiDiscrete)) else action
            )
        single = policy.compute_single_action(batch[0], explore=explore)
        assert np.shape(single) == action_space.shape
    greedy = policy.compute_actions(batch, explore=False)
    one_by_one = [policy.compute_single_action(obs, explore=False) for obs in batch]
    np.testing.assert_allclose(greedy, np.stack(one_by_one), rtol=1e-5, atol=1e-6)
    loaded = Policy.load(policy.save(tmp_path))
    np.testing.assert_array_equal(loaded.compute_actions(batch, explore=False), greedy)
    assert loaded.observation_space == observation_space
    assert loaded.action_space == action_space


@pytest.mark.parametrize(
    ("observation_space", "action_space", "named"),
    [
        (gym.spaces.Text(3), Discrete(2), "observation space Text"),
        (Discrete(2), gym.spaces.Text(3), "action space Text"),
    ],
    ids=str,
)
def test_unsupported_spaces(
    observation_space: gym.Space, action_space: gym.Space, named: str
) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){named}.* is not supported.*; supported: "):
        Policy(observation_space, action_space)


@pytest.mark.parametrize("space", [Discrete(5, start=-2), MultiDiscrete([3, 2], start=[1, -5])])
def test_one_hot_features(space: Any) -> None:
    policy = Policy(space, Discrete(2))
    low = np.asarray(space.start)
    features = policy.features(np.stack([low, low + 1])).numpy()
    if isinstance(space, Discrete):
        expected = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    else:
        expected = [[1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]
    np.testing.assert_array_equal(features, expected)


def test_offset_actions() -> None:
    """The distribution counts from 0, the environment from `start`."""
    policy = Policy(Box(-1, 1, (2,)), Discrete(3, start=10), seed=0)
    obs = sample(policy.observation_space, 50)
    stored, actions, _, _ = policy.act(obs, True, torch.Generator().manual_seed(0))
    assert set(stored.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(actions, stored.numpy() + 10)


# ------------------------------------------------------------------ acting


def test_full_fetch() -> None:
    policy = Policy(Box(-1, 1, (4,)), Discrete(3), seed=0)
    batch = sample(policy.observation_space, 5)
    actions, state, extra = policy.compute_actions(batch, explore=False, full_fetch=True)
    assert state == {}
    logits, values = extra["action_dist_inputs"], extra["vf_preds"]
    assert (logits.shape, values.shape, extra["action_logp"].shape) == ((5, 3), (5,), (5,))
    np.testing.assert_array_equal(actions, logits.argmax(-1))
    expected = torch.log_softmax(torch.as_tensor(logits), -1).max(-1).values
    np.testing.assert_allclose(extra["action_logp"], expected, rtol=1e-5)
    np.testing.assert_allclose(values, policy.value(batch), rtol=1e-5)
    action, state, one = policy.compute_single_action(batch[2], explore=False, full_fetch=True)
    assert action == actions[2] and state == {}
    np.testing.assert_allclose(one["action_dist_inputs"], logits[2], rtol=1e-5, atol=1e-7)
    assert one["vf_preds"].shape == one["action_logp"].shape == ()


def test_explore_default_and_seed() -> None:
    space = Box(-1, 1, (4,))
    obs = sample(space, 200)
    one, same, other = (Policy(space, Discrete(3), seed=seed) for seed in (0, 0, 1))
    first = one.compute_actions(obs)
    np.testing.assert_array_equal(first, same.compute_actions(obs))
    assert (first != other.compute_actions(obs)).any()
    assert (first != one.compute_actions(obs)).any()  # the stream goes on
    greedy = Policy(space, Discrete(3), seed=0, explore=False)
    np.testing.assert_array_equal(
        greedy.compute_actions(obs), one.compute_actions(obs, explore=False)
    )
    assert (greedy.compute_actions(obs, explore=True) != greedy.compute_actions(obs)).any()


def test_shape_errors() -> None:
    policy = Policy(Box(-1, 1, (4,)), Discrete(3))
    with pytest.raises(ConfigError, match=r"observation has shape \(3,\), not \(4,\)"):
        policy.compute_single_action(np.zeros(3))
    with pytest.raises(ConfigError, match=r"observation has shape \(1, 4\), not \(4,\)"):
        policy.compute_single_action(np.zeros((1, 4)))
    with pytest.raises(ConfigError, match=r"observation has shape \(4,\), not \(batch, 4\)"):
        policy.compute_actions(np.zeros(4))
    with pytest.raises(ConfigError, match="observation is object, not numbers"):
        policy.compute_single_action({"obs": np.zeros(4)})
    with pytest.raises(ConfigError, match=r"does not fit the policy's .*: it is not recurrent"):
        policy.compute_actions(np.zeros((1, 4)), state={"h": np.zeros((1, 2))})
    with pytest.raises(ConfigError, match=r"or as input_dict\['obs'\]; none is given"):
        Policy(Discrete(3), Discrete(2)).compute_single_action(None)
    with pytest.raises(ConfigError, match="observation is <U4, not numbers"):
        Policy(Discrete(3), Discrete(2)).compute_single_action("left")


def test_lists_and_other_dtypes_are_taken() -> None:
    policy = Policy(Box(-1, 1, (2,)), Discrete(3), seed=0)
    obs = np.array([0.25, -0.5])
    expected = policy.compute_single_action(obs, explore=False)
    read_only = obs.astype(np.float32)
    read_only.flags.writeable = False
    for same in (obs.tolist(), torch.tensor(obs), read_only, obs.astype(np.float16)):
        assert policy.compute_single_action(same, explore=False) == expected


def constant_policy(space: gym.Space, mean: float, **options: Any) -> Policy:
    """A policy whose Gaussian has the given mean whatever it sees."""
    policy = Policy(Box(-1, 1, (1,)), space, seed=0, **options)
    weights = policy.get_weights()
    for name, value in weights.items():
        if name.startswith("policy_head"):
            value[:] = mean if name.endswith("bias") else 0.0
    policy.set_weights(weights)
    return policy


@pytest.mark.parametrize(
    ("options", "mean", "expected"),
    [
        ({}, 0.5, 4.0),  # [-1, 1] is stretched to [-2, 6]
        ({}, -1.0, -2.0),
        ({}, 3.0, 6.0),  # and clipped
        ({"normalize_actions": False}, 0.5, 0.5),
        ({"normalize_actions": False}, 9.0, 9.0),
        ({"normalize_actions": False, "clip_actions": True}, 0.5, 0.5),
        ({"normalize_actions": False, "clip_actions": True}, 9.0, 6.0),
        ({"model": {"squash_actions": True}}, 0.5, 2 + 4 * np.tanh(0.5)),
        ({"model": {"squash_actions": True}, "normalize_actions": False}, 50.0, 6.0),
    ],
    ids=str,
)
def test_actions_for_a_bounded_box(
    tmp_path: Path, options: dict[str, Any], mean: float, expected: float
) -> None:
    policy = constant_policy(Box(-2, 6, (1,)), mean, **options)
    for one in (policy, Policy.load(policy.save(tmp_path))):
        action = one.compute_single_action(np.zeros(1), explore=False)
        np.testing.assert_allclose(action, [expected], rtol=1e-6)


def test_actions_for_a_half_bounded_box() -> None:
    """Only elements with two finite bounds are stretched; every bound holds."""
    space = Box(np.array([0, -np.inf, -1], np.float32), np.array([10, np.inf, np.inf], np.float32))
    action = constant_policy(space, -3.0).compute_single_action(np.zeros(1), explore=False)
    np.testing.assert_allclose(action, [0.0, -3.0, -1.0])
    action = constant_policy(space, 0.5).compute_single_action(np.zeros(1), explore=False)
    np.testing.assert_allclose(action, [7.5, 0.5, 0.5])
    with pytest.raises(ConfigError, match="squash_actions=True needs a bounded action space"):
        Policy(Box(-1, 1, (1,)), space, {"squash_actions": True})


# ------------------------------------------------------------------ weights


def test_get_and_set_weights() -> None:
    space = Box(-1, 1, (4,))
    one, other = Policy(space, Discrete(3), seed=0), Policy(space, Discrete(3), seed=1)
    obs = sample(space, 20)
    before = one.get_weights()
    assert not np.allclose(one.value(obs), other.value(obs))
    other.set_weights(before)
    np.testing.assert_array_equal(one.value(obs), other.value(obs))
    kept = one.value(obs)
    for value in before.values():
        value[:] = 0  # copies, so the policy stays as it is
    np.testing.assert_array_equal(one.value(obs), kept)
    np.testing.assert_array_equal(other.value(obs), kept)


def test_wrong_weights_are_refused() -> None:
    policy = Policy(Box(-1, 1, (4,)), Discrete(3))
    weights = policy.get_weights()
    with pytest.raises(ConfigError, match=r"weights \['a'\] do not fit the module's \['encoder"):
        policy.set_weights({"a": np.zeros(1)})
    name = "policy_head.0.bias"
    with pytest.raises(ConfigError, match=rf"weight {name} has shape \(4,\), .* has \(3,\)"):
        policy.set_weights({**weights, name: np.zeros(4, np.float32)})


def test_model_access() -> None:
    policy = Policy(Box(-1, 1, (4,)), Discrete(3), seed=0)
    assert policy.model is policy.model and repr(policy.model) == repr(policy.module)
    assert policy.model.policy_head is policy.module.get_submodule("policy_head")
    output = policy.forward(sample(policy.observation_space, 5))
    distribution = policy.dist_class(output.dist_inputs, policy.model)
    assert distribution.logp(distribution.sample()).shape == (5,)


# ------------------------------------------------------------------ filter


@pytest.mark.parametrize("space", [Box(-10, 10, (4,), np.float32), Box(0, 9, (2, 2), np.int32)])
def test_the_filter_travels_with_the_policy(tmp_path: Path, space: gym.Space) -> None:
    policy = with_filter(space)
    loaded = Policy.load(policy.save(tmp_path))
    obs = sample(space, 30)
    flat = obs.reshape(30, -1).astype(np.float64)
    moments = policy.observations.filter.moments  # type: ignore[union-attr]
    expected = np.clip((flat - moments.mean) / moments.std, -10, 10)
    for one in (policy, loaded):
        np.testing.assert_allclose(one.features(obs), expected, rtol=1e-4, atol=1e-5)
    raw = Policy(space, Discrete(3), seed=0)
    raw.set_weights(policy.get_weights())
    assert not np.allclose(raw.value(obs), policy.value(obs))
    np.testing.assert_array_equal(loaded.value(obs), policy.value(obs))
    np.testing.assert_array_equal(
        loaded.compute_actions(obs, explore=False), policy.compute_actions(obs, explore=False)
    )


def test_acting_does_not_change_the_filter() -> None:
    policy = with_filter(Box(-10, 10, (4,), np.float32))
    before = str(policy.get_state()["filter"])
    policy.compute_actions(sample(policy.observation_space, 30))
    assert str(policy.get_state()["filter"]) == before


# ------------------------------------------------------------------ exported


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An algorithm's checkpoint, and observations with what it does and thinks about them."""
    folder = tmp_path_factory.mktemp("trained")
    config = PPOConfig.from_dict(
        {
            "env": "Pendulum-v1",
            "observation_filter": "MeanStdFilter",
            "train_batch_size": 400,
            "num_epochs": 2,
            "seed": 3,
        }
    )
    with config.build() as algorithm:
        algorithm.train()
        algorithm.save(str(folder / "checkpoint"))
        algorithm.export_policy_checkpoint(str(folder / "exported"))
        obs = sample(algorithm.get_policy().observation_space, 100)
        record = {
            "obs": obs,
            "actions": algorithm.compute_actions(obs, explore=False),
            "values": algorithm.get_policy().value(obs).numpy(),
        }
        assert np.any(algorithm.get_policy().get_state()["filter"]["mean"])
        single = algorithm.compute_single_action(obs[0], explore=False)
        np.testing.assert_allclose(single, record["actions"][0], rtol=1e-5)
        keyed = algorithm.compute_actions({"a": obs[0], "b": obs[1]}, explore=False)
        np.testing.assert_allclose(
            np.stack([keyed["a"], keyed["b"]]), record["actions"][:2], rtol=1e-5
        )
    np.savez(folder / "record.npz", **record)
    return folder / "checkpoint", folder / "exported"


WITHOUT_RAY = """
import sys

class NoRay:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ray", "mlflow", "optuna"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, NoRay())
import numpy as np
from trainables.core.policy.policy import Policy
from trainables import Policy as same

try:
    import ray
except ImportError:
    pass
else:
    raise AssertionError("ray was imported")
record = np.load(sys.argv[1])
for folder in sys.argv[2:]:
    policy = Policy.load(folder)
    assert type(policy) is same
    actions = policy.compute_actions(record["obs"], explore=False)
    assert np.array_equal(actions, record["actions"]), abs(actions - record["actions"]).max()
    assert np.array_equal(policy.value(record["obs"]).numpy(), record["values"])
    for obs, action in zip(record["obs"][:5], record["actions"]):
        assert np.allclose(policy.compute_single_action(obs, explore=False), action, atol=1e-6)
print("acted", len(record["obs"]), [m for m in sys.modules if m.startswith("ray")])
"""


def test_exported_policy_acts_without_ray(trained: tuple[Path, Path]) -> None:
    checkpoint, exported = trained
    record = exported.parent / "record.npz"
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAY, str(record), str(checkpoint), str(exported)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "acted 100 []"


def test_exported_metadata(trained: tuple[Path, Path]) -> None:
    metadata = Policy.load(trained[1]).metadata
    assert metadata["algorithm"] == "PPO"
    assert metadata["env"] == "Pendulum-v1"
    assert metadata["env_config"] == {}
    assert metadata["num_env_steps_sampled_lifetime"] >= 400
    assert metadata["tunescape_version"]


def test_restored_algorithm_acts_on_filtered_observations(trained: tuple[Path, Path]) -> None:
    record = np.load(trained[1].parent / "record.npz")
    with Algorithm.from_checkpoint(trained[0]) as algorithm:
        actions = algorithm.compute_actions(record["obs"], explore=False)
        values = algorithm.get_policy().value(record["obs"]).numpy()
    np.testing.assert_array_equal(actions, record["actions"])
    np.testing.assert_array_equal(values, record["values"])


@pytest.mark.parametrize(
    "space",
    [
        Box(-np.inf, np.inf, (), np.float64),
        MultiDiscrete([3, 2], start=[1, -5]),
    ],
    ids=str,
)
def test_exported_program_is_the_policy(tmp_path: Path, space: gym.Space) -> None:
    policy = with_filter(space)
    path = export_torch_program(policy, tmp_path / "new")
    assert path == tmp_path / "new" / "model.pt2"
    program = torch.export.load(path).module()
    obs = sample(space, 100)
    expected = policy.forward(obs)
    for rows in (slice(0, 1), slice(1, 8), slice(100)):
        made = program({"obs": torch.from_numpy(obs[rows])})
        torch.testing.assert_close(made["action_dist_inputs"], expected.dist_inputs[rows])
        torch.testing.assert_close(made["vf_preds"], expected.values[rows])
        actions = policy.compute_actions(obs[rows], explore=False)
        np.testing.assert_array_equal(made["action"], actions)


def test_algorithm_exports_its_program(trained: tuple[Path, Path], tmp_path: Path) -> None:
    record = np.load(trained[1].parent / "record.npz")
    with Algorithm.from_checkpoint(trained[0]) as algorithm:
        path = algorithm.export_policy_model(str(tmp_path))
        with pytest.raises(ConfigError, match="opset = 11 is not supported; allowed: 18 to 23"):
            algorithm.export_policy_model(str(tmp_path), onnx=11)
        with pytest.raises(KeyError, match=r"no policy 'other'; there are .*default_policy"):
            algorithm.export_policy_model(str(tmp_path), "other")
    made = torch.export.load(path).module()({"obs": torch.from_numpy(record["obs"])})
    np.testing.assert_allclose(made["vf_preds"].detach(), record["values"], rtol=1e-4, atol=1e-5)


def test_incomplete_policy_is_named(
    trained: tuple[Path, Path], tmp_path: Path, golden: Golden
) -> None:
    def act(change: str) -> None:
        state = load_state(trained[1], "policy")
        del state[change]
        save_state(tmp_path, "policy", state)
        Policy.load(tmp_path)

    cases = ["weights", "options", "observation_space"]
    golden(
        "policy/incomplete_policy_is_named",
        refusals(act, cases, CheckpointError, replace={str(tmp_path): "<folder>"}),
    )
