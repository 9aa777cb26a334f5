"""Atari games, preprocessed as Mnih et al. (2015) and Machado et al. (2018) say.

Four frames an action, the last two pooled, 84 x 84 grey, up to 30 no-ops at the start, and fire
pressed where a game waits for it. Rewards are as the game gives them: what a learner sees of them
says `clip_rewards`, and how many frames a policy sees `frame_stack`.

With `episodic_life` a lost life ends an episode, but not the game: the next one goes on with the
next life. So values learn that a life is worth something, and later lives are seen, too.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.wrappers import AtariPreprocessing, TransformObservation

from trainables.core.config.environment import LIFE_LOSS, PREPROCESS, present_id
from trainables.core.errors import ConfigError
from trainables.runtime.envs.games.known import register
from trainables.runtime.envs.slots import LIMIT, MakesAllSlots, limited

logger = logging.getLogger("trainables")

_NOOP, _FIRE = 0, 1
_ELSEWHERE = {
    "stack_num": "frame_stack",
    "reward_clipping": "clip_rewards",
    "autoreset_mode": "nothing: slots reset on the step after an end",
}


@dataclass(frozen=True)
class Preprocessing:
    """Keys of `env_config` that say how a game is seen, named as in `ale_py`'s vector environment.

    Attributes:
        frameskip: Frames an action is repeated for.
        noop_max: No-ops at the start at most.
        img_height: Height of an observation, pixels.
        img_width: Width of an observation, pixels.
        grayscale: One channel instead of three.
        use_fire_reset: Press fire at the start where the game has it.
        episodic_life: A lost life ends an episode.
    """

    frameskip: int = 4
    noop_max: int = 30
    img_height: int = 84
    img_width: int = 84
    grayscale: bool = True
    use_fire_reset: bool = True
    episodic_life: bool = False

    @classmethod
    def taken_from(cls, arguments: dict[str, Any]) -> Preprocessing:
        """Take the keys out of an `env_config`.

        Raises:
            ConfigError: for a key that a setting stands for.
        """
        for name, setting in _ELSEWHERE.items():
            if name in arguments:
                raise ConfigError(
                    f"env_config: {name!r} is not supported for Atari games; use {setting}"
                )
        names = [field.name for field in fields(cls) if field.name in arguments]
        return cls(**{name: arguments.pop(name) for name in names})


@dataclass(frozen=True)
class AtariGame(MakesAllSlots):
    """Makes one slot of a game of `ale_py`, or all slots together.

    Attributes:
        env_id: The id of the game, e.g. "ALE/Pong-v5".
        arguments: Arguments of the game, where `env_config` does not give them.
    """

    env_id: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __call__(self, context: dict[str, Any]) -> gym.Env:
        register(self.env_id)
        arguments = dict(context)
        if not arguments.pop(PREPROCESS, True):
            arguments = {**self.arguments, **arguments}
            return gym.make(self.env_id, disable_env_checker=True, **arguments)
        arguments = self._preprocessed(arguments)
        p = Preprocessing.taken_from(arguments)
        steps = arguments.pop(LIMIT, None)  # gymnasium would count frames
        env = gym.make(self.env_id, frameskip=1, disable_env_checker=True, **arguments)
        env = AtariPreprocessing(
            env,
            noop_max=p.noop_max,
            frame_skip=p.frameskip,
            screen_size=(p.img_width, p.img_height),
            grayscale_obs=p.grayscale,
        )
        if p.use_fire_reset and "FIRE" in env.unwrapped.get_action_meanings():  # type: ignore[attr-defined]
            env = FireReset(env)
        env = limited(env, steps)  # of the game, not of each life
        if p.episodic_life:
            env = EpisodicLife(env)
        if not p.grayscale:
            return env
        space = gym.spaces.Box(0, 255, (1, p.img_height, p.img_width), np.uint8)
        return TransformObservation(env, _with_channel, space)

    def vector(self, num_envs: int, env_config: dict[str, Any]) -> VectorEnv | None:
        """Make all slots, stepped by the threads of `ale_py`; None where single slots do more.

        Those are games that are not preprocessed, and with a limit of steps: `ale_py` counts frames
        from before the no-ops on.
        """
        arguments = dict(env_config)
        if not arguments.pop(PREPROCESS, True) or arguments.get(LIMIT) is not None:
            return None
        arguments = self._preprocessed(arguments)
        import torch  # not above: a slot in a process of its own does without

        p = Preprocessing.taken_from(arguments)
        arguments.setdefault("num_threads", torch.get_num_threads())
        games = gym.make_vec(
            self.env_id,
            num_envs=num_envs,
            vectorization_mode="vector_entry_point",
            stack_num=1,
            reward_clipping=False,
            **{f.name: getattr(p, f.name) for f in fields(p) if f.name != LIFE_LOSS},
            **arguments,
        )
        return AtariGames(games, p.episodic_life)

    def _preprocessed(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return arguments without the id's frameskip, which `Preprocessing` has."""
        return {**{k: v for k, v in self.arguments.items() if k != "frameskip"}, **given}


