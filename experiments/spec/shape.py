"""The shape of a spec: its keys, shorthands, types and ranges."""

from __future__ import annotations

import re
import typing
from typing import Any

from pydantic import BaseModel, ValidationError

from analysis.results.searches import SEARCH_SYNONYMS
from experiments.spec.compose import KEYWORDS
from experiments.spec.matrix import KEY
from experiments.spec.pairs import BOHB
from experiments.spec.scheduler_schema import SCHEDULERS
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import SEARCHES
from experiments.spec.section import MAX_SEEDS, Section
from experiments.spec.trainable import resolve_trainable
from search_spaces.documents import Document, KeyPath, SpecError
from search_spaces.loader import (
    Preset,
    known_preset_names,
    load_preset,
    space_names,
    spaces_by_trainable,
)
from search_spaces.space import SearchSpace, SpaceKeyError
from trainables import registry
from trainables.core.config.reference.planned import whats_become_of
from trainables.core.suggestions import did_you_mean, nearest_name, suggestion

_TAGGED: dict[str, dict[str, type[Section]]] = {"search": SEARCHES, "scheduler": SCHEDULERS}
_FIELDS = SweepSpec.model_fields
_LENGTH = "stop: {num_env_steps_sampled_lifetime: …}"
# What other tools call a key of the spec.
_CALLED_HERE = {
    **dict.fromkeys(("algo", "algorithm", "run", "agent"), "trainable"),
    **dict.fromkeys(("total_timesteps", "n_timesteps", "num_timesteps", "timesteps"), _LENGTH),
    **dict.fromkeys(("n_trials", "num_trials"), "num_samples"),
    **dict.fromkeys(("search_alg", "searcher", "sampler"), "search"),
    **dict.fromkeys(("param_space", "parameters"), "search_space, and config for fixed settings"),
    **dict.fromkeys(("local_dir", "storage_path"), "storage"),
    **dict.fromkeys(("max_concurrent_trials", "n_jobs"), "max_concurrent"),
    "checkpoint_freq": "checkpoint: {frequency: …}",
    "pruner": "scheduler",
    "timeout": "time_budget_s",
}
# What other tools call a search that is here under other names: too unlike them to be found.
_ALSO_CALLED = {
    "search": {
        **dict.fromkeys(("bayes", "bayesopt", "bayesian", "bo", "hyperopt"), ("tpe", "gp")),
        **dict.fromkeys(("skopt", "botorch", "ax"), ("gp", "tpe")),
        **dict.fromkeys(("evolution", "genetic", "nevergrad"), ("cmaes", "nsga2")),
    }
}
_SYNONYMS: dict[str, dict[str, str]] = {"search": SEARCH_SYNONYMS, "scheduler": {}}


def expand_shorthands(document: Document) -> None:
    """Write in full `search: tpe`, `seeds: 5`, several objectives, a single seed, callbacks."""
    for key, known in _TAGGED.items():
        _expand_algorithm(document, key, known, _SYNONYMS[key])
    _expand_seeds(document)
    _expand_objectives(document)
    _expand_callbacks(document)


def _expand_algorithm(
    document: Document, key: str, known: dict[str, type[Section]], synonyms: dict[str, str]
) -> None:
    value = document.data.get(key)
    if isinstance(value, str):
        value = document.data[key] = {"algorithm": value}
    if key not in document.data:
        return
    if not isinstance(value, dict):
        raise document.error(
            (key,), f"{key} = {value!r} is not allowed; allowed: {', '.join(known)}, or a mapping "
            "with one of them as its algorithm"
        )  # fmt: skip
    name = value.get("algorithm")
    if isinstance(name, str):
        name = value["algorithm"] = synonyms.get(name, name)
    if not isinstance(name, str) or name not in known:
        place = (key, "algorithm") if "algorithm" in value else (key,)
        if name == "bohb":
            raise document.error(place, f"{key}: {BOHB}")
        problem = f"unknown {key} algorithm {name!r}" if name else "missing key 'algorithm'"
        likely = nearest_name(name, (*known, *synonyms))
        meant = _ALSO_CALLED.get(key, {}).get(str(name).lower())
        hint = did_you_mean(meant or ([synonyms.get(likely, likely)] if likely else []))
        raise document.error(place, f"{key}: {problem}; allowed: {', '.join(known)}{hint}")


