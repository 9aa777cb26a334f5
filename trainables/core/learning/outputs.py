"""What a policy says of the rows of a rollout, in as little of a GPU's memory as is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trainables.core.data.batch import Rollout, as_tensor
from trainables.core.data.features import Features, map_tensors
from trainables.core.data.frame_stack import FRAMES
from trainables.core.networks.modules import ModuleOutput
from trainables.core.policy.policy import Policy

HOST = torch.device("cpu")


@torch.no_grad()
def rollout_outputs(
    policy: Policy,
    rollout: Rollout,
    rows_at_once: int | None = None,
    *,
    dist_inputs: bool = True,
    values: bool = True,
) -> tuple[Features, ModuleOutput]:
    """Features of all rows, and what the policy says of them, as it did when it sampled them.

    Args:
        policy: With a memory or without.
        rollout: `[T, N]`.
        rows_at_once: Rows that are on the policy's device at the same time at most, but at least
            one of each slot; None, and on the CPU: all.
        dist_inputs: Whether they are needed; a policy with a memory gives them anyway.
        values: Whether they are needed; likewise.

    Returns:
        Both `[T+1, N, ...]`, also of the last successors, in host memory.
    """
    obs = policy.observations.seen(rollout)
    is_first = torch.from_numpy(rollout.is_first)
    num_rows, num_slots = is_first.shape
    steps = num_rows
    if rows_at_once is not None and policy.device != HOST:
        steps = max(1, rows_at_once // num_slots)
    state = {
        name: as_tensor(part[0], policy.device)
        for name, part in (rollout.states or {}).items()
        if name != FRAMES
    }
    nothing = torch.empty(0)
    all_features, all_outputs = [], []
    for start in range(0, num_rows, steps):
        rows = slice(start, start + steps)
        features = policy.features(obs[rows])
        if policy.is_recurrent:
            output, state = policy.module.unroll(features, state, is_first[rows].to(policy.device))
        else:
            output = ModuleOutput(
                policy.module.dist_inputs(features) if dist_inputs else nothing,
                policy.module.value(features) if values else nothing,
            )
        all_features.append(map_tensors(lambda part: part.to(HOST), features))
        all_outputs.append(ModuleOutput(*(part.to(HOST) for part in output)))
    outputs = ModuleOutput(*(_joined(parts) for parts in zip(*all_outputs, strict=True)))
    return _joined_trees(all_features), outputs


def _joined_trees(trees: Sequence[Any]) -> Features:
    first = trees[0]
    if isinstance(first, Tensor):
        return _joined(trees)
    return {name: _joined([tree[name] for tree in trees]) for name in first}


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
