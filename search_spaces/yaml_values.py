"""What plain scalars in YAML mean here: YAML 1.2's reading, and none where people expect two.

PyYAML reads YAML 1.1, in which `3e-4` is text, `1:30` the number 90 and `2024-01-01` a date. What
the versions read as two different values, neither of which would be noticed, is refused.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

try:  # of the C library that PyYAML's wheels hold: thirty times as fast
    from yaml import CSafeLoader as _SafeLoader
except ImportError:
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

_TAG = "tag:yaml.org,2002:"
_TRUTH = "!truth"
_OCTAL = "!octal"
_KEPT = (f"{_TAG}null", f"{_TAG}merge")  # of YAML 1.1's readings

_RESOLVERS = (
    (f"{_TAG}bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    # Underscores are Python's.
    (f"{_TAG}int", r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)", "-+0123456789"),
    (
        f"{_TAG}float",
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        "-+0123456789.",
    ),
    (_TRUTH, r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF", "yYnNoO"),
    (_OCTAL, r"[-+]?0[0-7_]+", "-+0"),
)


class Loader(_SafeLoader):
    """PyYAML's safe loader with these readings."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _KEPT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that either version of YAML, or this reader, would read as a number."""


for _tag, _pattern, _first in _RESOLVERS:
    _whole = re.compile(f"^(?:{_pattern})$")
    Loader.add_implicit_resolver(_tag, _whole, list(_first))
    _Dumper.add_implicit_resolver(_tag, _whole, list(_first))


def dump_yaml(data: Any) -> str:
    """Write plain data as YAML that `search_spaces.documents.parse` reads back."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def dump_flow(data: Any) -> str:
    """Return plain data as YAML on one line: `{lr: {loguniform: [0.001, 0.1]}}`."""
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=True,
        width=float("inf"),
    )
    return text.rstrip("\n")


def why_ambiguous(node: yaml.ScalarNode) -> str | None:
    """Say why a scalar is refused: YAML's versions read it differently; None if they do not."""
    text = node.value
    if node.tag == _TRUTH:
        value = str(text.lower() in ("yes", "on")).lower()
        return f"{text} is {value} in YAML 1.1 and text in YAML 1.2; write {value}, or {text!r}"
    if node.tag == _OCTAL:
        digits = text.replace("_", "")
        octal, decimal = int(digits, 8), int(digits)
        return (
            f"{text} is {octal} in YAML 1.1, as octal, and {decimal} in YAML 1.2; write one of the "
            f"two, or {text!r}"
        )
    return None
