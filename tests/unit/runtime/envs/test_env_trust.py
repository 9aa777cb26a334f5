"""What of a checkpoint's environment is harmless."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from ray import tune

from trainables.core.callables import UntrustedName
from trainables.core.checkpoint import CheckpointError
from trainables.core.config.config import AlgorithmConfig
from trainables.core.trust import doubts_of, refuse
from trainables.runtime.envs.trust import environment_doubts

PATH, WORD = {"desc": "/etc/passwd"}, {"map_name": "8x8", "size": [1, 2.5], "slippery": True}


def test_what_needs_trust() -> None:
    tune.register_env("trust_tests/Mine", lambda config: gym.make("CartPole-v1"))
    tune.register_env("CliffWalking-v1", lambda config: gym.make("CartPole-v1"))
    trust = ["env_config", "os:system"]
    cases: list[tuple[Any, dict[str, Any], list[str]]] = [
        ("CartPole-v1", {}, []),
        ("FrozenLake-v1", WORD, []),
        ("FrozenLake-v1", PATH, ["env_config"]),
        ("FrozenLake-v1", {"desc": [{"a": ["module.name"]}]}, ["env_config"]),
        ("FrozenLake-v1", {"module:name": 1}, ["env_config"]),
        ("CartPole-v1", {"render_mode": "human"}, ["env_config"]),
        ("CartPole-v1", {"render_mode": "rgb_array"}, []),
        ("trust_tests/Mine", WORD, ["env_config"]),
        ("trust_tests/Mine", {"size": 3}, []),
        ("CliffWalking-v1", WORD, ["env_config"]),  # the user's, by that name
        ("envpool:Pong-v5", {"stack_num": 1, "reward_clip": False}, []),
        ("envpool:Pong-v5", {"num_threads": 100_000}, ["env_config"]),
        ("envpool:Pong-v5", {"base_path": "/tmp"}, ["env_config"]),
        ("os:system", PATH, ["os:system"]),  # who trusts code trusts its arguments
        (None, {}, []),
        (gym.Env, PATH, []),  # a class in memory comes from no checkpoint
    ]
    for env, env_config, asked_for in cases:
        doubts = list(environment_doubts({"env": env, "env_config": env_config}))
        assert [doubt.entry for doubt in doubts] == asked_for, (env, env_config)
        assert all(doubt.is_settled(trust) and not doubt.is_settled(["x"]) for doubt in doubts)


def test_trusted_code_beside_it_vouches_for_nothing_else() -> None:
    """A stranger who guesses what is trusted cannot hide a folder behind it."""
    beside = UntrustedName("mine:Environment")
    given = {"extra_python_environs_for_driver": {"A": "x", "B": beside}, "record_env": beside}
    with pytest.raises(CheckpointError, match="environment variables that would be set") as error:
        refuse(doubts_of(AlgorithmConfig, given), ["mine:Environment"], "it")
    assert "record_env" not in str(error.value)  # the code alone, which is trusted


def test_one_name_is_trusted_as_a_whole() -> None:
    """A name by itself is no list of its letters, nor of the names that are parts of it."""
    given = {"callbacks_class": "theirs:Callbacks", "env": UntrustedName("s:Call")}
    with pytest.raises(CheckpointError, match=r"env = 's:Call'") as error:
        refuse(doubts_of(AlgorithmConfig, given), "theirs:Callbacks", "it")
    assert "trust=['theirs:Callbacks', 's:Call']" in str(error.value)
