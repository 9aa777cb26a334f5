"""Environments by name, class and callable, and their state."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import EncodingVectorEnv, EndlessEnv, limited_walk
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from ray import tune
from refusals import Golden, refusals
from tiers import covering

from trainables.core.checkpoint import load_state, save_state
from trainables.core.errors import ConfigError
from trainables.runtime.envs.all_slots import reset_with_infos
from trainables.runtime.envs.games.own import STATELESS_CARTPOLE, TMAZE
from trainables.runtime.envs.make import EnvContext, env_name, is_name_safe, make_vector_env
from trainables.runtime.envs.state import get_env_state, set_env_state


class ContextEnv(EndlessEnv):
    """Takes the env context as the reference does."""

    def __init__(self, env_config: EnvContext):
        super().__init__(horizon=env_config["horizon"])
        self.context = env_config


class KeywordEnv(EndlessEnv):
    """Takes keyword arguments as gymnasium does, also one that is called like a context."""

    def __init__(self, horizon: int, config: str = "none"):
        super().__init__(horizon)
        self.config = config


class BrokenEnv(gym.Env):
    def __init__(self) -> None:
        raise FileNotFoundError("level 3 is missing")


class NoEnv:
    pass


class SameStepVectorEnv(EncodingVectorEnv):
    closed = False

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def close(self, **kwargs: Any) -> None:
        SameStepVectorEnv.closed = True


def context_creator(context: EnvContext) -> gym.Env:
    return ContextEnv(context)


def slots(env: VectorEnv) -> list[Any]:
    assert isinstance(env, SyncVectorEnv)
    return [slot.unwrapped for slot in env.envs]


def refused(env: Any, message: str, **arguments: Any) -> None:
    with pytest.raises(ConfigError, match=message):
        make_vector_env(env, **arguments)


# ------------------------------------------------------------------ kinds of environments


def test_gymnasium_ids() -> None:
    native = make_vector_env("CartPole-v1", None, 3)
    assert type(native).__name__ == "CartPoleVectorEnv" and native.num_envs == 3
    sync = make_vector_env("MountainCar-v0", None, 3)
    assert isinstance(sync, SyncVectorEnv) and sync.num_envs == 3
    assert len({id(slot) for slot in slots(sync)}) == 3
    for env in (native, sync):
        assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
        env.close()


def test_env_config_of_a_gymnasium_id() -> None:
    env = make_vector_env("Pendulum-v1", {"g": 3.0}, 2)
    assert [slot.g for slot in slots(env)] == [3.0, 3.0]
    rendering = make_vector_env("CartPole-v1", {"render_mode": "rgb_array"}, 1)
    assert isinstance(rendering, SyncVectorEnv)


def test_class_with_keyword_arguments() -> None:
    env = make_vector_env(KeywordEnv, {"horizon": 9, "config": "mine"}, 2)
    assert [(slot.horizon, slot.config) for slot in slots(env)] == [(9, "mine")] * 2


def test_class_with_context() -> None:
    config = {"horizon": 4}
    env = make_vector_env(ContextEnv, config, 2, worker_index=3, num_workers=5)
    for index, slot in enumerate(slots(env)):
        context = slot.context
        assert isinstance(context, EnvContext) and dict(context) == config
        assert (context.worker_index, context.vector_index) == (3, index)
        assert (context.num_workers, context.remote) == (5, False)
        context["horizon"] = 100  # a slot's own copy
    assert config == {"horizon": 4}


class _Anything(EndlessEnv):
    def __init__(self, given: Any):
        super().__init__()
        self.given = given


class Cfg(_Anything):
    def __init__(self, cfg):  # type: ignore[no-untyped-def]
        super().__init__(cfg)


class TypedDict(_Anything):
    def __init__(self, whatever: dict[str, Any]):
        super().__init__(whatever)


class Underscored(_Anything):
    def __init__(self, _, render: bool = False):  # type: ignore[no-untyped-def]
        super().__init__(_)


class WithRest(_Anything):
    def __init__(self, settings, **kwargs):  # type: ignore[no-untyped-def]
        assert not kwargs
        super().__init__(settings)


class Starred(_Anything):
    def __init__(self, *args):  # type: ignore[no-untyped-def]
        super().__init__(*args)


class MayBeNone(_Anything):
    def __init__(self, env_cfg=None):  # type: ignore[no-untyped-def]
        super().__init__(env_cfg)


class OnlyOne(_Anything):
    def __init__(self, settings=None):  # type: ignore[no-untyped-def]
        super().__init__(settings)


def test_the_one_argument_of_a_class_is_the_context_whatever_its_name() -> None:
    for kind in (Cfg, TypedDict, Underscored, WithRest, Starred, MayBeNone, OnlyOne):
        env = make_vector_env(kind, {"n": 3}, 2, worker_index=4)
        for index, slot in enumerate(slots(env)):
            assert isinstance(slot.given, EnvContext) and dict(slot.given) == {"n": 3}
            assert (slot.given.worker_index, slot.given.vector_index) == (4, index)
        if kind not in (MayBeNone, OnlyOne, Starred):  # these need nothing
            assert isinstance(slots(make_vector_env(kind, {}, 1))[0].given, EnvContext)


def test_keywords_go_before_the_context() -> None:
    assert slots(make_vector_env(Cfg, {"cfg": 7}, 1))[0].given == 7
    assert slots(make_vector_env(MayBeNone, {}, 1))[0].given is None
    assert slots(make_vector_env(WithRest, {"settings": 7}, 1))[0].given == 7


class Sized(EndlessEnv):
    def __init__(self, size: int, colour: str = "red"):
        super().__init__(size)


class Coloured(EndlessEnv):
    def __init__(self, colour="red"):  # type: ignore[no-untyped-def]
        super().__init__()


class Rendered(EndlessEnv):
    def __init__(self, render_mode=None):  # type: ignore[no-untyped-def]
        super().__init__()


class TwoOptional(EndlessEnv):
    def __init__(self, size=None, colour=None):  # type: ignore[no-untyped-def]
        super().__init__()


class Halves(EndlessEnv):
    def __init__(self, number):  # type: ignore[no-untyped-def]
        super().__init__(number // 2)


class TwoNeeded(EndlessEnv):
    def __init__(self, first, second):  # type: ignore[no-untyped-def]
        super().__init__()


def test_a_constructor_that_takes_neither_is_one_error(golden: Golden) -> None:
    given: list[tuple[type, dict[str, Any]]] = [
        (Sized, {"n": 3}),
        (Sized, {}),
        (Coloured, {"clour": "red"}),
        (Rendered, {"n": 3}),
        (OnlyOne, {"setings": 3}),
        (TwoOptional, {"n": 3}),
        (Cfg, {"cfgs": 3}),  # a slip of the pen
        (TwoNeeded, {"first": 1}),
        (BrokenEnv, {"n": 3}),
        (KeywordEnv, {"horzon": 1}),
        (Halves, {"n": 3}),
        (ContextEnv, {}),
    ]
    cases = {f"{kind.__name__}: {env_config}": (kind, env_config) for kind, env_config in given}
    texts = refusals(make_vector_env, cases)
    of_python = r"(TypeError): [^;]*"  # which says it otherwise in another release
    golden("envs/constructors", {k: re.sub(of_python, r"\1: <why>", v) for k, v in texts.items()})


def test_callable_and_registered_name() -> None:
    tune.register_env("tunescape-test-env", context_creator)
    for env in (context_creator, "tunescape-test-env", lambda context: ContextEnv(context)):
        made = make_vector_env(env, {"horizon": 6}, 2)
        assert [slot.horizon for slot in slots(made)] == [6, 6]
        assert [slot.context.vector_index for slot in slots(made)] == [0, 1]


def test_registered_name_wins_over_gymnasium() -> None:
    tune.register_env("MountainCarContinuous-v0", context_creator)
    try:
        env = make_vector_env("MountainCarContinuous-v0", {"horizon": 6}, 1)
        assert isinstance(slots(env)[0], ContextEnv)
    finally:
        from ray.tune.registry import ENV_CREATOR, _global_registry

        _global_registry.unregister(ENV_CREATOR, "MountainCarContinuous-v0")


def test_module_and_name() -> None:
    assert make_vector_env("fakes:EndlessEnv", {"horizon": 6}, 2).num_envs == 2
    env = make_vector_env("fakes:limited_walk", {}, 1)
    assert isinstance(env, SyncVectorEnv)
    assert isinstance(env.envs[0], gym.Wrapper)
    assert isinstance(env.envs[0].env, gym.wrappers.TimeLimit)
    refused("fakes:NotThere", "'fakes:NotThere' cannot be found: .*has no attribute 'NotThere'")
    refused("no_such_module:Env", "'no_such_module:Env' cannot be found: No module named")


def test_module_that_registers_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registers_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('RegisteredHere-v0', entry_point='fakes:EndlessEnv')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    env = make_vector_env("registers_envs:RegisteredHere-v0", {"horizon": 3}, 1)
    assert slots(env)[0].horizon == 3
    assert make_vector_env("RegisteredHere-v0", {}, 1).num_envs == 1
    gym.registry.pop("RegisteredHere-v0")


def test_vector_env_class() -> None:
    env = make_vector_env(EncodingVectorEnv, {"lengths": (2, 3)}, 2)
    assert isinstance(env, EncodingVectorEnv) and env.num_envs == 2


# ------------------------------------------------------------------ bad environments


def test_unknown_names() -> None:
    refused("CartPole-v9", r"env 'CartPole-v9' is unknown: .* did you mean 'CartPole-v[01]")
    refused("cartpole", "env 'cartpole' is unknown: it is no gymnasium id, no name given to tune")
    refused("zzzzzz", r"env 'zzzzzz' is unknown: [^?]*$")
    refused(None, r"env is not set: give an environment, e\.g\. env='CartPole-v1'")


def test_constructor_that_raises() -> None:
    with pytest.raises(ConfigError) as error:
        make_vector_env(BrokenEnv, {}, 2)
    says = "BrokenEnv' cannot be made with env_config={}: FileNotFoundError: level 3 is missing"
    assert says in str(error.value)
    assert isinstance(error.value.__cause__, FileNotFoundError)
    refused("CartPole-v1", "cannot be made with env_config={'a': 1}: ", env_config={"a": 1})


def test_what_is_no_environment() -> None:
    refused(NoEnv, "env '.*NoEnv' made a NoEnv, not a gymnasium.Env")
    refused(lambda context: None, "made a NoneType, not a gymnasium.Env")
    refused("os:getcwd", "cannot be made|made a")


def test_other_autoreset_modes_are_refused_and_closed() -> None:
    refused(
        SameStepVectorEnv,
        r"SameStepVectorEnv' resets in mode .*; only AutoresetMode\.NEXT_STEP is supported",
    )
    assert SameStepVectorEnv.closed


def test_envpool_without_envpool(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "envpool", None)
    refused(
        "envpool:CartPole-v1",
        r"env 'envpool:CartPole-v1' needs EnvPool, .* pip install 'tunescape\[envpool\]'",
    )


def test_names_in_messages() -> None:
    assert env_name("CartPole-v1") == "CartPole-v1"
    assert env_name(KeywordEnv) == f"{__name__}:KeywordEnv"
    assert env_name(context_creator) == f"{__name__}:context_creator"
    assert env_name(None) == "None"


def test_safe_names() -> None:
    tune.register_env("tunescape:with-colon", context_creator)
    for name in ("CartPole-v1", "envpool:Pong-v5", "tunescape:with-colon", "unknown"):
        assert is_name_safe(name)
    for name in ("os:system", "a.b:C", ":", "fakes:EndlessEnv"):
        assert not is_name_safe(name)


# ------------------------------------------------------------------ seeds


def test_slots_and_seeds_share_no_stream() -> None:
    """Slot i of seed 0 is not slot j of seed 1, nor are two slots of one seed alike."""

    def first_observations(seed: int) -> np.ndarray:
        env = make_vector_env("MountainCar-v0", None, 4)
        return np.asarray(reset_with_infos(env, np.random.SeedSequence(seed))[0])[:, 0]

    seen = np.concatenate([first_observations(seed) for seed in range(5)])
    assert len(set(seen.tolist())) == 20
    np.testing.assert_array_equal(first_observations(3), seen[12:16])


# ------------------------------------------------------------------ state


def play(env: VectorEnv, until: int | str) -> None:
    """A number of steps, or until an episode has ended, so that the next step resets."""
    for count, action in enumerate(random_actions(env, 200, seed=1)):
        if count == until:
            return
        _, _, terminated, truncated, _ = env.step(action)
        if until == "an end" and (terminated | truncated).any():
            return
    raise AssertionError("no episode has ended")


def random_actions(env: VectorEnv, count: int, seed: int = 0) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


def trajectory(env: VectorEnv, actions: list[Any]) -> list[list[np.ndarray]]:
    return [[np.array(part) for part in env.step(action)[:4]] for action in actions]


STATEFUL: list[tuple[Any, dict[str, Any]]] = [
    ("CartPole-v1", {"max_episode_steps": 30}),
    ("CartPole-v1", {"render_mode": "rgb_array"}),  # one by one
    ("Pendulum-v1", {"max_episode_steps": 50}),
    ("Acrobot-v1", {"max_episode_steps": 60}),
    ("MountainCar-v0", {"max_episode_steps": 70}),
    ("MountainCarContinuous-v0", {"max_episode_steps": 80}),
    (limited_walk, {}),
    (STATELESS_CARTPOLE, {"max_episode_steps": 30}),
    (STATELESS_CARTPOLE, {"render_mode": "rgb_array"}),
    (TMAZE, {"length": 2}),
]


BEFORE: list[int | str] = ["an end", 150, 1, 0]


@pytest.mark.parametrize(("case", "before"), covering(STATEFUL, BEFORE, strength=1))
def test_state_goes_on_to_the_bit(
    tmp_path: Path, case: tuple[Any, dict[str, Any]], before: int | str
) -> None:
    """Through a checkpoint into a fresh environment, over many autoresets."""
    env, env_config = case
    original = make_vector_env(env, env_config, 3)
    reset_with_infos(original, np.random.SeedSequence(1))
    play(original, before)
    state = get_env_state(original)
    assert state is not None
    save_state(tmp_path, "env", state)
    actions = random_actions(original, 300)
    expected = trajectory(original, actions)
    assert sum(int((step[2] | step[3]).sum()) for step in expected) > 6, "no autoresets: no test"

    fresh = make_vector_env(env, env_config, 3)
    reset_with_infos(fresh, np.random.SeedSequence(2))
    # Nor does a state change when the environment that it is of goes on.
    for goes_on, its in (
        (fresh, load_state(tmp_path, "env")),
        (original, state),
        (original, state),
    ):
        set_env_state(goes_on, its)
        for step, (one, other) in enumerate(
            zip(expected, trajectory(goes_on, actions), strict=True)
        ):
            for part, again in zip(one, other, strict=True):
                assert part.dtype == again.dtype
                np.testing.assert_array_equal(part, again, err_msg=f"step {step}")


def test_a_state_is_of_its_moment() -> None:
    """A fresh environment without it goes elsewhere: the tests above can fail."""
    original = make_vector_env("Pendulum-v1", None, 2)
    reset_with_infos(original, np.random.SeedSequence(1))
    fresh = make_vector_env("Pendulum-v1", None, 2)
    reset_with_infos(fresh, np.random.SeedSequence(2))
    actions = random_actions(original, 5)
    one, other = trajectory(original, actions), trajectory(fresh, actions)
    assert (one[-1][0] != other[-1][0]).any()


class HiddenWrapper(gym.Wrapper):
    """A wrapper that may remember anything."""


@pytest.mark.parametrize(
    "env",
    [
        "FrozenLake-v1",
        EndlessEnv,
        EncodingVectorEnv,
        lambda context: HiddenWrapper(gym.make("Pendulum-v1")),
        lambda context: gym.wrappers.NormalizeReward(gym.make("Pendulum-v1")),
    ],
    ids=["toy text", "custom", "vector", "wrapper of one's own", "wrapper with state"],
)
def test_without_state(env: Any) -> None:
    made = make_vector_env(env, None, 2)
    made.reset()
    assert get_env_state(made) is None


def test_known_wrappers_are_passed(tmp_path: Path) -> None:
    def wrapped(context: EnvContext) -> gym.Env:
        env = gym.wrappers.RecordEpisodeStatistics(limited_walk({}))
        return gym.wrappers.TransformReward(env, lambda reward: 2 * reward)

    env = make_vector_env(wrapped, None, 2)
    env.reset(seed=[0, 1])
    trajectory(env, random_actions(env, 10))
    state = get_env_state(env)
    assert state is not None
    save_state(tmp_path, "env", state)
    actions = random_actions(env, 40, seed=2)
    expected = [env.step(action) for action in actions]
    fresh = make_vector_env(wrapped, None, 2)
    fresh.reset(seed=[2, 3])
    set_env_state(fresh, load_state(tmp_path, "env"))
    for one, other in zip(expected, [fresh.step(action) for action in actions], strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        if "episode" in one[4]:
            np.testing.assert_array_equal(one[4]["episode"]["r"], other[4]["episode"]["r"])
