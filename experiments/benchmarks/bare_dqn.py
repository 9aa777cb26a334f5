"""A hand-written DQN loop for CartPole and nothing else: the speed to hold a framework against.

Like `bare_ppo.py` it knows no configuration, logging or checkpoints. Its tasks::

    python bare_dqn.py throughput --steps 8000
    python bare_dqn.py time-to-score --seed 0

The last line it prints is one JSON object.
"""

from __future__ import annotations

import time
from collections import deque

import gymnasium as gym
import numpy as np
import off_policy  # type: ignore[import-not-found]  # the neighbour, see there
import torch
from off_policy import DQNSettings
from torch import Tensor, nn

BEST = DQNSettings(
    batch_size=128,
    lr=5e-4,
    gamma=0.98,
    updates_per_step=0.5,
    target_every=128,
    epsilon_final=0.02,
    epsilon_steps=5_000,
)
"""What reaches a return of 450 soonest here (a coarse search by hand)."""
BEST_SLOTS = 8


class Replay:
    """A ring buffer of transitions in columns."""

    def __init__(self, capacity: int, obs_size: int) -> None:
        self.obs = np.zeros((capacity, obs_size), np.float32)
        self.next_obs = np.zeros((capacity, obs_size), np.float32)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.terminated = np.zeros(capacity, np.float32)
        self.capacity, self.position, self.size = capacity, 0, 0

    def add(self, valid: np.ndarray, columns: tuple[np.ndarray, ...]) -> None:
        """Appends the valid rows of one step of all slots."""
        count = len(valid)
        if not valid.all():
            columns = tuple(column[valid] for column in columns)
            count = len(columns[0])
        rows = (self.position + np.arange(count)) % self.capacity
        obs, actions, rewards, terminated, next_obs = columns
        self.obs[rows], self.next_obs[rows] = obs, next_obs
        self.actions[rows], self.rewards[rows], self.terminated[rows] = actions, rewards, terminated
        self.position = (self.position + count) % self.capacity
        self.size = min(self.size + count, self.capacity)


def network(obs_size: int, num_actions: int) -> nn.Sequential:
    """Two hidden layers of 256 relu units."""
    return nn.Sequential(
        nn.Linear(obs_size, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, num_actions),
    )


class BareDQN:
    """Double DQN on the native vector CartPole; `iterate` steps once and does the updates due."""

    def __init__(self, settings: DQNSettings, slots: int, seed: int) -> None:
        self.s = settings
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.env = gym.make_vec(
            settings.env, num_envs=slots, vectorization_mode="vector_entry_point"
        )
        self.q, self.target_q = network(4, 2), network(4, 2)
        self.params: list[Tensor] = list(self.q.parameters())
        self.target_params: list[Tensor] = list(self.target_q.parameters())
        self.optimizer = torch.optim.Adam(self.params, lr=settings.lr, fused=True)
        self.copy_to_target()
        self.replay = Replay(settings.capacity, 4)
        self.slots = slots
        self.obs, _ = self.env.reset(seed=seed)
        # Autoreset is NEXT_STEP: the step after an episode's end ignores its action and only
        # resets.
        self.resetting = np.zeros(slots, bool)
        self.running_return = np.zeros(slots, np.float64)
        self.returns: deque[float] = deque(maxlen=off_policy.SCORES["dqn"].episodes)
        self.env_steps, self.updates, self.update_seconds = 0, 0, 0.0
        self.due, self.target_at = 0.0, settings.target_every

    def iterate(self) -> None:
        """One step of all slots, and the updates that it makes due."""
        s = self.s
        before = self.env_steps
        self.step()
        if self.env_steps <= s.learning_starts:
            return
        start = time.perf_counter()
        self.due += (self.env_steps - before) * s.updates_per_step
        while self.due >= 1.0:
            self.update()
            self.due -= 1.0
        if self.env_steps >= self.target_at:
            self.copy_to_target()
            self.target_at = self.env_steps + s.target_every
        self.update_seconds += time.perf_counter() - start

    def step(self) -> None:
        """Acts by epsilon-greedy in every slot and stores what comes of it."""
        s = self.s
        epsilon = 1.0 - (1.0 - s.epsilon_final) * min(1.0, self.env_steps / s.epsilon_steps)
        random = self.rng.random(self.slots) < epsilon
        if random.all():
            actions = self.rng.integers(2, size=self.slots)
        else:
            with torch.inference_mode():
                actions = self.q(torch.from_numpy(self.obs)).argmax(1).numpy()
            if random.any():
                actions = np.where(random, self.rng.integers(2, size=self.slots), actions)
        next_obs, reward, terminated, truncated, _ = self.env.step(actions)
        valid = ~self.resetting
        self.replay.add(valid, (self.obs, actions, reward, terminated, next_obs))
        self.env_steps += int(valid.sum())
        self.running_return += reward
        self.running_return[self.resetting] = 0.0
        self.resetting = terminated | truncated
        if self.resetting.any():
            self.returns.extend(self.running_return[self.resetting].tolist())
        self.obs = next_obs

    def update(self) -> None:
        """One gradient step on a batch drawn uniformly."""
        s, replay = self.s, self.replay
        rows = self.rng.integers(replay.size, size=s.batch_size)
        obs = torch.from_numpy(replay.obs[rows])
        next_obs = torch.from_numpy(replay.next_obs[rows])
        actions = torch.from_numpy(replay.actions[rows])
        rewards = torch.from_numpy(replay.rewards[rows])
        terminated = torch.from_numpy(replay.terminated[rows])
        with torch.no_grad():
            best = self.q(next_obs).argmax(1, keepdim=True)
            next_q = self.target_q(next_obs).gather(1, best).squeeze(1)
            target = rewards + s.gamma * (1.0 - terminated) * next_q
        q = self.q(obs).gather(1, actions[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, s.max_grad_norm, foreach=True)
        self.optimizer.step()
        self.updates += 1

    def copy_to_target(self) -> None:
        """The hard update of the target network."""
        with torch.no_grad():
            torch._foreach_copy_(self.target_params, self.params)

    def mean_return(self) -> float:
        """The mean return of the last training episodes; NaN before there are enough."""
        full = len(self.returns) == self.returns.maxlen
        return float(np.mean(self.returns)) if full else float("nan")

    def stop(self) -> None:
        """Closes the environment."""
        self.env.close()


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = off_policy.parser(__doc__, ["dqn"], off_policy.TASKS[:2]).parse_args()
    torch.set_num_threads(1)
    if args.task == "throughput":
        dqn = BareDQN(DQNSettings(), args.slots, args.seed)
        result = off_policy.throughput(dqn, args.steps, args.warmup)
    else:
        result = off_policy.time_to_score(
            lambda: BareDQN(BEST, BEST_SLOTS, args.seed), off_policy.target(args), args.cap
        )
    off_policy.report("bare", args, result)


if __name__ == "__main__":
    main()
