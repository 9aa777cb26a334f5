"""The comparison of an exported graph with its policy: do they act alike?"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from trainables.core.data.features import PREV_ACTION, PREV_REWARD
from trainables.core.data.spaces import leaf_spaces, leaves_of
from trainables.core.distributions.build import is_float_box, is_squashed
from trainables.core.errors import ConfigError
from trainables.core.export.policy_graph import DIST_INPUTS, STATE, VALUES, PolicyGraph
from trainables.core.networks.memory import State, reset_state, state_arrays
from trainables.core.policy.policy import Policy

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]

TOLERANCE = 1e-5
NUM_OBSERVATIONS = 1000
_NUM_SLOTS = 20  # of a policy with a state: episodes run side by side
_BATCHES = (1, 2, 3, 7, 32, 64)  # of one without: one graph for all sizes
_SLACK = 3  # one nudge is one draw: another order of sums may be further off
_UNLIKELY = -1e30  # below it are logits of masked actions
_WIDE = 1e6  # bounds beyond it are none: what lies between them overflows in any network


@dataclass(frozen=True)
class Recording:
    """Observations of N slots over T steps.

    Attributes:
        rows: Observations as `ObservationLayout` stores them, `[T, N, *shape]`.
        rewards: The reward before each row, `[T, N]`.
        is_first: Whether a row begins an episode, `[T, N]`.
        source: The source of the rows, e.g. "space" or an environment's name.
    """

    rows: np.ndarray
    rewards: np.ndarray
    is_first: np.ndarray
    source: str


def sampled(policy: Policy, num_steps: int, num_slots: int, seed: int = 0) -> Recording:
    """Draw observations from the observation space, in episodes of about ten steps.

    Args:
        policy: The policy with the space.
        num_steps: Steps of each slot, T.
        num_slots: Number of slots, N.
        seed: Seed of the observations.
    """
    layout = policy.observations.layout
    rng = np.random.default_rng(seed)
    rows = layout.zeros((num_steps, num_slots))
    for number, (path, space) in enumerate(layout.leaf_spaces.items()):
        leaf = _finite(space)
        leaf.seed(seed + number)
        target = layout.leaves(rows)[path]
        for t in range(num_steps):
            for n in range(num_slots):
                target[t, n] = leaf.sample()
    is_first = rng.random((num_steps, num_slots)) < 0.1
    is_first[0] = True
    rewards = rng.normal(size=(num_steps, num_slots)).astype(np.float32)
    return Recording(rows, rewards, is_first, "space")


@dataclass
class _Report:
    """The largest differences, relative to what is compared if that is above 1.

    Attributes:
        observations: Numbers of observations by source.
        differences: Largest difference of the graph, by output.
        roundings: Largest difference of the nudged graph, see `_nudged`, by output.
        ties: Number of rows in which a tie was broken otherwise.
    """

    observations: dict[str, int] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    roundings: dict[str, float] = field(default_factory=dict)
    ties: int = 0

    def note(self, output: str, difference: float, rounding: float) -> None:
        """Keep the largest; NaN is no agreement."""
        difference = math.inf if math.isnan(difference) else difference
        self.differences[output] = max(self.differences.get(output, 0.0), difference)
        self.roundings[output] = max(self.roundings.get(output, 0.0), rounding)

    def tolerance(self, output: str) -> float:
        """Return how much an output may differ."""
        return max(TOLERANCE, _SLACK * self.roundings[output])

    def checked(self) -> dict[str, Any]:
        """Return what is to be known of it, JSON-able.

        Raises:
            ConfigError: naming an output that differs by too much.
        """
        for output, difference in self.differences.items():
            tolerance = self.tolerance(output)
            if difference > tolerance:
                raise _mismatch(
                    output, f"a difference of {difference:.3g}, the tolerance is {tolerance:.3g}"
                )
        beyond = [self.tolerance(o) for o, d in self.differences.items() if d > TOLERANCE]
        return {
            "observations": self.observations,
            "tolerance": max([TOLERANCE, *beyond]),
            "max_difference": self.differences,
            "ties": self.ties,
        }


def verified(
    policy: Policy, graph: PolicyGraph, run: Run, recordings: list[Recording] | None = None
) -> dict[str, Any]:
    """Compare an exported graph with the policy, on 1,000 observations from its space and more.

    Actions, distribution inputs, values and states must agree within 1e-5, relative to the largest
    of their kind if that is above 1. Where the network makes more than that of the rounding of its
    own weights, so much more is allowed: see `_nudged`. Discrete actions must be the same, and so
    what connectors make of actions; the one exception is a tie within that tolerance: inputs that
    agree, of which the policy itself makes the graph's action. Each side carries its own state
    over.

    Args:
        policy: The original.
        graph: The policy's graph.
        run: The program as a function from arrays by name to arrays by name.
        recordings: Observations of an environment.

    Returns:
        What was compared, for people to read: JSON-able.

    Raises:
        ConfigError: naming what differs, by how much, and where.
    """
    report = _Report()
    comparison = _Comparison(policy, graph, report)
    compare = comparison.steps if graph.states else comparison.batches
    slots = _NUM_SLOTS if graph.states else 1
    for recording in (sampled(policy, NUM_OBSERVATIONS // slots, slots), *(recordings or [])):
        compare(run, recording)
        report.observations[recording.source] = recording.is_first.size
    return report.checked()


def _batches(rows: np.ndarray) -> Iterator[np.ndarray]:
    start = number = 0
    while start < len(rows):
        size = _BATCHES[min(number, len(_BATCHES) - 1)]
        yield rows[start : start + size]
        start, number = start + size, number + 1


def _reset(state: Arrays, is_first: np.ndarray) -> Arrays:
    tensors = {name: torch.from_numpy(part) for name, part in state.items()}
    return state_arrays(reset_state(tensors, is_first))


class _Comparison:
    """A comparison of the outputs of one batch after another.

    Args:
        policy: The original.
        graph: The policy's graph.
        report: The report to write to.

    Attributes:
        nudged: The graph with weights that are each one rounding off. What it gives otherwise is
            what no other order of the same sums could be blamed for.
    """

    def __init__(self, policy: Policy, graph: PolicyGraph, report: _Report):
        self._policy, self._graph, self._report = policy, graph, report
        self.nudged = _nudged(graph)
        self._leaves = leaf_spaces(policy.action_space)
        stretches = policy.options["normalize_actions"] or is_squashed(policy.distribution)
        self._scales = {
            path: _reach(leaf) if stretches else None for path, leaf in self._leaves.items()
        }
        # A function of actions may make steps of them, rounding, say; so does half precision.
        self._is_smooth = {
            path: policy.module_to_env is None
            and is_float_box(leaf)
            and np.dtype(leaf.dtype).itemsize >= 4
            for path, leaf in self._leaves.items()
        }

    def batches(self, run: Run, recording: Recording) -> None:
        """Compare the policy with a program on observations by themselves."""
        rows = recording.rows.reshape(-1, *self._policy.observations.layout.shape)
        for part in _batches(rows):
            given = self._graph.arrays(part, {})
            self.of(part, {}, run(given), self.nudged(given))

    def steps(self, run: Run, recording: Recording) -> None:
        """Compare the policy with a program from step to step, each with its own state."""
        policy, graph = self._policy, self._graph
        extras = policy.observations.layout.leaves(recording.rows[0]).keys()
        num_slots = recording.is_first.shape[1]
        ours: State = policy.initial_state(num_slots)
        theirs: Arrays = {spec.name: spec.zeros(num_slots) for spec in graph.states}
        nudged = dict(theirs)
        actions: Any = None
        for rows, rewards, is_first in zip(
            recording.rows, recording.rewards, recording.is_first, strict=True
        ):
            rows = rows.copy()
            beside = policy.observations.extras(actions, rewards, is_first) or {}
            for name in extras & {PREV_ACTION, PREV_REWARD}:
                rows[name] = beside.get(name, 0)
            ours = reset_state(ours, is_first)
            theirs, nudged = (_reset(state, is_first) for state in (theirs, nudged))
            roundings = self.nudged(graph.arrays(rows, nudged))
            outputs = run(graph.arrays(rows, theirs))
            actions, ours, theirs = self.of(rows, ours, outputs, roundings)
            nudged = {old: roundings[new] for old, new in graph.state_pairs.items()}

    def of(
        self, rows: np.ndarray, state: State, outputs: Arrays, roundings: Arrays
    ) -> tuple[Any, State, Arrays]:
        """Compare what a graph gave for rows with what the policy gives.

        Args:
            rows: Observations as they are stored, `[B, *shape]`.
            state: The policy's state before them.
            outputs: The graph's outputs by name.
            roundings: The nudged graph's outputs by name.

        Returns:
            The policy's stored actions and state after it, and the graph's state after it.
        """
        policy = self._policy
        acted = policy.act(rows, False, None, state)
        said = policy.policy_outputs(rows, state, acted)
        for name in (DIST_INPUTS, VALUES):
            if name in said:
                self._check(name, said[name], outputs, roundings)
        differs = self._check_actions(acted.env_actions, outputs, roundings)
        after = state_arrays(acted.state)
        going_on = np.zeros(len(rows), bool)
        beside = policy.observations.extras(acted.actions, np.zeros(len(rows)), going_on)
        after |= {n: part for n, part in (beside or {}).items() if n == PREV_ACTION}
        theirs: Arrays = {}
        for old, new in self._graph.state_pairs.items():
            part = after[old.removeprefix(STATE)]
            # After a tie the graph goes on with the other action, rightly: not compared further.
            theirs[old] = np.where(_like(differs, part), part, outputs[new])
            self._check(new, part, {**outputs, new: theirs[old]}, roundings)
        return acted.actions, acted.state, theirs

    def _check_actions(self, env_actions: Any, outputs: Arrays, roundings: Arrays) -> np.ndarray:
        """Return in which rows a tie was broken otherwise, `[B]`."""
        space, names = self._policy.action_space, self._graph.action_names
        ours = leaves_of(space, env_actions)
        differs = np.zeros(len(outputs[DIST_INPUTS]), bool)
        for path, expected in ours.items():
            if self._is_smooth[path]:
                self._check(names[path], expected, outputs, roundings, self._scales[path])
            else:
                differs |= self._differs(path, expected, outputs)
        if differs.any():
            made = self._policy.for_env(
                self._policy.distribution.mode(torch.from_numpy(outputs[DIST_INPUTS]))
            )
            for path, expected in leaves_of(space, made).items():
                wrong = self._differs(path, expected, outputs)
                if wrong.any() and not self._is_smooth[path]:
                    row = int(wrong.argmax())
                    before, after = ours[path][row], outputs[names[path]][row]
                    raise _mismatch(names[path], f"{before} became {after}")
            self._report.ties += int(differs.sum())
        return differs

    def _differs(self, path: str, ours: np.ndarray, outputs: Arrays) -> np.ndarray:
        name = self._graph.action_names[path]
        theirs = self._of_kind(name, ours, outputs)
        apart = _distance(ours, theirs) > TOLERANCE * (self._scales[path] or 1.0)
        return np.asarray(apart.reshape(len(ours), -1).any(1))

    def _check(
        self,
        name: str,
        ours: np.ndarray,
        outputs: Arrays,
        roundings: Arrays,
        scale: float | None = None,
    ) -> None:
        theirs = self._of_kind(name, ours, outputs)
        if not ours.size:
            return
        expected, given, nudged = (_without_masks(a) for a in (ours, theirs, roundings[name]))
        scale = max(1.0, float(np.abs(expected).max())) if scale is None else scale
        self._report.note(
            name,
            float(_distance(expected, given).max() / scale),
            float(_distance(expected, nudged).max() / scale),
        )

    def _of_kind(self, name: str, ours: np.ndarray, outputs: Arrays) -> np.ndarray:
        """Return what the graph gave, which must look like the policy's."""
        theirs = outputs[name]
        kinds = [(str(a.dtype), list(a.shape)) for a in (ours, theirs)]
        if kinds[0] != kinds[1]:
            raise _mismatch(name, f"{kinds[0]} became {kinds[1]}")
        return theirs


