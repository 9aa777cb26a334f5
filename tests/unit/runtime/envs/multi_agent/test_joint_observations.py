"""What all agents see, in the observation of each: of agents in turns, late ones and ended ones."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from agents_play import allowed_actions
from telling_agents import PATTERNS, TellingAgents, row, where_of
from tiers import rarely

from trainables import A2CConfig, APPOConfig, IMPALAConfig, PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.joint_observations import JOINT_OBS, JointObservations
from trainables.runtime.envs.multi_agent.native import NATIVE

SLOTS = 2


def made(kind: type[TellingAgents]) -> tuple[JointObservations, DictSlots]:
    makers = [partial(kind, {"num_agents": 3, "slot": slot}) for slot in range(SLOTS)]
    slots = DictSlots(makers)
    return JointObservations(slots), slots


def key_of(env: Any, agent: Any, seen_by: Any) -> str:
    """The key of an agent in what another one sees: how far it is behind it in their group."""
    [agents] = [group.agents for group in env.groups if seen_by in group.agents]
    if agent not in agents:
        return str(agent)
    return f"next_{(agents.index(agent) - agents.index(seen_by)) % len(agents)}"


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_each_sees_what_all_were_shown_last_in_this_episode(pattern: str) -> None:
    env, slots = made(PATTERNS[pattern])
    step = env.reset([1, 2])
    begun: set[tuple[int, Any]] = set()
    num_hidden = num_resets = 0
    rng = np.random.default_rng(0)
    for _ in range(40):
        for slot in range(SLOTS):
            if step.resets[slot]:
                num_resets += 1
                begun = {(s, agent) for s, agent in begun if s != slot}
            for agent in slots.agents:
                group, index = row(env, slot, agent)
                if step.groups[group].begins[index]:
                    begun.add((slot, agent))
            for agent in slots.agents:
                group, index = row(env, slot, agent)
                obs = step.groups[group].obs
                own = where_of(obs.get("observation", obs))[index]
                if (slot, agent) not in begun:
                    num_hidden += 1
                    own = np.zeros(4)
                else:  # of this episode, not of one before
                    assert own[1] == slots.envs[slot].episode
                for other in slots.agents:
                    its_group, its_row = row(env, slot, other)
                    joint = step.groups[its_group].obs[JOINT_OBS][key_of(env, agent, other)]
                    np.testing.assert_array_equal(where_of(joint)[its_row], own)
        step = env.step(allowed_actions(env, step, rng))
    assert num_resets > 2 * SLOTS
    assert num_hidden or pattern not in ("turns", "join later", "sometimes absent")


def test_observations_are_of_their_spaces() -> None:
    for name in sorted(NATIVE):
        env = JointObservations(NATIVE[name]({}, 2))
        for group, rows in zip(env.groups, env.reset([0, 1]).groups, strict=True):
            assert group.observation_space.contains(_first(rows.obs)), name


def _first(tree: Any) -> Any:
    return {k: _first(v) for k, v in tree.items()} if isinstance(tree, dict) else tree[0]


def test_a_state_goes_on_alike() -> None:
    env = JointObservations(NATIVE["multi_agent_grid_world"]({"max_steps": 5}, 3))
    step, rng = env.reset([1, 2, 3]), np.random.default_rng(0)
    for _ in range(4):
        step = env.step(allowed_actions(env, step, rng))
    state = env.get_state()
    assert state is not None
    other = JointObservations(NATIVE["multi_agent_grid_world"]({"max_steps": 5}, 3))
    other.reset([7, 8, 9])
    other.set_state(state)
    for _ in range(12):
        given = allowed_actions(env, step, rng)
        step, its = env.step(given), other.step(given)
        for rows, theirs in zip(step.groups, its.groups, strict=True):
            for name, part in rows.obs[JOINT_OBS].items():
                for key, values in part.items():
                    np.testing.assert_array_equal(values, theirs.obs[JOINT_OBS][name][key])


class _Named(TellingAgents):
    names: ClassVar[list[Any]] = [1, "1"]

    def __init__(self, env_config: Any = None):
        super().__init__(env_config)
        self.possible_agents = self.names
        self.observation_spaces = dict.fromkeys(self.possible_agents, gym.spaces.Discrete(2))
        self.action_spaces = dict.fromkeys(self.possible_agents, gym.spaces.Discrete(2))


class _NamedAsAKey(_Named):
    names: ClassVar[list[Any]] = ["next_1", "other"]


class _Knows(TellingAgents):
    def sees(self, agent: Any) -> gym.Space:
        return gym.spaces.Dict({JOINT_OBS: gym.spaces.Discrete(2)})


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (_Named, "alike as strings"),
        (_NamedAsAKey, "'next_1' of an agent"),
        (_Knows, "already; allowed: critic_obs"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(kind: type[TellingAgents], words: str) -> None:
    with pytest.raises(ConfigError, match=f"centralized_critic.*{words}"):
        made(kind)


# ------------------------------------------------------------------ MAPPO


def convoy(**settings: Any) -> Any:
    config = PPOConfig().environment("convoy").multi_agent(policies=["driver"])
    config.multi_agent(policy_mapping_fn={"*": "driver"}).env_runners(num_envs_per_env_runner=8)
    config.training(train_batch_size_per_learner=400, minibatch_size=400, num_epochs=10, lr=3e-3)
    return config.update_from_dict({"gamma": 0.95, "seed": 0, **settings}).build()


@pytest.mark.full("test_other_algorithms_have_a_critic_of_all_agents_too")
def test_a_critic_of_all_agents_knows_what_one_cannot() -> None:
    """The tolls of the others are most of a return."""
    explained = {}
    for centralized in (False, True):
        with convoy(centralized_critic=centralized) as algo:
            for _ in range(12):
                result = algo.train()
            explained[centralized] = result["learner/driver/vf_explained_var"]
    assert explained[True] > 0.95
    assert explained[False] < 0.85


def test_a_run_with_it_is_resumed_to_the_bit(tmp_path: Any) -> None:
    with convoy(centralized_critic=True) as algo:
        algo.train()
        folder = algo.save(str(tmp_path / "ck"))
        result = algo.train()
    with convoy(centralized_critic=True) as other:
        other.restore(folder)
        again = other.train()
    for name in ("episode_return_mean", "learner/driver/total_loss", "learner/driver/vf_loss"):
        assert again[name] == result[name], name


def test_its_evaluations_have_the_same_observations() -> None:
    with convoy(centralized_critic=True, evaluation_duration=4) as algo:
        algo.train()
        evaluation = algo.evaluate()
        assert evaluation["num_episodes"] == 4
        policy = algo.get_policy("driver")
        alone = policy.compute_single_action(
            {"observation": np.array([0, 1, 0, 0, 0.5], np.float32)}, explore=False
        )
        assert alone in range(4)


@pytest.mark.parametrize("kind", rarely([A2CConfig, APPOConfig, IMPALAConfig], [APPOConfig]))
def test_other_algorithms_have_a_critic_of_all_agents_too(kind: Any) -> None:
    config = kind().environment("convoy").multi_agent(policies=["driver"], centralized_critic=True)
    config.multi_agent(policy_mapping_fn={"*": "driver"}).env_runners(num_envs_per_env_runner=4)
    config.training(train_batch_size_per_learner=80).debugging(seed=0)
    with config.build() as algo:
        module = algo.get_policy("driver").module
        before = module.value_encoder.get_parameter("0.weight").detach().clone()
        assert before.shape[1] == 5 + 4 * 5  # own observation, and that of each
        assert module.encoder.get_parameter("0.weight").shape[1] == 5
        algo.train()
        moved = (module.value_encoder.get_parameter("0.weight") != before).any(0)
        assert moved.all()
