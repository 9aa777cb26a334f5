"""The slots of several environments as one: each goes on as it does alone."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from trainables.runtime.envs.joint_slots import SlotsInTurn, joint_slots

SLOTS = 6


def made(seeds: tuple[int, ...], **options: float) -> list[CartPoleVectorEnv]:
    envs = [CartPoleVectorEnv(SLOTS, **options) for _ in seeds]
    for env, seed in zip(envs, seeds, strict=True):
        env.reset(seed=seed)
    return envs


def test_what_differs_is_not_joined() -> None:
    heavier, wider = made((1, 2)), made((1, 2))
    heavier[1].gravity = 20.0
    wider[1].reset(seed=2, options={"low": -0.2, "high": 0.2})
    longer = [*made((1,)), *made((2,), max_episode_steps=9)]
    for envs in (heavier, wider, longer):
        assert isinstance(joint_slots(envs), SlotsInTurn)


def test_what_is_not_known_is_stepped_in_turn_and_fails_alone() -> None:
    def plain() -> list[gym.vector.VectorEnv]:
        envs = [gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync") for _ in range(3)]
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
        return envs

    together, alone = plain(), plain()
    joint = joint_slots(together)
    assert isinstance(joint, SlotsInTurn)
    joint.load()
    for step in range(5):
        if step == 3:
            together[1].envs[1].unwrapped.step = None  # type: ignore[attr-defined]
        actions = np.full((6, 1), 0.1 * step, np.float32)
        found = joint.step(actions)
        for k in (0, 2):
            for part, own in zip(found, alone[k].step(actions[:2])[:4], strict=True):
                np.testing.assert_array_equal(part[2 * k : 2 * k + 2], own)
    assert list(joint.failures) == [1]
    assert "not callable" in str(joint.failures[1])
    dicts = [gym.make_vec("Blackjack-v1", 2, vectorization_mode="sync") for _ in range(2)]
    assert joint_slots(dicts) is None  # its observations are tuples
