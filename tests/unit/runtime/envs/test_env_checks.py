"""Checks of custom environments, the contexts they are made with, and errors that name a slot."""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import EncodingVectorEnv, EndlessEnv, limited_walk
from gymnasium import spaces
from refusals import Golden, refusals

from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.all_slots import reset_with_infos
from trainables.runtime.envs.checks import check_env
from trainables.runtime.envs.make import EnvOptions, make_vector_env
from trainables.runtime.envs.sub_environment import SubEnvironmentError


class Scripted(EndlessEnv):
    """Returns what it is told to."""

    def __init__(self, reset: Any = None, **parts: Any):
        super().__init__()
        self.reset_result, self.parts = reset, parts

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        good = super().reset(seed=seed)
        return good if self.reset_result is None else self.reset_result

    def step(self, action: Any) -> Any:
        names = ("obs", "reward", "terminated", "truncated", "info")
        step = dict(zip(names, super().step(action), strict=True)) | self.parts
        return step["result"] if "result" in step else tuple(step[name] for name in names)


ONE = np.ones(1, np.float32)


def test_one_error_says_what_is_wrong(golden: Golden) -> None:
    wrong: list[dict[str, Any]] = [
        {"reset": ONE},
        {"reset": (ONE, None)},
        {"reset": (np.ones(2, np.float32), {})},
        {"obs": np.ones(1)},
        {"obs": [1.0]},
        {"obs": ONE * 2},
        {"obs": ONE * np.nan},
        {"result": (ONE, 0.0, False, {})},
        {"result": None},
        {"reward": "1"},
        {"reward": np.ones(1)},
        {"reward": float("inf")},
        {"terminated": 0},
        {"truncated": None},
        {"info": []},
        {"reward": {"a": 1.0, "b": 0.0}},
        {"terminated": {"a": False, "__all__": False}},
        {"reset": ({"a": ONE, "b": ONE}, {})},
        {"reset": ({0: ONE}, {})},
    ]

    def made(parts: dict[str, Any]) -> None:
        make_vector_env(Scripted, parts, 2).close()
        make_vector_env(Scripted, parts, 2, options=EnvOptions(check=True))

    golden("env_checks/environments", refusals(made, wrong))


class MultiAgentEnv(EndlessEnv):
    """Of a class that is called as RLlib's."""


class Duel(MultiAgentEnv):
    """Two agents."""


class ParallelEnv:
    """Of a class that is called as PettingZoo's, which is no gymnasium.Env."""


SEVERAL = "has several agents, where one of one agent is wanted"
BY_AGENT = "gives observations, rewards or ends by agent.*derives from trainables.MultiAgentEnv"


def test_classes_of_several_agents_are_refused_where_one_is_wanted() -> None:
    kinds: tuple[Any, ...] = (Duel, ParallelEnv, lambda context: gym.Wrapper(Duel()))
    for kind, check in itertools.product(kinds, (False, True)):
        with pytest.raises(ConfigError, match=SEVERAL) as error:
            make_vector_env(kind, None, 1, options=EnvOptions(check=check))
        assert "disable_env_checking" not in str(error.value) and "\n" not in str(error.value)


def test_a_space_for_each_agent_is_told_what_to_derive_from() -> None:
    class Spaces(EndlessEnv):
        observation_space = {"a": spaces.Discrete(2)}  # type: ignore[assignment]  # noqa: RUF012

    with pytest.raises(ConfigError, match=BY_AGENT):
        check_env(Spaces(), "x")


