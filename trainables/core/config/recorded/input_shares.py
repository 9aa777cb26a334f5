"""What `input_` says: where experience comes from, and which share of each batch."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

from trainables.core.config.experience import SAMPLER, InputKey
from trainables.core.config.settings import is_search_domain
from trainables.core.errors import ConfigError

ALLOWED_INPUTS = (
    "'sampler', a file, folder, glob or URL, a list of these, 'minari:' and a data set, a name "
    "given to register_input, a callable, or a dict of these with their shares of a batch"
)


def parse_input(given: Any) -> dict[InputKey, float]:
    """Return the sources of a value of `input_`, each with its share of a batch.

    Nothing is opened. Shares are positive and sum to 1: a source whose share is 0 is left out.

    Raises:
        ConfigError: for a value that is not allowed.
    """
    if not isinstance(given, Mapping):
        return {_key(given): 1.0}
    found: dict[InputKey, float] = {}
    for source, share in given.items():
        if isinstance(source, list) or not (isinstance(source, str) or callable(source)):
            raise _error(given, f"its keys are texts, {source!r} is none")
        is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
        if not (is_number and math.isfinite(share) and share >= 0):
            raise _error(given, f"the share of {source!r} is {share!r}, not a number >= 0")
        if share > 0:
            found[_key(source)] = float(share)
    total = sum(found.values())
    if not found:
        raise _error(given, "its shares sum to 0, so nothing would be drawn")
    if not math.isfinite(total):
        raise _error(given, "its shares sum to infinity")
    return {source: share / total for source, share in found.items()}


def candidates(given: Any) -> list[Any]:
    """Return the values that `input_` may have: those of a search among some, else itself.

    Of a domain that does not list its values there are none.
    """
    if not is_search_domain(given):
        return [given]
    listed = given["grid_search"] if isinstance(given, dict) else getattr(given, "categories", [])
    return list(listed)


def may_be_reader(source: InputKey) -> bool:
    """Tell whether a source may be code that reads: a callable, or a name it is known by.

    Of a name, e.g. "data", only the registry knows: a folder may be called so, too.
    """
    if not isinstance(source, str) or is_code_name(source):
        return not isinstance(source, tuple)
    return source != SAMPLER and not source.startswith("minari:") and not set("/\\*?[.") & {*source}


def is_code_name(given: Any) -> bool:
    """Tell whether a value of `input_` or `output` is the `module:name` of a callable."""
    return (
        isinstance(given, str)
        and not given.startswith("minari:")
        and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", given) is not None
    )


def plain_paths(given: Any) -> Any:
    """Return a value of `input_` or `output` with its path objects as texts."""
    if isinstance(given, os.PathLike):
        return os.fspath(given)
    if isinstance(given, (list, tuple)):
        return [plain_paths(item) for item in given]
    if type(given) is dict and not is_search_domain(given):
        return {plain_paths(source): share for source, share in given.items()}
    return given


def _key(source: Any) -> InputKey:
    """Return a source as a key of shares."""
    if isinstance(source, (list, tuple)):
        if not source or not all(isinstance(item, str) and item for item in source):
            raise _error(source, "a list holds files, folders, globs or URLs, one at least")
        if SAMPLER in source:
            raise _error(
                source,
                "'sampler' is no file: for data and fresh samples give shares, "
                "e.g. {'sampler': 0.5, 'data/*.parquet': 0.5}",
            )
        return tuple(source)
    if callable(source) or (isinstance(source, str) and source):
        return source
    raise _error(source)


def _error(given: Any, why: str = "") -> ConfigError:
    said = f": {why}" if why else ""
    return ConfigError(f"input_ = {given!r} is not allowed{said}; allowed: {ALLOWED_INPUTS}")
