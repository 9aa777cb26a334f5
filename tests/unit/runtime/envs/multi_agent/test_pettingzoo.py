"""PettingZoo's games as environments with several agents, against PettingZoo itself."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections import defaultdict
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from refusals import Golden, refusals

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent import pettingzoo_names
from trainables.runtime.envs.multi_agent.forms import MultiAgentApiError
from trainables.runtime.envs.multi_agent.multi_agent_env import MultiAgentEnv
from trainables.runtime.envs.multi_agent.pettingzoo import (
    PettingZooAEC,
    PettingZooParallel,
    make_pettingzoo,
    wrap_pettingzoo,
)

pettingzoo = pytest.importorskip("pettingzoo", reason="needs the extra pettingzoo")
pytest.importorskip("mpe2", reason="needs the extra pettingzoo")

from pettingzoo.utils import AgentSelector, wrappers  # noqa: E402

# The games' own notices: of their registry, and of moves that these tests make on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def raw_game(name: str, maker: str, **arguments: Any) -> Any:
    package = name if name.startswith("mpe2") else f"pettingzoo.{name}"
    return getattr(importlib.import_module(package), maker)(**arguments)


def drawn(obs: Any, size: int, rng: np.random.Generator) -> int:
    """Draw a legal action."""
    mask = obs["action_mask"] if isinstance(obs, dict) else np.ones(size)
    return int((rng.random(size) * mask).argmax())


def flat(obs: Any) -> np.ndarray:
    parts = obs.values() if isinstance(obs, dict) else [obs]
    return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])


def play_ours(env: MultiAgentEnv, seed: int) -> tuple[dict[Any, list[Any]], dict[Any, float]]:
    """Play a game by legal random moves; return what each agent saw, and its summed rewards."""
    rng, views, sums = np.random.default_rng(seed), defaultdict(list), defaultdict(float)
    ended: set[Any] = set()
    obs, _ = env.reset(seed=seed)
    while True:
        for agent, seen in obs.items():
            assert env.get_observation_space(agent).contains(seen)
            views[agent].append(flat(seen))
        asked = [agent for agent in obs if agent not in ended]
        assert len(asked) == 1, "agents take turns"
        size = env.get_action_space(asked[0]).n
        result = env.step({asked[0]: drawn(obs[asked[0]], size, rng)})
        obs, rewards, terminateds, truncateds, _ = result
        assert not ended & set(rewards) and not ended & set(obs), "it ended before"
        for agent, reward in rewards.items():
            sums[agent] += reward
        ended |= {a for a in rewards if terminateds[a] or truncateds[a]}
        assert set(env.agents).isdisjoint(ended)
        if terminateds["__all__"] or truncateds["__all__"]:
            for agent, seen in obs.items():
                views[agent].append(flat(seen))
            assert ended == set(env.possible_agents) and not env.agents
            return views, sums


def play_theirs(env: Any, seed: int) -> tuple[dict[Any, list[Any]], dict[Any, float]]:
    rng, views, sums = np.random.default_rng(seed), defaultdict(list), defaultdict(float)
    env.reset(seed=seed)
    for agent in env.agent_iter():
        obs, reward, terminated, truncated, _ = env.last()
        views[agent].append(flat(obs))
        sums[agent] += reward
        is_over = terminated or truncated
        env.step(None if is_over else drawn(obs, env.action_space(agent).n, rng))
    return views, sums


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("classic.tictactoe_v3", {}),
        ("classic.connect_four_v3", {}),
        ("classic.rps_v2", {"max_cycles": 6}),
        ("mpe2.simple_adversary_v3", {"max_cycles": 8}),
    ],
)
def test_whole_games_in_turn_are_pettingzoos(name: str, arguments: dict[str, Any]) -> None:
    pytest.importorskip("pygame", reason="these games draw with it")
    env = make_pettingzoo(f"pettingzoo:{name}", {"api": "aec", **arguments})
    assert isinstance(env, PettingZooAEC)
    num_paid = 0
    for seed in range(6):
        views, sums = play_ours(env, seed)
        expected, paid = play_theirs(raw_game(name, "env", **arguments), seed)
        assert sums == pytest.approx(paid), seed
        assert set(views) == set(expected)
        for agent, seen in views.items():
            assert len(seen) == len(expected[agent])
            np.testing.assert_array_equal(np.array(seen), np.array(expected[agent]))
        num_paid += any(paid.values())
    assert num_paid > 1, "no game told rewards apart"


def test_an_illegal_move_ends_the_game_as_the_game_has_it() -> None:
    pytest.importorskip("pygame", reason="it draws with it")
    env = make_pettingzoo("pettingzoo:classic.tictactoe_v3")
    env.reset(seed=0)
    env.step({"player_1": 4})
    obs, rewards, terminateds, truncateds, _ = env.step({"player_2": 4})
    assert rewards == {"player_1": 0, "player_2": -1}
    assert set(obs) == {"player_1", "player_2"} and not env.agents
    assert terminateds == {"player_1": True, "player_2": True, "__all__": True}
    assert truncateds == {"player_1": True, "player_2": True, "__all__": False}
    assert set(env.reset()[0]) == {"player_1"}


def test_a_parallel_game_is_pettingzoos_step_by_step() -> None:
    env = make_pettingzoo("pettingzoo:mpe2.simple_spread_v3", {"max_cycles": 9})
    assert isinstance(env, PettingZooParallel)
    raw = raw_game("mpe2.simple_spread_v3", "parallel_env", max_cycles=9)
    rng = np.random.default_rng(0)
    for seed in (3, 4):
        obs, _ = env.reset(seed=seed)
        expected, _ = raw.reset(seed=seed)
        for num_steps in range(1, 10):
            np.testing.assert_equal(obs, expected)
            actions = {agent: int(rng.integers(5)) for agent in env.agents}
            obs, rewards, terminateds, truncateds, _ = env.step(actions)
            expected, paid, ends, cuts, _ = raw.step(actions)
            assert rewards == paid
            assert terminateds == {**ends, "__all__": False}
            assert truncateds == {**cuts, "__all__": num_steps == 9}
        np.testing.assert_equal(obs, expected)
        assert not env.agents


# ------------------------------------------------------------------ agents that come and go


class Script(pettingzoo.ParallelEnv):
    """Each agent sees the step's number; who ends, goes or joins when is written down."""

    metadata: ClassVar[dict[str, Any]] = {"name": "script"}
    possible_agents: ClassVar[list[str]] = ["ends", "goes", "joins", "stays"]

    def observation_space(self, agent: Any) -> spaces.Space:
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent: Any) -> spaces.Space:
        return spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.agents, self.t = ["ends", "goes", "stays"], 0
        return self._obs(self.agents), {}

    def _obs(self, agents: list[str]) -> dict[str, Any]:
        return {agent: np.full(1, self.t, np.float32) for agent in agents}

    def step(self, actions: Any) -> Any:
        silent = {"goes", "ends"} if self.t else set()
        assert set(actions) == set(self.agents) - silent
        self.t += 1
        before = [agent for agent in self.agents if agent != "ends" or self.t == 1]
        ends = {agent: agent == "ends" and self.t == 1 for agent in before}
        cuts = {agent: self.t == 3 for agent in before}
        self.agents = [a for a in before if not ends[a] and not cuts[a]]
        if self.t == 2:
            # One goes without a word, and one that has ended is listed again.
            self.agents = ["stays", "joins", "ends"]
        # It goes on telling of those who have ended, as some games do.
        told = {*before, *self.agents, "ends"} - {"goes"}
        return self._obs(sorted(told)), dict.fromkeys(told, 1.0), ends, cuts, {}


