"""Where `input_` says that experience comes from."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.offline.locating import EXTENSIONS, located
from trainables.runtime.offline.read_options import ColumnNames, ReadOptions
from trainables.runtime.offline.source import Source

MINARI = "minari:"
DATASET = "dataset"  # the reference's word for files that input_config names

_SOURCES = {
    "parquet": "trainables.runtime.offline.formats.parquet:ParquetSource",
    "csv": "trainables.runtime.offline.formats.csv:CsvSource",
    "json": "trainables.runtime.offline.formats.json_lines:JsonLinesSource",
    "minari": "trainables.runtime.offline.formats.minari:MinariSource",
}
_COLUMNS = ("obs_columns", "action_column", "reward_column", "episode_column")
_KEYS = ("clip_actions", "filesystem", "format", "path", "paths", *_COLUMNS)
_TABLES = ("parquet", "csv")


def find_source(
    item: str | Path | Sequence[str | Path],
    input_config: Mapping[str, Any] | None = None,
    *,
    actions_normalized: bool = False,
    other_keys: bool = False,
) -> Source:
    """Return recorded experience.

    Args:
        item: A file, a folder (searched with all folders in it), a glob, or a list of them: paths,
            or URLs of filesystems that pyarrow knows (`s3://`, `gs://`, …); `minari:<dataset>`; or
            `dataset`: what `input_config` has as `path`.
        input_config: `format` (parquet, csv, json, minari) where names do not tell it;
            `clip_actions`; what columns of Parquet and CSV are called: `obs_columns` (a list),
            `action_column`, `reward_column`, `episode_column`; `filesystem`, its options (`region`,
            `endpoint_override`, …); `path`, see `item`.
        actions_normalized: Whether Boxes of floats with bounds are recorded in [-1, 1].
        other_keys: Whether `input_config` may have keys that other sources need.

    Raises:
        DataError: if there is no such data.
        ConfigError: for a wrong `input_config`.
    """
    config = dict(input_config or {})
    _check(config, other_keys=other_keys)
    features = config.get("obs_columns", ())
    columns = ColumnNames(
        (features,) if isinstance(features, str) else tuple(features),
        *(config.get(key, "") for key in ("action_column", "reward_column", "episode_column")),
    )
    options = ReadOptions(config.get("clip_actions", False), actions_normalized, columns)
    items = [item] if isinstance(item, (str, Path)) else list(item)
    if items == [DATASET]:
        paths = config.get("paths", config.get("path"))
        if not paths:
            raise ConfigError("input_='dataset' needs input_config={'path': …}: files or a folder")
        items = [paths] if isinstance(paths, (str, Path)) else list(paths)
    texts = [str(each) for each in items]
    if not texts:
        raise ConfigError("input_=[] has no files; allowed: at least one file, folder or glob")
    format_ = config.get("format")
    datasets = [text for text in texts if text.startswith(MINARI)]
    if datasets and len(texts) > 1:
        raise ConfigError(
            f"input_={texts!r}: {datasets[0]!r} stands beside others; allowed: by itself, or as a "
            "source of a dict with shares"
        )
    if datasets or format_ == "minari":
        _check_columns(columns, "minari")
        return _source_class("minari")(texts[0].removeprefix(MINARI), options)
    files, found = located(texts, format_, config.get("filesystem", {}))
    _check_columns(columns, found)
    return _source_class(found)(files, options)


def _source_class(format_: str) -> Any:
    module, _, name = _SOURCES[format_].partition(":")
    return getattr(importlib.import_module(module), name)


def _check_columns(columns: ColumnNames, format_: str) -> None:
    if columns != ColumnNames() and format_ not in _TABLES:
        raise ConfigError(
            f"input_config names columns ({', '.join(_COLUMNS)}), and those of {format_} have "
            f"fixed names; allowed: files of the formats {list(_TABLES)}"
        )


def _check(config: Mapping[str, Any], *, other_keys: bool) -> None:
    for key in config:
        if key not in _KEYS and not other_keys:
            raise ConfigError(
                f"input_config has the key {key!r}, which no file needs; allowed: {list(_KEYS)}"
                f"{suggestion(key, _KEYS)}"
            )
    format_ = config.get("format")
    if format_ is not None and format_ not in _SOURCES:
        raise ConfigError(
            f"input_config format={format_!r} is not known; allowed: {[*EXTENSIONS, 'minari']}"
        )
    if not isinstance(config.get("clip_actions", False), bool):
        raise ConfigError(
            f"input_config clip_actions={config['clip_actions']!r} is not allowed; allowed: bool"
        )
    for key in _COLUMNS:
        value = config.get(key, "x")
        texts = value if key == "obs_columns" and isinstance(value, list | tuple) else [value]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            allowed = "a list of names" if key == "obs_columns" else "the name of a column"
            raise ConfigError(f"input_config {key}={value!r} is not allowed; allowed: {allowed}")
    if not isinstance(config.get("filesystem", {}), Mapping):
        raise ConfigError(
            f"input_config filesystem={config['filesystem']!r} is not allowed; allowed: a dict"
        )
