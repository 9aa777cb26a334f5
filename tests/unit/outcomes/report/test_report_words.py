"""What a report says of a sweep: by numbers that are easy to check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from analysis_sweeps import make_sweep, row
from report_pages import parse_page
from settings_sweeps import trial

from analysis import write_report
from analysis.figures import theme
from analysis.numbers import count, duration, listed, number, share, steps
from analysis.overview.groups import groups
from analysis.overview.overview import ReportData
from analysis.report.blocks import comparison_block
from analysis.report.sections import SECTIONS, draw
from analysis.report.tables import final_table, groups_table, leaderboard_table
from analysis.report.words import summary, tied
from analysis.results.records import Sweep

STEPS = "num_env_steps_sampled_lifetime"


def of_seeds(value: float, low: float, high: float, iterations: int = 3) -> dict[str, Any]:
    """A trial of three seeds that ends at `value` with an interval."""
    ends = {"seeds/episode_return_mean/low": low, "seeds/episode_return_mean/high": high}
    seeds = {f"seed_{n}/episode_return_mean": v for n, v in enumerate((low, value, high))}
    more = {**ends, **seeds, "num_seeds": 3, "timestamp": 1000}
    rows = [row(i, value, done=i == iterations, **more) for i in range(1, iterations + 1)]
    return {"rows": rows, "config": {"lr": value}, "searched": {"lr": value}}


def data_of(root: Path, trials: dict[str, Any], **spec: Any) -> ReportData:
    root.mkdir(exist_ok=True)
    sweep = make_sweep(root, trials)
    (sweep / "spec.yaml").write_text(yaml.safe_dump({"name": "sweep", **spec}))
    return ReportData(sweep)


def text_of(data: ReportData) -> str:
    return " ".join(summary(data).sentences)


def test_overlapping_intervals_are_called_a_tie(tmp_path: Path) -> None:
    trials = {"a": of_seeds(10, 8, 12), "b": of_seeds(9, 7, 8.5), "c": of_seeds(5, 4, 7.9)}
    data = data_of(tmp_path, trials)
    assert tied(data) == ["b"]
    assert "a won with 10 (95 % interval of its 3 seeds: 8 to 12), 1 better than" in text_of(data)
    assert "1 other trial has an interval that overlaps the winner's" in text_of(data)
    assert "it may be a tie" in text_of(data)
    assert any("Intervals of 3 seeds are too narrow" in c for c in summary(data).cautions)
    assert any("best of 3 and so optimistic" in c for c in summary(data).cautions)


def test_separate_intervals_are_not(tmp_path: Path) -> None:
    data = data_of(tmp_path, {"a": of_seeds(10, 9, 12), "b": of_seeds(7, 6, 8.9)})
    assert tied(data) == []
    assert "No other trial's interval overlaps the winner's" in text_of(data)
    assert "tie" not in text_of(data).replace("time", "")


def test_the_least_value_wins_where_less_is_better(tmp_path: Path) -> None:
    trials = {"a": of_seeds(10, 9, 12), "b": of_seeds(7, 6, 8.9)}
    objective = {"metric": "episode_return_mean", "mode": "min"}
    data = data_of(tmp_path, trials, objective=objective)
    assert "Trial b won with 7" in text_of(data) and "3 better than the second, a" in text_of(data)
    assert "lower is better" in text_of(data)


def test_equal_values_are_said_to_be_equal(tmp_path: Path) -> None:
    same = [row(1, 5.0, done=True)]
    data = data_of(tmp_path, {name: {"rows": same} for name in "abc"})
    assert "the same as 2 others. It is first because" in text_of(data)


def test_cost_counts_every_seed_and_what_a_scheduler_spared(tmp_path: Path) -> None:
    # 3 seeds each: 1000 and 200 steps of a limit of 1000.
    trials = {"a": of_seeds(10, 9, 12, iterations=10), "b": of_seeds(7, 6, 8, iterations=2)}
    data = data_of(tmp_path, trials, scheduler={"algorithm": "asha"}, stop={STEPS: 1000})
    assert "3,600 environment steps" in text_of(data)
    assert "1 of 2 trials stopped early, which saved 40 %" in text_of(data)
    assert any("at a smaller budget" in caution for caution in summary(data).cautions)
    table = leaderboard_table(data, 10, {})
    status = table.columns.index("Status")
    assert [r[status].text for r in table.rows] == ["finished", "stopped early"]


def test_trials_that_shared_processes_are_said_to(tmp_path: Path) -> None:
    trials = {n: {"rows": [row(1, 1.0, host=h)]} for n, h in (("a", 0), ("b", 1), ("c", 0))}
    data = data_of(tmp_path, {**trials, "none": {"rows": []}})
    said = "3 trials in 2 processes: the time of each includes waiting for the others."
    assert text_of(data).count(said) == 1
    table = leaderboard_table(data, 10, {})
    column = table.columns.index("Host")
    found = {r[1].text: r[column] for r in table.rows}
    assert {name: cell.text for name, cell in found.items()} == {
        **{"a": "0", "b": "1", "c": "0"},
        "none": "–",
    }
    assert table.numeric[column] and len(table.numeric) == len(table.columns)
    assert {len(r) for r in table.rows} == {len(table.columns)}
    assert "Host: the process that trained the trial last" in table.note
    alone = data_of(tmp_path / "alone", {"a": {"rows": [row(1, 1.0)]}})
    assert "process" not in text_of(alone)
    assert "Host" not in leaderboard_table(alone, 10, {}).columns


def test_only_what_the_scheduler_stopped_was_spared(tmp_path: Path) -> None:
    trials = {f"e{n}": {"rows": [row(1, 1.0)], "status": "ERROR"} for n in range(6)}
    trials["whole"] = {"rows": [row(i, 10.0) for i in range(1, 11)]}
    trials["half"] = {"rows": [row(i, 10.0) for i in range(1, 6)]}
    trials["solved"] = {"rows": [row(i, 480.0) for i in range(1, 3)]}
    stop = {STEPS: 1000, "episode_return_mean": 475}
    data = data_of(tmp_path, trials, scheduler={"algorithm": "asha"}, stop=stop)
    assert data.stopped_early == {"half": 500}
    assert "1 of 9 trials stopped early, which saved 6 %" in text_of(data)
    solved = data_of(tmp_path / "solved", {"solved": trials["solved"]}, stop=stop)
    assert "stopped" not in text_of(solved)


@pytest.mark.parametrize("status", ["ERROR", "TERMINATED"])
def test_a_winner_that_failed_or_diverged_is_called_so(tmp_path: Path, status: str) -> None:
    end = [] if status == "ERROR" else [row(2, float("nan"))]
    trials = {"a": {"rows": [row(1, 500.0), *end], "status": status}, "b": {"rows": [row(1, 4.0)]}}
    cautions = summary(data_of(tmp_path, trials)).cautions
    assert any("winner, a, failed or diverged" in caution for caution in cautions)
    trials["b"] = {"rows": [row(1, 600.0)]}
    cautions = summary(data_of(tmp_path / "b", trials)).cautions
    assert not any("diverged" in caution for caution in cautions)


def test_seeds_in_a_grid_are_put_together(tmp_path: Path) -> None:
    trials = {
        f"{epochs}-{seed}": {
            "rows": [row(1, 10.0 * epochs + seed, done=True)],
            "config": {"seed": seed, "num_epochs": epochs},
            "searched": {"seed": seed, "num_epochs": epochs},
        }
        for epochs in (1, 3)
        for seed in range(5)
    }
    data = data_of(tmp_path, trials)
    best, other = groups(data)
    assert best.settings == {"num_epochs": 3} and best.iqm == 32.0
    assert other.values == {n: 10.0 + n for n in range(5)}
    assert "2 configurations, each trained with 5 seeds: num_epochs = 3 is best" in text_of(data)
    assert "No other configuration's interval overlaps it" in text_of(data)


def seeds_of(epochs: int, ends: list[float], lost: int, how: str) -> dict[str, Any]:
    """Trials of a seed each; of the last ones the run failed or diverged after a good value."""
    trials = {}
    for seed, end in enumerate(ends):
        gone = seed >= len(ends) - lost
        rows = [row(1, end), row(2, float("nan") if gone and how == "diverged" else end, done=True)]
        config = {"seed": seed, "num_epochs": epochs}
        status = "ERROR" if gone and how == "failed" else "TERMINATED"
        trial = {"rows": rows, "config": config, "searched": config, "status": status}
        trials[f"{epochs}-{seed}"] = trial
    return trials


@pytest.mark.parametrize("how", ["failed", "diverged"])
@pytest.mark.parametrize("lost", [3, 4])
def test_lost_seeds_are_said_and_win_nothing(tmp_path: Path, how: str, lost: int) -> None:
    trials = seeds_of(1, [400.0 + n for n in range(5)], 0, how)
    trials |= seeds_of(2, [480.0 + n for n in range(5)], lost, how)
    data = data_of(tmp_path, trials)
    best, other = groups(data)
    assert best.settings == {"num_epochs": 1} and (best.lost, other.lost) == (0, lost)
    assert len(other.values) == 5 - lost
    assert "each trained with 5 seeds: num_epochs = 1 is best" in text_of(data)
    assert "–" not in text_of(data) and "overlaps it" not in text_of(data)
    said = f"do not count: num_epochs = 2 ({lost} of 5; {number(other.iqm)} on the rest)"
    assert any(said in caution for caution in summary(data).cautions)
    seeds = groups_table(data, [best, other]).columns.index("Seeds")
    cells = [line[seeds].text for line in groups_table(data, [best, other]).rows]
    assert cells == ["5", f"{5 - lost} of 5"]


def test_a_single_seed_has_no_interval_to_be_ahead_of(tmp_path: Path) -> None:
    trials = seeds_of(1, [400.0, 401, 402], 0, "") | seeds_of(3, [450.0, 451, 452], 0, "")
    data = data_of(tmp_path, trials | seeds_of(2, [480.0], 0, ""))
    assert "num_epochs = 2 is best with an interquartile mean of 480." in text_of(data)
    assert "overlaps it" not in text_of(data)


def test_one_seed_each_is_no_group(tmp_path: Path) -> None:
    trials = {
        f"t{n}": {"rows": [row(1, float(n), done=True)], "config": {"seed": n, "lr": n}}
        for n in range(4)
    }
    assert groups(data_of(tmp_path, trials)) == []


def test_held_out_seeds_have_the_last_word(tmp_path: Path) -> None:
    data = data_of(tmp_path, {"a": of_seeds(10, 9, 12), "b": of_seeds(7, 6, 8.9)})
    shared = {"values": {"7": 1.0, "8": 2.0}, "settings": {"lr": 1}, "search_best": 12}
    final = {
        "winner": "b",
        "caution": "",
        "winner_caution": "The best of 2.",
        "configurations": [
            {"trial_id": "a", "search_last": 10, "held_out_iqm": 5, "held_out_low": 3}
            | {"held_out_high": 6.5, "optimism": 5, **shared},
            {"trial_id": "b", "search_last": 7, "held_out_iqm": 6, "held_out_low": 5.5}
            | {"held_out_high": 6.6, "optimism": 1, **shared},
        ],
    }
    (data.folder / "final.json").write_text(json.dumps(final))
    data = ReportData(data.folder)
    assert "On 2 held-out seeds trial b is best: interquartile mean 6" in text_of(data)
    assert "1 worse than its value in the search" in text_of(data)
    assert "overlaps that of a, so the data do not show a difference" in text_of(data)
    assert "The best of 2." in summary(data).cautions
    table = final_table(data)
    assert table is not None and table.marked == {1}
    assert "more finished runs" not in text_of(data)
    final["winner"] = "a"  # the worse one, which lost fewer
    final["configurations"][0]["values"] = {"7": 5.0, "8": 5.0, "9": 5.0}  # type: ignore[index]
    (data.folder / "final.json").write_text(json.dumps(final))
    assert "It has more finished runs than b (6 on 2)" in text_of(ReportData(data.folder))


WORDS = [
    (number(371.62), "371.6"),
    (number(49152), "49,152"),
    (number(0.0014050389), "0.001405"),
    (number(1.5e-5), "1.5e-05"),
    (number(-3.25), "−3.25"),
    (number(float("nan")), "–"),
    (number(None), "–"),
    (number(float("inf")), "–"),
    (number("relu"), "relu"),
    (number(True), "True"),
    (steps(2_372_000), "2.37 million"),
    (duration(8.6), "8.6 s"),
    (duration(59.99), "60 s"),
    (duration(250), "4 min 10 s"),
    (duration(3 * 3600 + 1200), "3 h 20 min"),
    (duration(90_000), "1 d 1 h"),
    (share(0.331), "33 %"),
    (count(1, "process"), "1 process"),
    (count(2, "process"), "2 processes"),
    (share(0.004), "0.4 %"),
    (count(1, "trial"), "1 trial"),
    (count(2, "category"), "2 categories"),
    (listed(["a"]), "a"),
    (listed(["a", "b", "c"]), "a, b and c"),
]


def test_numbers_in_words() -> None:
    assert [shown for shown, _ in WORDS] == [text for _, text in WORDS]


def luminance(color: str) -> float:
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_contrast_is_enough_on_both_backgrounds(name: str) -> None:
    colors = theme.VARIABLES[name]
    for background in (colors["background"], colors["soft"]):
        for text in ("text", "muted", "link"):
            assert contrast(colors[text], background) >= 4.5, (text, background)
    for color in theme.PALETTE:
        assert contrast(color, colors["background"]) >= 3, color


def test_plotly_takes_no_markup_from_users() -> None:
    assert theme.plain("<b>&") == "&lt;b&gt;&amp;"
    assert theme.short("model/encoder/a_very_long_name_of_a_setting", 20) == "model/…_of_a_setting"


def test_normalised_scores_of_several_tasks_are_in_order(tmp_path: Path) -> None:
    """They are better the higher, whatever the metric is."""
    sweeps = []
    for name, worse in (("good", 0.0), ("bad", 5.0)):
        configs = [{"env": env, "seed": seed} for env in ("E1", "E2") for seed in range(5)]
        runs = [trial(n, config, [worse + n % 5]) for n, config in enumerate(configs)]
        sweeps.append(ReportData(Sweep(name, tmp_path / name, runs), mode="min"))
    block = comparison_block(sweeps)
    assert block is not None
    table = block.tables[0]
    assert [line[0].text for line in table.rows] == ["good", "bad"]
    assert table.columns[1] == "IQM of the normalised mean episode return"


def sweep_of_values(root: Path, values: list[float]) -> ReportData:
    """A trial per value; its `lr` grows with its place in the list."""
    draws = np.random.default_rng(0).uniform(0.9, 1, len(values))
    trials = {
        f"t{n}": {
            "rows": [row(1, value, done=True)],
            "config": {"lr": 1e-3 * (n + 1), "gamma": float(draws[n])},
            "searched": {"lr": 0, "gamma": 0},
        }
        for n, value in enumerate(values)
    }
    return data_of(root, trials)


def test_noise_is_not_said_to_matter(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(size=16).tolist()
    data = sweep_of_values(tmp_path / "noise", noise)
    assert data.explains_nothing
    text = text_of(data)
    assert "The data do not show that a setting matters" in text and "(R² -" in text
    assert "mattered most" not in text and "%" not in text.partition("No setting")[2]
    assert not any("explain nothing" in caution for caution in summary(data).cautions)
    assert data.top_settings == data.settings  # in no order of importance

    data = sweep_of_values(tmp_path / "signal", [float(n) for n in range(16)])
    assert not data.explains_nothing
    assert "The most important settings" in text_of(data) and "lr (" in text_of(data)


def test_figures_of_noise_are_folded_away(tmp_path: Path) -> None:
    def folded(values: list[float], name: str) -> tuple[list[str], list[str]]:
        data = sweep_of_values(tmp_path / name, values)
        sections = [s for s in SECTIONS if s.key in ("importance", "slices")]
        panels = [draw(section, data, "s-") for section in sections]
        shown = [panel.key for part in panels for row in part.rows for panel in row]
        noise = [panel.key for part in panels for row in part.noise for panel in row]
        page = parse_page(write_report(data.folder))
        assert {*shown, *noise} <= page.figures.keys()
        assert (("details", "class", "noise") in page.attributes) is bool(noise)
        return shown, noise

    shown, noise = folded(np.random.default_rng(1).normal(size=16).tolist(), "noise")
    assert {key.rpartition("-")[0] for key in shown} == {"s-slices-0"}
    assert {key.rpartition("-")[0] for key in noise} >= {"s-importance-0", "s-slices-1"}
    shown, noise = folded([float(n) for n in range(16)], "signal")
    assert "s-importance-0-0" in shown and not noise


def test_a_winner_by_estimates_was_not_seen_to_play(tmp_path: Path) -> None:
    def estimated(value: float, size: float) -> dict[str, Any]:
        of = {"v_target": value, "effective_sample_size": size, "num_episodes": 400}
        return {"rows": [row(1, 1.0, done=True, evaluation={"ope": {"dr": of}})]}

    for run, (size, warns) in enumerate(((19.0, True), (21.0, False))):
        root = tmp_path / str(run)
        root.mkdir()
        sweep = make_sweep(root, {"a": estimated(5, size), "b": estimated(3, 300)})
        data = ReportData(sweep, "evaluation/ope/dr/v_target", "max")
        assert "judged by the estimated discounted return (dr) at the end" in text_of(data)
        said = " ".join(summary(data).cautions)
        assert "which does not show that it plays best" in said
        assert ("rests on 19 of 400 episodes" in said) == warns


def test_an_estimate_is_told_with_its_interval_and_what_it_rests_on(tmp_path: Path) -> None:
    def estimated(value: float, low: float) -> dict[str, Any]:
        of: dict[str, float] = {"v_target": value, "v_behavior": 2.5, "num_episodes": 400}
        of |= {"low": low, "high": value + 1, "effective_sample_size": 60.5}
        return {"rows": [row(1, 1.0, done=True, evaluation={"ope": {"dr": of}})]}

    sweep = make_sweep(tmp_path, {"a": estimated(5, 4), "b": estimated(3, float("nan"))})
    data = ReportData(sweep, "evaluation/ope/dr/v_target", "max")
    assert "a won with 5 (95 % interval of the estimate: 4 to 6)" in text_of(data)
    assert "The recorded episodes earned 2.5 on average." in text_of(data)
    table = leaderboard_table(data, 10, {})
    assert table.columns[2:7] == [
        "Value", "95 % interval", "Recorded", "Effective episodes", "Best"
    ]  # fmt: skip
    assert len(table.columns) == len(table.numeric) == len(table.rows[0])
    cells = [[cell.text for cell in cells[2:6]] for cells in table.rows]
    assert cells == [["5", "4 to 6", "2.5", "60.5"], ["3", "–", "2.5", "60.5"]]
    assert "effective sample size" in table.note
    other = leaderboard_table(ReportData(sweep, "episode_return_mean", "max"), 10, {})
    assert "Recorded" not in other.columns and "95 % interval" not in other.columns
