"""Slots of environments with several agents that fail, or do not keep to the API."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from refusals import Golden, refusals
from telling_agents import BOX, PATTERNS, SEEN, Scripted, TellingAgents, reward_of, scripted, who

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.checks import check_multi_agent_env
from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.forms import MultiAgentApiError
from trainables.runtime.envs.slots import EnvContext
from trainables.runtime.envs.sub_environment import SubEnvironmentError

NO_END = {"__all__": False}
STRANGER = {"c": SEEN}


def in_slots(parts: dict[str, Any], reset: Any = None) -> None:
    slots = scripted(reset=reset, **parts)
    slots.reset()
    slots.step([np.zeros(2, np.int64)])


def checked(parts: dict[str, Any], reset: Any = None) -> None:
    check_multi_agent_env(Scripted(parts, reset), "duel")


def test_wrong_resets_and_steps_are_errors(golden: Golden) -> None:
    steps: list[dict[str, Any]] = [
        {"result": (1, 2)},
        {"result": None},
        {"obs": []},
        {"terminateds": {}},
        {"truncateds": {"a": True}},
        {"terminateds": {"__all__": 1}},
        {"truncateds": NO_END | {"b": None}},
        {"obs": STRANGER},
        {"rewards": {"c": 1.0}},
        {"infos": {"c": {}}},
        {"terminateds": NO_END | {"c": False}},
        {"obs": {"a": np.zeros(3)}},
        {"obs": {"a": np.zeros(2, int) + 1j}},
        {"obs": {"b": [[1], [1, 2]]}},
        {"rewards": {"b": "1"}},
        {"rewards": {"b": np.ones(1)}},
    ]
    resets = [SEEN, ({"a": SEEN}, None), ({}, {}), (STRANGER, {})]
    cases: dict[str, Any] = {f"step: {parts}": (parts,) for parts in steps}
    cases |= {f"reset: {result}": ({}, result) for result in resets}
    texts = refusals(in_slots, cases, MultiAgentApiError)
    of_numpy = r"(is no array): .*"
    texts = {case: re.sub(of_numpy, r"\1: <why>", text) for case, text in texts.items()}
    golden("dict_slots/wrong_steps", texts)
    only_checked = [SEEN + 3, SEEN.astype(np.float64), SEEN * np.nan, [0.0, 0.0]]
    cases |= {f"only checked: {obs!r}": ({"obs": {"a": SEEN, "b": obs}},) for obs in only_checked}
    golden("dict_slots/wrong_steps_in_checks", refusals(checked, cases))


def test_a_reward_that_is_not_finite_is_an_error() -> None:
    for reward in (np.nan, float("inf"), np.float32("-inf")):
        parts = {"rewards": {"a": reward}}
        says = r"slot 0: step 1 raised .* agent 'a' is -?(inf|nan),"
        with pytest.raises(SubEnvironmentError, match=says):
            in_slots(parts)
        with pytest.raises(ConfigError, match=r"'duel': step 1 raised .*not a finite number"):
            checked(parts)


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


def test_steps_of_waiting_count_in_a_row() -> None:
    slots = scripted(obs={})
    slots.reset()
    for _ in range(2):
        for _ in range(999):
            slots.step([np.zeros(2, np.int64)])
        slots.envs[0].parts["obs"] = {"a": SEEN}
        slots.step([np.zeros(2, np.int64)])
        slots.envs[0].parts["obs"] = {}


def _with(**attributes: Any) -> Callable[[], Any]:
    def make() -> Any:
        env = Scripted()
        for name, value in attributes.items():
            setattr(env, name, value)
        return env

    return make


def test_agents_and_spaces_must_be_said(golden: Golden) -> None:
    makes: dict[str, Any] = {
        "nobody": _with(possible_agents=[]),
        "twice": _with(possible_agents=["a", "a"]),
        "__all__": _with(possible_agents=["a", "__all__"]),
        "an observation space": _with(observation_spaces={"a": BOX}),
        "no action space": _with(action_space=None),
        "text as action": _with(action_space=gym.spaces.Text(3)),
        "one agent": lambda: gym.make("CartPole-v1"),
    }

    def slots(make: Callable[[], Any]) -> None:
        DictSlots([make], names=["env 'duel', slot 0"])

    texts = refusals(slots, makes)
    theirs = refusals(lambda make: check_multi_agent_env(make(), "duel"), makes)
    golden("dict_slots/agents_and_spaces", texts | {f"check: {k}": v for k, v in theirs.items()})


def test_all_slots_have_the_same_agents() -> None:
    made = [Scripted(), _with(possible_agents=["a"])()]
    with pytest.raises(ConfigError, match=r"^env 'Scripted', slot 1 has the agents and spaces"):
        DictSlots([lambda: made[0], lambda: made[1]])


def test_environments_that_keep_to_the_api_pass_the_check() -> None:
    state = np.random.get_state()[1]
    for name, kind in PATTERNS.items():
        check_multi_agent_env(kind(EnvContext({"length": 3})), name)
    np.testing.assert_array_equal(np.random.get_state()[1], state)


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
