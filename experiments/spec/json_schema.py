"""A JSON schema of specs, with which editors complete and check them.

It is made from the same classes that read a spec, and adds what a file may also hold: `extends`,
`include`, `matrix`, shorthands and `${env:…}`. It is more lenient than reading: what the algorithm
makes of a setting, and which keys a file that is extended must have, is checked by `load_spec`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from analysis.results.searches import SEARCH_SYNONYMS
from experiments.spec.compose import KEYWORDS
from experiments.spec.matrix import EXCLUDE, FIXED, KEY, SHORT
from experiments.spec.scheduler_schema import SCHEDULERS
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import SEARCHES
from search_spaces.domains import BESIDE, DOMAINS, KINDS, TRANSFORMS
from trainables.registry import algorithm_names, get_algorithm

Schema = dict[str, Any]

_NULL: Schema = {"type": "null"}
_REFERENCE: Schema = {"$ref": "#/$defs/Reference"}
_FILES: Schema = {
    "description": "Files (or names of shipped specs) that this mapping is merged over.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}
_NO_SECTIONS = ("SweepSpec", "UserCallback", "WarmStart")  # `include` does not stand in these


def spec_schema() -> Schema:
    """Return the schema, draft 7, which editors support best."""
    schema = SweepSpec.model_json_schema()
    definitions: dict[str, Schema] = schema.pop("$defs")
    for models, synonyms in ((SEARCHES, SEARCH_SYNONYMS), (SCHEDULERS, {})):
        for name, model in models.items():
            names = [name, *(word for word, meant in synonyms.items() if meant == name)]
            definitions[model.__name__]["properties"]["algorithm"] = {"enum": names}
    properties: dict[str, Schema] = schema["properties"]
    properties["search"] = _tagged(properties["search"], [*SEARCHES, *SEARCH_SYNONYMS])
    properties["scheduler"] = _tagged(properties["scheduler"], list(SCHEDULERS))
    objective: Schema = {"$ref": "#/$defs/Objective"}
    _offer(properties, "objective", objective, {"type": "array", "items": objective})
    seed: Schema = {"type": "integer", "minimum": 0}
    _offer(properties, "seeds", {"type": "integer", "minimum": 1}, {"type": "array", "items": seed})
    callback: Schema = {"anyOf": [{"$ref": "#/$defs/UserCallback"}, {"type": "string"}]}
    properties["callbacks"] = {
        **properties["callbacks"],
        "anyOf": [{"type": "string"}, {"type": "array", "items": callback}],
    }
    for name, definition in definitions.items():
        definitions[name] = _as_written(definition)
        if name not in _NO_SECTIONS:
            definitions[name]["properties"] |= dict.fromkeys(KEYWORDS, _FILES)
    schema = _as_written(schema)
    schema["properties"] |= {
        "search_space": _search_space(properties["search_space"].get("description", "")),
        KEY: _matrix(),
        **dict.fromkeys(KEYWORDS, _FILES),
    }
    schema["allOf"] = [_settings_of(name, definitions) for name in algorithm_names()]
    definitions["Reference"] = {
        "description": "The value of an environment variable: ${env:NAME} or ${env:NAME:default}.",
        "type": "string",
        "pattern": r"\$\{env:[A-Za-z_][A-Za-z0-9_]*(:[^}]*)?\}",
    }
    definitions["Domain"] = _domain()
    definitions["Domains"] = _domains()
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A sweep of Tunescape",
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(spec_schema(), indent=1, ensure_ascii=False) + "\n"


def _tagged(schema: Schema, names: Iterable[str]) -> Schema:
    """Return a section that may be the name of its algorithm alone."""
    options = [{"enum": list(names)}, *schema["oneOf"]]
    return {"description": schema.get("description", ""), "anyOf": options}


def _offer(properties: dict[str, Schema], key: str, *more: Schema) -> None:
    """Let a key also have another form than its class has."""
    given = properties[key]
    options = given.pop("anyOf", None) or [{"$ref": given.pop("$ref")}]
    properties[key] = {**given, "anyOf": [*(o for o in options if o not in more), *more]}


def _as_written(schema: Schema) -> Schema:
    """Return a model's schema for what people write: nothing is required, `null` and references."""
    properties = {
        key: {**_lenient(value), **({"description": value["description"]} if "description" in value
                                    else {})}
        for key, value in schema["properties"].items()
    }  # fmt: skip
    kept = {"type": "object", "additionalProperties": False, "properties": properties}
    return kept | ({"description": schema["description"]} if "description" in schema else {})


