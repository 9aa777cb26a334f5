"""What recording costs an env runner: CPU seconds with `output` over those without.

Two algorithms live in one process with one torch thread and take turns, so that a shared machine
disturbs both alike. CPU seconds are those of the whole process, the thread that writes among them::

    python -m experiments.benchmarks.output_cost --slots 8 64
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from trainables import DQNConfig, PPOConfig
from trainables.algorithm import Algorithm

ALGORITHMS: dict[str, Any] = {"ppo": PPOConfig, "dqn": DQNConfig}
_T = 2.1  # Student's, 95 %, of about 20 rounds


def main() -> None:
    """Prints one JSON line for each number of slots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="ppo")
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--slots", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=40_000, help="environment steps of a turn")
    parser.add_argument("--format", default="parquet")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for slots in given.slots:
        print(json.dumps(measure(given, slots)), flush=True)


def measure(given: argparse.Namespace, slots: int) -> dict[str, Any]:
    """Return the ratios of sampling, and of training, with so many slots."""
    settings = {"env": given.env, "num_envs_per_env_runner": slots, "seed": 0}
    config_class = ALGORITHMS[given.algorithm]
    with tempfile.TemporaryDirectory() as folder:
        output = {"output": folder, "output_config": {"format": given.format}}
        plain = config_class.from_dict(settings).build()
        recorded = config_class.from_dict({**settings, **output}).build()
        with plain, recorded:
            pair = (plain, recorded)
            sampling = [_ratio(pair, Algorithm.sample, given.steps) for _ in range(given.rounds)]
            training = [_ratio(pair, _step, given.steps) for _ in range(given.rounds)]
    return {
        "algorithm": given.algorithm,
        "slots": slots,
        "format": given.format,
        "sampling": _summary(sampling),
        "training": _summary(training),
    }


def _step(algorithm: Algorithm) -> None:
    algorithm.training_step()


def _ratio(
    pair: tuple[Algorithm, Algorithm], work: Callable[[Algorithm], Any], steps: int
) -> float:
    """Return the CPU seconds of the recorded one over those of the plain one, in short turns."""
    spent = [0.0, 0.0]
    begin = [algorithm.num_env_steps_sampled for algorithm in pair]
    turn = 0
    while any(a.num_env_steps_sampled - b < steps for a, b in zip(pair, begin, strict=True)):
        turn += 1
        for index in (0, 1) if turn % 2 else (1, 0):
            start, first = time.process_time(), pair[index].num_env_steps_sampled
            while pair[index].num_env_steps_sampled - first < steps // 10:
                work(pair[index])
            if turn % 10 == 0:
                pair[index].env_runners.get_state()  # what was recorded is in whole files with it
            spent[index] += time.process_time() - start
    return spent[1] / spent[0]


def _summary(ratios: list[float]) -> dict[str, float]:
    """Return the geometric mean of ratios, and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    half = _T * statistics.stdev(logs) / math.sqrt(len(logs))
    return {
        "ratio": round(math.exp(mean), 4),
        "low": round(math.exp(mean - half), 4),
        "high": round(math.exp(mean + half), 4),
    }


if __name__ == "__main__":
    main()
