"""Rewards for what is new, with every algorithm that can have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_runs import home, samples, settings_of
from tiers import covering, rarely

from trainables import Algorithm
from trainables.core.config.exploration import INTRINSIC_OPTIONS
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

PART = "learner/default_policy/curiosity/"
ABLE = [n for n in algorithm_names() if not get_algorithm(n).config_class.why_no_intrinsic]
KINDS = list(INTRINSIC_OPTIONS)

pytestmark = pytest.mark.usefixtures("ray_here")


def settings(name: str, kind: str | None, env: Any = None, **more: Any) -> dict[str, Any]:
    """Small ones, with a bonus of full weight."""
    options = {"eta": 1.0, **more.pop("options", {})}
    exploration = {} if kind is None else {"type": kind, **options}
    if "n_step" in get_algorithm(name).config_class.settings():
        more["n_step"] = 1
    return settings_of(name, env or home(name), **{"exploration_config": exploration, **more})


def made(name: str, kind: str | None, env: Any = None, **more: Any) -> Algorithm:
    algo: Algorithm = get_algorithm(name)(settings(name, kind, env, **more))
    return algo


def weights(algo: Algorithm) -> np.ndarray:
    return np.concatenate([w.ravel() for w in algo.get_weights()["default_policy"].values()])


def learned(algo: Algorithm) -> dict[str, Any]:
    """All that the part has learned, counted and measured."""
    state = algo.learners.get_state()["parts"]["default_policy"]["curiosity"]
    return {"weights": state["weights"], "moments": state.get("learner", {}).get("moments", {})}


def test_it_is_there_for_those_that_explore() -> None:
    assert ABLE == ["A2C", "APPO", "DQN", "IMPALA", "PPO", "SAC"]
    assert all(samples(name) for name in ABLE)


@pytest.mark.parametrize(("name", "kind"), covering(ABLE, KINDS, strength=1))
def test_without_weight_it_changes_nothing_and_with_it_the_policy(name: str, kind: str) -> None:
    with made(name, None) as without, made(name, kind, options={"eta": 0.0}) as none:
        with made(name, kind) as algo:
            for _ in range(2):
                plain, result = without.train(), none.train()
                algo.train()
        assert result[f"{PART}bonus_mean"] == 0 and not any(key.startswith(PART) for key in plain)
        np.testing.assert_array_equal(weights(none), weights(without))
        assert not np.array_equal(weights(algo), weights(none))


@pytest.mark.parametrize(("name", "kind"), covering(ABLE, KINDS, strength=1))
def test_it_resumes_to_the_bit_and_is_in_no_exported_policy(
    name: str, kind: str, tmp_path: Path
) -> None:
    more: dict[str, Any] = {}
    if "store_buffer_in_checkpoints" in get_algorithm(name).config_class.settings():
        more["store_buffer_in_checkpoints"] = True
    with made(name, kind, **more) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "saved"))
        result = algo.train()
        expected, part = weights(algo), learned(algo)
        exported = algo.export_policy_checkpoint(str(tmp_path / "policy"))
        [tensors] = [load_file(path) for path in exported.glob("*.safetensors")]
        assert "curiosity" not in (exported / "policy.json").read_text().lower()
    with get_algorithm(name).from_checkpoint(saved) as resumed:
        again = resumed.train()
        np.testing.assert_array_equal(weights(resumed), expected)
        torch.testing.assert_close(learned(resumed), part, rtol=0, atol=0)
        assert again[f"{PART}bonus_mean"] == result[f"{PART}bonus_mean"]
    with made(name, None) as plain:
        plain.train()
        other = plain.export_policy_checkpoint(str(tmp_path / "plain"))
        assert tensors.keys() == load_file(next(other.glob("*.safetensors"))).keys()


@pytest.mark.parametrize(
    ("options", "kind"), covering([{}, {"intrinsic_gamma": 0.9}], KINDS, strength=1)
)
def test_two_learners_give_the_bonuses_that_one_gives(options: dict[str, Any], kind: str) -> None:
    more: dict[str, Any] = {"num_envs_per_env_runner": 4, "options": options, "minibatch_size": 32}
    own = made("PPO", kind, train_batch_size_per_learner=128, **more)
    two = made(
        "PPO",
        kind,
        num_learners=2,
        num_cpus_per_learner=0.5,
        train_batch_size_per_learner=64,
        **more,
    )
    with own, two:
        check_same(own, two)


@pytest.mark.full("test_two_learners_give_the_bonuses_that_one_gives")
@pytest.mark.parametrize(
    ("name", "kind"), [("DQN", "Curiosity"), ("DQN", "Counts"), ("SAC", "RND")]
)
def test_two_learners_give_drawn_batches_the_bonuses_of_one(name: str, kind: str) -> None:
    own = made(name, kind, train_batch_size_per_learner=32)
    two = made(
        name, kind, num_learners=2, num_cpus_per_learner=0.5, train_batch_size_per_learner=16
    )
    with own, two:
        check_same(own, two)


def check_same(own: Algorithm, two: Algorithm) -> None:
    for _ in range(2):
        expected, result = own.train(), two.train()
    for key in expected:
        if key.startswith(PART):
            assert result[key] == pytest.approx(expected[key], rel=2e-3, abs=1e-6), key
    np.testing.assert_allclose(weights(two), weights(own), atol=2e-4)


@pytest.mark.parametrize("name", rarely(ABLE, ["PPO", "DQN"]))
def test_the_policys_losses_move_nothing_of_it(name: str) -> None:
    """With a learning rate of 0 of its own: what then moves would be the policy's doing."""
    with made(name, "Curiosity", options={"lr": 0.0}) as algo:
        before = learned(algo)["weights"]
        algo.train()
        after = learned(algo)["weights"]
    parameters = [key for key in before if key.endswith(("weight", "bias"))]
    assert parameters
    for key in parameters:
        torch.testing.assert_close(after[key], before[key], rtol=0, atol=0)


