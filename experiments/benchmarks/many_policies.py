"""Memory of hundreds of policies of which few are in memory (`policy_map_capacity`).

PPO with 4 agents in 8 slots, whose policies change from episode to episode. Each capacity is
trained in a process of its own, then writes a checkpoint and loads it. Figures are kept in
`figures/`::

    python -m experiments.benchmarks.many_policies --policies 500 --capacities 50 0
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments.benchmarks import curves
from experiments.benchmarks.gather import HERE, console, table

BOUND = 1.1
"""How many times the memory after the first iteration that after the last one may be."""
HIDDEN = [256, 256]


def main() -> None:
    """Measures each capacity, prints the table and writes `many_policies.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--policies", type=int, default=500)
    parser.add_argument("--capacities", type=int, nargs="+", default=[50, 0], help="0: all of them")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--of-one", type=int, metavar="CAPACITY", help=argparse.SUPPRESS)
    curves.add_figures(parser)
    args = parser.parse_args()
    if args.of_one is not None:
        print(json.dumps(measured(args.policies, args.of_one, args.iterations)))
        return
    view = table(
        f"PPO with {args.policies} policies, MB",
        "in memory",
        "first iteration",
        "last",
        "most, with a checkpoint",
        "s of an iteration",
    )
    found = {}
    for capacity in args.capacities:
        own = in_process(args.policies, capacity, args.iterations)
        found[str(capacity or args.policies)] = own
        is_bounded = own["megabytes"][-1] <= BOUND * own["megabytes"][0]
        view.add_row(
            str(capacity or "all"),
            f"{own['megabytes'][0]:.0f}",
            f"{own['megabytes'][-1]:.0f}{'' if is_bounded else ' (grows)'}",
            f"{own['peak']:.0f}",
            f"{sorted(own['seconds'])[len(own['seconds']) // 2]:.1f}",
        )
    console.print(view)
    settings = {"policies": args.policies, "hidden": HIDDEN, "iterations": args.iterations}
    curves.keep((args.figures,), "many_policies", settings, found)


def in_process(num_policies: int, capacity: int, num_iterations: int) -> dict[str, Any]:
    """Return what a process of its own measures of one capacity."""
    given = [f"--policies={num_policies}", f"--iterations={num_iterations}", f"--of-one={capacity}"]
    command = [sys.executable, "-m", "experiments.benchmarks.many_policies", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parents[1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(num_policies: int, capacity: int, num_iterations: int) -> dict[str, Any]:
    """Train, write a checkpoint and load it; return megabytes after each iteration, and the most.

    Args:
        num_policies: How many there are.
        capacity: How many are in memory; 0: all.
        num_iterations: How often training is called.
    """
    from trainables import PPO, PPOConfig

    def rotating(agent_id: str, episode: Any, worker: Any, **kwargs: Any) -> str:
        number = 7 * int(agent_id.rpartition("_")[2]) + 4 * episode.episode_id
        return f"policy_{number % num_policies}"

    config = (
        PPOConfig()
        .environment("multi_agent_cartpole", env_config={"num_agents": 4})
        .env_runners(num_envs_per_env_runner=8)
        .multi_agent(
            policies=[f"policy_{number}" for number in range(num_policies)],
            policy_mapping_fn=rotating,
            policy_map_capacity=capacity or None,
        )
        .training(train_batch_size=1024, minibatch_size=256, num_epochs=2)
        .training(model={"fcnet_hiddens": HIDDEN})
        .debugging(seed=0)
    )
    found: dict[str, Any] = {"megabytes": [], "seconds": []}
    algorithm = config.build()
    for _ in range(num_iterations):
        start = time.perf_counter()
        algorithm.train()
        found["seconds"].append(time.perf_counter() - start)
        found["megabytes"].append(own_megabytes())
    with tempfile.TemporaryDirectory() as folder:
        algorithm.save_checkpoint(folder)
        algorithm.stop()
        del algorithm
        PPO.from_checkpoint(folder, policy_mapping_fn=rotating).stop()
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return found


def own_megabytes() -> float:
    """Return the memory of this process that no other one shares (Linux)."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) / 1e3


if __name__ == "__main__":
    main()
