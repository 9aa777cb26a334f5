"""Traces: every step of the episodes of an evaluation, as a parquet file.

One row a step, in the order of play: episodes that are played side by side alternate; sort by
`episode` and `step` to have them one by one. The columns:

- `episode`, `step`: numbers from 0.
- `seed`: that the episode's environment was reset with, see `EpisodeRecord`.
- `obs`, or `obs/<path>` for each leaf of a nested space: what was acted on, as the environment gave
  it; arrays as lists of fixed size in C order, whose shape the column's metadata say.
- `action`, or `action/<path>`: what the environment was given.
- `reward`, `terminated`, `truncated`: what it gave in return. `truncated` also where `--max-steps`
  cut the episode off.
- `value`: the policy's value of the observation, if it learns one (DQN and SAC do not).
- `logp`: log-probability (density) of the action before it was scaled for the environment.
- `dist_inputs`: what parametrises the distribution of actions: logits, means and deviations; of
  Q-learning the action values.

An exported graph has no `logp`. The memory of recurrent policies is not in it. The schema's
metadata hold under `tunescape` a JSON object: policy, algorithm, environment, seed, versions, and
which leaves were left out because they are large.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
import numpy as np

from experiments.commands.evaluation.trace_file import TraceFile, as_arrow, field_of
from trainables.core.data.spaces import PLAIN, leaf_spaces, leaves_of
from trainables.runtime.evaluation.watch import PlayedStep, Watch

MAX_ELEMENTS = 4096
"""Observations of more numbers, images as a rule, go into a trace only if they are asked for."""

_GROUP_BYTES = 16 * 2**20
_GROUP_ROWS = 16_384
_OUTPUTS = {
    "vf_preds": "value",
    "action_logp": "logp",
    "action_dist_inputs": "dist_inputs",
}


class TraceWriter(Watch):
    """Writes every step that counts; a row group at a time, so that memory is bounded.

    A context: the file is there when it ends, under its name only if no error ended it.

    Args:
        path: The file.
        observation_space: The observations of one environment.
        action_space: The actions of one environment.
        about: What goes into the metadata.
        with_images: Whether to write observations, too, of more than `MAX_ELEMENTS` numbers.

    Attributes:
        left_out: Paths of the leaves of observations that are not written.

    Raises:
        ExperimentError: The file cannot be written.
    """

    wants_steps = True

    def __init__(
        self,
        path: Path,
        observation_space: gym.Space,
        action_space: gym.Space,
        about: dict[str, Any],
        *,
        with_images: bool = False,
    ):
        self._about = about
        self._spaces = {"obs": observation_space, "action": action_space}
        self.left_out = [
            column_of("obs", leaf)
            for leaf, space in leaf_spaces(observation_space).items()
            if math.prod(space.shape or ()) > MAX_ELEMENTS and not with_images
        ]
        self._rows: dict[str, np.ndarray] = {}
        self._num_rows = 0
        self._seeds = np.empty(0, np.int64)
        self._first = 0
        self._file = TraceFile(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: Any, traceback: Any) -> None:
        if kind is None and self._num_rows:
            self._flush()
        self._file.end(is_whole=kind is None)

    def begin(self, seeds: Any, share: bool) -> None:
        self._first += len(self._seeds)
        self._seeds = np.array(seeds, np.int64)

    def step(self, step: PlayedStep) -> None:
        slots = np.flatnonzero(step.counts)
        columns: dict[str, np.ndarray] = {
            "episode": (self._first + np.arange(len(self._seeds))).astype(np.int32),
            "step": (step.lengths - 1).astype(np.int32),
            "seed": self._seeds,
            **self._leaves("obs", step.obs),
            **self._leaves("action", step.actions),
            "reward": np.asarray(step.rewards, np.float64),
            "terminated": np.asarray(step.terminated, bool),
            "truncated": np.asarray(step.truncated, bool),
        }
        outputs = step.policy_outputs()
        columns |= {name: outputs[key] for key, name in _OUTPUTS.items() if key in outputs}
        if not self._rows:
            self._start(columns)
        if self._num_rows + len(slots) > len(self._rows["episode"]):
            self._flush()
        rows = slice(self._num_rows, self._num_rows + len(slots))
        for name, values in columns.items():
            self._rows[name][rows] = values[slots]
        self._num_rows += len(slots)

    def _leaves(self, what: str, tree: Any) -> dict[str, np.ndarray]:
        leaves = leaves_of(self._spaces[what], tree)
        named = {column_of(what, leaf): np.asarray(values) for leaf, values in leaves.items()}
        return {name: values for name, values in named.items() if name not in self.left_out}

    def _start(self, columns: dict[str, np.ndarray]) -> None:
        row_bytes = sum(values[:1].nbytes for values in columns.values())
        size = max(len(self._seeds), min(_GROUP_ROWS, _GROUP_BYTES // row_bytes))
        self._rows = {
            name: np.empty((size, *values.shape[1:]), values.dtype)
            for name, values in columns.items()
        }
        fields = [field_of(n, values.shape[1:], values.dtype) for n, values in columns.items()]
        self._file.begin(fields, {**self._about, "left_out": self.left_out})

    def _flush(self) -> None:
        import pyarrow as pa

        arrays = [as_arrow(rows[: self._num_rows]) for rows in self._rows.values()]
        self._file.write(pa.Table.from_arrays(arrays, schema=self._file.schema))
        self._num_rows = 0


def column_of(what: str, leaf: str) -> str:
    """Return the name of a leaf's column."""
    return what if leaf == PLAIN else f"{what}/{leaf}"