def creator_of(env_id: str) -> Callable[..., gym.Env]:
    """Return what makes the game of an id, which may be an older one (`PongNoFrameskip-v4`)."""
    present, arguments = present_id(env_id)
    if arguments:
        _tell_older(env_id, present, tuple(arguments.items()))
    return AtariGame(present, arguments)


@functools.cache
def _tell_older(env_id: str, present: str, arguments: tuple[tuple[str, Any], ...]) -> None:
    """Say once in a process what an older id stands for."""
    told = ", ".join(f"{name}={value}" for name, value in arguments)
    logger.info(
        "env %r is %r with %s; preprocessing, unless is_atari is False, repeats each action for "
        "4 frames, or env_config's frameskip, whatever the id says",
        env_id,
        present,
        told,
    )


def _with_channel(obs: np.ndarray) -> np.ndarray:
    return obs[None]


class AtariGames(VectorWrapper):
    """The vector environment of `ale_py`: seeds without neighbours, and episodes of single lives.

    Args:
        env: The games, one frame an observation, which reset on the step after their end.
        episodic_life: A lost life ends an episode.
    """

    def __init__(self, env: VectorEnv, episodic_life: bool):
        super().__init__(env)
        self._episodic_life = episodic_life
        shape = env.single_observation_space.shape or ()
        self._is_color = len(shape) == 4
        if self._is_color:  # [1, H, W, 3]
            self.single_observation_space = gym.spaces.Box(0, 255, shape[1:], np.uint8)
            self.observation_space = gym.vector.utils.batch_space(
                self.single_observation_space, self.num_envs
            )

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start new games."""
        if isinstance(seed, int):  # ale_py would give slot i the stream of seed + i
            seed = np.random.SeedSequence(seed).generate_state(self.num_envs)
        seeds: Any = None
        if seed is not None:  # 31 bits
            seeds = (np.asarray(seed, np.int64) & 0x7FFFFFFF).astype(np.int32)
        obs, info = self.env.reset(seed=seeds, options=options)
        self._lives = np.array(info["lives"])
        self._next_life = np.zeros(self.num_envs, bool)
        return self._seen(obs), info

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all slots. After a lost life a slot's action is ignored, as after a game's end."""
        if self._next_life.any():
            actions = np.where(self._next_life, _NOOP, actions)
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        lives = np.array(info["lives"])
        if self._episodic_life:
            rewards = np.where(self._next_life, 0, rewards)
            lost = (lives < self._lives) & ~self._next_life
            # Also a game that ends as its next life begins: what follows that row is a new game.
            terminated = np.asarray(terminated) | lost
            # After the last one the game begins anew by itself.
            self._next_life = lost & (lives > 0)
        self._lives = lives
        return self._seen(obs), rewards, terminated, truncated, info

    def _seen(self, obs: np.ndarray) -> np.ndarray:
        return obs[:, 0] if self._is_color else obs


class FireReset(gym.Wrapper):
    """Presses fire after a reset, for games that wait for it."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        _, info = self.env.reset(**kwargs)
        obs, _, terminated, truncated, _ = self.env.step(_FIRE)
        if terminated or truncated:
            return self.env.reset(**kwargs)
        return obs, info


class EpisodicLife(gym.Wrapper):
    """A lost life ends an episode; the next one goes on with the next life."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self._lives, self._goes_on = 0, False

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        lives = self._count()
        lost = 0 < lives < self._lives
        self._goes_on, self._lives = lost and not (terminated or truncated), lives
        return obs, reward, terminated or lost, truncated, info

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return the next life, or a new game after the last one, with a seed, or in mid-life."""
        if self._goes_on and seed is None:
            obs, _, terminated, truncated, info = self.env.step(_NOOP)
            if not (terminated or truncated):
                self._goes_on, self._lives = False, self._count()
                return obs, info
        obs, info = self.env.reset(seed=seed, options=options)
        self._goes_on, self._lives = False, self._count()
        return obs, info

    def _count(self) -> int:
        return int(self.env.unwrapped.ale.lives())  # type: ignore[attr-defined]