def test_agents_of_a_parallel_game_end_once() -> None:
    env = wrap_pettingzoo(Script())
    obs, _ = env.reset()
    seen, results = [set(obs)], []
    for _ in range(3):
        obs, *result = env.step({agent: np.zeros(1) for agent in obs if agent in env.agents})
        seen.append(set(obs))
        results.append(result)
    assert seen == [
        {"ends", "goes", "stays"},
        {"ends", "stays"},  # who is not shown anything is not asked to act
        {"joins", "stays"},
        {"joins", "stays"},
    ]
    rewards, terminateds, truncateds, _ = results[0]
    assert rewards == {"ends": 1, "goes": 0, "stays": 1}
    assert [a for a, flag in terminateds.items() if flag] == ["ends"]
    rewards, terminateds, truncateds, _ = results[1]
    assert rewards == {"goes": 0, "stays": 1, "joins": 1}
    assert [a for a, flag in terminateds.items() if flag] == ["goes"]
    rewards, terminateds, truncateds, _ = results[2]
    assert rewards == {"joins": 1, "stays": 1} and not any(terminateds.values())
    assert truncateds == {"joins": True, "stays": True, "__all__": True}


class Turns(pettingzoo.AECEnv):
    """Three agents count together; who has done so twice ends. Each move pays everyone else 1."""

    metadata: ClassVar[dict[str, Any]] = {"name": "turns"}
    possible_agents: ClassVar[list[str]] = ["a", "b", "c"]
    mask: Any = None

    def observation_space(self, agent: Any) -> spaces.Space:
        return spaces.Box(0, 99, (1,), np.float32)

    def action_space(self, agent: Any) -> spaces.Space:
        return spaces.Discrete(3)

    def observe(self, agent: Any) -> Any:
        return np.full(1, self.count, np.float32)

    def reset(self, seed: Any = None, options: Any = None) -> None:
        self.agents, self.count = list(self.possible_agents), 0
        self.left = dict.fromkeys(self.agents, 2)
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        info = {} if self.mask is None else {"action_mask": self.mask}
        self.infos = {agent: dict(info) for agent in self.agents}
        self._selector = AgentSelector(list(self.possible_agents))
        self.agent_selection = self._selector.reset()

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0
        self.count += 1
        self.left[agent] -= 1
        self.rewards = {other: int(other != agent) for other in self.agents}
        self._accumulate_rewards()
        self.terminations[agent] = self.left[agent] == 0
        self.agent_selection = self._selector.next()
        self._deads_step_first()

    def get_state(self) -> dict[str, Any]:
        return {
            "agents": list(self.agents),
            "left": dict(self.left),
            "count": self.count,
            "selection": self.agent_selection,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.reset()
        for gone in set(self.agents) - set(state["agents"]):
            for known in (self.rewards, self.terminations, self.truncations, self.infos):
                del known[gone]
        self.agents, self.left = list(state["agents"]), dict(state["left"])
        self.count = state["count"]
        while self.agent_selection != state["selection"]:
            self.agent_selection = self._selector.next()


def test_agents_end_in_the_midst_of_a_game_in_turn() -> None:
    env, told = wrap_pettingzoo(Turns()), []
    obs, _ = env.reset()
    (agent,) = obs
    while env.agents:
        obs, rewards, terminateds, truncateds, _ = env.step({agent: 0})
        ended = [a for a, flag in terminateds.items() if flag]
        told.append((list(obs), rewards, ended))
        agent = env.agents and next(a for a in obs if a not in ended)
        assert not any(truncateds.values())
    everyone = {"a": 1, "b": 1, "c": 1}
    assert told == [
        (["b"], {**everyone, "a": 0}, []),
        (["c"], {**everyone, "b": 0}, []),
        (["a"], {**everyone, "c": 0}, []),
        (["a", "b"], {**everyone, "a": 0}, ["a"]),  # its last observation, and the next to act
        (["b", "c"], {"b": 0, "c": 1}, ["b"]),
        (["c"], {"c": 0}, ["c", "__all__"]),
    ]


def test_only_who_is_asked_may_act() -> None:
    env = wrap_pettingzoo(Turns())
    env.reset()
    for actions in ({}, {"b": 0}, {"a": 0, "b": 0}):
        with pytest.raises(MultiAgentApiError, match=r"those that are to act are \['a'\]"):
            env.step(actions)


# ------------------------------------------------------------------ masks


def test_a_mask_of_the_info_is_observed() -> None:
    raw = Turns()
    raw.mask = np.array([1, 0, 1], np.int8)
    env = wrap_pettingzoo(wrappers.OrderEnforcingWrapper(raw))
    space = env.get_observation_space("b")
    assert set(space.spaces) == {"observation", "action_mask"}
    assert space["action_mask"] == spaces.Box(0, 1, (3,), np.int8)
    obs, _ = env.reset()
    assert obs["a"]["action_mask"].tolist() == [1, 0, 1] and space.contains(obs["a"])
    obs, *_ = env.step({"a": 0})
    assert obs["b"]["observation"].tolist() == [1] and space.contains(obs["b"])


def test_a_mask_of_the_info_is_observed_in_parallel() -> None:
    class Masked(Script):
        def action_space(self, agent: Any) -> spaces.Space:
            return spaces.Discrete(2)

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            obs, _ = super().reset(seed, options)
            return obs, {agent: {"action_mask": np.array([0, 1])} for agent in obs}

    env = wrap_pettingzoo(Masked())
    obs, _ = env.reset()
    assert {tuple(one["action_mask"]) for one in obs.values()} == {(0, 1)}
    obs, *_ = env.step(dict.fromkeys(obs, 1))
    assert obs["stays"]["action_mask"].tolist() == [1, 1], "without a mask all is allowed"


def test_a_mask_that_comes_late_is_an_error() -> None:
    raw = Turns()
    env = wrap_pettingzoo(raw)
    raw.mask = np.array([1, 0, 1], np.int8)
    with pytest.raises(MultiAgentApiError, match=r"'a' has an action_mask.*from the reset on"):
        env.reset()


# ------------------------------------------------------------------ state


def test_a_game_with_a_state_goes_on_from_it() -> None:
    def play(env: MultiAgentEnv, agent: str) -> list[Any]:
        record = []
        while env.agents:
            obs, *rest = env.step({agent: 0})
            record.append((obs, rest))
            agent = env.agents and list(obs)[-1]
        return record

    env = wrap_pettingzoo(wrappers.OrderEnforcingWrapper(Turns()))
    env.reset()
    for agent in "abca":
        env.step({agent: 0})
    state = env.get_state()
    expected = play(env, "b")
    assert len(expected) == 2
    other = wrap_pettingzoo(wrappers.OrderEnforcingWrapper(Turns()))
    other.reset()
    other.set_state(state)
    assert other.agents == ["b", "c"]
    np.testing.assert_equal(play(other, "b"), expected)


def test_a_game_or_a_wrapper_without_a_state_has_none() -> None:
    class Remembering(wrappers.BaseWrapper):
        pass

    for raw in (Script(), Remembering(Turns())):
        env = wrap_pettingzoo(raw)
        env.reset()
        assert env.get_state() is None


# ------------------------------------------------------------------ names


def test_the_api_is_chosen() -> None:
    for name in ("mpe2.simple_v3", "pettingzoo:mpe2.simple_v3"):
        assert type(make_pettingzoo(name)) is PettingZooParallel
        assert type(make_pettingzoo(name, {"api": "parallel"})) is PettingZooParallel
        assert type(make_pettingzoo(name, {"api": "aec"})) is PettingZooAEC


def test_wrong_names_and_settings_are_errors(golden: Golden) -> None:
    cases: list[Any] = [
        "pettingzoo:classic.tictactoe_v2",
        "mpe2.simple_spred_v3",
        "pettingzoo:clasic.tictactoe_v3",
        "pettingzoo:os.path_v1",
        "pettingzoo:mpe2._mpe_utils",
        "pettingzoo:classic.all_modules",
        "pettingzoo:classic.tictactoe.tictactoe",
        ("pettingzoo:mpe2.simple_v3", {"api": "turns"}),
        ("pettingzoo:mpe2.simple_v3", {"nonsense": 1}),
    ]
    texts = refusals(make_pettingzoo, cases)
    of_theirs = r"(TypeError): .*"  # as they say it in this release
    golden("pettingzoo/refused", {k: re.sub(of_theirs, r"\1: <why>", v) for k, v in texts.items()})


def test_a_game_that_cannot_be_parallel_says_so() -> None:
    pytest.importorskip("pygame", reason="it draws with it")
    with pytest.raises(ConfigError, match=r"api='parallel'.*not offered.*allowed: aec"):
        make_pettingzoo("pettingzoo:classic.tictactoe_v3", {"api": "parallel"})


def test_nothing_is_imported_by_a_wrong_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: pytest.fail(f"imported {name}"))
    for name in ("antigravity", "pettingzoo:antigravity", "pettingzoo:utils.env_v1", "mpe2.", ""):
        with pytest.raises(ConfigError, match="is no game of PettingZoo"):
            make_pettingzoo(name)


