"""Every name of the reference is accounted for, by the code and by the page of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from every_row import check_rows
from page_blocks import blocks

from trainables import PPO, DQNConfig, PPOConfig, reference_table
from trainables.core.config.callbacks import HOOKS
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.model import MODEL_REFUSED, ModelConfig
from trainables.core.config.reference import compatibility
from trainables.core.config.reference import defaults as reference_defaults
from trainables.core.config.reference.compatibility import (
    ALIASES,
    COMPOSITES,
    CONSTANTS,
    METHOD_ALIASES,
    PLANNED,
    REFUSED,
)
from trainables.core.config.reference.who_has import who_has
from trainables.core.config.reference.worker_calls import CallsWorkers
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm
from trainables.runtime.sampling.group import EnvRunnerGroup

REFERENCE = yaml.safe_load(Path(__file__).with_name("reference_names.yaml").read_text())
SETTINGS = [(s, name) for s, names in REFERENCE["settings"].items() for name in names]
TRAINING = [(a, name) for a, names in REFERENCE["algorithms"].items() for name in names]
METHODS = [(owner, name) for owner, names in REFERENCE["methods"].items() for name in names]
CLASSES = {
    "Algorithm": (PPO,),
    "AlgorithmConfig": (PPOConfig,),
    "EnvRunnerGroup": (EnvRunnerGroup, CallsWorkers),  # where a group finds them
}
NOT_METHODS = compatibility.METHODS_REFUSED
TABLES: dict[str, Any] = {
    "settings": PPOConfig.settings(),
    "aliases": ALIASES,
    "composites": COMPOSITES,
    "constants": CONSTANTS,
    "planned": PLANNED,
    "refused": REFUSED,
}
# A value that each alias's target takes and that is not its default.
ALIAS_VALUES: dict[str, Any] = {
    "fake_gpus": True,
    "num_gpus_per_learner": 0.5,
    "lambda_": 0.5,
    "model": {"fcnet_hiddens": [8]},
    "lr": [[0, 1e-3], [1000, 1e-4]],
    "entropy_coeff": [[0, 0.1], [1000, 0.0]],
    "custom_resources_per_env_runner": {"accelerator": 1},
    "record_env": True,
    "env_runner_cls": "my_runners:Mine",
    "algorithm_config_overrides_per_module": {"default_policy": {"lr": 1e-3}},
    "validate_env_runners_after_construction": False,
    "ignore_env_runner_failures": True,
    "restart_failed_env_runners": True,
    "callbacks_class": "my_callbacks:Mine",
    "shuffle_batch_per_epoch": False,
    "is_atari": True,
    "custom_evaluation_function": "mine:evaluate",
    "learner_class": "mine:Learner",
    "input_": "data/*.json",
    "learner_connector": "mine:connect",
    "env_to_module_connector": "mine:connect",
    "module_to_env_connector": "mine:connect",
    **dict.fromkeys(HOOKS, "mine:hook"),
}


def tables_with(name: str) -> list[str]:
    return [title for title, table in TABLES.items() if name in table]


# ------------------------------------------------------------------ nothing is missing


def test_the_reference_list_is_whole() -> None:
    """A guard against a list that was cut short."""
    assert len(SETTINGS) >= 125
    assert len(TRAINING) >= 110
    assert len(METHODS) >= 80


def test_a_setting_is_in_one_table() -> None:
    in_no_table_or_several = [
        f"{section}: {name}" for section, name in SETTINGS if len(tables_with(name)) != 1
    ]
    assert in_no_table_or_several == []


def test_a_training_setting_is_in_a_table() -> None:
    def check(algorithm: str, name: str) -> None:
        if algorithm in algorithm_names():
            config_class = get_algorithm(algorithm).config_class
            own = ALIASES.get(name, name) in {**config_class.settings(), **config_class.composites}
            told = any(name in table for table in (PLANNED, REFUSED, CONSTANTS))
            assert own or who_has(name) or told
        else:
            assert tables_with(name) or who_has(name)

    check_rows(check, TRAINING)


def test_a_setting_of_other_algorithms_says_whose_it_is() -> None:
    """Each setting by one of those that are without it, in turn: all ask the same table."""
    of_algorithms = {name for other in algorithm_names() for name in own_settings(other)}
    assert len(of_algorithms) > 50
    whose = {name: who_has(name) for name in of_algorithms}

    def check(algorithm: str, name: str) -> None:
        assert algorithm not in whose[name].split(", ")
        says = f"{name} = 'any' is no setting of {algorithm}; it belongs to {whose[name]}$"
        with pytest.raises(ConfigError, match=says):
            get_algorithm(algorithm).config_class.from_dict({name: "any"})

    rows = []
    for i, name in enumerate(sorted(of_algorithms - {*ALIASES, *PLANNED})):
        without = [other for other in algorithm_names() if name not in known_to(other)]
        rows += [(without[i % len(without)], name)] if without else []
    assert {algorithm for algorithm, _ in rows} == {*algorithm_names()}
    check_rows(check, rows)


def known_to(algorithm: str) -> set[str]:
    config_class = get_algorithm(algorithm).config_class
    return {*config_class.settings(), *config_class.composites}


def own_settings(algorithm: str) -> set[str]:
    """Those that the base of all configs has not."""
    return known_to(algorithm) - {*AlgorithmConfig.settings()}


def test_who_has() -> None:
    assert who_has("n_step") == "CQL, DQN, IQL, QMIX, SAC"
    assert who_has("loss_reduction") == "IMPALA"  # APPO does without
    assert who_has("optimization_config") == "CQL, SAC"  # which stands for three settings
    assert who_has("entropy_koeff") == ""


def test_no_name_is_in_two_tables() -> None:
    names = [name for table in TABLES.values() for name in table]
    assert sorted(names) == sorted(set(names))
    assert not set(ModelConfig.settings()) & set(MODEL_REFUSED)


def test_a_method_is_there_or_explained() -> None:
    unknown = [
        f"{owner}.{name}"
        for owner, name in METHODS
        if not any(hasattr(kind, name) for kind in CLASSES[owner]) and name not in NOT_METHODS
    ]
    assert unknown == []


def test_methods_that_are_not_here_say_why() -> None:
    """`train_buffered` aside, which Tune's class has: here it raises."""
    algorithm = object.__new__(PPO)

    def check(name: str) -> None:
        assert not any(hasattr(owner, name) for owner in CLASSES.values())
        for owner in (algorithm, PPOConfig()):
            with pytest.raises(AttributeError, match=f"{name} is not supported"):
                getattr(owner, name)

    check_rows(check, sorted(set(NOT_METHODS) - {"train_buffered"}))
    with pytest.raises(AttributeError, match=r"PPO\.add_polcy does not exist"):
        _ = algorithm.add_polcy


