"""Kill env runners again and again while an algorithm trains, and see that nothing is lost.

CartPole is trained with four env runners, one of which is killed by SIGKILL every five seconds for
a minute. Training must go on and reach its return. Every rollout is looked at as it arrives: of
each slot it has to go on where the slot's last one ended, so that no step is lost and none is
counted twice, and the counters have to be the sums of what was seen. In the end no process may be
left. `PPO_agents` is PPO with four agents and two policies, to which a third one is added on the
way; `PPO_league` a league of two learners, which are copied on the way::

    python -m experiments.benchmarks.fault_drill --algorithms PPO PPO_agents PPO_league IMPALA APPO
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.benchmarks.agents_drill import (
    AGENTS_SETTINGS,
    LEAGUE_AGENTS,
    LEAGUE_SETTINGS,
    NUM_AGENTS,
    AgentsLedger,
    LeagueWatch,
    Newcomer,
)
from experiments.benchmarks.drill_ledger import Ledger
from experiments.benchmarks.gather import HERE, console, keep, table
from experiments.benchmarks.processes import ENV_RUNNER, descendants, env_runners
from trainables.registry import get_algorithm

TARGET = 450.0
AGENTS, LEAGUE = "PPO_agents", "PPO_league"
AGENTS_OF = {AGENTS: NUM_AGENTS, LEAGUE: LEAGUE_AGENTS}
"""How many agents play, where there are several: PPO's policies act for them."""
MOST_USES = {"PPO": 1, AGENTS: 1, LEAGUE: 1, "IMPALA": 1, "APPO": 2}
"""How often a rollout is learned from at most; APPO's buffer gives each twice."""
_PLAYED = {AGENTS: AGENTS_SETTINGS, LEAGUE: LEAGUE_SETTINGS}
ENDING_S = 30.0
"""How long processes may take to end, seconds."""


@dataclass
class Report:
    """What a drill did, and what it found wrong.

    Attributes:
        algorithm: Which one trained.
        kills: Seconds since the start, process id and return of each kill.
        num_restarts: Env runners made again, as the algorithm counts them.
        seconds: Wall-clock time of the training.
        env_steps: Steps sampled by the algorithm's counter.
        trained_steps: Steps learned from, by the algorithm's counter.
        episode_return: The last training return.
        problems: One line for each thing that is not as it has to be.
    """

    algorithm: str
    kills: list[dict[str, float]] = field(default_factory=list)
    num_restarts: int = 0
    seconds: float = 0.0
    env_steps: int = 0
    trained_steps: int = 0
    episode_return: float = float("nan")
    problems: list[str] = field(default_factory=list)


class Killer:
    """Kills an env runner every few seconds, beside the training, until it is stopped."""

    def __init__(self, every_s: float, seed: int, report: Report):
        self._every_s, self._chance, self._report = every_s, random.Random(seed), report
        self._start, self._stop = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Kill no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            living = env_runners(built=True)
            if not living:  # on a slow machine, making one takes longer than killing one
                continue
            pid = self._chance.choice(living)
            os.kill(pid, signal.SIGKILL)
            kill = {"after_s": round(time.monotonic() - self._start, 2), "living": len(living)}
            self._report.kills.append(kill)


