"""The tables of `from_stable_baselines3.md` and `from_rllib.md`, made from the code.

Run `python -m trainables.peer_tables --write` after a change of settings or defaults; without
`--write` it prints the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainables import registry
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.reference.name_hints import setting_hint
from trainables.core.config.reference.other_libraries import SETTINGS
from trainables.core.config.reference.peer_defaults import RLLIB, RLLIB_VERSION, SB3, SB3_VERSION
from trainables.core.generated_part import GeneratedPart, row, run_command

_FOLDER = Path(__file__).parent


def sb3_tables() -> str:
    """What each argument of Stable-Baselines3's algorithms is here."""
    header = f"| There ({SB3_VERSION}) | Default | Here | Default | Mind |\n|---|---|---|---|---|"
    return "\n\n".join("\n".join([f"### {name}", "", header, *_sb3_rows(name)]) for name in SB3)


def rllib_table() -> str:
    """The defaults that differ from RLlib's."""
    header = f"| Setting | RLlib {RLLIB_VERSION} | Here |\n|---|---|---|"
    tables = []
    for name, theirs in RLLIB.items():
        config = _config(name)
        rows = [
            row(f"`{setting}`", f"`{value!r}`", f"`{_default(config, setting)!r}`")
            for setting, value in theirs.items()
            if _default(config, setting) != value
        ]
        tables.append("\n".join([f"### {name}", "", header, *rows]))
    return "\n\n".join(tables)


PARTS = [
    GeneratedPart(_FOLDER / page, "table", "trainables.peer_tables", make)
    for page, make in (("from_stable_baselines3.md", sb3_tables), ("from_rllib.md", rllib_table))
]


def _sb3_rows(name: str) -> Iterable[str]:
    config = _config(name)
    for theirs, default in SB3[name].items():
        setting, note = _counterpart(type(config), theirs)
        here = f"`{setting}`" if setting else "–"
        ours = f"`{_default(config, setting)!r}`" if setting else ""
        yield row(f"`{theirs}`", f"`{default!r}`", here, ours, note)


def _counterpart(config_class: type[AlgorithmConfig], theirs: str) -> tuple[str, str]:
    """The setting that a name of theirs stands for, "" for none, and what to mind."""
    if theirs in config_class.settings():
        return theirs, ""
    found = setting_hint(config_class, theirs)
    if found is None:
        raise LookupError(f"core/config/reference/other_libraries.py says nothing of {theirs}")
    if not found.path:
        return "", found.words
    hint = next((hint for hint in SETTINGS[theirs] if hint.setting == found.path), None)
    if hint is None or "it would be" in found.words:
        return "", found.words
    return found.path, "; ".join(
        f"`{hint.write}`" if part == hint.write else part
        for part in (hint.write, hint.note)
        if part
    )


def _config(name: str) -> AlgorithmConfig:
    config: AlgorithmConfig = registry.get_algorithm(name).config_class()
    return config


def _default(config: AlgorithmConfig, path: str) -> Any:
    """The default of a setting, or of one inside a dict of settings."""
    outer, _, inner = path.partition(".")
    if not inner:
        return config.settings()[outer].default
    resolved = getattr(config.resolve(), outer, None)  # of an algorithm's own defaults
    declared = config.nested_settings()[outer].settings()[inner]
    return declared.default if resolved is None else getattr(resolved, inner)


if __name__ == "__main__":
    run_command(PARTS)