def test_returns_are_those_of_the_environment_alone() -> None:
    """CartPole pays 1 for a step, so a return is a length."""
    with made("PPO", "Counts", options={"eta": 5.0}, evaluation_interval=1) as algo:
        result = algo.train()
    for prefix in ("", "evaluation/"):
        mean = result[f"{prefix}episode_return_mean"]
        assert mean == result[f"{prefix}episode_len_mean"]


@pytest.mark.parametrize("num_learners", [0, 1])
def test_the_weight_follows_its_schedule(num_learners: int) -> None:
    options = {"eta": [[0, 1.0], [1000, 0.0]]}
    with made("PPO", "Counts", options=options, num_learners=num_learners) as algo:
        found = [(algo.num_env_steps, algo.train()[f"{PART}curr_eta"]) for _ in range(3)]
    assert [eta for _, eta in found] == pytest.approx([1 - steps / 1000 for steps, _ in found])
    assert len({eta for _, eta in found}) == 3


OBSERVATIONS: dict[str, gym.Space] = {
    "discrete": gym.spaces.Discrete(7, start=3),
    "choices": gym.spaces.MultiDiscrete([3, 5]),
    "binary": gym.spaces.MultiBinary(4),
    "vector": gym.spaces.Box(-np.inf, np.inf, (5,), np.float32),
    "doubles": gym.spaces.Box(-1e6, 1e6, (2, 3), np.float64),
    "image": gym.spaces.Box(0, 255, (12, 12, 3), np.uint8),
    "floats": gym.spaces.Box(0, 1, (1, 10, 10), np.float32),
    "nested": gym.spaces.Dict(
        {
            "camera": gym.spaces.Box(0, 255, (10, 10, 1), np.uint8),
            "place": gym.spaces.Tuple((gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (2,)))),
        }
    ),
}
ACTIONS: dict[str, gym.Space] = {
    "discrete": gym.spaces.Discrete(3, start=-1),
    "choices": gym.spaces.MultiDiscrete([2, 4]),
    "binary": gym.spaces.MultiBinary(3),
    "box": gym.spaces.Box(-2, 3, (2,), np.float32),
    "nested": gym.spaces.Dict({"push": gym.spaces.Box(-1, 1, (1,)), "key": gym.spaces.Discrete(3)}),
}


@pytest.mark.parametrize(
    ("seen", "kind", "name"), covering(list(OBSERVATIONS), KINDS, ["PPO", "DQN"], strength=1)
)
def test_every_observation_space(seen: str, kind: str, name: str) -> None:
    check_spaces(name, kind, OBSERVATIONS[seen], gym.spaces.Discrete(2))


@pytest.mark.parametrize("done", ACTIONS)
def test_every_action_space(done: str) -> None:
    check_spaces("PPO", "Curiosity", OBSERVATIONS["vector"], ACTIONS[done])
    if done == "box":
        check_spaces("SAC", "Curiosity", OBSERVATIONS["nested"], ACTIONS[done])


def check_spaces(name: str, kind: str, seen: gym.Space, done: gym.Space) -> None:
    spaces = {"observation_space": seen, "action_space": done}
    with made(name, kind, "random_env:RandomEnv", env_config=spaces) as algo:
        result = algo.train()
    found = {key: value for key, value in result.items() if key.startswith(PART)}
    assert found and all(np.isfinite(value) for value in found.values())
    assert found[f"{PART}bonus_mean"] > 0


MEMORIES = {"use_lstm": True, "lstm_cell_size": 8, "lstm_use_prev_action": True, "max_seq_len": 4}


@pytest.mark.parametrize(("name", "kind"), covering(["PPO", "DQN", "IMPALA"], KINDS, strength=1))
def test_policies_with_a_memory(name: str, kind: str) -> None:
    model = {**MEMORIES, "fcnet_hiddens": [8]}
    if name == "IMPALA":
        model.pop("max_seq_len")
    replay = {"replay_buffer_config": {"capacity": 2000}} if name == "DQN" else {}
    with made(name, kind, model=model, **replay) as algo:
        result = algo.train()
        assert result[f"{PART}bonus_mean"] > 0
        networks = algo.learners.worker.parts["default_policy"]["curiosity"].networks  # type: ignore[attr-defined]
    if kind == "Curiosity":  # what an inverse model tells is not in what it sees
        assert networks["novelty"].features[0].in_features == 4


def test_a_policy_of_several_can_be_the_only_curious_one() -> None:
    algo_class = get_algorithm("PPO")
    config = settings_of(
        "PPO",
        "multi_agent_cartpole",
        env_config={"num_agents": 2},
        policies={"curious": {"config": {"exploration_config": {"type": "RND"}}}, "other": {}},
        policy_mapping_fn={"agent_0": "curious", "agent_1": "other"},
    )
    with algo_class(config) as algo:
        result = algo.train()
    assert result["learner/curious/curiosity/bonus_mean"] > 0
    assert not any(key.startswith("learner/other/curiosity") for key in result)


def test_env_runners_sample_for_it() -> None:
    with made("PPO", "Curiosity", num_env_runners=2, num_cpus_per_env_runner=0.5) as algo:
        assert algo.train()[f"{PART}bonus_mean"] > 0


def test_a_part_of_ones_own_may_not_have_its_name() -> None:
    kind = get_algorithm("PPO")
    own = type(
        "Own", (kind,), {"make_learner_parts": classmethod(lambda cls, c, p: {"curiosity": 0})}
    )
    with pytest.raises(
        ConfigError, match="'curiosity' is the name of what exploration_config adds"
    ):
        own(settings("PPO", "RND"))
