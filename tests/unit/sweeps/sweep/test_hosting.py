"""Which sweeps share processes, how many, and what is said of it before they run."""

from __future__ import annotations

from typing import Any

from experiments.sweep.batching import batching_notes
from experiments.sweep.hosting import ENOUGH, HostPlan, _times, host_plan
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from trainables import BC, PPO

SETTINGS: dict[str, Any] = {"env": "CartPole-v1"}
NODES = [{"CPU": 3.0}, {"CPU": 1.0}]


def plan(num_trials: int = 100, seeds: int = 1, nodes: Any = NODES, **settings: Any) -> Any:
    return host_plan(PPO, [{**SETTINGS, **settings}], num_trials, nodes, seeds)


def test_as_many_processes_as_trials_would_fit() -> None:
    assert plan(10) == HostPlan(4, 10, {"CPU": 1})
    assert plan(1000) == HostPlan(4, 128, {"CPU": 1})
    assert plan(4) == ENOUGH
    assert plan(10, num_cpus_for_main_process=2).num_hosts == 1  # of the node with three
    tenths = plan(100, num_gpus=0.1, nodes=[{"CPU": 16.0, "GPU": 1.0}])
    assert "PyTorch sees no GPU" in tenths  # here, where a trial is made to see
    assert plan(num_cpus_for_main_process=8) == "no node has {'CPU': 8.0}"


def test_shares_that_floats_do_not_divide() -> None:
    assert [_times(share, 1.0) for share in (0.1, 0.2, 0.3, 0.5, 2.0)] == [10, 5, 3, 2, 0]


def test_seeds_are_dealt_where_trials_are_few() -> None:
    four = [{"CPU": 4.0}]
    assert plan(1, 5, four) == HostPlan(4, 1, {"CPU": 1}, places_each=6, parallel=4)
    assert plan(2, 5, four).parallel == 2
    assert plan(3, 5, four).parallel == 1  # a process may be left over, none has two shares
    assert plan(1, 4, four) == ENOUGH
    assert plan(100, 10, four).places == 12  # three of ten seeds in a process
    assert plan(100, 50, four).places == 4  # of more than 32 seeds one
    assert plan(1, seeds=5) == "the seeds of a trial are to be on one node"
    assert plan(100, seeds=5).parallel == 1


def test_each_trial_has_its_own_process_where_nothing_is_gained() -> None:
    assert host_plan(BC, [SETTINGS], 100, NODES) == (
        "updates of BC are not written for several trials"
    )
    assert plan(num_env_runners=2) == "a trial has 3 processes"
    assert "memory" in plan(model={"use_lstm": True})
    different = [SETTINGS, {**SETTINGS, "num_env_runners": 1}]
    assert host_plan(PPO, different, 100, NODES) == "trials ask for different resources"


def notes(**keys: Any) -> list[str]:
    data: dict[str, Any] = {
        "name": "notes",
        "trainable": "PPO",
        "config": SETTINGS,
        "search_space": {"lr": {"loguniform": [1e-4, 1e-2]}},
        "num_samples": 40,
        "resources": {"num_cpus": 2},
        "stop": {"training_iteration": 2},
        "trial_batching": "auto",
        **keys,
    }
    return batching_notes(Sweep.of(make_spec(data)))


SAID: list[tuple[dict[str, Any], str]] = [
    ({}, "up to 40 trials learn together in 2 processes"),
    ({"max_concurrent": 6}, "up to 6 trials learn together in 2 processes"),
    ({"resources": {"num_cpus": 1}}, "up to 32 trials learn together in 1 process"),
    ({"search": "tpe", "num_samples": 60}, "up to 15 trials learn together in 2 processes"),
    ({"search": "tpe"}, "up to 10 trials learn together in 2 processes"),
    ({"seeds": 5}, "up to 12 trials of 5 seeds learn together in 2 processes"),
    (
        {"seeds": {"values": 5, "parallel": 2}},
        "each trial has 2 of its own (seeds.parallel = 2 gives each trial that many): "
        "up to 3 seeds of a process learn together",
    ),
    ({"max_concurrent": 2}, f"each trial has its own process: {ENOUGH}"),
    (
        {"scheduler": "resource_changing"},
        "each trial has its own process: the scheduler resource_changing hands out CPUs "
        "to each trial",
    ),
    (
        {"trainable": "A2C"},
        "each trial has its own process: updates of A2C are not written for several trials",
    ),
]


def test_what_is_said_of_it() -> None:
    assert [notes(**keys) for keys, _ in SAID] == [[f"trial_batching: {said}"] for _, said in SAID]
    assert notes(trial_batching=False) == []  # where nobody asked
