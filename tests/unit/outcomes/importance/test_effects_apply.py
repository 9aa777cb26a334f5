"""Which sweeps may rank settings by their effects: one rule for the run and for its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from analysis_sweeps import make_sweep, row

from analysis.report import write_figures
from analysis.results.schedulers import compares_settings
from experiments.spec.scheduler_schema import SCHEDULERS
from experiments.spec.search_schema import SEARCHES
from experiments.sweep.load import make_spec

# Those that stop trials early or change their settings. A new one of these has its name here.
UNFAIR = {"asha", "hyperband", "median_stopping", "pbt", "pb2", "pbt_replay"}
LEARNING = {"tpe", "cmaes", "gp", "nsga2", "nsga3"}


def test_not_where_trials_stop_early_or_change_their_settings() -> None:
    sections = [{"scheduler": {"algorithm": name}} for name in SCHEDULERS]
    fair = [name not in UNFAIR for name in SCHEDULERS]
    assert [*map(compares_settings, sections)] == fair
    assert [compares_settings({"scheduler": name}) for name in SCHEDULERS] == fair


def test_not_after_a_search_that_learns() -> None:
    fair = [compares_settings({"search": {"algorithm": name}}) for name in SEARCHES]
    assert fair == [name not in LEARNING for name in SEARCHES]


def test_changing_resources_leaves_it_to_the_base() -> None:
    assert compares_settings({})
    for base, fair in (("fifo", True), ("asha", False), ("median_stopping", False)):
        scheduler = {"algorithm": "resource_changing", "base": base}
        assert compares_settings({"scheduler": scheduler}) is fair


@pytest.mark.parametrize("base", ["fifo", "asha"])
def test_the_run_asks_of_a_checked_spec(base: str) -> None:
    spec = make_spec(
        {
            "name": "s",
            "trainable": "sweep_dummy:Dummy",
            "stop": {"num_env_steps_sampled_lifetime": 1000},
            "search_space": {"lr": {"loguniform": [1e-4, 0.1]}},
            "num_samples": 4,
            "scheduler": {"algorithm": "resource_changing", "base": base},
        }
    )
    assert compares_settings(spec.model_dump()) is (base == "fifo")


@pytest.mark.parametrize(
    ("keys", "drawn"),
    [
        ({"search": {"algorithm": "grid"}}, True),
        pytest.param({"search": {"algorithm": "tpe"}}, False, marks=pytest.mark.full),
        ({"scheduler": {"algorithm": "asha"}}, False),
        pytest.param(
            {"scheduler": {"algorithm": "resource_changing", "base": "fifo"}},
            True,
            marks=pytest.mark.full,
        ),
    ],
)
def test_the_report_draws_effects_as_the_run_does(
    tmp_path: Path, keys: dict[str, Any], drawn: bool
) -> None:
    trials = {
        f"t{n}": {
            "rows": [row(i, float(n + i), done=i == 3) for i in (1, 2, 3)],
            "config": {"lr": [0.1, 0.2][n % 2]},
            "searched": {"lr": 0},
        }
        for n in range(6)
    }
    sweep = make_sweep(tmp_path, trials)
    (sweep / "spec.yaml").write_text(yaml.safe_dump({"name": "sweep", **keys}))
    names = {path.stem for path in write_figures(sweep, tmp_path / "figures")}
    assert ("effects" in names) is drawn
