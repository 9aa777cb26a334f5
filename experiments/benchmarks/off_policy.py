"""What contestants of all algorithms but PPO share: settings, measuring loops, the command line.

The contestants' scripts import it as their neighbour (`import off_policy`), since the peers'
environment knows nothing of this package; it needs gymnasium and the standard library only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium as gym

Result = dict[str, Any]

TASKS = ("throughput", "time-to-score", "curve")
EVALUATION_SEED = 10_000
"""The greedy evaluation's episodes start from this seed and the next ones."""


@dataclass(frozen=True)
class DQNSettings:
    """DQN on CartPole; the defaults are the equal settings of `throughput.py`.

    Double Q-learning, uniform replay, huber loss, two hidden layers of 256 relu units, no dueling.
    """

    env: str = "CartPole-v1"
    batch_size: int = 64
    lr: float = 1e-3
    gamma: float = 0.99
    capacity: int = 100_000
    learning_starts: int = 1_000
    updates_per_step: float = 1.0
    """Updates per environment step, whatever the number of slots."""
    target_every: int = 500
    """Environment steps between hard updates of the target network."""
    epsilon_final: float = 0.05
    epsilon_steps: int = 10_000
    """Environment steps over which epsilon falls from 1."""
    max_grad_norm: float = 10.0


@dataclass(frozen=True)
class SACSettings:
    """SAC on Pendulum; the defaults are the equal settings of `throughput.py`.

    Twin Q, automatic temperature, two hidden layers of 256 relu units, one update per env step.
    """

    env: str = "Pendulum-v1"
    batch_size: int = 256
    lr: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    capacity: int = 100_000
    learning_starts: int = 1_000


@dataclass(frozen=True)
class ActorSettings:
    """IMPALA and APPO on CartPole with env runners; the equal settings of `throughput.py`.

    Two separate networks of two hidden layers of 64 tanh units; all else by each one's defaults.
    """

    env: str = "CartPole-v1"
    env_runners: int = 2
    learners: int = 0
    """Processes that learn; 0: the driver does."""
    slots: int = 16
    fragment: int = 50
    """Steps of each slot in a sample."""
    batch_size: int = 800
    """Environment steps of a train batch: one sample."""
    lr: float = 5e-4
    max_grad_norm: float = 40.0


@dataclass(frozen=True)
class Score:
    """A return to reach, as the mean of the last training episodes."""

    target: float
    episodes: int


SCORES = {
    "dqn": Score(450.0, 100),
    "sac": Score(-250.0, 20),
    "impala": Score(450.0, 100),
    "appo": Score(450.0, 100),
}


@dataclass(frozen=True)
class Mark:
    """How far a run has got, and when."""

    env_steps: int
    updates: int
    update_seconds: float
    clock: float = field(default_factory=time.perf_counter)


class Contestant(Protocol):
    """A training run that can be driven piece by piece."""

    env_steps: int
    updates: int
    update_seconds: float
    """Seconds of drawing batches and of updates so far."""

    def iterate(self) -> None:
        """Goes on for a while: one step or one iteration of its own."""

    def mean_return(self) -> float:
        """The mean return of the last training episodes; NaN before there are enough."""

    def stop(self) -> None:
        """Lets go of everything."""


def throughput(contestant: Contestant, steps: int, warmup: int) -> Result:
    """Updates and environment steps per second, after a warm-up of `warmup` environment steps."""
    while contestant.env_steps < warmup:
        contestant.iterate()
    before = Mark(contestant.env_steps, contestant.updates, contestant.update_seconds)
    while contestant.env_steps - before.env_steps < steps:
        contestant.iterate()
    after = Mark(contestant.env_steps, contestant.updates, contestant.update_seconds)
    contestant.stop()
    return rates(before, after)


def rates(before: Mark, after: Mark) -> Result:
    """The result of a throughput task; `update_ms` covers replay and update."""
    seconds, updates = after.clock - before.clock, after.updates - before.updates
    env_steps = after.env_steps - before.env_steps
    update_seconds = after.update_seconds - before.update_seconds
    return {
        "env_steps": env_steps,
        "updates": updates,
        "seconds": seconds,
        "env_steps_per_second": env_steps / seconds,
        "updates_per_second": updates / seconds,
        "update_ms": update_seconds / updates * 1e3 if updates else None,
    }