# ------------------------------------------------------------------ each name does what is said


def test_the_reference_section_takes_the_name() -> None:
    """The method in which users of the reference have a name does not send them elsewhere."""

    def check(section: str, name: str) -> None:
        method = getattr(PPOConfig(), section)
        if name in COMPOSITES:
            assert isinstance(method(**{name: {}}), PPOConfig)
        elif name in PLANNED or name in REFUSED:
            with pytest.raises(ConfigError, match="is not supported"):
                method(**{name: "any"})
        elif name in CONSTANTS:
            assert isinstance(method(**{name: CONSTANTS[name].value}), PPOConfig)
        else:
            target = ALIASES.get(name, name)
            default = getattr(PPOConfig(), target)
            assert getattr(method(**{name: default}), target) == default

    check_rows(check, SETTINGS)


def test_alias_sets_its_target() -> None:
    def check(old: str, new: str) -> None:
        config_class: Any = DQNConfig if new == "input_" else PPOConfig  # which learns from no data
        declared = config_class.settings()[new]
        value = ALIAS_VALUES.get(new, 7)
        assert value != declared.default
        others = {k: v for k, v in config_class().to_dict().items() if k != new}
        for config in (
            config_class.from_dict({old: value}),
            getattr(config_class(), declared.section)(**{old: value}),
        ):
            settings = config.to_dict()
            assert settings.pop(new) == value
            assert settings == others
            assert config[old] == value
            # .callbacks() is the fluent method.
            assert old == declared.section or getattr(config, old) == value

    check_rows(check, [pair for pair in ALIASES.items() if pair[1] not in PPOConfig.without])


def test_constant_takes_its_value_only() -> None:
    unchanged = PPOConfig().to_dict()

    def check(name: str, constant: compatibility.Constant) -> None:
        method = getattr(PPOConfig(), constant.section)
        assert PPOConfig.from_dict({name: constant.value}).to_dict() == unchanged
        for value in (constant.value, *reference_defaults.defaults_of(name)):
            assert method(**{name: value}).to_dict() == unchanged
        says = f"{name} = 'another' is not supported.*always"
        with pytest.raises(ConfigError, match=says):
            PPOConfig.from_dict({name: "another"})
        with pytest.raises(ConfigError, match=says):
            method(**{name: "another"})

    check_rows(check, CONSTANTS.items())


def test_method_aliases() -> None:
    for old, new in METHOD_ALIASES.items():
        assert getattr(PPOConfig(), old)(num_workers=3) == getattr(PPOConfig(), new)(num_workers=3)


def test_sections_are_methods() -> None:
    for table in (PPOConfig.settings(), CONSTANTS, PLANNED, REFUSED):
        for entry in table.values():
            assert callable(getattr(AlgorithmConfig, entry.section))


def test_refused_model_setting_raises() -> None:
    def check(name: str) -> None:
        with pytest.raises(ConfigError, match=f"{name}.* is not supported: "):
            PPOConfig.from_dict({"model": {name: 1}})

    check_rows(check, MODEL_REFUSED)


# ------------------------------------------------------------------ the pages


def test_settings_are_what_the_generator_gives() -> None:
    part = reference_table.PART
    assert part.current() == part.text(), f"run python -m {part.command} --write"


def test_methods_are_told_in_words_of_their_own() -> None:
    table = reference_table.reference_table().split("\n## methods of")[1]
    lines = [line for line in table.splitlines() if line.startswith("| `Algorithm")]
    meanings = [line.split(" | ")[2].rstrip(" |") for line in lines]
    assert len(meanings) > 100
    assert not [text for text in meanings if not text or "(x)" in text or "dict()" in text]


def test_settings_show_every_name() -> None:
    table = reference_table.PART.current()
    names = {name for _, name in SETTINGS + TRAINING} | {
        f"{owner}.{name}" if f"`{owner}.{name}`" in table else name
        for owner, name in METHODS
        if owner != "EnvRunnerGroup"
    }
    missing = sorted(name for name in names if f"`{name}`" not in table)
    assert missing == []
    for title in TABLES.values():
        assert all(f"`{name}`" in table for name in title)


def test_readme_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = blocks("trainables/README.md", "python")
    exec(compile(example, "README.md", "exec"), {})
    assert (tmp_path / "runs/cartpole/checkpoint.json").is_file()
