"""Medium-replay data: all that online SAC runs saw until they played half as well as an expert.

What is learned from such data is more than cloning: few of their episodes are any good. The runs
are recorded by `output`, one seed after the other until there are rows enough::

    python -m experiments.benchmarks.offline_replays /path/to/data --tasks pendulum

Hopper needs MuJoCo (the extra `mujoco`). Files are those of `offline_data_sets.py`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from experiments.benchmarks.gather import HERE, console
from experiments.benchmarks.offline_data_sets import mean_return, write
from experiments.sweep.load import load_spec
from trainables.registry import get_algorithm
from trainables.runtime.offline.episode import Episode


@dataclass(frozen=True)
class Online:
    """Runs that are recorded.

    Attributes:
        spec: What they are, but for `changes`.
        env_id: What they play.
        target: The mean return of their last training episodes at which they are cut.
        last: How many episodes these are.
        steps: Rows of all runs together, at least.
        expert: What counts as 1 where nobody has trained an expert here.
        changes: Settings of the run that are not the spec's.
    """

    spec: str
    env_id: str
    target: float
    last: int
    steps: int
    expert: float | None
    changes: dict[str, Any]


ONLINE = {
    # Half way from random play to the expert of offline_data_sets.py.
    "pendulum": Online("tuned/sac/pendulum", "Pendulum-v1", -663.0, 5, 20_000, None, {}),
    # The expert's return is the one that D4RL's normalised scores have.
    "hopper": Online(
        "tuned/sac/hopper",
        "Hopper-v5",
        1_000.0,
        20,
        1,
        3234.3,
        {"num_steps_sampled_before_learning_starts": 5_000},
    ),
}


def main() -> None:
    """Trains, records, and writes the data set `replay` of each task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the data are to lie")
    parser.add_argument("--tasks", nargs="+", choices=list(ONLINE), default=list(ONLINE))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.tasks:
        make(ONLINE[name], args.folder / name)


def make(online: Online, folder: Path) -> None:
    """Records runs until there are rows enough, and writes them as one data set."""
    episodes: list[Episode] = []
    env, seed = gym.make(online.env_id), 0
    while sum(map(len, episodes)) < online.steps:
        output = folder / "runs" / str(seed)
        if not output.is_dir():
            run(online, seed, output)
        episodes += recorded(output, env)
        seed += 1
    write(folder / "replay", online.env_id, episodes)
    path = folder / "scores.json"
    if path.is_file():
        scores = json.loads(path.read_text(encoding="utf-8"))
    else:
        scores = {"random": mean_return(online.env_id, None), "expert": online.expert}
    whole = [float(e.rewards.sum()) for e in episodes if e.terminated or e.truncated]
    scores["replay data"] = {
        "runs": seed,
        "rows": sum(map(len, episodes)),
        "episodes": len(whole),
        "mean_return": float(np.mean(whole)),
        "best_return": max(whole),
    }
    path.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
    console.print(f"{folder}: {json.dumps(scores)}", soft_wrap=True, highlight=False)


def run(online: Online, seed: int, output: Path) -> None:
    """Trains until the last episodes' mean return is the target, and records every step."""
    spec = load_spec(HERE.parent / f"{online.spec}.yaml")
    config = {
        **spec.config,
        **online.changes,
        "seed": seed,
        "output": str(output),
        "metrics_num_episodes_for_smoothing": online.last,
        "min_sample_timesteps_per_iteration": 200,
    }
    limit = spec.stop["num_env_steps_sampled_lifetime"]
    with get_algorithm(spec.trainable)(config=config) as algo:
        played = -np.inf
        while played < online.target and algo.num_env_steps_sampled < limit:
            played = algo.train().get("episode_return_mean", -np.inf)
        steps = algo.num_env_steps_sampled
    console.print(f"{online.env_id}, seed {seed}: {played:.0f} after {steps} steps")


def recorded(output: Path, env: gym.Env[Any, Any]) -> list[Episode]:
    """The episodes that a run wrote, in their order."""
    columns = ["obs", "action", "reward", "terminated", "truncated", "next_obs"]
    table = pa.concat_tables(
        pq.read_table(path, columns=["episode_id", *columns])
        for path in sorted(output.glob("*.parquet"))
    )
    ids = table["episode_id"].to_numpy()
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    made = []
    for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True):
        rows = table.slice(start, stop - start)
        last = rows["next_obs"][-1].as_py()
        if last is None:  # cut amid an episode, where the run ended: nothing says what came next
            continue
        made.append(
            Episode(
                np.asarray([*rows["obs"].to_pylist(), last], env.observation_space.dtype),
                np.asarray(rows["action"].to_pylist(), env.action_space.dtype),
                rows["reward"].to_numpy().astype(np.float32),
                rows["terminated"][-1].as_py(),
                rows["truncated"][-1].as_py(),
                episode_id=str(ids[start]),
            )
        )
    return made


if __name__ == "__main__":
    main()
