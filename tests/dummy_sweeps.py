"""Sweeps over the dummy from specs, in this process, and what their search was told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweep_dummy import NAME, STEPS

from experiments.running.results import Outcome
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

ENV_STEPS = "num_env_steps_sampled_lifetime"


def spec_of(folder: Path, **keys: Any) -> dict[str, Any]:
    """A spec of one trial of eight iterations."""
    return {
        "name": "sweep",
        "trainable": NAME,
        "storage": str(folder),
        "stop": {ENV_STEPS: 8 * STEPS},
        "mlflow": {"enabled": False},
        **keys,
    }


def sweep(folder: Path, **keys: Any) -> Outcome:
    """The sweep of `spec_of`, run to its end."""
    return run_sweep(Sweep.of(make_spec(spec_of(folder, **keys))))


def configs(outcome: Outcome) -> list[dict[str, Any]]:
    """Of the trials, in their order."""
    trials = sorted(outcome.results._experiment_analysis.trials, key=lambda t: t.experiment_tag)
    return [trial.config for trial in trials]


def told_to_optuna(folder: Path) -> list[Any]:
    """Optuna's trials, as the search has them in Tune's last snapshot."""
    from experiments.search.optuna_search import OptunaSearch
    from search_spaces.space import SearchSpace

    search = OptunaSearch(SearchSpace(), metric="episode_return_mean", mode="max")
    search.restore_from_dir(str(folder))
    return search.study.trials


def states_in_optuna(folder: Path) -> list[str]:
    """How each trial ended for the search."""
    return sorted(trial.state.name for trial in told_to_optuna(folder))
