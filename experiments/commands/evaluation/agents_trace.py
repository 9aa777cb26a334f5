"""Traces of several agents: every action of every agent, as a parquet file.

One row an action, written when the agent acts next or ends; sort by `episode`, `step` and `agent`
to have them in order. The columns:

- `episode`, `step`: numbers from 0.
- `seed`: that the episode's environment was reset with.
- `agent`, `policy`: who acted, and the id of the policy that acted for it.
- `obs`, or `obs/<path>` for each leaf of a nested space; `action` likewise. Where agents have
  different spaces each group of them has columns of its own, `obs[<first agent of it>]`, null in
  rows of others.
- `reward`: the sum of what the agent got until it acted next or ended.
- `terminated`, `truncated`: whether that ended the agent. `truncated` also where the episode was
  cut off, by `--max-steps` or because others ended it.

The schema's metadata hold what was played, as those of `episode_trace` do. What policies thought of
observations is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from experiments.commands.evaluation.episode_trace import column_of
from experiments.commands.evaluation.trace_file import TraceFile, field_of
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.data.spaces import leaf_spaces, leaves_of
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep
from trainables.runtime.evaluation.agents_watch import AgentsWatch

_GROUP_ROWS = 8192
_FIXED = {
    "episode": np.int32,
    "step": np.int32,
    "seed": np.int64,
    "agent": np.str_,
    "policy": np.str_,
    "reward": np.float64,
    "terminated": np.bool_,
    "truncated": np.bool_,
}


@dataclass
class _Open:
    """An action whose outcome is not known yet."""

    values: dict[str, Any]
    reward: float = 0.0


class AgentsTrace(AgentsWatch):
    """Writes every action that counts; a row group at a time, so that memory is bounded.

    A context: the file is there when it ends, under its name only if no error ended it.

    Args:
        path: The file.
        about: What goes into the metadata.

    Raises:
        ExperimentError: The file cannot be written.
    """

    def __init__(self, path: Path, about: dict[str, Any]):
        self._about = about
        self._groups: Sequence[AgentGroup] = ()
        self._seeds: Sequence[int] = ()
        self._first = 0
        self._open: dict[tuple[int, int], _Open] = {}  # by group and row
        self._rows: list[dict[str, Any]] = []
        self._file = TraceFile(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: Any, traceback: Any) -> None:
        if kind is None and self._rows:
            self._flush()
        self._file.end(is_whole=kind is None)

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        self._first += len(self._seeds)
        self._groups, self._seeds = groups, seeds
        self._open.clear()

    def act(
        self,
        shown: AgentsStep,
        actions: list[Any],
        episodes: Sequence[AgentsEpisode],
        runs: np.ndarray,
    ) -> None:
        for number, (group, rows) in enumerate(zip(self._groups, shown.groups, strict=True)):
            size = len(group.agents)
            leaves = self._leaves(number, rows.obs, actions[number])
            for row in np.flatnonzero(rows.acts & np.repeat(runs, size)).tolist():
                self._close(number, row, False, False)
                slot, index = divmod(row, size)
                agent, episode = group.agents[index], episodes[slot]
                values = {
                    "episode": self._first + slot,
                    "step": episode.length,
                    "seed": self._seeds[slot],
                    "agent": str(agent),
                    "policy": episode.policy_for(agent),
                    **{name: _value(column[row]) for name, column in leaves.items()},
                }
                self._open[number, row] = _Open(values)

    def step(self, step: AgentsStep, is_over: np.ndarray) -> None:
        for (number, row), opened in list(self._open.items()):
            slot, rows = row // len(self._groups[number].agents), step.groups[number]
            if step.resets[slot]:  # its environment was replaced: the episode counts nowhere
                del self._open[number, row]
                continue
            opened.reward += float(rows.rewards[row])
            terminated, truncated = bool(rows.terminated[row]), bool(rows.truncated[row])
            if terminated or truncated or is_over[slot]:
                self._close(number, row, terminated, truncated or not terminated)
        if len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def _close(self, number: int, row: int, terminated: bool, truncated: bool) -> None:
        opened = self._open.pop((number, row), None)
        if opened is not None:
            ends = {"terminated": terminated, "truncated": truncated}
            self._rows.append({**opened.values, "reward": opened.reward, **ends})

    def _name(self, number: int, what: str) -> str:
        """Return what the columns of a group begin with."""
        return what if len(self._groups) == 1 else f"{what}[{self._groups[number].agents[0]}]"

    def _leaves(self, number: int, obs: Any, actions: Any) -> dict[str, Any]:
        """Return columns `[R, …]` of a group."""
        group = self._groups[number]
        pairs = (("obs", group.observation_space, obs), ("action", group.action_space, actions))
        return {
            column_of(self._name(number, what), leaf): np.asarray(values)
            for what, space, tree in pairs
            for leaf, values in leaves_of(space, tree).items()
        }

    def _flush(self) -> None:
        import pyarrow as pa

        if self._file.schema is None:
            self._file.begin(self._fields(), self._about)
        self._file.write(pa.Table.from_pylist(self._rows, schema=self._file.schema))
        self._rows = []

    def _fields(self) -> list[Any]:
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {}
        for number, group in enumerate(self._groups):
            for what, space in (("obs", group.observation_space), ("action", group.action_space)):
                for leaf, part in leaf_spaces(space).items():
                    name = column_of(self._name(number, what), leaf)
                    shapes[name] = tuple(part.shape or ()), part.dtype
        columns: Mapping[str, tuple[tuple[int, ...], Any]] = {
            **{name: ((), dtype) for name, dtype in _FIXED.items()},
            **shapes,
        }
        return [field_of(name, shape, dtype) for name, (shape, dtype) in columns.items()]


def _value(value: np.ndarray) -> Any:
    """Return a copy of a value as a row holds it: a number, or a flat list."""
    array = np.asarray(value)
    if array.ndim == 0:
        return array.item()
    flat = array.reshape(-1)
    return (flat.view(np.uint8) if flat.dtype == bool else flat).tolist()
