"""Atari games as policies see them, and what is learned and reported of them."""

from __future__ import annotations

import importlib.util
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv, VectorEnv
from runners import policy_for, runner_of

from trainables import PPOConfig
from trainables.core.config.environment import is_ale
from trainables.core.errors import ConfigError
from trainables.runtime.envs.games.atari import AtariGames
from trainables.runtime.envs.make import make_vector_env
from trainables.runtime.envs.slots import EnvOptions

pytest.importorskip("ale_py", reason="needs the extra atari")

GAME = "ALE/Breakout-v5"
STEADY = {"repeat_action_probability": 0.0}


class Lives(VectorEnv):
    """Two slots; each step has a reward; slot 1 loses lives at steps 2 and 4, the last one at 6."""

    num_envs = 2
    single_observation_space = gym.spaces.Box(0, 255, (1, 2, 2), np.uint8)
    single_action_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.MultiDiscrete([4, 4])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.time, self.actions = 0, []
        return self._obs(), {"lives": np.array([3, 3])}

    def step(self, actions: np.ndarray) -> Any:
        self.time += 1
        self.actions.append(actions.copy())
        lives = 3 - min(self.time, 6) // 2 if self.time < 7 else 3
        over = np.array([False, self.time == 6])
        info = {"lives": np.array([3, lives])}
        return self._obs(), np.full(2, 5.0), over, np.zeros(2, bool), info

    def _obs(self) -> np.ndarray:
        return np.full((2, 1, 2, 2), self.time, np.uint8)


def test_a_lost_life_ends_an_episode_and_not_the_game() -> None:
    games = Lives()
    env = AtariGames(games, episodic_life=True)
    env.reset(seed=1)
    steps = [env.step(np.array([3, 3])) for _ in range(7)]
    ends = np.array([terminated for _, _, terminated, _, _ in steps])
    rewards = np.array([reward for _, reward, *_ in steps])
    assert not ends[:, 0].any() and (rewards[:, 0] == 5).all()
    assert ends[:, 1].tolist() == [False, True, False, True, False, True, False]
    # The row that begins the next life ignores its action, and shows what follows in the game.
    assert rewards[:, 1].tolist() == [5, 5, 0, 5, 0, 5, 5]
    assert [int(a[1]) for a in games.actions] == [3, 3, 0, 3, 0, 3, 3]


class ShortLives(Lives):
    """Slot 1 loses a life at step 2, and with the no-op after it the game."""

    def step(self, actions: np.ndarray) -> Any:
        obs, rewards, _, truncated, _ = super().step(actions)
        lives = {2: 1, 3: 0}.get(self.time, 3)
        rewards[1] *= self.time != 4  # the new game begins
        over = np.array([False, self.time == 3])
        return obs, rewards, over, truncated, {"lives": np.array([3, lives])}


def test_a_game_that_ends_as_a_life_begins_is_no_episode() -> None:
    env = AtariGames(ShortLives(), episodic_life=True)
    model = {"conv_filters": [], "fcnet_hiddens": [4]}
    rollouts, episodes = runner_of(env, policy=policy_for(env, model)).sample(6)
    rollout = rollouts["default_policy"]
    # Steps 3, which begins the next life, and 4, in which the new game begins, only reset.
    assert rollout.valid[:, 1].tolist() == [True, True, False, False, True, True]
    assert rollout.rewards[:, 1].tolist() == [5, 5, 0, 0, 5, 5]
    assert (episodes.returns, episodes.lengths) == ([10.0], [2])


def test_whole_games_in_evaluation() -> None:
    env = AtariGames(Lives(), episodic_life=False)
    env.reset(seed=1)
    ends = [env.step(np.array([3, 3]))[2][1] for _ in range(7)]
    assert ends == [False] * 5 + [True, False]


