"""`observation_fn`: what policies see is what it makes of observations, in training and else."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from agents_play import allowed_actions
from telling_agents import PATTERNS, TellingAgents, where_of

from trainables import PPOConfig
from trainables.core.config.policies import PolicySpec
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import EnvOptions, make_slots
from trainables.runtime.envs.multi_agent.observation_fn import ObservationFn
from trainables.runtime.envs.sub_environment import SubEnvironmentError

DOUBLE = gym.spaces.Box(0, 2e6, (8,), np.float32)
SHOW_THE_LAST = ("together", "join later", "all at once", "two kinds", "sometimes absent")
AGENTS = ["agent_0", "agent_1"]


def twice(agent_obs: dict[Any, Any], **more: Any) -> dict[Any, Any]:
    """What an agent sees, two times."""
    return {agent: np.concatenate([obs, obs]) for agent, obs in agent_obs.items()}


def plus(agent_obs: dict[Any, Any], **more: Any) -> dict[Any, Any]:
    return {agent: obs + 1000 for agent, obs in agent_obs.items()}


def config_of(function: Any, env: Any = TellingAgents, **spaces: Any) -> PPOConfig:
    """Each agent has a policy of its own, whose observation space is given by the agent's name."""
    policies = {agent: PolicySpec(observation_space=spaces.get(agent)) for agent in AGENTS}
    config = PPOConfig().environment(env, env_config={"length": 4})
    return config.multi_agent(policies=policies, observation_fn=function).debugging(seed=0)


def slots_of(config: PPOConfig, num_envs: int = 1, **options: Any) -> Any:
    env_config = {"length": 4}
    return make_slots(config, config.env, env_config, num_envs, options=EnvOptions(**options))


def test_policies_see_what_it_returns_in_training_and_evaluation() -> None:
    seen: list[float] = []

    def marked(agent_obs: dict[Any, Any], **more: Any) -> dict[Any, Any]:
        seen.extend(float(obs[2]) for obs in agent_obs.values())
        return plus(agent_obs)

    config = config_of(marked).training(
        train_batch_size_per_learner=16, minibatch_size=16, num_epochs=1
    )
    config.evaluation(evaluation_interval=1, evaluation_duration=1)
    with config.build() as algo:
        rollouts, _ = algo.env_runners.local_env_runner.sample(8)
        assert set(rollouts) == set(AGENTS)
        for number, agent in enumerate(AGENTS):
            rows = rollouts[agent].obs[:-1][rollouts[agent].valid]
            assert (rows[:, 3] == 1000 + number).all() and (rows[:, 2] >= 1000).all()
        seen.clear()
        algo.evaluate()
        assert max(seen) == 4  # every step up to the last one of an episode


@pytest.mark.parametrize("pattern", [kind for kind in PATTERNS if kind != "masked"])
def test_it_sees_whatever_agents_are_shown_and_nothing_else_changes(pattern: str) -> None:
    def ten_more(agent_obs: dict[Any, Any]) -> dict[Any, Any]:
        assert agent_obs  # not called where nobody is observed
        return {agent: obs + obs.dtype.type(1000) for agent, obs in agent_obs.items()}

    plain = slots_of(config_of(None, PATTERNS[pattern]), 2)
    changed = slots_of(config_of(ten_more, PATTERNS[pattern]), 2)
    assert all(isinstance(env, ObservationFn) for env in changed.envs)
    steps, rng = [slots.reset([1, 2]) for slots in (plain, changed)], np.random.default_rng(0)
    for _ in range(20):
        for mine, theirs in zip(steps[0].groups, steps[1].groups, strict=True):
            for name in ("rewards", "terminated", "truncated", "acts", "begins"):
                np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
            shown = mine.acts.copy()
            if pattern in SHOW_THE_LAST:
                shown |= mine.terminated | mine.truncated
            np.testing.assert_array_equal(
                where_of(theirs.obs)[shown], where_of(mine.obs)[shown] + 1000
            )
        assert steps[0].infos == steps[1].infos
        actions = allowed_actions(plain, steps[0], rng)
        steps = [slots.step(actions) for slots in (plain, changed)]


