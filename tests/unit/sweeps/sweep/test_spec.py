"""A spec is read whole, or refused with one message that says what, where and what instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from small_runs import missing_extra

from experiments.spec.files import find_spec, spec_names
from experiments.spec.scheduler_schema import AshaScheduler
from experiments.sweep.load import (
    SweepSpec,
    dump_spec,
    load_spec,
    load_specs,
    make_spec,
    spec_space,
)
from search_spaces.documents import SpecError, load_document, parse

GOOD = """\
name: sweep
trainable: sweep_dummy:Dummy
config:
  num_epochs: 2
search_space:
  lr: {loguniform: [1e-4, 1e-1]}
search: {algorithm: optuna, n_startup_trials: 3}
scheduler: {algorithm: asha, grace_period: 100}
stop: {num_env_steps_sampled_lifetime: 1_000}
num_samples: 4
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return path


def message(tmp_path: Path, text: str, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(SpecError) as error:
        load_spec(write(tmp_path, text), overrides)
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(tmp_path), "")


# -- YAML ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 3e-4),
        ("1E5", 1e5),
        ("-.5e+3", -500.0),
        ("1_000", 1000),
        ("1.5", 1.5),
        (".inf", float("inf")),
        ("1e", "1e"),
        ("e5", "e5"),
        ("0.1.2", "0.1.2"),
    ],
)
def test_numbers_in_scientific_notation(text: str, value: object) -> None:
    found, _ = parse(f"x: {text}", "here")
    assert found["x"] == value
    assert type(found["x"]) is type(value)


def test_lines_of_nested_keys(tmp_path: Path) -> None:
    document = load_document(write(tmp_path, GOOD))
    assert document.lines[("config", "num_epochs")].line == 4
    assert document.lines[("search_space", "lr")].line == 6
    assert document.lines[("search_space", "lr", "loguniform", 1)].line == 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", ":2: the key 'c' is given twice"),
        ("a: 1\na: 2\n", ":2: the key 'a' is given twice"),
        ("a: [1\n", "not valid YAML"),
        ("a: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
        ("a: &x [*x]\n", "an alias contains itself"),
        ("1: 2\n", "is not text"),
        ("- 1\n", "expected a mapping"),
        ("", "holds nothing"),
    ],
)
def test_bad_yaml(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in message(tmp_path, text)


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    with pytest.raises(SpecError, match=r"no such file; did you mean 'sweep.yaml'"):
        load_spec(tmp_path / "swep.yaml")
    with pytest.raises(SpecError, match="did you mean 'quickstart'"):
        load_spec("quikstart")


def test_merge_keys_and_anchors(tmp_path: Path) -> None:
    text = GOOD.replace("config:\n", "config: &c\n") + "mlflow: {tags: &t {a: b}}\n"
    assert load_spec(write(tmp_path, text)).mlflow.tags == {"a": "b"}
    found, _ = parse("base: &b {x: 1, y: 2}\nother: {<<: *b, y: 3}", "here")
    assert found["other"] == {"x": 1, "y": 3}


# -- a good spec ---------------------------------------------------------------------------------


def test_reads_everything(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, GOOD))
    assert spec.name == "sweep"
    assert spec.config == {"num_epochs": 2}
    assert spec_space(spec).keys == ["lr"]
    assert isinstance(spec.scheduler, AshaScheduler)
    assert spec.scheduler.max_t == 1000  # from stop
    assert spec.scheduler.time_attr == "num_env_steps_sampled_lifetime"
    assert spec.stop == {"num_env_steps_sampled_lifetime": 1000}
    assert spec.objective.metric == "episode_return_mean"


def test_round_trip(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, GOOD))
    assert load_spec(write(tmp_path, dump_spec(spec))) == spec


def test_name_defaults_to_the_file(tmp_path: Path) -> None:
    assert load_spec(write(tmp_path, GOOD.replace("name: sweep\n", ""))).name == "sweep"


