"""A sweep whose trials do not report its objective ends, and is told what they do report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiments.errors import SweepError
from experiments.monitor.metric_watch import MetricWatch


def test_where_a_trial_ran_is_not_offered_as_a_metric() -> None:
    trial: Any = SimpleNamespace(trial_id="a", config={})
    result = {"host": 1, "pid": 7, "hosts_alive": 2, "loss": 0.5, "timestamp": 1}
    watch = MetricWatch({"lost": "objective.metric"})
    with pytest.raises(SweepError, match=r"allowed: hosts_alive, loss; did you mean 'loss'"):
        watch.on_trial_result(0, [trial], trial, result)
