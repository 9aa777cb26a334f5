"""What a memory is worth, and what it costs: PPO on CartPole without velocities.

Scores: LSTM and feed-forward network get the same search, `TRIALS` on one seed; the best settings
of each are then trained on other seeds (`--others`: GRU and attention, too, with the LSTM's
settings). The figure and its numbers are kept in `figures/`. Speed: environment steps per second of
whole training at equal widths, rounds interleaved, every network in one process with one thread::

    python -m experiments.benchmarks.recurrent scores
    python -m experiments.benchmarks.recurrent speed
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median
from typing import Any

from experiments.benchmarks import curves, tuned
from experiments.benchmarks.gather import HERE, Result, console, keep, spread, table, verdict
from experiments.sweep.load import load_spec
from trainables.ppo import PPO

SPEC = Path(__file__).parents[1] / "tuned" / "ppo" / "stateless_cartpole.yaml"
NETWORKS: dict[str, dict[str, Any]] = {
    "LSTM": {"use_lstm": True, "lstm_cell_size": 64, "max_seq_len": 16},
    "feed-forward": {"fcnet_hiddens": [64, 64]},
    "GRU": {"use_gru": True, "lstm_cell_size": 64, "max_seq_len": 16},
    "attention": {"use_attention": True, "attention_memory_inference": 16, "max_seq_len": 16},
}
"""Hidden layer of 64 units and a memory of 64, or two hidden layers of 64, by name."""
SEARCHED = ("LSTM", "feed-forward")
TRIALS = [
    {"lr": lr, "lambda_": decay} for lr, decay in itertools.product((3e-4, 1e-3), (0.9, 0.95))
]
SEARCH_SEED = 1000
COLORS = {"LSTM": "#0072b2", "feed-forward": "#d55e00", "GRU": "#009e73", "attention": "#cc79a7"}
AT_LEAST, AT_MOST, TIMES = 400, 250, 3.0
"""Greedy returns with and without a memory, and how many times slower an LSTM may be."""


def main() -> None:
    """Measures, prints a table and writes `recurrent_scores.json` or `recurrent_speed.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    commands = parser.add_subparsers(dest="command", required=True)
    scoring = commands.add_parser("scores", help="returns with and without a memory")
    scoring.add_argument("--seeds", type=int, default=3, help="of LSTM and feed-forward, from 1")
    scoring.add_argument("--steps", type=int, default=200_000, help="environment steps of a run")
    scoring.add_argument("--search-steps", type=int, default=50_000, help="… of a trial")
    scoring.add_argument("--others", action="store_true", help="also GRU and attention, one seed")
    scoring.add_argument("--jobs", type=int, default=2, help="runs at once, one thread each")
    curves.add_figures(scoring)
    timing = commands.add_parser("speed", help="environment steps per second")
    timing.add_argument("--rounds", type=int, default=5, help="measurements of each")
    timing.add_argument("--steps", type=int, default=20_480, help="environment steps of each")
    args = parser.parse_args()
    if args.command == "scores":
        scores(args)
    else:
        speed(args)


def settings_of(network: str, seed: int, **changes: Any) -> dict[str, Any]:
    """The spec's settings with another network."""
    config = {**load_spec(SPEC).config, "seed": seed, **changes}
    return config | {"model": {"fcnet_hiddens": [64], **NETWORKS[network]}}


# ------------------------------------------------------------------ scores


def scores(args: argparse.Namespace) -> None:
    """Search, train on fresh seeds, show."""
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        trials = [(n, SEARCH_SEED, args.search_steps, t) for n in SEARCHED for t in TRIALS]
        searched = list(pool.map(partial(shown_run, what="trial"), trials))
        best = {
            name: max((r for r in searched if r["network"] == name), key=lambda r: r["return"])
            for name in SEARCHED
        }
        # From 1: what the spec fixes for all networks was found on seed 0.
        finals = [
            (name, seed, args.steps, best[name if name in best else "LSTM"]["settings"])
            for name in (NETWORKS if args.others else SEARCHED)
            for seed in range(1, 1 + (args.seeds if name in best else 1))
        ]
        runs = list(pool.map(partial(shown_run, what="final"), finals))
    results = {name: [r for r in runs if r["network"] == name] for name, *_ in finals}
    view = table(
        f"PPO on {load_spec(SPEC).config['env']}, {args.steps:,} steps",
        *("", "greedy return", "range", "training return", "settings", ""),
    )
    for name, measured in results.items():
        low = name == "feed-forward"
        worst = (max if low else min)(r["greedy"] for r in measured)
        view.add_row(
            name,
            f"{mean(r['greedy'] for r in measured):.0f}",
            spread(measured, "greedy"),
            f"{mean(r['return'] for r in measured):.0f}",
            ", ".join(f"{k} {v:g}" for k, v in measured[0]["settings"].items()),
            verdict(worst, AT_MOST if low else AT_LEAST, at_most=low),
        )
    console.print(view)
    settings = {name: getattr(args, name) for name in ("seeds", "steps", "search_steps")}
    kept = {"search": searched, "final": results}
    curves.keep((args.out, args.figures), "recurrent_scores", settings, kept)
    draw(results, args.figures / "recurrent_scores.png")


def shown_run(run: tuple[str, int, int, dict[str, float]], what: str) -> Result:
    """`trained`, and a line that says what came out."""
    result = trained(*run)
    console.print(
        f"{what}  {result['network']:<12} seed {result['seed']}  {result['settings']}  "
        f"training {result['return']:.0f}  greedy {result['greedy']:.0f}  {result['seconds']:.0f} s"
    )
    return result


def trained(network: str, seed: int, steps: int, settings: dict[str, float]) -> Result:
    """One run: its curve, the last training return, and that of 100 greedy episodes."""
    # The rate falls to nearly nothing over the run.
    changes: dict[str, Any] = {**settings, "lr": [[0, settings["lr"]], [steps, 1e-5]]}
    result = tuned.trained("PPO", settings_of(network, seed, **changes), steps)
    return {"network": network, "seed": seed, "settings": settings} | result


def draw(results: dict[str, list[Result]], path: Path) -> None:
    """The mean training return of each network, in a band from its worst to its best seed."""
    title, y_label = "PPO on CartPole without velocities", "return, last 100 training episodes"
    legend: dict[str, Any] = {"bbox_to_anchor": (0.0, 0.9), "fontsize": "small"}
    with curves.figure(path, title, y_label, **legend) as axes:
        for name, measured in results.items():
            score = curves.mean_of(measured, "greedy")
            label = f"{name} (greedy at the end: {score:.0f}; {_seeds(len(measured))})"
            curves.band(axes, [result["curve"] for result in measured], COLORS[name], label)
        axes.set_ylim(0, 520)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' if count > 1 else ''}"


# ------------------------------------------------------------------ speed


def speed(args: argparse.Namespace) -> None:
    """Steps per second of each network, after a warm-up."""
    algorithms = {name: PPO(config=settings_of(name, 0, lr=1e-3)) for name in NETWORKS}
    for algorithm in algorithms.values():
        algorithm.train()

    results: dict[str, list[Result]] = {name: [] for name in NETWORKS}
    for _, (name, algorithm) in itertools.product(range(args.rounds), algorithms.items()):
        results[name].append(timed(algorithm, args.steps))
    view = table("PPO, whole training, equal widths", "", "steps/s", "CPU s", "times slower", "")
    plain = _cost(results["feed-forward"])
    for name, measurements in results.items():
        ratio = _cost(measurements) / plain
        view.add_row(
            name,
            f"{median(r['env_steps_per_second'] for r in measurements):,.0f}",
            f"{_cost(measurements) * args.steps:.2f}",
            f"{ratio:.2f}",
            verdict(ratio, TIMES, at_most=True) if name == "LSTM" else "",
        )
    console.print(view)
    keep(args.out, "recurrent_speed", {"rounds": args.rounds, "steps": args.steps}, results)
    for algorithm in algorithms.values():
        algorithm.stop()


def timed(algorithm: PPO, steps: int) -> Result:
    """Train for some steps; wall-clock and CPU seconds."""
    before = algorithm.num_env_steps_sampled
    start, cpu = time.perf_counter(), time.process_time()
    while algorithm.num_env_steps_sampled < before + steps:
        result = algorithm.train()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    count = algorithm.num_env_steps_sampled - before
    return {
        "env_steps": count,
        "env_steps_per_second": count / seconds,
        "cpu_seconds": cpu,
        "episode_len_mean": result["episode_len_mean"],
    }


def _cost(measurements: Iterable[Result]) -> float:
    """CPU seconds of one step, the median: other work on the machine does not count."""
    return median(r["cpu_seconds"] / r["env_steps"] for r in measurements)


if __name__ == "__main__":
    main()
