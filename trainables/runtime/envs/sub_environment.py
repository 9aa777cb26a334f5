"""The environment of one slot: an error in it names the slot, or makes way for a fresh one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from trainables.core.features import feature
from trainables.runtime.random_streams import draw_seeds

logger = logging.getLogger("trainables")

# How often a slot may fail without one good step in between, before the trial ends.
MAX_CONSECUTIVE_FAILURES = 5
# In a step's or a reset's `info`: how many environments were replaced in it.
RESTARTS = "sub_environment_restarts"


class SubEnvironmentError(RuntimeError):
    """A slot's environment raised in `step` or `reset`, or gave what is no finite number."""


class Maker(Protocol):
    """What `SubEnvironment` needs to know of a `SlotMaker`."""

    @property
    def options(self) -> Any: ...

    def context(self) -> Any: ...

    def make_inner(self, context: Any) -> gym.Env: ...


class SubEnvironment(gym.Wrapper):
    """An environment that can be replaced by a fresh one when it raises, or gives no numbers.

    A step that fails gives the first observation of a fresh environment's first episode, reward 0,
    neither terminated nor truncated, and `info[RESTARTS]`. So it looks like a row that only resets,
    and what the action did is unknown: the row is not to be trained on.

    What it does not have itself is looked up in what it wraps, layer by layer.

    Args:
        maker: What makes the environment, again where it is replaced. Its text names the slot.

    Attributes:
        context: What the present environment was made with.
        num_restarts: Environments replaced so far.
    """

    passes_tasks_on = True

    def __init__(self, maker: Maker):
        self.context = maker.context()
        super().__init__(maker.make_inner(self.context))
        self._maker, self._restart = maker, bool(maker.options.restart)
        self._seeds = np.random.SeedSequence()
        self._failures = 0
        self._task: Any = None
        self.num_restarts = 0

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name == "env":  # also while it is made or copied
                raise AttributeError(name)
            return self.env.get_wrapper_attr(name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._seeds = np.random.SeedSequence(seed)
        try:
            result = self.env.reset(seed=seed, options=options)
            if self._restart:  # else as it is: `check_env` says what is wrong with its form
                self._check(result[0])
        except Exception as error:
            return self._replace("reset", error)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        try:
            result = self.env.step(action)
            if self._restart:
                self._check(result[0], result[1])
        except Exception as error:
            obs, info = self._replace("step", error)
            return obs, 0.0, False, False, info
        self._failures = 0
        return result

    def set_task(self, task: Any) -> None:
        """Set the task of this environment and of those that replace it."""
        feature("tasks").set_one(self.env, task)
        self._task = task

    def _replace(self, what: str, error: Exception) -> tuple[Any, dict[str, Any]]:
        """Make and reset a fresh environment, again and again up to the bound."""
        if not self._restart:
            raise SubEnvironmentError(f"{self._maker}: {what} raised {_said(error)}") from error
        restarts = 0
        while True:
            self._failures += 1
            if self._failures > MAX_CONSECUTIVE_FAILURES:
                raise SubEnvironmentError(
                    f"{self._maker}: {what} raised {_said(error)}; it failed "
                    f"{self._failures} times in a row, and was replaced each time"
                ) from error
            logger.warning("%s: %s raised %s; it is replaced", self._maker, what, _said(error))
            _close(self.env)
            try:
                restarts += 1
                obs, info = self._start_fresh()
            except Exception as next_error:
                what, error = "a fresh environment's start", next_error
                continue
            self.num_restarts += restarts
            return obs, {**info, RESTARTS: restarts}

    def _start_fresh(self) -> tuple[Any, dict[str, Any]]:
        (seeds,) = self._seeds.spawn(1)
        reset_seed, action_seed = draw_seeds(seeds)
        self.context = self._maker.context()
        self.env = self._maker.make_inner(self.context)
        if self._task is not None:
            feature("tasks").set_one(self.env, self._task)
        self.env.action_space.seed(action_seed)
        obs, info = self.env.reset(seed=reset_seed)
        self._check(obs)
        return obs, info

    def _check(self, obs: Any, reward: Any = 0.0) -> None:
        """Raise where numbers are not finite: it is replaced then.

        Where it is not, whoever steps the slots looks at all of them at once.
        """
        if not np.isfinite(reward):
            raise ValueError(f"it gave the reward {reward}")
        if self._maker.options.finite and not _is_finite(obs):
            raise ValueError("it gave an observation that is not finite")

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return where its stream of seeds is; the environment's own state is another layer's."""
        return {
            "entropy": str(self._seeds.entropy),  # beyond the integers of some JSON readers
            "num_spawned": self._seeds.n_children_spawned,
            "failures": self._failures,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self._seeds = np.random.SeedSequence(int(state["entropy"]))
        if state["num_spawned"]:
            self._seeds.spawn(int(state["num_spawned"]))
        self._failures = int(state["failures"])


def layers(env: Any, kind: type) -> list[Any]:
    """Return the wrappers of a kind around an environment."""
    found = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, kind):
            found.append(env)
        env = env.env
    return found


def users_env(env: Any) -> Any:
    """Return the environment as its creator made it, whatever was put around it since.

    So its own methods are there, and an attribute that is set is set where the environment reads
    it. What `gymnasium.make` puts around every environment is taken off, too.
    """
    for sub in layers(env, SubEnvironment):
        env = sub.env
    while isinstance(env, (OrderEnforcing, PassiveEnvChecker, TimeLimit)):
        env = env.env
    return env


def _is_finite(obs: Any) -> bool:
    if isinstance(obs, dict):
        return all(_is_finite(part) for part in obs.values())
    if isinstance(obs, (tuple, list)):
        return all(_is_finite(part) for part in obs)
    values = np.asarray(obs)
    return values.dtype.kind != "f" or bool(np.isfinite(values).all())


def _said(error: BaseException) -> str:
    """Return an error as the last line of its traceback has it."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _close(env: gym.Env) -> None:
    try:
        env.close()
    except Exception as error:  # it is broken already
        logger.debug("closing a broken environment raised %s", _said(error))