def time_to_score(build: Callable[[], Contestant], target: float, cap: float) -> Result:
    """Seconds of training until `mean_return` reaches `target`, or `cap` seconds have passed."""
    begin = time.perf_counter()
    contestant = build()
    start = time.perf_counter()
    reached = False
    while not reached and time.perf_counter() - start < cap:
        contestant.iterate()
        reached = contestant.mean_return() >= target
    end = time.perf_counter()
    contestant.stop()
    return {
        "reached": reached,
        "seconds": end - start,
        "setup_seconds": start - begin,
        "env_steps": contestant.env_steps,
        "updates": contestant.updates,
        "return": contestant.mean_return(),
    }


class Stopwatch:
    """Seconds spent in the functions that it times."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its seconds added here."""

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

        return wrapper


class Recorded(gym.Wrapper[Any, Any, Any, Any]):
    """Notes each episode's return and the environment step at which it ended, in `episodes`."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.episodes: list[tuple[int, float]] = []
        self._steps, self._return = 0, 0.0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._return = 0.0
        return super().reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        out = super().step(action)
        self._steps += 1
        self._return += float(out[1])
        if out[2] or out[3]:
            self.episodes.append((self._steps, self._return))
        return out


def greedy_returns(env_id: str, act: Callable[[Any], Any], episodes: int) -> list[float]:
    """The returns of `act(obs)` over episodes of fixed seeds."""
    env, returns = gym.make(env_id), []
    for number in range(episodes):
        obs, _ = env.reset(seed=EVALUATION_SEED + number)
        total, ended = 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total += float(reward)
            ended = terminated or truncated
        returns.append(total)
    env.close()
    return returns


def curve(
    env: Recorded, env_id: str, train: Callable[[], object], act: Callable[[Any], Any]
) -> Result:
    """The result of a curve task: trains, then evaluates greedily.

    Args:
        env: The environment that `train` steps.
        env_id: Its name, to make another one of.
        train: Runs all of the training.
        act: The final policy, greedy.
    """
    start = time.perf_counter()
    train()
    seconds = time.perf_counter() - start
    returns = greedy_returns(env_id, act, episodes=10)
    return {
        "seconds": seconds,
        "episodes": [[steps, round(total, 3)] for steps, total in env.episodes],
        "evaluation": returns,
        "evaluation_mean": sum(returns) / len(returns),
    }


def parser(
    description: str | None,
    algorithms: Sequence[str],
    tasks: Sequence[str],
    *,
    compiles: bool = False,
    learners: bool = False,
    actors: bool = False,
    evaluates: bool = False,
) -> argparse.ArgumentParser:
    """The contestants' command line: an algorithm where there are several, a task, its options."""
    made = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    if len(algorithms) > 1:
        made.add_argument("algorithm", choices=algorithms)
    else:
        made.set_defaults(algorithm=algorithms[0])
    commands = made.add_subparsers(dest="task", required=True)
    if "throughput" in tasks:
        command = commands.add_parser("throughput")
        command.add_argument("--steps", type=int, default=3_000, help="steps to measure")
        command.add_argument("--warmup", type=int, default=2_000, help="steps before that")
        if "dqn" in algorithms:
            command.add_argument("--slots", type=int, default=1, help="environments in step")
        if compiles:
            command.add_argument("--compile", action="store_true", help="torch_compile_learner")
        if learners:
            command.add_argument("--learners", type=int, default=0, help="learner actors")
        if evaluates:
            command.add_argument("--evaluate", action="store_true", help="beside the training")
        if actors:
            s = ActorSettings()
            command.add_argument("--env-runners", type=int, default=s.env_runners)
            command.add_argument("--learners", type=int, default=s.learners)
            command.add_argument("--slots", type=int, default=s.slots)
    if "time-to-score" in tasks:
        command = commands.add_parser("time-to-score")
        command.add_argument("--target", type=float, help="return to reach")
        command.add_argument("--cap", type=float, default=300.0, help="seconds to give up after")
    if "curve" in tasks:
        command = commands.add_parser("curve")
        command.add_argument("--steps", type=int, default=50_000, help="environment steps")
        command.add_argument("--env", default="HalfCheetah-v5", help="with Box actions")
    for command in commands.choices.values():
        command.add_argument("--seed", type=int, default=0)
    return made


def actor_settings(args: argparse.Namespace) -> ActorSettings:
    """The equal settings, with the numbers of processes and slots of the command line."""
    return ActorSettings(env_runners=args.env_runners, learners=args.learners, slots=args.slots)


def target(args: argparse.Namespace) -> float:
    """The return to reach: the command line's, or the algorithm's own."""
    return SCORES[args.algorithm].target if args.target is None else float(args.target)


def report(contestant: str, args: argparse.Namespace, result: Result) -> None:
    """Prints the one JSON line that a driver reads."""
    head = {"contestant": contestant, "algorithm": args.algorithm, "task": args.task}
    print(json.dumps({**head, "seed": args.seed, **result}))
