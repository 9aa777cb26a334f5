"""`ExportedPolicy`: an exported graph that acts as the policy did."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.checkpoint import CHECKPOINT_FILE, AnyCheckpoint, CheckpointError, local_folder
from trainables.core.data.features import PREV_REWARD
from trainables.core.data.layout import ObservationLayout
from trainables.core.data.space_json import space_from_json
from trainables.core.data.spaces import check_observation, tree_of_leaves
from trainables.core.distributions.build import distribution_for
from trainables.core.errors import ConfigError
from trainables.core.export.description import description_file, read_description
from trainables.core.export.onnx_program import ONNX_FILE, onnx_program
from trainables.core.export.policy_graph import (
    DIST_INPUTS,
    PREVIOUS_REWARD,
    STATE,
    VALUES,
    TensorSpec,
    action_names,
    observation_names,
)
from trainables.core.export.torch_program import TORCH_FILE, torch_program
from trainables.core.networks.memory import AnyState, State, state_arrays
from trainables.core.policy.actable import Acted
from trainables.core.policy.actions import single_action
from trainables.core.policy.calls.action_arguments import like_given, named_state
from trainables.core.policy.calls.compute_actions import Computed, check_allowed
from trainables.core.policy.policy import Policy

TRUSTED_FORMAT = "torch.export"
"""The entry of `trust` that a `model.pt2` needs: PyTorch runs what such a file says."""

Run = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


class ExportedPolicy:
    """A graph with its names and spaces, which acts greedily; `Actable`, as `Policy` is.

    Args:
        run: The graph as a function from arrays by name to arrays by name.
        description: The content of the JSON file beside it.

    Attributes:
        observation_space: The space of one environment's observations.
        action_space: The space of one environment's actions.
        observations: The way from observations to the graph's inputs.
        metadata: Facts about the policy's origin.
        has_state: Whether acting needs a state.
        explorer: The explorer of a graph, which keeps nothing.
        device: The device that states lie on.
    """

    def __init__(self, run: Run, description: dict[str, Any]):
        self._run = run
        self.description = description
        self.observation_space = space_from_json(description["observation_space"])
        self.action_space = space_from_json(description["action_space"])
        self.metadata: dict[str, Any] = dict(description["metadata"])
        self.device = torch.device("cpu")
        specs = [
            TensorSpec(s["name"], tuple(s["shape"]), s["dtype"]) for s in description["inputs"]
        ]
        self._next: dict[str, str] = dict(description["states"])
        self._states = [spec for spec in specs if spec.name in self._next]
        self.has_state = bool(self._states)
        self.observations = GraphObservations(
            self.observation_space,
            [PREV_REWARD] if any(spec.name == PREVIOUS_REWARD for spec in specs) else [],
            description["action_mask"],
            self.action_space,
        )
        self.explorer = NoExploration()
        self._action_names = action_names(self.action_space)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trust: Collection[str] = ()) -> ExportedPolicy:
        """Load an exported graph.

        Args:
            path: A folder with `policy.onnx` or `model.pt2` (ONNX, if it has both), or the file.
            trust: `["torch.export"]` for a `model.pt2`, which PyTorch unpickles: it runs what such
                a file says. ONNX needs no trust.

        Raises:
            CheckpointError: if it is missing, damaged, of an unknown format, or not trusted.
            ConfigError: if onnxruntime is needed and not installed.

        Example:
            >>> policy = ExportedPolicy.load("cartpole_onnx")
            >>> action = policy.compute_single_action(obs)
        """
        file = _graph_file(Path(path))
        if file is None:
            raise CheckpointError(
                f"{path} is no exported policy: it has no {ONNX_FILE} and no {TORCH_FILE}"
            )
        description = read_description(file)
        is_onnx = file.suffix == Path(ONNX_FILE).suffix
        if not is_onnx and TRUSTED_FORMAT not in trust:
            raise CheckpointError(
                f"{file} is read by torch.export.load, which runs what the file says; if you "
                f"trust it, pass trust=[{TRUSTED_FORMAT!r}] (on the command line: --trust "
                f"{TRUSTED_FORMAT}); the format onnx needs no trust"
            )
        try:
            return cls(onnx_program(file) if is_onnx else torch_program(file), description)
        except ConfigError as error:
            raise CheckpointError(f"exported policy {file} cannot be used: {error}") from error
        except Exception as error:  # of whatever the values in a file can be
            raise CheckpointError(f"exported policy {file} is damaged: {error!r}") from error

    # ------------------------------------------------------------------ acting

    def initial_state(self, batch_size: int) -> State:
        """Return the state at an episode's start, `[B, …]` by name: zeros."""
        return {
            spec.name.removeprefix(STATE): torch.from_numpy(spec.zeros(batch_size))
            for spec in self._states
        }

    def get_initial_state(self) -> dict[str, np.ndarray]:
        """Return the state to begin an episode with, for `compute_single_action`."""
        return {name: part[0] for name, part in state_arrays(self.initial_state(1)).items()}

    def act(
        self,
        obs: np.ndarray,
        explore: bool,
        generator: torch.Generator | None = None,
        state: State | None = None,
        slots: Any = None,
    ) -> Acted:
        """Act on rows `[N, *shape]`; see `Policy.act`.

        Returns:
            The actions are the environment's alone: how a distribution stores them is not known.

        Raises:
            ConfigError: if it is to explore.
        """
        _refuse_exploring(explore)
        outputs = self._outputs(obs, state or {})
        after = self._state_of(outputs)
        inputs = torch.from_numpy(outputs[DIST_INPUTS])
        return Acted(inputs.new_empty(len(obs), 0), self._actions_of(outputs), inputs, after)

    def policy_outputs(self, rows: np.ndarray, state: State, acted: Acted) -> dict[str, np.ndarray]:
        """Return `action_dist_inputs` of rows, and `vf_preds` if the graph gives them.

        Args:
            rows: The observations that were acted on.
            state: The state before them.
            acted: The result of `act`.
        """
        return _said(self._outputs(rows, state))

    def compute_actions(
        self,
        obs: Any,
        state: AnyState = None,
        *,
        prev_reward: Any = None,
        explore: bool | None = False,
        full_fetch: bool = False,
    ) -> Any:
        """Compute actions for a batch of observations; see `Policy.compute_actions`.

        Args:
            obs: Raw observations `[B, *shape]`, or a tree of them.
            state: The state, `[B, …]` by name, or a list in the order of `initial_state`; None
                begins an episode. The action before is a part of it. It comes back in that form.
            prev_reward: The reward of the action before, `[B]`, for policies that look at it.
            explore: Whether to explore, which a graph cannot: True is refused.
            full_fetch: Whether to return the state, too, and a dict with `action_dist_inputs` and,
                if the graph gives them, `vf_preds`. Policies with a state always do.
        """
        before = named_state(state, self.initial_state(1))
        result = self._compute(obs, before, prev_reward, explore, full_fetch, batched=True)
        if not isinstance(result, Computed):
            return result
        return result._replace(state=like_given(state, result.state))

    def compute_single_action(
        self,
        obs: Any,
        state: AnyState = None,
        *,
        prev_reward: float | None = None,
        explore: bool | None = False,
        full_fetch: bool = False,
    ) -> Any:
        """Compute the action for one observation; see `compute_actions`."""
        named = named_state(state, self.initial_state(1))
        before = {name: np.asarray(part)[None] for name, part in named.items()}
        result = self._compute(obs, before, prev_reward, explore, full_fetch, batched=False)
        if not isinstance(result, Computed):
            return single_action(self.action_space, result)
        after = {name: part[0] for name, part in result.state.items()}
        return Computed(
            single_action(self.action_space, result.actions),
            like_given(state, after),
            {name: part[0] for name, part in result.extra.items()},
        )

    def _compute(
        self,
        obs: Any,
        state: Mapping[str, Any] | None,
        prev_reward: Any,
        explore: bool | None,
        full_fetch: bool,
        *,
        batched: bool,
    ) -> Any:
        rows = self.observations.checked_rows(obs, prev_reward, batched=batched)
        check_allowed(self.observations, rows)
        before = self._checked_state(state, len(rows))
        _refuse_exploring(bool(explore))
        outputs = self._outputs(rows, before)
        actions = self._actions_of(outputs)
        if not (full_fetch or self.has_state):
            return actions
        return Computed(actions, state_arrays(self._state_of(outputs)), _said(outputs))

    def _checked_state(self, state: Mapping[str, Any] | None, batch_size: int) -> State:
        initial = self.initial_state(batch_size)
        given = {name: torch.as_tensor(np.array(part)) for name, part in (state or {}).items()}
        if not given:
            return initial
        shapes = [{n: tuple(p.shape) for n, p in side.items()} for side in (given, initial)]
        if shapes[0] != shapes[1]:
            raise ConfigError(f"state {shapes[0]} does not fit the exported policy's {shapes[1]}")
        return {name: part.to(initial[name]) for name, part in given.items()}

    def _outputs(self, rows: np.ndarray, state: State) -> dict[str, np.ndarray]:
        inputs = self.observations.inputs(rows)
        inputs |= {f"{STATE}{name}": part.numpy() for name, part in state.items()}
        return self._run(inputs)

    def _state_of(self, outputs: dict[str, np.ndarray]) -> State:
        return {
            old.removeprefix(STATE): torch.from_numpy(outputs[new])
            for old, new in self._next.items()
        }

    def _actions_of(self, outputs: dict[str, np.ndarray]) -> Any:
        leaves = {path: outputs[name] for path, name in self._action_names.items()}
        # As numpy's usual type of the kind: onnxruntime's integers are `longlong`.
        usual = {path: a.view(np.dtype(a.dtype.name)) for path, a in leaves.items()}
        return tree_of_leaves(self.action_space, usual)


