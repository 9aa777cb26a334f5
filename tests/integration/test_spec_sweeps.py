"""What a spec says about a sweep, and what the sweep then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dummy_sweeps import ENV_STEPS, spec_of
from sweep_dummy import STEPS
from tiers import rarely

from experiments import SweepError, run
from experiments.commands.show_spec import python_source
from experiments.sweep.load import make_spec

pytestmark = pytest.mark.usefixtures("ray_here")


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
    """The trials would take hours: the first result is enough."""
    endless = {"config": {"seconds": 0.05}, "num_samples": 3, "stop": {ENV_STEPS: 10**5 * STEPS}}
    keys = {"trainable": "sweep_dummy:Undeclared", **endless, **keys}
    with pytest.raises(SweepError, match=expected) as error:
        run(make_spec(spec_of(tmp_path, **keys)))
    assert "\n" not in str(error.value)


SPACE = {
    "lr": {"loguniform": [1e-4, 1e-1]},
    "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
    "model.fcnet_hiddens": {"choice": [[64, 64], [32]]},
}
SWEEPS: dict[str, dict[str, Any]] = {
    "grid": {
        "search": "grid",
        "search_space": {"lr": {"grid": [0.1, 0.01]}, "num_epochs": {"choice": [1, 2]}},
        "objective": {"metric": "episode_return_mean", "mode": "min"},
    },
    "random": {
        "search": {"algorithm": "random", "points_to_evaluate": [{"lr": 0.02}]},
        "search_space": SPACE,
        "num_samples": 3,
        "seed": 1,
    },
    "tpe under asha": {
        "search": {"algorithm": "tpe", "n_startup_trials": 3},
        "scheduler": {"algorithm": "asha", "grace_period": STEPS, "reduction_factor": 2},
        "search_space": SPACE,
        "num_samples": 7,
        "seed": 3,
        "max_concurrent": 1,
        "mlflow": {"tags": {"a": 'b"c'}},
        "max_failures": 0,
    },
    "pbt": {
        "scheduler": {"algorithm": "pbt", "perturbation_interval": STEPS, "synch": True},
        "search_space": {"lr": {"loguniform": [1e-4, 1e-1]}},
        "num_samples": 4,
        "seed": 5,
    },
}


@pytest.mark.parametrize("name", rarely(list(SWEEPS), ["tpe under asha"]))
def test_the_same_sweep_in_python(tmp_path: Path, name: str) -> None:
    """The script that `show --as python` prints runs, and gives the same trials."""
    keys = {"stop": {ENV_STEPS: 3 * STEPS}, **SWEEPS[name]}
    results = run(make_spec(spec_of(tmp_path, **keys)))
    source = python_source(make_spec(spec_of(tmp_path, **keys, name="python")))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "sweep.py", "exec"), namespace)
    assert (tmp_path / "python" / "tuner.pkl").is_file()
    mine, theirs = _trials(results), _trials(namespace["results"])
    assert len(mine) >= 3
    assert theirs == mine


def _trials(results: Any) -> list[tuple[Any, Any]]:
    """Each trial's config and how far it got."""
    trials = sorted(results._experiment_analysis.trials, key=lambda trial: trial.experiment_tag)
    return [(trial.config, trial.last_result[ENV_STEPS]) for trial in trials]
