"""A spec is read whole, or refused with one message that says what, where and what instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from refusals import Golden, refusals

from experiments.spec.scheduler_schema import AshaScheduler
from experiments.sweep.load import (
    dump_spec,
    load_spec,
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


def test_lines_of_nested_keys(tmp_path: Path) -> None:
    document = load_document(write(tmp_path, GOOD))
    assert document.lines[("config", "num_epochs")].line == 4
    assert document.lines[("search_space", "lr")].line == 6
    assert document.lines[("search_space", "lr", "loguniform", 1)].line == 6


BAD_YAML = [
    "a: 1\nb: {c: 1, c: 2}\n",
    "a: 1\na: 2\n",
    "a: [1\n",
    "a: !!python/object/apply:os.getcwd []\n",
    "a: &x [*x]\n",
    "1: 2\n",
    "- 1\n",
    "",
]


def test_bad_yaml(tmp_path: Path, golden: Golden) -> None:
    texts = refusals(
        lambda text: load_spec(write(tmp_path, text)),
        BAD_YAML,
        SpecError,
        replace={str(tmp_path): "<folder>"},
    )
    golden("sweeps/spec_yaml", texts)


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


BAD_OVERRIDES = [
    "confg.lr=1",
    "config.num_epoch=1",
    "lr=1",
    "config.num_epochs=many",
    "search.n_startup_trial=1",
    "config.num_epochs.x=1",
    "num_samples",
    "num_samples=[1",
    "name=a/b/c/d",
]


def test_bad_overrides(tmp_path: Path, golden: Golden) -> None:
    path = write(tmp_path, GOOD)
    texts = refusals(
        lambda given: load_spec(path, [given]),
        BAD_OVERRIDES,
        SpecError,
        replace={str(tmp_path): "<folder>"},
    )
    golden("sweeps/spec_overrides", texts)


# -- errors --------------------------------------------------------------------------------------


MISTAKES = [
    ("num_samples: 4", "num_samples: four"),
    ("num_samples: 4", "num_samples: true"),
    ("num_epochs: 2", "lr: -1"),
    ("num_epochs: 2", "lr: fast"),
    ("num_epochs: 2", "lr: {uniform: [0.1, 1]}"),
    ("num_epochs: 2", "num_epochs: 3"),
    ("num_epochs: 2", "stop: {}"),
    ("sweep_dummy:Dummy", "sweep_dummy:Dumy"),
    ("sweep_dummy:Dummy", "json:decoder"),
    ("[1e-4, 1e-1]", "[1e-1, 1e-4]"),
    ("[1e-4, 1e-1]", "[-1, 1]"),
    ("lr: {log", "rl: {log"),
    ("lr: {loguniform: [1e-4, 1e-1]}", "gamma: {uniform: [0, 2]}"),
    ("lr: {loguniform: [1e-4, 1e-1]}", "lr: 0.1"),
    ("lr: {loguniform", "lr: {transfrm: x, loguniform"),
    ("lr: {loguniform: [1e-4, 1e-1]}", "lr: {grid: [0.1]}"),
    ("algorithm: optuna, n_startup", "algorithm: random, n_startup"),
    ("algorithm: optuna", "algorithm: grid"),
    ("grace_period: 100", "grace_period: 2000"),
    ("lifetime: 1_000", "lifetime: soon"),
    ("lifetime: 1_000", "lifetime: true"),
    ("lifetime: 1_000", "lifetime: .nan"),
    ("num_samples: 4", "objective: {metric: episode_return}"),
    ("num_samples: 4", "seeds: 0"),
    ("num_samples: 4", "seeds: [1, 1]"),
    ("num_samples: 4", "seeds: {values: 2, parallel: 3}"),
    ("num_epochs: 2", "num_epochs: 2\n  seed: 3\nseeds: 2"),
    ("num_samples: 4", "seeds: [4]\nseed: 5"),
    ("num_epochs: 2", "num_env_runners: 1\nseeds: 2"),
    ("num_samples: 4", "seed: -1"),
    ("num_samples: 4", "checkpoint: {num_to_keep: 0}"),
    ("num_samples: 4", "checkpoint: {keep: 1}"),
    ("num_samples: 4", "mlflow: {tags: {a: 1}}"),
    ("num_samples: 4", "resources: 3"),
    ("num_samples: 4", "config2: {}"),
    ("name: sweep", "name: ../x"),
]


def test_each_mistake_is_one_message(tmp_path: Path, golden: Golden) -> None:
    def read(old: str, new: str) -> None:
        assert old in GOOD
        load_spec(write(tmp_path, GOOD.replace(old, new)))

    golden("sweeps/specs", refusals(read, MISTAKES, SpecError, replace={str(tmp_path): "<folder>"}))


def test_what_a_section_needs(tmp_path: Path) -> None:
    text = GOOD.replace("search_space:\n  lr: {loguniform: [1e-4, 1e-1]}\n", "")
    assert "tpe needs a search_space" in message(tmp_path, text)
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


LEGACY_MISTAKES = [
    ("checkpoint_freq: 2", "checkpoint_fraq: 2"),
    ("num_epochs: {", "num_epoch: {"),
    ("episode_reward_mean", "episode_reward_men"),
    ("grid_search: [2, 4]", "grid_search: 2"),
]


def test_legacy_errors(tmp_path: Path, golden: Golden) -> None:
    def read(old: str, new: str) -> None:
        load_spec(write(tmp_path, LEGACY.replace(old, new)))

    golden(
        "sweeps/legacy_specs",
        refusals(read, LEGACY_MISTAKES, SpecError, replace={str(tmp_path): "<folder>"}),
    )


def test_several_legacy_experiments(tmp_path: Path) -> None:
    both = yaml.safe_load(LEGACY)
    both["second"] = both["my experiment"]
    path = write(tmp_path, yaml.safe_dump(both))
    with pytest.raises(SpecError, match=r"holds 2 experiments .* choose with --experiment"):
        load_spec(path)
    assert load_spec(path, experiment="second").name == "second"
    with pytest.raises(SpecError, match="did you mean 'second'"):
        load_spec(path, experiment="secnd")
