"""Games of a policy against an opponent: who sits where, how games end, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from refusals import Golden, refusals

from trainables import PPO, FixedPolicy, MultiAgentEnv, PPOConfig
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.errors import ConfigError
from trainables.core.policy.fixed_policy import PlayEnded
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.multi_agent.vector_env import (
    AgentGroup,
    AgentsStep,
    AgentsVectorEnv,
    GroupRows,
)
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.evaluation.matches.games import DRAWN, LOST, WON, Game, Matches
from trainables.runtime.evaluation.matches.legal_actions import LegalActions, shown_numbers
from trainables.runtime.evaluation.matches.play_matches import play_matches
from trainables.runtime.evaluation.watch import Outcome

ROCK = 0
ONE_ROUND = {"payoffs": "rock_paper_scissors", "rounds": 1}


class Always(FixedPolicy):
    """Does the same all the time."""

    action = ROCK

    def compute_actions(self, observations: Any, rng: Any, masks: Any = None) -> Any:
        return np.full(len(observations), self.action)


def rock(observations: Any, rng: Any, masks: Any) -> Any:
    return np.full(len(observations), ROCK)


def leaves_at_third(observations: Any, rng: Any, masks: Any) -> Any:
    leaves_at_third.calls += 1  # type: ignore[attr-defined]
    if leaves_at_third.calls == 3:  # type: ignore[attr-defined]
        raise PlayEnded
    return np.zeros(len(observations), np.int64)


class FirstMoverWins(MultiAgentEnv):
    """One agent after the other says a number; in turns, with masks; `first` always wins."""

    def __init__(self, env_config: Any = None):
        self.possible_agents = ["first", "second"]
        obs = gym.spaces.Dict(
            {
                "seen": gym.spaces.Box(0, 1, (2,), np.float32),
                "action_mask": gym.spaces.Box(0, 1, (3,), np.int8),
            }
        )
        self.observation_spaces = dict.fromkeys(self.possible_agents, obs)
        self.action_spaces = dict.fromkeys(self.possible_agents, gym.spaces.Discrete(3))
        self.is_varied = bool((env_config or {}).get("varied"))
        super().__init__()

    def _seen(self, turn: int) -> Any:
        mask = np.array([turn == 0, 1, 1], np.int8)
        seen = self.np_random.random(2) if self.is_varied else np.eye(2)[turn]
        return {"seen": seen.astype(np.float32), "action_mask": mask}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return {"first": self._seen(0)}, {}

    def step(self, actions: Any) -> Any:
        if "first" in actions:
            return {"second": self._seen(1)}, {}, {"__all__": False}, {"__all__": False}, {}
        seen = {agent: self._seen(1) for agent in self.possible_agents}
        rewards = {"first": 1.0, "second": -1.0}
        return seen, rewards, {"__all__": True}, {"__all__": False}, {}


@pytest.fixture(scope="module")
def config() -> PPOConfig:
    made = PPOConfig(model={"fcnet_hiddens": [4]}, seed=0)
    made.environment("matrix_game", env_config=ONE_ROUND).multi_agent(policies=["main"])
    return made.env_runners(num_envs_per_env_runner=20)


@pytest.fixture(scope="module")
def policy(config: PPOConfig) -> Iterator[Policy]:
    with PPO(config=config) as algo:
        yield algo.get_policy("main")


def test_a_thousand_games_change_seats_and_add_up(config: PPOConfig, policy: Policy) -> None:
    matches = play_matches(config, policy, "random", num_episodes=1000, num_envs=250, explore=True)
    both, first, second = (matches.tally(s) for s in (None, "player_0", "player_1"))
    assert first.games == second.games == 500 and both.games == 1000
    assert [g.seat for g in matches.games[:3]] == ["player_0", "player_1", "player_0"]
    assert both.wins + both.draws + both.losses == 1000
    assert both.wins == first.wins + second.wins and both.score == pytest.approx(0.5, abs=0.08)
    # Who is worth 1 a win and -1 a loss returns the difference.
    assert both.return_mean == pytest.approx((both.wins - both.losses) / 1000)


def test_who_wins_is_told_for_the_policy_in_either_seat(config: PPOConfig, policy: Policy) -> None:
    """What beats what greedy play does is found by trying all three."""
    results = {}
    for action in range(3):
        kind = type("Fixed", (Always,), {"action": action})
        matches = play_matches(config, policy, kind, num_episodes=4)
        results[action] = {
            seat: next(g.result for g in matches.games if g.seat == seat) for seat in matches.seats
        }
        # The same observation at the first round, whichever seat: the same action.
        assert len({*results[action].values()}) == 1
    assert {next(iter(own.values())) for own in results.values()} == {WON, DRAWN, LOST}


def test_games_that_took_one_course_are_told_apart(config: PPOConfig, policy: Policy) -> None:
    same = play_matches(config, policy, rock, num_episodes=20)
    assert [same.tally(seat).num_courses for seat in same.seats] == [1, 1]
    drawn = play_matches(config, policy, "random", num_episodes=100)
    assert [drawn.tally(seat).num_courses for seat in drawn.seats] == [3, 3]
    longer = config.copy(copy_frozen=False)
    longer.environment("matrix_game", env_config={**ONE_ROUND, "rounds": 30})
    random = play_matches(longer, policy, "random", num_episodes=40)
    assert random.tally().num_courses == 40


def test_games_that_begin_in_other_ways_take_other_courses() -> None:
    config = PPOConfig(model={"fcnet_hiddens": [4]}, seed=0, num_envs_per_env_runner=5)
    config.environment(FirstMoverWins, env_config={"varied": True})
    with PPO(config=config.multi_agent(policies=["main"])) as algo:
        matches = play_matches(algo.config, algo.get_policy("main"), _last, num_episodes=30)
    assert matches.tally().num_courses == 30  # in which 3 actions can follow each other 9 times


def _last(observations: Any, rng: Any, masks: Any) -> Any:
    return np.full(len(masks), 2)


def test_a_policy_a_class_a_function_and_a_name_are_opponents(
    config: PPOConfig, policy: Policy
) -> None:
    ways = [rock, Always, f"{__name__}:rock", f"{__name__}:Always"]
    tallies = [play_matches(config, policy, way, num_episodes=6).tally() for way in ways]
    assert all(own == tallies[0] for own in tallies)
    itself = play_matches(config, policy, policy, num_episodes=6)
    assert itself.tally().draws == 6  # the same policy does the same, greedily


@pytest.mark.parametrize(("num_envs", "parts"), [(None, 1), (5, 4), (20, 1)])
def test_slots_are_those_of_the_config_or_asked_for(
    config: PPOConfig, policy: Policy, num_envs: int | None, parts: int
) -> None:
    sizes: list[int] = []

    class Notes(AgentsWatch):
        def enter(self, env: AgentsVectorEnv) -> None:
            sizes.append(env.num_envs)

    notes = [Notes()]
    play_matches(config, policy, "random", num_episodes=20, num_envs=num_envs, watches=notes)
    assert sizes == [num_envs or 20] * parts


def test_one_seat_alone(config: PPOConfig, policy: Policy) -> None:
    matches = play_matches(config, policy, "random", num_episodes=5, seats=["player_1"])
    assert matches.seats == ["player_1"] and matches.tally("player_1").games == 5
    with pytest.raises(KeyError, match=r"player_0.*player_1"):
        matches.tally("player_0")


def test_the_same_seed_plays_the_same_games(config: PPOConfig, policy: Policy) -> None:
    def games(seed: int) -> list[Game]:
        return list(
            play_matches(config, policy, "random", num_episodes=40, seed=seed, explore=True).games
        )

    assert games(1) == games(1) != games(2)


def test_a_third_agent_is_the_opponents_too() -> None:
    with PPO(config=_cartpoles(3)) as algo:
        seen: list[dict[Any, str]] = []

        class Notes(AgentsWatch):
            def ended(self, slot: int, episode: AgentsEpisode, outcome: Outcome) -> None:
                seen.append(dict(episode.policy_of))

        play_matches(
            algo.config,
            algo.get_policy("main"),
            "random",
            num_episodes=3,
            policy_id="opponent",  # an id that is taken is no problem
            watches=[Notes()],
        )
    assert sorted(tuple(own.values()) for own in seen) == [
        ("opponent", "other_opponent", "other_opponent"),
        ("other_opponent", "opponent", "other_opponent"),
        ("other_opponent", "other_opponent", "opponent"),
    ]


def _cartpoles(num_agents: int) -> PPOConfig:
    made = PPOConfig(model={"fcnet_hiddens": [4]}, seed=0, num_envs_per_env_runner=1)
    made.environment("multi_agent_cartpole", env_config={"num_agents": num_agents})
    return made.multi_agent(policies=["main"])


def test_what_cannot_be_played_is_refused(
    config: PPOConfig, policy: Policy, golden: Golden
) -> None:
    small = config.copy(copy_frozen=False).env_runners(num_envs_per_env_runner=1)

    def play(given: dict[str, Any]) -> None:
        play_matches(small, policy, **{"opponent": "random", "num_episodes": 2, **given})

    cases: dict[str, dict[str, Any]] = {
        "unknown name": {"opponent": "x"},
        "no such module": {"opponent": "no_module:x"},
        "another class": {"opponent": dict},
        "unknown seat": {"seats": ["player_7"]},
        "a seat twice": {"seats": ["player_0", "player_0"]},
        "an action outside the space": {"opponent": lambda *_: np.full(1, 9)},
    }
    golden("matches/refused", refusals(play, cases))


def test_one_agent_has_no_opponent(policy: Policy) -> None:
    with pytest.raises(ConfigError, match="'CartPole-v1' has one agent"):
        play_matches(PPOConfig().environment("CartPole-v1"), policy, "random")
    with pytest.raises(ConfigError, match="'multi_agent_cartpole' has one agent"):
        play_matches(_cartpoles(1), policy, "random")


def test_spaces_that_do_not_fit_are_named(config: PPOConfig, policy: Policy) -> None:
    with PPO(config=_cartpoles(2)) as algo:
        cartpole = algo.get_policy("main")
        with pytest.raises(ConfigError, match=r"opponent old cannot act for .*'player_0'"):
            play_matches(config, policy, cartpole, name="old")
        with pytest.raises(ConfigError, match=r"the policy can act for no agent: player_0:"):
            play_matches(config, cartpole, "random")
        with pytest.raises(ConfigError, match=r"seat 'player_1': the policy cannot act for it"):
            play_matches(config, cartpole, "random", seats=["player_1"])


def test_agents_with_other_spaces_have_an_opponent_of_their_own() -> None:
    """Of a game with two rows and three columns a policy can play but one side."""
    payoffs = [[[1, 1, 1], [1, 1, 1]], [[0, 0, 0], [0, 0, 0]]]
    config = PPOConfig(model={"fcnet_hiddens": [4]}, seed=0)
    config.environment("matrix_game", env_config={"payoffs": payoffs, "rounds": 2})
    both = {"policies": ["rows", "columns"]}
    config.multi_agent(**both, policy_mapping_fn={"player_0": "rows", "player_1": "columns"})
    with PPO(config=config) as algo:
        matches = play_matches(algo.config, algo.get_policy("columns"), Always, num_episodes=4)
    assert matches.seats == ["player_1"] and matches.tally().losses == 4
    assert matches.tally().return_mean == 0


def test_an_illegal_action_is_named_with_what_is_allowed() -> None:
    config = PPOConfig(model={"fcnet_hiddens": [4]}, seed=0).environment(FirstMoverWins)
    with PPO(config=config.multi_agent(policies=["main"])) as algo:
        own = algo.get_policy("main")
        words = (
            r"opponent my bot: the action 0 of the agent 'second' in step 1 of episode 0 is not "
            r"allowed; allowed: 1-2"
        )

        def zeros(observations: Any, rng: Any, masks: Any) -> Any:
            return np.zeros(len(masks), np.int64)

        with pytest.raises(ConfigError, match=words):
            play_matches(algo.config, own, zeros, num_episodes=2, name="my bot")
        # As the first player it may say 0.
        fine = play_matches(algo.config, own, zeros, num_episodes=2, seats=["second"])
        assert fine.tally().losses == 2
        # And the advantage of the first player shows.
        both = play_matches(algo.config, own, "random", num_episodes=6)
        assert both.tally("first").wins == both.tally("second").losses == 3


def test_actions_of_episodes_that_do_not_count_are_not_looked_at() -> None:
    """A slot that is done goes on until the others are, and the policy's own are masked."""
    watch = LegalActions(["theirs"], "it", "action_mask")
    mask = np.array([[0, 1], [1, 1]])
    space = gym.spaces.Discrete(2)
    watch.begin([AgentGroup(("one", "two"), gym.spaces.Dict(), space)], [0])
    none = np.zeros(2, bool)
    rows = GroupRows({"action_mask": mask}, np.zeros(2), none, none, ~none, none)
    shown = AgentsStep([rows], none[:1], none[:1], none[:1], [{}])
    for policy_id, runs, is_refused in (
        ("theirs", True, True),
        ("theirs", False, False),
        ("own", True, False),
    ):
        episode = AgentsEpisode(4, 0, policy_of={"one": policy_id, "two": "theirs"})
        with pytest.raises(ConfigError, match="'one'") if is_refused else nullcontext():
            watch.act(shown, [np.zeros(2, np.int64)], [episode], np.array([runs]))