def _expand_seeds(document: Document) -> None:
    """`seeds: 5` are the seeds 0 to 4 after `seed`; a single seed is `seed`."""
    data = document.data
    seeds = data.get("seeds")
    options: dict[str, Any] = {}
    if isinstance(seeds, dict):
        options, seeds = seeds, seeds.get("values")
    if isinstance(seeds, bool) or (isinstance(seeds, int) and seeds < 1):
        raise document.error(
            ("seeds",), f"seeds = {seeds!r} is not allowed; allowed: a number of seeds above 0, "
            "a list of seeds, or a mapping with values and parallel"
        )  # fmt: skip
    if isinstance(seeds, int) and seeds > MAX_SEEDS:  # before they are listed
        raise document.error(
            ("seeds",), f"seeds = {seeds} is not allowed; allowed: at most {MAX_SEEDS} seeds"
        )
    if isinstance(seeds, int):
        first = data.get("seed") or 0
        seeds = [first + number for number in range(seeds)] if isinstance(first, int) else [0]
    if not isinstance(seeds, list):
        return
    if len(seeds) == 1 and not options:
        if data.setdefault("seed", seeds[0]) != seeds[0]:
            raise document.error(("seeds",), f"seeds = {seeds} and seed = {data['seed']!r} differ")
        data["seeds"] = None
    else:
        data["seeds"] = {**options, "values": seeds}


def _expand_objectives(document: Document) -> None:
    data = document.data
    if isinstance(data.get("objective"), list):
        if "objectives" in data:
            raise document.error(("objectives",), "objectives is given twice: see objective")
        data["objectives"] = data.pop("objective")
        document.copy_places(("objective",), ("objectives",))
    objectives = data.get("objectives")
    if not isinstance(objectives, list) or not objectives:
        return
    if data.setdefault("objective", objectives[0]) != objectives[0]:
        raise document.error(
            ("objective",), "objective is the first of objectives; write only one of the two"
        )


def _expand_callbacks(document: Document) -> None:
    """`callbacks: module:Class`, alone or in a list, is one that is made without arguments."""
    given = document.data.get("callbacks")
    if isinstance(given, str):
        given = [given]
    if isinstance(given, list):
        document.data["callbacks"] = [
            {"class": entry} if isinstance(entry, str) else entry for entry in given
        ]


def take_space_by_name(document: Document) -> SearchSpace:
    """Return the space that `search_space: ppo` or its key `base` names; changes stay in place."""
    value = document.data.get("search_space")
    place: KeyPath = ("search_space",)
    if isinstance(value, dict) and "base" in value:
        place = ("search_space", "base")
        name = value.pop("base")
        removed = {key for key, entry in value.items() if entry is None}
    elif isinstance(value, str):
        name, removed = value, set()
        document.data["search_space"] = {}
    else:
        return SearchSpace()
    if not isinstance(name, str):
        raise document.error(place, f"{name!r} is not the name of a search space")
    preset = _preset(document, place, name)
    for key in removed:
        if key not in preset.space.keys:
            hint = suggestion(key, preset.space.keys)
            raise document.error(
                ("search_space", key), f"{key!r} is not in the search space {name!r}{hint}"
            )
        del document.data["search_space"][key]
    space = preset.space.without(removed)
    _check_fit(document, place, preset, space)
    return space


