"""Native games for several agents, against gymnasium, slow loops and numbers worked by hand."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
from agents_play import allowed_actions, played
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from refusals import Golden, refusals

from trainables.runtime.envs.multi_agent.independent_agents import make_multi_agent
from trainables.runtime.envs.multi_agent.native import (
    NATIVE,
    CartPoleAgents,
    ConvoyGame,
    GridWorldAgents,
    MatrixGame,
    TwoStepGame,
)
from trainables.runtime.envs.multi_agent.native.matrix_game import PAYOFFS
from trainables.runtime.envs.multi_agent.native.streams import SlotStreams

EVERY_GAME = pytest.mark.parametrize("name", sorted(NATIVE))
IN_TURNS = ["connect_four", "tic_tac_toe"]  # their own tests say who acts: test_in_a_row.py
ALL_AT_ONCE = pytest.mark.parametrize("name", sorted({*NATIVE} - {*IN_TURNS}))

# Episodes so short that slots reset, those of cart poles at different times.
SHORT: dict[str, dict[str, Any]] = {
    "multi_agent_cartpole": {"num_agents": 3},
    "multi_agent_grid_world": {"size": 3, "max_steps": 7},
    "matrix_game": {"rounds": 4},
    "convoy": {"num_agents": 3, "legs": 5},
    "two_step_game": {},
    "tic_tac_toe": {},
    "connect_four": {"rows": 3, "columns": 3, "length": 3},
}


# ------------------------------------------------------------------ what all games keep to


@ALL_AT_ONCE
def test_agents_begin_act_and_end_once_and_slots_reset_on_the_next_step(name: str) -> None:
    env = NATIVE[name](SHORT[name], 5)
    step = env.reset(seed=[1, 2, 3, 4, 5])
    assert step.resets.all() and not step.is_over.any()
    assert all(rows.begins.all() and rows.acts.all() for rows in step.groups)
    rng, num_over = np.random.default_rng(0), 0
    for _ in range(150):
        before = step = copy.deepcopy(step)
        step = env.step(allowed_actions(env, step, rng))
        np.testing.assert_array_equal(step.resets, before.is_over)
        still_act = np.zeros(5, bool)
        for rows, last in zip(step.groups, before.groups, strict=True):
            per_slot = len(rows.acts) // 5
            ends = rows.terminated | rows.truncated
            only_reset = np.repeat(step.resets, per_slot)
            np.testing.assert_array_equal(rows.acts, (last.acts & ~ends) | only_reset)
            np.testing.assert_array_equal(rows.begins, only_reset)
            assert not (ends & ~last.acts).any(), "an agent ended that did not act"
            assert not rows.rewards[~last.acts].any(), "a silent agent was paid"
            still_act |= rows.acts.reshape(5, -1).any(axis=1)
        np.testing.assert_array_equal(step.is_over, ~still_act)
        num_over += int(step.is_over.sum())
    assert num_over > 10


def test_rows_are_of_the_groups_spaces() -> None:
    for name in sorted(NATIVE):
        env = NATIVE[name](SHORT[name], 2)
        step = env.reset(seed=[1, 2])
        for _ in range(12):
            for group, rows in zip(env.groups, step.groups, strict=True):
                for row in range(len(rows.acts)):
                    obs = rows.obs
                    one = {k: v[row] for k, v in obs.items()} if isinstance(obs, dict) else obs[row]
                    assert group.observation_space.contains(one), name
                assert rows.rewards.dtype == np.float64
                kinds = {rows.terminated.dtype, rows.truncated.dtype, rows.acts.dtype}
                assert kinds == {np.dtype(bool)}
            step = env.step(allowed_actions(env, step, np.random.default_rng(0)))


@EVERY_GAME
def test_state_goes_on_bit_by_bit(name: str) -> None:
    env = NATIVE[name](SHORT[name], 3)
    step = env.reset(seed=[7, 8, 9])
    played(env, step, 23, seed=1)
    step = env.step(allowed_actions(env, step, np.random.default_rng(2)))
    # Into an environment that plays something else; and what follows may not change the state.
    state, step = env.get_state(), copy.deepcopy(step)
    assert state is not None
    expected = played(env, step, 60, seed=3)
    other = NATIVE[name](SHORT[name], 3)
    other.reset(seed=[0, 0, 0])
    other.set_state(state)
    np.testing.assert_equal(played(other, step, 60, seed=3), expected)
    other.set_state(state)
    np.testing.assert_equal(played(other, step, 60, seed=3), expected)


@pytest.mark.parametrize("name", ["multi_agent_cartpole", "multi_agent_grid_world"])
def test_a_slot_depends_on_its_own_seed_only(name: str) -> None:
    firsts = []
    for seeds in ([1, 2, 3], [5, 2, 1]):
        env, rng = NATIVE[name](SHORT[name], 3), np.random.default_rng(0)
        step, found = env.reset(seed=seeds), []
        for _ in range(120):
            begins = step.groups[0].begins.reshape(3, -1)[:, 0]
            obs = step.groups[0].obs
            obs = obs["observation"] if isinstance(obs, dict) else obs
            found += [obs.reshape(3, -1)[1].copy()] if begins[1] else []
            step = env.step(allowed_actions(env, step, rng))
        firsts.append(np.array(found)[:3])
    np.testing.assert_array_equal(firsts[0], firsts[1])
    assert len(np.unique(firsts[0], axis=0)) == 3, "each episode begins in the same way"


def test_settings_seeds_and_actions_that_are_not_known_are_named(golden: Golden) -> None:
    def act(name: str, kind: str) -> None:
        env = NATIVE[name]({}, 2)
        step = env.reset(seed=[1] if kind == "seeds" else None)
        actions = allowed_actions(env, step, np.random.default_rng(0))
        if kind == "shape":
            env.step([actions[0][1:]])
        actions[0][int(np.flatnonzero(step.groups[0].acts)[-1])] = 9
        env.step(actions)

    kinds = ("seeds", "shape", "action")
    cases = {f"{name}: {kind}": (name, kind) for name in sorted(NATIVE) for kind in kinds}
    texts = refusals(act, cases)
    given: list[tuple[str, dict[str, Any]]] = [
        *((name, {"num_agent": 2}) for name in sorted(NATIVE)),
        ("multi_agent_cartpole", {"num_agents": 0}),
        ("multi_agent_cartpole", {"num_agents": True}),
        ("multi_agent_grid_world", {"size": 2, "num_agents": 3}),
        ("multi_agent_grid_world", {"shared_reward": 1}),
        ("matrix_game", {"payoffs": "cordination"}),
        ("matrix_game", {"payoffs": [[1, 0], [0, 1]]}),
        ("matrix_game", {"payoffs": [[[1, 0], [0]], [[1, 0], [0, 1]]]}),
        ("tic_tac_toe", {"rows": 0}),
        ("tic_tac_toe", {"length": 1}),
        ("tic_tac_toe", {"length": 4}),
        ("tic_tac_toe", {"rows": 40, "columns": 40}),
    ]
    cases = {f"{name}: {env_config}": (name, env_config) for name, env_config in given}
    texts |= refusals(lambda name, env_config: NATIVE[name](env_config, 1), cases)
    golden("native_agents/refused", texts)


# ------------------------------------------------------------------ cart poles


def test_cart_poles_are_gymnasiums_bit_by_bit() -> None:
    num_slots, num_agents = 3, 4
    env = CartPoleAgents(num_slots, num_agents)
    env.reset(seed=[1, 2, 3])
    twins = [make_multi_agent("CartPole-v1")({"num_agents": num_agents}) for _ in range(num_slots)]
    for slot, twin in enumerate(twins):
        twin.reset(seed=0)
        for agent, copied in enumerate(twin.envs):
            copied.unwrapped.state = env.state[:, slot, agent].copy()
    rng, over = np.random.default_rng(0), np.zeros(num_slots, bool)
    lengths = np.zeros((num_slots, num_agents), int)
    while not over.all():
        actions = rng.integers(0, 2, (num_slots, num_agents))
        rows = (step := env.step([actions.ravel()])).groups[0]
        for slot in np.flatnonzero(~over):
            twin = twins[slot]
            asked = list(twin.agents)
            obs, rewards, ends, cuts, _ = twin.step({a: int(actions[slot, a]) for a in asked})
            for agent in asked:
                row = slot * num_agents + agent
                exact = twin.envs[agent].unwrapped.state
                np.testing.assert_array_equal(env.state[:, slot, agent], exact)
                np.testing.assert_array_equal(rows.obs[row], obs[agent], strict=True)
                assert rows.rewards[row] == rewards[agent] == 1
                assert rows.terminated[row] == ends[agent] and rows.truncated[row] == cuts[agent]
                lengths[slot, agent] += 1
            assert step.is_over[slot] == (not twin.agents)
        over |= step.is_over
    assert len(np.unique(lengths)) > 4, "all poles fell at once: nobody was silent"


def test_a_step_of_many_cart_poles_is_gymnasiums_to_the_last_bit() -> None:
    env, theirs = CartPoleAgents(4096, 4), CartPoleVectorEnv(4 * 4096)
    env.reset(seed=list(range(4096)))
    theirs.reset(seed=0)
    rng = np.random.default_rng(0)
    theirs.state = rng.uniform(-2, 2, (4, 4 * 4096))
    env.state[:] = theirs.state.reshape(env.state.shape)
    actions = rng.integers(0, 2, 4 * 4096)
    rows, (obs, _, ends, _, _) = env.step([actions]).groups[0], theirs.step(actions)
    np.testing.assert_array_equal(env.state.reshape(4, -1), theirs.state)
    np.testing.assert_array_equal(rows.obs, obs, strict=True)
    np.testing.assert_array_equal(rows.terminated, ends)


def test_a_silent_cart_pole_stands_still() -> None:
    env = CartPoleAgents(1, 2)
    env.reset(seed=[0])
    env.state[:] = 0
    env.state[2, 0, 0] = 0.3  # it has fallen
    rows = env.step([np.array([0, 1])]).groups[0]
    assert rows.terminated.tolist() == [True, False] and rows.acts.tolist() == [False, True]
    shown = rows.obs[0].copy()
    rows = env.step([np.array([0, 0])]).groups[0]
    np.testing.assert_array_equal(rows.obs[0], shown)
    assert rows.rewards.tolist() == [0, 1] and not rows.terminated[0]


def test_a_cart_pole_is_cut_off_after_500_steps() -> None:
    env = CartPoleAgents(2, 1)
    step = env.reset(seed=[0, 1])
    for num_steps in range(1, 501):
        env.state[:] = 0
        step = env.step([np.zeros(2, np.int64)])
        assert step.is_over.all() == (num_steps == 500)
    assert step.groups[0].truncated.all() and not step.groups[0].terminated.any()
    env.step([np.zeros(2, np.int64)])
    assert not env.step([np.zeros(2, np.int64)]).is_over.any(), "the count went on"


# ------------------------------------------------------------------ grid world


def cell(env: GridWorldAgents, row: int, column: int) -> int:
    return (row + env._margin) * env._width + column + env._margin


def test_goals_pay_those_who_cover_them() -> None:
    # a . .     Pillars: only the cell in the middle. Agent b is on the goal's other side.
    # g # .
    # b . g
    paid = {}
    for shared in (False, True):
        env = GridWorldAgents(1, size=3, view=1, shared_reward=shared, max_steps=9)
        env.reset(seed=[0])
        env.cells[:] = [[cell(env, 0, 0), cell(env, 2, 0)]]
        env.goals[:] = [[cell(env, 1, 0), cell(env, 2, 2)]]
        steps = [(2, 1), (0, 2), (3, 4), (1, 4)]  # both reach the first; b then goes to the second
        results = [env.step([np.array(step)]) for step in steps]
        paid[shared] = [result.groups[0].rewards.tolist() for result in results]
        assert [bool(result.is_over[0]) for result in results] == [False, False, False, True]
        assert results[-1].groups[0].terminated.all()
        assert not results[-1].groups[0].truncated.any()
    assert paid[False] == [[0.5, 0.5], [0, 0], [0, 0], [0, 1]]
    assert paid[True] == [[0.5, 0.5], [0, 0], [0, 0], [0.5, 0.5]]


def test_walls_are_masked_and_stop_who_walks_into_them() -> None:
    env = GridWorldAgents(1, num_agents=1, num_goals=1, size=3, view=0)
    env.reset(seed=[0])
    env.goals[:] = cell(env, 2, 2)
    env.cells[:] = cell(env, 0, 1)  # above the pillar
    rows = env.step([np.array([2])]).groups[0]
    assert env.cells[0, 0] == cell(env, 0, 1)
    assert rows.obs["action_mask"].tolist() == [[1, 0, 0, 1, 1]]
    assert rows.obs["action_mask"].dtype == np.int8


def test_a_time_limit_cuts_everyone_off() -> None:
    env = GridWorldAgents(2, max_steps=3)
    env.reset(seed=[0, 1])
    ends = [env.step([np.zeros(4, np.int64)]) for _ in range(3)]
    assert [step.is_over.all() for step in ends] == [False, False, True]
    assert ends[-1].groups[0].truncated.all() and not ends[-1].groups[0].terminated.any()


def test_a_view_is_what_a_slow_loop_sees() -> None:
    env = GridWorldAgents(3, num_agents=4, num_goals=3, size=5, view=2)
    step, rng = env.reset(seed=[1, 2, 3]), np.random.default_rng(0)
    for _ in range(25):
        obs = step.groups[0].obs
        for slot in range(3):
            for agent in range(4):
                expected, mask = slow_view(env, slot, agent)
                row = slot * 4 + agent
                np.testing.assert_allclose(obs["observation"][row], expected, rtol=1e-6)
                assert obs["action_mask"][row].tolist() == mask
        step = env.step(allowed_actions(env, step, rng))


def slow_view(env: GridWorldAgents, slot: int, agent: int) -> tuple[list[float], list[int]]:
    def place(index: int) -> tuple[int, int]:
        return index // env._width - env._margin, index % env._width - env._margin

    def is_wall(row: int, column: int) -> bool:
        is_outside = not (0 <= row < 5 and 0 <= column < 5)
        return is_outside or (row % 2 == 1 and column % 2 == 1)

    here = place(env.cells[slot, agent])
    near = [(here[0] + i, here[1] + j) for i in range(-2, 3) for j in range(-2, 3)]
    goals = [place(g) for g, o in zip(env.goals[slot], env.is_open[slot], strict=True) if o]
    others = [place(c) for i, c in enumerate(env.cells[slot]) if i != agent]
    view = [float(is_wall(*c)) for c in near] + [float(c in goals) for c in near]
    view += [float(c in others) for c in near] + [here[0] / 4, here[1] / 4]
    steps = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
    return view, [int(not is_wall(here[0] + i, here[1] + j)) for i, j in steps]


# ------------------------------------------------------------------ matrix game


def test_a_matrix_game_pays_by_its_table_and_shows_the_last_actions() -> None:
    env = MatrixGame(2, "prisoners_dilemma", rounds=2)
    rows = env.reset(seed=[0, 1]).groups[0]
    assert not rows.obs.any()
    rows = (step := env.step([np.array([0, 1, 1, 1])])).groups[0]
    assert rows.rewards.tolist() == [0, 5, 1, 1] and not step.is_over.any()
    assert rows.obs[:2].tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]  # its own action first
    step = env.step([np.array([0, 0, 1, 0])])
    assert step.groups[0].rewards.tolist() == [3, 3, 5, 0]
    assert step.is_over.all() and step.groups[0].truncated.all()
    step = env.step([np.array([7, 7, 7, 7])])  # ignored: the slots reset
    assert step.resets.all() and not step.groups[0].obs.any() and not step.groups[0].rewards.any()


def test_rock_paper_scissors_is_a_game_of_zero_sum() -> None:
    first, second = np.array(PAYOFFS["rock_paper_scissors"])
    assert not (first + second).any() and not (first + first.T).any()
    assert first[1, 0] == first[2, 1] == first[0, 2] == 1  # paper, scissors, rock


def test_players_with_other_actions_are_groups_of_their_own() -> None:
    env = MatrixGame(1, [[[1, 2, 3], [4, 5, 6]], [[0, 0, 0], [0, 0, 7]]])
    assert [group.agents for group in env.groups] == [("player_0",), ("player_1",)]
    assert [int(group.action_space.n) for group in env.groups] == [2, 3]
    env.reset()
    step = env.step([np.array([1]), np.array([2])])
    assert [rows.rewards.tolist() for rows in step.groups] == [[6], [7]]
    views = [rows.obs.tolist() for rows in step.groups]
    assert views == [[[0, 1, 0, 0, 1]], [[0, 0, 1, 0, 1]]]


# ------------------------------------------------------------------ random streams


def test_streams_are_uniform_and_differ() -> None:
    streams = SlotStreams(4)
    streams.seed([0, 1, 2, 3])
    numbers = streams.uniform(np.ones(4, bool), 20_000)
    assert numbers.min() >= 0 and numbers.max() < 1
    # The mean and the standard deviation of a uniform number; four standard errors.
    np.testing.assert_allclose(numbers.mean(axis=1), 0.5, atol=0.009)
    np.testing.assert_allclose(numbers.std(axis=1), 12**-0.5, atol=0.006)
    assert np.abs(np.corrcoef(numbers)[np.triu_indices(4, 1)]).max() < 0.03
    assert np.abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.015


def test_unseeded_streams_differ_between_environments() -> None:
    first, second = (CartPoleAgents(1).reset().groups[0].obs for _ in range(2))
    assert (first != second).any()


def test_a_convoy_is_paid_for_carts_that_arrive_together() -> None:
    env, rng = ConvoyGame(2, num_agents=3, roads=4, legs=5, toll=2.0), np.random.default_rng(0)
    step = env.reset([3, 4])
    tolls = step.groups[0].obs[:, 4].reshape(2, 3)
    for leg in range(5):
        shown = step.groups[0].obs
        assert shown.shape == (6, 5)
        assert (shown[:, :4].sum(1) == 1).all()
        np.testing.assert_array_equal(shown[:, 4].reshape(2, 3), tolls)  # for all of an episode
        actions = rng.integers(4, size=6)
        step = env.step([actions])
        for slot in range(2):
            rows = range(3 * slot, 3 * slot + 3)
            right = sum(shown[row, actions[row]] == 1 for row in rows)
            paid = (right / 3) ** 2 - 2 * float(tolls[slot].mean())
            assert step.groups[0].rewards[list(rows)] == pytest.approx([paid] * 3)
        assert step.groups[0].truncated.all() == (leg == 4)
        assert not step.groups[0].terminated.any()
    step = env.step([actions])  # which only resets
    assert (step.groups[0].obs[:, 4].reshape(2, 3) != tolls).all()


def test_the_returns_of_a_convoy_are_those_of_its_description() -> None:
    env, rng = ConvoyGame(4000, num_agents=4, roads=4, legs=1, toll=4.0), np.random.default_rng(0)
    shown = env.reset(list(range(4000))).groups[0].obs
    best = env.step([shown[:, :4].argmax(1)]).groups[0].rewards.mean()
    assert best == pytest.approx(1 - 4 / 2, abs=0.05)
    env.step([np.zeros(16000, int)])
    drawn = env.step([rng.integers(4, size=16000)]).groups[0].rewards.mean()
    assert drawn == pytest.approx(1 / 16 + 3 / 16 / 4 - 4 / 2, abs=0.05)


# ------------------------------------------------------------------ the two-step game


def test_two_step_game_is_the_papers() -> None:
    """Agent 0 chooses 2A, which pays 7, or 2B; each agent is paid half of it."""
    paid = {(0, 0): 0, (0, 1): 1, (1, 0): 1, (1, 1): 8}
    for first, one, other in itertools.product((0, 1), repeat=3):
        game = TwoStepGame(1)
        game.reset(seed=[0])
        assert game.states().tolist() == [[1, 0, 0]]
        step = game.step([np.array([first, one])])  # what agent 1 does at first is nothing
        (rows,) = step.groups
        assert not step.is_over.any() and rows.rewards.tolist() == [0, 0]
        assert game.states().tolist() == [[0, 1, 0] if first == 0 else [0, 0, 1]]
        np.testing.assert_array_equal(rows.obs, np.repeat(game.states(), 2, 0))
        (rows,) = (step := game.step([np.array([one, other])])).groups
        assert step.is_over.all() and rows.terminated.all() and not rows.truncated.any()
        assert rows.rewards.sum() == (7 if first == 0 else paid[one, other])
        game.step([np.array([0, 0])])
        assert game.states().tolist() == [[1, 0, 0]]
