"""The tables of the guides for those who come from RLlib and Stable-Baselines3, from the code.

Run `python -m experiments.benchmarks.peer_tables --write` after a change of settings or defaults;
without `--write` it prints the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks.peer_defaults import (
    CLEANRL,
    RLLIB,
    RLLIB_ALGORITHMS,
    RLLIB_VERSION,
    SB3,
    SB3_ALGORITHMS,
    SB3_VERSION,
)
from trainables import registry
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.reference import compatibility, uncalled_hooks
from trainables.core.config.reference.name_hints import setting_hint
from trainables.core.config.reference.other_libraries import SETTINGS
from trainables.core.config.reference.planned import whats_become_of
from trainables.core.generated_part import GeneratedPart, anchor, row, run_command

_FOLDER = Path(registry.__file__).parent / "guides"
_HOOKS = {
    "Learner": uncalled_hooks.LEARNER,
    "Algorithm": uncalled_hooks.ALGORITHM,
    "AlgorithmConfig": uncalled_hooks.CONFIG,
    "Policy": uncalled_hooks.POLICY,
    "RLModule, TorchModelV2": uncalled_hooks.MODULE,
    "EnvRunner, RolloutWorker": uncalled_hooks.ENV_RUNNER,
}


def sb3_tables() -> str:
    """Return what each argument of Stable-Baselines3's algorithms is here."""
    header = f"| There ({SB3_VERSION}) | Default | Here | Default | Note |\n|---|---|---|---|---|"
    rows = {name: list(_sb3_rows(name)) for name in SB3}
    return _tables_with_shared(header, rows)


def cleanrl_table() -> str:
    """Return what the arguments of CleanRL's PPO are here."""
    config_class = type(_config("PPO"))
    rows = []
    for theirs in CLEANRL:
        setting, note = _counterpart(config_class, theirs)
        rows.append(row(f"`{theirs}`", f"`{setting}`" if setting else "–", note))
    return "\n".join(["| There | Here | Note |", "|---|---|---|", *rows])


def rllib_table() -> str:
    """Return the defaults that differ from RLlib's."""
    header = f"| Setting | RLlib {RLLIB_VERSION} | Here |\n|---|---|---|"
    rows = {name: list(_rllib_rows(name)) for name in RLLIB}
    return _tables_with_shared(header, rows)


def algorithms_table(names: Sequence[str]) -> str:
    """Return what becomes of another library's algorithms; the same answer shares a row."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_become_of(name), []).append(name)
    rows = [row(_code(theirs), here) for here, theirs in groups.items()]
    return "\n".join(["| There | Here |", "|---|---|", *rows])


def sections_table() -> str:
    """Return how many names each section of a config has, by what becomes of them."""
    rows = []
    declared = AlgorithmConfig.settings()
    for section in (name for name in vars(AlgorithmConfig) if name in _sections()):
        title = f"`.{section}()`"
        own = [name for name, setting in declared.items() if setting.section == section]
        older = [new for new in compatibility.ALIASES.values() if new in own]
        tables = (compatibility.CONSTANTS, compatibility.PLANNED, compatibility.REFUSED)
        counts = [sum(entry.section == section for entry in table.values()) for table in tables]
        cells = [str(count or "") for count in (len(own), len(older), *counts)]
        rows.append(row(f"[{title}](../settings.md#{anchor(title)})", *cells))
    header = row("Section", "Settings", "Older names", "Always so", "Planned", "Refused")
    return "\n".join([header, "|---|--:|--:|--:|--:|--:|", *rows])


def hooks_table() -> str:
    """Return the methods of RLlib's classes that nothing calls here, and what to do instead."""
    rows = []
    for owner, hooks in _HOOKS.items():
        groups: dict[str, list[str]] = {}
        for name, instead in hooks.items():
            groups.setdefault(instead, []).append(name)
        classes = _code(owner.split(", "))
        rows += [row(classes, _code(names), instead) for instead, names in groups.items()]
    return "\n".join(["| Class | Methods | Instead |", "|---|---|---|", *rows])


PARTS = [
    GeneratedPart(
        _FOLDER / f"from_{page}.md", name, "experiments.benchmarks.peer_tables", make, least_rows
    )
    for page, name, make, least_rows in (
        ("rllib", "algorithms", lambda: algorithms_table(RLLIB_ALGORITHMS), 10),
        ("rllib", "sections", sections_table, 15),
        ("rllib", "table", rllib_table, 25),
        ("rllib", "hooks", hooks_table, 25),
        ("stable_baselines3", "algorithms", lambda: algorithms_table(SB3_ALGORITHMS), 5),
        ("stable_baselines3", "table", sb3_tables, 50),
        ("cleanrl", "table", cleanrl_table, 15),
    )
]


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _become_of(name: str) -> str:
    if name in registry.algorithm_names():
        return "the same"
    found = whats_become_of(name)
    if found is None:
        raise LookupError(f"core/config/reference/planned.py says nothing of {name}")
    if found.startswith(f"{name} ("):
        return "planned"
    return found.removeprefix(f"{name} is not in Tunescape").lstrip(":; ")


def _sections() -> set[str]:
    used = {setting.section for setting in AlgorithmConfig.settings().values()}
    for table in (compatibility.CONSTANTS, compatibility.PLANNED, compatibility.REFUSED):
        used |= {entry.section for entry in table.values()}
    return used


def _tables_with_shared(header: str, rows: Mapping[str, Sequence[str]]) -> str:
    """Return a table for each algorithm, before them one of the rows that all have."""
    first, *others = rows.values()
    shared = [line for line in first if all(line in lines for lines in others)]
    tables = {"All": shared}
    for name, lines in rows.items():
        tables[name] = [line for line in lines if line not in shared]
    return "\n\n".join("\n".join([f"### {n}", "", header, *lines]) for n, lines in tables.items())


def _rllib_rows(name: str) -> Iterable[str]:
    config = _config(name)
    for setting, value in RLLIB[name].items():
        ours = _default(config, setting)
        if ours != value:
            yield row(f"`{setting}`", f"`{value!r}`", f"`{ours!r}`")


def _sb3_rows(name: str) -> Iterable[str]:
    config = _config(name)
    for theirs, default in SB3[name].items():
        setting, note = _counterpart(type(config), theirs)
        here = f"`{setting}`" if setting else "–"
        ours = f"`{_default(config, setting)!r}`" if setting else ""
        yield row(f"`{theirs}`", f"`{default!r}`", here, ours, note)


def _counterpart(config_class: type[AlgorithmConfig], theirs: str) -> tuple[str, str]:
    """Return the setting that a name of theirs stands for, "" for none, and what to mind."""
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
    """Return the default of a setting, or of one inside a dict of settings."""
    outer, _, inner = path.partition(".")
    if not inner:
        return config.settings()[outer].default
    resolved = getattr(config.resolve(), outer, None)  # of an algorithm's own defaults
    declared = config.nested_settings()[outer].settings()[inner]
    return declared.default if resolved is None else getattr(resolved, inner)


if __name__ == "__main__":
    run_command(PARTS)
