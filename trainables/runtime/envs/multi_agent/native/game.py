"""What native games have in common: when slots reset, and what their state is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from trainables.core.data.stored import like
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.native.streams import SlotStreams
from trainables.runtime.envs.multi_agent.vector_env import (
    AgentGroup,
    AgentsStep,
    AgentsVectorEnv,
    GroupRows,
)


class Outcome(NamedTuple):
    """What the agents of all slots got of a step: `[N, A]`, or arrays that broadcast to it.

    Attributes:
        rewards: float64.
        terminated: bool.
        truncated: bool.
    """

    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class NativeGame(AgentsVectorEnv):
    """N slots of a game as arrays `[N, A, …]`, A the agents of a slot in the order of `agents`.

    A game says how slots begin (`_begin`), how they go on (`_advance`), and what is observed
    (`_observe`). All agents take part from the first step of an episode on, until each ends, and
    all act in each step unless the game says who does (`_asked`, `_first_asked`).

    Args:
        num_envs: Number of slots, N.
        groups: The agents by their spaces.
        arrays: The names of the attributes, arrays each, that the game's next steps depend on.
    """

    def __init__(
        self, num_envs: int, groups: tuple[AgentGroup, ...], arrays: tuple[str, ...]
    ) -> None:
        self.num_envs, self.groups = num_envs, groups
        # Each group's columns of arrays `[N, A]`.
        ends = np.cumsum([len(group.agents) for group in groups])
        self._places = [
            slice(end - len(group.agents), end) for end, group in zip(ends, groups, strict=True)
        ]
        self._streams = SlotStreams(num_envs)
        self._playing = np.zeros((num_envs, len(self.agents)), bool)
        self._nobody = np.zeros_like(self._playing)
        self._nobody.setflags(write=False)  # steps share it
        self._over = np.zeros(num_envs, bool)
        self._arrays = (*arrays, "_playing", "_over")
        self._infos: list[dict[Hashable, Any]] = [{} for _ in range(num_envs)]
        self._none = np.zeros(num_envs, bool)

    @abstractmethod
    def _begin(self, slots: np.ndarray) -> None:
        """Begin an episode in some slots, `[N]`, bool."""

    @abstractmethod
    def _advance(self, actions: list[np.ndarray], acting: np.ndarray) -> Outcome:
        """Step all slots; whatever it does to a slot that is not playing is overwritten or unseen.

        Args:
            actions: For each group, `[N, G]`. Those of agents that do not act count for nothing.
            acting: Agents that act, `[N, A]`, bool.
        """

    @abstractmethod
    def _observe(self) -> list[Any]:
        """Return the observations of each group, `[R, …]`, as its space is batched."""

    def _asked(self, playing: np.ndarray) -> np.ndarray:
        """Return who of the agents that play acts in the next step, `[N, A]`, bool."""
        return playing

    def _first_asked(self, asked: np.ndarray, resets: np.ndarray) -> np.ndarray:
        """Return who of those that act next is shown its first observation, `[N, A]`, bool.

        Args:
            asked: Agents that act in the next step, `[N, A]`, bool.
            resets: Slots that were just reset, `[N]`, bool.
        """
        if not np.count_nonzero(resets):  # faster than `any`, of as few
            return self._nobody
        begins = np.zeros_like(asked)
        begins[resets] = True
        return begins

    def reset(self, seed: list[int] | None = None) -> AgentsStep:
        if seed is not None:
            self._streams.seed(seed)
        everywhere = np.ones(self.num_envs, bool)
        self._begin(everywhere)
        self._playing, self._over = np.ones_like(self._playing), self._none.copy()
        nobody = self._nobody
        return self._result(Outcome(np.zeros(nobody.shape), nobody, nobody), everywhere)

    def step(self, actions: list[Any]) -> AgentsStep:
        resets, playing = self._over, self._playing
        acting = self._asked(playing)
        by_slot = [
            self._actions(given, group, acting[:, mine])
            for given, group, mine in zip(actions, self.groups, self._places, strict=True)
        ]
        rewards, terminated, truncated = self._advance(by_slot, acting)
        # Who is silent gets nothing, and ends no second time.
        outcome = Outcome(
            np.where(playing, rewards, 0.0), terminated & playing, truncated & playing
        )
        playing = playing & ~(outcome.terminated | outcome.truncated)
        self._over = ~(np.logical_or.reduce(playing, axis=1) | resets)
        if np.count_nonzero(resets):
            self._begin(resets)
            playing[resets] = True
        self._playing = playing
        return self._result(outcome, resets)

    def _actions(self, given: Any, group: AgentGroup, acting: np.ndarray) -> np.ndarray:
        """Return a group's actions as `[N, G]`.

        Raises:
            ConfigError: if there is not an action for each row, or one that counts is none of the
                group's.
        """
        actions, space = np.asarray(given), group.action_space
        assert isinstance(space, spaces.Discrete)
        if actions.shape != (acting.size,) or actions.dtype.kind not in "iu":
            raise ConfigError(
                f"actions of the agents {list(group.agents)} are {actions.dtype} of shape "
                f"{actions.shape}; allowed: integers of shape ({acting.size},)"
            )
        actions = actions.reshape(acting.shape)
        is_wrong = (actions < 0) | (actions >= space.n)
        if not np.count_nonzero(is_wrong):
            return actions
        for slot, place in np.argwhere(is_wrong & acting):
            raise ConfigError(
                f"agent {group.agents[place]!r} of slot {slot}: action {actions[slot, place]}; "
                f"allowed: {space}"
            )
        return actions

    def _result(self, outcome: Outcome, resets: np.ndarray) -> AgentsStep:
        asked = self._asked(self._playing)
        columns = (*outcome, asked, self._first_asked(asked, resets))
        rows = [
            GroupRows(obs, *[column[:, mine].reshape(-1) for column in columns])
            for obs, mine in zip(self._observe(), self._places, strict=True)
        ]
        return AgentsStep(rows, self._over, resets, self._none, self._infos)

    def get_state(self) -> dict[str, Any]:
        arrays = {name.lstrip("_"): getattr(self, name).copy() for name in self._arrays}
        return {"arrays": arrays, "streams": self._streams.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        for name in self._arrays:
            key = name.lstrip("_")
            setattr(self, name, like(getattr(self, name), state["arrays"][key], key))
        self._streams.set_state(state["streams"])


def agent_names(kind: str, count: int) -> tuple[str, ...]:
    """Return ids of agents: `agent_0`, `agent_1`, … for the kind `agent`."""
    return tuple(f"{kind}_{index}" for index in range(count))


def checked_int(key: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a setting of env_config that is a whole number within bounds.

    Raises:
        ConfigError: if it is not.
    """
    is_int = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_int or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"env_config {key}={value!r}; allowed: whole numbers {bounds}")
    return int(value)


def checked_number(key: str, value: Any, least: float = 0.0) -> float:
    """Return a setting of env_config that is a finite number, and at least so large.

    Raises:
        ConfigError: if it is not.
    """
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value) or value < least:
        raise ConfigError(f"env_config {key}={value!r}; allowed: finite numbers, >= {least:g}")
    return float(value)
