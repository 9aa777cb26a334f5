"""A hand-written PPO loop for CartPole and nothing else: the speed to hold a framework against.

No configuration, no logging, no checkpoints, no other environment: what is left is stepping, acting
and updating. It knows two tasks, which the drivers beside it start::

    python bare_ppo.py throughput --steps 61440
    python bare_ppo.py time-to-score --target 450 --seed 0

The last line it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Settings:
    """PPO's settings; the defaults are the equal ones that `throughput.py` gives everyone."""

    slots: int = 32
    rollout_length: int = 64
    epochs: int = 6
    minibatch_size: int = 256
    lr: float = 3e-4
    gamma: float = 0.99
    lambda_: float = 0.95
    clip: float = 0.2
    vf_coeff: float = 0.5
    entropy_coeff: float = 0.0
    max_grad_norm: float = 0.5


BEST = Settings(rollout_length=32, epochs=4, lr=2.5e-3, gamma=0.98, lambda_=0.9)
"""What reaches a return of 450 soonest here (a coarse search by hand)."""


def mlp(sizes: list[int], last_gain: float) -> nn.Sequential:
    """A tanh network with orthogonal weights and zero biases."""
    layers: list[nn.Module] = []
    for i, (n_in, n_out) in enumerate(pairwise(sizes)):
        last = i == len(sizes) - 2
        linear = nn.Linear(n_in, n_out)
        nn.init.orthogonal_(linear.weight, last_gain if last else 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear] if last else [linear, nn.Tanh()]
    return nn.Sequential(*layers)


