"""The final's judgement, from rows on disk: who is run again, who wins, how optimistic it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.export import export_checkpoint
from analysis.plots.held_out import plot_held_out
from analysis.ranking.held_out import add_runs, candidates, winner, winner_caution
from analysis.results.load import load_sweep
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError
from analysis.statistics import iqm, iqm_interval
from experiments.running.final import held_out_seeds
from experiments.sweep.load import make_spec

RETURN = "episode_return_mean"
PATHS = [("lr",), ("model", "size")]


def sweep(folder: Path, trials: dict[str, tuple[dict[str, Any], list[float]]]) -> Sweep:
    """A sweep on disk: by trial its config and its returns; all are finished."""
    for number, (name, (config, returns)) in enumerate(trials.items()):
        place = folder / f"{number:04d}_{name}"
        place.mkdir(parents=True)
        rows = [
            {
                RETURN: value,
                "training_iteration": i,
                "trial_id": name,
                "done": i == len(returns),
                "config": config,
            }
            for i, value in enumerate(returns, start=1)
        ]
        (place / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_sweep(folder)


@pytest.fixture
def search(tmp_path: Path) -> Sweep:
    good, lucky = {"lr": 0.1, "model": {"size": 8}}, {"lr": 0.2}
    return sweep(
        tmp_path / "search",
        {
            "good": ({**good, "seed": 1}, [10, 80, 70]),
            "lucky": ({**lucky, "seed": 1}, [10, 95, 60]),
            "again": ({**good, "seed": 1}, [10, 20, 75]),
            "bad": ({"lr": 0.3, "seed": 1}, [1, 2, 3]),
        },
    )


def test_the_best_different_configurations_are_run_again(search: Sweep) -> None:
    found = candidates(search, RETURN, "max", 2, PATHS)
    # By their ends, not by the luckiest moment; `again` is the better of two with one config.
    assert [c.trial_id for c in found] == ["again", "lucky"]
    assert found[0].settings == {"lr": 0.1, "model.size": 8}
    assert found[1].settings == {"lr": 0.2}  # model.size was inactive
    assert (found[1].search_best, found[1].search_last) == (95, 60)
    lowest = candidates(search, RETURN, "min", 1, PATHS)
    assert lowest[0].trial_id == "bad" and lowest[0].search_best == 1
    assert lowest[0].search_last == 3


def test_held_out_runs_choose_the_winner(search: Sweep, tmp_path: Path) -> None:
    found = candidates(search, RETURN, "max", 2, PATHS)
    ends = {"lucky": [50, 40, 55, 45, 0], "again": [72, 65, 70, 90, 68]}
    runs: dict[str, tuple[dict[str, Any], list[float]]] = {}
    for candidate in found:
        config: dict[str, Any] = {"lr": candidate.settings["lr"]}
        if candidate.trial_id == "again":
            config["model"] = {"size": 8}
        for number, value in enumerate(ends[candidate.trial_id]):
            seed = {"seed": 100 + number}
            runs[f"{candidate.trial_id}{number}"] = ({**config, **seed}, [500, value])
    add_runs(found, [sweep(tmp_path / "final", runs)], RETURN, PATHS)
    good, lucky = found
    assert lucky.values == dict(zip(range(100, 105), ends["lucky"], strict=True))
    assert lucky.held_out == iqm(ends["lucky"]) == 45 and good.held_out == 70
    assert good.interval == iqm_interval(ends["again"])
    # At the end of training on both sides, not at the luckiest moment.
    assert lucky.optimism("max") == 60 - 45 and good.optimism("max") == 75 - 70
    assert lucky.optimism("min") == 45 - 60
    assert winner(found, "max") is good and winner(found, "min") is lucky
    assert good.median_seed == 102  # whose value is 70
    picture = plot_held_out(found, RETURN, tmp_path / "final.png", chosen=good)
    assert picture.stat().st_size > 10_000


def test_seeds_that_fail_or_diverge_do_not_help_to_win(search: Sweep, tmp_path: Path) -> None:
    found = candidates(search, RETURN, "max", 2, PATHS)
    ends = {"lucky": [499, 500, float("nan"), float("inf")], "again": [72, 65, 70, 90]}
    runs: dict[str, tuple[dict[str, Any], list[float]]] = {}
    for candidate in found:
        settings = {"lr": candidate.settings["lr"]}
        if candidate.trial_id == "again":
            settings["model"] = {"size": 8}
        for number, value in enumerate(ends[candidate.trial_id]):
            config = {**settings, "seed": 100 + number}
            runs[f"{candidate.trial_id}{number}"] = (config, [450, value])
    add_runs(found, [sweep(tmp_path / "final", runs)], RETURN, PATHS)
    good, lucky = found
    assert lucky.values == {100: 499, 101: 500}  # 450 was before it diverged
    assert winner(found, "max") is good
    assert "best of 2" in winner_caution(found) and winner_caution(found[:1]) == ""


def test_the_policy_is_that_of_the_median_run(search: Sweep, tmp_path: Path) -> None:
    found = candidates(search, RETURN, "max", 1, PATHS)[:1]
    runs: dict[str, tuple[dict[str, Any], list[float]]] = {
        f"run{seed}": ({"lr": 0.1, "model": {"size": 8}, "seed": seed}, [1, value])
        for seed, value in ((7, 30), (8, 10), (9, 20))
    }
    final = tmp_path / "final"
    sweep(final, runs)
    for number in range(3):  # checkpoints that do not say at which iteration they were taken
        for taken in ("checkpoint_000000", "checkpoint_000001"):
            policy = final / f"{number:04d}_run{7 + number}" / taken / "policies" / "default_policy"
            policy.mkdir(parents=True)
            (policy / "policy.json").write_text(json.dumps({"of": f"{7 + number} {taken}"}))
    add_runs(found, [load_sweep(final)], RETURN, PATHS)
    chosen = found[0].checkpoint(RETURN, "s")
    assert found[0].median_seed == 9 and chosen is not None and chosen.value == 20
    best = export_checkpoint(chosen, tmp_path / "best", RETURN, "max", said={"seed": 9})
    assert json.loads((best / "policy.json").read_text()) == {"of": "9 checkpoint_000001"}
    provenance = json.loads((best / "export.json").read_text())
    assert provenance["seed"] == provenance["config"]["seed"] == 9
    assert provenance["trial_id"] == "run9" and provenance["value"] == 20


def test_without_runs_there_is_no_winner(search: Sweep, tmp_path: Path) -> None:
    found = candidates(search, RETURN, "max", 2, PATHS)
    assert winner(found, "max") is None
    with pytest.raises(ResultsError, match="no configuration has two finished"):
        plot_held_out(found, RETURN, tmp_path / "final.png")


def test_held_out_seeds_are_never_the_searchs() -> None:
    def seeds(**keys: Any) -> list[int]:
        return held_out_seeds(
            make_spec(
                {
                    "name": "s",
                    "trainable": "sweep_dummy:Dummy",
                    "stop": {"training_iteration": 1},
                    "search_space": {"lr": {"uniform": [0.1, 1]}},
                    "final": {"seeds": 6},
                    **keys,
                }
            )
        )

    plain = seeds(seed=3)
    assert plain == seeds(seed=3) != seeds(seed=4)
    assert len(set(plain)) == 6
    taken = seeds(seed=3, seeds=[plain[0], plain[4]])
    assert not {plain[0], plain[4]} & set(taken) and len(set(taken)) == 6
