"""Draw the pictures of `did_not_learn.md`: what metrics look like with a fault and without it.

    python docs/jobs/make_diagnosis.py             # all pictures, some minutes of CPU
    python docs/jobs/make_diagnosis.py lr_too_low  # one of them

Each picture is of small runs on CartPole-v1 or Pendulum-v1: three seeds with the fault and three
without it, which differ only in the settings that `FAULTS` names.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.palette import BLUE, ORANGE
from analysis.plots.curves import dress, new_figure, save
from trainables.registry import get_algorithm

HERE = Path(__file__).parent
SEEDS = (0, 1, 2)
RETURN = "episode_return_mean"
LEARNER = "learner/default_policy/"
STEPS = "num_env_steps_sampled_lifetime"

PPO: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_envs_per_env_runner": 16,
    "train_batch_size_per_learner": 1024,
    "minibatch_size": 256,
    "lr": 2e-3,
    "gamma": 0.98,
    "lambda_": 0.9,
}
A2C: dict[str, Any] = {"env": "CartPole-v1", "num_envs_per_env_runner": 16, "lr": 2e-3}
PENDULUM: dict[str, Any] = {
    "env": "Pendulum-v1",
    "train_batch_size_per_learner": 2048,
    "minibatch_size": 64,
    "lr": 1e-3,
    "gamma": 0.9,
    "lambda_": 0.95,
}
DQN: dict[str, Any] = {
    "env": "CartPole-v1",
    "train_batch_size_per_learner": 128,
    "training_intensity": 64,
    "lr": 1e-3,
    "n_step": 3,
    "target_network_update_freq": 200,
    "epsilon": [[0, 1.0], [8000, 0.04]],
    "model": {"fcnet_hiddens": [128, 128]},
    "min_sample_timesteps_per_iteration": 500,
    "evaluation_interval": 4,
}
NO_TARGET = {"target_network_update_freq": 0, "lr": 0.05, "double_q": False}


@dataclass(frozen=True)
class Fault:
    """A fault, and the metrics that show it.

    Attributes:
        algorithm: The name of the algorithm.
        healthy: The settings of the runs without the fault.
        broken: The settings of the runs with the fault, where they differ.
        steps: The environment steps of a run.
        metrics: What is drawn, a panel each.
        logarithmic: Which of them have a logarithmic axis.
    """

    algorithm: str
    healthy: Mapping[str, Any]
    broken: Mapping[str, Any]
    steps: int
    metrics: tuple[str, ...]
    logarithmic: tuple[str, ...] = ()


def _learner(*names: str) -> tuple[str, ...]:
    return tuple(f"{LEARNER}{name}" for name in names)


FAULTS = {
    "lr_too_high": Fault(
        "PPO", PPO, {"lr": 0.05}, 50_000,
        (RETURN, *_learner("approx_kl", "entropy")), _learner("approx_kl"),
    ),
    "lr_too_low": Fault(
        "PPO", PPO, {"lr": 1e-6}, 50_000,
        (RETURN, *_learner("approx_kl", "clip_fraction")), _learner("approx_kl"),
    ),
    "entropy_collapse": Fault(
        "A2C", A2C, {"lr": 0.1}, 50_000, (RETURN, *_learner("entropy"))
    ),
    "entropy_stays": Fault(
        "PPO", PPO, {"entropy_coeff": 1.0}, 50_000, (RETURN, *_learner("entropy"))
    ),
    "values_clipped": Fault(
        "PPO", PENDULUM, {"vf_clip_param": 10.0}, 50_000,
        (RETURN, *_learner("vf_explained_var", "vf_loss")), _learner("vf_loss"),
    ),
    "gamma_too_low": Fault(
        "PPO", PENDULUM, {"gamma": 0.5}, 50_000,
        (RETURN, *_learner("vf_explained_var", "advantage_std")), _learner("advantage_std"),
    ),
    "gamma_too_high": Fault(
        "PPO", PENDULUM, {"gamma": 0.9999}, 50_000,
        (RETURN, *_learner("vf_explained_var", "advantage_std")), _learner("advantage_std"),
    ),
    "replay_too_late": Fault(
        "DQN", DQN, {"num_steps_sampled_before_learning_starts": 15_000}, 20_000,
        (RETURN, "num_updates_lifetime", *_learner("q_mean")),
    ),
    "epsilon_too_long": Fault(
        "DQN", DQN, {"epsilon": [[0, 1.0], [1_000_000, 0.04]]}, 20_000,
        (RETURN, "exploration/epsilon", f"evaluation/{RETURN}"),
    ),
    "q_diverges": Fault(
        "DQN", DQN, NO_TARGET, 20_000,
        (RETURN, *_learner("q_max", "td_error_mean")), _learner("q_max", "td_error_mean"),
    ),
}  # fmt: skip


def train(algorithm: str, settings: Mapping[str, Any], steps: int) -> list[dict[str, Any]]:
    """Train for some environment steps, and return the results of all iterations."""
    return _trained(algorithm, json.dumps(settings), steps)


@functools.cache  # faults share their healthy runs
def _trained(algorithm: str, settings: str, steps: int) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    with get_algorithm(algorithm)(config=json.loads(settings)) as run:
        while not results or results[-1][STEPS] < steps:
            results.append(run.train())
    return results


def draw(fault: Fault, out: Path, seeds: Sequence[int] = SEEDS) -> Path:
    """Train with a fault and without it, and draw its metrics: a panel each, a line a run."""
    healthy = f"{fault.algorithm} on {fault.healthy['env']}, healthy"
    broken = ", ".join(f"{name}: {value}" for name, value in fault.broken.items())
    shown = ((healthy, BLUE, fault.healthy), (broken, ORANGE, {**fault.healthy, **fault.broken}))
    figure = new_figure(2.9 * len(fault.metrics), 2.5)
    panels = figure.subplots(1, len(fault.metrics))
    for label, colour, settings in shown:
        for seed in seeds:
            results = train(fault.algorithm, {**settings, "seed": seed}, fault.steps)
            for axes, metric in zip(panels, fault.metrics, strict=True):
                points = [(r[STEPS] / 1000, r[metric]) for r in results if metric in r]
                marker = "o" if len(points) < 12 else None
                line = {"color": colour, "marker": marker, "ms": 3, "lw": 1.2}
                axes.plot(*zip(*points, strict=True), label=label, **line)
    for axes, metric in zip(panels, fault.metrics, strict=True):
        axes.set_yscale("log" if metric in fault.logarithmic else "linear")
        axes.set_title(metric.removeprefix(LEARNER), fontsize=10, loc="left")
        axes.set_xlabel("thousand env steps")
        dress(axes)
    lines = panels[0].get_lines()[:: len(seeds)]
    figure.legend(handles=lines, loc="outside lower left", ncols=2, frameon=False)
    return save(figure, out)


def main() -> None:
    """Draw the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description="Draw the pictures of did_not_learn.md.")
    parser.add_argument("names", nargs="*", help=f"pictures to draw: {', '.join(FAULTS)}")
    names = parser.parse_args().names or [*FAULTS]
    for name in names:
        if name not in FAULTS:
            parser.error(f"{name} is no picture; allowed: {', '.join(FAULTS)}")
    for name in names:
        print(draw(FAULTS[name], HERE / f"{name}.png"), flush=True)


if __name__ == "__main__":
    main()