def test_an_opponent_is_told_whom_it_acts_for() -> None:
    asked: list[Any] = []

    class Notes(FixedPolicy):
        def compute_actions(self, observations: Any, rng: Any, masks: Any = None) -> Any:
            asked.append(list(self.asked))
            return masks.argmax(axis=1)

    config = PPOConfig(model={"fcnet_hiddens": [4]}, seed=0).environment(FirstMoverWins)
    config.multi_agent(policies=["main"]).env_runners(num_envs_per_env_runner=3)
    with PPO(config=config) as algo:
        play_matches(algo.config, algo.get_policy("main"), Notes, num_episodes=3)
    assert asked == [["first"], ["second", "second"]]


def test_an_opponent_that_leaves_ends_it_with_the_games_so_far(
    config: PPOConfig, policy: Policy
) -> None:
    leaves_at_third.calls = 0  # type: ignore[attr-defined]
    small = config.copy(copy_frozen=False).env_runners(num_envs_per_env_runner=1)
    matches = play_matches(small, policy, leaves_at_third, num_episodes=9)
    assert [game.episode for game in matches.games] == [0, 1]


def test_a_tally_of_known_games() -> None:
    totals = [(2.0, 1.0), (0.0, 0.0), (-1.0, 3.0), (5.0, 4.0)]
    games = [Game(n, "a" if n % 2 else "b", *own, 3, n // 2) for n, own in enumerate(totals)]
    matches = Matches(["b", "a"], games)
    both, of_a = matches.tally(), matches.tally("a")
    assert (both.wins, both.draws, both.losses, both.return_mean) == (2, 1, 1, 1.5)
    assert both.score == 0.625 and both.num_courses == 4
    assert (of_a.wins, of_a.draws, of_a.losses, of_a.num_courses) == (1, 1, 0, 2)
    assert np.isnan(Matches(["a"], []).tally().score)


def test_numbers_are_shown_in_runs() -> None:
    assert shown_numbers([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert shown_numbers(range(0, 200, 2)).endswith("78, …")


def test_a_built_in_opponent_is_named() -> None:
    config = (
        PPOConfig()
        .environment("tic_tac_toe")
        .multi_agent(policies=["one"], policy_mapping_fn={"*": "one"})
    )
    with config.training(train_batch_size_per_learner=64, minibatch_size=64).build() as algo:
        policy = algo.policies["one"]
        uniform, ahead = (
            play_matches(config, policy, opponent, num_episodes=200, num_envs=50, seed=1).tally()
            for opponent in ("random", "look_ahead")
        )
    assert ahead.losses > uniform.losses + 20
