"""What bad inputs are told: the texts that the fixture `golden` compares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from trainables.core.errors import ConfigError

Golden = Callable[[str, Mapping[str, str]], None]


def refusals(
    act: Callable[..., object],
    cases: Mapping[str, Any] | Iterable[Any],
    *kinds: type[Exception],
    replace: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the text of the error of each case, a case's own text before it.

    Args:
        act: Called with a case, with several arguments where that is a tuple.
        cases: By their text, or alone: then it is their `repr`.
        *kinds: The classes of errors; `ConfigError` if none is given.
        replace: Texts that differ from run to run, and what stands for each.

    Raises:
        AssertionError: Some are allowed; with the list of them.
    """
    texts: dict[str, str] = {}
    allowed = []
    expected = kinds or (ConfigError,)
    named = cases.items() if isinstance(cases, Mapping) else ((repr(case), case) for case in cases)
    for given, case in named:
        name = _plain(given)
        while name in texts:  # two functions without a name
            name += "'"
        try:
            act(*(case if isinstance(case, tuple) else (case,)))
        except expected as error:
            text = re.sub(r" at 0x[0-9a-f]+", "", str(error))
            for what, by in (replace or {}).items():
                text = text.replace(what, by)
            texts[name] = text
        else:
            allowed.append(name)
    if allowed:
        pytest.fail("allowed:\n" + "\n".join(allowed))
    return texts


def _plain(text: str) -> str:
    """Return a text on one line, without addresses."""
    return re.sub(r"\s+", " ", re.sub(r" at 0x[0-9a-f]+", "", text))
