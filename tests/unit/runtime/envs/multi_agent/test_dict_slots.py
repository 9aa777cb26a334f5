"""Slots of environments with several agents: what their dicts become, and their state."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from agents_play import allowed_actions, played, told
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array, iterate
from telling_agents import PATTERNS, Scripted, reward_of, row, scripted, where_of, who
from tiers import covering

from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.independent_agents import make_multi_agent
from trainables.runtime.envs.multi_agent.space_rows import row_reader, row_writer
from trainables.runtime.envs.slots import EnvContext


def telling(kind: str | type, num_envs: int = 1, **config: Any) -> DictSlots:
    made: Any = PATTERNS[kind] if isinstance(kind, str) else kind
    contexts = [EnvContext(config, vector_index=index) for index in range(num_envs)]
    return DictSlots([lambda own=context: made(own) for context in contexts])


@pytest.mark.parametrize(("kind", "num_agents"), covering([*PATTERNS], [3, 2], strength=1))
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
        actions = allowed_actions(slots, step, rng)
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


def test_all_ends_those_that_have_begun() -> None:
    slots = telling("all at once", num_agents=2, length=1)
    slots.reset()
    for episode in (0, 1):
        rows = slots.step([np.zeros(2, np.int64)]).groups[0]
        assert rows.terminated.tolist() == [episode == 0] * 2
        assert rows.truncated.tolist() == [episode == 1] * 2
        slots.step([np.zeros(2, np.int64)])


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
def test_values_go_in_and_out_as_with_gymnasium() -> None:
    for space in SPACES:
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


# ------------------------------------------------------------------ state


def _goes_on(first: DictSlots, second: DictSlots, num_steps: int) -> None:
    """A state, taken after so many steps, goes on in other slots as in its own."""
    step = first.reset(seed=[1, 2][: first.num_envs])
    second.reset(seed=[3, 4][: first.num_envs])
    rng = np.random.default_rng(0)
    for _ in range(num_steps):
        step = first.step(allowed_actions(first, step, rng))
    state, step = first.get_state(), copy.deepcopy(step)
    assert state is not None
    second.set_state(state)
    np.testing.assert_equal(played(first, step, 20, 5), played(second, step, 20, 5))


@pytest.mark.parametrize(("kind", "num_steps"), covering([*PATTERNS], [2, 4, 5], strength=1))
def test_a_state_goes_on_where_it_was_taken(kind: str, num_steps: int) -> None:
    first, second = (telling(kind, 2, num_agents=3, length=4) for _ in range(2))
    _goes_on(first, second, num_steps)


def test_copies_have_a_state() -> None:
    kind = make_multi_agent("CartPole-v1")
    for num_agents in (1, 3):
        first, second = (telling(kind, 2, num_agents=num_agents) for _ in range(2))
        _goes_on(first, second, 30)


def test_groups_of_agents_have_a_state() -> None:
    def grouped() -> Any:
        env = make_multi_agent("CartPole-v1")({"num_agents": 2})
        return env.with_agent_groups({"all": [0, 1]})

    first, second = (DictSlots([grouped]) for _ in range(2))
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
        expected = told(first.step([actions]))
        np.testing.assert_equal(told(second.step([actions])), expected)


def test_slots_without_a_state_say_so() -> None:
    slots = scripted()
    slots.reset()
    assert slots.get_state() is None
