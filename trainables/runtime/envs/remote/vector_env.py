"""`RemoteVectorEnv`: slots in processes of their own (`remote_worker_envs`), for slow environments.

All slots can be stepped together, as any vector environment, or each on its own clock: `start`
steps some of them, `poll` gives those that are done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any, NamedTuple, TypeVar

import cloudpickle
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from trainables.core.errors import ConfigError
from trainables.runtime.envs.all_slots import SlotsApart
from trainables.runtime.envs.remote.process import RemoteSlot, SlotDiedError
from trainables.runtime.envs.slots import SlotMaker
from trainables.runtime.envs.sub_environment import (
    MAX_CONSECUTIVE_FAILURES,
    RESTARTS,
    SubEnvironmentError,
)
from trainables.runtime.random_streams import draw_seeds

logger = logging.getLogger("trainables")

T = TypeVar("T")


class Polled(NamedTuple):
    """What `poll` found; of slots that are not ready only `obs` says something: their last one.

    Attributes:
        ready: Which slots have made their step, `[N]`.
        obs: Observations, batched as the vector environment's space is.
        rewards: The rewards of the slots, `[N]`.
        terminated: Where the environment has ended an episode, `[N]`.
        truncated: Where an episode was cut off, `[N]`.
        infos: The environments' `info`, as gymnasium's vector environments have them.
    """

    ready: np.ndarray
    obs: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, Any]


class RemoteVectorEnv(SlotsApart):
    """One process for each slot; resets on the step after an episode's end.

    Args:
        makers: What makes the environments of the slots.

    Raises:
        ConfigError: if an environment cannot be made, or the slots' spaces differ.
    """

    num_restarts = 0

    def __init__(self, makers: Sequence[SlotMaker]):
        self.num_envs = len(makers)
        self._restart = makers[0].options.restart
        self._slots: list[RemoteSlot] = []
        self._failures = np.zeros(self.num_envs, np.int64)  # processes in a row that died
        self._tasks: dict[int, Any] = {}
        self._last_obs: list[Any] = [None] * self.num_envs
        self._seeds = [np.random.SeedSequence() for _ in makers]  # of processes that replace others
        try:
            for maker in makers:
                self._slots.append(RemoteSlot(maker))  # all start at once
            made = [slot.receive()[1] for slot in self._slots]
            self._take_spaces(made)
        except BaseException:
            self.close_extras()
            raise

    def _take_spaces(self, made: list[tuple[Any, Any, dict[str, Any]]]) -> None:
        obs_space, action_space, metadata = made[0]
        for index, (other_obs, other_action, _) in enumerate(made):
            if (other_obs, other_action) != (obs_space, action_space):
                raise ConfigError(
                    f"{self._slots[index].maker} has the spaces {other_obs} and {other_action}, "
                    f"the first slot has {obs_space} and {action_space}"
                )
        self.metadata = {**metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space, self.single_action_space = obs_space, action_space
        self.observation_space = batch_space(obs_space, self.num_envs)
        self.action_space = batch_space(action_space, self.num_envs)

    # ------------------------------------------------------------------ all slots together

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._seeds = [np.random.SeedSequence([*seeds, 1]) for seeds in seed]
        for index in range(self.num_envs):
            self._send(index, "reset", None if seed is None else seed[index])
        infos: dict[str, Any] = {}
        for index in range(self.num_envs):
            self._last_obs[index], info = self._await(index)[1]
            infos = self._add_info(infos, self._counted(info), index)
        return self._batched(), infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step every slot, and wait for all."""
        self.start(range(self.num_envs), actions)
        polled = self.poll(wait_s=None)
        return polled.obs, polled.rewards, polled.terminated, polled.truncated, polled.infos

    # ------------------------------------------------------------------ slots apart

    def start(self, slots: Sequence[int] | range | np.ndarray, actions: Any) -> None:
        """Step some slots; the actions are those of all `[N]`, the others' are not used."""
        actions = list(iterate(self.action_space, actions))
        for index in slots:
            self._send(int(index), "step", actions[index])

    def poll(self, wait_s: float | None) -> Polled:
        """Wait for slots that were stepped.

        Args:
            wait_s: Seconds to wait for the others once one is ready; None waits for all.
        """
        busy = {i for i, slot in enumerate(self._slots) if slot.num_unanswered}
        ready = np.zeros(self.num_envs, bool)
        rewards, flags = np.zeros(self.num_envs), np.zeros((2, self.num_envs), bool)
        infos: dict[str, Any] = {}
        deadline: float | None = None
        while busy:
            left = None if deadline is None else max(0.0, deadline - time.perf_counter())
            waiting: list[Any] = [self._slots[index] for index in busy]
            slots: list[Any] = wait(waiting, left)
            for index in [i for i in busy if self._slots[i] in slots]:
                row = self._row(index)
                if row is None:
                    continue  # a new process, whose reset is still to come
                self._last_obs[index], rewards[index], flags[0, index], flags[1, index], info = row
                infos = self._add_info(infos, info, index)
                ready[index] = True
                busy.remove(index)
            if not slots:
                break
            if ready.any() and wait_s is not None and deadline is None:
                deadline = time.perf_counter() + wait_s
        return Polled(ready, self._batched(), rewards, flags[0], flags[1], infos)

    def _row(self, index: int) -> tuple[Any, float, bool, bool, dict[str, Any]] | None:
        """Return what a slot answered, None if it was not yet what was asked for."""
        try:
            command, answer = self._slots[index].receive()
        except SlotDiedError as error:
            self._replace(index, error)
            return None
        if self._slots[index].num_unanswered:
            return None
        if command == "reset":  # the step was lost with the process that died in it
            info = {**answer[1], RESTARTS: 1 + answer[1].get(RESTARTS, 0)}
            return answer[0], 0.0, False, False, self._counted(info)
        self._failures[index] = 0
        return *answer[:4], self._counted(answer[4])

    def _counted(self, info: dict[str, Any]) -> dict[str, Any]:
        self.num_restarts += int(info.get(RESTARTS, 0))
        return info

    def _batched(self) -> Any:
        space: Any = self.single_observation_space
        buffer: Any = create_empty_array(space, n=self.num_envs, fn=np.empty)
        return concatenate(space, self._last_obs, buffer)

    # ------------------------------------------------------------------ processes that die

    def _send(self, index: int, command: str, argument: Any = None) -> None:
        try:
            self._slots[index].send(command, argument)
        except SlotDiedError as error:
            self._replace(index, error)

    def _await(self, index: int) -> tuple[str, Any]:
        """Return the last answer that a slot still owes."""
        slot = self._slots[index]
        while True:
            try:
                answer = slot.receive()
            except SlotDiedError as error:
                self._replace(index, error)
                continue
            if not slot.num_unanswered:
                return answer

    def _replace(self, index: int, error: SlotDiedError) -> None:
        """Start a new process for a slot, told to begin an episode with the slot's task.

        Raises:
            SlotDiedError: if that is not wanted, or has happened too often in a row.
        """
        self._failures[index] += 1
        if not self._restart:
            raise error
        if self._failures[index] > MAX_CONSECUTIVE_FAILURES:
            raise SlotDiedError(f"{error}, {self._failures[index]} times in a row") from error
        logger.warning("%s; it is replaced", error)
        slot = self._slots[index]
        slot.restart()
        if index in self._tasks:
            slot.send("set_task", self._tasks[index])
        slot.send("reset", self._next_seeds(index))

    def _next_seeds(self, index: int) -> tuple[int, int]:
        (child,) = self._seeds[index].spawn(1)
        return draw_seeds(child)

    # ------------------------------------------------------------------ tasks, state, end

    def each_env(self, function: Callable[..., T]) -> list[T]:
        """Apply a function to each environment and its context, in its process.

        Raises:
            SubEnvironmentError: if it raises.
            ConfigError: if what it returns cannot leave the process.
        """
        sent = cloudpickle.dumps(function)
        for index in range(self.num_envs):
            self._send(index, "apply", sent)
        results: list[T] = []
        errors: list[Exception] = []  # raised once all have answered
        for index in range(self.num_envs):
            try:
                while (answer := self._await(index))[0] != "apply":  # a new process, just reset
                    self._send(index, "apply", sent)
                results.append(answer[1])
            except (ConfigError, SubEnvironmentError) as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    def can_set_tasks(self) -> bool:
        """Tell whether the environments have tasks."""
        return bool(self._slots[0].call("can_set_task"))

    def choose_tasks(self, task_fn: Callable[..., Any], result: dict[str, Any]) -> list[Any]:
        """Ask `env_task_fn` for each slot's task, in its process, and set it there."""
        choice = (cloudpickle.dumps(task_fn), result)
        for index in range(self.num_envs):
            self._send(index, "choose_task", choice)
        self._tasks = {index: self._await(index)[1] for index in range(self.num_envs)}
        return list(self._tasks.values())

    def set_tasks(self, tasks: Sequence[Any]) -> None:
        """Set each slot's task."""
        for index, task in enumerate(tasks):
            self._send(index, "set_task", task)
            self._await(index)
            self._tasks[index] = task

    def get_state(self) -> dict[str, Any] | None:
        """Return the state of all slots, or None if an environment cannot give its own."""
        for index in range(self.num_envs):
            self._send(index, "get_state")
        slots = [self._await(index)[1] for index in range(self.num_envs)]
        if any(slot is None for slot in slots):
            return None
        return {"slots": slots}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        for index, slot_state in enumerate(state["slots"]):
            self._send(index, "set_state", slot_state)
        for index in range(self.num_envs):
            self._await(index)

    def close_extras(self, **kwargs: Any) -> None:
        """End the processes."""
        for slot in self._slots:
            slot.close()
        self._slots = []
