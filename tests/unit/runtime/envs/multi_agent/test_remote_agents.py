"""Slots with several agents in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents_play import told
from breaking_agents import BreakingAgents, breaking_by_function
from telling_agents import PATTERNS
from tiers import rarely

from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import make_slots
from trainables.runtime.envs.multi_agent.agents_slot import AgentsSlot
from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.forms import MultiAgentApiError
from trainables.runtime.envs.multi_agent.remote_slot import RemoteAgentsSlot
from trainables.runtime.envs.remote.process import SlotDiedError
from trainables.runtime.envs.slots import EnvOptions
from trainables.runtime.envs.sub_environment import SubEnvironmentError
from trainables.runtime.sampling.agents.runner import AgentsEnvRunner
from trainables.runtime.sampling.env_runner import check_runner_class

NAME = "env 'breaking_agents:BreakingAgents', slot 0 of env runner 0"


def breaking(num_envs: int = 2, env: Any = BreakingAgents, **given: Any) -> DictSlots:
    asked = {name: given.pop(name) for name in ("remote", "restart", "check") if name in given}
    options = EnvOptions(**{"remote": True, **asked})
    made = make_slots(PPOConfig(), env, {"length": 4, **given}, num_envs, options=options)
    assert isinstance(made, DictSlots)
    return made


def played(slots: DictSlots, num_steps: int, first: int = 0) -> list[Any]:
    actions = np.random.default_rng(0).integers(0, 2, (first + num_steps, slots.num_envs * 2))
    return [told(slots.step([row])) for row in actions[first:]]


def in_both(num_steps: int, **given: Any) -> tuple[list[Any], list[Any], list[int]]:
    """What slots in this process and in others give, and how often each were replaced."""
    found, restarts = [], []
    for remote in (False, True):
        slots = breaking(remote=remote, restart=True, **given)
        found.append([told(slots.reset([4, 5])), *played(slots, num_steps)])
        restarts.append(slots.num_restarts)
        slots.close()
    return found[0], found[1], restarts


def rollouts_of(env: Any, remote: bool, **env_config: Any) -> list[Any]:
    """Two samples of two learning policies and one that is drawn, and what is counted."""
    config = (
        PPOConfig()
        .environment(env, env_config={"num_agents": 3, "length": 4, **env_config})
        .env_runners(num_envs_per_env_runner=2, remote_worker_envs=remote)
        .multi_agent(
            policies={"p0": None, "p1": None, "random": {"policy_class": "random"}},
            policy_mapping_fn={"agent_0": "p0", "agent_1": "p1", "agent_2": "random"},
        )
        .training(model={"fcnet_hiddens": [8]})
        .debugging(seed=3)
    )
    with config.build() as algorithm:
        runner = algorithm.env_runners.local_env_runner
        assert isinstance(runner, AgentsEnvRunner)
        slots: Any = runner.env
        kinds = {type(slot) for slot in slots._slots}
        assert kinds == {RemoteAgentsSlot if remote else AgentsSlot}
        found = [runner.sample(length) for length in (7, 30)]
    return [
        ({module: vars(rollout) for module, rollout in rollouts.items()}, vars(episodes))
        for rollouts, episodes in found
    ]


@pytest.mark.parametrize("pattern", rarely(["random turns", "two kinds"], ["two kinds"]))
def test_rows_are_those_of_slots_in_this_process(pattern: str) -> None:
    one, other = (rollouts_of(PATTERNS[pattern], remote) for remote in (False, True))
    assert {*one[1][0]} == {"p0", "p1"}
    assert one[1][1]["returns"], "no episode ended: no test"
    np.testing.assert_equal(one, other)


def test_each_slot_has_a_process_without_large_packages() -> None:
    slots = breaking(tells=True, check=True)
    slots.reset()
    commons = [infos["__common__"] for infos in slots.step([np.zeros(4, np.int64)]).infos]
    slots.close()
    assert len({os.getpid(), *(common["process"] for common in commons)}) == 3
    assert [common["has"] for common in commons] == [[], []]


def test_the_state_crosses_processes_both_ways() -> None:
    here, there = breaking(remote=False), breaking()
    for first, second in ((here, there), (there, here)):
        first.reset([1, 2])
        second.reset([3, 4])
        played(first, 5)  # an episode's end: the next step only resets
        state = first.get_state()
        assert state is not None
        second.set_state(state)
        np.testing.assert_equal(played(first, 12, 5), played(second, 12, 5))
    there.close()


@pytest.mark.full("test_rows_are_those_of_slots_in_this_process")
def test_steps_are_made_side_by_side(tmp_path: Path) -> None:
    slots = breaking(meet=str(tmp_path))
    slots.reset()
    played(slots, 3)  # else each would wait for the other for ever
    slots.close()
    assert (tmp_path / "1 3").exists()


@pytest.mark.full("test_a_process_that_dies_is_replaced")
def test_an_environment_that_raises_is_replaced_as_in_this_process() -> None:
    one, other, restarts = in_both(9, breaks={1: "raise"})
    np.testing.assert_equal(one, other)
    assert restarts[0] == restarts[1] > 1
    assert [step[3].tolist() for step in one[:3]] == [[False, False]] * 2 + [[False, True]]


@pytest.mark.parametrize("what", rarely(["die", "make"], ["die"]))
def test_a_process_that_dies_is_replaced(what: str, tmp_path: Path) -> None:
    """In the row that lost it only a fresh environment's reset is seen; the others go on."""
    slots = breaking(breaks={1: what}, once=str(tmp_path), restart=True)
    calm = breaking(remote=False)
    found = [[told(own.reset([4, 5])), *played(own, 8)] for own in (slots, calm)]
    assert [step[3].tolist() for step in found[0]] == [[False, n == 2] for n in range(9)]
    assert slots.num_restarts == (2 if what == "make" else 1)
    for own, other in zip(*found, strict=True):
        for name, values in own[0][0].items():
            np.testing.assert_array_equal(values[:2], other[0][0][name][:2])  # those of slot 0
    rows = found[0][2][0][0]
    assert rows["begins"][2:].sum() == rows["acts"][2:].sum() == 1
    assert not rows["rewards"][2:].any()
    assert slots.get_state() is not None
    slots._slots[0]._process._process.kill()  # type: ignore[union-attr]
    slots._slots[0]._process._process.wait()  # type: ignore[union-attr]
    assert slots.get_state() is None, "what is lost has no state"
    assert played(slots, 1)[0][3].tolist() == [True, False]
    slots.close()


