"""What self-play learns of tic-tac-toe and Connect Four, by games against players written by hand.

The specs `tictactoe_self_play` and `connect_four`, trained on several seeds; the greedy policy then
plays from each seat. Of tic-tac-toe the exact best response is told, too: what a perfect opponent
wins of it, greedy and as it samples::

    python -m experiments.benchmarks.board_games tic_tac_toe
    python -m experiments.benchmarks.board_games connect_four
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy import stats

from experiments.benchmarks.gather import HERE, Result, console, keep, verdict
from experiments.sweep.load import load_spec
from trainables import PPO, Policy
from trainables.runtime.envs.multi_agent.native import ConnectFour, TicTacToe
from trainables.runtime.envs.multi_agent.native.in_a_row import InARowGame
from trainables.runtime.evaluation.matches.play_matches import play_matches
from trainables.runtime.league.best_response import best_response_value, move_probabilities
from trainables.runtime.league.look_ahead import LookAheadPolicy

MOST_LOST = 0.01
"""Share of games that may be lost against uniform moves, from either seat."""


@dataclass(frozen=True)
class Task:
    """What is trained, and who is played afterwards.

    Attributes:
        spec: Name of a spec.
        game: Its rules, on one slot.
        opponents: Plies that each looks ahead, by name; 0 plays uniform moves.
    """

    spec: str
    game: Callable[[], InARowGame]
    opponents: dict[str, int]


TASKS = {
    "tic_tac_toe": Task("tictactoe_self_play", lambda: TicTacToe(1), {"uniform": 0}),
    "connect_four": Task(
        "connect_four", lambda: ConnectFour(1), {"uniform": 0, "one ply": 1, "two plies": 2}
    ),
}


def main() -> None:
    """Trains, plays, prints the shares and writes `board_games_<game>.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("game", choices=TASKS)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--games", type=int, default=1_000, help="from each seat and opponent")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, one thread each")
    args = parser.parse_args()
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(partial(trained, args.game, args.games), range(args.seeds)))
    show(args.game, runs)
    keep(args.out, f"board_games_{args.game}", {"seeds": args.seeds, "games": args.games}, runs)


def trained(name: str, num_games: int, seed: int) -> Result:
    """One run, and the games of what it has learned."""
    task = TASKS[name]
    spec = load_spec(HERE.parent / f"{task.spec}.yaml")
    (steps,) = spec.stop.values()
    began = time.perf_counter()
    config = {**spec.config, "seed": seed, "evaluation_interval": None, "num_gpus": 0}
    with PPO(config) as algorithm:
        while algorithm.train()["num_env_steps_sampled_lifetime"] < steps:
            pass
        seconds = time.perf_counter() - began
        policy = algorithm.policies["main"]
        played = {
            opponent: games_of(policy, algorithm.config, task.game(), plies, num_games)
            for opponent, plies in task.opponents.items()
        }
        result = {"seed": seed, "seconds": seconds, "played": played}
        if name == "tic_tac_toe":
            result["best_response"] = best_responses(policy, task.game())
    console.print(result)
    return result


def games_of(
    policy: Policy, config: Any, game: InARowGame, plies: int, num_games: int
) -> dict[str, dict[str, int]]:
    """Wins, draws and losses of the greedy policy from each seat."""
    (group,) = game.groups
    opponent: Any = "random"
    if plies:
        spaces = group.observation_space, group.action_space
        opponent = LookAheadPolicy(*spaces, {"plies": plies}).compute_actions
    num_episodes = 2 * num_games
    matches = play_matches(config, policy, opponent, num_episodes=num_episodes, num_envs=250)
    tallies = {str(seat): matches.tally(seat) for seat in matches.seats}
    return {
        seat: {"wins": tally.wins, "draws": tally.draws, "losses": tally.losses}
        for seat, tally in tallies.items()
    }


def best_responses(policy: Policy, game: InARowGame) -> dict[str, list[float]]:
    """What a perfect opponent wins of the policy in each seat, greedy and sampled."""
    return {
        name: [
            best_response_value(game, move_probabilities(policy, explore=explore), seat)
            for seat in (0, 1)
        ]
        for name, explore in (("greedy", False), ("sampled", True))
    }


def show(game: str, runs: list[Result]) -> None:
    """A line for each opponent and seat: shares of all games, and the interval over seeds."""
    for opponent in TASKS[game].opponents:
        for seat in runs[0]["played"][opponent]:
            tallies = [run["played"][opponent][seat] for run in runs]
            shares = np.array([list(t.values()) for t in tallies], float)
            shares /= shares.sum(1, keepdims=True)
            won, drawn, lost = shares.mean(0)
            margins = shares[:, 0] - shares[:, 2]
            mean, spread = fmean(margins), stats.sem(margins)
            half = stats.t.ppf(0.975, len(runs) - 1) * spread if len(runs) > 1 else float("nan")
            worst = float(shares[:, 2].max())
            required = MOST_LOST if game == "tic_tac_toe" else None
            console.print(
                f"{opponent}, as {seat}: {won:.1%} won, {drawn:.1%} drawn, {lost:.1%} lost (worst "
                f"of {len(runs)} seeds {worst:.1%} {verdict(worst, required, at_most=True)}); won "
                f"- lost {mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"
            )
    for run in runs:
        if "best_response" in run:
            shown = {
                name: [round(value, 2) for value in values]
                for name, values in run["best_response"].items()
            }
            console.print(f"seed {run['seed']}: a perfect opponent wins {shown} of it in each seat")


if __name__ == "__main__":
    main()
