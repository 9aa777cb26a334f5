"""Settings of recorded experience: what is parsed, refused, and why."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from every_row import check_rows
from ray import tune
from refusals import Golden, refusals

from trainables import (
    A2CConfig,
    APPOConfig,
    DQNConfig,
    DreamerV3Config,
    IMPALAConfig,
    PPOConfig,
    SACConfig,
)
from trainables.core.config.recorded.input_shares import is_code_name, may_be_reader, parse_input
from trainables.core.config.reference import compatibility
from trainables.core.config.reference.planned import whats_become_of
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

WITHOUT_DATA = [PPOConfig, A2CConfig, IMPALAConfig, APPOConfig, DreamerV3Config]


def reader(context: Any) -> None:
    """A reader of one's own."""


@pytest.mark.parametrize(
    ("given", "shares"),
    [
        ("sampler", {"sampler": 1.0}),
        ("data/*.parquet", {"data/*.parquet": 1.0}),
        (["a.json", "b.json"], {("a.json", "b.json"): 1.0}),
        ({"sampler": 2, "a": 1, "b": 1, "c": 0}, {"sampler": 0.5, "a": 0.25, "b": 0.25}),
        (reader, {reader: 1.0}),
    ],
)
def test_sources_and_their_shares(given: Any, shares: dict[Any, float]) -> None:
    assert parse_input(given) == shares
    assert DQNConfig().offline_data(input_=given).input_shares == shares
    assert DQNConfig(input_=given).needs_env == ("sampler" in shares)


def test_what_is_no_source_is_refused_at_once(golden: Golden) -> None:
    cases = [
        {},
        {"a": 0, "b": 0},
        {"a": -1, "b": 2},
        {"a": math.nan},
        {"a": math.inf},
        {"a": True},
        {"a": "half"},
        {3: 1.0},
        {"a": 1e308, "b": 1e308},
        [],
        ["a", 3],
        ["a", "sampler"],
        "",
        3,
    ]
    golden(
        "offline_settings/what_is_no_source_is_refused_at_once",
        refusals(lambda given: DQNConfig().offline_data(input_=given), cases),
    )


def test_path_objects_are_texts() -> None:
    config = DQNConfig().offline_data(input_={"sampler": 1, Path("a/b"): 1})
    assert config.input_ == {"sampler": 1, "a/b": 1}
    assert DQNConfig(input_=[Path("a"), "b"]).input_ == ["a", "b"]
    assert PPOConfig.from_dict({"output": Path("out")}).output == "out"


def test_on_policy_algorithms_say_why_not() -> None:
    def check(config_class: Any) -> None:
        for given in ("x.json", ["x"], {"sampler": 0.5, "x": 0.5}, reader):
            says = (
                rf"input_ = .* is not possible with .*: {config_class.why_no_data}.*BC and MARWIL"
            )
            with pytest.raises(ConfigError, match=says):
                config_class(input_=given)
        assert len(config_class.why_no_data) > 40
        assert config_class(input_={"sampler": 3}).input_shares == {"sampler": 1.0}
        with pytest.raises(ConfigError, match="is not possible"):
            config_class(input_=tune.grid_search(["sampler", "x.json"]))

    check_rows(check, WITHOUT_DATA)


def test_every_algorithm_can_or_says_why() -> None:
    for name in algorithm_names():
        config_class = get_algorithm(name).config_class
        assert config_class.learns_from_data != (config_class in WITHOUT_DATA)


def test_search_domains_pass() -> None:
    assert not DQNConfig(input_=tune.grid_search(["a", "b"])).needs_env
    assert DQNConfig(input_=tune.choice(["a", "sampler"])).needs_env
    assert DQNConfig(input_=tune.sample_from(reader)).needs_env  # nobody knows
    with pytest.raises(ConfigError, match="its shares sum to 0"):
        DQNConfig(input_=tune.grid_search([{"a": 0}]))
    with pytest.raises(ConfigError, match="search domain"):
        DQNConfig(input_=tune.grid_search(["a", "b"])).validate()