def test_legacy_metric_names(tmp_path: Path) -> None:
    text = GOOD.replace("num_env_steps_sampled_lifetime", "timesteps_total")
    spec = load_spec(write(tmp_path, text + "objective: {metric: episode_reward_mean}\n"))
    assert spec.stop == {"num_env_steps_sampled_lifetime": 1000}
    assert spec.objective.metric == "episode_return_mean"


def test_asha_adds_its_budget_to_the_stop_criteria(tmp_path: Path) -> None:
    text = GOOD.replace("stop: {num_env_steps_sampled_lifetime: 1_000}\n", "").replace(
        "grace_period: 100", "max_t: 500"
    )
    assert load_spec(write(tmp_path, text)).stop == {"num_env_steps_sampled_lifetime": 500}


def test_one_seed_may_be_written_as_a_list(tmp_path: Path) -> None:
    assert load_spec(write(tmp_path, GOOD + "seeds: [7]\n")).seed == 7


def test_shipped_specs_load() -> None:
    assert "quickstart" in spec_names()
    for name in spec_names():
        if not missing_extra(find_spec(name).read_text()):
            assert all(isinstance(spec, SweepSpec) for spec in load_specs(name))


# -- overrides -----------------------------------------------------------------------------------


def test_overrides(tmp_path: Path) -> None:
    overrides = (
        "config.lr=3e-4",
        "search_space={}",
        "search=random",
        "config.model={fcnet_hiddens: [32]}",
        "config.model.fcnet_activation=relu",
        "mlflow.enabled=false",
    )
    spec = load_spec(write(tmp_path, GOOD), overrides)
    assert spec.config["lr"] == 3e-4
    assert spec.config["model"] == {"fcnet_hiddens": [32], "fcnet_activation": "relu"}
    assert spec.search.algorithm == "random"
    assert spec.mlflow.enabled is False


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("confg.lr=1", "--set confg.lr=1: unknown key 'confg'"),
        ("confg.lr=1", "did you mean 'config'?"),
        ("config.num_epoch=1", "did you mean 'num_epochs"),
        ("lr=1", "write it under config"),
        ("config.num_epochs=many", "--set config.num_epochs=many: config: num_epochs = 'many'"),
        ("search.n_startup_trial=1", "did you mean 'n_startup_trials'?"),
        ("config.num_epochs.x=1", "config.num_epochs is 2, not a mapping"),
        ("num_samples", "write KEY=VALUE"),
        ("num_samples=[1", "not valid YAML"),
        ("name=a/b/c/d", "it names a folder"),
    ],
)
def test_bad_overrides(tmp_path: Path, override: str, expected: str) -> None:
    assert expected in message(tmp_path, GOOD, (override,))


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("num_samples: 4", "num_sample: 4", 10, "unknown key 'num_sample'; allowed: name, "),
        ("num_samples: 4", "num_sample: 4", 10, "did you mean 'num_samples'?"),
        ("num_samples: 4", "num_samples: four", 10, "num_samples = 'four' is not allowed"),
        ("num_samples: 4", "num_samples: 0", 10, "greater than 0"),
        ("num_epochs: 2", "num_epoch: 2", 4, "did you mean 'num_epochs"),
        ("num_epochs: 2", "lr: -1", 4, "lr = -1 is not allowed; allowed: float, > 0"),
        ("num_epochs: 2", "lr: fast", 4, "lr = 'fast' is not allowed"),
        ("num_epochs: 2", "lr: {uniform: [0.1, 1]}", 4, "a domain belongs under search_space"),
        ("num_epochs: 2", "lr: 0.1", 6, "lr is searched, and fixed under config"),
        ("num_epochs: 2", "num_epochs: 3", 4, "num_epochs = 3 must be even"),
        ("num_epochs: 2", "stop: {}", 4, "it is a key of the spec itself"),
        ("sweep_dummy:Dummy", "PPPO", 2, "PPO"),
        ("sweep_dummy:Dummy", "sweep_dummy:Dumy", 2, "cannot be imported"),
        ("sweep_dummy:Dummy", "json:decoder", 2, "neither a class that extends"),
        ("[1e-4, 1e-1]", "[1e-1, 1e-4]", 6, "the lower bound must be below"),
        ("[1e-4, 1e-1]", "[-1, 1]", 6, "a logarithmic range starts above 0"),
        ("loguniform: [1e-4", "loguniforn: [1e-4", 6, "did you mean 'loguniform'?"),
        ("lr: {log", "rl: {log", 6, "unknown setting 'rl'"),
        ("lr: {loguniform: [1e-4, 1e-1]}", "gamma: {uniform: [0, 2]}", 6, "gamma = 2"),
        ("lr: {loguniform: [1e-4, 1e-1]}", "lr: 0.1", 6, "a fixed value belongs under config"),
        ("lr: {loguniform", "lr: {transfrm: x, loguniform", 6, "did you mean 'transform'?"),
        ("lr: {loguniform: [1e-4, 1e-1]}", "lr: {grid: [0.1]}", 6, "tpe cannot search a grid"),
        ("algorithm: optuna", "algorithm: optina", 7, "allowed: grid, random, tpe"),
        ("algorithm: optuna, n_startup", "algorithm: random, n_startup", 7, "unknown key"),
        ("algorithm: optuna", "algorithm: grid", 7, "unknown key 'n_startup_trials'"),
        ("algorithm: asha", "algorithm: ahsa", 8, "did you mean 'asha'?"),
        ("grace_period: 100", "grace_period: 2000", 8, "above max_t = 1000"),
        ("grace_period: 100", "grace: 100", 8, "unknown key 'grace'"),
        ("grace_period: 100", "time_attr: steps", 8, "unknown metric 'steps'"),
        ("num_env_steps_sampled_lifetime: 1_000", "training_iteraton: 1", 9, "training_iteration"),
        ("lifetime: 1_000", "lifetime: soon", 9, "is not a number"),
        ("lifetime: 1_000", "lifetime: true", 9, "is not a number"),
        ("lifetime: 1_000", "lifetime: .nan", 9, "allowed: a finite number"),
        ("num_samples: 4", "objective: {mode: maximum}", 10, "max, min; did you mean 'max'?"),
        ("num_samples: 4", "objective: {metric: episode_return}", 10, "episode_return_mean"),
        ("num_samples: 4", "objective: {metric: evaluation/x}", 10, "evaluation_interval"),
        ("num_samples: 4", "seeds: 0", 10, "a number of seeds above 0"),
        ("num_samples: 4", "seeds: [1, 1]", 10, "two or more different seeds"),
        ("num_samples: 4", "seeds: {values: 2, parallel: 3}", 10, "above the number of seeds, 2"),
        ("num_epochs: 2", "num_epochs: 2\n  seed: 3\nseeds: 2", 5, "write only one of the two"),
        ("num_samples: 4", "seeds: [4]\nseed: 5", 10, "seeds = [4] and seed = 5 differ"),
        ("num_epochs: 2", "num_env_runners: 1\nseeds: 2", 5, "set config.num_env_runners to 0"),
        ("num_samples: 4", "seed: -1", 10, "greater than or equal to 0"),
        ("num_samples: 4", "checkpoint: {num_to_keep: 0}", 10, "checkpoint.num_to_keep = 0"),
        ("num_samples: 4", "checkpoint: {keep: 1}", 10, "unknown key 'keep'; allowed: num_to_keep"),
        ("num_samples: 4", "mlflow: {tags: {a: 1}}", 10, "mlflow.tags.a = 1"),
        ("num_samples: 4", "resources: 3", 10, "resources = 3"),
        ("num_samples: 4", "config2: {}", 10, "did you mean 'config'?"),
        ("name: sweep", "name: ../x", 1, "it names a folder"),
    ],
)
def test_errors_name_the_place(
    tmp_path: Path, old: str, new: str, line: int, expected: str
) -> None:
    assert old in GOOD
    text = message(tmp_path, GOOD.replace(old, new))
    assert text.startswith(f"/sweep.yaml:{line}: "), text
    assert expected in text, text


