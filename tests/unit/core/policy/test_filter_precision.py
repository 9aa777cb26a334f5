"""`MeanStdFilter` resolves what lies close together and far from 0, as times and prices do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tiers import rarely

from trainables import Policy
from trainables.core.export.exported_policy import ExportedPolicy
from trainables.core.export.torch_program import export_torch_program
from trainables.core.policy.filter import MeanStdFilter, RunningMoments

Box, Discrete, Dict = gym.spaces.Box, gym.spaces.Discrete, gym.spaces.Dict
FAR = [(1.7e9, 3.0), (5e6, 0.3), (-1e12, 40.0)]  # centre, standard deviation


def far_rows(center: float, spread: float, num_rows: int = 4000) -> np.ndarray:
    """Normally distributed around the centre, and around 0 beside it, `[R, 2]` float64."""
    z = np.random.default_rng(0).normal(size=(num_rows, 2))
    return z * [spread, 1.0] + [center, 0.0]


def filtering(space: gym.Space, **more: Any) -> Policy:
    return Policy(
        space,
        Discrete(2),
        {"fcnet_hiddens": [8]},
        observation_filter="MeanStdFilter",
        seed=0,
        **more,
    )


def learn(policy: Policy, rows: Any) -> None:
    """What env runners and the group of them do with a rollout's frames."""
    moments = RunningMoments(policy.observations.preprocessor.num_features)
    moments.update(policy.observations.vector_features(rows))
    assert policy.observations.filter is not None
    policy.observations.filter.merge(moments)


@pytest.mark.parametrize(("center", "spread"), FAR)
def test_far_from_zero_the_spread_is_seen(center: float, spread: float) -> None:
    policy = filtering(Box(-np.inf, np.inf, (2,), np.float64))
    rows = far_rows(center, spread)
    learn(policy, rows)
    features = policy.features(rows)
    assert isinstance(features, torch.Tensor) and features.dtype == torch.float32
    expected = (rows - rows.mean(0)) / rows.std(0, ddof=1)
    tolerance = 1e-5 + 4 * np.finfo(np.float64).eps * abs(center) / spread  # the inputs' own
    np.testing.assert_allclose(features, expected, atol=tolerance)


def test_wide_integers_are_kept_whole() -> None:
    policy = filtering(Box(0, 2**40, (2,), np.int64))
    rows = np.round(far_rows(1.7e9, 30.0)).astype(np.int64).clip(0)
    learn(policy, rows)
    assert len(np.unique(policy.features(rows)[:, 0])) == len(np.unique(rows[:, 0])) > 100


def test_a_mean_that_float32_cannot_hold() -> None:
    """Observations of float32, whose own grid at 5e6 is 0.5: their mean lies between its points."""
    policy = filtering(Box(-np.inf, np.inf, (2,), np.float32))
    rows = far_rows(5e6, 3.0).astype(np.float32)
    learn(policy, rows)
    features = policy.features(rows)
    assert isinstance(features, torch.Tensor)
    np.testing.assert_allclose(features.mean(0), 0.0, atol=1e-6)


def test_nested_observations_and_frames() -> None:
    rows = far_rows(1.7e9, 3.0)
    space = Dict({"a": Box(-np.inf, np.inf, (2,), np.float64), "b": Box(-9, 9, (1,), np.float32)})
    policy = filtering(space)
    stored = policy.observations.layout.rows({"a": rows, "b": np.zeros((len(rows), 1))})
    learn(policy, stored)
    features = policy.features(stored)
    assert isinstance(features, torch.Tensor) and features.dtype == torch.float32
    np.testing.assert_allclose(features[:, :2].std(0), 1.0, rtol=1e-3)
    stacked = filtering(Box(-np.inf, np.inf, (2,), np.float64), frame_stack=2)
    pairs = np.stack([rows[:-1], rows[1:]], 1)
    learn(stacked, pairs)
    features = stacked.features(pairs)
    assert isinstance(features, torch.Tensor)
    np.testing.assert_allclose(features.std(0), 1.0, rtol=1e-3)


@pytest.mark.parametrize(("center", "spread"), FAR)
def test_statistics_of_many_env_runners(center: float, spread: float) -> None:
    """Merging loses no digits, in whatever parts the rows come."""
    rows = far_rows(center, spread)
    merged, whole = RunningMoments(2), RunningMoments(2)
    whole.update(rows)
    for part in np.array_split(rows, 37):
        one = RunningMoments(2)
        one.update(part)
        merged.merge(one)
    exact = rows.astype(np.longdouble)
    for moments in (merged, whole):
        np.testing.assert_allclose(moments.std, exact.std(0, ddof=1), rtol=1e-7)
        error = np.abs(moments.mean - exact.mean(0)) / exact.std(0)
        assert error.max() < 1e-3 * abs(center) / spread * 1e-9


@pytest.mark.parametrize("value", [0.1, 1.7e9 + 0.1, -1e12 / 3])
def test_a_constant_stays_one(value: float) -> None:
    """Its mean has no rounding that would be taken for a spread, and blown up to 10."""
    observation_filter = MeanStdFilter(1)
    for num_rows in (1, 7, 4000, 333):
        moments = RunningMoments(1)
        moments.update(np.full((num_rows, 1), value))
        observation_filter.merge(moments)
    assert observation_filter.moments.std == 1.0
    assert observation_filter(torch.tensor([[value]], dtype=torch.float64)) == 0.0


@pytest.mark.parametrize("make", rarely(["torch", "onnx"], ["torch"]))
def test_an_exported_graph_resolves_it_too(tmp_path: Path, make: str) -> None:
    """Its inputs have the space's dtype."""
    policy = filtering(Box(1.7e9 - 9, 1.7e9 + 9, (2,), np.float64))
    rows = far_rows(1.7e9, 3.0, 300)
    rows[:, 1] = rows[::-1, 0]
    rows = rows.clip(1.7e9 - 9, 1.7e9 + 9)
    learn(policy, rows)
    if make == "onnx":
        pytest.importorskip("onnxruntime")
        from trainables.core.export.onnx_program import export_onnx

        export_onnx(policy, tmp_path)
    else:
        export_torch_program(policy, tmp_path)
    exported = ExportedPolicy.load(tmp_path, trust=["torch.export"])
    _, _, extra = exported.compute_actions(rows, full_fetch=True)
    _, _, own = policy.compute_actions(rows, explore=False, full_fetch=True)
    assert own["vf_preds"].std() > 1e-3
    np.testing.assert_allclose(extra["vf_preds"], own["vf_preds"], atol=1e-5)
