"""Environments whose agents tell in every observation where it comes from, one for each pattern.

They note which actions they were given, and fail if others act than were asked to.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Hashable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.multi_agent_env import AgentDict, MultiAgentEnv
from trainables.runtime.envs.multi_agent.vector_env import AgentsStep, AgentsVectorEnv

WHERE = gym.spaces.Box(0, 1e6, (4,), np.float32)  # slot, episode, step, agent's index


def reward_of(slot: int, episode: int, step: int, agent: int) -> float:
    """The reward that agent number `agent` gets in the step that leads to `step`."""
    return float(slot * 1_000_000 + episode * 10_000 + step * 10 + agent)


class TellingAgents(MultiAgentEnv):
    """All act in every step, and all end together; rewards are `reward_of`.

    Args:
        env_config: `num_agents` (default 2), `length` (default 5): steps of an episode. Its
            `vector_index`, or else its key `slot`, is the slot.

    Attributes:
        received: The actions that were taken, by episode, step (from 0) and agent.
        given: Rewards by episode, step that they came with (from 1) and agent.
        episode: The number of the episode, from 0.
        t: Steps of the episode.
        asked: Who acts in the next step.
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None):
        config = env_config or {}
        self.slot = int(getattr(config, "vector_index", config.get("slot", 0)))
        self.length = int(config.get("length", 5))
        self.possible_agents = [f"agent_{i}" for i in range(int(config.get("num_agents", 2)))]
        self.number = {agent: i for i, agent in enumerate(self.possible_agents)}
        self.observation_spaces = {agent: self.sees(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: self.does(agent) for agent in self.possible_agents}
        self.received: dict[tuple[int, int, Hashable], Any] = {}
        self.given: dict[tuple[int, int, Hashable], float] = {}
        self.episode, self.t = -1, 0
        self.asked: list[Hashable] = []
        self.ended: set[Hashable] = set()
        self.is_closed = False
        super().__init__()

    # --- what a pattern may change

    def sees(self, agent: Hashable) -> gym.Space:
        return WHERE

    def does(self, agent: Hashable) -> gym.Space:
        return gym.spaces.Discrete(2)

    def tell(self, agent: Hashable, where: np.ndarray) -> Any:
        """An observation for a `WHERE` row."""
        return where

    def present(self) -> list[Hashable]:
        """Who takes part in this episode."""
        return list(self.possible_agents)

    def observed(self) -> list[Hashable]:
        """Who is observed at step `t`, of those that had not ended before it."""
        return self.present()

    def rewarded(self) -> list[Hashable]:
        """Who gets rewards in the step that leads to `t`."""
        return [a for a in self.asked if a not in self.ended]

    def ends(self) -> dict[Hashable, tuple[bool, bool]]:
        """Who ends at step `t`, terminated and truncated; "__all__" among them."""
        if self.t < self.length:
            return {}
        return {agent: (True, False) for agent in (*self.present(), "__all__")}

    # --- the environment

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        super().reset(seed=seed, options=options)
        self.episode, self.t, self.ended = self.episode + 1, 0, set()
        self.agents = self.present()
        self.asked = self.observed()
        return self._obs(self.asked), {agent: {"t": 0} for agent in self.asked}

    def step(  # type: ignore[override]
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        assert set(action_dict) == set(self.asked), (list(action_dict), self.asked)
        for agent, action in action_dict.items():
            self.received[self.episode, self.t, agent] = action
        self.t += 1
        rewards = {
            a: reward_of(self.slot, self.episode, self.t, self.number[a]) for a in self.rewarded()
        }
        self.given.update(((self.episode, self.t, a), r) for a, r in rewards.items())
        ends = self.ends()
        seen = [agent for agent in self.observed() if agent not in self.ended]
        self.ended.update(agent for agent in ends if agent != "__all__")
        is_over = "__all__" in ends
        self.asked = [] if is_over else [agent for agent in seen if agent not in self.ended]
        self.agents = [] if is_over else [a for a in self.present() if a not in self.ended]
        none = {"__all__": (False, False)}
        terminateds = {agent: flags[0] for agent, flags in (none | ends).items()}
        truncateds = {agent: flags[1] for agent, flags in (none | ends).items()}
        return self._obs(seen), rewards, terminateds, truncateds, {a: {"t": self.t} for a in seen}

    def close(self) -> None:
        self.is_closed = True

    def get_state(self) -> Any:
        return {
            "episode": self.episode,
            "t": self.t,
            "asked": [self.number[agent] for agent in self.asked],
            "ended": [self.number[agent] for agent in sorted(map(str, self.ended))],
        }

    def set_state(self, state: Any) -> None:
        self.episode, self.t = state["episode"], state["t"]
        self.asked = [self.possible_agents[index] for index in state["asked"]]
        self.ended = {self.possible_agents[index] for index in state["ended"]}

    def _obs(self, agents: list[Hashable]) -> AgentDict:
        return {
            agent: self.tell(
                agent, np.array([self.slot, self.episode, self.t, self.number[agent]], np.float32)
            )
            for agent in agents
        }


class Turns(TellingAgents):
    """One after another acts, and gets a reward for it; "__all__" ends it without observations."""

    def observed(self) -> list[Hashable]:
        return [] if self.t >= self.length else [self._next()]

    def ends(self) -> dict[Hashable, tuple[bool, bool]]:
        return {"__all__": (True, False)} if self.t >= self.length else {}

    def _next(self) -> Hashable:
        return self.possible_agents[self.t % len(self.possible_agents)]


class RandomTurns(Turns):
    """Whose turn it is, is drawn, maybe the same agent's again."""

    def _next(self) -> Hashable:
        return self.possible_agents[int(self.np_random.integers(len(self.possible_agents)))]


class RewardedWhileOthersAct(Turns):
    """Turns in which every agent gets a reward in every step, also before its first turn."""

    def rewarded(self) -> list[Hashable]:
        return self.present()


class JoinLater(TellingAgents):
    """Agent number i is there from step i on."""

    def observed(self) -> list[Hashable]:
        return self.possible_agents[: self.t + 1]

    def ends(self) -> dict[Hashable, tuple[bool, bool]]:
        if self.t < self.length:
            return {}
        return {agent: (True, False) for agent in (*self.observed(), "__all__")}


class EndOneByOne(TellingAgents):
    """Agent number i ends at step `length + i`: even ones terminated, without a last observation.

    Odd ones are truncated, with one. "__all__" is never True: the last one's end is the episode's.
    """

    def observed(self) -> list[Hashable]:
        return [
            agent
            for agent, i in self.number.items()
            if self.t < self.length + i or (self.t == self.length + i and i % 2)
        ]

    def ends(self) -> dict[Hashable, tuple[bool, bool]]:
        return {
            agent: (i % 2 == 0, i % 2 == 1)
            for agent, i in self.number.items()
            if self.t == self.length + i
        }


class AllAtOnce(TellingAgents):
    """Only "__all__" ends an episode: even ones are terminated, odd ones truncated."""

    def ends(self) -> dict[Hashable, tuple[bool, bool]]:
        if self.t < self.length:
            return {}
        return {"__all__": (self.episode % 2 == 0, self.episode % 2 == 1)}


class TwoKinds(TellingAgents):
    """Odd agents see float64 vectors with a 5th number, their step again, and do two numbers."""

    def sees(self, agent: Hashable) -> gym.Space:
        return WHERE if self.number[agent] % 2 == 0 else gym.spaces.Box(0, 1e6, (5,), np.float64)

    def does(self, agent: Hashable) -> gym.Space:
        if self.number[agent] % 2 == 0:
            return gym.spaces.Discrete(2)
        return gym.spaces.Box(-2, 1, (2,), np.float32)

    def tell(self, agent: Hashable, where: np.ndarray) -> Any:
        return where if self.number[agent] % 2 == 0 else np.append(where, where[2]).astype(float)


class Masked(TellingAgents):
    """Agent number i may do only `(step + i) % 3`, and fails if it does something else."""

    def sees(self, agent: Hashable) -> gym.Space:
        mask = gym.spaces.Box(0, 1, (3,), np.int8)
        return gym.spaces.Dict({"action_mask": mask, "where": WHERE})

    def does(self, agent: Hashable) -> gym.Space:
        return gym.spaces.Discrete(3)

    def tell(self, agent: Hashable, where: np.ndarray) -> Any:
        allowed = (self.t + self.number[agent]) % 3
        return {"action_mask": np.eye(3, dtype=np.int8)[allowed], "where": where}

    def step(self, action_dict: AgentDict) -> Any:  # type: ignore[override]
        for agent, action in action_dict.items():
            assert action == (self.t + self.number[agent]) % 3, (agent, self.t, action)
        return super().step(action_dict)


class SometimesAbsent(TellingAgents):
    """In episode e, agent number `e % num_agents` does not take part."""

    def present(self) -> list[Hashable]:
        absent = self.episode % len(self.possible_agents)
        return [agent for agent, i in self.number.items() if i != absent]


def moving(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    """A mapping to the policies a and b: another one in every episode."""
    return "ab"[(int(agent_id[-1]) + episode.episode_id) % 2]


def by_env_runner(agent_id: Any, episode: Any, worker: Any, **kwargs: Any) -> str:
    """A mapping to the policies a and b: each env runner plays with one of them."""
    return "ab"[worker.worker_index % 2] if worker is not None else "a"


def killed(worker: Any) -> None:
    """A worker's process dies."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed_amid_a_sample(worker: Any) -> None:
    """A worker's process dies in the third step that it makes from now on."""
    die_in_step(3, worker.env)


def die_in_step(count: int, env: Any) -> None:
    """This process is killed in the step of this number from now on."""
    step, made = env.step, iter(range(1, count + 1))

    def dying(actions: Any) -> Any:
        if next(made) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(actions)

    env.step = dying


PATTERNS: dict[str, type[TellingAgents]] = {
    "together": TellingAgents,
    "turns": Turns,
    "random turns": RandomTurns,
    "rewarded while others act": RewardedWhileOthersAct,
    "join later": JoinLater,
    "end one by one": EndOneByOne,
    "all at once": AllAtOnce,
    "two kinds": TwoKinds,
    "masked": Masked,
    "sometimes absent": SometimesAbsent,
}


def where_of(obs: Any) -> np.ndarray:
    """The `WHERE` part of observations of any pattern, single or batched."""
    return np.asarray(obs["where"] if isinstance(obs, dict) else obs)[..., :4]


def row(slots: AgentsVectorEnv, slot: int, agent: Any) -> tuple[int, int]:
    """The group and row of an agent of a slot."""
    for index, group in enumerate(slots.groups):
        if agent in group.agents:
            return index, slot * len(group.agents) + group.agents.index(agent)
    raise KeyError(agent)


def who(slots: AgentsVectorEnv, step: AgentsStep, field: str, slot: int = 0) -> list[Any]:
    """The agents of a slot for which a flag is set, in order of their ids."""
    places = {agent: row(slots, slot, agent) for agent in slots.agents}
    return sorted(a for a, (g, r) in places.items() if getattr(step.groups[g], field)[r])


# ------------------------------------------------------------------ as told

BOX = gym.spaces.Box(-1, 1, (2,), np.float32)
SEEN = np.zeros(2, np.float32)  # of it


class Scripted(MultiAgentEnv):
    """Agents a and b; `parts` replace what a step returns."""

    first: tuple[str, ...] = ("a", "b")
    observation_space, action_space = BOX, gym.spaces.Discrete(2)

    def __init__(self, parts: dict[str, Any] | None = None, reset: Any = None):
        self.possible_agents = ["a", "b"]
        self.parts, self.first_result = parts or {}, reset
        super().__init__()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        good = {agent: SEEN for agent in self.first}, {}
        return good if self.first_result is None else self.first_result

    def step(self, action_dict: Any) -> Any:
        both = {"a": SEEN, "b": SEEN}
        step: dict[str, Any] = {"obs": both, "rewards": {"a": 1.0, "b": 1.0}}
        step |= {"terminateds": {"__all__": False}, "truncateds": {"__all__": False}, "infos": {}}
        step |= self.parts
        return step["result"] if "result" in step else tuple(step.values())


def scripted(kind: type[Scripted] = Scripted, reset: Any = None, **parts: Any) -> DictSlots:
    """One slot of `Scripted`."""
    return DictSlots([lambda: kind(parts, reset)], names=["env 'duel', slot 0"])


def num_in_memory(worker: Any) -> int | None:
    """How many policies a worker has in memory; None if none is ever put away."""
    shelved = worker.policies["a"].shelved
    return None if shelved is None else shelved.shelf.num_in_memory
