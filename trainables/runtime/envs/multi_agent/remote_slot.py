"""A slot with several agents in a process of its own, from both ends of the pipe.

`RemoteAgentsSlot` asks, `ServedAgents` steps an `AgentsSlot` there. That process imports this
module, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.agent_groups import check_alike
from trainables.runtime.envs.multi_agent.agents_slot import AgentsSlot, SlotStart, slot_fault
from trainables.runtime.envs.multi_agent.forms import AgentsResult, MultiAgentApiError
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup
from trainables.runtime.envs.remote.process import RemoteSlot, SlotDiedError
from trainables.runtime.envs.sub_environment import MAX_CONSECUTIVE_FAILURES, SubEnvironmentError
from trainables.runtime.random_streams import draw_seed

logger = logging.getLogger("trainables")


@dataclass(frozen=True)
class RemoteMaker:
    """Makes the environment of a slot in a process of its own, to which it is sent.

    Attributes:
        make: Makes it, there; again where it is replaced.
        within: Within what the first one is made: it may check one before, and tell its errors.
    """

    make: Callable[[], Any]
    within: Callable[[], AbstractContextManager[Any]] = nullcontext


class _Recipe(NamedTuple):
    """What an `AgentsSlot` is made with in its process."""

    maker: RemoteMaker
    name: str
    restart: bool
    finite: bool

    def __str__(self) -> str:
        return self.name


class _Answer(NamedTuple):
    """What a slot's process answers: how often it replaced the environment, and its steps, too."""

    result: AgentsResult | SlotStart
    num_restarts: int
    num_steps: int


class ServedAgents:
    """A slot in its own process; the methods are the commands, see `RemoteSlot`."""

    def __init__(self, recipe: _Recipe):
        with recipe.maker.within():
            self.env = AgentsSlot(recipe.maker.make, recipe.name, recipe.restart, recipe.finite)

    def spaces(self, _: None) -> tuple[AgentGroup, ...]:
        """Return all agents by equal spaces."""
        return self.env.groups

    def state_space(self, _: None) -> Any:
        """Return the space of the global state; None: there is none."""
        return self.env.state_space

    def reset(self, seed: int | None) -> _Answer:
        """Begin an episode."""
        return self._answer(self.env.reset(seed))

    def step(self, actions: dict[Hashable, Any]) -> _Answer:
        """Let agents act."""
        return self._answer(self.env.step(actions))

    def get_state(self, _: None) -> dict[str, Any] | None:
        """Return the slot's state; None if its environment has none."""
        return self.env.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self.env.set_state(state)

    def _answer(self, result: AgentsResult | SlotStart) -> _Answer:
        return _Answer(result, self.env.num_restarts, self.env.num_steps)


