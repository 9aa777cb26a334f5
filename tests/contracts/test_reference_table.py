"""Every name of the reference is accounted for, by the code and by the page of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
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
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm
from trainables.runtime.sampling.group import EnvRunnerGroup

REFERENCE = yaml.safe_load(Path(__file__).with_name("reference_names.yaml").read_text())
SETTINGS = [(s, name) for s, names in REFERENCE["settings"].items() for name in names]
TRAINING = [(a, name) for a, names in REFERENCE["algorithms"].items() for name in names]
METHODS = [(owner, name) for owner, names in REFERENCE["methods"].items() for name in names]
CLASSES = {"Algorithm": PPO, "AlgorithmConfig": PPOConfig, "EnvRunnerGroup": EnvRunnerGroup}
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


def section_of(name: str) -> str:
    table = TABLES[tables_with(name)[0]]
    return section_of(table[name]) if table is ALIASES else table[name].section


# ------------------------------------------------------------------ nothing is missing


def test_the_reference_list_is_whole() -> None:
    """A guard against a list that was cut short."""
    assert len(SETTINGS) >= 125
    assert len(TRAINING) >= 110
    assert len(METHODS) >= 80


@pytest.mark.parametrize(("section", "name"), SETTINGS)
def test_setting_is_in_one_table(section: str, name: str) -> None:
    assert len(tables_with(name)) == 1, f"{name} of .{section}() is in {tables_with(name)}"


@pytest.mark.parametrize(("algorithm", "name"), TRAINING)
def test_training_setting_is_in_one_table(algorithm: str, name: str) -> None:
    if algorithm in algorithm_names():
        config_class = get_algorithm(algorithm).config_class
        own = ALIASES.get(name, name) in {**config_class.settings(), **config_class.composites}
        assert own or who_has(name) or any(name in table for table in (PLANNED, REFUSED, CONSTANTS))
        return
    assert tables_with(name) or who_has(name), f"{name} of {algorithm} is in no table"


@pytest.mark.parametrize("algorithm", algorithm_names())
def test_a_setting_of_other_algorithms_says_whose_it_is(algorithm: str) -> None:
    config_class = get_algorithm(algorithm).config_class
    known = {**config_class.settings(), **config_class.composites}
    others = [name for other in algorithm_names() for name in own_settings(other)]
    assert len(set(others)) > 50
    for name in {*others} - {*known, *ALIASES, *PLANNED}:
        assert algorithm not in who_has(name).split(", ")
        says = f"{name} = 'any' is no setting of {algorithm}; it belongs to {who_has(name)}$"
        with pytest.raises(ConfigError, match=says):
            config_class.from_dict({name: "any"})


def own_settings(algorithm: str) -> set[str]:
    """Those that the base of all configs has not."""
    config_class = get_algorithm(algorithm).config_class
    return {*config_class.settings(), *config_class.composites} - {*AlgorithmConfig.settings()}


def test_who_has() -> None:
    assert who_has("n_step") == "CQL, DQN, IQL, QMIX, SAC"
    assert who_has("loss_reduction") == "IMPALA"  # APPO does without
    assert who_has("optimization_config") == "CQL, SAC"  # which stands for three settings
    assert who_has("entropy_koeff") == ""


def test_no_name_is_in_two_tables() -> None:
    names = [name for table in TABLES.values() for name in table]
    assert sorted(names) == sorted(set(names))
    assert not set(ModelConfig.settings()) & set(MODEL_REFUSED)


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_method_is_there_or_explained(owner: str, name: str) -> None:
    assert hasattr(CLASSES[owner], name) or name in NOT_METHODS


def test_methods_that_are_not_here_are_not_here() -> None:
    """`train_buffered` aside, which Tune's class has: here it raises."""
    for name in set(NOT_METHODS) - {"train_buffered"}:
        assert not any(hasattr(owner, name) for owner in CLASSES.values()), name


@pytest.mark.parametrize("name", sorted(set(NOT_METHODS) - {"train_buffered"}))
def test_missing_methods_say_why(name: str) -> None:
    algorithm = object.__new__(PPO)
    for owner in (algorithm, PPOConfig()):
        with pytest.raises(AttributeError, match=f"{name} is not supported"):
            getattr(owner, name)
    with pytest.raises(AttributeError, match=r"PPO\.add_polcy does not exist"):
        _ = algorithm.add_polcy


# ------------------------------------------------------------------ each name does what is said


@pytest.mark.parametrize("name", [*PLANNED, *REFUSED])
def test_unsupported_name_raises(name: str) -> None:
    says = f"{name}.* is not supported"
    with pytest.raises(ConfigError, match=says):
        PPOConfig.from_dict({name: "any"})
    with pytest.raises(ConfigError, match=says):
        getattr(PPOConfig(), section_of(name))(**{name: "any"})
    with pytest.raises(ConfigError, match=says):
        setattr(PPOConfig(), name, "any")


@pytest.mark.parametrize(("section", "name"), SETTINGS)
def test_the_reference_section_takes_the_name(section: str, name: str) -> None:
    """The method in which users of the reference have a name does not send them elsewhere."""
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


@pytest.mark.parametrize(
    ("old", "new"), [pair for pair in ALIASES.items() if pair[1] not in PPOConfig.without]
)
def test_alias_sets_its_target(old: str, new: str) -> None:
    config_class: Any = DQNConfig if new == "input_" else PPOConfig  # which learns from no data
    declared = config_class.settings()[new]
    value = ALIAS_VALUES.get(new, 7)
    assert value != declared.default
    plain = config_class()
    others = {k: v for k, v in plain.to_dict().items() if k != new}
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


@pytest.mark.parametrize(("name", "constant"), CONSTANTS.items())
def test_constant_takes_its_value_only(name: str, constant: compatibility.Constant) -> None:
    method = getattr(PPOConfig(), constant.section)
    unchanged = PPOConfig().to_dict()
    assert PPOConfig.from_dict({name: constant.value}).to_dict() == unchanged
    assert method(**{name: constant.value}).to_dict() == unchanged
    for value in reference_defaults.defaults_of(name):
        assert method(**{name: value}).to_dict() == unchanged
    other = "another"
    for set_it in (lambda: PPOConfig.from_dict({name: other}), lambda: method(**{name: other})):
        with pytest.raises(ConfigError, match=f"{name} = {other!r} is not supported.*always"):
            set_it()


def test_method_aliases() -> None:
    for old, new in METHOD_ALIASES.items():
        assert getattr(PPOConfig(), old)(num_workers=3) == getattr(PPOConfig(), new)(num_workers=3)


def test_sections_are_methods() -> None:
    for table in (PPOConfig.settings(), CONSTANTS, PLANNED, REFUSED):
        for entry in table.values():
            assert callable(getattr(AlgorithmConfig, entry.section))


@pytest.mark.parametrize("name", MODEL_REFUSED)
def test_refused_model_setting_raises(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.* is not supported: "):
        PPOConfig.from_dict({"model": {name: 1}})


# ------------------------------------------------------------------ the pages


def test_settings_are_what_the_generator_gives() -> None:
    part = reference_table.PART
    assert part.current() == part.make(), f"run python -m {part.command} --write"


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
