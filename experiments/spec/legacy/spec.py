"""RLlib's YAML form, `name: {run: PPO, env: …, stop: …, config: …}`, under the spec's own keys.

The files are read unchanged, those of old releases too. What has no counterpart is an error with
the reason, except for what can have no effect on the result: that is left out with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from experiments.errors import SpecWarning
from experiments.spec.compose import copy_places
from experiments.spec.legacy.config import modernise
from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document, KeyPath
from trainables.core.suggestions import suggestion

_CHECKPOINT_SCORE = {
    "checkpoint_score_attribute": ("objective", "metric"),
    "checkpoint_score_order": ("objective", "mode"),
}
_KEYS: dict[str, tuple[str, ...]] = {
    "run": ("trainable",),
    "env": ("config", "env"),
    "config": ("config",),
    "stop": ("stop",),
    "num_samples": ("num_samples",),
    "max_failures": ("max_failures",),
    "time_budget_s": ("time_budget_s",),
    "max_concurrent_trials": ("max_concurrent",),
    "checkpoint_freq": ("checkpoint", "frequency"),
    "checkpoint_at_end": ("checkpoint", "at_end"),
    "keep_checkpoints_num": ("checkpoint", "num_to_keep"),
    "checkpoint_score_attr": ("objective", "metric"),
    "local_dir": ("storage",),
    "storage_path": ("storage",),
    "metric": ("objective", "metric"),
    "mode": ("objective", "mode"),
    **_CHECKPOINT_SCORE,
}
_CHECKPOINT_KEYS: dict[str, tuple[str, ...]] = {
    "checkpoint_frequency": ("checkpoint", "frequency"),
    "checkpoint_at_end": ("checkpoint", "at_end"),
    "num_to_keep": ("checkpoint", "num_to_keep"),
    **_CHECKPOINT_SCORE,
}
_REFUSED = {
    "restore": "a sweep starts from the beginning; `tunescape resume DIR` continues one",
    "resources_per_trial": "what a trial needs follows from its config: num_env_runners, num_gpus, "
    "num_cpus_for_main_process, …",
    "sync_config": "results are written to storage_path itself",
    "upload_dir": "results are written to storage_path itself",
    "export_formats": "the best policy is exported to best/; see `tunescape export`",
    "trial_name_creator": "a file cannot hold a function",
    "trial_dirname_creator": "a file cannot hold a function",
    "log_to_file": "-vv shows the trials' output",
}
_IGNORED = {"pass_criteria": "only RLlib's own release tests read it"}
_MARKS = {"env", "config", "stop"}  # of an experiment whose `run` is missing or misspelt


def is_legacy(document: Document) -> bool:
    """Tell whether every top-level key names an experiment of RLlib's form, or is meant to."""

    def is_experiment(key: str, value: Any) -> bool:
        meant = key not in SweepSpec.model_fields and len(_MARKS & set(value)) > 1
        return "run" in value or meant

    return bool(document.data) and all(
        isinstance(value, dict) and is_experiment(key, value)
        for key, value in document.data.items()
    )


def from_legacy(document: Document, experiment: str | None) -> Document:
    """Return the same experiment under the spec's own keys.

    Args:
        document: A file of RLlib's form.
        experiment: Which of its experiments, if it has several.

    Raises:
        SpecError: A key has no counterpart, or the file has several experiments and none is named.
    """
    names = list(document.data)
    if experiment is None and len(names) > 1:
        raise document.error(
            (), f"holds {len(names)} experiments ({', '.join(names)}); choose with --experiment"
        )
    name = names[0] if experiment is None else experiment
    if name not in document.data:
        hint = suggestion(name, names)
        raise document.error((), f"no experiment {name!r}; it holds {', '.join(names)}{hint}")
    entries = document.data[name]
    if "run" not in entries:
        raise document.error(
            (name,), f"{name}: missing key 'run', the algorithm; its keys: {', '.join(entries)}"
        )
    result = Document({"name": _as_name(name)}, document.source)
    result.lines[("name",)] = document.lines[(name,)]
    # `config` first: `env` may then be put into it.
    for key in sorted(entries, key=lambda key: key != "config"):
        for place, value, target in _moves(document, (name, key), entries[key]):
            _move(document, place, value, result, target)
    modernise(result)
    return result


def _moves(
    document: Document, place: KeyPath, value: Any
) -> Iterator[tuple[KeyPath, Any, tuple[str, ...]]]:
    """Yield where a key of an experiment, or each key inside it, goes."""
    key = str(place[-1])
    if key == "checkpoint_config" and isinstance(value, dict):
        for inner, item in value.items():
            here = (*place, inner)
            yield here, item, _target(document, here, _CHECKPOINT_KEYS)
    elif key == "checkpoint_score_attr" and isinstance(value, str) and value.startswith("min-"):
        yield place, value.removeprefix("min-"), ("objective", "metric")
        yield place, "min", ("objective", "mode")
    elif key == "stop" and isinstance(value, dict):
        yield place, flat_stop(value), ("stop",)
    elif key in _IGNORED:
        warnings.warn(
            f"{document.where(place)}: {key} is left out: {_IGNORED[key]}",
            SpecWarning,
            stacklevel=2,
        )
    else:
        yield place, value, _target(document, place, {**_KEYS, "checkpoint_config": ()})


def _target(
    document: Document, place: KeyPath, known: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    key = str(place[-1])
    if key in _REFUSED:
        raise document.error(place, f"{key} is not supported: {_REFUSED[key]}")
    if key not in known:
        raise document.error(
            place,
            f"unknown key {key!r} of {place[-2]}; allowed: {', '.join(known)}"
            + suggestion(key, known),
        )
    if not known[key]:
        raise document.error(place, f"{key} must be a mapping")
    return known[key]


def _move(
    source: Document, place: KeyPath, value: Any, target: Document, path: tuple[str, ...]
) -> None:
    parent = target.data
    for key in path[:-1]:
        parent = parent.setdefault(key, {})
        if not isinstance(parent, dict):
            raise source.error(place, f"{key} is {parent!r}, not a mapping")
    if parent.get(path[-1], value) != value:
        raise source.error(place, f"{place[-1]!r} is given twice (also as {'.'.join(path)})")
    parent[path[-1]] = value
    copy_places(source, place, target, path)


def flat_stop(stop: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return criteria on metrics inside others with their names joined by a slash."""
    flat: dict[str, Any] = {}
    for key, value in stop.items():
        name = f"{prefix}{key}"
        flat.update(flat_stop(value, f"{name}/") if isinstance(value, dict) else {name: value})
    return flat


def _as_name(name: str) -> str:
    """Return the experiment's name as a folder's: RLlib takes any text."""
    return "".join(c if c.isalnum() or c in "_.+-" else "-" for c in name).strip("-.+") or "sweep"
