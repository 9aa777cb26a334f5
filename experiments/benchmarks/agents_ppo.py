"""What the contestants with several agents share: games, equal settings, how greedy play is scored.

Their scripts import it as their neighbour (`import agents_ppo`), since the peers' environment
knows nothing of this package.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

Result = dict[str, Any]
Act = Callable[[str, Any], int]
"""The greedy action of an agent for what it sees."""

EVALUATION_SEED = 10_000
TURNS = "pettingzoo.classic.tictactoe_v3"


@dataclass(frozen=True)
class Game:
    """A game, who plays it, and the settings of PPO that everyone has.

    Attributes:
        module: PettingZoo's, None of the cart poles.
        policies: By agent the policy that acts for it.
        env_config: Arguments of the game.
        slots: Environments stepped together.
        batch: Environment steps of an iteration.
        network: Units of two hidden tanh layers each of policy and values, which share nothing.
    """

    module: str | None
    policies: Mapping[str, str]
    env_config: Mapping[str, Any] = field(default_factory=dict)
    slots: int = 8
    batch: int = 2048
    epochs: int = 6
    minibatch_size: int = 256
    lr: float = 3e-4
    gamma: float = 0.99
    lambda_: float = 0.95
    clip: float = 0.2
    vf_coeff: float = 0.5
    entropy_coeff: float = 0.0
    max_grad_norm: float = 0.5
    network: tuple[int, int] = (64, 64)


FOUR = {"num_agents": 4}
NATIVE = {"agent_0": "a", "agent_1": "a", "agent_2": "b", "agent_3": "b"}
GAMES = {
    # The integers are what both libraries' own copies of CartPole-v1 call their agents.
    "cartpole_dict": Game(None, {"0": "a", "1": "a", "2": "b", "3": "b"}, FOUR),
    "cartpole_native": Game(None, NATIVE, FOUR),
    "cartpole": Game(None, NATIVE, FOUR, batch=1024, epochs=10, lr=1e-3, gamma=0.98, lambda_=0.9),
    "spread": Game(
        "mpe2.simple_spread_v3",
        {f"agent_{number}": "shared" for number in range(3)},
        {"N": 3},
        batch=1000,
        epochs=10,
        lr=7e-4,
        entropy_coeff=0.01,
    ),
    "speaker_listener": Game(
        "mpe2.simple_speaker_listener_v4",
        {"speaker_0": "speaker", "listener_0": "listener"},
        batch=1000,
        epochs=10,
        lr=7e-4,
        entropy_coeff=0.01,
    ),
    # Who plays which side is drawn anew for every episode.
    "tictactoe": Game(
        TURNS,
        {"player_1": "learner", "player_2": "random"},
        batch=2048,
        epochs=10,
        lr=1e-3,
        entropy_coeff=0.01,
    ),
    "images": Game(
        "pettingzoo.butterfly.cooperative_pong_v6",
        {"paddle_0": "shared", "paddle_1": "shared"},
        slots=2,
        batch=128,
        epochs=2,
        minibatch_size=64,
    ),
}
"""By name. The first two have the settings of `throughput.py`, `cartpole` such as learn soon."""


class Contestant(Protocol):
    """PPO of a library on one game."""

    env_steps: int
    agent_steps: int

    def iterate(self) -> None:
        """One training iteration."""

    def act(self, agent: str, obs: Any) -> int:
        """The greedy action of an agent."""

    def stop(self) -> None:
        """Lets go of everything."""


def speed(contestant: Contestant, steps: int, warmup: int) -> Result:
    """Environment and agent steps per second of sampling and learning, after a warm-up."""
    while contestant.env_steps < warmup:
        contestant.iterate()
    first, first_agents = contestant.env_steps, contestant.agent_steps
    start, cpu = time.perf_counter(), time.process_time()
    while contestant.env_steps - first < steps:
        contestant.iterate()
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    env_steps, agent_steps = contestant.env_steps - first, contestant.agent_steps - first_agents
    contestant.stop()
    return {
        "env_steps": env_steps,
        "agent_steps": agent_steps,
        "seconds": seconds,
        "env_steps_per_second": env_steps / seconds,
        "agent_steps_per_second": agent_steps / seconds,
        "cpu_us_per_agent_step": used / agent_steps * 1e6,
    }


def trained(contestant: Contestant, agent_steps: int) -> Result:
    """Trains as long as another iteration is sure to stay within `agent_steps`."""
    start, before, last = time.perf_counter(), 0, 0
    while contestant.agent_steps + last <= agent_steps:
        before = contestant.agent_steps
        contestant.iterate()
        last = max(last, contestant.agent_steps - before)
    return {
        "env_steps": contestant.env_steps,
        "agent_steps": contestant.agent_steps,
        "seconds": time.perf_counter() - start,
    }


# ------------------------------------------------------------------ greedy play


def scored(game: Game, act: Act, episodes: int) -> Result:
    """How greedy play does in PettingZoo itself, and random play on the same seeds."""
    rng = np.random.default_rng(EVALUATION_SEED)

    def random(agent: str, obs: Any) -> int:
        return int(rng.choice(np.flatnonzero(obs["action_mask"])))

    if game.module == TURNS:
        ours, theirs = outcomes(act, random, episodes), outcomes(random, random, episodes)
        return {"outcomes": ours, "random_outcomes": theirs}
    return {
        "returns": returns(game, act, episodes),
        "random_returns": returns(game, None, episodes),
    }


def returns(game: Game, act: Act | None, episodes: int) -> list[float]:
    """The returns of all agents together in a parallel game, over episodes of fixed seeds.

    Args:
        game: The game.
        act: Acts for each agent; None: actions are drawn.
        episodes: How many.
    """
    assert game.module is not None
    env = importlib.import_module(game.module).parallel_env(**game.env_config)
    for agent in env.possible_agents:
        env.action_space(agent).seed(EVALUATION_SEED)
    totals = []
    for number in range(episodes):
        seen, _ = env.reset(seed=EVALUATION_SEED + number)
        total = 0.0
        while env.agents:
            actions: dict[Hashable, int] = {
                agent: env.action_space(agent).sample() if act is None else act(agent, obs)
                for agent, obs in seen.items()
            }
            seen, rewards, *_ = env.step(actions)
            total += float(sum(rewards.values()))
        totals.append(total)
    env.close()
    return totals


def outcomes(act: Act, opponent: Act, episodes: int) -> dict[str, list[int]]:
    """Wins, draws and losses in a game in turns, by the side that `act` plays."""
    env = importlib.import_module(TURNS).env()
    found: dict[str, list[int]] = {}
    for side in env.possible_agents:
        counts = [0, 0, 0]
        for number in range(episodes):
            env.reset(seed=EVALUATION_SEED + number)
            result = 0.0
            for agent in env.agent_iter():
                obs, reward, terminated, truncated, _ = env.last()
                if terminated or truncated:
                    result = reward if agent == side else result
                    env.step(None)
                else:
                    env.step((act if agent == side else opponent)(agent, obs))
            counts[1 - int(np.sign(result))] += 1
        found[side] = counts
    env.close()
    return found


# ------------------------------------------------------------------ command line


def main(
    contestant: str,
    make: Callable[[str, Game, int], Contestant],
    score: Callable[[str, Contestant, int], Result],
) -> None:
    """Runs the task that the command line names and prints one JSON line.

    Args:
        contestant: Whose script it is.
        make: Makes PPO of a game's name, its settings and a seed.
        score: Plays greedily what was trained.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("game", choices=list(GAMES))
    parser.add_argument("task", choices=("speed", "score"))
    parser.add_argument("--steps", type=int, default=20_480, help="environment steps to measure")
    parser.add_argument("--warmup", type=int, default=4_096, help="environment steps before that")
    parser.add_argument("--agent-steps", type=int, default=300_000, help="to train for, at most")
    parser.add_argument("--episodes", type=int, default=100, help="greedy ones to score")
    parser.add_argument("--slots", type=int, help="environments stepped together")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="of a game")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    pairs = [text.partition("=")[::2] for text in args.set]
    changes: dict[str, Any] = {key: json.loads(value) for key, value in pairs}
    if args.slots is not None:
        changes["slots"] = args.slots
    game = Game(**{**GAMES[args.game].__dict__, **changes})
    made = make(args.game, game, args.seed)
    if args.task == "speed":
        result = speed(made, args.steps, args.warmup)
    else:
        result = trained(made, args.agent_steps)
        result |= score(args.game, made, args.episodes)
        made.stop()
    head = {"contestant": contestant, "game": args.game, "task": args.task, "seed": args.seed}
    print(json.dumps({**head, "slots": game.slots, **result}))
