"""How well agents learn with PPO: cart poles, particles, tic-tac-toe, and whether images run.

`cartpole`: 4 agents, 2 policies, 400,000 agent steps, the greedy return of each policy. `spread`
and `speaker_listener`: MPE's games in 300,000 agent steps, greedy returns of all agents together
beside random play on the same seeds, `spread` beside RLlib's PPO with equal settings. `tictactoe`:
a learner against random moves on both sides. `agents_ppo.py` has all settings. Every run is kept as
soon as it ends, and one that the record has already is not repeated::

    python -m experiments.benchmarks.multi_agent_scores --peers-python /path/to/python
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np

from analysis.statistics.estimates import iqm
from analysis.statistics.intervals import iqm_interval
from experiments.benchmarks import gather
from experiments.benchmarks.gather import LABELS, Result, console, table, verdict

POLICY_RETURN = 450.0
"""Of 500, that each policy of the cart poles has to reach greedily with every seed."""


class Task(NamedTuple):
    """A game, for how long it is learned, by whom, and on how many episodes it is scored."""

    agent_steps: int
    contestants: tuple[str, ...] = ("ours",)
    seeds: int = 5
    episodes: int = 100


TASKS = {
    "cartpole": Task(400_000),
    "spread": Task(300_000, ("ours", "rllib"), seeds=3),
    "speaker_listener": Task(300_000, seeds=3),
    "tictactoe": Task(100_000, seeds=3, episodes=500),
    "images": Task(512, seeds=1),
}


def main() -> None:
    """Runs what the record lacks, keeps it in `multi_agent_scores.json`, and prints the tables."""
    parser = gather.arguments(__doc__, ("ours", "rllib"))
    parser.set_defaults(algorithm="agents", out=gather.HERE / "figures")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each task's own")
    args = parser.parse_args()
    path: Path = args.out / "multi_agent_scores.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else []
    for name in args.tasks:
        task = TASKS[name]
        for seed in range(task.seeds) if args.seeds is None else args.seeds:
            for contestant in gather.chosen(args, task.contestants):
                key = {"game": name, "contestant": contestant, "seed": seed}
                if any(key.items() <= run.items() for run in runs):
                    continue
                runs.append({**run(key, task, args), **key})
                console.print(f"{key}  {runs[-1]['seconds']:.0f} s", highlight=False)
                gather.keep(args.out, "multi_agent_scores", {"tasks": TASKS}, runs)
    show(runs)


def run(key: Result, task: Task, args: argparse.Namespace) -> Result:
    """One run in a process of its own."""
    sizes = ("--agent-steps", task.agent_steps, "--episodes", task.episodes)
    given = (key["game"], "score", *sizes, "--seed", key["seed"])
    return gather.measure(key["contestant"], args.peers_python, *given, algorithm="agents")


def show(runs: list[Result]) -> None:
    """Prints what each game came to."""
    by_game: dict[str, list[Result]] = {}
    for run_ in runs:
        by_game.setdefault(run_["game"], []).append(run_)
    for game, measured in by_game.items():
        if game == "cartpole":
            show_policies(measured)
        elif game == "tictactoe":
            show_outcomes(measured)
        elif game != "images":
            show_returns(game, measured)
        else:
            made = measured[0]["agent_steps"]
            console.print(f"cooperative_pong: ran for {made:,} agent steps", highlight=False)


def show_policies(runs: list[Result]) -> None:
    """Prints the greedy return of each policy of the cart poles with each seed."""
    view = table("CartPole, 4 agents, 2 policies", "seed", "agent steps", "by policy", "lowest", "")
    for run_ in runs:
        values = run_["by_policy"]
        lowest = min(values.values())
        shown = ", ".join(f"{policy} {value:.0f}" for policy, value in values.items())
        told = (f"{run_['agent_steps']:,}", shown, f"{lowest:.0f}")
        view.add_row(str(run_["seed"]), *told, verdict(lowest, POLICY_RETURN))
    console.print(view)


def show_returns(game: str, runs: list[Result]) -> None:
    """Prints the IQM over seeds of greedy returns, and what random play has on the same seeds."""
    view = table(game, "", "seeds", "agent steps", "IQM", "95 % interval", "range", "s")
    for name in dict.fromkeys(run_["contestant"] for run_ in runs):
        mine = [run_ for run_ in runs if run_["contestant"] == name]
        means = np.array([mean(run_["returns"]) for run_ in mine])
        low, high = iqm_interval(means)
        view.add_row(
            LABELS[name],
            str(len(mine)),
            f"{gather.middle(mine, 'agent_steps'):,.0f}",
            f"{iqm(means):.1f}",
            f"{low:.1f} to {high:.1f}",
            f"{means.min():.1f} to {means.max():.1f}",
            f"{gather.middle(mine, 'seconds'):.0f}",
        )
    view.add_row("random play", "", "", f"{mean(runs[0]['random_returns']):.1f}", "", "", "")
    console.print(view)


def show_outcomes(runs: list[Result]) -> None:
    """Prints shares of wins, draws and losses, by seed and by side; and those of random play."""
    view = table("tic-tac-toe against random moves", "", "side", "wins", "draws", "losses")
    rows = [(f"seed {run_['seed']}", run_["outcomes"]) for run_ in runs]
    for title, outcomes in (*rows, ("random play", runs[0]["random_outcomes"])):
        for side, counts in outcomes.items():
            shares = [f"{count / sum(counts):.1%}" for count in counts]
            view.add_row(title, side, *shares)
    console.print(view)


if __name__ == "__main__":
    main()
