"""The final: the best configurations on held-out seeds, crash-safe, and the honest winner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from seeded_dummy import NAME
from sweep_dummy import STEPS

import experiments.cluster.session
from analysis import load_sweep
from analysis.statistics import iqm, iqm_interval
from experiments.commands.results.summary import show_outcome
from experiments.running.final import held_out_seeds
from experiments.running.runner import resume_sweep, run_sweep
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.terminal import make_console

ENV_STEPS = "num_env_steps_sampled_lifetime"


pytestmark = pytest.mark.usefixtures("ray_here")


def spec(tmp_path: Path, **keys: Any) -> SweepSpec:
    return make_spec(
        {
            "name": "sweep",
            "trainable": NAME,
            "storage": str(tmp_path),
            "stop": {ENV_STEPS: 3 * STEPS},
            "mlflow": {"enabled": False},
            "config": {"log": str(tmp_path / "log"), "modulo": 5},
            "search_space": {
                "lr": {"grid": [0.01, 0.3, 0.6, 0.9]},
                "gamma": {"uniform": [0.01, 0.1], "transform": "one_minus"},
            },
            "seed": 4,
            "final": {"top": 2, "seeds": 4},
            **keys,
        }
    )


def runs(tmp_path: Path) -> list[tuple[str, int]]:
    """Trial and seed of each run that was begun."""
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    return [(trial, int(seed)) for trial, seed, count, _ in lines if count == "1"]


def test_the_winner_is_chosen_on_held_out_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = spec(tmp_path)
    held_out = held_out_seeds(sweep)
    outcome = run_sweep(Sweep.of(sweep))
    assert outcome.final is not None and not outcome.final.failures
    assert outcome.num_trials == 4 and len(set(held_out)) == 4 and 4 not in held_out
    begun = runs(tmp_path)
    assert sorted({seed for _, seed in begun}) == sorted({4, *held_out})
    assert len(begun) == 4 + 2 * 4

    report = json.loads((outcome.folder / "final.json").read_text())
    first, second = report["configurations"]
    # The search knows one seed only, and ranks by the value at it.
    assert [c["settings"]["lr"] for c in report["configurations"]] == [0.01, 0.3]
    assert report["held_out_seeds"] == held_out
    values = [3 * (1 - 0) + (seed % 5) ** 2 for seed in held_out]
    assert sorted(first["values"].values()) == sorted(values)
    assert first["held_out_iqm"] == iqm(values)
    assert (first["held_out_low"], first["held_out_high"]) == iqm_interval(
        list(first["values"].values())
    )
    assert first["optimism"] == pytest.approx((3 + 16) - iqm(values))
    assert first["search_best"] == first["search_last"] == 3 + 16
    assert "4 seeds are too narrow" in report["caution"]
    assert report["winner"] == first["trial_id"]
    # The same settings to the bit of what a transform loses.
    trials = {trial.trial_id: trial for trial in load_sweep(outcome.folder).trials}
    for run in load_sweep(outcome.folder / "final").trials:
        lr = run.config["lr"]
        searched = trials[(first if lr == 0.01 else second)["trial_id"]].config
        assert run.config["gamma"] == searched["gamma"]

    provenance = json.loads((outcome.folder / "best" / "export.json").read_text())
    assert provenance["winner_of_final"] == first["trial_id"]
    assert provenance["config"]["seed"] == provenance["seed"] == report["policy_of_seed"]
    assert provenance["held_out_iqm"] == first["held_out_iqm"]
    show_outcome(outcome, sweep, make_console())
    shown = capsys.readouterr().out
    assert "4 held-out seeds" in shown and "optimism" in shown and "winner" in shown
    assert "too narrow" in shown and (outcome.folder / "final.png").stat().st_size > 10_000

    again = resume_sweep(outcome.folder)  # everything is there: nothing is run
    assert runs(tmp_path) == begun and again.final is not None
    assert json.loads((outcome.folder / "final.json").read_text()) == report


@pytest.mark.full("test_the_winner_is_chosen_on_held_out_seeds")
def test_a_final_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    """As a kill leaves it: a run is unfinished in Tune's snapshot, and there is no report."""
    sweep = spec(tmp_path, seeds=3, seed=0)
    outcome = run_sweep(Sweep.of(sweep))
    begun = runs(tmp_path)
    final = outcome.folder / "final"
    (state,) = final.glob("experiment_state-*.json")
    (outcome.folder / "final.json").unlink()
    snapshot = json.loads(state.read_text())
    lost = json.loads(snapshot["trial_data"][-1][0])
    lost["status"] = "PENDING"
    snapshot["trial_data"][-1][0] = json.dumps(lost)
    state.write_text(json.dumps(snapshot))
    for file in (final / lost["relative_logdir"]).rglob("*"):
        if file.name in ("result.json", "checkpoints.jsonl"):
            file.unlink()
    resumed = resume_sweep(outcome.folder)
    assert resumed.final is not None and resumed.final.winner is not None
    assert len(runs(tmp_path)) - len(begun) <= 1
    report = json.loads((outcome.folder / "final.json").read_text())
    assert [len(c["values"]) for c in report["configurations"]] == [4, 4]
    # A final that Tune had not saved yet is begun anew.
    state.unlink()
    again = resume_sweep(outcome.folder)
    assert again.final is not None and len(load_sweep(final).trials) == 8


def test_what_no_final_can_be_of(tmp_path: Path) -> None:
    for keys, expected in (
        ({"search_space": {}}, "needs a search_space to choose from"),
        ({"search_space": {"seed": {"grid": [1, 2]}}, "seed": None}, "both choose the seeds"),
        ({"final": {"top": 2, "seeds": 1}}, "greater than or equal to 2"),
    ):
        with pytest.raises(experiments.SpecError, match=expected):
            spec(tmp_path, **keys)  # type: ignore[arg-type]