def test_optuna_needs_a_space(tmp_path: Path) -> None:
    text = GOOD.replace("search_space:\n  lr: {loguniform: [1e-4, 1e-1]}\n", "")
    assert "tpe needs a search_space" in message(tmp_path, text)


def test_asha_needs_a_budget(tmp_path: Path) -> None:
    text = GOOD.replace("stop: {num_env_steps_sampled_lifetime: 1_000}\n", "stop: {}\n")
    assert "asha needs max_t" in message(tmp_path, text)


def test_a_space_without_any_valid_configuration(tmp_path: Path) -> None:
    text = GOOD.replace("lr: {loguniform: [1e-4, 1e-1]}", "num_epochs: {choice: [3, 5]}").replace(
        "num_epochs: 2", "lr: 0.1"
    )
    assert "must be even (so is each of 20" in message(tmp_path, text)
    mixed = text.replace("[3, 5]", "[3, 4]")
    assert load_spec(write(tmp_path, mixed)).search_space == {"num_epochs": {"choice": [3, 4]}}


def test_environments_are_made_once() -> None:
    with pytest.raises(SpecError, match=r"config.env: .*CartPole-v7.*CartPole-v1"):
        make_spec({"name": "x", "config": {"env": "CartPole-v7"}})
    with pytest.raises(SpecError, match=r"config.env is missing"):
        make_spec({"name": "x"})
    searched = {"name": "x", "config": {"env": {"grid_search": ["CartPole-v1", "Acrobot-v9"]}}}
    with pytest.raises(SpecError, match=r"Acrobot-v9"):
        make_spec(searched)


