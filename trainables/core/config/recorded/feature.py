"""The settings of recorded experience: what is read and written, and what that goes with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.experience import COMPRESSIBLE, SAMPLER, InputKey
from trainables.core.config.recorded.input_shares import (
    candidates,
    is_code_name,
    may_be_reader,
    parse_input,
    plain_paths,
)
from trainables.core.config.recorded.no_env import check_no_env
from trainables.core.config.settings import contains_search_domain, refuse_given
from trainables.core.errors import ConfigError
from trainables.core.features import FeatureSettings

LOGDIR, DATASET = "logdir", "dataset"
OUTPUT_FORMATS = ("parquet", "json", "minari")
_OF_DATA = ("input_config", "actions_in_input_normalized", "shuffle_buffer_size")
_OF_FILES = ("output_compress_columns", "output_max_file_size", "output_max_rows_per_file")
_OF_OUTPUT = ("output_config", *_OF_FILES)


class RecordedSettings(FeatureSettings):
    """What is learned from, and what is written beside training."""

    def plain(self, config_class: Any, values: Mapping[str, Any]) -> Mapping[str, Any]:
        paths = {name: plain_paths(values[name]) for name in ("input_", "output") if name in values}
        return {**values, **paths}

    def check_values(self, config_class: Any, checked: Mapping[str, Any]) -> None:
        for given in candidates(checked.get("input_", SAMPLER)):
            if not contains_search_domain(given):
                _check_input(config_class, given)
        _check_output(checked)

    def check(self, config: Any) -> None:
        shares = self.shares(config.input_)
        if {*shares} == {SAMPLER}:
            for name in _OF_DATA:
                refuse_given(config, name, "input_ = 'sampler': no data are read")
        elif config.shuffle_buffer_size and not any(map(may_be_reader, shares)):
            raise ConfigError(
                f"shuffle_buffer_size = {config.shuffle_buffer_size} has no effect with input_ = "
                f"{config.input_!r}: rows of files are drawn uniformly from all of them; it is for "
                "a callable or a name given to register_input"
            )
        if config.needs_env:
            refuse_given(
                config,
                "dataset_num_iters_per_learner",
                "sampled experience: how many updates there are follows from what is sampled",
            )
        _check_what_is_written(config)

    def check_no_env(self, config: Any) -> None:
        """Check the config of an algorithm whose training steps no environment.

        Raises:
            ConfigError: for a setting without effect, or evaluations without an environment.
        """
        check_no_env(config)

    def shares(self, given: Any) -> dict[InputKey, float]:
        """Return the sources of a value of `input_`, each with its share of a batch."""
        return parse_input(given)

    def may_sample(self, given: Any) -> bool:
        """Tell whether `input_` has the sampler among its sources, in a search: any value of it."""
        known = [value for value in candidates(given) if not contains_search_domain(value)]
        return not known or any(SAMPLER in parse_input(value) for value in known)


def _check_input(config_class: Any, given: Any) -> None:
    """Refuse sources that are none, or that the algorithm cannot learn from."""
    shares = parse_input(given)
    if config_class.learns_from_data or {*shares} == {SAMPLER}:
        return
    algorithm = config_class.__name__.removesuffix("Config")
    raise ConfigError(
        f"input_ = {given!r} is not possible with {algorithm}: {config_class.why_no_data}; "
        "allowed: 'sampler'. BC and MARWIL imitate data, CQL, DQN, IQL and SAC learn from them"
    )


def _check_what_is_written(config: Any) -> None:
    if config.output is None:
        for name in _OF_OUTPUT:
            refuse_given(config, name, "output = None: nothing is written")
        return
    if not config.needs_env:
        raise ConfigError(
            f"output = {config.output!r} has no effect with training that steps no environment: "
            "nothing is sampled that could be written"
        )
    if isinstance(config.output, str) and not is_code_name(config.output):
        _check_files(config)


def _check_files(config: Any) -> None:
    """Check what says how files are written."""
    kind = config.output_config.get("format")
    if kind == "minari":
        for name in _OF_FILES:
            refuse_given(config, name, "output_config = {'format': 'minari'}: Minari decides")
    for name in config.output_config:
        if name not in ("format", "path") or (name == "path" and config.output != DATASET):
            raise ConfigError(
                f"output_config: {name!r} has no effect with output = {config.output!r}; "
                "allowed: format, and path with output = 'dataset'"
            )
    path = config.output_config.get("path")
    if config.output == DATASET and not (isinstance(path, str) and path):
        raise ConfigError(
            "output = 'dataset' needs output_config={'path': …}: the folder or URL to write "
            f"to; it has path = {path!r}"
        )


def _check_output(checked: Mapping[str, Any]) -> None:
    """Refuse what cannot be written so, of checked settings."""
    if checked.get("output") == "":
        raise ConfigError("output = '' is not allowed; allowed: a folder, 'logdir', 'dataset'")
    columns = checked.get("output_compress_columns", [])
    for column in columns if isinstance(columns, list) else []:
        if isinstance(column, str) and column not in COMPRESSIBLE:
            raise ConfigError(
                f"output_compress_columns = {columns!r}: {column!r} is no column of the files; "
                f"allowed: {', '.join(COMPRESSIBLE)}"
            )
    config = checked.get("output_config", {})
    kind = config.get("format") if isinstance(config, dict) else None
    output = checked.get("output")
    own_writer = callable(output) or is_code_name(output)
    if isinstance(kind, str) and kind not in OUTPUT_FORMATS and not own_writer:
        raise ConfigError(
            f"output_config: format = {kind!r} is not allowed; allowed: {', '.join(OUTPUT_FORMATS)}"
        )


SETTINGS = RecordedSettings()
