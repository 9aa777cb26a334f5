"""Population-based training rescues runs that begin with far too small a learning rate."""

from __future__ import annotations

from math import isclose
from pathlib import Path

import pytest

from analysis import load_sweep, read_lineage
from experiments.running.runner import run_sweep
from experiments.sweep.load import load_spec
from experiments.sweep.sweep import Sweep


def best_at_the_end(folder: Path, *overrides: str) -> float:
    common = [f"storage={folder}", "mlflow.enabled=false", "resources.num_cpus=2"]
    outcome = run_sweep(Sweep.of(load_spec("pbt_cartpole", [*common, *overrides])))
    assert not outcome.failures
    frames = [trial.frame for trial in load_sweep(outcome.folder).trials]
    return max(float(frame["episode_return_mean"].iloc[-1]) for frame in frames)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_pbt_recovers_where_the_same_runs_without_mutation_do_not(tmp_path: Path) -> None:
    assert best_at_the_end(tmp_path, "scheduler=fifo", "name=fifo") < 200
    assert best_at_the_end(tmp_path) >= 450
    exploits = read_lineage(tmp_path / "pbt_cartpole")
    for trial in load_sweep(tmp_path / "pbt_cartpole").trials:
        # Every mutation reached the optimiser.
        rates = trial.frame["learner/default_policy/curr_lr"]
        for exploit in exploits:
            if exploit.trial == trial.trial_id:
                assert any(isclose(rate, exploit.after["lr"]) for rate in rates), exploit
