"""Any observation and action space trains: sample, loss, update, save, load, act."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from random_env import RandomEnv, with_mask
from recorded_data import play, write
from small_runs import compares_actions, learns_from_replay, needs_data

from trainables import Algorithm
from trainables.core.config.model import MEMORIES
from trainables.core.data.spaces import leaf_spaces
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.registry import algorithm_names, get_algorithm
from trainables.runtime.offline.episode import DataSpaces

ENV = "random_env:RandomEnv"
TINY: dict[str, Any] = {"env": ENV, "num_envs_per_env_runner": 2, "seed": 3}
REPLAY: dict[str, Any] = {
    **TINY,
    "train_batch_size_per_learner": 8,
    "num_steps_sampled_before_learning_starts": 8,
    "min_sample_timesteps_per_iteration": 16,
    "training_intensity": 2,
    "replay_buffer_config": {"capacity": 200},
}
ON_POLICY: dict[str, Any] = {
    **TINY,
    "train_batch_size_per_learner": 24,
    "min_sample_timesteps_per_iteration": 48,
    "num_epochs": 1,
    "minibatch_size": None,
}
FROM_DATA: dict[str, Any] = {
    "train_batch_size_per_learner": 16,
    "dataset_num_iters_per_learner": 2,
    "seed": 3,
}
# Beside these, where an algorithm has more ways to go.
OWN: dict[str, dict[str, Any]] = {
    "APPO": {"rollout_fragment_length": 12, "use_kl_loss": True},
    "DreamerV3": {
        "model_size": "nano",
        "batch_size_B": 2,
        "batch_length_T": 4,
        "horizon_H": 2,
        "training_ratio": 2,
    },
    "IMPALA": {"rollout_fragment_length": 12},
}
NETWORK = {"fcnet_hiddens": [8]}
MODELS: tuple[dict[str, Any], ...] = (
    {},
    {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5, "lstm_use_prev_action": True},
    {"use_gru": True, "lstm_cell_size": 4, "max_seq_len": 5, "lstm_use_prev_reward": True},
    {
        "use_attention": True,
        "attention_dim": 4,
        "attention_head_dim": 4,
        "attention_memory_inference": 3,
        "attention_use_n_prev_actions": 1,
        "max_seq_len": 5,
    },
)


def tiny(name: str) -> dict[str, Any]:
    config_class = get_algorithm(name).config_class
    if needs_data(name):
        return dict(FROM_DATA)
    shared = REPLAY if learns_from_replay(name) else ON_POLICY
    has = {key: value for key, value in shared.items() if key not in config_class.without}
    return {**has, **OWN.get(name, {})}


def can_train(name: str, spaces: dict[str, gym.Space], model: dict[str, Any]) -> bool:
    """Whether the algorithm's mathematics has an answer for these spaces, and for a memory."""
    action_space = spaces["action_space"]
    if model and get_algorithm(name).config_class.without_memory is not None:
        return False
    if get_algorithm(name).config_class.plays_as_team:
        seen = leaves(spaces["observation_space"])
        return is_of_a_team(action_space) and not any(map(is_image, seen))
    if isinstance(action_space, gym.spaces.Discrete):
        return True
    if compares_actions(name):
        return False
    if name == "DreamerV3":  # choices of every kind, and Gaussians between bounds
        return all(is_bounded(leaf) or not is_of_floats(leaf) for leaf in leaves(action_space))
    is_squashed = "squash_actions" in get_algorithm(name).config_class.model_without
    return not is_squashed or all(map(is_bounded, leaves(action_space)))


def is_bounded(leaf: gym.Space) -> bool:
    """Whether a leaf is a Box of floats with bounds."""
    return is_of_floats(leaf) and bool(np.isfinite([leaf.low, leaf.high]).all())  # type: ignore[attr-defined]


def is_of_floats(leaf: gym.Space) -> bool:
    return isinstance(leaf, gym.spaces.Box) and np.issubdtype(leaf.dtype, np.floating)


def is_of_a_team(space: gym.Space) -> bool:
    """Whether it is a choice, or some of as many actions each: one of each agent."""
    if isinstance(space, gym.spaces.MultiDiscrete):
        return len({*space.nvec.ravel().tolist()}) == 1
    return isinstance(space, gym.spaces.Discrete)


def is_image(leaf: gym.Space) -> bool:
    return isinstance(leaf, gym.spaces.Box) and len(leaf.shape) == 3


def leaves(space: gym.Space) -> list[gym.Space]:
    return list(leaf_spaces(space).values())


