"""Environments of other packages, by their ids alone."""

from __future__ import annotations

import importlib.util
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from trainables.core.errors import ConfigError
from trainables.runtime.envs.games import known as known_envs
from trainables.runtime.envs.games.dm_control import ControlTask, RepeatedAction
from trainables.runtime.envs.games.known import Package, is_of_known_package, known_creator
from trainables.runtime.envs.make import make_vector_env

ROOT = Path(__file__).parents[4]


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(known_envs.PACKAGES, "Nowhere/", Package("no_such_library.envs", "atari"))
    with pytest.raises(ConfigError, match=r"no_such_library.*pip install 'tunescape\[atari\]'"):
        make_vector_env("Nowhere/Game-v1")


def test_what_a_package_needs_beside_itself_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_here.py").write_text("import no_such_suite.tasks\n")
    monkeypatch.syspath_prepend(tmp_path)
    half = Package("half_here", "toys", needs=("no_such_suite",))
    monkeypatch.setitem(known_envs.PACKAGES, "Half/", half)
    with pytest.raises(ConfigError, match=r"library no_such_suite.*tunescape\[toys\]"):
        make_vector_env("Half/Game-v1")
    broken = Package("half_here", "toys")
    monkeypatch.setitem(known_envs.PACKAGES, "Half/", broken)
    with pytest.raises(ConfigError, match=r"cannot be made .* No module named 'no_such_suite'"):
        make_vector_env("Half/Game-v1")


def test_a_package_is_imported_and_trusted_by_its_line_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(
        "import gymnasium\n"
        "from fakes import EndlessEnv\n"
        "class Corridor(EndlessEnv): pass\n"
        "gymnasium.register('OnlyHere/Corridor-v0', entry_point='only_here:Corridor')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    monkeypatch.setitem(known_envs.PACKAGES, "OnlyHere/", Package("only_here", "toys"))
    env = make_vector_env("OnlyHere/Corridor-v0", num_envs=2)
    assert env.reset(seed=0)[0].shape[0] == 2
    assert is_of_known_package(gym.spec("OnlyHere/Corridor-v0"))
    monkeypatch.delitem(known_envs.PACKAGES, "OnlyHere/")
    assert not is_of_known_package(gym.spec("OnlyHere/Corridor-v0"))
    del sys.modules["only_here"]


def test_packages_can_be_installed_and_are_told_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    versions = (ROOT / "constraints.txt").read_text().lower()
    guide = (ROOT / "trainables/guides/environments.md").read_text()
    for package in set(known_envs.PACKAGES.values()):
        assert package.extra in extras, "pyproject.toml has no such extra"
        name = re.split("[<>=]", extras[package.extra][0])[0]
        assert f"\n{name}==" in versions, f"constraints.txt names no version of {name}"
        assert f"`{package.extra}`" in guide, f"the guide does not name the extra {package.extra}"


def test_an_unknown_id_of_a_known_package_is_unknown() -> None:
    pytest.importorskip("minatar", reason="needs the extra minatar")
    with pytest.raises(ConfigError, match=r"unknown.*did you mean 'MinAtar/Breakout"):
        make_vector_env("MinAtar/Breakot-v1")


def test_other_ids_are_left_alone() -> None:
    for env_id in ("CartPole-v1", "some_module:MyEnv", "envpool:Pong-v5"):
        assert known_creator(env_id) is None


@pytest.mark.parametrize(
    ("env_id", "library"),
    [
        ("MinAtar/Breakout-v1", "minatar"),
        ("MiniGrid-Empty-5x5-v0", "minigrid"),
        ("dm_control/walker-walk-v0", "dm_control"),
    ],
)
def test_slots_are_repeatable_by_seed(env_id: str, library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs the extra {library}")

    def played() -> Any:
        env = make_vector_env(env_id, num_envs=2)
        obs, rewards = [env.reset(seed=[1, 2])[0]], []
        env.action_space.seed(0)
        for _ in range(50):
            step = env.step(env.action_space.sample())
            obs.append(step[0])
            rewards.append(step[1])
        env.close()
        return obs, rewards

    (obs, rewards), (again, rewards_again) = played(), played()
    np.testing.assert_equal(rewards, rewards_again)
    for one, other in zip(obs, again, strict=True):
        np.testing.assert_equal(one, other)


def test_an_action_lasts_several_steps() -> None:
    """Rewards are added up; no step is taken after the end."""
    env = RepeatedAction(gym.make("CartPole-v1", max_episode_steps=5), 2)
    env.reset(seed=0)
    rewards: list[float] = []
    ended = False
    while not ended:
        _, reward, terminated, truncated, _ = env.step(0 if len(rewards) % 2 else 1)
        rewards.append(float(reward))
        ended = terminated or truncated
    assert rewards == [2.0, 2.0, 1.0]


def test_an_action_lasts_a_number_of_steps() -> None:
    for times in (0, 1.5, True):
        with pytest.raises(ConfigError, match=r"action_repeat = .* is not allowed"):
            ControlTask("CartPole-v1")({"action_repeat": times})


def test_a_task_of_the_control_suite_is_trusted_and_repeats_actions() -> None:
    pytest.importorskip("dm_control", reason="needs the extra dm-control")
    task = known_creator("dm_control/walker-walk-v0")
    assert is_of_known_package(gym.spec("dm_control/walker-walk-v0"))
    env = pickle.loads(pickle.dumps(task))({"action_repeat": 2})
    env.reset(seed=0)
    steps = 1
    while not env.step(env.action_space.sample())[3]:
        steps += 1
    assert steps == 500


def test_a_mission_that_never_changes_is_left_out() -> None:
    pytest.importorskip("minigrid", reason="needs the extra minigrid")
    env = make_vector_env("MiniGrid-DoorKey-5x5-v0", num_envs=2)
    space = env.single_observation_space
    assert isinstance(space, gym.spaces.Dict)
    assert set(space.spaces) == {"image", "direction"}
    assert set(env.reset(seed=0)[0]) == {"image", "direction"}


def test_a_mission_that_varies_is_refused_unless_it_is_dropped() -> None:
    pytest.importorskip("minigrid", reason="needs the extra minigrid")
    with pytest.raises(ConfigError, match=r"go to the .* door.*'drop_mission': True"):
        make_vector_env("MiniGrid-GoToDoor-5x5-v0")
    env = make_vector_env("MiniGrid-GoToDoor-5x5-v0", {"drop_mission": True})
    assert set(env.reset(seed=0)[0]) == {"image", "direction"}


def test_what_makes_a_grid_world_crosses_processes() -> None:
    pytest.importorskip("minigrid", reason="needs the extra minigrid")
    creator = known_creator("MiniGrid-DoorKey-5x5-v0")
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)({}).observation_space)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(creator),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b"direction" in done.stdout and b"mission" not in done.stdout
