"""What a spec says about a sweep, and what the sweep then does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from sweep_dummy import STEPS

import experiments.cluster
from experiments import SweepError, run
from experiments.spec import make_spec

ENV_STEPS = "num_env_steps_sampled_lifetime"


@pytest.fixture(scope="module", autouse=True)
def ray_here() -> Iterator[None]:
    with experiments.cluster.sweep_environment():
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


def data(tmp_path: Path, **keys: Any) -> dict[str, Any]:
    return {
        "name": "sweep",
        "trainable": "sweep_dummy:Undeclared",
        "storage": str(tmp_path),
        "stop": {ENV_STEPS: 3 * STEPS},
        "mlflow": {"enabled": False},
        **keys,
    }


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"objective": {"metric": "episode_retrun_mean"}},
            "objective.metric = 'episode_retrun_mean': the first result of trial .* held no metric "
            ".*episode_return_mean, .*; did you mean 'episode_return_mean'?",
        ),
        (
            {"stop": {"num_env_steps_sampled_lifetme": 3}},
            "stop.num_env_steps_sampled_lifetme: the first result .* did you mean 'num_env_steps_",
        ),
    ],
)
def test_a_metric_that_never_appears_ends_the_sweep(
    tmp_path: Path, keys: dict[str, Any], expected: str
) -> None:
    """The trials would take minutes: the first result is enough."""
    start = time.monotonic()
    endless = {"config": {"seconds": 0.05}, "num_samples": 3, "stop": {ENV_STEPS: 10**5 * STEPS}}
    with pytest.raises(SweepError, match=expected) as error:
        run(make_spec(data(tmp_path, **{**endless, **keys})))
    assert "\n" not in str(error.value)
    assert time.monotonic() - start < 60