class BarePPO:
    """PPO on the native vector CartPole; `iterate` samples a rollout and learns from it."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.s = settings
        torch.manual_seed(seed)
        self.env = gym.make_vec(
            "CartPole-v1", num_envs=settings.slots, vectorization_mode="vector_entry_point"
        )
        self.actor = mlp([4, 64, 64, 2], last_gain=0.01)
        self.critic = mlp([4, 64, 64, 1], last_gain=1.0)
        self.params = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.params, lr=settings.lr, eps=1e-5, fused=True)
        t, n = settings.rollout_length, settings.slots
        self.obs = np.zeros((t + 1, n, 4), np.float32)
        self.actions = np.zeros((t, n), np.int64)
        self.rewards = np.zeros((t, n), np.float32)
        self.terminated = np.zeros((t, n), bool)
        self.ended = np.zeros((t, n), bool)
        self.valid = np.zeros((t, n), bool)
        self.obs[t], _ = self.env.reset(seed=seed)
        # Autoreset is NEXT_STEP: the step after an episode's end ignores its action and only
        # resets.
        self.resetting = np.zeros(n, bool)
        self.running_return = np.zeros(n, np.float64)
        self.returns: deque[float] = deque(maxlen=100)
        self.env_steps = 0

    def iterate(self, progress: float = 0.0) -> None:
        """One rollout and its update; `progress` (0 to 1) anneals the learning rate linearly."""
        self.optimizer.param_groups[0]["lr"] = self.s.lr * (1.0 - progress)
        self.sample()
        self.learn()

    @torch.inference_mode()
    def sample(self) -> None:
        """Steps every slot `rollout_length` times."""
        self.obs[0] = self.obs[-1]
        for t in range(self.s.rollout_length):
            probs = self.actor(torch.from_numpy(self.obs[t])).softmax(-1)
            # argmax(p / Exp(1)) is a draw from p.
            noise = torch.empty_like(probs).exponential_()
            action = probs.div_(noise).argmax(-1).numpy()
            obs, reward, terminated, truncated, _ = self.env.step(action)
            ended = terminated | truncated
            self.obs[t + 1] = obs
            self.actions[t] = action
            self.rewards[t] = reward
            self.terminated[t] = terminated
            self.ended[t] = ended
            np.logical_not(self.resetting, out=self.valid[t])
            self.running_return += reward
            self.running_return[self.resetting] = 0.0
            self.resetting = ended
            if ended.any():
                self.returns.extend(self.running_return[ended].tolist())
        self.env_steps += int(self.valid.sum())

    def learn(self) -> None:
        """Estimates advantages and updates for `epochs` over minibatches of the valid rows."""
        s = self.s
        with torch.no_grad():
            every = torch.from_numpy(self.obs).view(-1, 4)
            values = self.critic(every).view(s.rollout_length + 1, s.slots).numpy()
            all_logits = self.actor(every[: -s.slots])
        advantages = self.advantages(values)
        rows = torch.from_numpy(np.flatnonzero(self.valid))
        obs = every[: -s.slots].index_select(0, rows)
        actions = torch.from_numpy(self.actions).view(-1).index_select(0, rows)
        advantage = torch.from_numpy(advantages).view(-1).index_select(0, rows)
        target = advantage + torch.from_numpy(values[:-1]).reshape(-1).index_select(0, rows)
        logits = all_logits.index_select(0, rows)
        old_logp = logits.log_softmax(-1).gather(1, actions[:, None]).squeeze(1)
        for _ in range(s.epochs):
            order = torch.randperm(len(rows))
            for pick in order.split(s.minibatch_size):
                if len(pick) < 2:
                    continue  # one row has no standard deviation
                self.update(obs[pick], actions[pick], old_logp[pick], advantage[pick], target[pick])

    def update(
        self, obs: Tensor, actions: Tensor, old_logp: Tensor, advantage: Tensor, target: Tensor
    ) -> None:
        """One gradient step on the clipped surrogate, the value loss and the entropy."""
        s = self.s
        logp_all = self.actor(obs).log_softmax(-1)
        logp = logp_all.gather(1, actions[:, None]).squeeze(1)
        ratio = (logp - old_logp).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        clipped = ratio.clamp(1 - s.clip, 1 + s.clip)
        policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        value_loss = (self.critic(obs).squeeze(-1) - target).square().mean()
        loss = policy_loss + s.vf_coeff * value_loss
        if s.entropy_coeff:
            loss = loss + s.entropy_coeff * (logp_all.exp() * logp_all).sum(-1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, s.max_grad_norm, foreach=True)
        self.optimizer.step()

    def advantages(self, values: np.ndarray) -> np.ndarray:
        """Generalised advantage estimation, [T, N]; `values` is [T+1, N]."""
        s = self.s
        delta = self.rewards + s.gamma * values[1:] * ~self.terminated - values[:-1]
        keep = s.gamma * s.lambda_ * ~self.ended
        out = np.empty_like(delta)
        running = np.zeros(s.slots, np.float32)
        for t in reversed(range(s.rollout_length)):
            running = delta[t] + keep[t] * running
            out[t] = running
        return out


def throughput(steps: int, warmup: int, seed: int) -> dict[str, float | int | str]:
    """Environment steps per second of sampling and learning, after a warm-up."""
    ppo = BarePPO(Settings(), seed)
    while ppo.env_steps < warmup:
        ppo.iterate()
    first, start = ppo.env_steps, time.perf_counter()
    while ppo.env_steps - first < steps:
        ppo.iterate()
    seconds = time.perf_counter() - start
    done = ppo.env_steps - first
    return {"env_steps": done, "seconds": seconds, "env_steps_per_second": done / seconds}


def time_to_score(target: float, cap: float, seed: int) -> dict[str, float | int | bool]:
    """Seconds until the mean return of the last 100 training episodes reaches `target`."""
    begin = time.perf_counter()
    ppo = BarePPO(BEST, seed)
    start = time.perf_counter()
    reached = False
    while not reached and time.perf_counter() - start < cap:
        ppo.iterate(progress=min(0.9, ppo.env_steps / 100_000))
        reached = len(ppo.returns) == 100 and float(np.mean(ppo.returns)) >= target
    end = time.perf_counter()
    return {
        "reached": reached,
        "seconds": end - start,
        "setup_seconds": start - begin,
        "env_steps": ppo.env_steps,
        "return": float(np.mean(ppo.returns)),
    }


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=["throughput", "time-to-score"])
    parser.add_argument("--steps", type=int, default=61_440, help="environment steps to measure")
    parser.add_argument("--warmup", type=int, default=8_192, help="environment steps before that")
    parser.add_argument("--target", type=float, default=450.0, help="return to reach")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds after which to give up")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.task == "throughput":
        result = throughput(args.steps, args.warmup, args.seed)
    else:
        result = dict(time_to_score(args.target, args.cap, args.seed))
    print(json.dumps({"contestant": "bare", "task": args.task, "seed": args.seed, **result}))


if __name__ == "__main__":
    main()