def _lenient(schema: Schema) -> Schema:
    """Without titles and defaults of sections; with `null`, and references for what is no text."""
    options = [_value(option) for option in schema.get("anyOf", [schema])]
    if any(option.get("type") != "string" or "enum" in option for option in options):
        options.append(_REFERENCE)
    if _NULL not in options:
        options.append(_NULL)
    default = schema.get("default")
    plain = default is not None and not isinstance(default, (dict, list))
    return {"anyOf": options} | ({"default": default} if plain else {})


def _value(schema: Schema) -> Schema:
    """One form of a value, down to what its lists and mappings hold."""
    kept = {key: value for key, value in schema.items() if key not in ("title", "default")}
    kept.pop("description", None)
    if "prefixItems" in kept:
        kept["items"] = kept.pop("prefixItems")[0]
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = {"anyOf": [*kept[key].get("anyOf", [_value(kept[key])]), _REFERENCE]}
    return kept


def _domain() -> Schema:
    """Return a search domain: one kind, and what may stand beside it."""
    kinds = {
        kind: {"type": "array", "description": DOMAINS[kind].usage if kind in DOMAINS else ""}
        for kind in KINDS
    }
    beside: dict[str, Schema] = {key: {} for key in BESIDE}
    return {
        "type": "object",
        "properties": kinds | beside | {"transform": {"enum": list(TRANSFORMS)}},
        "additionalProperties": False,
        "minProperties": 1,
    }


def _domains() -> Schema:
    """Return a setting's search domain, or those of what it holds by key: `{left: {lr: …}}`."""
    nested = {"type": "object", "additionalProperties": {"$ref": "#/$defs/Domains"}}
    return {"anyOf": [{"$ref": "#/$defs/Domain"}, nested, _NULL]}


def _search_space(description: str) -> Schema:
    """Return the name of a space, or domains by setting; nested, or with dots."""
    space: Schema = {
        "type": "object",
        "properties": {
            "base": {
                "type": "string",
                "description": "A named search space that this one changes.",
            },
            **dict.fromkeys(KEYWORDS, _FILES),
        },
        "additionalProperties": {"$ref": "#/$defs/Domains"},
    }
    return {"description": description, "anyOf": [{"type": "string"}, space, _NULL]}


def _matrix() -> Schema:
    values: Schema = {"type": "array", "minItems": 1}
    variants: Schema = {"type": "object", "additionalProperties": {"type": "object"}}
    keys = [*SHORT, *(key for key in SweepSpec.model_fields if key not in FIXED)]
    return {
        "description": "One sweep for each combination of the listed values.",
        "type": "object",
        "properties": {
            **dict.fromkeys(keys, values),
            EXCLUDE: {"type": "array", "items": {"type": "object", "minProperties": 1}},
        },
        "additionalProperties": {"anyOf": [values, variants]},
    }


def _settings_of(name: str, definitions: dict[str, Schema]) -> Schema:
    """An algorithm's settings, for completion under `config`; older names are allowed, too."""
    settings = get_algorithm(name).config_class.settings()
    definitions[f"{name}Config"] = {
        "type": "object",
        "properties": {
            key: {"description": f"{setting.doc} ({setting.allowed})"}
            for key, setting in settings.items()
        },
    }
    chosen: Schema = {"properties": {"trainable": {"const": name}}}
    if name != SweepSpec.model_fields["trainable"].default:
        chosen["required"] = ["trainable"]
    config = {"anyOf": [{"$ref": f"#/$defs/{name}Config"}, _NULL]}
    return {"if": chosen, "then": {"properties": {"config": config}}}