def test_nested_observations() -> None:
    class Nested(EndlessEnv):
        observation_space = spaces.Dict(  # type: ignore[assignment]
            {"a": spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]), "b": spaces.Box(0, 1)}
        )
        obs: Any = None

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return self.obs, {}

        def step(self, action: Any) -> Any:
            return self.obs, 1, False, np.bool_(False), {}

    bits, box = np.array([0, 1], np.int8), np.ones(1, np.float32)
    for obs, message in (
        ({"a": (1, bits)}, r"observation has the keys \['a'\], the space has \['a', 'b'\]"),
        ({"a": (3, bits), "b": box}, r"observation\['a'\]\[0\] 3 \(int\) is not in Discrete\(3\)"),
        ({"a": (1,), "b": box}, r"observation\['a'\] is a tuple of 1, not a tuple of 2"),
        ({"a": (1, bits), "b": 2 * box}, r"observation\['b'\] is 2.0 at \[0\]"),
    ):
        Nested.obs = obs
        with pytest.raises(ConfigError, match=message):
            check_env(Nested(), "nested")
    Nested.obs = {"a": (np.int64(1), bits), "b": box}
    check_env(Nested(), "nested")


def test_what_a_class_lacks() -> None:
    class Unseeded(EndlessEnv):
        def reset(self) -> Any:  # type: ignore[override]
            return super().reset()

    class Spaceless(EndlessEnv):
        action_space = 2  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="reset takes no seed: write reset"):
        check_env(Unseeded(), "x")
    with pytest.raises(ConfigError, match=r"its action_space is 2 \(int\), not a gymnasium space"):
        check_env(Spaceless(), "x")


def test_a_good_environment_is_checked_in_silence_and_goes_on_as_if_unchecked() -> None:
    def first_rows(check: bool) -> np.ndarray:
        env = make_vector_env(limited_walk, None, 2, options=EnvOptions(check=check))
        rows = [reset_with_infos(env, np.random.SeedSequence(3))[0]]
        rows += [env.step(np.zeros((2, 1), np.float32))[0] for _ in range(40)]
        return np.array(rows)

    random.seed(1)
    np.random.seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked = first_rows(True)
    drawn = random.random(), np.random.random()
    np.testing.assert_array_equal(checked, first_rows(False))
    random.seed(1)
    np.random.seed(1)
    assert drawn == (random.random(), np.random.random())


class ScriptedVector(EncodingVectorEnv):
    """Returns what it is told to."""

    told: dict[str, Any] = {}  # noqa: RUF012 - a test's own

    def step(self, actions: Any) -> Any:
        names = ("obs", "reward", "terminated", "truncated", "info")
        step = dict(zip(names, super().step(actions), strict=True)) | self.told
        return tuple(step[name] for name in names)