# -- the older form ------------------------------------------------------------------------------

LEGACY = """\
my experiment:
    run: sweep_dummy:Dummy
    stop:
        episode_reward_mean: 5
        timesteps_total: 1000
    checkpoint_freq: 2
    config:
        num_epochs: {grid_search: [2, 4]}
        model:
            fcnet_hiddens: {grid_search: [[64, 64], [32]]}
"""


def test_legacy_form(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, LEGACY))
    assert spec.name == "my-experiment"
    assert spec.trainable == "sweep_dummy:Dummy"
    assert spec.stop == {"episode_return_mean": 5, "num_env_steps_sampled_lifetime": 1000}
    assert spec.checkpoint.frequency == 2
    assert spec.config == {"model": {}}
    assert spec.search_space == {
        "num_epochs": {"grid": [2, 4]},
        "model.fcnet_hiddens": {"grid": [[64, 64], [32]]},
    }
    assert load_spec(write(tmp_path, dump_spec(spec))) == spec


def test_legacy_overrides_use_the_specs_keys(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, LEGACY), ["config.lr=0.5", "num_samples=3"])
    assert spec.config["lr"] == 0.5
    assert spec.num_samples == 3


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("checkpoint_freq: 2", "checkpoint_fraq: 2", ":6: unknown key 'checkpoint_fraq'"),
        ("num_epochs: {", "num_epoch: {", ":8: search_space: num_epoch: unknown setting"),
        ("episode_reward_mean", "episode_reward_men", ":4: stop: unknown metric"),
        ("grid_search: [2, 4]", "grid_search: 2", ":8: num_epochs: grid_search = 2 is not a list"),
    ],
)
def test_legacy_errors(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = message(tmp_path, LEGACY.replace(old, new))
    assert expected in text


def test_several_legacy_experiments(tmp_path: Path) -> None:
    both = yaml.safe_load(LEGACY)
    both["second"] = both["my experiment"]
    path = write(tmp_path, yaml.safe_dump(both))
    with pytest.raises(SpecError, match=r"holds 2 experiments .* choose with --experiment"):
        load_spec(path)
    assert load_spec(path, experiment="second").name == "second"
    with pytest.raises(SpecError, match="did you mean 'second'"):
        load_spec(path, experiment="secnd")
