"""The data that offline learners are compared on: an expert's episodes, and those of all sorts.

An expert is trained by its shipped spec: PPO on CartPole, SAC on Pendulum. Data sets are recorded
of each: `expert`, its sampled actions, and `mixed`, as many steps of the expert, of what it was
early in its training, and of nobody (random actions). Of Pendulum's expert also `narrow`: its most
likely actions with a little noise, next to nothing of all that could be done::

    python -m experiments.benchmarks.offline_data_sets /path/to/data

Each is written twice: Parquet files as `tunescape record` writes them, and the same columns as
`arrays.npz` for libraries that cannot read those. `scores.json` has the returns of who played.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from experiments.benchmarks.gather import HERE, console
from experiments.benchmarks.off_policy import greedy_returns
from experiments.sweep.load import load_spec
from trainables.core.policy.policy import Policy
from trainables.registry import get_algorithm
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.writers import make_writer

SCORED_EPISODES = 50
NOISE = 0.02
"""Standard deviation of the noise on narrow data's actions, as a share of their range."""


@dataclass(frozen=True)
class Task:
    """An expert and its data.

    Attributes:
        spec: Trains the expert.
        env_id: What it plays.
        novices: Environment steps of training after which it plays for the mixed data, too.
        steps: Rows of each data set, about.
        is_narrow: Whether there is a narrow one.
    """

    spec: str
    env_id: str
    novices: tuple[int, ...]
    steps: int
    is_narrow: bool = False


TASKS = {
    "cartpole": Task("tuned/ppo/cartpole", "CartPole-v1", (1_000, 2_000, 3_000, 4_000), 50_000),
    "pendulum": Task("tuned/sac/pendulum", "Pendulum-v1", (1_000, 2_000), 20_000, True),
}


def main() -> None:
    """Trains the experts and records what they play."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the data are to lie")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.tasks:
        make(TASKS[name], args.folder / name, args.seed)


def make(task: Task, folder: Path, seed: int) -> None:
    """Trains one expert and records both data sets."""
    stages = trained(task, folder, seed)
    players: list[Policy | None] = [None, *stages]
    rng = np.random.default_rng(seed)
    scores: dict[str, Any] = {"random": mean_return(task.env_id, None)}
    *scores["novices"], scores["expert"] = (mean_return(task.env_id, stage) for stage in stages)
    data_sets = {"expert": players[-1:], "mixed": players}
    if task.is_narrow:
        data_sets["narrow"] = players[-1:]
    for name, who in data_sets.items():
        noise = NOISE if name == "narrow" else None
        episodes: list[Episode] = []
        for player in who:
            episodes += played(task.env_id, player, task.steps // len(who), rng, noise)
        write(folder / name, task.env_id, episodes)
        returns = [float(episode.rewards.sum()) for episode in episodes]
        scores[f"{name} data"] = {"episodes": len(returns), "mean_return": float(np.mean(returns))}
    path = folder / "scores.json"
    others = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(others | scores, indent=1) + "\n", encoding="utf-8")
    console.print(f"{folder}: {json.dumps(scores)}", soft_wrap=True, highlight=False)


def trained(task: Task, folder: Path, seed: int) -> list[Policy]:
    """The policy at every stage, the last one the expert; kept in `folder/policies`."""
    spec = load_spec(HERE.parent / f"{task.spec}.yaml")
    marks = (*task.novices, spec.stop["num_env_steps_sampled_lifetime"])
    saved = [folder / "policies" / str(mark) for mark in marks]
    if not all(path.is_dir() for path in saved):
        with get_algorithm(spec.trainable)(config={**spec.config, "seed": seed}) as algo:
            for mark, path in zip(marks, saved, strict=True):
                while algo.num_env_steps_sampled < mark:
                    algo.train()
                algo.get_policy().save(path)
    return [Policy.load(path) for path in saved]


def mean_return(env_id: str, policy: Policy | None) -> float:
    """The mean return of greedy episodes; of random ones without a policy."""
    space = gym.make(env_id).action_space
    space.seed(0)

    def act(obs: np.ndarray) -> Any:
        if policy is None:
            return space.sample()
        return policy.compute_single_action(obs, explore=False)

    return float(np.mean(greedy_returns(env_id, act, SCORED_EPISODES)))


def played(
    env_id: str,
    policy: Policy | None,
    steps: int,
    rng: np.random.Generator,
    noise: float | None = None,
) -> list[Episode]:
    """Whole episodes of at least so many steps: sampled actions, random ones without a policy.

    With `noise` the most likely actions, and normal noise of so much of their range.
    """
    env, episodes, count = gym.make(env_id), [], 0
    env.action_space.seed(int(rng.integers(2**31)))
    torch.manual_seed(int(rng.integers(2**31)))
    while count < steps:
        obs, _ = env.reset(seed=int(rng.integers(2**31)))
        seen, actions, rewards = [obs], [], []
        terminated = truncated = False
        while not (terminated or truncated):
            if policy is None:
                action = env.action_space.sample()
            else:
                action = policy.compute_single_action(obs, explore=noise is None)
            if noise is not None:
                assert isinstance(env.action_space, gym.spaces.Box)
                low, high = env.action_space.low, env.action_space.high
                action = action + rng.normal(0.0, noise, action.shape) * (high - low)
                action = action.clip(low, high).astype(env.action_space.dtype)
            obs, reward, terminated, truncated, _ = env.step(action)
            seen.append(obs)
            actions.append(action)
            rewards.append(reward)
        episode = Episode(
            np.stack(seen),
            np.asarray(actions, env.action_space.dtype),
            np.asarray(rewards, np.float32),
            terminated,
            truncated,
            episode_id=f"{rng.integers(2**62):x}",
        )
        episodes.append(episode)
        count += len(episode)
    env.close()
    return episodes


def write(folder: Path, env_id: str, episodes: list[Episode]) -> None:
    """Writes Parquet files and `arrays.npz`."""
    env = gym.make(env_id)
    for old in folder.glob("*.parquet"):
        old.unlink()
    spaces = DataSpaces(env.observation_space, env.action_space)
    writer = make_writer(folder, spaces, env_id=env_id)
    for episode in episodes:
        writer.write(episode)
    writer.close()
    last = [np.arange(len(e)) == len(e) - 1 for e in episodes]
    np.savez(
        folder / "arrays.npz",
        obs=np.concatenate([e.obs[:-1] for e in episodes]),
        next_obs=np.concatenate([e.obs[1:] for e in episodes]),
        actions=np.concatenate([e.actions for e in episodes]),
        rewards=np.concatenate([e.rewards for e in episodes]),
        terminated=np.concatenate([m & e.terminated for m, e in zip(last, episodes, strict=True)]),
        truncated=np.concatenate([m & e.truncated for m, e in zip(last, episodes, strict=True)]),
    )


if __name__ == "__main__":
    main()