def check_training(algorithm: type[Algorithm], config: dict[str, Any]) -> None:
    """A whole tiny training; the environment checks every action of it."""
    with algorithm(config=config) as algo, tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            check_finite(algo.train())
        trained = algo.get_policy()
        for name, weight in trained.module.state_dict().items():
            assert weight.isfinite().all(), name
        algo.save(folder)
        check_same_actions(trained, Policy.load(folder))


def check_finite(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if isinstance(value, float):
            assert math.isfinite(value), (name, value)


def check_same_actions(trained: Policy, loaded: Policy) -> None:
    """Greedy actions agree, and all actions are inside the space."""
    space = loaded.action_space
    loaded.observation_space.seed(5)
    states: list[Any] = [None, None]
    for _ in range(3):
        obs = loaded.observation_space.sample()
        if trained.observations.mask_path is not None:
            obs[trained.observations.mask_path][:] = 1
        actions = []
        for index, policy in enumerate((trained, loaded)):
            computed = policy.compute_single_action(
                obs, states[index], explore=False, full_fetch=True
            )
            actions.append(computed.actions)
            states[index] = computed.state
            assert space.contains(computed.actions), computed.actions
        assert equal(space, *actions), actions
        explored = loaded.compute_single_action(obs, explore=True, full_fetch=True).actions
        assert space.contains(explored), explored


def equal(space: gym.Space, one: Any, other: Any) -> bool:
    """Whether two actions of a space are the same; floats up to rounding."""
    # How a sum is rounded depends on where the weights lie in memory.
    one, other = gym.spaces.flatten(space, one), gym.spaces.flatten(space, other)
    return bool(np.allclose(one, other, rtol=1e-5, atol=1e-5))


def check_example(
    observation_space: gym.Space,
    action_space: gym.Space,
    masked: bool,
    model: dict[str, Any],
    observation_filter: str,
    names: list[str],
) -> None:
    if all(map(is_image, leaves(observation_space))):
        observation_filter = "NoFilter"  # the other one is refused: it leaves images alone
    if masked:
        observation_space = with_mask(observation_space, action_space)
    spaces = {"observation_space": observation_space, "action_space": action_space}
    with tempfile.TemporaryDirectory() as folder:
        data = DataSpaces(observation_space, action_space)
        write(Path(folder), play(RandomEnv(**spaces), data, num_steps=40), data)
        check_algorithms(names, folder, spaces, model, observation_filter)


def check_algorithms(
    names: list[str],
    folder: str,
    spaces: dict[str, gym.Space],
    model: dict[str, Any],
    observation_filter: str,
) -> None:
    """Train each algorithm in an environment with these spaces, or on data of it in a folder."""
    action_space = spaces["action_space"]
    for name in names:
        algorithm = get_algorithm(name)
        config = {
            **tiny(name),
            **({"input_": folder} if needs_data(name) else {"env_config": spaces}),
            "model": {**NETWORK, **model},
        }
        if not needs_data(name):  # a filter is one of what is sampled
            config["observation_filter"] = observation_filter
        config["model"] = {  # of IMPALA a fragment is a sequence
            key: value
            for key, value in config["model"].items()
            if key not in algorithm.config_class.model_without or key in MEMORIES
        }
        if can_train(name, spaces, model):
            check_training(algorithm, config)
        else:
            with pytest.raises(ConfigError) as refusal:
                algorithm(config=config)
            named = [str(action_space), *map(str, leaves(action_space)), *list(model)[:1]]
            named += ["has images"] if algorithm.config_class.plays_as_team else []
            assert any(part in str(refusal.value) for part in named)


def check_examples(max_examples: int, *, parts: int = 1) -> None:
    """Check random spaces; each with all algorithms, or with one part of them."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st
    from space_strategies import ACTION_LEAVES, nested_spaces

    @settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),  # to explain a failure takes many minutes more
        derandomize=True,  # the same examples in every run, so that a failure is no accident
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        observation_space=nested_spaces(max_depth=2),
        action_space=nested_spaces(max_depth=2, kinds=ACTION_LEAVES),
        masked=st.booleans(),
        model=st.sampled_from(MODELS),
        observation_filter=st.sampled_from(("NoFilter", "MeanStdFilter")),
        names=st.sampled_from([algorithm_names()[part::parts] for part in range(parts)]),
    )
    def check(**example: Any) -> None:
        check_example(**example)

    check()


def test_random_spaces_train() -> None:
    check_examples(12, parts=4)


@pytest.mark.full("test_random_spaces_train")
def test_random_spaces_train_every_algorithm() -> None:
    check_examples(14)


@pytest.mark.slow
def test_three_hundred_random_spaces_train() -> None:
    check_examples(300)
