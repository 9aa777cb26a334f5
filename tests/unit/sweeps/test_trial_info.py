"""What of a trial's result is a number that is worth plotting."""

from __future__ import annotations

import math

from experiments.trial_info import numeric_metrics


def test_where_a_trial_ran_is_no_metric() -> None:
    told = {"host": 1, "pid": 7, "hostname": "machine", "node_ip": "192.0.2.1", "done": False}
    learned = {"loss": 0.5, "hosts_alive": 2, "learner": {"host": 3.0}}
    assert numeric_metrics({**told, **learned}) == (
        {"loss": 0.5, "hosts_alive": 2.0, "learner/host": 3.0},
        [],
    )
    assert numeric_metrics({"host": math.nan, "loss": math.nan}) == ({}, ["loss"])
