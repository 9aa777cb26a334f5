"""Several sweeps from one spec: `matrix: {env: [CartPole-v1, Acrobot-v1], trainable: [PPO, DQN]}`.

A key is one of the spec's (`env` is short for `config.env`) with a list of values, or any name with
a mapping of variants, each a piece of a spec:

    matrix:
      env: [CartPole-v1, Acrobot-v1]
      agent:
        ppo: {trainable: PPO, config: {num_epochs: 4}}
        dqn: {trainable: DQN, config: {n_step: 3}}
      exclude: [{env: Acrobot-v1, agent: dqn}]

Each combination is merged over the rest of the spec, as a file that extends it would be, and named
after its values: `<name>/CartPole-v1-ppo`.
"""

from __future__ import annotations

import itertools
import math
import re
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from experiments.spec.compose import copy_places, merge
from experiments.spec.schema import SweepSpec
from experiments.spec.section import shown_count
from search_spaces.documents import Document, KeyPath
from trainables.core.suggestions import suggestion

KEY = "matrix"
EXCLUDE = "exclude"
SHORT = {"env": "config.env"}
FIXED = ("name", "storage", "resources")  # of the matrix as a whole
MAX_SWEEPS = 500
MAX_WRITTEN = 1_000_000
"""Keys and items of all the sweeps' specs together."""
_SELF_EXPLAINING = ("config.env", "trainable", "search", "scheduler", "search_space")


@dataclass(frozen=True)
class Axis:
    """One key of a matrix.

    Attributes:
        key: The key as it is written.
        path: The key of the spec that it sets; empty for variants, which are pieces of a spec.
        choices: The values as `exclude` writes them.
        labels: Each value's part of the sweep's name.
        values: What is merged into the spec at `path`.
        origins: The place of each value in the document.
    """

    key: str
    path: tuple[str, ...]
    choices: list[Any]
    labels: list[str]
    values: list[Any]
    origins: list[KeyPath]


def expand_matrix(document: Document) -> list[Document]:
    """Return the document of each combination; the document itself if it has no matrix.

    Raises:
        SpecError: A key of the matrix is none of the spec's, or no combination is left.
    """
    if KEY not in document.data:
        return [document]
    matrix = document.data[KEY]
    if not isinstance(matrix, dict):
        raise document.error((KEY,), f"{KEY} = {matrix!r} is not a mapping of keys to lists")
    _check_size(document, matrix)
    axes = [_axis(document, key, values) for key, values in matrix.items() if key != EXCLUDE]
    if not axes:
        raise document.error((KEY,), f"{KEY} has no key; write e.g. trainable: [PPO, DQN]")
    excluded = _exclusions(document, axes, matrix.get(EXCLUDE, []))
    found: list[Document] = []
    names: set[str] = set()
    for indices in itertools.product(*(range(len(axis.choices)) for axis in axes)):
        chosen = {axis.key: axis.choices[i] for axis, i in zip(axes, indices, strict=True)}
        if any(entry.items() <= chosen.items() for entry in excluded):
            continue
        label = "-".join(axis.labels[i] for axis, i in zip(axes, indices, strict=True))
        if label in names:  # values that look the same as text, such as 1 and "1"
            label += "-" + "-".join(str(i + 1) for i in indices)
        names.add(label)
        found.append(_combination(document, axes, indices, label))
    if not found:
        raise document.error((KEY, EXCLUDE), f"{KEY}.{EXCLUDE} leaves no combination")
    return found


def _check_size(document: Document, matrix: dict[str, Any]) -> None:
    """Refuse more sweeps than a matrix may have, before any is made."""
    listed = [values for key, values in matrix.items() if key != EXCLUDE]
    count = math.prod(len(values) for values in listed if isinstance(values, (list, dict)))
    if count > MAX_SWEEPS:
        raise document.error(
            (KEY,),
            f"{KEY}: its keys have {shown_count(count)} combinations; allowed: at most "
            f"{MAX_SWEEPS:,}, those under {EXCLUDE} included",
        )
    if count * len(document.lines) > MAX_WRITTEN:
        raise document.error(
            (KEY,),
            f"{KEY}: {count:,} combinations of a spec with {len(document.lines):,} keys and items; "
            f"allowed: at most {MAX_WRITTEN:,} in all",
        )


