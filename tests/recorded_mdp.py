"""A small MDP whose values are known exactly, and episodes that a known policy recorded of it."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch

from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.target_policy import TargetPolicy
from trainables.core.policy.policy import Policy

GAMMA = 0.9
HORIZON, WIDTH, ACTIONS = 3, 2, 2
NUM_STATES = HORIZON * WIDTH + 1  # layers of two states, and the terminal one


@dataclass
class Rows:
    """Rows as `DataRows` has them: behind each episode one with its last observation."""

    obs: np.ndarray
    actions: np.ndarray
    is_first: np.ndarray

    @property
    def num_rows(self) -> int:
        return len(self.obs)

    def observations(self, rows: np.ndarray) -> np.ndarray:
        return self.obs.take(rows, axis=0)

    def read(self, name: str, rows: np.ndarray) -> np.ndarray:
        return {"actions": self.actions, "is_first": self.is_first}[name].take(rows, axis=0)


class Mdp:
    """Layers of states; an action leads to one of the next layer, and the last layer's to the end.

    Attributes:
        reward: Mean rewards, `[S, A]`; those that are earned are noisy.
        onward: Probability of the next layer's second state, `[S, A]`.
        behaviour: Probabilities of the recording policy's actions, `[S, A]`.
        target: Those of the policy to value, `[S, A]`.
    """

    def __init__(self, seed: int = 3):
        rng = np.random.default_rng(seed)
        self.reward = rng.normal(1.0, 1.0, (NUM_STATES, ACTIONS))
        self.onward = rng.uniform(0.2, 0.8, (NUM_STATES, ACTIONS))
        first = rng.uniform(0.35, 0.65, NUM_STATES)
        self.behaviour = np.stack([first, 1 - first], 1)
        shifted = np.clip(first + rng.uniform(-0.25, 0.25, NUM_STATES), 0.05, 0.95)
        self.target = np.stack([shifted, 1 - shifted], 1)

    def values(self, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return V, `[S]`, and Q, `[S, A]`, of a policy, exactly."""
        q, v = np.zeros((NUM_STATES, ACTIONS)), np.zeros(NUM_STATES)
        for layer in reversed(range(HORIZON)):
            for state in range(layer * WIDTH, (layer + 1) * WIDTH):
                after = np.zeros(ACTIONS)
                if layer + 1 < HORIZON:
                    low, high = v[(layer + 1) * WIDTH], v[(layer + 1) * WIDTH + 1]
                    after = (1 - self.onward[state]) * low + self.onward[state] * high
                q[state] = self.reward[state] + GAMMA * after
                v[state] = policy[state] @ q[state]
        return v, q

    def true_value(self) -> float:
        """Return what the target policy is worth where episodes begin: in either first state."""
        return float(self.values(self.target)[0][:WIDTH].mean())

    def record(self, num_episodes: int, seed: int, logp: bool = True) -> RecordedEpisodes:
        """Return episodes of the behaviour policy.

        Args:
            num_episodes: How many.
            seed: Of all draws.
            logp: Whether somebody notes the actions' probabilities.
        """
        rng = np.random.default_rng(seed)
        shape = (num_episodes, HORIZON)
        states, actions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        rewards = np.zeros(shape)
        state = rng.integers(WIDTH, size=num_episodes)
        for step in range(HORIZON):
            action = (rng.random(num_episodes) > self.behaviour[state, 0]).astype(np.int64)
            states[:, step], actions[:, step] = state, action
            rewards[:, step] = self.reward[state, action] + rng.normal(0, 0.3, num_episodes)
            second = rng.random(num_episodes) < self.onward[state, action]
            state = (step + 1) * WIDTH + second
        ends = np.full((num_episodes, 1), NUM_STATES - 1)
        obs = np.concatenate([states, ends], 1).ravel()
        padding = np.zeros((num_episodes, 1), np.int64)
        is_first = np.zeros((num_episodes, HORIZON + 1), bool)
        is_first[:, 0] = True
        rows = Rows(obs, np.concatenate([actions, padding], 1).ravel(), is_first.ravel())
        ids = np.arange(num_episodes * (HORIZON + 1)).reshape(num_episodes, -1)[:, :-1].ravel()
        terminated = np.zeros(shape, bool)
        terminated[:, -1] = True
        known = np.log(self.behaviour[states, actions]).ravel()
        return RecordedEpisodes(
            "episodes",
            rows,
            ids,
            np.full(num_episodes, HORIZON),
            rewards.ravel(),
            terminated.ravel(),
            known if logp else np.full(known.shape, np.nan),
            GAMMA,
        )

    def target_policy(self, recorded: RecordedEpisodes, explore: bool = True) -> TargetPolicy:
        """Return the target as a policy: its network is a table of log-probabilities."""
        return TargetPolicy(table_policy(self.target), explore, recorded.rows)


def table_policy(probabilities: np.ndarray) -> Policy:
    """Return a policy whose network is a table of probabilities, `[S, A]`."""
    policy = Policy(
        gym.spaces.Discrete(NUM_STATES),
        gym.spaces.Discrete(ACTIONS),
        model={"fcnet_hiddens": [], "vf_share_layers": False},
        seed=0,
    )
    logits = torch.from_numpy(np.log(probabilities).T.copy()).float()
    with torch.no_grad():
        for name, parameter in policy.module.named_parameters():
            if parameter.shape == logits.shape:
                parameter.copy_(logits)
            elif name.endswith("bias"):
                parameter.zero_()
    return policy
