"""Several seeds of a configuration as one trial, and what it reports of them: `with_seeds`.

Example:
    >>> tune.Tuner(with_seeds(PPO, 5), param_space={"env": "CartPole-v1"})  # doctest: +SKIP
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from ray import tune

from analysis.names import ENV_STEPS, EPISODES, EVALUATED_EPISODES, SECONDS
from analysis.statistics import iqm, iqm_interval, median_index
from experiments.internals.tune import given_to
from experiments.seeds.hosts import SeedHosts, seed_folder
from experiments.spec.metrics import TWICE
from trainables.core.checkpoint import POLICIES, CheckpointError, load_state, save_state
from trainables.core.errors import ConfigError
from trainables.lifecycle.folder_trainable import FolderTrainable

_STATE = "seeds"
STATE_FILE = f"{_STATE}.json"

NUM_SEEDS = "num_seeds"
MEDIAN_SEED = "median_seed"
"""Key of the seed whose objective is the median: its policy is the trial's."""
_BUDGETS = (ENV_STEPS, "timesteps_total")
_FLAGS = ("done", "should_checkpoint")
Results = Mapping[int, Mapping[str, float]]


def with_seeds(
    trainable: type[tune.Trainable],
    seeds: int | Sequence[int],
    *,
    parallel: int = 1,
    batched: bool = False,
    metric: str | Sequence[str] = "episode_return_mean",
) -> type[MultiSeed]:
    """Return a trainable that trains several seeds of each configuration and reports them as one.

    The objective's own key holds the interquartile mean over the seeds, so that searchers,
    schedulers and checkpoints optimise it without knowing of seeds; `seed_report` says what else is
    reported. In each iteration the seeds train until all have reached the same number of
    environment steps. A checkpoint holds all seeds, and as its policy that of the median seed.

    Args:
        trainable: Any `tune.Trainable` class with the setting `seed` that needs one bundle.
        seeds: The seeds, or how many: then 0, 1, ….
        parallel: Processes among which the seeds are dealt, each with the resources of one
            instance; 1 trains the seeds in turn in the trial's own process.
        batched: Whether seeds of one process learn together, as one tensor program where that is
            possible, see `trainables.runtime.members`; else each is to the bit what it is alone.
        metric: The objective, or several.

    Returns:
        A class for `tune.Tuner`.

    Raises:
        ConfigError: There are less than two seeds, or one twice.
    """
    values = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if len(values) < 2 or len(set(values)) < len(values):
        raise ConfigError(f"seeds = {seeds!r}: give at least two different seeds")
    if not 1 <= parallel <= len(values):
        raise ConfigError(f"parallel = {parallel} must be between 1 and the {len(values)} seeds")
    attributes: dict[str, Any] = {
        "__doc__": f"{trainable.__name__} over the seeds {values}.",
        "__module__": __name__,
        "trainable_class": trainable,
        "seeds": values,
        "parallel": parallel,
        "batched": batched,
        "objectives": (metric,) if isinstance(metric, str) else tuple(metric),
    }
    if hasattr(trainable, "config_class"):
        attributes["config_class"] = trainable.config_class
    # Not the trainable's own name: Tune registers classes by it.
    return type(f"{trainable.__name__}_{len(values)}_seeds", (MultiSeed,), attributes)


