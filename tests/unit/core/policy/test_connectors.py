"""Users' connectors: from observations to the module, from the module to the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from refusals import Golden, refusals
from torch import Tensor

from experiments.commands.evaluation.evaluate import evaluate_folder
from tests.connector_cases import OnGrid, Torques, first_two, for_env, halved, parts, rounded
from trainables import Policy, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.data.features import ACTION_MASK, VECTOR
from trainables.core.data.spaces import PLAIN
from trainables.core.errors import ConfigError
from trainables.core.export.torch_program import export_torch_program

Box, Discrete, Dict, Tuple = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.Dict, gym.spaces.Tuple
PLANE = Box(-1, 1, (4,), np.float32)
NAME = "tests.connector_cases:"


def made(connector: Any, space: gym.Space = PLANE, actions: int = 3, **more: Any) -> Policy:
    return Policy(space, Discrete(actions), env_to_module_connector=connector, seed=0, **more)


def rows(*leading: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (*leading, 4)).astype(np.float32)


def features(policy: Policy, obs: Any) -> Any:
    return policy.features(policy.observations.layout.rows(obs))


# ------------------------------------------------------------------ the forms


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (halved, lambda obs: obs / 2),
        (f"{NAME}halved", lambda obs: obs / 2),
        ({"type": f"{NAME}halved", "by": 4}, lambda obs: obs / 4),
        ([f"{NAME}first_two", halved], lambda obs: obs[..., :2] / 2),
        (lambda obs: obs.clamp(0, 0.5), lambda obs: obs.clip(0, 0.5)),
        (for_env, lambda obs: obs / 4 / 2),
        (f"{NAME}for_env", lambda obs: obs / 4 / 2),
        ([{"type": halved, "by": 5}, parts], lambda obs: obs / 5),
        (torch.tanh, np.tanh),
    ],
)
def test_every_form(given: Any, expected: Any) -> None:
    policy = made(given)
    for leading in ((), (7,), (3, 5), (0,)):  # a batch is always one axis to the user's function
        obs = rows(*leading)
        torch.testing.assert_close(policy.features(obs), torch.from_numpy(expected(obs)))
    assert policy.observations.preprocessor.spec.num_features == expected(rows(1)).shape[-1]


def test_a_class_says_what_space_it_makes() -> None:
    policy = made({"type": OnGrid, "cells": 3})
    assert policy.observations.preprocessor.num_features == 12
    cells = policy.features(np.array([[-1, 0.1, 0.5, 0.9]], np.float32)).reshape(4, 3).argmax(1)
    assert cells.tolist() == [0, 0, 1, 2]


def test_the_space_of_a_function_is_seen_from_what_it_makes() -> None:
    image = Box(0, 255, (8, 8, 3), np.uint8)
    space = Dict({"image": image, "goal": Discrete(4, start=2), "rest": PLANE})

    def pick(obs: dict[str, Tensor]) -> dict[str, Any]:
        return {
            "picture": obs["image"],
            "goal": obs["goal"],
            "small": obs["image"][:, ::2, ::2],
            "is_near": (obs["rest"][:, :2] > 0, obs["rest"].sum(1)),
        }

    seen: Any = made(pick, space).env_to_module.space  # type: ignore[union-attr]
    assert (seen["picture"], seen["goal"]) == (image, Discrete(4, start=2))
    assert seen["small"] == Box(0, 255, (4, 4, 3), np.uint8)
    assert seen["is_near"][0] == gym.spaces.MultiBinary((2,))
    assert (seen["is_near"][1].shape, seen["is_near"][1].dtype) == ((), np.float32)
    assert made(lambda obs: obs["image"], space).observations.preprocessor.spec.images.keys() == {
        PLAIN
    }
    scaled = made(lambda obs: obs["image"] / 255, space).observations.preprocessor.spec.images[
        PLAIN
    ]
    assert scaled.scale == 1.0


def test_nested_observations_and_the_mask_pass_through() -> None:
    space = Dict(
        {"action_mask": gym.spaces.MultiBinary(3), "at": Tuple([PLANE, Box(-1, 1, (), np.float32)])}
    )

    def sums(obs: dict[str, Any]) -> dict[str, Any]:
        plane, number = obs["at"]
        return {"x": plane + number[:, None], "action_mask": obs["action_mask"]}

    policy = made(sums, space)
    mask = np.array([[1, 0, 1], [0, 0, 1]], np.int8)
    obs = {"action_mask": mask, "at": (rows(2), np.array([1.0, 2.0], np.float32))}
    seen = features(policy, obs)
    np.testing.assert_allclose(seen[VECTOR], rows(2) + np.array([[1], [2]]), rtol=1e-6)
    assert seen[ACTION_MASK].tolist() == (mask == 1).tolist()
    assert policy.compute_actions(obs, explore=True)[1] == 2
    with pytest.raises(ConfigError, match="allows no action"):
        policy.compute_actions({**obs, "action_mask": mask * 0})
    with pytest.raises(ConfigError, match="'action_mask' is lost"):
        made(lambda obs: obs["at"], space)
    assert made(lambda obs: obs["at"], space, action_mask_key="none").observations.mask_path is None


def test_a_connector_may_make_the_mask() -> None:
    def with_mask(obs: Tensor) -> dict[str, Tensor]:
        return {"obs": obs, "action_mask": obs[:, :3] > 0}

    policy = made(with_mask)
    obs = np.array([[-1, 1, -1, 0], [1, -1, -1, 0]], np.float32)
    for _ in range(5):
        assert policy.compute_actions(obs, explore=True).tolist() == [1, 0]
    with pytest.raises(ConfigError, match="observation 1: 'action_mask' allows no action"):
        policy.compute_actions(np.array([[1, 1, 1, 0], [-1, -1, -1, 0]], np.float32))


# ------------------------------------------------------------------ errors


def test_errors_name_the_connector(golden: Golden) -> None:
    cases = {
        "an array": lambda obs: obs.numpy(),
        "a sum of all": lambda obs: obs.sum(),
        "one that raises": lambda obs: obs.q,
        "half precision": lambda obs: obs.bfloat16(),
        "complex numbers in a dict": lambda obs: {"a": obs.cfloat()},
        "one row": lambda obs: obs[:1],
        "as wide as the batch": lambda obs: obs[:, 0, None].repeat(1, len(obs)),
        "a class without its arguments": {"type": f"{NAME}OnGrid"},
        "arguments without a class": {"cells": 3},
        "no name of a module": "halved",
        "a number": 3,
        "a name that is not in its module": "tests.connector_cases:nothing",
        "a class of something else": Policy,
        "a maker by another name": lambda e: halved,
        "two arguments": lambda obs, more: obs,
        "three arguments": lambda env, spaces, device: halved,
        "a maker that raises": lambda env: env.nothing,
        "a class that cannot be called": {"type": dict},
    }
    golden(
        "connectors/errors_name_the_connector",
        refusals(lambda given: made(given).features(rows(5)), cases),
    )


def test_a_config_is_checked_without_importing() -> None:
    config = PPOConfig().environment("CartPole-v1")
    for name in ("env_to_module_connector", "module_to_env_connector"):
        config.copy().env_runners(**{name: "nowhere:f"}).validate()
        with pytest.raises(ConfigError, match=f"{name} = 'f' is not allowed; allowed: a function"):
            config.copy().env_runners(**{name: ["nowhere:f", "f"]}).validate()


# ------------------------------------------------------------------ actions


def test_actions_for_the_environment() -> None:
    space = Box(-2, 2, (1,), np.float32)
    policy = Policy(PLANE, space, module_to_env_connector=[rounded], seed=0)
    plain = Policy(PLANE, space, seed=0)
    expected = np.round(plain.compute_actions(rows(50), explore=True))
    np.testing.assert_array_equal(policy.compute_actions(rows(50), explore=True), expected)
    assert expected.std() > 0.5
    acted = policy.act(rows(50), True)
    assert acted.env_actions.dtype == np.float32
    assert not torch.equal(acted.actions, acted.actions.round())  # the learner's own
    extra = policy.compute_single_action(rows(1)[0], explore=True, full_fetch=True)
    assert extra.actions == np.round(extra.extra["module_actions"])


def test_another_action_space_than_the_environments() -> None:
    space = Box(-2, 2, (1,), np.float32)
    policy = Policy(PLANE, space, module_to_env_connector=f"{NAME}Torques", seed=0)
    assert policy.distribution.num_inputs == 5
    acted = policy.act(rows(50), True)
    assert acted.actions.dtype == torch.int64
    np.testing.assert_array_equal(acted.env_actions[:, 0], acted.actions.numpy() - 2.0)
    assert space.contains(policy.compute_single_action(rows(1)[0]))
    assert Torques.__name__ in str(policy.options)


@pytest.mark.parametrize(
    "given",
    [
        lambda env: rounded,
        lambda env, rl_module: [rounded],
        lambda e, m: rounded,
        lambda env, module=None: rounded,
        {"type": lambda env, rl_module, by: rounded, "by": 3},
    ],
)
def test_factories_of_actions(given: Any) -> None:
    space = Box(-2, 2, (1,), np.float32)
    policy = Policy(PLANE, space, module_to_env_connector=given, seed=0)
    plain = Policy(PLANE, space, module_to_env_connector=rounded, seed=0)
    expected = plain.compute_actions(rows(50), explore=True)
    np.testing.assert_array_equal(policy.compute_actions(rows(50), explore=True), expected)


def test_a_factory_of_actions_gets_the_module_that_acts() -> None:
    seen: list[Any] = []

    class Scaled:
        def __init__(self, env: Any, rl_module: Any, scale: float = 0.0):
            seen.extend((env, rl_module))
            self.scale = scale

        def __call__(self, actions: Any) -> Any:
            return actions * self.scale

    space = Box(-2, 2, (1,), np.float32)
    policy = Policy(PLANE, space, module_to_env_connector=[rounded, Scaled])
    assert seen[0].action_space == space and seen[0].observation_space == PLANE
    assert seen[1] is policy.module
    assert not policy.compute_actions(rows(5), explore=True).any()
    with pytest.raises(ConfigError, match=r"<lambda> makes a connector with a method space, which"):
        Policy(PLANE, space, module_to_env_connector=lambda env, rl_module: Torques())
    with pytest.raises(
        ConfigError,
        match=r"<lambda> takes \(a, b, c\); a connector takes \(actions\), "
        r"and a function that makes connectors takes \(env\) or \(env, rl_module\)",
    ):
        Policy(PLANE, space, module_to_env_connector=lambda a, b, c: a)


def test_actions_of_a_wrong_shape_are_refused() -> None:
    space = Box(-2, 2, (2,), np.float32)
    policy = Policy(PLANE, space, module_to_env_connector=lambda a: a[:, :1])
    with pytest.raises(ConfigError, match=r"<lambda> made actions of shape \(1, 1\); allowed: \("):
        policy.compute_single_action(rows(1)[0])
    policy = Policy(PLANE, space, module_to_env_connector=lambda a: a["q"])
    with pytest.raises(ConfigError, match=r"module_to_env_connector: .*<lambda> raised IndexError"):
        policy.compute_single_action(rows(1)[0])
    nested = Tuple([space, Discrete(2)])
    policy = Policy(PLANE, nested, module_to_env_connector=lambda a: a[:1])
    with pytest.raises(ConfigError, match="<lambda> made no action"):
        policy.compute_single_action(rows(1)[0])


# ------------------------------------------------------------------ files


def test_a_loaded_policy_runs_the_code_that_is_trusted(tmp_path: Path) -> None:
    names = [f"{NAME}halved", f"{NAME}rounded"]
    space = Box(-2, 2, (1,), np.float32)
    policy = Policy(
        PLANE,
        space,
        env_to_module_connector=[halved, first_two],
        module_to_env_connector={"type": names[1]},
        seed=0,
    )
    policy.save(tmp_path)
    names.append(f"{NAME}first_two")
    for missing in names:
        trust = [name for name in names if name != missing]
        with pytest.raises(CheckpointError, match=f"= '{missing}' .code that would be imported"):
            Policy.load(tmp_path, trust=trust)
    loaded = Policy.load(tmp_path, trust=names)
    np.testing.assert_array_equal(
        loaded.compute_actions(rows(20), explore=False),
        policy.compute_actions(rows(20), explore=False),
    )


def test_evaluate_takes_names_to_trust(tmp_path: Path) -> None:
    policy = made(halved, actions=2)
    policy.metadata["env"] = "CartPole-v1"
    policy.observation_space = gym.make("CartPole-v1").observation_space
    policy.save(tmp_path)
    with pytest.raises(CheckpointError, match=f"'{NAME}halved' .code that would be imported"):
        evaluate_folder(tmp_path, episodes=1)
    played = evaluate_folder(tmp_path, episodes=2, trust=[f"{NAME}halved"])
    assert (played.environment, len(played.episodes)) == ("CartPole-v1", 2)


def test_a_local_function_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    made(lambda obs: obs).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"= '.*<lambda>' .code that would be") as error:
        Policy.load(tmp_path)
    name = str(error.value).split("'")[1]
    with pytest.raises(ConfigError, match="cannot be found again: define it at the top"):
        Policy.load(tmp_path, trust=[name])


def test_an_exported_program_holds_the_connectors(tmp_path: Path) -> None:
    policy = made([halved, parts])
    program = torch.export.load(export_torch_program(policy, tmp_path)).module()
    outputs = program({"obs": torch.from_numpy(rows(7))})
    expected = policy.forward(rows(7))
    torch.testing.assert_close(outputs["action_dist_inputs"], expected.dist_inputs)
    torch.testing.assert_close(outputs["vf_preds"], expected.values)
