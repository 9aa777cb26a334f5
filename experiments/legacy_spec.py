"""The older YAML form, `name: {run: PPO, env: …, stop: …, config: …}`, under the spec's keys."""

from __future__ import annotations

from typing import Any

from search_spaces.documents import Document, KeyPath, nearest

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
    "local_dir": ("storage",),
    "storage_path": ("storage",),
    "metric": ("objective", "metric"),
    "mode": ("objective", "mode"),
}


def is_legacy(document: Document) -> bool:
    """Whether every top-level key names an experiment of the older form."""
    return bool(document.data) and all(
        isinstance(value, dict) and "run" in value for value in document.data.values()
    )


def from_legacy(document: Document, experiment: str | None) -> Document:
    """The same experiment under the spec's own keys.

    Args:
        document: A file of the older form.
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
        hint = nearest(name, names)
        raise document.error((), f"no experiment {name!r}; it holds {', '.join(names)}{hint}")
    result = Document({"name": _as_name(name)}, document.source)
    result.lines[("name",)] = document.lines[(name,)]
    # `config` first: `env` may then be put into it.
    entries = sorted(document.data[name].items(), key=lambda item: item[0] != "config")
    for key, value in entries:
        place: KeyPath = (name, key)
        if key not in _KEYS:
            hint = nearest(key, _KEYS)
            raise document.error(
                place,
                f"unknown key {key!r} of an experiment; allowed: {', '.join(_KEYS)}{hint}",
            )
        _move(document, place, value, result, _KEYS[key])
    return result


def _move(
    source: Document, place: KeyPath, value: Any, target: Document, path: tuple[str, ...]
) -> None:
    parent = target.data
    for key in path[:-1]:
        parent = parent.setdefault(key, {})
        if not isinstance(parent, dict):
            raise source.error(place, f"{key} is {parent!r}, not a mapping")
    if path[-1] in parent:
        raise source.error(place, f"{place[-1]!r} is given twice (also as {'.'.join(path)})")
    parent[path[-1]] = value
    for known, written in source.lines.items():
        if known[: len(place)] == place:
            target.lines[(*path, *known[len(place) :])] = written


def _as_name(name: str) -> str:
    """The experiment's name as a folder's: the older form used any text."""
    return "".join(c if c.isalnum() or c in "_.+-" else "-" for c in name).strip("-.+") or "sweep"
