"""What trials that learn together in one process cost, and whether they learn as they do alone.

`cost`: K runs of PPO on CartPole in one process of one thread, one after the other and as one
tensor program, in turns; seconds for all of them and memory, by K; draws `trial_batching.png`::

    python -m experiments.benchmarks.trial_batching cost --members 1 2 5 8 32 128

`scores`: the last returns of 30 seeds alone and of the same seeds together, and whether they are
equal within a margin by two one-sided Welch tests (a p-value for each side)::

    python -m experiments.benchmarks.trial_batching scores --task cartpole

`seeds` measures them under Tune: `python -m experiments.benchmarks.seeds`.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import torch
from scipy import stats

from experiments.benchmarks.gather import HERE, console, keep, table
from trainables import PPO, PPOConfig
from trainables.core.features import using
from trainables.runtime.members.meeting import Meeting

RETURN, STEPS = "episode_return_mean", "num_env_steps_sampled_lifetime"


class Task(NamedTuple):
    """An environment and how it is learned.

    Attributes:
        env: Its id.
        settings: Of PPO.
        steps: Environment steps of a run.
        margin: Mean returns that differ by less are called equal: 5 % of the range of returns.
    """

    env: str
    settings: dict[str, Any]
    steps: int
    margin: float


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        {
            "num_envs_per_env_runner": 32,
            "train_batch_size_per_learner": 2048,
            "minibatch_size": 256,
            "num_epochs": 6,
        },
        40_960,
        25.0,
    ),
    "pendulum": Task(
        "Pendulum-v1",
        {
            "num_envs_per_env_runner": 16,
            "train_batch_size_per_learner": 2048,
            "minibatch_size": 256,
            "num_epochs": 10,
            "gamma": 0.9,
            "lr": 1e-3,
        },
        122_880,
        75.0,
    ),
}


def made(task: Task, seed: int) -> PPO:
    """A run that has not begun."""
    config = PPOConfig().update_from_dict({"env": task.env, "seed": seed, **task.settings})
    with using("batching"):
        return PPO(config=config)


def iterate(algos: list[PPO], meeting: Meeting | None) -> list[dict[str, Any]]:
    """An iteration of each, one after the other or together."""
    if meeting is None:
        return [algo.train() for algo in algos]
    outcomes = meeting.run({number: algo.train for number, algo in enumerate(algos)})
    for outcome in outcomes.values():
        if isinstance(outcome, BaseException):
            raise outcome
    return list(outcomes.values())


# ------------------------------------------------------------------ cost


def peak() -> float:
    """The most memory that this process has had so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def cost(members: int, iterations: int, *, together: bool) -> dict[str, float]:
    """Seconds of an iteration of all members, the median after a warm-up, and memory, MiB."""
    torch.set_num_threads(1)
    before = peak()
    algos, meeting = (
        [made(TASKS["cartpole"], seed) for seed in range(members)],
        Meeting() if together else None,
    )
    iterate(algos, meeting)
    seconds = []
    for _ in range(iterations):
        start = time.perf_counter()
        iterate(algos, meeting)
        seconds.append(time.perf_counter() - start)
    memory = peak() - before
    for algo in algos:
        algo.stop()
    return {"seconds": median(seconds), "memory": memory}


