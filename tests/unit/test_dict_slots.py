"""Slots of environments with several agents: what their dicts become, restarts, errors, state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array, iterate
from telling_agents import PATTERNS, TellingAgents, reward_of, where_of

from trainables.core.errors import ConfigError
from trainables.runtime.envs.context import EnvContext
from trainables.runtime.envs.sub_environment import SubEnvironmentError
from trainables.runtime.multi_agent.checks import check_multi_agent_env
from trainables.runtime.multi_agent.dict_slots import DictSlots
from trainables.runtime.multi_agent.forms import MultiAgentApiError
from trainables.runtime.multi_agent.independent_agents import make_multi_agent
from trainables.runtime.multi_agent.multi_agent_env import MultiAgentEnv
from trainables.runtime.multi_agent.space_rows import row_reader, row_writer
from trainables.runtime.multi_agent.vector_env import AgentsStep


def telling(kind: str | type, num_envs: int = 1, **config: Any) -> DictSlots:
    made: Any = PATTERNS[kind] if isinstance(kind, str) else kind
    contexts = [EnvContext(config, vector_index=index) for index in range(num_envs)]
    return DictSlots([lambda own=context: made(own) for context in contexts])


def row(slots: DictSlots, slot: int, agent: Any) -> tuple[int, int]:
    """The group and row of an agent of a slot."""
    for index, group in enumerate(slots.groups):
        if agent in group.agents:
            return index, slot * len(group.agents) + group.agents.index(agent)
    raise KeyError(agent)


def who(slots: DictSlots, step: AgentsStep, field: str, slot: int = 0) -> list[Any]:
    """The agents of a slot for which a flag is set, in order of their ids."""
    places = {agent: row(slots, slot, agent) for agent in slots.agents}
    return sorted(a for a, (g, r) in places.items() if getattr(step.groups[g], field)[r])


def some_actions(slots: DictSlots, step: AgentsStep, rng: np.random.Generator) -> list[Any]:
    """Random actions for all rows; allowed ones where there are masks."""
    actions: list[Any] = []
    for group, rows in zip(slots.groups, step.groups, strict=True):
        count = len(rows.acts)
        if isinstance(rows.obs, dict) and "action_mask" in rows.obs:
            actions.append(rows.obs["action_mask"].argmax(1))
        elif isinstance(group.action_space, gym.spaces.Discrete):
            actions.append(rng.integers(0, group.action_space.n, count))
        else:
            actions.append(rng.random((count, *group.action_space.shape)).astype(np.float32))
    return actions


def copied(step: AgentsStep) -> AgentsStep:
    groups = [
        type(rows)(*(np.copy(value) if isinstance(value, np.ndarray) else
                     {k: v.copy() for k, v in value.items()} for value in vars(rows).values()))
        for rows in step.groups
    ]  # fmt: skip
    return step._replace(groups=groups)


@pytest.mark.parametrize("kind", PATTERNS)
@pytest.mark.parametrize("num_agents", [2, 3])
def test_rows_tell_what_happened(kind: str, num_agents: int) -> None:
    """Followed row by row: who acts, sees what, is rewarded, begins and ends."""
    slots = telling(kind, 3, num_agents=num_agents, length=4)
    rng = np.random.default_rng(0)
    step = slots.reset(seed=[1, 2, 3])
    has_begun, num_ended = set(), 0
    is_over = np.ones(3, bool)
    for _ in range(40):
        for n, env in enumerate(slots.envs):
            assert step.resets[n] == is_over[n]
            if step.resets[n]:
                has_begun -= {(n, a) for a in slots.agents}
            assert who(slots, step, "acts", n) == sorted(env.asked)
            assert step.is_over[n] == (not env.asked)
            for agent in slots.agents:
                group, r = row(slots, n, agent)
                rows = step.groups[group]
                where = [n, env.episode, env.t, env.number[agent]]
                if rows.acts[r]:
                    got = (
                        {k: v[r] for k, v in rows.obs.items()} if kind == "masked" else rows.obs[r]
                    )
                    np.testing.assert_array_equal(where_of(got), where)
                    assert rows.begins[r] == ((n, agent) not in has_begun)
                    has_begun.add((n, agent))
                else:
                    assert not rows.begins[r]
                assert rows.rewards[r] == env.given.get((env.episode, env.t, agent), 0.0)
                if rows.terminated[r] or rows.truncated[r]:
                    assert (n, agent) in has_begun
                    has_begun.discard((n, agent))
                    num_ended += 1
            if step.is_over[n]:  # nobody is left that had begun
                assert not {(n, a) for a in slots.agents} & has_begun
        is_over = step.is_over.copy()
        actions = some_actions(slots, step, rng)
        asked = [(n, a) for n, env in enumerate(slots.envs) for a in env.asked]
        at = [(env.episode, env.t) for env in slots.envs]
        step = slots.step(actions)
        for n, agent in asked:
            group, r = row(slots, n, agent)
            np.testing.assert_array_equal(
                slots.envs[n].received[(*at[n], agent)], actions[group][r]
            )
    assert num_ended > 3 * num_agents


def test_an_end_without_a_last_observation_repeats_what_was_shown() -> None:
    slots = telling("end one by one", num_agents=2, length=2)
    slots.reset()
    slots.step([np.zeros(2, np.int64)])
    step = slots.step([np.zeros(2, np.int64)])  # agent_0 is terminated, and not observed
    rows = step.groups[0]
    assert rows.obs[:, 2].tolist() == [1, 2]
    assert rows.terminated.tolist() == [True, False]
    assert rows.rewards[0] == reward_of(0, 0, 2, 0)
    assert not step.is_over[0]
    step = slots.step([np.zeros(2, np.int64)])  # agent_1 is truncated, and observed
    rows = step.groups[0]
    assert rows.obs[:, 2].tolist() == [1, 3]
    assert rows.truncated.tolist() == [False, True]
    assert not rows.terminated.any()
    assert rows.rewards[0] == 0
    assert step.is_over[0]
    step = slots.step([np.zeros(2, np.int64)])
    assert step.resets[0]
    assert not step.replaced[0]
    assert step.groups[0].rewards.tolist() == [0, 0]
    assert step.groups[0].begins.all()
    assert not step.groups[0].truncated.any()


@pytest.mark.parametrize("episode", [0, 1])
def test_all_ends_those_that_have_begun(episode: int) -> None:
    slots = telling("all at once", num_agents=2, length=1)
    slots.reset()
    for _ in range(2 * episode):
        slots.step([np.zeros(2, np.int64)])
    rows = slots.step([np.zeros(2, np.int64)]).groups[0]
    assert rows.terminated.tolist() == [episode == 0] * 2
    assert rows.truncated.tolist() == [episode == 1] * 2


def test_an_agent_that_ends_by_itself_keeps_its_flags_beside_all() -> None:
    ends = {
        "terminateds": {"__all__": True, "a": True},
        "truncateds": {"__all__": False, "a": True},
    }
    slots = scripted(**ends)
    slots.reset()
    rows = slots.step([np.zeros(2, np.int64)]).groups[0]
    assert rows.terminated.tolist() == [True, True]
    assert rows.truncated.tolist() == [True, False]


def test_agents_that_are_absent_have_no_part() -> None:
    slots = telling("sometimes absent", num_agents=2, length=1)
    step = slots.reset()
    assert who(slots, step, "begins") == ["agent_1"]
    step = slots.step([np.zeros(2, np.int64)])
    assert who(slots, step, "terminated") == ["agent_1"]
    step = slots.step([np.zeros(2, np.int64)])
    assert who(slots, step, "begins") == ["agent_0"]


def test_an_agent_that_ends_with_its_first_observation_takes_no_part() -> None:
    class Late(Scripted):
        first = ("a",)

    slots = scripted(Late, terminateds={"__all__": False, "b": True})
    slots.reset()
    step = slots.step([np.zeros(2, np.int64)])
    assert who(slots, step, "acts") == ["a"]
    assert who(slots, step, "begins") == who(slots, step, "terminated") == []
    assert not step.is_over[0]


def test_groups_are_of_equal_spaces_in_order() -> None:
    slots = telling("two kinds", 2, num_agents=4)
    assert [group.agents for group in slots.groups] == [
        ("agent_0", "agent_2"),
        ("agent_1", "agent_3"),
    ]
    rows = slots.reset().groups
    assert rows[0].obs.shape == (4, 4)
    assert rows[1].obs.shape == (4, 5)
    assert rows[1].obs.dtype == np.float64


# ------------------------------------------------------------------ gymnasium's way

SPACES: list[gym.Space] = [
    gym.spaces.Discrete(3, start=-1),
    gym.spaces.Discrete(3, dtype=np.int32),
    gym.spaces.Box(-1, 1, (2, 3), np.float32),
    gym.spaces.Box(-1, 1, (), np.float64),
    gym.spaces.MultiDiscrete([2, 3]),
    gym.spaces.MultiBinary(3),
    gym.spaces.Dict(
        {"b": gym.spaces.Discrete(2), "a": gym.spaces.Tuple((gym.spaces.Box(0, 1, (2,)),))}
    ),
]


@pytest.mark.filterwarnings("ignore:.*Casting input x")  # of a single number, by gymnasium
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_values_go_in_and_out_as_with_gymnasium(space: gym.Space) -> None:
    space.seed(0)
    values = [space.sample() for _ in range(4)]
    batch = create_empty_array(space, 4)
    write = row_writer(space, batch)
    for index, value in enumerate(values):
        write(index, value)
    read = row_reader(space, batch)
    for index, expected in enumerate(iterate(batch_space(space, 4), batch)):
        assert _described(read(index)) == _described(expected)
        assert space.contains(read(index))
        assert str(read(index)) == str(expected)


def _described(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _described(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_described, value))
    return type(value), value.dtype, value.shape, value.tolist()


def test_a_wrapped_environment_plays_the_episodes_it_plays_by_itself() -> None:
    given: list[Any] = []

    class Noting(gym.Wrapper):
        def step(self, action: Any) -> Any:
            given.append((type(action), int(action)))
            return self.env.step(action)

    def make(_config: Any = None) -> gym.Env:
        return Noting(gym.make("CartPole-v1"))

    alone = SyncVectorEnv([make, make], autoreset_mode=AutoresetMode.NEXT_STEP)
    agents = DictSlots([lambda: make_multi_agent(make)({"num_agents": 1})] * 2)
    obs, _ = alone.reset(seed=[5, 6])
    step = agents.reset(seed=[5, 6])
    rng = np.random.default_rng(0)
    for _ in range(120):
        rows = step.groups[0]
        np.testing.assert_array_equal(rows.obs, obs)
        assert rows.obs.dtype == obs.dtype
        actions = rng.integers(0, 2, 2)
        obs, rewards, terminated, truncated, _ = alone.step(actions)
        noted, given[:] = list(given), []
        step = agents.step([actions])
        assert given == noted
        given.clear()
        rows = step.groups[0]
        np.testing.assert_array_equal(rows.rewards, rewards)
        np.testing.assert_array_equal(rows.terminated, terminated)
        np.testing.assert_array_equal(rows.truncated, truncated)
        np.testing.assert_array_equal(step.is_over, terminated | truncated)


# ------------------------------------------------------------------ errors

BOX = gym.spaces.Box(-1, 1, (2,), np.float32)
SEEN = np.zeros(2, np.float32)


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
    return DictSlots([lambda: kind(parts, reset)], names=["env 'duel', slot 0"])


NO_END = {"__all__": False}
WRONG_STEPS: list[tuple[dict[str, Any], str]] = [
    ({"result": (1, 2)}, r"step returns \(int, int\), not \(observations, rewards, termin"),
    ({"result": None}, "step returns a NoneType, not"),
    ({"obs": []}, r"step returns \(list, dict, dict, dict, dict\), not"),
    ({"terminateds": {}}, "step's terminateds has no key '__all__'"),
    ({"truncateds": {"a": True}}, r"step's truncateds has no key '__all__'.*it has \['a'\]"),
    ({"terminateds": {"__all__": 1}}, r"step's terminateds\['__all__'\] is 1 \(int\), not a bool"),
    ({"truncateds": NO_END | {"b": None}}, r"step's truncateds\['b'\] is None .*, not a bool"),
    ({"obs": {"c": SEEN}}, r"observation is of agent 'c', which is unknown; .* \['a', 'b'\]"),
    ({"rewards": {"c": 1.0}}, "a reward is of agent 'c', which is unknown"),
    ({"infos": {"c": {}}}, r"an info is of agent 'c', .*\['a', 'b'\], and '__common__'"),
    ({"terminateds": NO_END | {"c": False}}, "an entry in terminateds is of agent 'c'"),
    ({"obs": {"a": np.zeros(3)}}, r"observation of agent 'a' has shape \(3,\), the space has \(2"),
    ({"obs": {"a": np.zeros(2, int) + 1j}}, "observation of agent 'a' has dtype complex128, the "),
    ({"obs": {"b": [[1], [1, 2]]}}, "observation of agent 'b' is no array"),
    ({"rewards": {"b": "1"}}, r"reward of agent 'b' is '1' \(str\), not a finite number"),
    ({"rewards": {"b": np.ones(1)}}, "reward of agent 'b' is .*, not a finite number"),
]


@pytest.mark.parametrize(("parts", "message"), WRONG_STEPS, ids=lambda value: str(value)[:40])
def test_wrong_steps_are_errors(parts: dict[str, Any], message: str) -> None:
    slots = scripted(**parts)
    slots.reset()
    with pytest.raises(MultiAgentApiError, match=r"^env 'duel', slot 0, step 1: .*" + message):
        slots.step([np.zeros(2, np.int64)])
    env = Scripted(parts)
    with pytest.raises(ConfigError, match=r"^env 'duel', step 1: "):
        check_multi_agent_env(env, "duel")


@pytest.mark.parametrize("reward", [np.nan, float("inf"), np.float32("-inf")])
def test_a_reward_that_is_not_finite_is_an_error(reward: Any) -> None:
    slots = scripted(rewards={"a": reward})
    slots.reset()
    with pytest.raises(
        SubEnvironmentError, match=r"slot 0: step 1 raised .* agent 'a' is -?(inf|nan),"
    ):
        slots.step([np.zeros(2, np.int64)])
    with pytest.raises(ConfigError, match=r"'duel': step 1 raised .*not a finite number"):
        check_multi_agent_env(Scripted({"rewards": {"a": reward}}), "duel")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (SEEN, r"reset returns a ndarray, not \(observations, infos\)"),
        (({"a": SEEN}, None), r"reset returns \(dict, NoneType\), not"),
        (({}, {}), "reset observes no agent: the episode is over before it begins"),
        (({"c": SEEN}, {}), "an observation is of agent 'c'"),
    ],
)
def test_wrong_resets_are_errors(result: Any, message: str) -> None:
    with pytest.raises(MultiAgentApiError, match=r"^env 'duel', slot 0, reset: " + message):
        scripted(reset=result).reset()
    with pytest.raises(ConfigError, match=message):
        check_multi_agent_env(Scripted(reset=result), "duel")


def test_an_agent_that_has_ended_is_silent() -> None:
    slots = scripted(terminateds=NO_END | {"b": True}, rewards={"b": 0})
    slots.reset()
    slots.step([np.zeros(2, np.int64)])
    with pytest.raises(MultiAgentApiError, match="step 2: agent 'b' is observed, but ended in an"):
        slots.step([np.zeros(2, np.int64)])
    slots = scripted(terminateds=NO_END | {"b": True}, obs={"a": SEEN}, rewards={"b": 2.0})
    slots.reset()
    rows = slots.step([np.zeros(2, np.int64)]).groups[0]
    assert rows.rewards.tolist() == [0, 2]  # in the step that it ends, it may be rewarded
    with pytest.raises(
        MultiAgentApiError, match=r"step 2: agent 'b' gets the reward 2\.0, but ended"
    ):
        slots.step([np.zeros(2, np.int64)])
    slots.envs[0].parts["rewards"] = {"a": 1.0, "b": 0.0}
    slots.reset()
    for _ in range(3):
        step = slots.step([np.zeros(2, np.int64)])
    assert who(slots, step, "acts") == ["a"]
    assert not step.groups[0].terminated.any()  # it ended once


def test_everyone_may_wait_but_not_for_ever() -> None:
    slots = scripted(obs={}, rewards={"b": 1.0})
    slots.reset()
    for _ in range(999):
        step = slots.step([np.zeros(2, np.int64)])
        assert not step.groups[0].acts.any()
        assert not step.is_over.any()
        assert step.groups[0].rewards.tolist() == [0, 1]
    with pytest.raises(
        MultiAgentApiError, match=r"step 1000: no agent was asked .*\['a', 'b'\] ha"
    ):
        slots.step([np.zeros(2, np.int64)])


def _with(**attributes: Any) -> Callable[[], Any]:
    def make() -> Any:
        env = Scripted()
        for name, value in attributes.items():
            setattr(env, name, value)
        return env

    return make


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_with(possible_agents=[]), "has no possible_agents"),
        (_with(possible_agents=["a", "a"]), "possible_agents has 'a'; allowed: each id once"),
        (_with(possible_agents=["a", "__all__"]), "possible_agents has '__all__'"),
        (_with(observation_spaces={"a": BOX}), "observation space of agent 'b' is None: set"),
        (_with(action_space=None), "action space of agent 'a' is None"),
        (_with(action_space=gym.spaces.Text(3)), "action space of agent 'a' Text.* not supported"),
        (lambda: gym.make("CartPole-v1"), "is a TimeLimit, not a MultiAgentEnv"),
    ],
)
def test_agents_and_spaces_must_be_said(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=r"^env 'duel', slot 0.*" + message):
        DictSlots([make], names=["env 'duel', slot 0"])
    with pytest.raises(ConfigError, match=r"^env 'duel'.*" + message):
        check_multi_agent_env(make(), "duel")


def test_all_slots_have_the_same_agents() -> None:
    made = [Scripted(), _with(possible_agents=["a"])()]
    with pytest.raises(ConfigError, match=r"^env 'Scripted', slot 1 has the agents and spaces"):
        DictSlots([lambda: made[0], lambda: made[1]])


@pytest.mark.parametrize("kind", PATTERNS)
def test_environments_that_keep_to_the_api_pass_the_check(kind: str) -> None:
    state = np.random.get_state()[1]
    check_multi_agent_env(PATTERNS[kind](EnvContext({"length": 3})), kind)
    np.testing.assert_array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (SEEN + 3, r"agent 'b' is 3.0 at \[0\], the space has \[-1.0, 1.0\] there"),
        (SEEN.astype(np.float64), "agent 'b' has dtype float64, the space has float32"),
        (SEEN * np.nan, "agent 'b' has NaN in it"),
        ([0.0, 0.0], "agent 'b' is a list, not an array of float32"),
    ],
)
def test_the_check_looks_at_what_is_in_the_spaces(obs: Any, message: str) -> None:
    with pytest.raises(ConfigError, match="^env 'duel', step 1: the observation of " + message):
        check_multi_agent_env(Scripted({"obs": {"a": SEEN, "b": obs}}), "duel")


# ------------------------------------------------------------------ restarts


class Crashing(TellingAgents):
    """Crashes at steps of which instance: `crashes` holds (instance, episode, step); -1: reset."""

    made: list[Crashing]

    def __init__(self, crashes: set[tuple[int, int, int]], how: str = "raise"):
        super().__init__({"length": 3, "slot": len(self.made)})
        self.crashes, self.how = crashes, how
        self.seeds: list[int | None] = []
        self.made.append(self)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        self._crash(self.episode + 1, -1)
        return super().reset(seed=seed)

    def step(self, action_dict: Any) -> Any:  # type: ignore[override]
        obs, rewards, *rest = super().step(action_dict)
        if self._crash(self.episode, self.t):
            if self.how == "reward":
                rewards["agent_0"] = float("nan")
            else:
                obs["agent_1"] = obs["agent_1"] * np.float32("nan")
        return obs, rewards, *rest

    def _crash(self, *at: int) -> bool:
        crashes = (self.slot, *at) in self.crashes
        if crashes and self.how == "raise":
            raise OSError("gone")
        return crashes


def crashing(crashes: set[tuple[int, int, int]], how: str = "raise", **more: Any) -> DictSlots:
    Crashing.made = []
    return DictSlots([lambda: Crashing(crashes, how)], **{"restart": True, **more})


@pytest.mark.parametrize("how", ["raise", "reward", "obs"])
def test_a_failing_environment_is_replaced(how: str) -> None:
    slots = crashing({(0, 0, 2)}, how)
    slots.reset(seed=[4])
    slots.step([np.zeros(2, np.int64)])
    step = slots.step([np.zeros(2, np.int64)])
    assert step.replaced[0]
    assert step.resets[0]
    assert not step.is_over[0]
    rows = step.groups[0]
    assert rows.obs.tolist() == [[1, 0, 0, 0], [1, 0, 0, 1]]
    assert rows.acts.all()
    assert rows.begins.all()
    assert not rows.rewards.any()
    assert not (rows.terminated | rows.truncated).any()
    assert slots.num_restarts == 1
    assert Crashing.made[0].is_closed
    assert Crashing.made[1].seeds[0] not in (None, 4)
    step = slots.step([np.zeros(2, np.int64)])
    assert not step.replaced[0]
    assert step.groups[0].rewards.tolist() == [reward_of(1, 0, 1, 0), reward_of(1, 0, 1, 1)]


def test_observations_that_are_not_finite_may_be_left_to_others() -> None:
    slots = crashing({(0, 0, 1)}, "obs", finite=False)
    slots.reset()
    assert not slots.step([np.zeros(2, np.int64)]).replaced[0]


def test_a_reset_that_fails_is_replaced_too() -> None:
    slots = crashing({(0, 0, -1), (1, 1, -1)})
    step = slots.reset(seed=[0])
    assert step.replaced[0]
    for _ in range(3):
        step = slots.step([np.zeros(2, np.int64)])
    assert step.is_over[0]
    step = slots.step([np.zeros(2, np.int64)])
    assert step.replaced[0]
    assert step.resets[0]
    assert step.groups[0].begins.all()
    assert slots.num_restarts == 2


def test_too_many_failures_in_a_row_are_an_error() -> None:
    slots = crashing({(instance, 0, -1) for instance in range(20)})
    with pytest.raises(SubEnvironmentError, match="OSError: gone; it failed 6 times in a row"):
        slots.reset()
    assert len(Crashing.made) == 6


def test_without_restart_a_failure_is_an_error_that_names_the_slot() -> None:
    slots = crashing({(0, 0, 2)}, restart=False)
    slots.reset()
    slots.step([np.zeros(2, np.int64)])
    with pytest.raises(
        SubEnvironmentError, match=r"^env 'Crashing', slot 0: step 2 raised OSError"
    ):
        slots.step([np.zeros(2, np.int64)])


def test_what_breaks_the_api_is_not_replaced() -> None:
    slots = DictSlots([lambda: Scripted({"truncateds": {}})], restart=True)
    slots.reset()
    with pytest.raises(MultiAgentApiError):
        slots.step([np.zeros(2, np.int64)])
    assert slots.num_restarts == 0


# ------------------------------------------------------------------ state


@pytest.mark.parametrize("kind", PATTERNS)
@pytest.mark.parametrize("num_steps", [2, 4, 5])
def test_a_state_goes_on_where_it_was_taken(kind: str, num_steps: int) -> None:
    first, second = (telling(kind, 2, num_agents=3, length=4) for _ in range(2))
    _goes_on(first, second, num_steps)


@pytest.mark.parametrize("num_agents", [1, 3])
def test_copies_have_a_state(num_agents: int) -> None:
    kind = make_multi_agent("CartPole-v1")
    first, second = (telling(kind, 2, num_agents=num_agents) for _ in range(2))
    _goes_on(first, second, 30)


def test_groups_of_agents_have_a_state() -> None:
    def grouped(config: Any) -> Any:
        env = make_multi_agent("CartPole-v1")(config)
        return env.with_agent_groups({"all": [0, 1]})

    first, second = (DictSlots([lambda: grouped({"num_agents": 2})]) for _ in range(2))
    first.reset(seed=[1])
    second.reset(seed=[2])
    rng = np.random.default_rng(0)
    draws = [(rng.integers(0, 2, 1), rng.integers(0, 2, 1)) for _ in range(60)]
    for actions in draws[:25]:
        first.step([actions])
    state = first.get_state()
    assert state is not None
    second.set_state(state)
    for actions in draws[25:]:
        one, two = first.step([actions]), second.step([actions])
        np.testing.assert_array_equal(one.groups[0].obs, two.groups[0].obs)
        assert one.is_over == two.is_over


def _goes_on(first: DictSlots, second: DictSlots, num_steps: int) -> None:
    step = first.reset(seed=[1, 2])
    second.reset(seed=[3, 4])
    rng = np.random.default_rng(0)
    for _ in range(num_steps):
        step = first.step(some_actions(first, step, rng))
    state = first.get_state()
    assert state is not None
    second.set_state(state)
    for _ in range(20):
        actions = some_actions(first, step, rng)
        step, other = first.step(actions), second.step(actions)
        np.testing.assert_equal(
            [vars(rows) for rows in copied(step).groups], [vars(rows) for rows in other.groups]
        )
        np.testing.assert_array_equal(step.is_over, other.is_over)
        np.testing.assert_array_equal(step.resets, other.resets)
        assert step.infos == other.infos


def test_slots_without_a_state_say_so() -> None:
    slots = scripted()
    slots.reset()
    assert slots.get_state() is None