def _finite(space: gym.Space) -> gym.Space:
    """Return the space, with no bounds where they are too wide to be drawn between."""
    if not isinstance(space, gym.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return copy.deepcopy(space)
    low, high = (bound.astype(np.float64) for bound in (space.low, space.high))
    low = np.where(np.abs(low) > _WIDE, -np.inf, low)
    high = np.where(np.abs(high) > _WIDE, np.inf, high)
    dtype = space.dtype
    return gym.spaces.Box(low.astype(dtype), high.astype(dtype), space.shape, dtype.type)


def _nudged(graph: PolicyGraph) -> Run:
    """Return the graph with weights that are each one rounding off, up or down."""
    twin = copy.copy(graph)
    twin._modules = {"module": copy.deepcopy(graph.module)}
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in twin.module.parameters():
            if parameter.is_floating_point():
                up = torch.rand(parameter.shape, generator=generator) < 0.5
                step = torch.finfo(parameter.dtype).eps
                parameter.mul_(torch.where(up, 1 + step, 1 - step))

    def run(inputs: Arrays) -> Arrays:
        with torch.no_grad():
            made = twin({name: torch.from_numpy(array) for name, array in inputs.items()})
        return {name: part.numpy() for name, part in made.items()}

    return run


def _reach(space: Any) -> float:
    """Return how far a Box of floats reaches, at least 1: actions are stretched so far."""
    if not hasattr(space, "high") or not np.issubdtype(space.dtype, np.floating):
        return 1.0
    bounds = np.abs(np.concatenate([space.low.ravel(), space.high.ravel()]).astype(np.float64))
    return max(1.0, float(bounds[np.isfinite(bounds)].max(initial=1.0)))


def _distance(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    return np.abs(ours.astype(np.float64) - theirs.astype(np.float64))


def _without_masks(inputs: np.ndarray) -> np.ndarray:
    """Return inputs with 1 and -1 for masked actions, which would be the largest of all."""
    if not np.issubdtype(inputs.dtype, np.floating):
        return inputs
    wide = inputs.astype(np.float64)
    return np.where(np.abs(wide) > -_UNLIKELY, np.sign(wide), wide)


def _like(flags: np.ndarray, like: np.ndarray) -> np.ndarray:
    return flags.reshape(-1, *[1] * (like.ndim - 1))


def _mismatch(output: str, problem: str) -> ConfigError:
    return ConfigError(
        f"the exported graph does not act as the policy does: {output}: {problem}; nothing was "
        "written"
    )
