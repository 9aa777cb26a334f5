"""`AgentsVectorEnv`: slots of an environment with several agents, as an env runner steps them.

Neither torch nor Ray may be imported here: environments in other processes import it, too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from trainables.runtime.envs.kinds import AgentSlots


class AgentGroup(NamedTuple):
    """Agents whose spaces are equal: what they see and do stands together in arrays.

    Attributes:
        agents: Their ids as the environment has them, `[G]`.
        observation_space: What each sees.
        action_space: What each does.
    """

    agents: tuple[Hashable, ...]
    observation_space: gym.Space
    action_space: gym.Space


@dataclass
class GroupRows:
    """What a step, or a reset, gave the agents of a group.

    There is a row for each agent in each slot, also for one that takes no part at present: agent j
    of slot n has row `n * G + j`, so that all arrays have R = N * G rows. An agent of an episode

    - *begins* with its first observation: at the reset, or later if it joins;
    - then *acts* in each step that follows one in which it was asked to (`acts`);
    - *ends* once (`terminated`, `truncated`), with its last observation, and is silent from then on
      until its next episode.

    An agent that ends before it was asked to act even once takes no part: it neither
    begins nor ends.

    The environment may write over the arrays in its next step.

    Attributes:
        obs: Observations, batched as gymnasium batches the group's space. Of an agent that is shown
            nothing the row is what it was shown last, or zeros.
        rewards: What each got in this step, `[R]`, float64, whoever acted; 0 in a reset.
        terminated: Agents that ended in this step in a terminal state, `[R]`, bool.
        truncated: Agents that were cut off in this step, `[R]`, bool.
        acts: Agents that were shown an observation to act on in the next step, `[R]`, bool.
        begins: Those of them whose observation is the first of an episode, `[R]`, bool.
    """

    obs: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    acts: np.ndarray
    begins: np.ndarray


class AgentsStep(NamedTuple):
    """What a step of all slots gave.

    Attributes:
        groups: The rows of each group, in the order of `AgentsVectorEnv.groups`.
        is_over: Slots whose episode ended in this step: all agents in it have ended, and the next
            step only resets the slot, whatever actions it is given. `[N]`, bool.
        resets: Slots that this step only reset, or whose environment was replaced, `[N]`, bool.
        replaced: Slots whose environment failed and was replaced by a fresh one in its first state,
            `[N]`, bool: what the actions of this step did is unknown. They are among `resets`.
        infos: The infos of each slot's agents by id, `[N]`; the key `"__common__"` is for all.
    """

    groups: list[GroupRows]
    is_over: np.ndarray
    resets: np.ndarray
    replaced: np.ndarray
    infos: list[dict[Hashable, Any]]


class AgentsVectorEnv(AgentSlots):
    """N slots of an environment with several agents, stepped together.

    A slot resets on the step after the one that ended its episode, as gymnasium's NEXT_STEP mode
    has it: that step's actions are ignored for the slot.

    Attributes:
        num_envs: Number of slots, N.
        groups: All agents that may ever take part, by equal spaces. Each agent is in one group.
        num_restarts: How many environments were replaced.
        state_space: The global state, which algorithms may learn from that train agents together;
            None: there is none.
    """

    groups: tuple[AgentGroup, ...]
    state_space: gym.Space | None = None

    @abstractmethod
    def reset(self, seed: list[int] | None = None) -> AgentsStep:
        """Begin a new episode in every slot.

        Args:
            seed: A seed for each slot, `[N]`; None: go on with the present random streams.
        """

    @abstractmethod
    def step(self, actions: list[Any]) -> AgentsStep:
        """Step every slot, or reset those whose episode ended in the last step.

        Args:
            actions: A batch for each group, `[R, …]`, as gymnasium batches the group's action
                space. Only rows of agents that were asked to act count.
        """

    def states(self) -> np.ndarray:
        """Return the global state of each slot after the last step or reset, `[N, …]`."""
        raise NotImplementedError

    def get_state(self) -> dict[str, Any] | None:
        """Return what the next steps depend on: a tree of numbers, strings and arrays.

        None if an environment cannot give its state.
        """
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s; the environments were made alike and reset once."""
        raise NotImplementedError

    @property
    def agents(self) -> tuple[Hashable, ...]:
        """The ids of all agents, group by group."""
        return tuple(agent for group in self.groups for agent in group.agents)
