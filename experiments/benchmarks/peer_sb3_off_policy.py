"""DQN and SAC with Stable-Baselines3; runs in the peers' virtual environment (see README.md).

Its DQN has no double Q-learning. The last line it prints is one JSON object::

    python peer_sb3_off_policy.py sac throughput --steps 3000
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
import off_policy  # type: ignore[import-not-found]  # the neighbour, see there
import torch
from off_policy import DQNSettings, Mark, Recorded, Result, SACSettings, Stopwatch
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

ENDLESS = 10_000_000
"""Steps of a run that a callback ends."""

NETWORK: dict[str, Any] = {"net_arch": [256, 256]}
"""Relu units are the default of both."""


def equal_dqn(slots: int, seed: int) -> DQN:
    """The settings that `throughput.py` gives everyone; one update per environment step."""
    s = DQNSettings()
    return DQN(
        "MlpPolicy",
        make_vec_env(s.env, n_envs=slots, seed=seed),
        learning_rate=s.lr,
        batch_size=s.batch_size,
        buffer_size=s.capacity,
        learning_starts=s.learning_starts,
        gamma=s.gamma,
        train_freq=1,
        gradient_steps=slots,
        target_update_interval=s.target_every,
        exploration_final_eps=s.epsilon_final,
        exploration_fraction=s.epsilon_steps / ENDLESS,
        max_grad_norm=s.max_grad_norm,
        policy_kwargs=NETWORK,
        seed=seed,
        device="cpu",
    )


def equal_sac(settings: SACSettings, env: Any, slots: int, seed: int) -> SAC:
    """SAC with given settings; one update per environment step."""
    s = settings
    return SAC(
        "MlpPolicy",
        env,
        learning_rate=s.lr,
        batch_size=s.batch_size,
        buffer_size=s.capacity,
        learning_starts=s.learning_starts,
        gamma=s.gamma,
        tau=s.tau,
        train_freq=1,
        gradient_steps=slots,
        policy_kwargs=NETWORK,
        seed=seed,
        device="cpu",
    )


def zoo_dqn(seed: int) -> DQN:
    """RL-Zoo3's tuned settings for CartPole-v1; epsilon falls over the first 8,000 steps."""
    return DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=1, seed=seed),
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1_000,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        # 0.16 of its 50,000 steps.
        exploration_fraction=8_000 / ENDLESS,
        exploration_final_eps=0.04,
        policy_kwargs=NETWORK,
        stats_window_size=off_policy.SCORES["dqn"].episodes,
        seed=seed,
        device="cpu",
    )


def zoo_sac(seed: int) -> SAC:
    """RL-Zoo3's tuned settings for Pendulum-v1."""
    return SAC(
        "MlpPolicy",
        make_vec_env("Pendulum-v1", n_envs=1, seed=seed),
        learning_rate=1e-3,
        stats_window_size=off_policy.SCORES["sac"].episodes,
        seed=seed,
        device="cpu",
    )


class Meter(BaseCallback):
    """Notes when the warm-up ended, and ends the run at a step count, a score or a time."""

    def __init__(
        self,
        *,
        warmup: int = 0,
        steps: int | None = None,
        target: float = float("inf"),
        cap: float = float("inf"),
    ) -> None:
        super().__init__()
        self.warmup, self.steps, self.target, self.cap = warmup, steps, target, cap
        self.started, self.ended = 0.0, 0.0
        self.reached = False
        self.warm: Mark | None = None
        self.stopwatch = Stopwatch()

    def _on_training_start(self) -> None:
        self.model.train = self.stopwatch.timed(self.model.train)
        self.started = time.perf_counter()

    def _on_rollout_start(self) -> None:
        if self.warm is None and self.num_timesteps >= self.warmup:
            self.warm = self.now()

    def _on_step(self) -> bool:
        return time.perf_counter() - self.started < self.cap and not self.reached

    def _on_rollout_end(self) -> None:
        # Looked at before the updates that these steps make due: the run ends after those.
        if self.steps is not None and self.warm is not None:
            self.reached = self.num_timesteps - self.warm.env_steps >= self.steps
        else:
            self.reached = mean_return(self.model) >= self.target

    def now(self) -> Mark:
        """How far the run has got."""
        return Mark(self.num_timesteps, int(self.model._n_updates), self.stopwatch.seconds)


def mean_return(model: Any) -> float:
    """The mean return of the last training episodes; NaN before there are enough."""
    episodes = model.ep_info_buffer
    if episodes is None or len(episodes) < episodes.maxlen:
        return float("nan")
    return float(np.mean([e["r"] for e in episodes]))


def throughput(model: OffPolicyAlgorithm, steps: int, warmup: int) -> Result:
    """Updates and environment steps per second, after a warm-up."""
    meter = Meter(warmup=warmup, steps=steps)
    model.learn(ENDLESS, callback=meter)
    assert meter.warm is not None
    return off_policy.rates(meter.warm, meter.now())


def time_to_score(algorithm: str, target: float, cap: float, seed: int) -> Result:
    """Seconds until the mean return of the last training episodes reaches `target`."""
    begin = time.perf_counter()
    model = zoo_dqn(seed) if algorithm == "dqn" else zoo_sac(seed)
    meter = Meter(target=target, cap=cap)
    start = time.perf_counter()
    model.learn(ENDLESS, callback=meter)
    end = time.perf_counter()
    return {
        "reached": meter.reached,
        "seconds": end - start,
        "setup_seconds": start - begin,
        "env_steps": model.num_timesteps,
        "updates": model._n_updates,
        "return": mean_return(model),
    }


def curve(env_id: str, steps: int, seed: int) -> Result:
    """Returns of SAC's training episodes, and of its final policy."""
    env = Recorded(gym.make(env_id))
    model = equal_sac(SACSettings(env=env_id), env, 1, seed)
    return off_policy.curve(
        env,
        env_id,
        train=lambda: model.learn(steps),
        act=lambda obs: model.predict(obs, deterministic=True)[0],
    )


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = off_policy.parser(__doc__, ["dqn", "sac"], off_policy.TASKS).parse_args()
    torch.set_num_threads(1)
    if args.task == "throughput" and args.algorithm == "dqn":
        result = throughput(equal_dqn(args.slots, args.seed), args.steps, args.warmup)
    elif args.task == "throughput":
        s = SACSettings()
        env = make_vec_env(s.env, n_envs=args.slots, seed=args.seed)
        result = throughput(equal_sac(s, env, args.slots, args.seed), args.steps, args.warmup)
    elif args.task == "time-to-score":
        result = time_to_score(args.algorithm, off_policy.target(args), args.cap, args.seed)
    else:
        result = curve(args.env, args.steps, args.seed)
    off_policy.report("sb3", args, result)


if __name__ == "__main__":
    main()