def _axis(document: Document, key: str, values: Any) -> Axis:
    place = (KEY, key)
    path = tuple(SHORT.get(key, key).split("."))
    known = [*SHORT, *SweepSpec.model_fields]
    if path[0] not in known:
        if isinstance(values, dict):
            return _variants(document, key, values)
        allowed = [name for name in known if name not in FIXED]
        raise document.error(
            place,
            f"{KEY}: unknown key {key!r}; allowed: {', '.join(allowed)}, a dotted key such as "
            "config.lr, or any name with a mapping of variants"
            f"{suggestion(path[0], [*allowed, EXCLUDE])}",
        )
    if path[0] in FIXED:
        raise document.error(place, f"{KEY}: {path[0]} is one for all sweeps of a matrix")
    if not isinstance(values, list) or not values:
        raise document.error(place, f"{KEY}.{key} = {values!r} is not a list of values")
    for index, value in enumerate(values):
        if value in values[:index]:
            raise document.error((*place, index), f"{KEY}.{key}: {value!r} is listed twice")
    for given in document.settings:
        if given[: len(path)] == path[: len(given)]:
            raise document.error(given, f"{'.'.join(path)} is given by {KEY}.{key}; set that")
    labels = [_label(path, value, index + 1) for index, value in enumerate(values)]
    return Axis(key, path, values, labels, values, [(*place, i) for i in range(len(values))])


def _variants(document: Document, key: str, values: dict[str, Any]) -> Axis:
    place = (KEY, key)
    if not values:
        raise document.error(place, f"{KEY}.{key} has no variant")
    for name, piece in values.items():
        here = (*place, name)
        if not isinstance(piece, dict):
            raise document.error(here, f"{KEY}.{key}.{name} = {piece!r} is not a mapping of keys")
        for inner in piece:
            if inner in FIXED:
                raise document.error(
                    (*here, inner), f"{KEY}: {inner} is one for all sweeps of a matrix"
                )
    names = list(values)
    labels = [_as_label(name) or str(index + 1) for index, name in enumerate(names)]
    return Axis(key, (), names, labels, list(values.values()), [(*place, name) for name in names])


def _label(path: tuple[str, ...], value: Any, number: int) -> str:
    """Return a value as a part of a folder's name; `number` for what has no short text."""
    if isinstance(value, dict):
        value = value.get("algorithm", number)
    elif isinstance(value, list):
        value = number
    text = _as_label(str(value).rpartition(":")[2]) or str(number)  # of `module:Class`, the class
    return text if ".".join(path) in _SELF_EXPLAINING else f"{path[-1]}_{text}"


def _as_label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).strip("-.")


def _exclusions(document: Document, axes: list[Axis], entries: Any) -> list[dict[str, Any]]:
    place: KeyPath = (KEY, EXCLUDE)
    if not isinstance(entries, list):
        raise document.error(place, f"{KEY}.{EXCLUDE} = {entries!r} is not a list")
    by_key = {axis.key: axis for axis in axes}
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not entry:
            raise document.error((*place, index), f"{KEY}.{EXCLUDE}: {entry!r} is not a mapping")
        for key, value in entry.items():
            here = (*place, index, key)
            if key not in by_key:
                raise document.error(
                    here,
                    f"{KEY}.{EXCLUDE}: {key!r} is no key of the matrix; allowed: "
                    f"{', '.join(by_key)}{suggestion(key, by_key)}",
                )
            if value not in by_key[key].choices:
                known = [str(item) for item in by_key[key].choices]
                raise document.error(
                    here,
                    f"{KEY}.{EXCLUDE}: {key} = {value!r} is none of its values; allowed: "
                    f"{', '.join(known)}{suggestion(value, known)}",
                )
    return entries


def _combination(
    document: Document, axes: list[Axis], indices: tuple[int, ...], label: str
) -> Document:
    result = Document(
        {key: deepcopy(value) for key, value in document.data.items() if key != KEY},
        document.source,
        dict(document.lines),
        dict(document.settings),
    )
    for axis, index in zip(axes, indices, strict=True):
        merge(result, _over(document, axis, index))
        origin = axis.origins[index]
        for given, text in document.settings.items():
            if given == origin[: len(given)]:
                result.settings[axis.path] = text
    result.data["name"] = f"{document.data['name']}/{label}"
    return result


def _over(document: Document, axis: Axis, index: int) -> Document:
    """One value of an axis as a document that sets nothing else."""
    data: Any = deepcopy(axis.values[index])
    for key in reversed(axis.path):
        data = {key: data}
    over = Document(data, document.source)
    origin = axis.origins[index]
    for depth in range(1, len(axis.path)):
        over.lines[axis.path[:depth]] = document.place(origin)
    copy_places(document, origin, over, axis.path)
    return over
