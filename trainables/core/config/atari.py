"""Which environments are Atari games, and what follows from it where a setting says nothing."""

from __future__ import annotations

import re
from typing import Any

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
