"""What only a value function sees: of features, networks, policies and their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from refusals import Golden, refusals

from trainables import DQNConfig, PPOConfig, SACConfig
from trainables.core.data.features import (
    VECTOR,
    FeatureSpec,
    acting_features,
    map_tensors,
)
from trainables.core.data.preprocessor import Preprocessor
from trainables.core.errors import ConfigError
from trainables.core.policy.calls.model_view import one_step
from trainables.core.policy.policy import Policy

STATE = spaces.Dict({"sea": spaces.Box(-1, 1, (2,)), "wind": spaces.Discrete(3, start=1)})
# In the middle of the alphabet: gymnasium orders keys by it.
SPACE = spaces.Dict(
    {
        "action_mask": spaces.MultiBinary(4),
        "own": spaces.Box(-1, 1, (3,)),
        "state": STATE,
        "view": spaces.Discrete(2),
    }
)
ACTIONS = spaces.Discrete(4)


def policy(model: dict[str, Any] | None = None, **options: Any) -> Policy:
    given = {"critic_obs_key": "state", "seed": 0, **options}
    return Policy(SPACE, ACTIONS, {"fcnet_hiddens": [8], **(model or {})}, **given)


def drawn(count: int, seed: int = 0) -> list[dict[str, Any]]:
    SPACE.seed(seed)
    found = [SPACE.sample() for _ in range(count)]
    for obs in found:
        obs["action_mask"][:] = 1
    return found


def without(obs: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in obs.items() if key != "state"}


def other_state(obs: dict[str, Any]) -> dict[str, Any]:
    return {**obs, "state": {"sea": np.array([5, -5], np.float32), "wind": 3}}


def test_its_columns_are_behind_those_of_the_others() -> None:
    spec = Preprocessor(SPACE, mask="action_mask", critic_key="state").spec
    assert spec.slices == {
        "own": (0, 3),
        "view": (3, 5),
        "state/sea": (5, 7),
        "state/wind": (7, 10),
    }
    assert (spec.num_features, spec.num_critic) == (10, 5)
    acting = spec.for_acting()
    assert acting.slices == {"own": (0, 3), "view": (3, 5)}
    assert (acting.num_features, acting.num_mask, acting.has_critic_part) == (5, 4, False)


def test_a_key_is_no_prefix_of_others() -> None:
    space = spaces.Dict({"state": spaces.Box(0, 1, (1,)), "states": spaces.Box(0, 1, (2,))})
    assert Preprocessor(space, critic_key="state").spec.num_critic == 1


@pytest.mark.parametrize("own", ["vector", "image", "both"])
@pytest.mark.parametrize("hidden", ["vector", "image"])
def test_what_acts_is_given_features_of_its_own_description(own: str, hidden: str) -> None:
    image, vector = spaces.Box(0, 255, (84, 84, 3), np.uint8), spaces.Box(-1, 1, (2,))
    parts: dict[str, gym.Space] = {"z": vector if hidden == "vector" else image}
    if own in ("vector", "both"):
        parts["a"] = vector
    if own in ("image", "both"):
        parts["b"] = image
    made = Policy(spaces.Dict(parts), ACTIONS, critic_obs_key="z", seed=0)
    space: Any = made.observation_space
    space.seed(1)
    rows = made.observations.layout.rows([space.sample() for _ in range(3)])
    features = made.features(rows)
    spec = made.observations.preprocessor.spec
    seen, described = acting_features(features, spec), spec.for_acting()
    assert isinstance(seen, torch.Tensor) == described.is_vector
    if isinstance(seen, dict):
        assert {*seen} == {*described.images} | ({VECTOR} if described.num_features else set())
    others = rows.copy()  # of which features may be views
    others["z"] = 1 - others["z"]
    changed = made.features(others)
    with torch.no_grad():
        before, after = made.module(features), made.module(changed)
    assert torch.equal(before.dist_inputs, after.dist_inputs)
    assert not torch.equal(before.values, after.values)


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}])
def test_losses_of_either_network_move_nothing_of_the_other(model: dict[str, Any]) -> None:
    made = policy(model)
    rows = made.observations.layout.rows(drawn(6))
    features, state, _ = made.observations.features_and_state(rows, made.initial_state(6))
    output, _ = one_step(made, made.module, features, state)
    output.dist_inputs.clamp(-9, 9).square().sum().backward(retain_graph=True)
    moved = {n.partition(".")[0] for n, p in made.module.named_parameters() if p.grad is not None}
    assert moved == {"encoder", "policy_head"}
    made.module.zero_grad()
    assert output.values is not None
    output.values.sum().backward()
    moved = {
        n.partition(".")[0]
        for n, p in made.module.named_parameters()
        if p.grad is not None and p.grad.abs().sum() > 0
    }
    assert moved == {"value_encoder", "value_head"}


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}])
def test_who_acts_may_leave_it_out(model: dict[str, Any]) -> None:
    made = policy(model)
    seen = drawn(5)
    outputs = [
        made.compute_actions(given, explore=False, full_fetch=True)
        for given in (seen, [without(obs) for obs in seen], [other_state(obs) for obs in seen])
    ]
    for one in outputs[1:]:
        np.testing.assert_array_equal(one[0], outputs[0][0])
        np.testing.assert_array_equal(
            one[2]["action_dist_inputs"], outputs[0][2]["action_dist_inputs"]
        )
    assert (outputs[2][2]["vf_preds"] != outputs[0][2]["vf_preds"]).any()
    # As a batch, and alone.
    stacked = {k: np.stack([obs[k] for obs in seen]) for k in ("action_mask", "own", "view")}
    batch = made.compute_actions(stacked, explore=False, full_fetch=True)
    np.testing.assert_array_equal(batch[0], outputs[0][0])
    single = made.compute_single_action(without(seen[2]), explore=False, full_fetch=True)
    assert single[0] == outputs[0][0][2]


def test_another_part_cannot_be_left_out() -> None:
    obs = drawn(1)[0]
    del obs["own"]
    with pytest.raises(ConfigError, match="own"):
        policy().compute_single_action(obs)


def test_a_policy_in_a_folder_is_the_same_and_one_from_before_has_no_such_part(
    tmp_path: Path,
) -> None:
    made, obs = policy(), drawn(1)[0]
    loaded = Policy.load(made.save(tmp_path / "new"))
    assert loaded.options["critic_obs_key"] == "state"
    said = [p.compute_single_action(obs, explore=False, full_fetch=True)[2] for p in (made, loaded)]
    np.testing.assert_array_equal(said[0]["vf_preds"], said[1]["vf_preds"])
    assert Policy.load(policy(critic_obs_key=None).save(tmp_path / "none"))


def test_a_filter_takes_all_of_it() -> None:
    made = policy(observation_filter="MeanStdFilter")
    assert made.observations.filter is not None
    features = made.features(made.observations.layout.rows(drawn(2)))
    assert isinstance(features, dict)
    assert features[VECTOR].shape == (2, 10)


def test_what_cannot_be_is_refused(golden: Golden) -> None:
    cases = [
        {"critic_obs_key": "nowhere"},
        {"critic_obs_key": "action_mask"},
        {"model": {"vf_share_layers": True}},
        {"module": {"type": "q_network"}},
    ]
    golden(
        "critic_observations/what_cannot_be_is_refused",
        refusals(lambda options: policy(**options), cases),
    )


def test_settings_that_do_not_fit_are_refused(golden: Golden) -> None:
    cases = [
        {"critic_obs_key": "state", "centralized_critic": True},
        {"critic_obs_key": "state", "model": {"vf_share_layers": True}},
        {"centralized_critic": True, "model": {"vf_share_layers": True}},
        {"critic_obs_key": "x", "use_critic": False, "use_gae": False},
    ]
    golden(
        "critic_observations/settings_that_do_not_fit_are_refused",
        refusals(
            lambda settings: PPOConfig.from_dict({"env": "CartPole-v1", **settings}).validate(),
            cases,
        ),
    )


@pytest.mark.parametrize("config", [DQNConfig, SACConfig])
@pytest.mark.parametrize("settings", [{"critic_obs_key": "x"}, {"centralized_critic": True}])
def test_algorithms_without_such_a_value_function_refuse_it(
    config: Any, settings: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(settings))}.*has no effect"):
        config().update_from_dict(settings)


def test_an_environment_of_one_agent_has_no_joint_observation() -> None:
    config = PPOConfig().environment("CartPole-v1").multi_agent(centralized_critic=True)
    with pytest.raises(ConfigError, match=r"centralized_critic.*one agent"):
        config.build()


def test_features_without_such_a_part_stay_as_they_are() -> None:
    features = {VECTOR: torch.ones(2, 3)}
    assert acting_features(features, FeatureSpec(3)) is features
    assert map_tensors(torch.clone, acting_features(torch.ones(2, 3), FeatureSpec(3))).shape == (
        2,
        3,
    )
