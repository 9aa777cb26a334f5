"""Where a spec's recorded data lie: `record` and `input_` by absolute paths."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from analysis.home import expanded
from search_spaces.documents import Document

EPISODES, EXPERT = "episodes", "expert"
"""In the folder of `record`: the data, and the policy that played."""

_INPUT = "input_"
_LISTS = ("choice", "grid", "grid_search")  # domains that list their values


def settle_record(document: Document) -> None:
    """Say where `record` puts its data, and that `config.input_` is there, unless that is said.

    What is wrong with the section is found by the check of the whole spec.
    """
    section, data = document.data.get("record"), document.data
    if not isinstance(section, dict) or not isinstance(data.get("config", {}), dict):
        return
    folder = section.get("folder")
    if folder is None:
        told = json.dumps(section, sort_keys=True, default=str)
        name = hashlib.sha256(told.encode()).hexdigest()[:12]
        folder = os.path.join(str(data.get("storage", "runs")), "data", name)
    if not isinstance(folder, str):
        return
    section["folder"] = str(expanded(folder).absolute())
    searched = data.get("search_space")
    if not (isinstance(searched, dict) and _INPUT in searched):
        data.setdefault("config", {}).setdefault(_INPUT, f"{section['folder']}/{EPISODES}")


def settle_inputs(document: Document) -> None:
    """Name recorded data by absolute paths: trials run in folders of their own."""
    config, space = document.data.get("config"), document.data.get("search_space")
    if isinstance(config, dict) and _INPUT in config:
        config[_INPUT] = settled(config[_INPUT])
    domain = space.get(_INPUT) if isinstance(space, dict) else None
    if isinstance(domain, dict):
        for key in _LISTS:
            if isinstance(domain.get(key), list):
                domain[key] = [settled(value) for value in domain[key]]


def settled(given: Any) -> Any:
    """Return a value of `input_` with absolute paths; what is no path stays as it is.

    A text without any mark of a path may be the name of a reader: it is a path if it is there.
    """
    if isinstance(given, list):
        return [settled(item) for item in given]
    if isinstance(given, dict):
        if any(key in given for key in _LISTS):  # a search among some, in the config
            return {key: settled(values) for key, values in given.items()}
        return {settled(source): share for source, share in given.items()}
    if not isinstance(given, str) or given in ("sampler", "dataset"):
        return given
    if "://" in given or given.startswith("minari:") or "$" in given:
        return given
    path = expanded(given)
    is_path = any(mark in given for mark in "/\\*?[.~") or path.exists()
    return str(path.absolute()) if is_path and ":" not in given.partition("/")[0] else given