def _said(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what led to the actions, of a graph's outputs."""
    return {name: outputs[name] for name in (DIST_INPUTS, VALUES) if name in outputs}


def _refuse_exploring(explore: bool) -> None:
    if explore:
        raise ConfigError(
            "explore = True is not possible with an exported graph, which takes the most "
            "likely actions; allowed: False, or the policy's own folder (format policy)"
        )


class GraphObservations:
    """The way from observations to rows, and from rows to a graph's inputs.

    Args:
        space: The space of one observation.
        extras: Names of numbers that are stored beside an observation.
        mask_path: The leaf that masks actions, or None.
        action_space: The space that it is a mask of.

    Attributes:
        layout: The rows that observations are stored as.
    """

    def __init__(self, space: Any, extras: list[str], mask_path: str | None, action_space: Any):
        self.space, self.mask_path = space, mask_path
        self.layout = ObservationLayout(space, dict.fromkeys(extras, 1))
        self._sees_reward = PREV_REWARD in extras
        self._names = observation_names(space)
        self._distribution = None if mask_path is None else distribution_for(action_space)

    def extras(self, actions: Tensor | None, rewards: Any, is_first: Any) -> dict[str, Any] | None:
        """Return what is stored beside observations: the reward that led to them, 0 at a start."""
        if not self._sees_reward or actions is None:
            return None
        return {PREV_REWARD: np.where(is_first, 0, rewards)[:, None]}

    def not_finite(self, rows: np.ndarray) -> tuple[int, str] | None:
        """Return None: connectors inside the graph may make numbers of what is none."""
        return None

    def without_action(self, obs: np.ndarray) -> np.ndarray | None:
        """Return which of stored observations `[N]` allow no action; None if there is no mask."""
        if self._distribution is None:
            return None
        mask = torch.from_numpy(obs[self.mask_path].reshape(len(obs), -1) != 0)
        return (~self._distribution.allows_something(mask)).numpy()

    def checked_rows(self, obs: Any, prev_reward: Any, *, batched: bool) -> np.ndarray:
        """Return observations that fit the space as stored rows, `[B, *shape]`."""
        if prev_reward is not None and not self._sees_reward:
            raise ConfigError(
                f"prev_reward = {prev_reward!r} has no effect: this policy does not look at it"
            )
        check_observation(self.space, obs, batched=batched)
        beside: dict[str, Any] = {}
        if prev_reward is not None:
            beside[PREV_REWARD] = np.reshape(np.asarray(prev_reward, np.float32), (-1, 1))
        return self.layout.rows(obs, beside, batched=batched)

    def inputs(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return a graph's inputs by name, but the state."""
        leaves = self.layout.leaves(rows)
        named = {name: np.array(leaves[path]) for path, name in self._names.items()}
        if self._sees_reward:
            named[PREVIOUS_REWARD] = np.array(leaves[PREV_REWARD][:, 0])
        return named


class NoExploration:
    """The explorer of a graph, which does not explore."""

    def start(self, num_slots: int) -> dict[str, Tensor]:
        """Return nothing: no slot has a memory."""
        return {}

    def restart(self, slots: dict[str, Tensor], begins: np.ndarray) -> None:
        """Forget nothing: nothing is kept."""


def is_exported(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder or file is an exported graph, and not a policy or checkpoint."""
    return _graph_file(Path(path)) is not None


def load_player(path: AnyCheckpoint, *, trust: Collection[str] = ()) -> Policy | ExportedPolicy:
    """Return what acts: the policy of a folder or checkpoint, or an exported graph.

    Args:
        path: A folder of `tunescape export`, in any format but mlflow, or a checkpoint.
        trust: Code and formats that are trusted; see `Policy.load` and `ExportedPolicy.load`.
    """
    with local_folder(path) as folder:
        return (ExportedPolicy if is_exported(folder) else Policy).load(folder, trust=trust)


def _graph_file(path: Path) -> Path | None:
    """Return the file of an exported graph; None if a path is none, or holds a policy itself."""
    if path.is_file() and path.suffix in {Path(ONNX_FILE).suffix, Path(TORCH_FILE).suffix}:
        return path
    if (path / "policy.json").is_file() or (path / CHECKPOINT_FILE).is_file():
        return None
    for file in (path / ONNX_FILE, path / TORCH_FILE):
        if file.is_file() or description_file(file).is_file():
            return file
    return None