def test_the_games_of_mpe_have_a_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pettingzoo_names, "games_of", lambda package: [])
    with pytest.raises(ConfigError, match=r"write 'pettingzoo:mpe2\.simple_spread_v3'"):
        make_pettingzoo("pettingzoo:mpe.simple_spread_v3")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    names = {"mpe2": "mpe2.simple_v3", "pettingzoo": "pettingzoo:classic.tictactoe_v3"}
    for library, name in names.items():
        words = rf"the library {library}.*pip install 'tunescape\[pettingzoo\]'"
        with pytest.raises(ConfigError, match=words):
            make_pettingzoo(name)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("no", name="chess"), "needs the library chess, which is not inst"),
        (ImportError("open_spiel is too old"), "cannot be imported: open_spiel is too old"),
    ],
)
def test_what_a_game_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, error: ImportError, words: str
) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ConfigError, match=rf"{words}.*pip install 'pettingzoo\[classic\]'"):
        make_pettingzoo("pettingzoo:classic.chess_v6")


def test_any_environment_of_pettingzoo_is_wrapped_and_no_other() -> None:
    assert isinstance(wrap_pettingzoo(Turns()), PettingZooAEC)
    assert isinstance(wrap_pettingzoo(wrappers.BaseWrapper(Turns())), PettingZooAEC)
    parallel = wrap_pettingzoo(wrappers.BaseParallelWrapper(Script()))
    assert isinstance(parallel, PettingZooParallel)
    assert wrap_pettingzoo(parallel) is parallel
    with pytest.raises(ConfigError, match="class dict is none of PettingZoo's"):
        wrap_pettingzoo({})


def test_an_environment_must_name_its_agents() -> None:
    class Nameless(Script):
        possible_agents: ClassVar[list[str]] = []

    with pytest.raises(ConfigError, match="no possible_agents"):
        wrap_pettingzoo(Nameless())