def test_an_error_there_is_one_error_here() -> None:
    says = {
        "raise": (SubEnvironmentError, f"{NAME}: step 2 raised OSError: lost"),
        "api": (MultiAgentApiError, f"{NAME}, step 2: step's terminateds has no key '__all__'"),
        "stranger": (MultiAgentApiError, f"{NAME}, step 2: a reward is of agent 'stranger', whic"),
        "secret": (ConfigError, f"{NAME}: what step returned cannot cross processes"),
        "die": (SlotDiedError, f"{NAME}: its process has ended (signal 9)"),
    }
    for what, (kind, text) in says.items():
        slots = breaking(1, breaks={0: what})
        slots.reset()
        with pytest.raises(kind) as error:
            played(slots, 3)
        assert type(error.value) is kind
        assert str(error.value).startswith(text)
        slots.close()


def test_after_an_error_no_answer_is_taken_for_another(tmp_path: Path) -> None:
    slots = breaking(breaks={0: "raise"}, once=str(tmp_path))
    slots.reset([4, 5])
    with pytest.raises(SubEnvironmentError, match="slot 0 of env runner 0: step 2 raised OSErr"):
        played(slots, 2)
    calm = breaking(remote=False)
    for own in (slots, calm):
        own.reset([6, 7])
    found = [[own.step([np.zeros(4, np.int64)]).infos for _ in range(3)] for own in (slots, calm)]
    assert found[0] == found[1]
    slots.close()


def test_too_many_deaths_in_a_row_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "trainables.runtime.envs.multi_agent.remote_slot.MAX_CONSECUTIVE_FAILURES", 1
    )
    slots = breaking(1, restart=True)
    slots.reset()
    (slot,) = slots._slots
    assert isinstance(slot, RemoteAgentsSlot)
    monkeypatch.setattr(slot._process, "restart", lambda: None)
    slot._process._process.kill()
    with pytest.raises(SlotDiedError, match=r"slot 0 .* \(signal 9\), 2 times in a row"):
        played(slots, 1)
    slots.close()


def test_what_cannot_be_made_there_is_told_as_here() -> None:
    says = []
    for remote in (False, True):
        with pytest.raises(ConfigError) as error:
            breaking(1, remote=remote, breaks={0: "unmade"})
        says.append(str(error.value))
    assert says[0] == says[1]
    assert says[0].endswith("OSError: no licence")


def test_the_first_environment_is_checked_there() -> None:
    with pytest.raises(ConfigError, match=r"step 2: .*'stranger'"):
        breaking(1, breaks={0: "stranger"}, check=True)
    slots = breaking(1, check=True)
    with pytest.raises(AttributeError, match=r"slot 0 .*is in a process of its own"):
        _ = slots.envs
    slots.close()


@pytest.mark.full("test_rows_are_those_of_slots_in_this_process")
def test_a_creator_of_several_agents_is_found_out() -> None:
    slots = breaking(1, breaking_by_function)
    assert slots.agents == ("agent_0", "agent_1")
    slots.close()


def test_native_games_are_refused_with_the_reason() -> None:
    says = "remote_worker_envs is not supported with env 'matrix_game', .* in array operations"
    with pytest.raises(ConfigError, match=says):
        make_slots(PPOConfig(), "matrix_game", options=EnvOptions(remote=True))


class Own(AgentsEnvRunner):
    """An env runner of one's own."""


def test_env_runners_of_several_agents_are_of_one_class() -> None:
    config = PPOConfig().multi_agent(policies=["a"]).env_runners(remote_worker_envs=True)
    check_runner_class(config.copy().env_runners(env_runner_cls=Own))
    with pytest.raises(ConfigError, match=r"allowed: a subclass of .*:AgentsEnvRunner$"):
        check_runner_class(config.env_runners(env_runner_cls="pathlib:Path"))