def test_vector_environments_are_checked_too(
    monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    def made(told: dict[str, Any]) -> None:
        monkeypatch.setattr(ScriptedVector, "told", told)
        make_vector_env(ScriptedVector, None, 2, options=EnvOptions(check=True)).close()

    made({})
    wrong: list[dict[str, Any]] = [
        {"obs": np.zeros((2, 7), np.float32)},
        {"reward": np.array([0.0, np.nan])},
        {"reward": 1.0},
        {"terminated": np.zeros(2)},
    ]
    golden("env_checks/vector_environments", refusals(made, wrong))


def test_set_up_checks_unless_it_is_disabled() -> None:
    config = PPOConfig().environment(Scripted, env_config={"terminated": 0})
    with pytest.raises(ConfigError, match="terminated is 0"):
        config.build()
    config.environment(disable_env_checking=True).build().stop()


# ------------------------------------------------------------------ errors in training


class Failing(EndlessEnv):
    def __init__(self, method: str, vector_index: int):
        super().__init__()
        self.fails_in = method if vector_index == 1 else None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.fails_in == "reset":
            raise OSError("no connection")
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if self.fails_in == "step":
            raise KeyError("level")
        return super().step(action)


def test_an_error_names_the_slot_and_its_cause() -> None:
    for method, cause in (("reset", "OSError: no connection"), ("step", "KeyError: 'level'")):
        config = PPOConfig().environment(Failing, env_config={"method": method})
        with pytest.raises(SubEnvironmentError) as error:
            config.build().train()
        name = "env 'test_env_checks:Failing', slot 1 of env runner 0"
        assert str(error.value) == f"{name}: {method} raised {cause}"
        assert type(error.value.__cause__).__name__ == cause.partition(":")[0]


# ------------------------------------------------------------------ contexts and seeds


class Keywords(EndlessEnv):
    def __init__(self, horizon: int, worker_index: int, vector_index: int = -1, remote: int = -1):
        super().__init__(horizon)
        self.seen = (horizon, worker_index, vector_index, remote)


class OneConfig(EndlessEnv):
    def __init__(self, env_config: Any):
        super().__init__()
        assert env_config == {"horizon": 7, "max_episode_steps": 3}
        self.seen = (env_config["horizon"], env_config.worker_index, env_config.vector_index, False)


@pytest.mark.parametrize("kind", [Keywords, OneConfig])
def test_registered_ids_know_which_instance_they_are(kind: type) -> None:
    gym.register("WhichInstance-v0", entry_point=kind)
    try:
        config = {"horizon": 7, "max_episode_steps": 3}
        made = make_vector_env("WhichInstance-v0", config, 2, worker_index=4)
        env: Any = made
        assert [slot.unwrapped.seen for slot in env.envs] == [(7, 4, 0, False), (7, 4, 1, False)]
        made.reset()
        ends = [made.step(np.zeros(2, np.int64))[3].tolist() for _ in range(3)]
        assert ends == [[False] * 2, [False] * 2, [True] * 2]
    finally:
        gym.registry.pop("WhichInstance-v0")


def test_a_class_with_keywords_knows_too_unless_the_config_says_otherwise() -> None:
    env: Any = make_vector_env(Keywords, {"horizon": 7, "vector_index": 9}, 2, worker_index=4)
    assert [slot.unwrapped.seen for slot in env.envs] == [(7, 4, 9, False)] * 2


def test_action_spaces_are_seeded_apart() -> None:
    def draws(seed: int) -> list[list[int]]:
        env: Any = make_vector_env(limited_walk, None, 3)
        reset_with_infos(env, np.random.SeedSequence(seed))
        return [[float(slot.action_space.sample()[0]) for _ in range(4)] for slot in env.envs]

    one = draws(0)
    assert one == draws(0)
    assert len({tuple(row) for row in one + draws(1)}) == 6


class Strict(gym.Env):
    """Raises at an action that its mask forbids."""

    def __init__(self, key: str) -> None:
        self.key, self.action_space = key, gym.spaces.Discrete(4)
        self.observation_space = gym.spaces.Dict({key: gym.spaces.MultiBinary(4)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def _obs(self) -> dict[str, np.ndarray]:
        return {self.key: np.eye(4, dtype=np.int8)[self.t % 4]}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        assert action == self.t % 4
        self.t += 1
        return self._obs(), 0.0, False, False, {}


@pytest.mark.parametrize("key", ["action_mask", "legal"])
def test_only_actions_that_the_mask_allows_are_tried(key: str) -> None:
    env = Strict(key)
    check_env(env, "strict", key)
    assert env.t > 1


def test_given_spaces_fit_the_environment() -> None:
    box = spaces.Box(-1, 1, (3,), np.float32)
    says = r"observation_space = Box\(.* does not fit the environment's .*shape \(3,\) against"
    with pytest.raises(ConfigError, match=says):
        PPOConfig().environment("CartPole-v1", observation_space=box).build()
    says = r"action_space = Discrete\(5\) does not fit .*n 5 against 2"
    with pytest.raises(ConfigError, match=says):
        PPOConfig().environment("CartPole-v1", action_space=spaces.Discrete(5)).build()


def test_given_spaces_may_have_other_bounds() -> None:
    space = spaces.Box(-5, 5, (4,), np.float32)
    with PPOConfig().environment("CartPole-v1", observation_space=space).build() as algorithm:
        assert algorithm.get_policy().observation_space == space
