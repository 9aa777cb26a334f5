"""`--set` reaches into what a spec writes in short, and so do files that extend one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.sweep.load import SpecError, load_spec
from experiments.sweep.single import single_trial_spec

SPEC = """\
trainable: sweep_dummy:Dummy
search_space: {lr: {loguniform: [1e-4, 1e-1]}}
stop: {training_iteration: 4}
num_samples: 4
"""


@pytest.mark.parametrize(
    ("short", "assignment", "section", "expected"),
    [
        ("search: gp", "search.n_startup_trials=3", "search", ("gp", "n_startup_trials", 3)),
        ("search: optuna", "search.n_startup_trials=3", "search", ("tpe", "n_startup_trials", 3)),
        ("search: gp", "search.algorithm=tpe", "search", ("tpe", "n_ei_candidates", 24)),
        (
            "scheduler: asha",
            "scheduler.time_attr=training_iteration",
            "scheduler",
            ("asha", "max_t", 4),
        ),
        ("seeds: 3", "seeds.parallel=2", "seeds", (None, "values", [0, 1, 2])),
        ("seeds: [4, 7]", "seeds.parallel=2", "seeds", (None, "parallel", 2)),
    ],
)
def test_an_option_of_a_section_in_short(
    tmp_path: Path, short: str, assignment: str, section: str, expected: tuple[Any, ...]
) -> None:
    algorithm, key, value = expected
    (tmp_path / "base.yaml").write_text(f"{SPEC}{short}\n")
    outer, _, given = assignment.partition("=")
    inner = outer.partition(".")[2]
    (tmp_path / "over.yaml").write_text(f"extends: base.yaml\n{section}: {{{inner}: {given}}}\n")
    for spec in (
        load_spec(tmp_path / "base.yaml", [assignment]),
        load_spec(tmp_path / "over.yaml"),
    ):
        if inner == "algorithm" and "over" in spec.name:
            continue
        found = getattr(spec, section)
        assert getattr(found, "algorithm", None) == algorithm
        assert getattr(found, key) == value


def test_a_change_to_a_named_search_space(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "trainable: PPO\nconfig: {env: CartPole-v1}\nsearch_space: small\n"
        "stop: {training_iteration: 1}\n"
    )
    change = "search_space.lr={uniform: [0.1, 0.2]}"
    space = load_spec(tmp_path / "x.yaml", [change]).search_space
    assert space["lr"] == {"uniform": [0.1, 0.2]} and len(space) > 1


def test_assignments_hold_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(f"{SPEC}search: gp\n")
    both = ["search=tpe", "search.n_startup_trials=3"]
    assert load_spec(tmp_path / "x.yaml", both).search.model_dump()["n_startup_trials"] == 3
    assert load_spec(tmp_path / "x.yaml", both[::-1]).search.model_dump()["n_startup_trials"] == 10
    with pytest.raises(SpecError, match=r"^--set search=nosuch: search: unknown search algorithm"):
        load_spec(tmp_path / "x.yaml", ["search=nosuch", "search.n_startup_trials=3"])
    with pytest.raises(SpecError, match=r"^--set search.nosuch=3: search: unknown key 'nosuch'"):
        load_spec(tmp_path / "x.yaml", ["search.nosuch=3"])
    with pytest.raises(SpecError, match=r"x.yaml:5: search: unknown search algorithm 'nosuch'"):
        (tmp_path / "x.yaml").write_text(f"{SPEC}search: nosuch\n")
        load_spec(tmp_path / "x.yaml", ["search.n_startup_trials=3"])
    with pytest.raises(SpecError, match="num_samples is 4, not a mapping"):
        load_spec(tmp_path / "x.yaml", ["num_samples.x=1"])


def test_train_reads_them_alike() -> None:
    spec = single_trial_spec(
        "PPO",
        "CartPole-v1",
        stop="{training_iteration: 1}",
        config="{lr: {grid_search: [1e-3, 1e-2]}}",
        overrides=["search=random", "search.points_to_evaluate=[]", "seeds=2", "seeds.parallel=1"],
    )
    assert spec.seeds is not None and spec.seeds.parallel == 1


@pytest.mark.parametrize(
    ("written", "assignment", "expected"),
    [
        ("num_workers: 4", "config.num_env_runners=1", {"num_env_runners": 1}),
        ("num_env_runners: 4", "config.num_workers=1", {"num_env_runners": 1}),
        ("num_gpus: 1", "config.num_gpus_per_learner=0", {"num_gpus_per_learner": 0}),
        ("lr_schedule: [[0, 1e-3], [9, 1e-4]]", "config.lr=0.5", {"lr": 0.5}),
        ("lr: 0.5", "config.gamma=0.9", {"lr": 0.5, "gamma": 0.9}),
    ],
)
def test_a_setting_of_the_file_under_another_name_is_replaced(
    tmp_path: Path, written: str, assignment: str, expected: dict[str, Any]
) -> None:
    (tmp_path / "x.yaml").write_text(
        f"trainable: PPO\nconfig: {{env: CartPole-v1, {written}}}\n"
        "stop: {training_iteration: 1}\n"
    )
    assert load_spec(tmp_path / "x.yaml", [assignment]).config == {"env": "CartPole-v1", **expected}
