"""Settings of the environment, and of what happens to rewards and actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from trainables.core.config.atari import (
    ENVPOOL_ARGUMENTS,
    FRAME_STACK,
    LIFE_LOSS,
    PREPROCESS,
    is_ale,
    is_envpool,
)
from trainables.core.config.own_settings import BuildsAlgorithm
from trainables.core.config.settings import CODE, FOLDER, MEMORY, setting
from trainables.core.errors import ConfigError


@dataclass(kw_only=True)
class EnvironmentSettings(BuildsAlgorithm):
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

    @property
    def needs_env(self) -> bool:
        """Whether training steps an environment, `env`.

        Of an algorithm that learns from what is there already it is False: `env` may then be None,
        and otherwise says the spaces and what evaluations play in.
        """
        return True

    @property
    def _plays_atari(self) -> bool:
        """Whether the environment is an Atari game that is preprocessed."""
        return is_ale(self.env) if self.is_atari is None else self.is_atari

    @property
    def _num_frames(self) -> int:
        """How many observations a policy sees as one."""
        if self.frame_stack is not None:
            return self.frame_stack
        return FRAME_STACK if self._plays_atari else 1

    @property
    def _reward_bound(self) -> bool | float | list[float]:
        """What the learner sees of a reward: `clip_rewards`, or what it stands for."""
        return self._plays_atari if self.clip_rewards is None else self.clip_rewards

    def env_config_for(self, *, training: bool) -> dict[str, Any]:
        """Return `env_config` with what other settings say of the environment."""
        if not self._plays_atari:
            return {PREPROCESS: False, **self.env_config} if is_ale(self.env) else self.env_config
        more = ENVPOOL_ARGUMENTS if is_envpool(self.env) else {}
        return {LIFE_LOSS: training, **more, **self.env_config}

    def validate(self) -> None:
        super().validate()
        if self.env is None and self.needs_env:
            raise ConfigError("env is not set: give an environment, e.g. env='CartPole-v1'")
        self._validate_clip_rewards()
        if self.is_atari and not (is_ale(self.env) or is_envpool(self.env)):
            raise ConfigError(
                f"is_atari = True is not allowed with env = {self.env!r}; allowed: games of "
                "gymnasium, 'ALE/…', and of EnvPool; wrap others yourself"
            )
        if self.render_env and self.record_env:
            raise ConfigError(
                "render_env and record_env are both set; an environment renders to a window or to "
                "arrays: choose one"
            )
        if (
            not self.record_env
            and self.video_interval != type(self).settings()["video_interval"].default
        ):
            raise ConfigError(
                f"video_interval = {self.video_interval} has no effect without record_env"
            )

    def _validate_clip_rewards(self) -> None:
        bound = self.clip_rewards
        if bound is None or isinstance(bound, bool):
            return
        bounds = bound if isinstance(bound, list) else [-bound, bound]
        if len(bounds) != 2 or not bounds[0] < bounds[1]:
            raise ConfigError(
                f"clip_rewards = {bound!r} is not allowed; allowed: True, False, None, a number "
                "> 0, or two bounds [a, b] with a < b"
            )
