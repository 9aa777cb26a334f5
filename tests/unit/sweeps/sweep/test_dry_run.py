"""What `--dry-run` and `tunescape list` show: what matters, on one screen."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_runs import missing_extra

from experiments.commands.listing import show_list, spec_summary
from experiments.commands.show.plan import show_plan, show_plans
from experiments.commands.show.short_spec import short_spec
from experiments.errors import PreflightError
from experiments.running.final import held_out_seeds
from experiments.spec.files import find_spec, spec_names
from experiments.sweep.load import (
    dump_spec,
    load_spec,
    load_specs,
    make_spec,
)
from experiments.sweep.sweep import Sweep
from search_spaces.loader import space_names
from trainables.registry import algorithm_names

SCREEN = 40  # lines
SPEC: dict[str, Any] = {
    "name": "x",
    "trainable": "sweep_dummy:Dummy",
    "search_space": {"lr": {"loguniform": [1e-4, 0.1]}},
    "stop": {"training_iteration": 4},
}


def printed(show: Any, *arguments: Any, width: int = 160, **options: Any) -> str:
    text = io.StringIO()
    show(*arguments, Console(file=text, width=width), **options)
    return text.getvalue()


def test_a_plan_is_short_unless_asked(tmp_path: Path) -> None:
    spec = load_spec("quickstart", [f"storage={tmp_path}", "final={top: 2, seeds: 3}"])
    plan = printed(show_plan, Sweep.of(spec))
    assert f"# then the best 2 configurations on the held-out seeds {held_out_seeds(spec)}" in plan
    lines = plan.splitlines()
    assert len(lines) <= SCREEN and max(map(len, lines)) < 200
    assert "  lr: {loguniform: [0.0003, 0.005]}" in lines
    assert "objective: {metric: episode_return_mean, mode: max}" in lines
    assert "n_ei_candidates" not in plan and "max_pending_metrics" not in plan
    assert lines[-1] == "# settings at their defaults are not shown: -v shows them"
    whole = printed(show_plan, Sweep.of(spec), whole=True)
    assert "max_pending_metrics: 200000" in whole and len(whole.splitlines()) > 2 * SCREEN
    assert "-v shows it" not in whole


def test_a_plan_does_not_count_the_cpus_of_a_cluster(tmp_path: Path) -> None:
    keys = {**SPEC, "storage": str(tmp_path), "resources": {"address": "10.0.0.1:6379"}}
    plan = printed(show_plan, Sweep.of(make_spec(keys)))
    assert "# trials: 1, as many at a time as the cluster holds, each with 1 CPU" in plan
    bounded = Sweep.of(make_spec({**keys, "max_concurrent": 3}))
    plans = printed(show_plans, [bounded])
    assert "search, as many at a time as the cluster holds, at most 3, each with 1 CPU" in plans


@pytest.mark.full("test_other_keys_in_short")
def test_what_is_shown_in_short_is_the_same_spec(tmp_path: Path) -> None:
    short, differ = tmp_path / "short.yaml", []
    for name in spec_names():
        if missing_extra(find_spec(name).read_text()):
            continue
        for spec in load_specs(name, ["resources.address=auto"]):  # environments are not tried
            short.write_text(short_spec(spec))
            if dump_spec(load_spec(short)) != dump_spec(spec):
                differ.append((name, spec.name))
    assert differ == []


@pytest.mark.parametrize(
    "keys",
    [
        {
            "objective": [
                {"metric": "episode_return_mean"},
                {"metric": "time_total_s", "mode": "min"},
            ]
        },
        {"search": "tpe", "scheduler": {"algorithm": "asha", "time_attr": "training_iteration"}},
        {"seeds": {"values": [1, 2], "parallel": 2}, "final": {}},
        {"mlflow": {"enabled": False}, "config": {"num_epochs": 2}},
        {"stop": {}, "time_budget_s": 5},
    ],
)
def test_other_keys_in_short(tmp_path: Path, keys: dict[str, Any]) -> None:
    spec = make_spec({**SPEC, **keys})
    short = tmp_path / "short.yaml"
    short.write_text(short_spec(spec))
    assert dump_spec(load_spec(short)) == dump_spec(spec)


def test_trials_that_nothing_ends_are_told(tmp_path: Path) -> None:
    endless = "# stop is empty, and there is no time_budget_s: trials run until"
    for keys, is_told in (
        ({"stop": {}}, True),
        ({}, False),
        ({"stop": {}, "time_budget_s": 5}, False),
        ({"stop": {}, "scheduler": {"algorithm": "asha", "max_t": 1000}}, False),
        ({"stop": {}, "trainable": "own_trainables:plain"}, False),
    ):
        sweep = Sweep.of(make_spec({**SPEC, "storage": str(tmp_path), **keys}))
        assert (endless in printed(show_plan, sweep)) == is_told, keys


def test_a_folder_that_exists_is_told_after_the_plan(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "result.txt").touch()
    spec = make_spec({**SPEC, "storage": str(tmp_path)})
    one = make_spec({**SPEC, "storage": str(tmp_path), "name": "x/y"})
    for show, given in ((show_plan, Sweep.of(spec)), (show_plans, [Sweep.of(one)])):
        text = io.StringIO()
        with pytest.raises(PreflightError, match=r"exists already"):
            show(given, Console(file=text))  # type: ignore[operator]
        assert "folder: " in text.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_the_list_has_a_line_about_each(width: int) -> None:
    lines = printed(show_list, width=width).splitlines()
    about = dict(line.strip().split("  ", 1) for line in lines if line.startswith("  "))
    heads = [name.partition(" ")[0] for name in about]
    assert heads == [*algorithm_names(), *space_names(), *spec_names()]
    assert all(len(text.split()) > 2 for text in about.values())
    assert max(map(len, lines)) <= width
    assert "policy optimisation" in about["PPO"]


def test_what_a_spec_is(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "# What decides: A\n# on B, in\n# uncommonly long lines. And more.\n#     run it\na: 1\n"
    )
    assert spec_summary(file) == "What decides: A on B, in uncommonly long lines."
    file.write_text("a: 1\n")
    assert spec_summary(file) == ""