class RemoteAgentsSlot:
    """What an `AgentsSlot` is, with its environment in a process of its own.

    An environment that fails is replaced in its process, as in an `AgentsSlot`; a process that dies
    is replaced, too, by one with other random streams.

    Args:
        maker: Makes the environment.
        name: What errors call the slot.
        restart: Whether environments and processes are replaced; else a failure is an error.
        finite: Whether observations must be finite numbers where they are replaced.

    Attributes:
        name: See above.
        num_restarts: Environments replaced so far.
        num_steps: Steps of the present episode.
    """

    def __init__(self, maker: RemoteMaker, name: str, restart: bool, finite: bool):
        self.name, self._restart = name, restart
        self._process = RemoteSlot(_Recipe(maker, name, restart, finite), ServedAgents)
        self._groups: tuple[AgentGroup, ...] | None = None
        self._seeds = np.random.SeedSequence()  # of processes that replace others
        self._failures = 0  # processes in a row that died
        self._earlier_restarts = 0  # before the present process
        self.num_restarts = self.num_steps = 0

    @property
    def env(self) -> Any:
        """Raise: it is elsewhere.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{self.name}: the environment is in a process of its own")

    @property
    def groups(self) -> tuple[AgentGroup, ...]:
        """Its agents by equal spaces. Waits for the environment to be made.

        Raises:
            ConfigError: if that fails, or it does not say what agents and spaces it has.
        """
        if self._groups is None:
            groups: tuple[AgentGroup, ...] = self._process.receive()[1]
            self._groups = groups
            recipe = self._process.maker  # what was checked once is not checked again
            self._process.maker = recipe._replace(maker=replace(recipe.maker, within=nullcontext))
        return self._groups

    @property
    def state_space(self) -> Any:
        """The space of the global state that its infos tell; None: they tell none."""
        return self._process.call("state_space")

    def ask_reset(self, seed: int | None = None) -> Callable[[], SlotStart]:
        """Let an episode begin; return what waits for its first observations."""
        if seed is not None:
            self._seeds = np.random.SeedSequence([seed, 2])  # 1 is that of action spaces
        return self._ask("reset", seed)

    def ask_step(self, actions: dict[Hashable, Any]) -> Callable[[], AgentsResult | SlotStart]:
        """Let agents act; return what waits for the outcome."""
        return self._ask("step", actions)

    def fault(self, text: str) -> MultiAgentApiError:
        """Return the error for what does not keep to the API, with slot and step."""
        return slot_fault(self.name, self.num_steps, text)

    def close(self) -> None:
        self._process.close()

    def _ask(self, command: str, argument: Any) -> Callable[[], Any]:
        try:
            self._drop_answers()
            self._process.send(command, argument)
        except SlotDiedError as error:
            died = error
            return lambda: self._replace(died)
        return self._result

    def _drop_answers(self) -> None:
        """Forget what nobody has waited for, since another slot's error was raised before."""
        while self._process.num_unanswered:
            try:
                self._process.receive()
            except (ConfigError, SubEnvironmentError) as error:
                logger.debug("%s: dropped an error: %s", self.name, error)

    def _result(self) -> AgentsResult | SlotStart:
        """Wait for what the process answers.

        Raises:
            SubEnvironmentError, ConfigError: what was raised there.
            SlotDiedError: if it has ended, and is not, or too often, replaced.
        """
        try:
            answer: _Answer = self._process.receive()[1]
        except SlotDiedError as error:
            return self._replace(error)
        if isinstance(answer.result, AgentsResult):
            self._failures = 0
        return self._counted(answer)

    def _counted(self, answer: _Answer) -> AgentsResult | SlotStart:
        self.num_restarts = self._earlier_restarts + answer.num_restarts
        self.num_steps = answer.num_steps
        return answer.result

    def _replace(self, error: Exception) -> SlotStart:
        """Start a fresh process and reset its environment, again and again up to the bound."""
        if not self._restart:
            raise error
        while True:
            self._failures += 1
            if self._failures > MAX_CONSECUTIVE_FAILURES:
                raise SlotDiedError(f"{error}, {self._failures} times in a row") from error
            logger.warning("%s; it is replaced", error)
            self._earlier_restarts = self.num_restarts = self.num_restarts + 1
            try:
                return self._start_fresh()
            except MultiAgentApiError:
                raise  # a fresh one would not keep to it either
            except (SlotDiedError, SubEnvironmentError, ConfigError) as next_error:
                error = next_error

    def _start_fresh(self) -> SlotStart:
        (seeds,) = self._seeds.spawn(1)
        self._process.restart()
        check_alike(self._process.receive()[1], self.groups, self.name)
        start = self._counted(self._process.call("reset", draw_seed(seeds)))
        return SlotStart(start.obs, start.infos, True)

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any] | None:
        """Return what an `AgentsSlot` does; None also if the process has died, and is replaced."""
        try:
            self._drop_answers()
            state: dict[str, Any] | None = self._process.call("get_state")
        except SlotDiedError:
            if not self._restart:
                raise
            return None  # the next step replaces it
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self._drop_answers()
        self._process.call("set_state", state)
        self.num_steps = int(state["num_steps"])
