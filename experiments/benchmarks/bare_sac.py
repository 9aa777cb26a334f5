"""A hand-written SAC loop for one Box environment: the speed to hold a framework against.

Like `bare_ppo.py` it knows no configuration, logging or checkpoints. Its tasks::

    python bare_sac.py throughput --steps 3000
    python bare_sac.py time-to-score --seed 0

The last line it prints is one JSON object.
"""

from __future__ import annotations

import math
import time
from collections import deque

import gymnasium as gym
import numpy as np
import off_policy  # type: ignore[import-not-found]  # the neighbour, see there
import torch
from off_policy import SACSettings
from torch import Tensor, nn

BEST = SACSettings(lr=1e-3, learning_starts=256, tau=0.01)
"""What reaches a return of -250 soonest here (a coarse search by hand)."""

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
LOG_2 = math.log(2.0)
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def network(size_in: int, size_out: int) -> nn.Sequential:
    """Two hidden layers of 256 relu units."""
    return nn.Sequential(
        nn.Linear(size_in, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, size_out)
    )


class BareSAC:
    """SAC with twin Q and automatic temperature; `iterate` steps once and updates once."""

    def __init__(self, settings: SACSettings, seed: int) -> None:
        s = self.s = settings
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.env = gym.make(s.env)
        obs_space, action_space = self.env.observation_space, self.env.action_space
        assert isinstance(obs_space, gym.spaces.Box) and isinstance(action_space, gym.spaces.Box)
        obs_size, self.action_size = obs_space.shape[0], action_space.shape[0]
        self.low, self.span = action_space.low, (action_space.high - action_space.low) / 2.0

        both = obs_size + self.action_size
        self.actor = network(obs_size, 2 * self.action_size)
        self.q1, self.q2 = network(both, 1), network(both, 1)
        self.target_q1, self.target_q2 = network(both, 1), network(both, 1)
        self.target_q1.load_state_dict(self.q1.state_dict())
        self.target_q2.load_state_dict(self.q2.state_dict())
        self.critic_params: list[Tensor] = [*self.q1.parameters(), *self.q2.parameters()]
        self.target_params: list[Tensor] = [
            *self.target_q1.parameters(),
            *self.target_q2.parameters(),
        ]
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.target_entropy = -float(self.action_size)
        self.actor_params = [*self.actor.parameters(), self.log_alpha]
        self.critic_optimizer = torch.optim.Adam(self.critic_params, lr=s.lr, fused=True)
        self.actor_optimizer = torch.optim.Adam(self.actor_params, lr=s.lr, fused=True)

        # Transitions in columns, the ring buffer. Actions are in [-1, 1].
        self.obs = np.zeros((s.capacity, obs_size), np.float32)
        self.next_obs = np.zeros((s.capacity, obs_size), np.float32)
        self.actions = np.zeros((s.capacity, self.action_size), np.float32)
        self.rewards = np.zeros(s.capacity, np.float32)
        self.terminated = np.zeros(s.capacity, np.float32)

        self.last_obs, _ = self.env.reset(seed=seed)
        self.running_return = 0.0
        self.returns: deque[float] = deque(maxlen=off_policy.SCORES["sac"].episodes)
        self.env_steps, self.updates, self.update_seconds = 0, 0, 0.0

    def iterate(self) -> None:
        """One environment step, and one update once there is enough to learn from."""
        self.step()
        if self.env_steps > self.s.learning_starts:
            start = time.perf_counter()
            self.update()
            self.update_seconds += time.perf_counter() - start

    def step(self) -> None:
        """Acts, at random until learning starts, and stores what comes of it."""
        if self.env_steps < self.s.learning_starts:
            action = self.rng.uniform(-1.0, 1.0, self.action_size).astype(np.float32)
        else:
            with torch.inference_mode():
                obs = torch.from_numpy(np.asarray(self.last_obs, np.float32))
                mean, log_std = self.actor(obs).chunk(2, -1)
                std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp()
                action = torch.addcmul(mean, std, torch.randn_like(mean)).tanh().numpy()
        obs, reward, terminated, truncated, _ = self.env.step(self.low + (action + 1.0) * self.span)
        row = self.env_steps % self.s.capacity
        self.obs[row] = self.last_obs
        self.actions[row] = action
        self.rewards[row] = reward
        self.terminated[row] = terminated
        self.next_obs[row] = obs
        self.env_steps += 1
        self.running_return += float(reward)
        if terminated or truncated:
            self.returns.append(self.running_return)
            self.running_return = 0.0
            obs, _ = self.env.reset()
        self.last_obs = obs

    def update(self) -> None:
        """One gradient step of the critics, then of the actor and the temperature."""
        s = self.s
        rows = self.rng.integers(min(self.env_steps, s.capacity), size=s.batch_size)
        obs = torch.from_numpy(self.obs[rows])
        next_obs = torch.from_numpy(self.next_obs[rows])
        rewards = torch.from_numpy(self.rewards[rows])
        terminated = torch.from_numpy(self.terminated[rows])
        with torch.no_grad():
            alpha = self.log_alpha.exp()
            next_action, next_logp = self.act(next_obs)
            inputs = torch.cat((next_obs, next_action), 1)
            next_q = torch.min(self.target_q1(inputs), self.target_q2(inputs)).squeeze(1)
            target = rewards + s.gamma * (1.0 - terminated) * (next_q - alpha * next_logp)
        inputs = torch.cat((obs, torch.from_numpy(self.actions[rows])), 1)
        error1 = self.q1(inputs).squeeze(1) - target
        error2 = self.q2(inputs).squeeze(1) - target
        critic_loss = error1.square().mean() + error2.square().mean()
        self.critic_optimizer.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.critic_optimizer.step()

        action, logp = self.act(obs)
        inputs = torch.cat((obs, action), 1)
        q = torch.min(self.q1(inputs), self.q2(inputs)).squeeze(1)
        actor_loss = (alpha * logp - q).mean()
        alpha_loss = -self.log_alpha * (logp.detach().mean() + self.target_entropy)
        self.actor_optimizer.zero_grad(set_to_none=True)
        # The gradient passes through the critics; theirs is not wanted, so not computed.
        (actor_loss + alpha_loss).backward(inputs=self.actor_params)
        self.actor_optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.target_params, self.critic_params, s.tau)
        self.updates += 1

    def act(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions in [-1, 1], [B, A], and their log-densities, [B]."""
        mean, log_std = self.actor(obs).chunk(2, 1)
        log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        noise = torch.randn_like(mean)
        raw = torch.addcmul(mean, log_std.exp(), noise)
        gaussian = -0.5 * noise.square() - log_std - HALF_LOG_2PI
        squash = 2.0 * (LOG_2 - raw - nn.functional.softplus(-2.0 * raw))
        return raw.tanh(), (gaussian - squash).sum(1)

    def mean_return(self) -> float:
        """The mean return of the last training episodes; NaN before there are enough."""
        full = len(self.returns) == self.returns.maxlen
        return float(np.mean(self.returns)) if full else float("nan")

    def stop(self) -> None:
        """Closes the environment."""
        self.env.close()


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = off_policy.parser(__doc__, ["sac"], off_policy.TASKS[:2]).parse_args()
    torch.set_num_threads(1)
    if args.task == "throughput":
        sac = BareSAC(SACSettings(), args.seed)
        result = off_policy.throughput(sac, args.steps, args.warmup)
    else:
        result = off_policy.time_to_score(
            lambda: BareSAC(BEST, args.seed), off_policy.target(args), args.cap
        )
    off_policy.report("bare", args, result)


if __name__ == "__main__":
    main()