NO_DATA = {"env": "CartPole-v1"}
DATA = {"input_": "data/*.json"}


def test_what_has_no_effect_is_refused(golden: Golden) -> None:
    cases = [
        NO_DATA | {"input_config": {"format": "json"}},
        NO_DATA | {"actions_in_input_normalized": True},
        NO_DATA | {"shuffle_buffer_size": 10},
        NO_DATA | {"dataset_num_iters_per_learner": 3},
        DATA | {"shuffle_buffer_size": 10},
        DATA | {"output": "out"},
        NO_DATA | {"output_config": {"format": "json"}},
        NO_DATA | {"output_compress_columns": []},
        NO_DATA | {"output_max_file_size": 99},
        NO_DATA | {"output_max_rows_per_file": 9},
        NO_DATA | {"output": "dataset"},
        NO_DATA | {"output": "x", "output_config": {"path": "y"}},
        NO_DATA | {"output": "x", "output_config": {"zip": 1}},
        NO_DATA | {"output": "x", "output_config": {"format": "minari"}, "output_max_file_size": 9},
    ]
    golden(
        "offline_settings/what_has_no_effect_is_refused",
        refusals(lambda settings: DQNConfig.from_dict(settings).validate(), cases),
    )


def test_what_has_an_effect_is_taken() -> None:
    def check(settings: dict[str, Any]) -> None:
        SACConfig.from_dict(settings).validate()

    rows = [
        DATA | {"actions_in_input_normalized": True, "input_config": {"format": "json"}},
        DATA | {"dataset_num_iters_per_learner": 3},
        {"input_": "mine:read", "shuffle_buffer_size": 10},
        {"input_": reader, "shuffle_buffer_size": 10, "input_config": {"mine": 1}},
        NO_DATA | {"input_": {"sampler": 1, "x": 1}, "output": "out"},
        NO_DATA | {"output": "dataset", "output_config": {"path": "y", "format": "json"}},
        NO_DATA | {"output": "mine:write", "output_config": {"anything": 1}},
        NO_DATA | {"output": "logdir", "output_max_file_size": 99, "output_compress_columns": []},
    ]
    check_rows(check, rows)


def test_columns_and_formats_are_checked_at_once() -> None:
    with pytest.raises(ConfigError, match="'observation' is no column of the files; allowed: obs"):
        PPOConfig(output_compress_columns=["observation"])
    with pytest.raises(ConfigError, match="format = 'csv' is not allowed; allowed: parquet, json"):
        PPOConfig(output_config={"format": "csv"})
    with pytest.raises(ConfigError, match="output = '' is not allowed"):
        PPOConfig(output="")


def test_what_may_be_code() -> None:
    assert is_code_name("mine.readers:make") and not is_code_name("minari:cartpole-v0")
    assert not is_code_name("s3://bucket/a") and not is_code_name("C:/data")
    assert may_be_reader("mine") and may_be_reader(reader) and may_be_reader("mine:read")
    assert not may_be_reader(("a", "b"))
    assert not any(map(may_be_reader, ("sampler", "a/b", "a*", "a.json", "minari:x-v0")))


def test_of_offline_data_nothing_is_planned() -> None:
    assert not [n for n, p in compatibility.PLANNED.items() if p.section == "offline_data"]


def test_older_and_newer_names() -> None:
    assert DQNConfig.from_dict({"input": "a.json"}).input_ == "a.json"
    unchanged = DQNConfig().to_dict()
    for values in (
        {"input": "sampler", "offline_sampling": True, "postprocess_inputs": True},
        {"offline_sampling": False, "postprocess_inputs": False},
        {"input_read_method": "read_parquet", "output_write_episodes": True},
    ):
        assert DQNConfig().offline_data(**values).to_dict() == unchanged
    with pytest.raises(ConfigError, match=r"input_config=\{'format': 'json'\}"):
        DQNConfig.from_dict({"input_read_method": "read_json"})


def test_readers_and_writers_of_the_reference_say_what_to_set() -> None:
    assert "as input_" in str(whats_become_of("JsonReader"))
    assert "set output" in str(whats_become_of("JsonWriter"))
