"""What those share that learn from the same recorded data: settings, measuring loops, command line.

The contestants' scripts import it as their neighbour (`import imitation`), since the peers'
environment knows nothing of this package.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import off_policy  # type: ignore[import-not-found]  # the neighbour, see there
import processes  # type: ignore[import-not-found]

Result = dict[str, Any]
Arrays = dict[str, np.ndarray]

ENVS = {"cartpole": "CartPole-v1", "pendulum": "Pendulum-v1", "hopper": "Hopper-v5"}
"""By the names of the folders that `offline_data_sets.py` makes."""


@dataclass(frozen=True)
class ImitationSettings:
    """What everyone learns with: two hidden layers of tanh units (CQL and IQL: relu), Adam.

    Attributes:
        data: The folder of one data set.
        env_id: What it was recorded in.
        hidden: Units of a layer.
        batch_size: Rows of an update.
        lr: Learning rate.
        beta: How much more rows of greater advantages count, MARWIL and IQL only.
        norm_rate: How fast the mean square that divides advantages moves, MARWIL only.
        gamma: Discount factor.
        expectile: Which one of Q the value function is, IQL only.
        tau: What a target network takes over of its Q-function at each update, CQL and IQL only.
        min_q_weight: Of the conservative term beside the squared TD error, CQL only.
        num_actions: Sampled actions of each kind that estimate the soft maximum, CQL only.
        bc_iters: Updates in which CQL's policy clones the data; d3rlpy knows no such thing.
        seed: Of networks and draws.
    """

    data: Path
    env_id: str
    hidden: int = 64
    batch_size: int = 2000
    lr: float = 1e-3
    beta: float = 1.0
    norm_rate: float = 1e-8
    gamma: float = 0.99
    expectile: float = 0.7
    tau: float = 0.005
    min_q_weight: float = 5.0
    num_actions: int = 10
    bc_iters: int = 0
    seed: int = 0

    @property
    def spaces(self) -> tuple[gym.Space, gym.Space]:
        """Of observations and of actions."""
        env = gym.make(self.env_id)
        return env.observation_space, env.action_space

    def arrays(self) -> Arrays:
        """All rows: obs, next_obs, actions, rewards, terminated and truncated, `[N, ...]`.

        Observations in single precision, though MuJoCo's are in double: all networks are.
        """
        arrays = dict(np.load(self.data / "arrays.npz"))
        for name in ("obs", "next_obs"):
            arrays[name] = arrays[name].astype(np.float32)
        return arrays

    def files(self) -> list[str]:
        """The same rows as Parquet files."""
        return sorted(str(path) for path in self.data.glob("*.parquet"))


class Imitator(Protocol):
    """A learner that can be driven piece by piece."""

    updates: int

    def iterate(self) -> None:
        """Makes some updates."""

    def act(self, obs: np.ndarray) -> Any:
        """The greedy action, as the environment takes it."""

    def stop(self) -> None:
        """Lets go of everything."""


def score(imitator: Imitator, env_id: str, updates: int, episodes: int) -> Result:
    """The mean return of greedy episodes after so many updates."""
    start = time.perf_counter()
    while imitator.updates < updates:
        imitator.iterate()
    seconds = time.perf_counter() - start
    returns = off_policy.greedy_returns(env_id, imitator.act, episodes)
    imitator.stop()
    return {
        "updates": imitator.updates,
        "seconds": seconds,
        "evaluation_mean": sum(returns) / len(returns),
    }


def speed(imitator: Imitator, updates: int, warmup: int) -> Result:
    """Updates per second, after a warm-up, and CPU milliseconds of one.

    The CPU time is that of all processes but those that end meanwhile.
    """
    while imitator.updates < warmup:
        imitator.iterate()
    before, start, cpu = imitator.updates, time.perf_counter(), cpu_seconds()
    while imitator.updates - before < updates:
        imitator.iterate()
    seconds, after = time.perf_counter() - start, cpu_seconds()
    used = sum(after[pid] - cpu.get(pid, 0.0) for pid in after)
    made = imitator.updates - before
    imitator.stop()
    return {
        "updates": made,
        "seconds": seconds,
        "updates_per_second": made / seconds,
        "cpu_ms": used / made * 1e3,
    }


def cpu_seconds() -> dict[int, float]:
    """Of this process and of each below it that has not ended."""
    return {pid: processes.cpu_seconds(pid) for pid in (os.getpid(), *processes.descendants())}


def arguments(description: str | None, algorithms: tuple[str, ...]) -> argparse.Namespace:
    """The contestants' command line: an algorithm, `score` or `speed`, data and settings."""
    made = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    made.add_argument("algorithm", choices=algorithms)
    made.add_argument("task", choices=("score", "speed"))
    made.add_argument("data", type=Path, help="of offline_data_sets.py, e.g. …/cartpole/expert")
    made.add_argument("--updates", type=int, default=1_000)
    made.add_argument("--warmup", type=int, default=200, help="updates before those measured")
    made.add_argument("--episodes", type=int, default=50, help="greedy ones to score")
    made.add_argument("--hidden", type=int, default=64, help="units of both hidden layers")
    made.add_argument("--batch-size", type=int, default=2000)
    made.add_argument("--lr", type=float, default=1e-3)
    made.add_argument("--beta", type=float, default=1.0)
    made.add_argument("--gamma", type=float, default=0.99)
    made.add_argument("--expectile", type=float, default=0.7)
    made.add_argument("--norm-rate", type=float, default=1e-8)
    made.add_argument("--min-q-weight", type=float, default=5.0)
    made.add_argument("--bc-iters", type=int, default=0)
    made.add_argument("--seed", type=int, default=0)
    return made.parse_args()


def run(
    contestant: str, args: argparse.Namespace, make: Callable[[ImitationSettings], Imitator]
) -> None:
    """Runs the task and prints the one JSON line that a driver reads."""
    env_id = ENVS[args.data.parent.name]
    imitator = make(
        ImitationSettings(
            data=args.data,
            env_id=env_id,
            hidden=args.hidden,
            batch_size=args.batch_size,
            lr=args.lr,
            gamma=args.gamma,
            beta=args.beta,
            norm_rate=args.norm_rate,
            expectile=args.expectile,
            min_q_weight=args.min_q_weight,
            bc_iters=args.bc_iters,
            seed=args.seed,
        )
    )
    if args.task == "speed":
        result = speed(imitator, args.updates, args.warmup)
    else:
        result = score(imitator, env_id, args.updates, args.episodes)
    head = {"contestant": contestant, "algorithm": args.algorithm, "task": args.task}
    print(json.dumps({**head, "seed": args.seed, **result}))
