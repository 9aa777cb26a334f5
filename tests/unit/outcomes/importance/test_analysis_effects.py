"""The effects report: what is known to matter is found and ranked, and noise is not."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from analysis_sweeps import make_sweep, row
from rich.console import Console

from analysis import ResultsError, effects_frame, plot_effects
from analysis.importance.effects import _paired_error, _range_quantile, _welch_error
from analysis.results.records import Sweep, TrialRecord
from experiments.commands.results.summary import show_outcome
from experiments.running.results import Outcome, _draw_effects
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep as PlannedSweep

SWITCHES = ("double_q", "dueling", "noisy")


def sweep_of(configs: list[dict[str, Any]], values: list[float], **more: Any) -> Sweep:
    """A finished sweep in memory: each trial reports its value ten times."""
    trials = []
    for number, (config, value) in enumerate(zip(configs, values, strict=True)):
        frame = pd.DataFrame([row(i, value) for i in range(1, 11)])
        searched = tuple(config)
        record = TrialRecord(
            str(number), Path(), "TERMINATED", {"lr": 0.1, **config}, searched, frame
        )
        trials.append(record)
    return Sweep("fabricated", Path("runs/fabricated"), trials)


def grid(**levels: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(levels, point, strict=True)) for point in itertools.product(*levels.values())]


def parts() -> tuple[list[dict[str, Any]], list[float]]:
    """A 2^4 grid: n_step is worth 100, dueling 60, noisy costs 30, double_q does nothing."""
    generator = np.random.default_rng(1)
    configs = grid(n_step=[1, 3], **{name: [False, True] for name in SWITCHES})
    values = [
        300.0
        + 100 * (config["n_step"] == 3)
        + 60 * config["dueling"]
        - 30 * config["noisy"]
        + generator.normal(0, 10)
        for config in configs
    ]
    return configs, values


def of_settings(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby("setting", sort=False).first()


def test_a_grid_ranks_its_settings_by_their_known_effects() -> None:
    frame = effects_frame(sweep_of(*parts()))
    effects = of_settings(frame)
    assert effects.index.tolist() == ["n_step", "dueling", "noisy", "double_q"]
    assert effects["rank"].tolist() == [1, 2, 3, 4]
    assert effects["level"].tolist()[:3] == [3, True, False]  # the best level comes first
    assert effects["excludes_zero"].tolist() == [True, True, True, False]
    assert effects["paired"].all() and (frame["trials"] == 8).all()
    for name, truth in {"n_step": 100, "dueling": 60, "noisy": 30, "double_q": 0}.items():
        assert effects["effect_low"][name] < truth < effects["effect_high"][name]
        best, worst = frame[frame["setting"] == name]["mean"]
        assert effects["effect"][name] == pytest.approx(best - worst)


def test_where_less_is_better() -> None:
    configs, values = parts()
    mirrored = effects_frame(sweep_of(configs, [-value for value in values]), mode="min")
    frame = effects_frame(sweep_of(configs, values))
    pd.testing.assert_series_equal(mirrored["effect"], frame["effect"])
    assert mirrored["level"].tolist() == frame["level"].tolist()
    assert mirrored["mean"].tolist() == pytest.approx([-mean for mean in frame["mean"]])
    assert mirrored["mean_low"].tolist() == pytest.approx([-high for high in frame["mean_high"]])


def test_pairs_in_a_grid_cancel_what_the_other_settings_do() -> None:
    generator = np.random.default_rng(0)
    configs = grid(dueling=[False, True], gamma=[0.9, 0.95, 0.97, 0.98, 0.99, 0.995])
    values = [2000 * c["gamma"] + 3 * c["dueling"] + generator.normal(0, 0.5) for c in configs]
    effects = of_settings(effects_frame(sweep_of(configs, values)))
    assert effects["excludes_zero"]["dueling"]
    assert effects["effect"]["dueling"] == pytest.approx(3, abs=1)
    # As independent groups the same trials can tell nothing: gamma spreads both over 190.
    unpaired = [{**config, "lr": float(number)} for number, config in enumerate(configs)]
    effects = of_settings(effects_frame(sweep_of(unpaired, values)))
    assert not effects["paired"]["dueling"] and not effects["excludes_zero"]["dueling"]
    assert "lr" not in effects.index  # a level for each trial


@pytest.mark.full("test_errors_and_quantiles_against_scipy")
def test_null_effects_are_rarely_called_certain() -> None:
    """At 95 % for all settings at once, at most one sweep in twenty holds a false claim."""
    generator = np.random.default_rng(0)
    configs = grid(a=[1, 2, 3], b=[1, 2, 3], c=[1, 2, 3])
    sweeps, wrong = 200, 0
    for _ in range(sweeps):
        frame = effects_frame(sweep_of(configs, list(generator.normal(0, 1, len(configs)))))
        assert (frame["effect"] > 0).all()  # noise always makes one level the best
        wrong += bool(frame["excludes_zero"].any())
    assert wrong / sweeps < 0.09  # without the two corrections it is 0.3


def test_errors_and_quantiles_against_scipy() -> None:
    from scipy import stats

    generator = np.random.default_rng(0)
    a, b = generator.normal(3, 1, 9), generator.normal(0, 4, 9)
    for (error, freedom), test in (
        (_paired_error(a, b), stats.ttest_rel(a, b)),
        (_welch_error(a, b[:6]), stats.ttest_ind(a, b[:6], equal_var=False)),
    ):
        assert freedom == pytest.approx(test.df)
        interval = test.confidence_interval(0.9)
        half = _range_quantile(0.9, 2, freedom) * error
        assert 2 * half == pytest.approx(interval.high - interval.low)
    groups = [generator.normal(0, 1, 10) for _ in range(4)]
    honest = stats.tukey_hsd(*groups).confidence_interval(0.9)
    error = np.sqrt(np.mean([group.var(ddof=1) for group in groups]) * 2 / 10)
    assert _range_quantile(0.9, 4, 36) * error == pytest.approx(
        (honest.high[0, 1] - honest.low[0, 1]) / 2, rel=1e-3
    )


def test_a_failed_trial_costs_its_pair_only() -> None:
    configs, values = parts()
    sweep = sweep_of(configs, values)
    sweep.trials[3].status = "ERROR"  # its value does not count, though there is one
    sweep.trials[8].frame = pd.DataFrame([row(1, float("nan"))])
    frame = effects_frame(sweep)
    assert frame["paired"].all()
    assert of_settings(frame)["trials"].to_dict() == dict.fromkeys((*SWITCHES, "n_step"), 6)


def test_repeated_configurations_are_one_piece_of_evidence() -> None:
    configs, values = parts()
    once = effects_frame(sweep_of(configs, values))
    thrice = effects_frame(sweep_of(configs * 3, values * 3))
    pd.testing.assert_frame_equal(once, thrice)


def test_seeds_of_one_configuration_are_one_piece_of_evidence() -> None:
    """Random configurations differ, their seeds hardly: two levels of 6 are not groups of 30."""
    generator = np.random.default_rng(0)
    wrong = 0
    for _ in range(10):
        values, configs = [], []
        for number, own in enumerate(generator.normal(size=12)):
            config = {"lr": float(generator.uniform()), "act": ["relu", "tanh"][number % 2]}
            configs += [{**config, "seed": seed} for seed in range(5)]
            values += list(own + 0.2 * generator.normal(size=5))
        frame = effects_frame(sweep_of(configs, values))
        assert list(frame["setting"]) == ["act", "act"] and not frame["paired"].any()
        assert frame["trials"].tolist() == [6, 6]
        wrong += bool(frame["excludes_zero"].any())
    assert wrong <= 1  # 4, were each seed a trial of its own
    means = pd.Series(values).groupby([config["act"] for config in configs]).mean()
    assert dict(zip(frame["level"], frame["mean"], strict=True)) == pytest.approx(means.to_dict())


@pytest.mark.parametrize(("runs", "certain"), [(2, False), (3, False), (5, True)])
def test_values_without_a_spread_are_certain_only_if_many(runs: int, certain: bool) -> None:
    """2 and 2 equal values are so by chance in a third of all orders, 5 and 5 in 2 of 252."""
    configs = [{"act": act, "lr": n / 10 + (act == "a")} for act in "ab" for n in range(runs)]
    frame = effects_frame(sweep_of(configs, [500.0] * runs + [490.0] * runs))
    assert frame["excludes_zero"].tolist() == [certain, certain]


def test_which_settings_have_an_effect() -> None:
    configs = grid(seed=[0, 1, 2], net=[[32], [64, 64]], depth=[1, 2])
    for number, config in enumerate(configs):
        config["lr"] = number / 100  # continuous
        config["model"] = {"kind": "small" if config["net"] == [32] else "large"}
        config["rare"] = "once" if number == 0 else "often"
    sweep = sweep_of(configs, [float(number % 5) for number in range(len(configs))])
    for trial in sweep.trials:  # changed on the way, as under PBT
        trial.config["lambda_"] = trial.config["depth"]
        trial.row_configs = [{**trial.config, "lambda_": 0.5}, trial.config]
    frame = effects_frame(sweep)
    assert set(frame["setting"]) == {"depth", "net + model/kind"}
    joined = frame[frame["setting"] != "depth"]
    assert set(joined["level"]) == {"[32] + small", "[64, 64] + large"}


def test_a_trial_counts_with_the_mean_of_its_last_fifth(tmp_path: Path) -> None:
    trials: dict[str, dict[str, Any]] = {}
    for number in range(4):
        config = {"noisy": number % 2 == 0}
        # Twenty iterations of 100 steps; a peak before the last fifth does not count.
        values = [1000.0] * 16 + [10.0 + number, 20.0, float("nan"), 30.0]
        rows = [row(i, value) for i, value in enumerate(values, start=1)]
        trials[str(number)] = {"rows": rows, "config": config, "searched": config}
    trials["cut"] = {"rows": [row(1, 5e5)], "config": {"noisy": True}, "status": "RUNNING"}
    frame = effects_frame(make_sweep(tmp_path, trials))
    assert dict(zip(frame["level"], frame["mean"], strict=True)) == {
        True: pytest.approx(np.mean([(10 + n + 50) / 3 for n in (0, 2)])),
        False: pytest.approx(np.mean([(10 + n + 50) / 3 for n in (1, 3)])),
    }
    # The last fifth of the steps that the metric was reported for: an evaluation may be rare.
    for trial in trials.values():
        trial["rows"] = [{**row(1, 7.0), "evaluation/x": 3.0}, row(10, 8.0)]
    frame = effects_frame(make_sweep(tmp_path, trials, "second"), "evaluation/x")
    assert frame["mean"].tolist() == [3.0, 3.0]


def test_errors(tmp_path: Path) -> None:
    sweep = sweep_of(*parts())
    with pytest.raises(ResultsError, match="no trial reported the metric 'reward'"):
        effects_frame(sweep, "reward")
    with pytest.raises(ResultsError, match="mode must be"):
        effects_frame(sweep, mode="best")
    with pytest.raises(ResultsError, match="confidence must be between 0 and 1, not 95"):
        effects_frame(sweep, confidence=95)
    single = sweep_of([{"lr": 0.1}], [1.0])
    assert effects_frame(single).empty
    with pytest.raises(ResultsError, match="no setting has 2 to 8 levels"):
        plot_effects(single, out=tmp_path / "x.png")
    with pytest.raises(ResultsError, match="cannot write the plot"):
        plot_effects(sweep, out=tmp_path / "x.nonsense")


def test_a_picture_comes_out(tmp_path: Path) -> None:
    out = plot_effects(sweep_of(*parts()), out=tmp_path / "plots" / "effects.svg")
    content = out.read_text()
    assert out == tmp_path / "plots" / "effects.svg" and content.startswith("<?xml")


@pytest.mark.parametrize("search", ["grid", "optuna"])
def test_a_sweep_ends_with_its_effects(tmp_path: Path, search: str) -> None:
    configs, values = parts()
    trials = {
        str(number): {"rows": [row(1, value)], "config": config, "searched": config}
        for number, (config, value) in enumerate(zip(configs, values, strict=True))
    }
    folder = make_sweep(tmp_path, trials)
    space = {name: {"choice": [1, 2]} for name in ("num_epochs", "minibatch_size")}
    spec = make_spec(
        {
            "name": "sweep",
            "trainable": "sweep_dummy:Dummy",
            "search": search,
            "search_space": space,
            "storage": str(tmp_path),
        }
    )
    results: Any = folder
    outcome = Outcome(results, folder, False, num_trials=len(configs))
    _draw_effects(PlannedSweep.of(spec), outcome)
    text = io.StringIO()
    show_outcome(outcome, spec, Console(file=text, width=120))
    if search == "optuna":  # its trials are chosen by what came before: no fair comparison
        assert outcome.effects is None and "effect" not in text.getvalue()
        return
    assert outcome.effects == folder / "effects.png" and outcome.effects.is_file()
    lines = text.getvalue().splitlines()
    ranked = [line for line in lines if any(f" {n} " in line for n in (*SWITCHES, "n_step"))]
    assert [line.split()[1] for line in ranked[-4:]] == ["n_step", "dueling", "noisy", "double_q"]
    assert [line.split()[-1] for line in ranked[-4:]] == ["yes", "yes", "yes", "no"]
    assert "trials that differ only in it" in " ".join(text.getvalue().split())
