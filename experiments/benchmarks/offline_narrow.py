"""What the conservative term is for: SAC and CQL on narrow data.

Little else differs: CQL's targets leave the entropy out, by its default. The data are those of
Pendulum's expert with a little noise (`narrow` of `offline_data_sets.py`). What is drawn: greedy
returns as updates go on, and what Q says of the data beside what the data's returns were::

    python -m experiments.benchmarks.offline_narrow /path/to/data
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.benchmarks import curves
from experiments.benchmarks.gather import Result, console, table
from experiments.benchmarks.off_policy import greedy_returns
from trainables import CQLConfig, SACConfig

ENV = "Pendulum-v1"
GAMMA = 0.95
EVERY = 500
"""Updates between two evaluations."""
EPISODES = 10
COLORS = {"CQL": curves.COLORS["ours"], "SAC": curves.COLORS["sb3"]}


def main() -> None:
    """Trains, prints a table, writes `offline_narrow.json` and draws `offline_narrow.png`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="the folder of offline_data_sets.py")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each, from 0")
    parser.add_argument("--updates", type=int, default=5_000)
    curves.add_figures(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = (args.data / "pendulum" / "narrow").absolute()
    runs: dict[str, list[Result]] = {name: [] for name in COLORS}
    for seed in range(args.seeds):
        for name, measured in runs.items():
            measured.append(trained(name, data, seed, args.updates))
            last = measured[-1]["curve"][-1]
            console.print(f"{name}, seed {seed}: return {last[1]:.0f}, Q {last[2]:.1f}")
    known = json.loads((data.parent / "scores.json").read_text(encoding="utf-8"))
    kept = {
        "return of data": known["narrow data"]["mean_return"],
        "discounted return of data": mean_discounted_return(data),
        "runs": runs,
    }
    curves.keep((args.figures,), "offline_narrow", {"updates": args.updates}, kept)
    show(runs)
    draw(kept, args.figures / "offline_narrow.png")


def trained(name: str, data: Path, seed: int, updates: int) -> Result:
    """One run; its `curve` has rows of updates, greedy mean return, and mean Q of the data."""
    config: Any = CQLConfig() if name == "CQL" else SACConfig()
    config.environment(ENV).training(lr=1e-3, gamma=GAMMA, train_batch_size_per_learner=128)
    config.training(model={"fcnet_hiddens": [64, 64]})
    config.offline_data(input_=str(data), dataset_num_iters_per_learner=EVERY)
    if name == "CQL":
        config.training(bc_iters=0)
    curve: list[list[float]] = []
    with config.debugging(seed=seed).build() as algo:
        while algo.num_updates < updates:
            result = algo.train()

            def act(obs: np.ndarray) -> Any:
                return algo.compute_single_action(obs, explore=False)

            played = float(np.mean(greedy_returns(ENV, act, EPISODES)))
            [q_mean] = [v for k, v in result.items() if k.endswith("/q_mean")]
            curve.append([result["num_updates_lifetime"], played, float(q_mean)])
    return {"seed": seed, "curve": curve}


def mean_discounted_return(data: Path) -> float:
    """Of the data's steps to the end of their episodes, which are cut after 200 steps."""
    arrays = np.load(data / "arrays.npz")
    ends = arrays["terminated"] | arrays["truncated"]
    returns, later = np.zeros(len(ends)), 0.0
    for row in range(len(ends) - 1, -1, -1):
        later = arrays["rewards"][row] + (0.0 if ends[row] else GAMMA * later)
        returns[row] = later
    return float(returns.mean())


def show(runs: dict[str, list[Result]]) -> None:
    """Prints the last returns and Q of every seed."""
    view = table("Pendulum, narrow data", "", "returns of the seeds", "Q of the data")
    for name, measured in runs.items():
        last = [run["curve"][-1] for run in measured]
        texts = (" ".join(f"{row[column]:.{digits}f}" for row in last) for column, digits in _SHOWN)
        view.add_row(name, *texts)
    console.print(view)


_SHOWN = ((1, 0), (2, 1))
"""Columns of a curve, and digits after the point."""


def draw(kept: dict[str, Any], path: Path) -> None:
    """Two panels: returns, and Q."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, column in ((left, 1), (right, 2)):
        for name, measured in kept["runs"].items():
            lines = [[(row[0], row[column]) for row in run["curve"]] for run in measured]
            curves.band(axes, lines, COLORS[name], name)
        axes.set_xlabel("updates")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    left.set_title("greedy return", fontsize="medium", loc="left")
    right.set_title("mean Q of the data's actions", fontsize="medium", loc="left")
    for axes, name in ((left, "return of data"), (right, "discounted return of data")):
        axes.axhline(kept[name], color="0.35", linestyle="--", label=f"mean {name}")
        axes.legend(frameon=False)
    seeds = max(map(len, kept["runs"].values()))
    title = f"Pendulum-v1, an expert's narrow data: mean and range of {seeds} seeds"
    figure.suptitle(title, fontsize="medium", x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    console.print(f"figure: {path}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main()
