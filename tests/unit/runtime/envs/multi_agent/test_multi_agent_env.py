"""`MultiAgentEnv`: its spaces, groups of agents, and independent copies of one environment."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from telling_agents import WHERE, EndOneByOne, JoinLater, TellingAgents, Turns, TwoKinds, reward_of

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.checks import check_multi_agent_env
from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.forms import MultiAgentApiError
from trainables.runtime.envs.multi_agent.independent_agents import make_multi_agent
from trainables.runtime.envs.multi_agent.multi_agent_env import GroupedAgents, MultiAgentEnv
from trainables.runtime.envs.slots import EnvContext

Box, Dict, Discrete, Tuple = (
    gym.spaces.Box,
    gym.spaces.Dict,
    gym.spaces.Discrete,
    gym.spaces.Tuple,
)
ONE = Box(0, 1, (1,), np.float32)


def test_processes_of_environments_need_neither_torch_nor_ray() -> None:
    names = "checks", "dict_slots", "independent_agents", "multi_agent_env", "native", "pettingzoo"
    code = "".join(f"import trainables.runtime.envs.multi_agent.{name}\n" for name in names)
    code += "import sys; print({'torch', 'ray', 'pettingzoo'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ------------------------------------------------------------------ spaces


class Spaced(MultiAgentEnv):
    def __init__(self, **attributes: Any):
        self.possible_agents = ["a", 1]
        for name, value in attributes.items():
            setattr(self, name, value)
        super().__init__()


def test_spaces_are_by_agent_or_one_for_all() -> None:
    by_agent: dict[Any, gym.Space] = {"a": WHERE, 1: ONE}
    for attributes, of_1 in (
        ({"observation_space": ONE}, ONE),
        ({"observation_space": Dict(by_agent, sort_keys=False)}, ONE),
        ({"observation_space": by_agent}, ONE),
        ({"observation_spaces": by_agent, "observation_space": WHERE}, ONE),
        ({"observation_space": Dict({"mask": ONE})}, Dict({"mask": ONE})),
    ):
        assert Spaced(**attributes).get_observation_space(1) == of_1


def test_a_space_that_is_not_said_is_an_error() -> None:
    with pytest.raises(ConfigError, match="the action space of agent 'a' is None: set action_spa"):
        Spaced(action_spaces={1: ONE}).get_action_space("a")
    with pytest.raises(ConfigError, match="the observation space of agent 1 is None: set observ"):
        Spaced(observation_space=Dict({"a": ONE})).get_observation_space(1)


def test_agent_ids_are_kept_as_given() -> None:
    env = Spaced()
    assert env.get_agent_ids() == {"a", 1}
    assert env.agents == []
    assert env.get_state() is None


# ------------------------------------------------------------------ groups of agents


def grouped(kind: type[TellingAgents], groups: dict[Any, Any], **config: Any) -> GroupedAgents:
    return kind(config).with_agent_groups(groups)


def test_a_group_is_one_agent() -> None:
    env = grouped(TwoKinds, {"pair": ["agent_2", "agent_1"]}, num_agents=3, length=2)
    assert env.possible_agents == ["pair", "agent_0"]
    assert env.get_observation_space("pair") == Tuple((WHERE, Box(0, 1e6, (5,), np.float64)))
    assert env.get_action_space("pair") == Tuple((Discrete(2), Box(-2, 1, (2,), np.float32)))
    assert env.get_observation_space("agent_0") == WHERE
    obs, infos = env.reset()
    assert [part[3] for part in obs["pair"]] == [2, 1]
    assert infos["pair"] == {"_group_info": [{"t": 0}, {"t": 0}]}
    push = np.array([-1, 1], np.float32)
    obs, rewards, terminateds, _, infos = env.step({"pair": (1, push), "agent_0": 0})
    inner: Any = env.env
    assert inner.received == {(0, 0, "agent_0"): 0, (0, 0, "agent_1"): push, (0, 0, "agent_2"): 1}
    each = [reward_of(0, 0, 1, 2), reward_of(0, 0, 1, 1)]
    assert rewards == {"pair": sum(each), "agent_0": reward_of(0, 0, 1, 0)}
    assert infos["pair"] == {"_group_info": [{"t": 1}] * 2, "_group_rewards": each}
    assert terminateds == {"pair": False, "__all__": False}
    assert env.agents == ["pair", "agent_0"]
    terminateds = env.step({"pair": (1, push), "agent_0": 0})[2]
    assert terminateds == {"pair": True, "agent_0": True, "__all__": True}
    assert env.agents == []
    check_multi_agent_env(env, "grouped")


def test_a_group_ends_when_all_of_it_have() -> None:
    env = grouped(EndOneByOne, {"pair": ["agent_0", "agent_1"]}, length=1)
    env.reset()
    obs, _, terminateds, truncateds, _ = env.step({"pair": (1, 0)})
    # agent_0 ended without an observation: what it saw last stays.
    assert [part[2] for part in obs["pair"]] == [0, 1]
    assert not terminateds["pair"]
    assert env.agents == ["pair"]
    obs, _, terminateds, truncateds, infos = env.step({"pair": (1, 1)})
    inner: Any = env.env
    assert (0, 1, "agent_0") not in inner.received  # it has ended: its action is dropped
    assert infos["pair"]["_group_rewards"] == [0.0, reward_of(0, 0, 2, 1)]
    assert not terminateds["pair"]  # one was terminated, the other was cut off
    assert truncateds["pair"]
    assert env.agents == []


def test_a_group_is_stepped_in_slots() -> None:
    slots = DictSlots([lambda: grouped(TellingAgents, {"pair": ["agent_0", "agent_1"]}, length=2)])
    rows = slots.reset().groups[0]
    assert [part.shape for part in rows.obs] == [(1, 4), (1, 4)]
    actions = (np.array([1]), np.array([0]))
    slots.step([actions])
    step = slots.step([actions])
    assert step.is_over[0]
    assert step.groups[0].terminated[0]
    assert step.groups[0].rewards[0] == reward_of(0, 0, 2, 0) + reward_of(0, 0, 2, 1)
    assert slots.envs[0].env.received[0, 1, "agent_0"] == 1


def test_members_of_a_group_must_act_together() -> None:
    env = grouped(Turns, {"pair": ["agent_0", "agent_1"]})
    with pytest.raises(
        MultiAgentApiError, match=r"of group 'pair', \['agent_0'\] are observed and"
    ):
        env.reset()
    env = grouped(JoinLater, {"pair": ["agent_1", "agent_2"]}, num_agents=3)
    slots = DictSlots([lambda: env])
    slots.reset()
    with pytest.raises(MultiAgentApiError, match=r"^env 'GroupedAgents', slot 0, step 1: of group"):
        slots.step([(np.zeros(1, np.int64),) * 2, np.zeros(1, np.int64)])


def test_wrong_groups_are_errors() -> None:
    wrong: list[tuple[dict[Any, Any], str]] = [
        ({"g": []}, "'g' has no members"),
        (
            {"g": ["nobody"]},
            r"'nobody' of group 'g' is no agent; allowed: \['agent_0', 'agent_1'\]",
        ),
        ({"g": ["agent_0"], "h": ["agent_0"]}, "'agent_0' is in 'g' and in 'h'"),
        ({"agent_1": ["agent_0"]}, "'agent_1' is an agent that is in no group"),
    ]
    for groups, message in wrong:
        with pytest.raises(ConfigError, match=message):
            grouped(TellingAgents, groups)


def test_a_space_of_groups_must_have_a_part_for_each_member() -> None:
    env = TellingAgents()
    space = Tuple((Box(0, 2e6, (4,), np.float32), WHERE))
    groups = {"g": ["agent_0", "agent_1"]}
    assert env.with_agent_groups(groups, obs_space=space).get_observation_space("g") == space
    with pytest.raises(ConfigError, match="does not fit group 'g'; allowed: a Tuple of 2 spaces"):
        env.with_agent_groups(groups, act_space=Tuple((Discrete(2),)))


# ------------------------------------------------------------------ independent copies


class Counting(gym.Env):
    """Ends after as many steps as its seed says; observes its seed and its step."""

    observation_space, action_space = Box(0, 2**31, (2,), np.float64), Discrete(2)

    def __init__(self, config: Any):
        self.config, self.is_closed = config, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.first, self.t = seed or 0, 0
        return self._obs(), {"seed": seed}

    def step(self, action: Any) -> Any:
        self.t += 1
        ends = self.t == 2 + int(action)
        return self._obs(), float(self.t), ends and action == 0, ends and action == 1, {}

    def close(self) -> None:
        self.is_closed = True

    def _obs(self) -> np.ndarray:
        return np.array([self.first, self.t], np.float64)


def test_each_copy_ends_by_itself() -> None:
    env = make_multi_agent(Counting)(EnvContext({"num_agents": 2, "size": 3}, vector_index=4))
    copies: list[Any] = env.envs
    assert copies[0].config == {"size": 3}
    assert copies[1].config.vector_index == 4
    assert env.possible_agents == [0, 1]
    env.reset(seed=1)
    assert env.step({0: 0, 1: 1})[2] == {0: False, 1: False, "__all__": False}
    _, rewards, terminateds, truncateds, _ = env.step({0: 0, 1: 1})
    assert rewards == {0: 2.0, 1: 2.0}
    assert terminateds == {0: True, 1: False, "__all__": False}
    assert env.agents == [1]
    with pytest.raises(MultiAgentApiError, match=r"agent 0 was given an action; .* are \[1\]"):
        env.step({0: 0})
    obs, _, terminateds, truncateds, _ = env.step({1: 1})
    assert set(obs) == {1}
    assert truncateds == {1: True, "__all__": True}
    assert terminateds[1] is False
    assert env.agents == []
    env.close()
    assert all(copy.is_closed for copy in copies)


def test_copies_have_seeds_of_their_own() -> None:
    kind = make_multi_agent(Counting)
    three = kind({"num_agents": 3})
    seeds = {seed: [int(o[0]) for o in three.reset(seed=seed)[0].values()] for seed in (0, 1, 2)}
    drawn = [own for each in seeds.values() for own in each]
    assert len(set(drawn)) == 9
    assert [int(o[0]) for o in three.reset(seed=1)[0].values()] == seeds[1]
    assert kind({}).reset(seed=7)[0][0][0] == 7
    assert three.reset()[1][2] == {"seed": None}


def test_copies_of_a_registered_environment() -> None:
    env = make_multi_agent("CartPole-v1")({"num_agents": 2, "max_episode_steps": 3})
    slots = DictSlots([lambda: env])
    slots.reset(seed=[0])
    for _ in range(3):
        step = slots.step([np.array([0, 1])])
    assert step.groups[0].truncated.all()
    assert step.is_over[0]
    assert [group.agents for group in slots.groups] == [(0, 1)]
    check_multi_agent_env(env, "copies")


def test_a_class_of_copies_is_not_taken_for_another() -> None:
    kind: Any = cloudpickle.loads(cloudpickle.dumps(make_multi_agent("CartPole-v1")))
    assert kind({"num_agents": 2}).agents == [0, 1]
    name = callable_name(kind)
    assert name.endswith(":make_multi_agent.<CartPole-v1>")
    with pytest.raises(ConfigError, match="cannot be found again"):
        resolve_callable(name)


def test_num_agents_must_be_a_number_of_agents() -> None:
    for count in (0, 1.0, "2", True):
        with pytest.raises(ConfigError, match=r"num_agents = .* is not allowed; allowed: in"):
            make_multi_agent("CartPole-v1")({"num_agents": count})