def test_a_new_space_is_that_of_the_policy_spec() -> None:
    config = config_of(twice, agent_0=DOUBLE, agent_1=DOUBLE)
    (group,) = slots_of(config, check=True).groups
    assert group.observation_space == DOUBLE
    with config.build() as algo:
        assert algo.get_policy("agent_1").observation_space == DOUBLE

    def only_first(agent_obs: dict[Any, Any]) -> dict[Any, Any]:
        return agent_obs | {"agent_0": twice(agent_obs)["agent_0"]}

    groups = slots_of(config_of(only_first, agent_0=DOUBLE), check=True).groups
    assert [(g.agents, g.observation_space.shape) for g in groups] == [
        (("agent_0",), (8,)),
        (("agent_1",), (4,)),
    ]


@pytest.mark.parametrize("check", [True, False])
def test_an_observation_of_another_space_names_agent_and_shapes(check: bool) -> None:
    with pytest.raises(
        (ConfigError, SubEnvironmentError),
        match=r"observation_fn = .*:twice .*'agent_1' has shape \(8,\), the space has \(4,\); "
        r".* observation_space of the PolicySpec",
    ):
        slots_of(config_of(twice, agent_0=DOUBLE), check=check).reset([0])


def test_what_is_wrong_with_it_is_no_reason_to_replace_an_environment() -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda agent_obs: None, "returned a NoneType, not a dict by agent"),
        (lambda agent_obs: {"agent_0": agent_obs["agent_0"]}, "exactly those that"),
        (lambda agent_obs: agent_obs | {"me": 0}, r"agents \['agent_0', 'agent_1', 'me'\]"),
        (lambda agent_obs: agent_obs["nobody"], "raised KeyError: 'nobody'"),
        (lambda agent_obs, episode: {a: episode.length for a in agent_obs}, "AttributeError"),
    ]
    for function, words in wrong:
        slots = slots_of(config_of(function), restart=True)
        says = rf"slot 0 .*reset: observation_fn = .*{words}"
        with pytest.raises(SubEnvironmentError, match=says):
            slots.reset([0])
        assert slots.num_restarts == 0


def test_it_gets_as_much_as_it_takes() -> None:
    calls: list[Any] = []

    def by_name(agent_obs: Any, worker: Any, base_env: Any, policies: Any, episode: Any) -> Any:
        calls.append((worker, type(base_env), policies, episode))
        return agent_obs

    def all_else(*, agent_obs: Any, **more: Any) -> Any:
        calls.append(sorted(more))
        return agent_obs

    def other_name(obs: Any, policies: Any = 3) -> Any:
        calls.append(policies)
        return obs

    def everything(**given: Any) -> Any:
        calls.append(sorted(given))
        return given["agent_obs"]

    for function in (by_name, all_else, other_name, everything):
        slots_of(config_of(function)).reset([0])
    more = ["base_env", "episode", "policies", "worker"]
    assert calls == [(None, TellingAgents, None, None), more, None, ["agent_obs", *more]]


def test_by_name_and_with_an_environment_of_one_agent() -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .multi_agent(policies=["p"], observation_fn=f"{__name__}:plus")
    )
    slots = make_slots(config, "CartPole-v1", {}, 2)
    plain = make_slots(config.copy(copy_frozen=False).multi_agent(observation_fn=None), config.env)
    first, its = slots.reset([3, 4]).groups[0].obs, plain.reset([3]).groups[0].obs
    np.testing.assert_allclose(first[0], its[0] + 1000)


def test_a_state_goes_on_within_an_episode() -> None:
    slots = slots_of(config_of(plus), 2)
    slots.reset([1, 2])
    slots.step([np.zeros(4, np.int64)])
    other = slots_of(config_of(plus), 2)
    other.reset([7, 8])
    other.set_state(slots.get_state())
    for _ in range(6):
        mine, its = (s.step([np.zeros(4, np.int64)]).groups[0] for s in (slots, other))
        np.testing.assert_array_equal(mine.obs, its.obs)
        np.testing.assert_array_equal(mine.rewards, its.rewards)


@pytest.mark.parametrize(
    ("env", "policies", "words"),
    [
        ("multi_agent_cartpole", ["a"], "without dicts by agent"),
        ("CartPole-v1", None, "has one agent"),
    ],
)
def test_environments_without_dicts_are_refused(env: str, policies: Any, words: str) -> None:
    config = PPOConfig().environment(env)
    config.multi_agent(policies=policies, observation_fn=plus)
    with pytest.raises(ConfigError, match=f"observation_fn is not supported with env '{env}'"):
        make_slots(config, env, {}, 2)
    with pytest.raises(ConfigError, match=words):
        config.build()