def _preset(document: Document, place: KeyPath, name: str) -> Preset:
    """Return the named space; the name of a preset alone is one of the trainable's own space."""
    try:
        if name in known_preset_names():
            own = _own_space(trainable_of(document))
            if own is None:
                raise SpecError(
                    f"{name!r} is a preset of the trainable's own search space, and "
                    f"{document.data['trainable']} has none; allowed: "
                    f"{', '.join(space_names())}, or the path of a .yaml file"
                )
            name = f"{own}/{name}"
        else:
            _refuse_misspelt_preset(document, name)
        return load_preset(name)
    except SpecError as error:
        raise document.error(place, str(error)) from None


def _refuse_misspelt_preset(document: Document, name: str) -> None:
    """A preset alone is a name in a spec, and nowhere else: only here is it a likely one."""
    known = (*space_names(), *known_preset_names())
    likely = nearest_name(name.lower(), known)
    if likely not in known_preset_names() or "/" in name:
        return
    if _own_space(trainable_of(document)) is not None:
        raise SpecError(
            f"unknown search space {name!r}; allowed: {', '.join(known)}{did_you_mean([likely])}"
        )


def _own_space(trainable: type) -> str | None:
    """Return the search space of the algorithm that the trainable is, or extends."""
    spaces = spaces_by_trainable()
    for base in trainable.__mro__:
        if base.__name__ in spaces and base.__module__.partition(".")[0] == "trainables":
            return spaces[base.__name__]
    return None


def _check_fit(document: Document, place: KeyPath, preset: Preset, space: SearchSpace) -> None:
    """Whether a named space's settings are the trainable's."""
    config_class = config_class_of(document)
    if config_class is None:
        return
    try:
        space.check(config_class)
    except SpaceKeyError as error:
        trainable = trainable_of(document)
        own = _own_space(trainable)
        made_for = f" is for {preset.trainable}" if preset.trainable else ""
        hint = did_you_mean([own] if own else [])
        raise document.error(
            place,
            f"the search space {preset.name!r}{made_for} and does not fit "
            f"{trainable.__name__}: {error}{hint}",
        ) from None


def require_known_keys(document: Document) -> None:
    """Refuse unknown top-level keys, before anything below them is looked at."""
    for key in document.data:
        if key not in _FIELDS:
            raise document.error((key,), _unknown_key(document, key, [*_FIELDS, *KEYWORDS, KEY]))


def _unknown_key(document: Document, key: str, known: list[str]) -> str:
    if key in _CALLED_HERE:
        here = _CALLED_HERE[key]
        words = whats_become_of(str(document.data[key])) if here == "trainable" else None
        return f"unknown key {key!r}; here it is {here}" + (f", and {words}" if words else "")
    sections = {name: _section_in(field.annotation) for name, field in _FIELDS.items()}
    for name, section in sections.items():
        if section is not None and key in section.model_fields:
            return f"unknown key {key!r}; it is a key of {name}: write {name}: {{{key}: …}}"
    likely = suggestion(key, known, cutoff=0.8)
    if likely:
        return f"unknown key {key!r}; allowed: {', '.join(known)}{likely}"
    try:
        config_class = config_class_of(document)
        settings = list(config_class.settings()) if config_class is not None else []
    except (SpecError, AttributeError):
        config_class, settings = None, []
    if key in settings:
        return f"unknown key {key!r}; it is a setting of the trainable: write it under config"
    likely = suggestion(key, known)
    if config_class is not None and not likely:
        likely = config_class.hint(key)
        if likely:
            return f"unknown key {key!r} of a spec; a setting belongs under config{likely}"
    return f"unknown key {key!r}; allowed: {', '.join(known)}{likely}"


def require_mapping(document: Document, key: str) -> None:
    """Make an absent section an empty one; refuse anything but a mapping."""
    value = document.data.get(key)
    if value is None:
        document.data[key] = {}
    elif not isinstance(value, dict):
        raise document.error((key,), f"{key} = {value!r} is not a mapping")


