"""Importance, interactions and partial dependence on sweeps with planted effects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import Golden, refusals
from settings_sweeps import RETURN, log_uniform, sweep_of, trial, uniform
from tiers import rarely

from analysis import fit_surrogate, importance_frame, interactions_frame, partial_dependence_frame
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError

FIVE = {"a": uniform, "b": uniform, "lr": log_uniform, "c": uniform, "d": uniform}
METHODS = ("fanova", "permutation")
SEEDS = rarely(range(3), [0])


def planted(config: dict[str, Any]) -> float:
    """The step size matters most, `a` somewhat, nothing else."""
    return -abs(np.log10(config["lr"]) + 3) + 0.7 * config["a"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_planted_setting_ranks_first(seed: int, method: str) -> None:
    sweep = sweep_of(planted, FIVE, seed=seed)
    frame = importance_frame(sweep, method=method, forests=2)
    assert list(frame.columns) == ["rank", "setting", "importance", "low", "high", "method"]
    assert frame["setting"][0] == "lr" and list(frame["rank"]) == [1, 2, 3, 4, 5]
    assert (frame["low"] <= frame["importance"]).all()
    assert (frame["importance"] <= frame["high"]).all()
    assert frame.attrs["r2"] > 0.4 and frame.attrs["num_trials"] == 60
    assert "nothing" not in frame.attrs["caution"]
    low = importance_frame(sweep, RETURN, "min", method=method, forests=2)
    pd.testing.assert_frame_equal(low, frame)


def test_shares_of_a_sum_are_its_variances() -> None:
    """Of 3a + b over even draws, a explains 9/10 and b 1/10."""
    sweep = sweep_of(lambda c: 3 * c["a"] + c["b"], FIVE, trials=400, noise=0)
    shares = importance_frame(sweep, forests=1).set_index("setting")["importance"]
    assert shares["a"] == pytest.approx(0.9, abs=0.06)
    assert shares["b"] == pytest.approx(0.1, abs=0.06)
    assert shares["c"] < 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_yields_a_caution(seed: int) -> None:
    frame = importance_frame(sweep_of(lambda _: 0.0, FIVE, seed=seed), forests=2)
    assert "explain nothing of episode_return_mean (out-of-bag R² " in frame.attrs["caution"]


def test_seeds_of_a_configuration_are_not_unseen_trials() -> None:
    """8 configurations of noise with 5 seeds each: a sister in the bag is no prediction."""
    rng = np.random.default_rng(0)
    trials = []
    for own in rng.normal(size=8):
        config = {name: uniform(rng) for name in "abcd"}
        for seed in range(5):
            value = own + 0.2 * float(rng.normal())
            trials.append(trial(len(trials), {**config, "seed": seed}, [value]))
    for method in METHODS:
        attrs = importance_frame(Sweep("s", Path("none"), trials), method=method, forests=1).attrs
        assert attrs["r2"] < 0 and attrs["num_trials"] == 40 and attrs["num_configurations"] == 8
        assert "explain nothing" in attrs["caution"]
        assert "8 configurations are few for 4 settings; 20 or more" in attrs["caution"]
    with pytest.raises(ResultsError, match=r"7 configurations \(35 trials\) with a finite"):
        importance_frame(Sweep("s", Path("none"), trials[:35]))


def test_permutation_judges_trials_that_a_tree_did_not_see() -> None:
    """On those that it saw, shuffling any setting of a sweep of noise would cost much."""
    frame = importance_frame(sweep_of(lambda _: 0.0, FIVE), method="permutation", forests=2)
    assert frame["importance"].max() < 0.2 and frame["importance"].min() < 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_planted_interaction_is_first(seed: int) -> None:
    sweep = sweep_of(
        lambda c: 4 * (c["b"] - 0.5) * (c["d"] - 0.5) + 0.3 * c["a"], FIVE, trials=250, seed=seed
    )
    pairs = interactions_frame(sweep, top=4, forests=2)
    assert {pairs["setting"][0], pairs["other"][0]} == {"b", "d"}
    assert pairs["interaction"][0] > 2 * pairs["interaction"][1]
    assert len(pairs) == 4 and len(interactions_frame(sweep, top=None, forests=2)) == 10
    # What permutation sees and main effects do not.
    first = importance_frame(sweep, method="permutation", forests=2)["setting"][:2]
    assert set(first) == {"b", "d"}


def test_partial_dependence_recovers_the_shape() -> None:
    sweep = sweep_of(planted, FIVE, trials=200)
    learned = fit_surrogate(sweep, forests=2)
    curve = partial_dependence_frame(learned, "lr")
    assert list(curve.columns) == ["lr", "mean", "low", "high"] and len(curve) == 41
    assert curve["lr"].iloc[[0, -1]].tolist() == pytest.approx([1e-5, 0.1], rel=0.2)
    assert 1e-4 < curve["lr"][curve["mean"].argmax()] < 1e-2
    assert (curve["low"] <= curve["mean"]).all() and (curve["mean"] <= curve["high"]).all()
    assert curve.attrs["scales"] == ["log"]
    surface = partial_dependence_frame(learned, ["a", "lr"], points=5)
    assert list(surface.columns) == ["a", "lr", "mean", "low", "high"] and len(surface) == 25
    best = surface.loc[surface["mean"].idxmax()]
    assert best["a"] > 0.5 and 1e-4 < best["lr"] < 1e-2


def test_choices_keep_their_values() -> None:
    layers = ([64, 64], [256])
    sweep = sweep_of(
        lambda c: float(c["layers"] == [256]) + 0.5 * c["dueling"],
        {
            "layers": lambda rng: layers[rng.integers(2)],
            "dueling": lambda rng: bool(rng.integers(2)),
            "a": uniform,
        },
    )
    assert list(importance_frame(sweep, forests=1)["setting"]) == ["layers", "dueling", "a"]
    frame = partial_dependence_frame(sweep, ["layers", "dueling"], forests=1)
    means = {(str(r["layers"]), r["dueling"]): r["mean"] for r in frame.to_dict("records")}
    assert set(means) == {(str(v), b) for v in layers for b in (False, True)}
    assert means["[256]", True] == pytest.approx(1.5, abs=0.15)
    assert means["[64, 64]", False] == pytest.approx(0.0, abs=0.15)


def test_a_setting_that_some_trials_lack_has_absent_as_a_value() -> None:
    def objective(config: dict[str, Any]) -> float:
        return float(config.get("sigma", 2.0))

    draws = {"sigma": lambda rng: rng.uniform() if rng.uniform() < 0.6 else None, "a": uniform}
    sweep = sweep_of(objective, draws, trials=80)
    assert importance_frame(sweep, forests=1)["setting"][0] == "sigma"
    curve = partial_dependence_frame(sweep, "sigma", forests=1)
    absent = curve[curve["sigma"].isna()]
    assert len(absent) == 1 and absent["mean"].item() == pytest.approx(2, abs=0.2)
    assert curve["mean"].iloc[:5].max() < 0.5


def test_scales_come_from_the_spec(tmp_path: Path) -> None:
    """Few values near the low end of a range that was searched by its logarithm."""
    (tmp_path / "spec.yaml").write_text(
        "search_space:\n  gamma: {loguniform: [0.001, 0.01], transform: one_minus}\n"
    )
    draws = {"gamma": lambda rng: 1 - 10 ** rng.uniform(-3, -2), "a": uniform}
    spec = sweep_of(lambda c: c["a"], draws, path=tmp_path)
    assert fit_surrogate(spec).data.scales[0].kind == "one_minus"
    curve = partial_dependence_frame(spec, "gamma", points=3, forests=1)
    assert curve["gamma"].tolist() == pytest.approx([0.99, 0.9968, 0.999], abs=1e-3)


def test_constants_seeds_and_twins() -> None:
    sweep = sweep_of(
        lambda c: c["a"],
        {"a": uniform, "seed": lambda rng: int(rng.integers(99)), "env": lambda _: "Pendulum"},
    )
    for record in sweep.trials:
        record.config["half"] = record.config["a"] / 2
        record.config["rest"] = 1 - record.config["a"]
        record.config["b"] = uniform(np.random.default_rng(int(record.trial_id[1:])))
    frame = importance_frame(sweep, forests=1)
    assert frame["setting"].tolist() == ["a + half + rest", "b"]


def test_settings_that_changed_within_a_trial_do_not_count() -> None:
    sweep = sweep_of(planted, FIVE)
    record = sweep.trials[0]
    sweep.trials[0] = replace(record, row_configs=[{**record.config, "lr": 0.5}, record.config])
    assert "lr" not in set(importance_frame(sweep, forests=1)["setting"])


def test_failed_and_diverged_trials_are_counted_as_left_out() -> None:
    sweep = sweep_of(planted, FIVE, trials=20)
    sweep.trials[0].status = "ERROR"
    sweep.trials[1].frame[RETURN] = float("nan")
    attrs = importance_frame(sweep, forests=1).attrs
    assert attrs["num_trials"] == 18
    assert attrs["left_out"] == {"not ended or failed": 1, "no finite value": 1}
    assert "18 trials are few for 5 settings" in attrs["caution"]


def early_stopped() -> Sweep:
    """Trials with a small step size learn slowly and win; every other trial was stopped early."""
    rng = np.random.default_rng(0)
    trials = []
    for number in range(40):
        lr, other = log_uniform(rng), uniform(rng)
        speed = np.log10(lr) + 6
        values = [other + row * (0 if row > 2 else speed) for row in range(1, 11)]
        trials.append(trial(number, {"lr": lr, "b": other}, values[: 10 if number % 2 else 2]))
    return Sweep("asha", Path("no-such-folder"), trials)


def test_trials_of_different_lengths_are_compared_at_a_shared_budget() -> None:
    sweep = early_stopped()
    fair = importance_frame(sweep, forests=1)
    assert fair["setting"][0] == "lr" and fair.attrs["at_budget"] == 200
    assert "after 200 to 1,000 env steps; all count" in fair.attrs["caution"]
    pd.testing.assert_frame_equal(fair, importance_frame(sweep, at_budget="shared", forests=1))
    last = importance_frame(sweep, at_budget="last", forests=1)
    assert last.attrs["at_budget"] is None and last.attrs["r2"] < fair.attrs["r2"]
    assert "count with their last value" in last.attrs["caution"]
    late = importance_frame(sweep, at_budget=1_000, forests=1)
    assert late.attrs["num_trials"] == 20 and late["setting"][0] == "b"
    assert late.attrs["left_out"] == {"did not reach the budget": 20}
    assert "Only trials that reached 1,000 env steps count" in late.attrs["caution"]


BAD_ARGUMENTS: list[dict[str, Any]] = [
    {"method": "shap"},
    {"mode": "best"},
    {"metric": "episode_return"},
    {"at_budget": -3},
    {"at_budget": 1e9},
    {"forests": 0},
]


def test_arguments_are_checked(golden: Golden) -> None:
    sweep = sweep_of(planted, FIVE)
    texts = refusals(lambda bad: importance_frame(sweep, **bad), BAD_ARGUMENTS, ResultsError)
    golden("outcomes/importance", texts)


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(ResultsError, match=r"7 trials with a finite .* too few"):
        importance_frame(sweep_of(planted, FIVE, trials=7))
    with pytest.raises(ResultsError, match="every trial has the same episode_return_mean, 1"):
        importance_frame(sweep_of(lambda _: 1.0, FIVE, noise=0))
    with pytest.raises(ResultsError, match="no setting varies"):
        importance_frame(sweep_of(lambda _: 1.0, {"a": lambda _: 3}))
    sweep = sweep_of(planted, FIVE)
    with pytest.raises(
        ResultsError, match="'gamma' is no setting that varies in planted: a, b, lr"
    ):
        partial_dependence_frame(sweep, "gamma")
    with pytest.raises(ResultsError, match="one or two different settings"):
        partial_dependence_frame(sweep, ["a", "a"])
    with pytest.raises(ResultsError, match="top must be at least 1"):
        interactions_frame(sweep, top=0)
