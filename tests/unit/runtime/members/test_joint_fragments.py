"""Fragments of several env runners, sampled at once: each as it is alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainables import PPO, PPOConfig
from trainables.core.data.batch import Rollout
from trainables.core.features import using
from trainables.runtime.callbacks.callbacks import DefaultCallbacks
from trainables.runtime.envs.sub_environment import SubEnvironmentError
from trainables.runtime.members.fragment_request import FragmentRequest
from trainables.runtime.members.hosted_env_runner import HostedEnvRunner
from trainables.runtime.members.joint_fragments import JointFragments

SLOTS = 5


def made(seed: int, uniform: bool = False, **settings: Any) -> PPO:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_envs_per_env_runner=SLOTS)
    given = {"train_batch_size_per_learner": 200, "minibatch_size": 50, "seed": seed, **settings}
    given["model"] = {"fcnet_hiddens": [16], **settings.get("model", {})}
    with using("batching"):
        algo = config.update_from_dict(given).build()
    algo.get_policy().set_exploration(uniform=uniform)
    return algo


def runner_of(algo: PPO) -> HostedEnvRunner:
    runner = algo.env_runners.local_env_runner
    assert isinstance(runner, HostedEnvRunner)
    return runner


def requests_of(algos: list[PPO], num_steps: int) -> list[FragmentRequest]:
    return [FragmentRequest(runner_of(algo), num_steps) for algo in algos]


def assert_alike(found: Rollout, expected: Rollout) -> None:
    """To the bit, where actions are discrete; continuous ones are rounded otherwise."""
    rounding = 1e-3 if found.actions.dtype == np.float32 else 0.0
    for name in ("obs", "actions", "rewards"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(ours, theirs, rtol=rounding, atol=rounding, err_msg=name)
    for name in ("terminated", "truncated", "valid", "continues", "follows", "is_first"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(found.weights_version, expected.weights_version)
    np.testing.assert_allclose(found.logp, expected.logp, atol=1e-5 + rounding)
    assert found.obs.flags.c_contiguous and found.rewards.flags.c_contiguous


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"env_config": {"max_episode_steps": 11}},
        {"env_config": {"sutton_barto_reward": True}},
        {"observation_filter": "MeanStdFilter"},
        {"explore": False},
        {"uniform": True},
        {"env": "Pendulum-v1", "normalize_actions": True, "model": {"fcnet_activation": "relu"}},
        {"env": "Pendulum-v1", "env_config": {"max_episode_steps": 7}, "clip_actions": True},
    ],
)
def test_each_samples_what_it_samples_alone(settings: dict[str, Any]) -> None:
    together, alone = ([made(seed, **settings) for seed in range(3)] for _ in range(2))
    requests = requests_of(together, 40)
    assert [one.why_alone() for one in requests] == [None] * 3
    assert len({one.key() for one in requests}) == 1
    program = JointFragments([runner_of(algo) for algo in together])
    num_ended = 0
    for fragment in range(4):
        if fragment == 2:  # one by one for a while
            answers = [one.alone() for one in requests_of(together, 40)]
        else:
            answers = program.run(requests_of(together, 40))
        for k, (rollouts, episodes) in enumerate(answers):
            expected, its_episodes = requests_of(alone, 40)[k].alone()
            [found], [own] = rollouts.values(), expected.values()
            assert_alike(found, own)
            assert episodes.lengths == its_episodes.lengths
            assert episodes.returns == pytest.approx(its_episodes.returns, rel=1e-4)
            num_ended += len(episodes.returns)
            ours, theirs = runner_of(together[k]).get_state(), runner_of(alone[k]).get_state()
            for name in ("lengths", "resets_next", "is_first"):
                np.testing.assert_array_equal(ours[name], theirs[name])
            np.testing.assert_allclose(ours["returns"], theirs["returns"], rtol=1e-4)
            if settings.get("env") is None:
                assert ours["env"]["random"] == theirs["env"]["random"]
            np.testing.assert_array_equal(ours["generator"], theirs["generator"])
    assert num_ended > 10 or settings.get("env") == "Pendulum-v1"


def test_who_gives_no_finite_number_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    together, alone = ([made(seed) for seed in range(3)] for _ in range(2))
    program = JointFragments([runner_of(algo) for algo in together])
    step = program._slots.step
    count = iter(range(1000))

    def spoilt(actions: np.ndarray) -> Any:
        obs, rewards, *rest = step(actions)
        if next(count) == 20:
            rewards[SLOTS + 2] = np.nan  # slot 2 of the second
        return obs, rewards, *rest

    monkeypatch.setattr(program._slots, "step", spoilt)
    answers = program.run(requests_of(together, 40))
    assert isinstance(answers[1], SubEnvironmentError)
    assert "slot 2 of env runner 0: the reward of step" in str(answers[1])
    for k in (0, 2):
        [own] = requests_of(alone, 40)[k].alone()[0].values()
        [found] = answers[k][0].values()
        assert_alike(found, own)


class _Watches(DefaultCallbacks):
    def on_episode_step(self, **_: Any) -> None:
        """Sees each step."""


def test_reasons_for_sampling_alone() -> None:
    def reason(**settings: Any) -> str | None:
        with made(0, **settings) as algo:
            return FragmentRequest(runner_of(algo), 40).why_alone()

    assert reason() is None
    assert reason(callbacks_class=_Watches) == "callbacks see its steps"
    assert "memory" in str(reason(model={"use_lstm": True}))
    assert "whole episodes" in str(reason(batch_mode="complete_episodes"))