def measure_cost(args: argparse.Namespace) -> None:
    """Measures, prints a table, writes `trial_batching_cost.json` and draws the figure."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for round_number in range(args.rounds):
        for count in args.members:
            for name, together in (("one by one", False), ("together", True)):
                # In a process of its own, whose memory is that of these members.
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                    one = pool.submit(cost, count, args.iterations, together=together).result()
                found.setdefault(str(count), {}).setdefault(name, []).append(one)
            console.print(f"round {round_number + 1}: {count} members")
    view = table(
        "PPO on CartPole, one process of one thread",
        *("members", "s one by one", "s together", "times as fast", "MiB", "MiB together"),
    )
    for count_, of in found.items():
        ratio = median(
            alone["seconds"] / joint["seconds"]
            for alone, joint in zip(of["one by one"], of["together"], strict=True)
        )
        seconds = [median(run["seconds"] for run in runs) for runs in of.values()]
        memory = [median(run["memory"] for run in runs) for runs in of.values()]
        view.add_row(
            count_,
            *(f"{value:.3f}" for value in seconds),
            f"{ratio:.2f}",
            *(f"{value:.0f}" for value in memory),
        )
    console.print(view)
    settings = {"rounds": args.rounds, "iterations": args.iterations}
    keep(args.out, "trial_batching_cost", settings, found)
    draw(found, args.out / "trial_batching.png")


def draw(found: dict[str, dict[str, list[dict[str, float]]]], path: Path) -> None:
    """Seconds of an iteration of all members and their memory, by the number of members."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    counts = [int(count) for count in found]
    labels = {"seconds": "seconds of an iteration of all", "memory": "memory of all, MiB"}
    colors = {"one by one": "#d55e00", "together": "#0072b2"}
    for axes, (key, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
        for name, color in colors.items():
            values = [median(run[key] for run in of[name]) for of in found.values()]
            axes.plot(counts, values, marker="o", color=color, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.set_xlabel("members of a process")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


# ------------------------------------------------------------------ scores


def last_returns(name: str, seeds: list[int], *, together: bool) -> list[float]:
    """The returns of the last iteration of each seed."""
    torch.set_num_threads(1)
    task = TASKS[name]
    algos = [made(task, seed) for seed in seeds]
    meeting = Meeting() if together else None
    results: list[dict[str, Any]] = [{} for _ in algos]
    while due := [n for n, result in enumerate(results) if result.get(STEPS, 0) < task.steps]:
        new = iterate([algos[number] for number in due], meeting)
        for number, result in zip(due, new, strict=True):
            results[number] = result
    for algo in algos:
        algo.stop()
    return [float(result[RETURN]) for result in results]


def measure_scores(args: argparse.Namespace) -> None:
    """Measures, prints means and p-values, and writes `trial_batching_<task>.json`."""
    seeds, task = [*range(args.seeds)], TASKS[args.task]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        runs = [pool.submit(last_returns, args.task, seeds, together=how) for how in (False, True)]
        alone, together = (run.result() for run in runs)
    difference = fmean(together) - fmean(alone)
    sides = [
        stats.ttest_ind(
            [value + shift for value in together], alone, equal_var=False, alternative=side
        ).pvalue
        for shift, side in ((task.margin, "greater"), (-task.margin, "less"))
    ]
    view = table(f"PPO on {task.env}, {task.steps:,} steps, {args.seeds} seeds", "", "mean", "sd")
    for name, values in (("alone", alone), ("together", together)):
        view.add_row(name, f"{fmean(values):.1f}", f"{stats.tstd(values):.1f}")
    console.print(view)
    equal = "equal" if max(sides) < 0.05 else "not shown to be equal"
    console.print(
        f"difference {difference:+.1f}; within {task.margin:g}: p = {max(sides):.2g}, {equal}"
    )
    results = {"alone": alone, "together": together, "p": sides}
    settings = {"seeds": args.seeds, "steps": task.steps, "margin": task.margin}
    keep(args.out, f"trial_batching_{args.task}", settings, results)


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the files")
    commands = parser.add_subparsers(required=True)
    of_cost = commands.add_parser("cost")
    of_cost.add_argument("--members", type=int, nargs="+", default=[1, 2, 5, 8, 32, 128])
    of_cost.add_argument("--rounds", type=int, default=3)
    of_cost.add_argument("--iterations", type=int, default=5, help="that are timed")
    of_cost.set_defaults(measure=measure_cost)
    of_scores = commands.add_parser("scores")
    of_scores.add_argument("--task", choices=list(TASKS), default="cartpole")
    of_scores.add_argument("--seeds", type=int, default=30)
    of_scores.set_defaults(measure=measure_scores)
    args = parser.parse_args()
    args.measure(args)


if __name__ == "__main__":
    main()
