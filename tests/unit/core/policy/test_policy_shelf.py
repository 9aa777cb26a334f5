"""Policies of which few are in memory are what they are with all of them there."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tiers import covering

from trainables import PPO, DQNConfig, PPOConfig
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.core.policy.shelf import PolicyShelf

OBS, ACTIONS = gym.spaces.Box(-1, 1, (3,), np.float32), gym.spaces.Discrete(2)


def policies(count: int) -> list[Policy]:
    return [Policy(OBS, ACTIONS, {"fcnet_hiddens": [8]}, seed=i) for i in range(count)]


def files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.safetensors"))


def num_bytes(policy: Policy) -> int:
    return sum(p.untyped_storage().nbytes() for p in policy._module.parameters())


def test_the_least_recently_used_ones_have_no_memory(tmp_path: Path) -> None:
    shelf, own = PolicyShelf(2, str(tmp_path)), policies(4)
    for policy in own:
        shelf.add(policy)
    assert shelf.num_in_memory == 2
    assert [num_bytes(policy) > 0 for policy in own] == [False, False, True, True]
    _ = own[0].module  # 2 was used before 3
    assert [num_bytes(policy) > 0 for policy in own] == [True, False, False, True]
    assert len(files(tmp_path)) == 3  # that of 0 stays until it is written again


def test_weights_come_back_as_they_were(tmp_path: Path) -> None:
    shelf, own = PolicyShelf(1, str(tmp_path)), policies(3)
    before = [policy.get_weights() for policy in own]
    for policy in own:
        shelf.add(policy)
    own[1].set_weights(before[0])
    for policy, expected in zip(own, (before[0], before[0], before[2]), strict=True):
        for name, value in policy.get_weights().items():
            np.testing.assert_array_equal(value, expected[name])


def test_a_network_that_is_away_is_refused_by_pytorch() -> None:
    shelf, own = PolicyShelf(1), policies(2)
    module = own[0].module
    for policy in own:
        shelf.add(policy)
    with pytest.raises(RuntimeError, match="storage of size 0"):
        module.dist_inputs(torch.zeros(1, 3))
    assert own[0].module is module
    module.dist_inputs(torch.zeros(1, 3))


def test_it_is_forgotten_with_the_policy(tmp_path: Path) -> None:
    shelf, own = PolicyShelf(1, str(tmp_path)), policies(3)
    for policy in own:
        shelf.add(policy)
    assert len(files(tmp_path)) == 2
    del own[:2], policy
    gc.collect()
    assert not files(tmp_path) and shelf.num_in_memory == 1
    own.clear()
    del shelf
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_views_stay_views(tmp_path: Path) -> None:
    shelf, own = PolicyShelf(1, str(tmp_path)), policies(2)
    whole = torch.arange(6.0)
    part, from_array = whole[2:4], torch.from_numpy(np.arange(3.0))
    shelf.add(own[0])
    assert own[0].shelved is not None
    own[0].shelved.sources.append(lambda: (whole, part, from_array))
    shelf.add(own[1])
    assert not whole.untyped_storage().nbytes() and not from_array.untyped_storage().nbytes()
    own[0].shelved.use()
    whole.numpy()  # from here on PyTorch lets nobody resize it
    _ = own[1].module
    own[0].shelved.use()
    whole[3] = 7
    assert part.tolist() == [2, 7] and from_array.tolist() == [0, 1, 2]


def test_a_folder_that_cannot_be_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"policy_map_cache = .*file.* cannot be made"):
        PolicyShelf(1, str(tmp_path / "file"))


def test_a_full_disk_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> None:
        raise OSError("No space left on device")

    shelf, own = PolicyShelf(1, str(tmp_path)), policies(2)
    shelf.add(own[0])
    monkeypatch.setattr("trainables.core.policy.shelf.save_file", fails)
    with pytest.raises(ConfigError, match=r"cannot be written: No space left.*policy_map_capacity"):
        shelf.add(own[1])
    assert num_bytes(own[0])  # nothing is lost


# ---------------------------------------------------------------- whole algorithms

PPO_SETTINGS = {
    "train_batch_size": 64,
    "minibatch_size": 32,
    "num_epochs": 2,
    "model": {"fcnet_hiddens": [16]},
}
DQN_SETTINGS = {
    "num_steps_sampled_before_learning_starts": 30,
    "noisy": True,
    "train_batch_size": 16,
    "model": {"fcnet_hiddens": [16]},
}


def rotating(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    return f"p{(int(agent_id[-1]) + episode.episode_id) % 4}"


def config(kind: type, settings: dict[str, Any], **of_several: Any) -> Any:
    return (
        kind()
        .environment("multi_agent_cartpole", env_config={"num_agents": 3})
        .env_runners(num_envs_per_env_runner=2)
        .multi_agent(policies=[f"p{i}" for i in range(4)], policy_mapping_fn=rotating, **of_several)
        .training(**settings)
        .reporting(min_sample_timesteps_per_iteration=40)
        .debugging(seed=1)
    )


def trained(algorithm: Any, num_iterations: int) -> tuple[list[Any], dict[str, Any]]:
    """Returns what learners report, and all weights."""
    found = []
    for _ in range(num_iterations):
        result = algorithm.train()
        found.append(
            {n: v for n, v in result.items() if n.startswith(("learner/", "module/", "agent/"))}
        )
    return found, algorithm.get_weights()


def same(ones: dict[str, Any], others: dict[str, Any]) -> None:
    assert ones.keys() == others.keys()
    for policy_id, weights in ones.items():
        for name, value in weights.items():
            np.testing.assert_array_equal(value, others[policy_id][name], f"{policy_id} {name}")


@pytest.mark.parametrize(
    ("of", "capacity"),
    covering([(PPOConfig, PPO_SETTINGS), (DQNConfig, DQN_SETTINGS)], [1, 3], strength=1),
)
def test_training_is_the_same_to_the_bit(
    of: tuple[type, dict[str, Any]], capacity: int, tmp_path: Path
) -> None:
    kind, settings = of
    whole = config(kind, settings, policy_map_capacity=None).build()
    few = config(
        kind, settings, policy_map_capacity=capacity, policy_map_cache=str(tmp_path)
    ).build()
    (expected, weights), (found, of_few) = trained(whole, 2), trained(few, 2)
    for one, other in zip(expected, found, strict=True):
        assert one.keys() == other.keys()
        np.testing.assert_array_equal([*one.values()], [*other.values()])
    same(weights, of_few)
    shelf = few.get_policy("p0").shelved.shelf
    assert shelf.num_in_memory == capacity
    whole.stop()
    few.stop()


def test_it_resumes_to_the_bit(tmp_path: Path) -> None:
    whole = config(PPOConfig, PPO_SETTINGS, policy_map_capacity=2).build()
    trained(whole, 1)
    whole.save_checkpoint(str(tmp_path / "checkpoint"))
    assert {path.name for path in (tmp_path / "checkpoint" / "learners").iterdir()} == {
        "p0", "p1", "p2", "p3"
    }  # fmt: skip
    expected = trained(whole, 1)[1]
    whole.stop()
    for capacity in (2, None):
        resumed = config(PPOConfig, PPO_SETTINGS, policy_map_capacity=capacity).build()
        resumed.load_checkpoint(str(tmp_path / "checkpoint"))
        same(expected, trained(resumed, 1)[1])
        resumed.stop()


def test_a_damaged_file_of_a_learner_is_told(tmp_path: Path) -> None:
    few = config(PPOConfig, PPO_SETTINGS, policy_map_capacity=2).build()
    few.save_checkpoint(str(tmp_path))
    few.stop()
    file = tmp_path / "learners" / "p1" / "learner.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match=r"learners/p1/learner\.safetensors"):
        PPO.from_checkpoint(str(tmp_path), policy_mapping_fn=rotating)


def test_a_policy_that_is_added_makes_room(tmp_path: Path) -> None:
    algorithm = config(PPOConfig, PPO_SETTINGS, policy_map_capacity=4).build()
    algorithm.train()
    assert algorithm.get_policy("p0").shelved is None  # all have room
    algorithm.add_policy("p4")
    shelf = algorithm.get_policy("p4").shelved.shelf
    assert shelf.num_in_memory == 4
    algorithm.train()
    algorithm.remove_policy("p4")
    algorithm.train()
    algorithm.stop()


def test_policies_of_one_kind_are_seen_to_be() -> None:
    given = config(PPOConfig, PPO_SETTINGS, policy_states_are_swappable=True)
    given.validate()
    given.multi_agent(
        algorithm_config_overrides_per_module={"p2": {"model": {"fcnet_hiddens": [3]}}}
    )
    with pytest.raises(ConfigError, match="policy_states_are_swappable = True, but 'p0' and 'p2'"):
        given.validate()


def test_what_is_compiled_stays_in_memory() -> None:
    given = config(PPOConfig, PPO_SETTINGS, policy_map_capacity=2)
    given.framework(torch_compile_learner=True)
    with pytest.raises(ConfigError, match="torch_compile_learner = True is not supported with"):
        given.validate()
