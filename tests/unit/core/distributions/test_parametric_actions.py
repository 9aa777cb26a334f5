"""A module of the user's: actions that are offered as vectors, by the example of the guide."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from page_blocks import block_with

from trainables import Algorithm, Policy, PPOConfig
from trainables.core.errors import ConfigError
from trainables.core.networks.modules import ActorCritic

NUM_OFFERS, WIDTH = 5, 3
PAGE = "trainables/guides/networks.md"


def example() -> type[ActorCritic]:
    """The class in the guide."""
    code = block_with(PAGE, "class Offers")
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(code, PAGE, "exec"), names)
    return names["Offers"]


Offers = example()


class Shop(gym.Env):
    """Offers in random order; the one nearest to the wish pays. Some places are empty."""

    def __init__(self) -> None:
        self.action_space = Discrete(NUM_OFFERS)
        self.observation_space = Dict(
            {
                "wish": Box(-1, 1, (WIDTH,)),
                "offers": Box(-1, 1, (NUM_OFFERS, WIDTH)),
                "action_mask": Box(0, 1, (NUM_OFFERS,), np.int8),
            }
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self._next(), {}

    def _next(self) -> dict[str, np.ndarray]:
        random = self.np_random
        mask = np.ones(NUM_OFFERS, np.int8)
        mask[random.choice(NUM_OFFERS, 2, replace=False)] = 0
        wish = np.eye(WIDTH, dtype=np.float32)[random.integers(WIDTH)]
        offers = random.uniform(-1, 1, (NUM_OFFERS, WIDTH)).astype(np.float32)
        self.obs = {"wish": wish, "offers": offers, "action_mask": mask}
        return self.obs

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        assert self.obs["action_mask"][action]
        worth = self.obs["offers"] @ self.obs["wish"]
        legal = worth[self.obs["action_mask"] == 1]
        reward = float(worth[action] == legal.max())
        self.t += 1
        return self._next(), reward, False, self.t == 20, {}


def shop(config: dict[str, Any]) -> gym.Env:
    return Shop()


def build() -> Algorithm:
    return (
        PPOConfig()
        .environment(shop)
        .env_runners(num_envs_per_env_runner=8)
        .training(
            lr=1e-2,
            train_batch_size_per_learner=512,
            num_epochs=8,
            gamma=0.0,
            entropy_coeff=0.0,
            model={"custom_model": Offers, "custom_model_config": {"offers": "offers"}},
        )
        .debugging(seed=0)
        .build()
    )


def test_what_is_offered_is_chosen_by_what_it_is() -> None:
    with build() as algo:
        before = algo.evaluate()["episode_return_mean"]
        for _ in range(12):
            algo.train()
        after = algo.evaluate()["episode_return_mean"]
    # Of 20 steps a policy that cannot tell three legal offers apart gets 6.7.
    assert before < 12 < 16 < after


def test_the_mask_is_obeyed_wherever_the_offers_lie() -> None:
    with build() as algo:
        policy = algo.get_policy()
        env = Shop()
        obs, _ = env.reset(seed=0)
        order = np.array([3, 0, 4, 1, 2])
        moved = {"wish": obs["wish"], **{k: obs[k][order] for k in ("offers", "action_mask")}}
        one, other = policy.forward([obs]).dist_inputs[0], policy.forward([moved]).dist_inputs[0]
    assert one.shape == other.shape == (NUM_OFFERS,)
    illegal = torch.finfo(torch.float32).min
    for logits, mask in ((one, obs["action_mask"]), (other, moved["action_mask"])):
        assert ((logits == illegal).numpy() == (mask == 0)).all()


def test_the_module_of_another_algorithm_is_refused() -> None:
    with pytest.raises(ConfigError, match="'Offers' is not allowed; allowed: a subclass of QNetw"):
        Policy(
            Shop().observation_space,
            Discrete(NUM_OFFERS),
            {"custom_model": Offers},
            module={"type": "q_network"},
        )
