"""Settings are ranked by their effects only where every trial ran with them to the same budget."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.runner import _runs_to_the_end
from experiments.spec import make_spec


@pytest.mark.parametrize(
    ("scheduler", "fair"),
    [
        ("fifo", True),
        ("asha", False),
        ("hyperband", False),
        ("median_stopping", False),
        ("pbt", False),
        ({"algorithm": "resource_changing", "base": "asha"}, False),
        ({"algorithm": "resource_changing", "base": "fifo"}, True),
    ],
)
def test_which_sweeps_rank_effects(scheduler: Any, fair: bool) -> None:
    spec = make_spec(
        {
            "name": "s",
            "trainable": "sweep_dummy:Dummy",
            "stop": {"num_env_steps_sampled_lifetime": 1000},
            "search_space": {"lr": {"loguniform": [1e-4, 0.1]}},
            "num_samples": 4,
            "scheduler": scheduler,
        }
    )
    assert _runs_to_the_end(spec) is fair
