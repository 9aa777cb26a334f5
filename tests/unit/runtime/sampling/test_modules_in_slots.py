"""An env runner in whose slots several modules act: each sees, does and keeps what is its own."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from bad_slots import BadSlotEnv
from fakes import EncodingVectorEnv
from tiers import rarely

from trainables import PPOConfig
from trainables.core.data.spaces import PLAIN
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import EnvOptions, make_vector_env
from trainables.runtime.envs.sub_environment import SubEnvironmentError
from trainables.runtime.sampling.env_runner import EnvRunner, make_env_runner
from trainables.runtime.sampling.module_slots import ModuleSlots

EVEN, ODD = "even", "odd"
MEMORY = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 3, "lstm_use_prev_action": True}
COLUMNS = ("obs", "actions", "rewards", "terminated", "truncated", "valid", "continues")
REMOTE = {"remote_worker_envs": True, "remote_env_batch_wait_ms": 1e5}  # all slots are waited for


def module_of_slot(slot: int, worker_index: int) -> str:
    return (EVEN, ODD)[slot % 2]


BY_SLOT = ModuleSlots((EVEN, ODD), module_of_slot)


def policies_for(env: Any) -> dict[str, Policy]:
    """One with a memory and a filter, one that sees stacked frames."""
    spaces = env.single_observation_space, env.single_action_space
    memory = {"fcnet_hiddens": [4], **MEMORY}
    return {
        EVEN: Policy(*spaces, memory, observation_filter="MeanStdFilter", seed=1),
        ODD: Policy(*spaces, {"fcnet_hiddens": [8]}, frame_stack=3, seed=2),
    }


def runner_of(env: Any, policies: dict[str, Policy] | None = None, **settings: Any) -> EnvRunner:
    policies = policies or policies_for(env)
    slots = BY_SLOT if len(policies) > 1 else ModuleSlots([*policies])
    seed = np.random.SeedSequence(0)
    return make_env_runner(PPOConfig(**settings), policies, env, seed, module_slots=slots)


@pytest.mark.parametrize("where", rarely([{}, REMOTE], [{}]))
def test_each_slot_is_as_if_its_policy_acted_in_all(where: dict[str, Any]) -> None:
    def env_of_five() -> Any:
        # One by one, as in processes: slots of its vector environment share a random stream.
        config = {} if where else {"render_mode": "rgb_array"}
        return make_vector_env("CartPole-v1", config, 5, options=EnvOptions(remote=bool(where)))

    # Without exploring: else what is drawn depends on how many there are.
    settings = {"explore": False, "model": MEMORY, **where}
    both = runner_of(env_of_five(), **settings)
    slots = {EVEN: slice(0, 5, 2), ODD: slice(1, 5, 2)}
    alone = {}
    for m in slots:
        env = env_of_five()
        alone[m] = runner_of(env, {m: policies_for(env)[m]}, **settings)
    for num_steps in (40, 33):
        rollouts, _ = both.sample(num_steps)
        assert set(rollouts) == {EVEN, ODD}
        for m, runner in alone.items():
            own, whole = rollouts[m], runner.sample(num_steps)[0][m]
            for name in COLUMNS:
                expected = getattr(whole, name)[:, slots[m]]
                np.testing.assert_array_equal(getattr(own, name), expected, name)
            assert own.states and whole.states and own.state_stride == whole.state_stride
            for name, part in own.states.items():
                expected = whole.states[name][:, slots[m]]  # of another batch: rounded otherwise
                np.testing.assert_allclose(part, expected, atol=1e-6)
    frames = both.take_filter_moments()
    assert {m: moments.count for m, moments in frames.items()} == {EVEN: 3 * 73}
    for runner in (both, *alone.values()):
        runner.stop()


def test_whole_episodes_are_each_modules_own() -> None:
    runner = runner_of(EncodingVectorEnv(4, (2, 3, 5, 7)), batch_mode="complete_episodes")
    for _ in range(3):
        rollouts, episodes = runner.sample(9)
        for first, (m, rollout) in enumerate(rollouts.items()):
            obs = runner.policies[m].observations.layout.leaves(rollout.obs)[PLAIN]
            assert rollout.num_env_steps >= 2 * 9
            for column, slot in enumerate((first, first + 2)):
                rows = obs[:-1, column][rollout.valid[:, column]]
                assert (rows[:, 0] == slot).all() and rows[0, 2] == 0
                ends = (rollout.terminated | rollout.truncated)[:, column]
                assert ends.sum() == len(set(rows[:, 1])) == len(rows) / (2, 3, 5, 7)[slot]
        report = runner.report(rollouts, episodes)
        assert report.num_env_steps == sum(rollout.num_env_steps for rollout in rollouts.values())


def test_the_state_has_each_modules_part() -> None:
    runner = runner_of(make_vector_env("CartPole-v1", {}, 3))
    runner.sample(7)
    state = runner.get_state()
    ours = [runner.sample(20)[0] for _ in range(2)]
    other = runner_of(make_vector_env("CartPole-v1", {}, 3))
    assert other.set_state(state)
    for expected in ours:
        found, _ = other.sample(20)
        for m, rollout in expected.items():
            for name in (*COLUMNS, "logp"):
                np.testing.assert_array_equal(getattr(found[m], name), getattr(rollout, name))
    # A run of one module cannot go on where one of two was, nor with other slots of each.
    env = make_vector_env("CartPole-v1", {}, 3)
    assert not runner_of(env, {EVEN: policies_for(env)[EVEN]}).set_state(state)
    assert not runner_of(make_vector_env("CartPole-v1", {}, 4)).set_state(state)


def test_actions_that_are_nested_reach_their_slots() -> None:
    runner = runner_of(make_vector_env(Echoes, {}, 3), {m: echoing(m) for m in (EVEN, ODD)})
    rollouts, _ = runner.sample(4)
    for m, rollout in rollouts.items():
        # What the environment says it was given is what the module says it has done.
        np.testing.assert_array_equal(rollout.obs[1:, :, 0], rollout.rewards)
        np.testing.assert_array_equal(rollout.actions[:, :, -1], rollout.rewards, m)


def test_a_slot_is_called_by_its_number_among_all() -> None:
    BadSlotEnv.made = 0
    env = make_vector_env(BadSlotEnv, {"what": "where"}, 3)
    spaces = env.single_observation_space, env.single_action_space
    policies = {m: Policy(*spaces, {"fcnet_hiddens": [4]}, seed=0) for m in (EVEN, ODD)}
    runner = runner_of(env, policies)
    with pytest.raises(SubEnvironmentError, match="slot 1 of env runner 0: the observation"):
        runner.sample(20)


class Echoes(gym.Env):
    """Shows and rewards the number that it was given."""

    observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
    action_space = gym.spaces.Dict({"n": gym.spaces.Discrete(9), "b": gym.spaces.MultiBinary(2)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        number = float(action["n"])
        return np.full(1, number, np.float32), number, False, False, {}


def echoing(module_id: str) -> Policy:
    spaces = Echoes.observation_space, Echoes.action_space
    return Policy(*spaces, {"fcnet_hiddens": [4]}, seed={EVEN: 1, ODD: 2}[module_id])
