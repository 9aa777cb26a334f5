"""`policy.model` and `get_preprocessor` by the reference's names; its samples run as written."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from trainables import Policy
from trainables.core.data.space_preprocessor import get_preprocessor
from trainables.core.errors import ConfigError
from trainables.core.policy.filter import RunningMoments

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete
SPACE = Box(-np.inf, np.inf, (4,), np.float32)
OBS = np.array([[0.1, 0.2, 0.3, 0.4]])
NESTED = gym.spaces.Dict(a=Discrete(3, start=2), b=Box(0, 1, (2,), np.float32))


def q_policy(space: gym.Space = SPACE, **options: Any) -> Policy:
    module = {"type": "q_network", "hiddens": [16], "dueling": True, **options}
    return Policy(space, Discrete(3), {"fcnet_hiddens": [8]}, module=module, seed=0)


def same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------ any policy


def test_a_policys_action_distribution_is_queried_as_the_documents_do() -> None:
    policy = Policy(SPACE, Discrete(2), seed=0)
    with pytest.raises(ConfigError, match=r"no forward pass yet: call model\(\{'obs': …\}\) first"):
        policy.model.value_function()
    logits, state = policy.model({"obs": OBS})
    expected = policy.forward(OBS.astype(np.float32))
    same(logits, expected.dist_inputs)
    assert state == [] and logits.requires_grad
    same(policy.model.value_function(), expected.values)
    assert policy.model.last_output() is logits
    dist = policy.dist_class(logits, policy.model)
    assert dist.logp(dist.sample()).shape == (1,)
    by_tensor = policy.model(torch.as_tensor(OBS, dtype=torch.float32))
    same(by_tensor.dist_inputs, logits)


def test_the_table_of_layers(capsys: pytest.CaptureFixture[str]) -> None:
    policy = Policy(SPACE, Discrete(2), {"fcnet_hiddens": [8]}, seed=0)
    policy.module.get_parameter("value_head.0.bias").requires_grad_(False)
    policy.model.base_model.summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'Model: "policy.model.base_model"'
    assert lines[1].split() == ["Layer", "(type)", "Weights", "Param", "#"]
    assert lines[2].split() == ["encoder.0", "(Linear)", "(8,", "4),", "(8,)", "40"]
    assert lines[-3:] == [
        "Total params: 107",
        "Trainable params: 106",
        "Non-trainable params: 1",
    ]
    assert len(policy.model.variables()) == 8
    assert len(policy.model.trainable_variables(as_dict=True)) == 7


def test_all_else_is_the_networks_own() -> None:
    policy = Policy(SPACE, Discrete(2), seed=0)
    assert list(policy.model.state_dict()) == list(policy.module.state_dict())
    policy.model.mark = 3
    assert policy.module.mark == 3
    with pytest.raises(AttributeError, match=r"policy\.model\.nonsense does not exist; polic"):
        _ = policy.model.nonsense
    with pytest.raises(AttributeError, match=r"policy\.model\.obs_space is policy\.observati"):
        _ = policy.model.obs_space
    for name in ("get_q_value_distributions", "get_state_value", "q_value_head"):
        with pytest.raises(AttributeError, match=rf"policy\.model\.{name} belongs to DQN"):
            getattr(policy.model, name)


def test_a_memory_is_given_and_gives_a_list() -> None:
    policy = Policy(SPACE, Discrete(2), {"use_lstm": True, "lstm_cell_size": 5}, seed=0)
    obs = np.repeat(OBS, 3, 0).astype(np.float32)
    logits, state = policy.model({"obs": obs})
    assert logits.shape == (3, 2) and len(state) == 4 and state[0].shape == (3, 5)
    again, _ = policy.model({"obs": obs}, state, np.ones(3))
    expected = policy.compute_actions(obs, state, explore=False).extra["action_dist_inputs"]
    same(again.detach().numpy(), expected)
    assert (again != logits).any()
    with pytest.raises(ConfigError, match=r"seq_lens = .* is not supported"):
        policy.model({"obs": obs}, state, [3])
    with pytest.raises(ConfigError, match="state has 1 parts"):
        policy.model({"obs": obs}, [state[0]])


def test_observations_may_be_raw_or_preprocessed() -> None:
    policy = Policy(NESTED, Discrete(2), observation_filter="MeanStdFilter", seed=0)
    moments = RunningMoments(5)
    moments.update(np.random.default_rng(0).normal(1.0, 2.0, (50, 5)))
    assert policy.observations.filter is not None
    policy.observations.filter.merge(moments)
    one = {"a": 3, "b": np.array([0.5, 1.0], np.float32)}
    prep = get_preprocessor(NESTED)(NESTED)
    made = prep.transform(one)
    np.testing.assert_array_equal(made, np.array([0, 1, 0, 0.5, 1], np.float32))
    assert prep.shape == made.shape == (5,)
    expected = policy.forward([one]).dist_inputs
    same(policy.model({"obs": made[None]})[0], expected)
    batch = {"a": np.array([3]), "b": one["b"][None]}
    same(policy.model({"obs": batch})[0], expected)
    with pytest.raises(ConfigError, match="observation"):
        policy.model({"obs": np.zeros((1, 6))})


def test_stacked_frames_go_on() -> None:
    policy = Policy(SPACE, Discrete(2), frame_stack=3, seed=0)
    first, state = policy.model({"obs": OBS})
    second, _ = policy.model({"obs": 2 * OBS}, state)
    acted = policy.compute_actions(OBS.astype(np.float32), explore=False)
    after = policy.compute_actions((2 * OBS).astype(np.float32), acted.state, explore=False)
    same(first.detach().numpy(), acted.extra["action_dist_inputs"])
    same(second.detach().numpy(), after.extra["action_dist_inputs"])


# ------------------------------------------------------------------ get_preprocessor


@pytest.mark.parametrize(
    ("space", "given", "made"),
    [
        (Discrete(3), 2, [0, 0, 1]),
        (Box(0, 9, (2, 2), np.int64), np.array([[1, 2], [3, 4]]), [1, 2, 3, 4]),
        (gym.spaces.Tuple([Discrete(2), Discrete(2)]), (1, 0), [0, 1, 1, 0]),
        (gym.spaces.MultiBinary(3), np.array([0, 1, 1], np.int8), [0, 1, 1]),
    ],
    ids=str,
)
def test_what_is_no_image_becomes_one_vector(space: gym.Space, given: Any, made: Any) -> None:
    prep = get_preprocessor(space)(space)
    np.testing.assert_array_equal(prep.transform(given), np.array(made, np.float32))
    assert prep.shape == (len(made),) and prep.observation_space is space


def test_images_stay_and_lie_beside_vectors() -> None:
    image = Box(0, 255, (6, 5, 3), np.uint8)
    pixels = np.arange(90, dtype=np.uint8).reshape(6, 5, 3)
    prep = get_preprocessor(image)(image)
    np.testing.assert_array_equal(prep.transform(pixels), pixels)
    assert prep.shape == (6, 5, 3)
    game = Box(0, 255, (210, 160, 3), np.uint8)  # the documents' Pong
    assert get_preprocessor(game)(game).transform(game.sample()).shape == (210, 160, 3)
    space = gym.spaces.Dict(camera=image, speed=Box(0, 1, (1,)))
    prep = get_preprocessor(space)(space)
    made = prep.transform({"camera": pixels, "speed": np.ones(1, np.float32)})
    assert prep.shape == {"camera": (6, 5, 3), "@vector": (1,)}
    assert {path: part.shape for path, part in made.items()} == prep.shape


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ConfigError, match="is not supported; supported: Box"):
        get_preprocessor(gym.spaces.Text(3))
    with pytest.raises(ConfigError, match=r"observation has shape \(3,\), not \(4,\)"):
        get_preprocessor(SPACE)(SPACE).transform(np.zeros(3))


# ------------------------------------------------------------------ DQN


@pytest.mark.parametrize("num_atoms", [1, 5])
def test_q_values_as_the_documents_get_them(
    num_atoms: int, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = q_policy(num_atoms=num_atoms)
    model = policy.model
    model_out = model({"obs": OBS})
    assert model_out[0].shape == (1, 8)
    q_values, logits, probabilities = model.get_q_value_distributions(model_out)
    expected = policy.forward(OBS.astype(np.float32))
    same(q_values, expected.dist_inputs)
    assert expected.values is None
    with pytest.raises(ConfigError, match=r"QNetwork learns no state values; its q_values are of"):
        model.value_function()
    assert logits.shape == probabilities.shape == (1, 3, num_atoms)
    same(probabilities.sum(-1), torch.ones(1, 3))
    same(model.get_q_value_distributions(model_out[0])[0], q_values)
    value = model.get_state_value(model_out)
    same(value, policy.module.get_submodule("state_value")(model_out[0]))
    assert value.shape == (1, num_atoms)
    assert len(model.variables()) == 10
    model.q_value_head.summary()
    model.state_value_head.summary()
    shown = capsys.readouterr().out
    assert 'Model: "policy.model.q_value_head"' in shown and "state_value_head" in shown
    same(model(torch.as_tensor(OBS, dtype=torch.float32)), q_values)


def test_without_a_second_head_there_are_no_state_values() -> None:
    model = q_policy(dueling=False).model
    with pytest.raises(ConfigError, match="no state-value head: it needs dueling=True"):
        model.get_state_value(model({"obs": OBS}))


def test_masked_and_remembering_q_networks() -> None:
    space = gym.spaces.Dict(action_mask=gym.spaces.MultiBinary(3), obs=Box(-1, 1, (2,)))
    obs = {"action_mask": np.array([[1, 0, 1]], np.int8), "obs": np.ones((1, 2), np.float32)}
    policy = q_policy(space)
    out = policy.model({"obs": obs})
    same(policy.model.get_q_value_distributions(out)[0], policy.forward(obs).dist_inputs)
    with pytest.raises(ConfigError, match="model_out must be that of the last model"):
        policy.model.get_q_value_distributions(out[0].clone())
    memory = {"use_lstm": True, "lstm_cell_size": 5}
    policy = Policy(SPACE, Discrete(3), memory, module={"type": "q_network"}, seed=0)
    hidden, state = policy.model({"obs": OBS})
    hidden, _ = policy.model({"obs": OBS}, state)
    expected = policy.compute_actions(OBS.astype(np.float32), state, explore=False)
    same(
        policy.model.get_q_value_distributions(hidden)[0].detach().numpy(),
        expected.extra["action_dist_inputs"],
    )