def trainable_of(document: Document) -> type:
    """Return the class that the spec names."""
    name = document.data.get("trainable", SweepSpec.model_fields["trainable"].default)
    try:
        return resolve_trainable(name)
    except ValueError as error:
        raise document.error(("trainable",), f"trainable: {error}") from None


def config_class_of(document: Document) -> Any:
    """Return the class of the trainable's settings, None if it declares none.

    An algorithm need not be imported for that: see `trainables.registry.config_class_of`.
    """
    name = document.data.get("trainable", SweepSpec.model_fields["trainable"].default)
    if isinstance(name, str) and name in registry.algorithm_names():
        return registry.config_class_of(name)
    return getattr(trainable_of(document), "config_class", None)


def validate(document: Document) -> SweepSpec:
    """Check types and ranges of every key; the error is the first in the file's order."""
    try:
        return SweepSpec.model_validate(document.data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    located = [(_data_path(document.data, problem), problem) for problem in problems]
    # A misspelt key is also a missing one: the misspelling is the one to name.
    path, problem = min(
        located, key=lambda item: (document.place(item[0]), item[1]["type"] == "missing")
    )
    same = [other for where, other in located if where == path and other is not problem]
    words = "".join(f", or {_choices(p)}" for p in same if p["type"] == "literal_error")
    others = len(problems) - 1 - len(same)
    more = f" (and {others} more)" if others else ""
    raise document.error(path, _describe(path, problem) + words + more)


def _data_path(data: Any, problem: Any) -> KeyPath:
    """Pydantic's location without what is not in the data: the tags and types of its unions."""
    path: list[str | int] = []
    *_, last = location = problem["loc"]
    for part in location:
        inside = isinstance(data, dict) and part in data
        if inside or (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            data = data[part]
            path.append(part)
        elif part is last and problem["type"] == "missing":
            path.append(part)
    return tuple(path)


def _describe(path: KeyPath, problem: Any) -> str:
    dotted = ".".join(str(part) for part in path)
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        known = _fields_at(path[:-1], problem["loc"])
        where = ".".join(str(part) for part in path[:-1])
        hint = suggestion(path[-1], known)
        return f"{where}: unknown key {path[-1]!r}; allowed: {', '.join(known)}{hint}"
    if kind == "missing" and isinstance(path[-1], str):
        known = _fields_at(path[:-1], problem["loc"])
        return f"missing key {dotted!r}; allowed: {', '.join(known)}"
    if kind in ("model_type", "model_attributes_type"):
        known = _fields_at(path, problem["loc"])
        return f"{dotted} = {value!r} is not allowed; allowed: a mapping of {', '.join(known)}"
    if kind == "literal_error":
        hint = suggestion(value, _choices(problem).split(", "), cutoff=0.4)
        return f"{dotted} = {value!r} is not allowed; allowed: {_choices(problem)}{hint}"
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    verb = "allowed" if problem["msg"].startswith("Input should be ") else "error"
    return f"{dotted} = {value!r} is not allowed; {verb}: {message}"


def _choices(problem: Any) -> str:
    return ", ".join(re.findall(r"'([^']*)'", problem["ctx"]["expected"]))


def _fields_at(path: KeyPath, location: tuple[str | int, ...]) -> list[str]:
    """Return the keys of the section at `path`, or of the sections in the list there."""
    model: Any = SweepSpec
    for depth, key in enumerate(path):
        if isinstance(key, int):  # the list's own annotation has given the model of its items
            continue
        if key in _TAGGED and depth == 0:
            if len(location) == 1:  # a word: in a spec that is read as it was saved
                return ["algorithm"]
            model = _TAGGED[str(key)][str(location[1])]
        else:
            model = _section_in(model.model_fields[key].annotation)
    return [field.alias or name for name, field in model.model_fields.items()]


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section that an annotation holds: `Final | None`, `list[WarmStart]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_section_in(option) for option in typing.get_args(annotation))
    return next((found for found in inner if found is not None), None)
