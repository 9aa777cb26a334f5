"""The processes of a trial of several seeds: its own, and perhaps children beside it.

Each process holds the instances of some seeds. `SeedHost` is one process, `SeedHosts` all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.util.placement_group import PlacementGroup, get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from analysis.names import ITERATION, SECONDS
from experiments.internals.tune import TRIAL_INFO_KEY, counters_of, set_counters
from experiments.trial_info import numeric_metrics
from trainables.core.checkpoint import load_state, save_state
from trainables.core.errors import ConfigError
from trainables.core.features import using
from trainables.runtime.members.handle import MemberHandle
from trainables.runtime.members.host import peers
from trainables.runtime.members.meeting import Meeting

_DICT_STATE = "trainable"  # the state of a trainable whose `save_checkpoint` returns a dict
# Of the trial, not of a seed: its own process adds them.
_OF_THE_TRIAL = (ITERATION, "time_this_iter_s", SECONDS)


class SeedError(RuntimeError):
    """A seed of a trial failed; the message names it."""


def seed_folder(checkpoint: str | Path, seed: int) -> Path:
    """Return where a trial's checkpoint keeps that of a seed."""
    return Path(checkpoint) / f"seed_{seed}"


class SeedHost:
    """Instances of a trainable in one process, by seed.

    Args:
        trainable_class: What is instantiated.
        batched: Whether the instances learn together.
    """

    def __init__(self, trainable_class: type[tune.Trainable], *, batched: bool = False) -> None:
        self._class = trainable_class
        self._instances: dict[int, Any] = {}
        self._meeting = Meeting() if batched else None

    def build(
        self, seeds: Sequence[int], config: dict[str, Any], trial_info: Any, storage: Any
    ) -> None:
        """Make the instances of `seeds`, or make those that there are start anew.

        Args:
            seeds: The seeds, always the same ones.
            config: The trial's settings; each instance has its own `seed` in them.
            trial_info: What an instance knows of the trial that it is part of.
            storage: Tune's, for its folders; None outside Tune.
        """
        for seed in seeds:
            settings = {**copy.deepcopy(config), "seed": seed}
            if trial_info is not None:
                settings[TRIAL_INFO_KEY] = trial_info
            with naming(seed):
                instance = self._instances.get(seed)
                with self._hosting():
                    was_reset = instance is not None and instance.reset(dict(settings), storage)
                if was_reset:
                    continue
                if instance is not None:
                    self._instances.pop(seed).stop()
                with self._hosting():
                    self._instances[seed] = self._class(config=settings, storage=storage)

    def train(self, seeds: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Train each of the seeds for one iteration.

        Returns:
            By seed, its flat metrics (NaN for what is not finite), and `done` if it ended itself.
        """
        results = {}
        for seed, result in self._iterations(seeds):
            metrics, not_finite = numeric_metrics(result)
            metrics |= dict.fromkeys(not_finite, float("nan"))
            flags = {k: True for k in ("done", "should_checkpoint") if result.get(k)}
            own = {k: v for k, v in metrics.items() if k not in _OF_THE_TRIAL}
            results[seed] = {**own, **flags}
        return results

    def _iterations(self, seeds: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each seed's result of an iteration."""
        outcomes: dict[int, Any] = {}
        if self._meeting is not None and len(seeds) > 1:
            outcomes = self._meeting.run({seed: self._instances[seed].train for seed in seeds})
        for seed in seeds:
            with naming(seed):
                result = outcomes[seed] if outcomes else self._instances[seed].train()
                if isinstance(result, BaseException):
                    raise result
            yield seed, result

    def save(self, checkpoint: str) -> dict[int, dict[str, Any]]:
        """Write each seed's checkpoint; returns, by seed, what Tune counts for it."""
        counters = {}
        for seed, instance in self._instances.items():
            folder = seed_folder(checkpoint, seed)
            folder.mkdir(parents=True, exist_ok=True)
            with naming(seed):
                state = instance.save_checkpoint(str(folder))
                if isinstance(state, dict):
                    save_state(folder, _DICT_STATE, state)
            iteration, seconds = counters_of(instance)
            counters[seed] = {"iteration": iteration, SECONDS: seconds}
        return counters

    def load(self, checkpoint: str, counters: Mapping[int, Mapping[str, Any]]) -> None:
        """Go on from what `save` wrote, perhaps of another trial: then each seed from the same."""
        for seed, instance in self._instances.items():
            folder = seed_folder(checkpoint, seed)
            is_dict = (folder / f"{_DICT_STATE}.json").is_file()
            with naming(seed), self._hosting():
                instance.load_checkpoint(
                    load_state(folder, _DICT_STATE) if is_dict else str(folder)
                )
            set_counters(instance, counters[seed]["iteration"], counters[seed][SECONDS])

    def _hosting(self) -> AbstractContextManager[None]:
        """Have what is built in here learn with others, if the instances do."""
        return nullcontext() if self._meeting is None else using("batching")

    def stop(self) -> None:
        """Release what the instances hold."""
        while self._instances:
            self._instances.popitem()[1].stop()


class SeedHosts:
    """All processes of a trial. Seeds are dealt to them in turn, and the trial's own is the first.

    In a trial of Tune there is a process for each bundle; a trial that is a member of a host has
    members in others; elsewhere there is only the own one.

    Args:
        trainable_class: What is instantiated, once for each seed.
        seeds: The seeds.
        batched: Whether those of a process learn together.
    """

    def __init__(
        self, trainable_class: type[tune.Trainable], seeds: Sequence[int], *, batched: bool = False
    ) -> None:
        self._here = SeedHost(trainable_class, batched=batched)
        self._children: list[Any] = _children(trainable_class, len(seeds) - 1, batched=batched)
        count = 1 + len(self._children)
        self._seeds = [list(seeds[first::count]) for first in range(count)]

    def build(self, config: dict[str, Any], trial_info: Any, storage: Any) -> None:
        """See `SeedHost.build`."""
        self._everywhere("build", [(own, config, trial_info, storage) for own in self._seeds])

    def train(self, seeds: Sequence[int]) -> dict[int, dict[str, Any]]:
        """See `SeedHost.train`."""
        due = [([seed for seed in own if seed in seeds],) for own in self._seeds]
        return _merged(self._everywhere("train", due))

    def save(self, checkpoint: str) -> dict[int, dict[str, Any]]:
        """See `SeedHost.save`."""
        return _merged(self._everywhere("save", [(checkpoint,)] * len(self._seeds)))

    def load(self, checkpoint: str, counters: Mapping[int, Mapping[str, Any]]) -> None:
        """See `SeedHost.load`."""
        self._everywhere("load", [(checkpoint, counters)] * len(self._seeds))

    def stop(self) -> None:
        """End the children and release what the instances here hold."""
        for child in self._children:
            if isinstance(child, MemberHandle):
                child.end()
            else:
                ray.kill(child)  # else they would keep the trial's bundles for ever
        self._children = []
        self._here.stop()

    def _everywhere(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method in all processes side by side, the first arguments being for this one."""
        pending = [
            getattr(child, method).remote(*given)
            for child, given in zip(self._children, arguments[1:], strict=True)
        ]
        here = getattr(self._here, method)(*arguments[0])
        return [here, *(self._result(index, call) for index, call in enumerate(pending, start=1))]

    def _result(self, index: int, call: Any) -> Any:
        try:
            return ray.get(call)
        except ray.exceptions.RayTaskError as error:
            kind = type(error.cause) if isinstance(error.cause, ConfigError) else SeedError
            raise kind(str(error.cause)) from error
        except ray.exceptions.RayActorError as error:
            seeds = ", ".join(map(str, self._seeds[index]))
            raise SeedError(f"the process of the seeds {seeds} died") from error


@contextmanager
def naming(seed: int) -> Iterator[None]:
    """Let whatever fails within name the seed that it failed for."""
    try:
        yield
    except ConfigError as error:  # stays one: another attempt would not mend it
        raise type(error)(f"seed {seed}: {error}") from error
    except Exception as error:
        raise SeedError(f"seed {seed}: {type(error).__name__}: {error}") from error


def _children(trainable_class: type[tune.Trainable], most: int, *, batched: bool) -> list[Any]:
    """Return the processes beside the trial's own, `most` at most."""
    if (beside := peers()) is not None:
        arguments = {"trainable_class": trainable_class, "batched": batched}
        return [
            MemberHandle.make(host, f"{beside.name}_{number}", SeedHost, arguments)
            for number, host in enumerate(beside.hosts[:most])
        ]
    group = get_current_placement_group() if ray.is_initialized() else None
    if group is None:
        return []
    bundles = range(1, min(most + 1, group.bundle_count))
    return [_child(trainable_class, group, index, batched=batched) for index in bundles]


def _child(
    trainable_class: type[tune.Trainable], group: PlacementGroup, index: int, *, batched: bool
) -> Any:
    """Return a process that has all of one of the trial's bundles."""
    bundle = group.bundle_specs[index]
    others = {name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU")}
    options = {
        "num_cpus": bundle.get("CPU", 0),
        "num_gpus": bundle.get("GPU", 0),
        "resources": others or None,
        "scheduling_strategy": PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=index
        ),
    }
    return ray.remote(SeedHost).options(**options).remote(trainable_class, batched=batched)


def _merged(parts: Sequence[dict[int, Any]]) -> dict[int, Any]:
    return {seed: value for part in parts for seed, value in part.items()}