def test_single_games_end_with_a_life_too() -> None:
    options = {**STEADY, "episodic_life": True, "render_mode": "rgb_array"}
    env = make_vector_env(GAME, options, 1)
    assert isinstance(env, SyncVectorEnv)
    env.reset(seed=[1])
    env.action_space.seed(0)
    lives, seen = [], 5
    while len(lives) < 6:
        *_, terminated, _, info = env.step(env.action_space.sample())
        if terminated[0]:
            lives.append(int(info["lives"][0]))
            assert lives[-1] == seen - 1
            seen = lives[-1] or 5
    env.close()
    assert lives == [4, 3, 2, 1, 0, 4]  # through a whole game and into the next


def test_native_and_single_games_look_alike() -> None:
    native = make_vector_env(GAME, STEADY, 2)
    single = make_vector_env(GAME, {**STEADY, "render_mode": "rgb_array"}, 2)
    assert isinstance(native, AtariGames) and isinstance(single, SyncVectorEnv)
    for env in (native, single):
        assert env.single_observation_space == gym.spaces.Box(0, 255, (1, 84, 84), np.uint8)
        obs, _ = env.reset(seed=3 if env is native else [3, 4])
        assert obs.shape == (2, 1, 84, 84)
    a, b = native.reset(seed=3)[0], single.reset(seed=[3, 4])[0]
    # Another random stream of no-ops, but the same walls and bricks, in the same place.
    wall = np.s_[:, 0, 20:40, 5:79]
    assert np.abs(a[wall].astype(int) - b[wall]).mean() < 3
    native.close()
    single.close()


def test_slots_have_streams_of_their_own() -> None:
    env = make_vector_env(GAME, STEADY, 6)
    frames = env.reset(seed=7)[1]["episode_frame_number"].copy()
    assert len(set(frames.tolist())) > 1
    assert (env.reset(seed=7)[1]["episode_frame_number"] == frames).all()
    others = env.reset(seed=8)[1]["episode_frame_number"]
    assert (others[:-1] != frames[1:]).any()  # not the neighbours' streams
    env.close()


def test_the_settings_that_follow_from_an_id() -> None:
    atari = PPOConfig().environment("ALE/Pong-v5")
    assert (atari.resolve().num_frames, atari.resolve().reward_bound) == (4, True)
    assert atari.env_config_for(training=True) == {"episodic_life": True}
    assert atari.env_config_for(training=False) == {"episodic_life": False}
    asked = PPOConfig().environment("ALE/Pong-v5", frame_stack=1, clip_rewards=False)
    assert (asked.resolve().num_frames, asked.resolve().reward_bound) == (1, False)
    given = PPOConfig().environment("ALE/Pong-v5", env_config={"episodic_life": False})
    assert given.env_config_for(training=True) == {"episodic_life": False}
    other = PPOConfig().environment("CartPole-v1")
    assert (other.resolve().num_frames, other.resolve().reward_bound) == (1, False)
    assert other.env_config_for(training=True) == {}


def test_the_raw_game() -> None:
    config = PPOConfig().environment("ALE/Pong-v5", is_atari=False)
    assert (config.resolve().num_frames, config.resolve().reward_bound) == (1, False)
    env = make_vector_env(config.env, config.env_config_for(training=True), 1)
    assert env.single_observation_space.shape == (210, 160, 3)
    env.close()


def test_color_games() -> None:
    env = make_vector_env(GAME, {"grayscale": False, "img_height": 42, "img_width": 42}, 2)
    assert env.reset(seed=0)[0].shape == (2, 42, 42, 3)
    assert env.single_observation_space.shape == (42, 42, 3)
    env.close()


def test_what_other_settings_say_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'stack_num' is not supported.*use frame_stack"):
        make_vector_env("ALE/Pong-v5", {"stack_num": 4})
    with pytest.raises(ConfigError, match=r"is_atari = True is not allowed with env = 'CartPole"):
        PPOConfig().environment("CartPole-v1", is_atari=True).validate()
    with pytest.raises(ConfigError, match=r"preprocessor_pref = 'rllib'.*is_atari is False"):
        PPOConfig().env_runners(preprocessor_pref="rllib")


@pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="needs the extra envpool")
def test_envpool_shows_the_same_games() -> None:
    config = PPOConfig().environment("envpool:Pong-v5", is_atari=True)
    assert (config.resolve().num_frames, config.resolve().reward_bound) == (4, True)
    env = make_vector_env(config.env, config.env_config_for(training=True), 2)
    assert env.single_observation_space.shape == (1, 84, 84)
    assert env.reset(seed=0)[0].shape == (2, 1, 84, 84)
    env.close()
    other = PPOConfig().environment("envpool:CartPole-v1")
    assert other.resolve().num_frames == 1 and other.env_config_for(training=True) == {}


def test_training_on_lives_and_clipped_rewards_reports_the_game() -> None:
    config = (
        PPOConfig()
        .environment(GAME, env_config=STEADY)
        .env_runners(num_envs_per_env_runner=2)
        .training(
            train_batch_size_per_learner=64,
            num_epochs=1,
            minibatch_size=32,
            model={"conv_filters": [[4, 8, 8]], "fcnet_hiddens": [8]},
        )
        # Exploring: who never fires again plays up to the time limit.
        .evaluation(evaluation_duration=2, evaluation_config={"explore": True})
        .debugging(seed=0)
    )
    with config.build() as algo:
        policy = algo.get_policy()
        [image] = policy.observations.preprocessor.spec.images.values()
        assert image.num_channels == 4
        assert policy.observations.layout.shape == (1, 84, 84)  # one frame a row
        [rollout] = algo.sample().values()
        assert rollout.obs.shape == (33, 2, 1, 84, 84)
        result = algo.train()
        lives = result["episode_len_mean"]
        whole = algo.evaluate()["episode_len_mean"]
    assert whole > 2 * lives  # five lives each


@pytest.mark.parametrize(
    ("env_id", "sticks", "frameskip"),
    [
        ("PongDeterministic-v4", 0.0, 4),
        ("PongNoFrameskip-v4", 0.0, 1),
        ("PongDeterministic-v0", 0.25, 4),
        ("BreakoutNoFrameskip-v4", 0.0, 1),
        ("Pong-v0", 0.25, (2, 5)),
        ("MsPacman-v4", 0.0, (2, 5)),
    ],
)
def test_older_ids_are_games_of_today(env_id: str, sticks: float, frameskip: Any) -> None:
    """The ids of the reference's command lines; `ale_py` has no ...Deterministic-v4 any more."""
    config = PPOConfig().environment(env_id)
    resolved = config.resolve()
    assert (resolved.plays_atari, resolved.num_frames, resolved.reward_bound) == (True, 4, True)
    for options in (None, EnvOptions(restart=True)):  # all slots together, and apart
        env = make_vector_env(env_id, config.env_config_for(training=True), 2, options=options)
        assert env.single_observation_space.shape == (1, 84, 84)
        assert env.reset(seed=[1, 2])[0].any()
        env.close()
    raw = make_vector_env(
        env_id, PPOConfig().environment(env_id, is_atari=False).env_config_for(training=True), 1
    )
    (slot,) = raw.envs
    assert slot.unwrapped._frameskip == frameskip
    assert slot.unwrapped.ale.getFloat("repeat_action_probability") == pytest.approx(sticks)
    raw.close()


def test_an_older_id_of_no_game_is_unknown() -> None:
    with pytest.raises(ConfigError, match="env 'PungDeterministic-v4' is unknown"):
        make_vector_env("PungDeterministic-v4")


def test_what_an_older_id_stands_for_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="trainables"):
        for _ in range(2):
            make_vector_env("TennisNoFrameskip-v4", {}, 1).close()
    (said,) = [record.getMessage() for record in caplog.records if "Tennis" in record.getMessage()]
    assert "is 'ALE/Tennis-v5' with repeat_action_probability=0.0, frameskip=1" in said


def test_other_ids_of_those_versions_are_no_games() -> None:
    assert not [env_id for env_id in ("CartPole-v0", "Taxi-v4", "Pendulum-v0") if is_ale(env_id)]
