"""The T-maze: a cue that is seen once decides what the turn at the end pays."""

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from trainables.core.errors import ConfigError
from trainables.runtime.envs.games.own import TMAZE, TMaze
from trainables.runtime.envs.make import make_vector_env

CORRIDOR, JUNCTION = [0, 0, 0], [0, 0, 1]
CUES = {TMaze.up: [1, 0, 0], TMaze.down: [0, 1, 0]}


def start(cue: int, length: int) -> TMaze:
    """An episode that shows this cue; about every second seed does."""
    env = TMaze(length)
    seen = (env.reset(seed=seed)[0].tolist() == CUES[cue] for seed in range(100))
    assert any(seen)
    return env


def test_it_is_what_gymnasium_takes() -> None:
    env = gym.make(TMAZE, length=2)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.observation_space.shape == (3,)


def test_both_cues_come_alike_often() -> None:
    env = TMaze()
    env.reset(seed=0)
    cues = np.array([env.reset()[0] for _ in range(1000)])
    assert (cues.sum(1) == 1).all() and not cues[:, 2].any()
    assert 450 < cues[:, 0].sum() < 550


def test_the_side_of_the_cue_pays() -> None:
    """So a policy that always turns the same way, or by chance, gets one half on average."""
    for cue, turn in itertools.product(CUES, CUES):
        env = start(cue, length=3)
        for seen in (CORRIDOR, CORRIDOR, JUNCTION):
            obs, *rest = env.step(turn)
            assert obs.tolist() == seen, "who acts sees the cue once"
            assert rest[:3] == [0.0, False, False]
        obs, reward, terminated, truncated, _ = env.step(turn)
        assert (reward, terminated, truncated) == (float(turn == cue), True, False)
        assert obs.tolist() == CUES[cue], "when it is too late"


def test_only_the_turn_at_the_junction_counts() -> None:
    for cue in CUES:
        env = start(cue, length=3)
        for _ in range(3):
            assert env.step(1 - cue)[1:4] == (0.0, False, False)
        assert env.step(cue)[1:4] == (1.0, True, False)


@pytest.mark.parametrize(("limit", "truncates"), [(4, False), (3, True)])
def test_a_time_limit_may_end_it_before_the_junction(limit: int, truncates: bool) -> None:
    env = make_vector_env(TMAZE, {"length": 3, "max_episode_steps": limit})
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.int64))[2:4] for _ in range(limit)]
    assert [bool(one | other) for [one], [other] in ends] == [False] * (limit - 1) + [True]
    assert ends[-1][0][0] != truncates


def test_a_bad_length_and_another_keyword_are_named() -> None:
    for length in (0, -1, 2.5, "8", True, None):
        with pytest.raises(ConfigError, match=rf"length = {length!r}: a T-maze's corridor takes"):
            make_vector_env(TMAZE, {"length": length})
    with pytest.raises(ConfigError, match="unexpected keyword argument 'lenght'"):
        make_vector_env(TMAZE, {"lenght": 8})