class MultiSeed(FolderTrainable):
    """Base of the classes that `with_seeds` makes."""

    trainable_class: ClassVar[type[tune.Trainable]]
    seeds: ClassVar[tuple[int, ...]]
    parallel: ClassVar[int]
    batched: ClassVar[bool]
    objectives: ClassVar[tuple[str, ...]]

    def __init__(self, config: Any = None, *args: Any, **kwargs: Any) -> None:
        given = config.to_dict() if hasattr(config, "to_dict") else config
        super().__init__(given, *args, **kwargs)

    @classmethod
    def default_resource_request(cls, config: Any) -> tune.PlacementGroupFactory:
        """Return a bundle of one instance for each of the processes, all on one node.

        Raises:
            ConfigError: One instance needs several bundles.
        """
        request = cls.trainable_class.default_resource_request(config)
        bundles = [dict(bundle) for bundle in request.bundles] if request else [{"CPU": 1.0}]
        if len(bundles) > 1:
            runners = config.get("num_env_runners") if hasattr(config, "get") else None
            what = f"num_env_runners = {runners}" if runners else f"a trial with {bundles}"
            raise ConfigError(
                f"{what}: several seeds per trial need trials of one process; set num_env_runners "
                "to 0 (seeds.parallel trains seeds side by side), or run a seed a trial"
            )
        if cls.parallel == 1:
            return request or tune.PlacementGroupFactory(bundles)
        # One node: the processes write one checkpoint folder.
        return tune.PlacementGroupFactory(bundles * cls.parallel, strategy="STRICT_PACK")

    @classmethod
    def resource_help(cls, config: Any) -> str:
        return cls.trainable_class.resource_help(config)

    # ------------------------------------------------------------------ set up and take down

    def setup(self, config: dict[str, Any]) -> None:
        """Make an instance for each seed, or make those that there are start anew."""
        if config.get("seed") is not None:
            raise ConfigError(
                f"seed = {config['seed']} is one seed; this trial has the seeds {self.seeds}"
            )
        self._results: dict[int, dict[str, Any]] = {}
        self._iterations = dict.fromkeys(self.seeds, 0)
        self._paces = dict.fromkeys(self.seeds, 0.0)  # what the last iteration spent
        try:
            if not hasattr(self, "_hosts"):
                self._hosts = SeedHosts(self.trainable_class, self.seeds, batched=self.batched)
            self._hosts.build(config, *given_to(self))
        except BaseException:
            # Children that outlive a failed set-up would keep the trial's bundles for ever.
            self.cleanup()
            raise

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become a new trial in these processes."""
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """End the children and release what the instances hold. Called by `stop`."""
        if hasattr(self, "_hosts"):
            self._hosts.stop()
            del self._hosts

    # ------------------------------------------------------------------ training

    def step(self) -> dict[str, Any]:
        """Train until all seeds have spent the same budget; report them as one.

        Where they have, each trains for one iteration, and those that are then behind train on. So
        every result compares seeds at one budget, to within half an iteration of a seed.
        """
        goal = self._furthest()
        if not self._behind(goal):
            self._train(self._running())
            goal = self._furthest()
        while due := self._behind(goal):
            self._train(due)
        return seed_report(self._results, self.objectives)

    def _train(self, seeds: Sequence[int]) -> None:
        before = {seed: self._spent(seed) for seed in seeds}
        new = self._hosts.train(seeds)
        # In the order of the seeds, however they were dealt.
        self._results = {s: r for s in self.seeds if (r := new.get(s) or self._results.get(s))}
        for seed in seeds:
            self._iterations[seed] += 1
            self._paces[seed] = self._spent(seed) - before[seed]

    def _running(self) -> list[int]:
        return [s for s in self.seeds if not self._results.get(s, {}).get("done")]

    def _behind(self, goal: float) -> list[int]:
        """Return the seeds that another iteration would bring closer to the goal.

        Iterations differ by a few steps: a seed that just missed the goal has reached it.
        """
        return [s for s in self._running() if goal - self._spent(s) > self._paces[s] / 2]

    def _furthest(self) -> float:
        return max(map(self._spent, self.seeds))

    def _spent(self, seed: int) -> float:
        """Environment steps of a seed; iterations, where its trainable does not report them."""
        return float(self._results.get(seed, {}).get(ENV_STEPS, self._iterations[seed]))

    # ------------------------------------------------------------------ checkpoints

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write a folder for each seed, the median seed's policies, and last `seeds.json`."""
        folder = Path(checkpoint_dir)
        # A checkpoint that is written over is none until the new one is whole.
        (folder / STATE_FILE).unlink(missing_ok=True)
        counters = self._hosts.save(checkpoint_dir)
        median = median_seed(self._results, self.objectives[0]) if self._results else self.seeds[0]
        shutil.rmtree(folder / POLICIES, ignore_errors=True)
        if (policies := seed_folder(folder, median) / POLICIES).is_dir():
            shutil.copytree(policies, folder / POLICIES)
        state = {
            "trainable": self.trainable_class.__name__,
            "seeds": list(self.seeds),
            MEDIAN_SEED: median,
            "counters": {"iteration": self._iteration, SECONDS: self._time_total},
            "seed_counters": counters,
            "results": self._results,
            "paces": self._paces,
        }
        # Each seed's JSON files hold the digests of its others.
        inside = [seed_folder(folder, seed) for seed in self.seeds] + [folder / POLICIES]
        save_state(folder, _STATE, state, [file for i in inside for file in i.rglob("*.json")])

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Read what `save_checkpoint` wrote: each seed goes on from the same seed.

        In another trial than the one that wrote it (population-based training) the instances are
        clones, which draw new random streams.
        """
        if not isinstance(checkpoint, (str, os.PathLike)):
            raise CheckpointError(f"a checkpoint is a folder, not a {type(checkpoint).__name__}")
        state = load_state(Path(checkpoint), _STATE)
        if tuple(state["seeds"]) != self.seeds:
            raise CheckpointError(
                f"checkpoint {checkpoint} is of the seeds {tuple(state['seeds'])}; this trial has "
                f"{self.seeds}"
            )
        self._hosts.load(str(checkpoint), state["seed_counters"])
        self._results, self._paces = state["results"], state["paces"]
        self._iterations = {s: c["iteration"] for s, c in state["seed_counters"].items()}
        self._iteration = state["counters"]["iteration"]
        self._time_total = state["counters"][SECONDS]


def seed_report(results: Results, objectives: Sequence[str]) -> dict[str, Any]:
    """Return one flat result for the latest results of all seeds.

    Args:
        results: Flat numbers by seed, and `done` of a seed that ended itself.
        objectives: The metrics that are optimised.

    Returns:
        - each objective's own key: its interquartile mean over the seeds;
        - `seeds/<objective>/low` and `…/high` (95 % percentile bootstrap interval), `…/min` and
          `…/max` over the seeds, and `seed_<seed>/<objective>` for each;
        - budgets: what each seed that goes on has spent at least, and each one's environment steps;
        - episodes: of the seed with the fewest, so 0 until the objective of each is known;
        - every other metric: the mean over the seeds that reported it;
        - `done` where all seeds ended themselves.

        An objective that a seed did not report is left out, and one that is not a number for one
        of the seeds is not a number.
    """
    report: dict[str, Any] = _means(results)
    for name in objectives:  # a mean over some of the seeds is none
        if any(name not in result for result in results.values()):
            report.pop(name, None)
    for objective in objectives:
        report |= _objective(results, objective)
    for name, canonical in TWICE.items():
        if name in report and canonical in objectives and canonical in report:
            report[name] = report[canonical]
    for seed, result in results.items():
        if ENV_STEPS in result:
            report[f"seed_{seed}/{ENV_STEPS}"] = result[ENV_STEPS]
    report[NUM_SEEDS] = len(results)
    report[MEDIAN_SEED] = median_seed(results, objectives[0])
    report["done"] = all(result.get("done") for result in results.values())
    if any(result.get("should_checkpoint") for result in results.values()):
        report["should_checkpoint"] = True
    return report


def median_seed(results: Results, objective: str) -> int:
    """Return the seed whose objective is the median."""
    seeds = list(results)
    return seeds[median_index([results[seed].get(objective, math.nan) for seed in seeds])]


def _means(results: Results) -> dict[str, float]:
    """In the order of the seeds' keys; counters stay whole numbers where they agree."""
    running = [result for result in results.values() if not result.get("done")]
    report: dict[str, float] = {}
    for name in dict.fromkeys(key for result in results.values() for key in result):
        values = [result[name] for result in results.values() if name in result]
        if name in _FLAGS:
            continue
        if name in _BUDGETS and running:
            report[name] = min(result[name] for result in running if name in result)
        elif name in (EPISODES, EVALUATED_EPISODES):
            report[name] = min(values)
        elif all(value == values[0] for value in values):
            report[name] = values[0]
        else:
            report[name] = float(np.mean(values))
    return report


def _objective(results: Results, name: str) -> dict[str, float]:
    if any(name not in result for result in results.values()):
        return {}
    values = [result[name] for result in results.values()]
    report = {
        name: iqm(values),
        f"seeds/{name}/min": float(np.min(values)),
        f"seeds/{name}/max": float(np.max(values)),
    }
    low, high = iqm_interval(values)
    if math.isfinite(low):
        report |= {f"seeds/{name}/low": low, f"seeds/{name}/high": high}
    return report | {f"seed_{seed}/{name}": result[name] for seed, result in results.items()}