def main() -> None:
    """Drills each algorithm, prints what was found and writes `fault_drill.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = list(MOST_USES)
    parser.add_argument("--algorithms", nargs="+", choices=known, default=known)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long runners are killed")
    parser.add_argument("--every", type=float, default=5.0, help="seconds from kill to kill")
    parser.add_argument("--target", type=float, default=TARGET, help="return to reach")
    parser.add_argument("--deadline", type=float, default=300.0, help="seconds until it is missed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    args = parser.parse_args()
    reports = [drill_alone(name, args) for name in args.algorithms]
    view = table(
        "killed env runners",
        *("", "kills", "restarts", "steps", "trained on", "return", "s", "problems"),
    )
    for report in reports:
        for problem in report.problems:
            console.print(f"{report.algorithm}: {problem}", style="red", highlight=False)
        view.add_row(
            report.algorithm,
            str(len(report.kills)),
            str(report.num_restarts),
            f"{report.env_steps:,}",
            f"{report.trained_steps:,}",
            f"{report.episode_return:.0f}",
            f"{report.seconds:.0f}",
            str(len(report.problems)),
        )
    console.print(view)
    given = {name: getattr(args, name) for name in ("seconds", "every", "target", "seed")}
    keep(args.out, "fault_drill", given, [asdict(report) for report in reports])
    if any(report.problems for report in reports):
        raise SystemExit(1)


def drill_alone(algorithm: str, args: argparse.Namespace) -> Report:
    """A drill with a Ray of its own, which leaves no process of any kind."""
    import ray

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        report = drill(
            algorithm,
            {},
            seconds=args.seconds,
            every_s=args.every,
            target=args.target,
            deadline_s=args.deadline,
            seed=args.seed,
            say=lambda line: console.print(line, highlight=False),
        )
    finally:
        ray.shutdown()
    report.problems += [f"a process of Ray is left: {name}" for name in left_over("")]
    return report


def drill(
    algorithm: str,
    changes: dict[str, Any],
    *,
    seconds: float,
    every_s: float,
    target: float,
    deadline_s: float,
    seed: int = 0,
    say: Callable[[str], Any] = lambda line: None,
) -> Report:
    """Trains under kills for some seconds, then until the return is reached.

    Args:
        algorithm: Its registered name.
        changes: Settings beside the drill's own.
        seconds: How long runners are killed.
        every_s: Seconds from kill to kill.
        target: Mean training return of an agent to reach, during the kills or after them.
        deadline_s: Seconds after which it counts as missed.
        seed: Of the training, and of who is killed.
        say: Gets a line now and then.
    """
    of_agents = algorithm in AGENTS_OF
    target *= AGENTS_OF.get(algorithm, 1)  # a return is that of all of them
    report, ledger = Report(algorithm), AgentsLedger() if of_agents else Ledger()
    kind = get_algorithm("PPO" if of_agents else algorithm)
    algo = kind(config={**settings(algorithm), "seed": seed, **changes})
    watch: Newcomer | LeagueWatch | None = None
    if algorithm == AGENTS:
        watch = Newcomer(algo, seconds / 2)
    elif algorithm == LEAGUE:
        watch = LeagueWatch(algo)
    try:
        ledger.watch(algo)
        start, best, result = time.monotonic(), float("-inf"), {}
        killer = Killer(every_s, seed, report)
        while (passed := time.monotonic() - start) < deadline_s:
            if passed >= seconds:
                killer.stop()
                if best >= target:
                    break
            result = algo.train()
            if watch is not None:
                watch.look(passed)
            best = max(best, result["episode_return_mean"])
            say(f"{algorithm} {passed:6.1f} s  return {result['episode_return_mean']:6.1f}")
        killer.stop()
        report.seconds, report.episode_return = time.monotonic() - start, best
        report.env_steps = result["num_env_steps_sampled_lifetime"]
        report.trained_steps = result["num_env_steps_trained_lifetime"]
        report.num_restarts = result["num_env_runner_restarts"]
        report.problems = ledger.problems + problems_of(report, ledger, target)
        report.problems += watch.problems() if watch is not None else []
    finally:
        algo.stop()
    report.problems += [f"a process is left: {name}" for name in left_over(ENV_RUNNER)]
    return report


def settings(algorithm: str) -> dict[str, Any]:
    """What the drill trains with."""
    return {
        **_PLAYED.get(algorithm, {"env": "CartPole-v1"}),
        "num_env_runners": 4,
        "num_envs_per_env_runner": 8,
        "num_cpus_per_env_runner": 0.5,
        "restart_failed_env_runners": True,
        "lr": 1e-3,
    }


def problems_of(report: Report, ledger: Ledger, target: float) -> list[str]:
    """What the numbers of a drill say, one line each."""
    problems = []
    counted = {"sampled": report.env_steps, "trained on": report.trained_steps}
    seen = {"sampled": ledger.num_env_steps, "trained on": ledger.num_learned}
    for what, steps in counted.items():
        if steps != seen[what]:
            problems.append(f"{steps:,} steps {what} are counted, {seen[what]:,} were seen")
    most = MOST_USES[report.algorithm]
    if max(ledger.uses.values(), default=0) > most:
        problems.append(f"a rollout was learned from more than {most} times")
    if report.episode_return < target:
        problems.append(f"the return is {report.episode_return:.0f}, not {target:.0f}")
    if not report.kills:
        problems.append("nobody was killed")
    return problems


def left_over(prefix: str) -> list[str]:
    """Names of processes below this one that begin so and do not end in time."""
    deadline = time.monotonic() + ENDING_S
    while time.monotonic() < deadline:
        names = [name for name in descendants().values() if name.startswith(prefix)]
        if not names:
            break
        time.sleep(0.1)
    return names


if __name__ == "__main__":
    main()
