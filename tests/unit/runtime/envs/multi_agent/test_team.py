"""All agents of an environment as one: rows, sums, masks, ends, states and what is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from telling_agents import (
    WHERE,
    AllAtOnce,
    EndOneByOne,
    JoinLater,
    Masked,
    TellingAgents,
    Turns,
    TwoKinds,
    reward_of,
)
from tiers import rarely

from trainables import QMIXConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import make_slots
from trainables.runtime.envs.multi_agent.forms import MultiAgentApiError
from trainables.runtime.envs.multi_agent.team import TeamVectorEnv
from trainables.runtime.envs.slots import EnvOptions


def team(env: Any, num_envs: int = 2, remote: bool = False, **env_config: Any) -> TeamVectorEnv:
    options = EnvOptions(remote=remote)
    made = make_slots(QMIXConfig(), env, env_config, num_envs, options=options)
    assert isinstance(made, TeamVectorEnv)
    return made


class WithState(TellingAgents):
    """Its global state is where slot 0 of all is, and who has ended."""

    state_space = gym.spaces.Box(0, 1e6, (3,), np.float32)

    def state(self) -> np.ndarray:
        return np.array([self.slot, self.episode, self.t], np.float32)


def test_rows_of_a_step_stay_together_and_rewards_are_summed() -> None:
    env = team(TellingAgents, num_agents=3, length=2)
    obs, _ = env.reset(seed=1)
    assert list(obs) == ["agents"]
    assert env.single_action_space == gym.spaces.MultiDiscrete([2, 2, 2])
    assert env.single_observation_space["agents"].shape == (3, 4)
    for step, episode in [(1, 0), (2, 0), (0, 1), (1, 1)]:
        obs, rewards, terminated, truncated, infos = env.step(np.ones((2, 3), np.int64))
        for slot in range(2):
            for agent in range(3):
                assert obs["agents"][slot, agent].tolist() == [slot, episode, step, agent]
            paid = [reward_of(slot, episode, step, agent) for agent in range(3)]
            assert rewards[slot] == (sum(paid) if step else 0)
        assert terminated.tolist() == [step == 2] * 2
        assert not truncated.any() and infos == {}
    env.close()


def test_each_agent_is_given_its_part_of_the_action() -> None:
    env = team(TellingAgents, num_envs=1, num_agents=3)
    env.reset(seed=1)
    env.step(np.array([[0, 1, 1]]))
    (inner,) = env._env.envs  # type: ignore[attr-defined]
    while not isinstance(inner, TellingAgents):
        inner = inner.env
    assert [inner.received[0, 0, f"agent_{i}"] for i in range(3)] == [0, 1, 1]


def test_ends_of_all_at_once_are_the_teams() -> None:
    env = team(AllAtOnce, num_envs=1, length=1)
    env.reset(seed=1)
    ends = []
    for _ in range(4):
        _, _, terminated, truncated, _ = env.step(np.zeros((1, 2), np.int64))
        ends.append((bool(terminated[0]), bool(truncated[0])))
    assert ends == [(True, False), (False, False), (False, True), (False, False)]


def test_a_team_goes_on_until_the_last_agent_has_ended() -> None:
    """Of one that has ended it sees what it saw last; one that was cut off truncates it."""
    env = team(EndOneByOne, num_envs=1, num_agents=2, length=2)
    env.reset(seed=1)
    rows = [env.step(np.zeros((1, 2), np.int64)) for _ in range(4)]
    assert [bool(row[2][0] or row[3][0]) for row in rows] == [False, False, True, False]
    assert rows[2][3][0] and not rows[2][2][0]
    assert rows[2][0]["agents"][0, 0].tolist() == [0, 0, 1, 0]  # ended without a last observation
    assert rows[2][0]["agents"][0, 1].tolist() == [0, 0, 3, 1]
    assert rows[3][0]["agents"][0, :, 1].tolist() == [1, 1]  # the next episode


def test_masks_lie_side_by_side() -> None:
    env = team(Masked, num_envs=1, num_agents=2)
    obs, _ = env.reset(seed=1)
    assert obs["action_mask"].tolist() == [[1, 0, 0, 0, 1, 0]]
    assert obs["agents"]["where"].shape == (1, 2, 4)
    obs, *_ = env.step(np.array([[0, 1]]))
    assert obs["action_mask"].tolist() == [[0, 1, 0, 0, 0, 1]]


@pytest.mark.parametrize("remote", rarely([False, True], [False]))
def test_the_global_state_is_that_of_each_step(remote: bool) -> None:
    env = team(WithState, remote=remote, length=2)
    obs, _ = env.reset(seed=1)
    assert obs["state"].reshape(2, 3).tolist() == [[0, 0, 0], [1, 0, 0]]
    for where in ([0, 1], [0, 2], [1, 0]):
        obs, *_ = env.step(np.zeros((2, 2), np.int64))
        assert obs["state"].reshape(2, 3).tolist() == [[0, *where], [1, *where]]
    env.close()


def test_a_state_of_pettingzoo_is_found() -> None:
    pytest.importorskip("mpe2")
    env = team("pettingzoo:mpe2.simple_spread_v3", num_envs=1, N=2)
    obs, _ = env.reset(seed=1)
    assert obs["agents"].shape == (1, 2, 12)
    np.testing.assert_array_equal(obs["state"].ravel(), obs["agents"].ravel())


def test_state_goes_on_to_the_bit() -> None:
    made = [team(EndOneByOne, num_agents=3, length=3) for _ in range(2)]
    rng = np.random.default_rng(0)
    for env in made:
        env.reset(seed=2)
    for _ in range(4):
        made[0].step(rng.integers(0, 2, (2, 3)))
    state = made[0].get_state()
    assert state is not None
    made[1].set_state(state)
    for _ in range(9):
        actions = rng.integers(0, 2, (2, 3))
        for one, other in zip(made[0].step(actions), made[1].step(actions), strict=True):
            one, other = (x["agents"] if isinstance(x, dict) and x else x for x in (one, other))
            np.testing.assert_array_equal(one, other)


def test_who_does_not_act_is_named() -> None:
    for kind in (Turns, JoinLater):
        env = team(kind)
        with pytest.raises(MultiAgentApiError, match="is not asked to act, and has not ended"):
            env.reset(seed=1)
            for _ in range(4):
                env.step(np.zeros((2, 2), np.int64))


def test_other_spaces_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'agent_0'\] and \['agent_1'\] have different spaces"):
        team(TwoKinds)

    class Images(TellingAgents):
        def sees(self, agent: Any) -> gym.Space:
            return gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

        def tell(self, agent: Any, where: np.ndarray) -> Any:
            return np.zeros((8, 8, 3), np.uint8)

    with pytest.raises(ConfigError, match=r"has the image .* allowed: vectors"):
        team(Images)

    class Continuous(TellingAgents):
        def does(self, agent: Any) -> gym.Space:
            return WHERE

    with pytest.raises(ConfigError, match=r"agents of a team have the action space Box"):
        team(Continuous)
