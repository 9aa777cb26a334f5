"""Settings of recorded experience: what is parsed, refused, and why."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from trainables import (
    A2CConfig,
    APPOConfig,
    DQNConfig,
    DreamerV3Config,
    IMPALAConfig,
    PPOConfig,
    SACConfig,
)
from trainables.core.config.input_shares import is_code_name, may_be_reader, parse_input
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


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "its shares sum to 0"),
        ({"a": 0, "b": 0}, "its shares sum to 0"),
        ({"a": -1, "b": 2}, r"the share of 'a' is -1, not a number >= 0"),
        ({"a": math.nan}, "the share of 'a' is nan"),
        ({"a": math.inf}, "the share of 'a' is inf"),
        ({"a": True}, "the share of 'a' is True"),
        ({"a": "half"}, "the share of 'a' is 'half'"),
        ({3: 1.0}, "3 is none"),
        ({"a": 1e308, "b": 1e308}, "its shares sum to infinity"),
        ([], "one at least"),
        (["a", 3], "a list holds files"),
        (["a", "sampler"], r"'sampler' is no file: .* give shares"),
        ("", "allowed: 'sampler', a file"),
        (3, "input_ = 3 is not allowed"),
    ],
)
def test_what_is_no_source_is_refused_at_once(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        DQNConfig().offline_data(input_=given)


def test_path_objects_are_texts() -> None:
    config = DQNConfig().offline_data(input_={"sampler": 1, Path("a/b"): 1})
    assert config.input_ == {"sampler": 1, "a/b": 1}
    assert DQNConfig(input_=[Path("a"), "b"]).input_ == ["a", "b"]
    assert PPOConfig.from_dict({"output": Path("out")}).output == "out"


@pytest.mark.parametrize("config_class", WITHOUT_DATA)
def test_on_policy_algorithms_say_why_not(config_class: Any) -> None:
    for given in ("x.json", ["x"], {"sampler": 0.5, "x": 0.5}, reader):
        says = rf"input_ = .* is not possible with .*: {config_class.why_no_data}.*BC and MARWIL"
        with pytest.raises(ConfigError, match=says):
            config_class(input_=given)
    assert len(config_class.why_no_data) > 40
    assert config_class(input_={"sampler": 3}).input_shares == {"sampler": 1.0}
    with pytest.raises(ConfigError, match="is not possible"):
        config_class(input_=tune.grid_search(["sampler", "x.json"]))


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


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (NO_DATA | {"input_config": {"format": "json"}}, "input_ = 'sampler': no data are read"),
        (NO_DATA | {"actions_in_input_normalized": True}, "no data are read"),
        (NO_DATA | {"shuffle_buffer_size": 10}, "no data are read"),
        (NO_DATA | {"dataset_num_iters_per_learner": 3}, "has no effect with sampled experience"),
        (DATA | {"shuffle_buffer_size": 10}, "rows of files are drawn uniformly"),
        (DATA | {"output": "out"}, "output = 'out' has no effect with training that steps no env"),
        (NO_DATA | {"output_config": {"format": "json"}}, "output = None: nothing is written"),
        (NO_DATA | {"output_compress_columns": []}, "output = None: nothing is written"),
        (NO_DATA | {"output_max_file_size": 99}, "output = None: nothing is written"),
        (NO_DATA | {"output_max_rows_per_file": 9}, "output = None: nothing is written"),
        (NO_DATA | {"output": "dataset"}, r"needs output_config=\{'path': …\}"),
        (NO_DATA | {"output": "x", "output_config": {"path": "y"}}, "'path' has no effect with"),
        (NO_DATA | {"output": "x", "output_config": {"zip": 1}}, "'zip' has no effect with"),
        (
            NO_DATA
            | {"output": "x", "output_config": {"format": "minari"}, "output_max_file_size": 9},
            "output_max_file_size = 9 has no effect with .*minari",
        ),
    ],
)
def test_what_has_no_effect_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        DQNConfig.from_dict(settings).validate()


@pytest.mark.parametrize(
    "settings",
    [
        DATA | {"actions_in_input_normalized": True, "input_config": {"format": "json"}},
        DATA | {"dataset_num_iters_per_learner": 3},
        {"input_": "mine:read", "shuffle_buffer_size": 10},
        {"input_": reader, "shuffle_buffer_size": 10, "input_config": {"mine": 1}},
        NO_DATA | {"input_": {"sampler": 1, "x": 1}, "output": "out"},
        NO_DATA | {"output": "dataset", "output_config": {"path": "y", "format": "json"}},
        NO_DATA | {"output": "mine:write", "output_config": {"anything": 1}},
        NO_DATA | {"output": "logdir", "output_max_file_size": 99, "output_compress_columns": []},
    ],
)
def test_what_has_an_effect_is_taken(settings: dict[str, Any]) -> None:
    SACConfig.from_dict(settings).validate()


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


def test_of_offline_data_only_what_estimates_is_planned() -> None:
    planned = [n for n, p in compatibility.PLANNED.items() if p.section == "offline_data"]
    assert planned == ["input_evaluation"]
    with pytest.raises(ConfigError, match=r"is not supported yet \(offline evaluation\)"):
        DQNConfig().offline_data(input_evaluation=["is"])


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
