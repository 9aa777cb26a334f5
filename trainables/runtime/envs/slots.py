"""One slot of a vector environment: what it is made with, and how.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from trainables.core.errors import ConfigError
from trainables.runtime.envs.checks import check_env
from trainables.runtime.envs.constructors import (
    CONTEXT_PARAMETERS,
    instance_arguments,
    make_of_class,
    takes_keywords,
)
from trainables.runtime.envs.context import EnvContext
from trainables.runtime.envs.games.known import is_of_known_package
from trainables.runtime.envs.several_agents import has_several_agents, not_yet
from trainables.runtime.envs.sub_environment import SubEnvironment
from trainables.runtime.envs.time_limits import limited, made_by, take_limit
from trainables.runtime.envs.video import Video, VideoRecorder, with_window


@dataclass(frozen=True)
class EnvOptions:
    """How slots are made and stepped, whatever environment is in them.

    Attributes:
        check: Check the first slot of an environment that is not gymnasium's own.
        mask_key: The key of a Dict observation that says which actions are allowed.
        restart: Replace a slot's environment that raises, or whose rewards are no finite numbers,
            instead of ending.
        finite: Whether observations must be finite numbers, too; connectors may make such of them.
        remote: Step every slot in a process of its own.
        window: Show the first slot in a window.
        video: Record episodes of the first slot, or of the first ones.
    """

    check: bool = False
    mask_key: str = "action_mask"
    restart: bool = False
    finite: bool = True
    remote: bool = False
    window: bool = False
    video: Video | None = None

    @property
    def renders(self) -> bool:
        """Whether the first slot renders."""
        return self.window or self.video is not None

    @property
    def needs_single_slots(self) -> bool:
        """Whether slots must be environments apart, not one native vector environment."""
        return self.renders or self.restart or self.remote


@dataclass
class SlotMaker:
    """Makes the environment of one slot, also in another process.

    Attributes:
        name: The environment's, for messages.
        creator: A spec of gymnasium's registry, a class or a callable.
        env_config: See the setting.
        options: How it is made.
    """

    name: str
    creator: EnvSpec | Callable[..., Any]
    env_config: dict[str, Any]
    worker_index: int = 0
    vector_index: int = 0
    num_workers: int = 0
    options: EnvOptions = field(default_factory=EnvOptions)

    def __call__(self) -> gym.Env:
        """The environment with all that belongs around it.

        Raises:
            ConfigError: naming the environment and what is wrong with it.
        """
        options, first = self.options, self.vector_index == 0
        if self.is_stock and not options.needs_single_slots:
            return self.make_inner(self.context())
        env: gym.Env = SubEnvironment(self)
        try:
            if options.check and first and not self.is_stock:
                check_env(env, self.name, options.mask_key)
            if options.video is not None and self._renders:
                video = options.video.of_slot(self.vector_index)
                env = VideoRecorder(env, video, self.name)
        except BaseException:
            env.close()
            raise
        return env

    def __str__(self) -> str:
        return f"env {self.name!r}, slot {self.vector_index} of env runner {self.worker_index}"

    @property
    def is_stock(self) -> bool:
        """Whether it is one of gymnasium's own or of a known package: these need no check."""
        return isinstance(self.creator, EnvSpec) and is_of_known_package(self.creator)

    def context(self) -> EnvContext:
        """Return a new context: an environment may change its own."""
        context = EnvContext(
            self.env_config,
            self.worker_index,
            self.vector_index,
            self.num_workers,
            self.options.remote,
        )
        render_mode = self._render_mode()
        if render_mode is not None:
            context.setdefault("render_mode", render_mode)
        return context

    @property
    def _renders(self) -> bool:
        options = self.options
        num_slots = 1 if options.video is None else options.video.num_slots
        return options.renders and self.vector_index < num_slots

    def _render_mode(self) -> str | None:
        if not self._renders:
            return None
        return "human" if self.options.window else "rgb_array"

    def make_inner(self, context: EnvContext) -> gym.Env:
        """Return the user's environment itself."""
        creator = self.creator
        steps = take_limit(creator, context, by_keyword=takes_keywords(creator, context))
        made: Any
        if isinstance(creator, EnvSpec):
            made = gym.make(creator, **self._arguments(creator, context))
        else:
            made = (
                make_of_class(creator, context)
                if isinstance(creator, type)
                else made_by(creator, context)
            )
        if has_several_agents(made):
            raise ConfigError(not_yet(self.name))
        if not isinstance(made, gym.Env):
            raise ConfigError(
                f"env {self.name!r} made a {type(made).__name__}, not a gymnasium.Env"
            )
        made = limited(made, steps)
        if self.options.window and self.vector_index == 0:
            return with_window(made, self.name)
        return made

    def _arguments(self, spec: EnvSpec, context: EnvContext) -> dict[str, Any]:
        """Return what `gymnasium.make` takes besides the spec."""
        if self.is_stock:
            return dict(context)
        entry: Any = spec.entry_point
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
        arguments = {**context, **instance_arguments(creator, context)}
        parameters = list(inspect.signature(creator).parameters)
        if len(parameters) == 1 and parameters[0] in CONTEXT_PARAMETERS - context.keys():
            arguments = {parameters[0]: context}
            if "max_episode_steps" in context:
                arguments["max_episode_steps"] = context["max_episode_steps"]
        # Gymnasium's checker warns; `check_env` raises one error.
        return {"disable_env_checker": True, **arguments}
