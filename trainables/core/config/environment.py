"""Settings of the environment, and of what happens to rewards and actions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from trainables.core.config.settings import CODE, FOLDER, MEMORY, Settings, setting

# Keys of `env_config` by which settings of the config reach the environment.
PREPROCESS = "preprocess"
LIFE_LOSS = "episodic_life"

FRAME_STACK = 4  # Mnih et al. (2015)
ENVPOOL = "envpool:"
# EnvPool preprocesses by itself; stacking frames and clipping rewards are this project's.
ENVPOOL_ARGUMENTS: dict[str, Any] = {"stack_num": 1, "reward_clip": False}


# Ids of before 2021: how many frames an action is repeated for, and whether it sticks at random.
_OLDER_ID = re.compile(r"([A-Z][A-Za-z]*?)(Deterministic|NoFrameskip|)-v([04])")
_FRAMESKIP = {"Deterministic": 4, "NoFrameskip": 1, "": (2, 5)}  # a random number of 2 to 4
# Those that had ids in gym.
_GAMES = """
Adventure AirRaid Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider
Berzerk Bowling Boxing Breakout Carnival Centipede ChopperCommand CrazyClimber Defender DemonAttack
DoubleDunk ElevatorAction Enduro FishingDerby Freeway Frostbite Gopher Gravitar Hero IceHockey
Jamesbond JourneyEscape Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman NameThisGame Phoenix
Pitfall Pong Pooyan PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest Skiing Solaris
SpaceInvaders StarGunner Tennis TimePilot Tutankham UpNDown Venture VideoPinball WizardOfWor
YarsRevenge Zaxxon
"""
_STICKS = {"0": 0.25, "4": 0.0}


def is_ale(env: Any) -> bool:
    """Tell whether a gymnasium id is of a game of the Arcade Learning Environment."""
    return isinstance(env, str) and (env.startswith("ALE/") or _older_id(env) is not None)


def present_id(env_id: str) -> tuple[str, dict[str, Any]]:
    """Return the present id of a game, and the arguments of it that an older id stands for.

    Example:
        >>> present_id("PongDeterministic-v4")
        ('ALE/Pong-v5', {'repeat_action_probability': 0.0, 'frameskip': 4})
    """
    found = _older_id(env_id)
    if found is None:
        return env_id, {}
    game, skip, version = found.groups()
    arguments = {"repeat_action_probability": _STICKS[version], "frameskip": _FRAMESKIP[skip]}
    return f"ALE/{game}-v5", arguments


def _older_id(env: str) -> re.Match[str] | None:
    """Return the parts of an older id. A bare one, `Pong-v4`, may be no game: `CartPole-v0`."""
    found = _OLDER_ID.fullmatch(env)
    return found if found is not None and (found[2] or found[1] in _GAMES.split()) else None


def is_envpool(env: Any) -> bool:
    """Tell whether EnvPool makes an environment."""
    return isinstance(env, str) and env.startswith(ENVPOOL)


@dataclass(kw_only=True)
class EnvironmentSettings(Settings):
    """Settings of the environment, and of what happens to rewards and actions."""

    env: str | type | Callable[..., Any] | None = setting(
        None,
        "environment",
        "gymnasium id, name given to tune.register_env, class, callable, 'module:name' or "
        "'package.module.Class', or 'envpool:' and an EnvPool id",
        risk=CODE,
    )
    env_config: dict[str, Any] = setting(
        {},
        "environment",
        "arguments of the environment: keyword arguments, or an EnvContext; max_episode_steps "
        "truncates episodes in environments of every kind",
        risk="what the environment is made with",
    )
    observation_space: gym.Space | None = setting(
        None, "environment", "overrides the environment's own observation space", harmless=True
    )
    action_space: gym.Space | None = setting(
        None, "environment", "overrides the environment's own action space", harmless=True
    )
    clip_rewards: bool | float | list[float] | None = setting(
        None,
        "environment",
        "rewards for the learner: True: their sign; c: clipped to [-c, c]; [a, b]: clipped to [a, "
        "b]; False: unchanged; None: True for Atari games, else False",
    )
    normalize_actions: bool = setting(
        True,
        "environment",
        "learn actions in [-1, 1] and scale them to the bounds of a bounded Box (then clip)",
    )
    clip_actions: bool = setting(
        False, "environment", "clip Box actions to the environment's bounds without scaling"
    )
    is_atari: bool | None = setting(
        None,
        "environment",
        "preprocess an Atari game (84x84 grey, four frames an action, lost lives end training "
        "episodes); None: if the id is 'ALE/…'; True is for EnvPool's; False: no preprocessing",
    )
    frame_stack: int | None = setting(
        None,
        "environment",
        "number k of last observations that form one observation: images in k times the channels, "
        "vectors side by side; each is stored once. None: 4 for Atari games, else 1",
        ge=1,
        le=1024,
        fixed="it is what the networks are built of",
        harmless=(1, 64),
        risk=MEMORY,
    )
    action_mask_key: str = setting(
        "action_mask",
        "environment",
        "key of a Dict observation with the action mask: 1 for allowed actions, 0 for others",
        harmless=True,
    )
    critic_obs_key: str | None = setting(
        None,
        "environment",
        "key of a Dict observation that only the value function sees, an asymmetric actor-critic "
        "(Pinto et al., 2017); it is not needed for acting",
        fixed="it is what the networks are built of",
        harmless=True,
    )
    env_task_fn: str | Callable[..., Any] | None = setting(
        None,
        "environment",
        "curriculum: called with the last result, a slot's environment and its EnvContext after "
        "each iteration; its return value goes to the environment's set_task. 'module:name' or a "
        "callable",
        risk=CODE,
    )
    disable_env_checking: bool = setting(
        False, "environment", "skip the check of custom environments at set-up"
    )
    render_env: bool = setting(
        False,
        "environment",
        "show the first slot in a window (of env runner 1 with actors)",
        risk="a window that would be opened",
    )
    record_env: bool | str = setting(
        False,
        "environment",
        "write mp4 videos of the first slot (of env runner 1 with actors) and of evaluations: True "
        "into videos/ in the trial's folder, or a folder",
        risk=FOLDER,
    )
    video_interval: int = setting(
        100, "environment", "record_env records one episode of the first slot in this many", ge=1
    )
