"""Settings of several agents in specs: as a file writes them, and searched policy by policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import Golden, refusals

from experiments.spec.merging import deep_merge
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import load_spec, spec_space
from search_spaces.documents import SpecError
from trainables import PolicySpec, PPOConfig
from trainables.core.config.config import AlgorithmConfig

OVERRIDES = "algorithm_config_overrides_per_module"
FILE = """
name: duel
trainable: PPO
config:
  env: CartPole-v1
  policies: {red: , blue: {config: {lr: 0.01}}, still: {policy_class: random}}
  policy_mapping_fn: {agent_0: red, "scout_*": still, "*": blue}
  policies_to_train: [red, blue]
  count_steps_by: agent_steps
  algorithm_config_overrides_per_module: {blue: {gamma: 0.9}}
"""


def spec_of(folder: Path, more: str = "", *overrides: str) -> SweepSpec:
    (folder / "duel.yaml").write_text(FILE + more)
    return load_spec(folder / "duel.yaml", overrides)


def config_of(spec: SweepSpec, searched: dict[str, Any] | None = None) -> AlgorithmConfig:
    """The config of a trial."""
    drawn = spec_space(spec).config(searched or {})
    return PPOConfig.from_dict(deep_merge(spec.config, drawn))


def test_a_file_has_settings_of_several_agents(tmp_path: Path) -> None:
    config = config_of(spec_of(tmp_path))
    assert config.policies == {
        "red": PolicySpec(),
        "blue": PolicySpec(config={"lr": 0.01}),
        "still": PolicySpec("random"),
    }
    assert config.policy_mapping_fn == {"agent_0": "red", "scout_*": "still", "*": "blue"}
    assert config.module_config("blue").lr == 0.01 and config.module_config("blue").gamma == 0.9


@pytest.mark.parametrize(
    "space",
    [
        f"  {OVERRIDES}: {{red: {{lr: {{loguniform: [1.0e-5, 1.0e-3]}}}}}}",
        f"  {OVERRIDES}.red.lr: {{loguniform: [1.0e-5, 1.0e-3]}}",
        f"  {OVERRIDES}.red: {{lr: {{loguniform: [1.0e-5, 1.0e-3]}}}}",
    ],
)
def test_a_policys_setting_is_searched(space: str, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, f"search_space:\n{space}\n  gamma: {{uniform: [0.8, 0.9]}}\n")
    key = f"{OVERRIDES}.red.lr"
    assert spec_space(spec).keys == [key, "gamma"]
    config = config_of(spec, {key: 2e-4, "gamma": 0.85})
    config.validate()
    assert config.module_config("red").lr == 2e-4 and config.module_config("red").gamma == 0.85
    assert config.module_config("blue").gamma == 0.9  # what is fixed stays


def test_what_is_inside_a_policys_dicts_is_searched(tmp_path: Path) -> None:
    key = f"{OVERRIDES}.red.model.fcnet_activation"
    spec = spec_of(tmp_path, f"search_space:\n  {key}: {{choice: [tanh, relu]}}\n")
    config = config_of(spec, {key: "relu"})
    assert config.module_config("red").resolve().model.fcnet_activation == "relu"


def test_the_config_of_a_policy_is_searched_too(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "search_space:\n  policies.blue.config.gamma: {uniform: [0.8, 0.9]}\n")
    config = config_of(spec, {"policies.blue.config.gamma": 0.85})
    assert config.policies["blue"] == PolicySpec(config={"lr": 0.01, "gamma": 0.85})
    assert list(config.policies) == ["red", "blue", "still"]


def test_the_command_line_changes_a_policys_setting(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "", f"config.{OVERRIDES}.red.lr=0.5")
    assert config_of(spec).module_config("red").lr == 0.5


UNSEARCHABLE = [
    f"search_space: {{{OVERRIDES}.rad.lr: {{uniform: [0, 1]}}}}",
    f"search_space: {{{OVERRIDES}.red.lr: {{uniform: [-1, 1]}}}}",
    f"search_space: {{{OVERRIDES}.red.seed: {{randint: [0, 9]}}}}",
    f"search_space: {{{OVERRIDES}.blue.gamma: {{uniform: [0, 1]}}}}",
]


def test_what_cannot_be_searched_is_named(tmp_path: Path, golden: Golden) -> None:
    texts = refusals(
        lambda more: spec_of(tmp_path, more + "\n"),
        UNSEARCHABLE,
        SpecError,
        replace={str(tmp_path): "<folder>"},
    )
    golden("sweeps/multi_agent_specs", texts)


def shared(given: str) -> str:
    return FILE.replace("  count_steps_by", f"  shared_encoders: {given}\n  count_steps_by")


@pytest.mark.parametrize(
    ("given", "stored"), [("true", True), ("[[blue, red]]", [["blue", "red"]])]
)
def test_a_file_says_who_has_one_encoder(given: str, stored: Any, tmp_path: Path) -> None:
    (tmp_path / "duel.yaml").write_text(shared(given))
    config = config_of(load_spec(tmp_path / "duel.yaml"))
    config.validate()
    assert config.shared_encoders == stored


def test_who_has_one_encoder_is_searched(tmp_path: Path) -> None:
    space = "search_space:\n  shared_encoders: {grid: [false, true, [[red, blue]]]}\n"
    spec = spec_of(tmp_path, space)
    for value in (False, True, [["red", "blue"]]):
        config = config_of(spec, {"shared_encoders": value})
        config.validate()
        assert config.shared_encoders == value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("[[red, still]]", "shared_encoders: 'still' is written by hand"),
        ("[red, blue]", r"shared_encoders = \['red', 'blue'\] is not allowed"),
    ],
)
def test_who_cannot_have_one_encoder_is_named(given: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "duel.yaml").write_text(shared(given))
    with pytest.raises(SpecError, match=says):
        load_spec(tmp_path / "duel.yaml")
