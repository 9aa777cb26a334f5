"""What agents cost beside slots: CPU seconds of 4 agents in a slot over those of 4 slots of one.

The same cart poles and the same network, which balances them (it is trained first), so that as many
agents act in each step here as slots do there; and a network that knows nothing, where agents that
have fallen wait for the others of their slot. For a machine that is shared, see `in_turns.py`::

    python experiments/benchmarks/agent_pairs.py --slots 1 4

The last line it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import in_turns  # type: ignore[import-not-found]  # the neighbours
import numpy as np
import ours  # type: ignore[import-not-found]
import torch

from trainables import PPO, Algorithm
from trainables.core.config.policies import DEFAULT_POLICY

AGENTS = 4
LIMIT = 1.15
"""Of the ratios, that agents may cost at most."""
STEPS = 256
"""Of each agent, or slot of one, in an iteration."""
Weights = dict[str, dict[str, np.ndarray]]


def made(slots: int, agents: int, weights: Weights | None) -> Algorithm:
    """One policy that hardly learns, for as many rows of either kind."""
    settings = {
        **ours.EQUAL,
        "num_envs_per_env_runner": slots,
        # Whether it counts environments' steps or agents' is the same to one agent.
        "train_batch_size_per_learner": slots * STEPS,
        "lr": 1e-12,
        "seed": 0,
    }
    if agents > 1:
        settings |= {"env": "multi_agent_cartpole", "env_config": {"num_agents": agents}}
    algo: Algorithm = PPO(config=settings)
    if weights is not None:
        algo.set_weights(weights)
    return algo


def balancing(steps: int) -> Weights:
    """The weights of a policy that balances nearly every pole for 500 steps."""
    algo: Algorithm = PPO(config={**ours.BEST, "seed": 0})
    while algo.num_env_steps_sampled < steps:
        algo.train()
    weights: Weights = algo.get_weights()
    algo.stop()
    return weights


class Contestant:
    """An algorithm whose sampling, or whole iterations, are timed.

    Args:
        algo: The algorithm.
        rows: Agents of all slots, or slots of one: rows of a step.
        is_training: Whole iterations.
    """

    def __init__(self, algo: Algorithm, rows: int, is_training: bool) -> None:
        self.algo, self.rows, self.is_training = algo, rows, is_training

    def cpu_us(self, iterations: int) -> tuple[float, float]:
        """CPU microseconds of a row of a step, and of a row in which somebody acted."""
        acted, start = 0, time.process_time()
        for _ in range(iterations):
            if self.is_training:
                before = self.algo.num_env_steps_trained
                self.algo.train()
                acted += self.algo.num_env_steps_trained - before
            else:
                sampled = self.algo.sample()
                acted += sum(rollout.num_env_steps for rollout in sampled.values())
        used = (time.process_time() - start) * 1e6
        return used / (iterations * STEPS * self.rows), used / max(acted, 1)


def compared(slots: int, weights: Weights | None, is_training: bool, args: Any) -> dict[str, Any]:
    """Medians and ratios of agents over slots of one agent, as many rows."""
    rows = slots * AGENTS
    contestants = {
        "agents": Contestant(made(slots, AGENTS, weights), rows, is_training),
        "slots": Contestant(made(rows, 1, weights), rows, is_training),
    }
    for contestant in contestants.values():
        contestant.cpu_us(args.warmup)
    measured = in_turns.in_turns(contestants, lambda one: one.cpu_us(args.iterations), args.pairs)
    for contestant in contestants.values():
        contestant.algo.stop()
    agents, of_one = measured["agents"], measured["slots"]
    ratios = agents / of_one
    return {
        "slots": slots,
        "task": "training" if is_training else "sampling",
        "policy": "knows nothing" if weights is None else "balances",
        "agents_us_per_row": float(np.median(agents[:, 0])),
        "one_agent_us_per_row": float(np.median(of_one[:, 0])),
        "ratio_per_acting_agent": float(np.median(ratios[:, 1])),
        **in_turns.ratio_summary(ratios[:, 0]),
    }


def main() -> None:
    """Prints a line for each comparison, and all of them as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 4], help="of several agents")
    parser.add_argument("--pairs", type=int, default=15, help="of blocks, in turns")
    parser.add_argument("--iterations", type=int, default=4, help="of a block")
    parser.add_argument("--warmup", type=int, default=6, help="iterations of each before")
    parser.add_argument("--train", type=int, default=60_000, help="steps until it balances")
    args = parser.parse_args()
    torch.set_num_threads(1)
    trained = balancing(args.train)
    found = []
    for weights in (trained, None):
        for slots in args.slots:
            for is_training in (False, True):
                result = compared(slots, weights, is_training, args)
                found.append(result)
                print(
                    f"{AGENTS} agents in {slots} slots, {result['task']}, {result['policy']}: "
                    f"{result['ratio_median']:.2f} (at most {LIMIT}), "
                    f"{result['ratio_per_acting_agent']:.2f} per acting agent"
                )
    print(json.dumps({"limit": LIMIT, "policy_id": DEFAULT_POLICY, "results": found}))


if __name__ == "__main__":
    main()
