"""The environment of one slot: an error in it names the slot, or makes way for a fresh one.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from trainables.runtime.envs.multi_agent.agent_groups import check_alike, groups_of
from trainables.runtime.envs.multi_agent.forms import (
    AgentsResult,
    MultiAgentApiError,
    check_rewards,
    checked_reset,
    checked_step,
)
from trainables.runtime.envs.multi_agent.global_state import TellsState
from trainables.runtime.envs.state import get_slot_state, set_slot_state
from trainables.runtime.envs.sub_environment import MAX_CONSECUTIVE_FAILURES, SubEnvironmentError
from trainables.runtime.random_streams import draw_seed, draw_seeds

logger = logging.getLogger("trainables")


class SlotStart(NamedTuple):
    """The first observations of an episode.

    Attributes:
        obs: By agent.
        infos: By agent.
        replaced: Whether the environment failed, and these are of a fresh one.
    """

    obs: dict[Hashable, Any]
    infos: dict[Hashable, Any]
    replaced: bool


class AgentsSlot:
    """An environment with several agents that can be replaced by a fresh one when it fails.

    It fails when it raises, when a reward is not finite, or, if asked, an observation. What does
    not keep to the API of `MultiAgentEnv` is an error in any case: a fresh one would not either.

    Args:
        make: Makes the environment, again where it is replaced.
        name: What errors call the slot.
        restart: Whether it is replaced; else a failure is an error.
        finite: Whether observations must be finite numbers where it is replaced.

    Attributes:
        env: The present environment.
        name: See above.
        groups: Its agents by equal spaces.
        num_restarts: Environments replaced so far.
        num_steps: Steps of the present episode.

    Raises:
        ConfigError: if the environment does not say what agents and spaces it has.
    """

    def __init__(self, make: Callable[[], Any], name: str, restart: bool, finite: bool):
        self.env = make()
        try:
            self.name, self.groups = name, groups_of(self.env, name)
        except BaseException:
            self.env.close()
            raise
        self._make, self._restart, self._finite = make, restart, finite
        self._seeds = np.random.SeedSequence()
        self._failures = 0
        self.num_restarts = self.num_steps = 0

    @property
    def state_space(self) -> Any:
        """The space of the global state that its infos tell; None: they tell none."""
        return self.env.state_space if isinstance(self.env, TellsState) else None

    def reset(self, seed: int | None = None) -> SlotStart:
        """Begin an episode, maybe of a fresh environment.

        Raises:
            SubEnvironmentError: if it fails and is not, or too often, replaced.
        """
        if seed is not None:
            self._seeds = np.random.SeedSequence(seed)
            # A stream apart from those of the environments that replace this one.
            self._seed_actions(np.random.SeedSequence([seed, 1]))
        self.num_steps = 0
        try:
            return SlotStart(*self._reset(seed), False)
        except MultiAgentApiError as error:
            raise self.fault(str(error)) from error.__cause__
        except Exception as error:
            return self._replace("reset", error)

    def step(self, actions: dict[Hashable, Any]) -> AgentsResult | SlotStart:
        """Let agents act; the start of a fresh environment's episode if that fails.

        Raises:
            SubEnvironmentError: if it fails and is not, or too often, replaced.
        """
        self.num_steps += 1
        try:
            step = checked_step(self.env.step(actions))
            check_rewards(step.rewards)
            self._check_obs(step.obs)
        except MultiAgentApiError as error:
            raise self.fault(str(error)) from error.__cause__
        except Exception as error:
            return self._replace(f"step {self.num_steps}", error)
        self._failures = 0
        return step

    def ask_reset(self, seed: int | None = None) -> Callable[[], SlotStart]:
        """Return what resets it: a slot in a process of its own begins with that here."""
        return partial(self.reset, seed)

    def ask_step(self, actions: dict[Hashable, Any]) -> Callable[[], AgentsResult | SlotStart]:
        """Return what makes a step; see `ask_reset`."""
        return partial(self.step, actions)

    def close(self) -> None:
        self.env.close()

    def fault(self, text: str) -> MultiAgentApiError:
        """Return the error for what does not keep to the API, with slot and step."""
        return slot_fault(self.name, self.num_steps, text)

    def _replace(self, what: str, error: Exception) -> SlotStart:
        """Make and reset a fresh environment, again and again up to the bound."""
        if not self._restart:
            raise SubEnvironmentError(f"{self.name}: {what} raised {_said(error)}") from error
        restarts = 0
        self.num_steps = 0
        while True:
            self._failures += 1
            if self._failures > MAX_CONSECUTIVE_FAILURES:
                raise SubEnvironmentError(
                    f"{self.name}: {what} raised {_said(error)}; it failed {self._failures} times "
                    "in a row, and was replaced each time"
                ) from error
            logger.warning("%s: %s raised %s; it is replaced", self.name, what, _said(error))
            self._close_broken()
            try:
                restarts += 1
                obs, infos = self._start_fresh()
            except MultiAgentApiError as fault:
                raise self.fault(str(fault)) from fault.__cause__
            except Exception as next_error:
                what, error = "a fresh environment's start", next_error
                continue
            self.num_restarts += restarts
            return SlotStart(obs, infos, True)

    def _start_fresh(self) -> tuple[dict[Hashable, Any], dict[Hashable, Any]]:
        (seeds,) = self._seeds.spawn(1)
        reset_seed, action_seed = draw_seeds(seeds)
        self.env = self._make()
        check_alike(groups_of(self.env, self.name), self.groups, self.name)
        self._seed_actions(np.random.SeedSequence(action_seed))
        return self._reset(reset_seed)

    def _reset(self, seed: int | None) -> tuple[dict[Hashable, Any], dict[Hashable, Any]]:
        obs, infos = checked_reset(self.env.reset(seed=seed))
        self._check_obs(obs)
        return obs, infos

    def _seed_actions(self, seeds: np.random.SeedSequence) -> None:
        """Seed the action spaces: an environment may sample from its own."""
        agents = [agent for group in self.groups for agent in group.agents]
        for agent, own in zip(agents, seeds.spawn(len(agents)), strict=True):
            self.env.get_action_space(agent).seed(draw_seed(own))

    def _check_obs(self, obs: dict[Hashable, Any]) -> None:
        """Raise where numbers are not finite: it is replaced then.

        Where it is not, whoever steps the slots looks at all of them at once.
        """
        if not (self._restart and self._finite):
            return
        for agent, value in obs.items():
            if not _is_finite(value):
                raise ValueError(f"the observation of agent {agent!r} is not finite")

    def _close_broken(self) -> None:
        try:
            self.env.close()
        except Exception as error:  # it is broken already
            logger.debug("closing a broken environment raised %s", _said(error))

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any] | None:
        """Return the environment's state, and where the stream of seeds is; None if it has none."""
        layers = get_slot_state(self.env)
        if layers is None or any("own" in layer and layer["own"] is None for layer in layers):
            return None
        return {
            "env": layers,
            "entropy": str(self._seeds.entropy),  # beyond the integers of some JSON readers
            "num_spawned": self._seeds.n_children_spawned,
            "failures": self._failures,
            "num_steps": self.num_steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        set_slot_state(self.env, state["env"])
        self._seeds = np.random.SeedSequence(int(state["entropy"]))
        if state["num_spawned"]:
            self._seeds.spawn(int(state["num_spawned"]))
        self._failures, self.num_steps = int(state["failures"]), int(state["num_steps"])


def slot_fault(name: str, num_steps: int, text: str) -> MultiAgentApiError:
    """Return the error for what does not keep to the API in a slot.

    Args:
        name: What errors call the slot.
        num_steps: Steps of the present episode.
        text: What is wrong.
    """
    when = f"step {num_steps}" if num_steps else "reset"
    return MultiAgentApiError(f"{name}, {when}: {text}")


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
