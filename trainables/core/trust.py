"""Trust: what a checkpoint may set and name where nobody vouches for it.

Allowed is what the settings' declarations say is harmless (see `setting`), and no more: code that
would be imported, processes, folders, environment variables and whatever else a declaration does
not vouch for are named in one error, with the entries of `trust` that would allow them.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from trainables.core.callables import UntrustedName, resolve_callable
from trainables.core.checkpoint import CheckpointError
from trainables.core.config.settings import CODE, Settings


class NotTrusted(CheckpointError):
    """A checkpoint asks for what is neither harmless nor trusted.

    Who is asked to load one raises it anew without a traceback: the text says all that is to be
    done, and where in our code it was found out is of no use to a user.
    """


class Doubt(NamedTuple):
    """A demand of a checkpoint that is not harmless by itself.

    Attributes:
        setting: The setting that asks for it, e.g. `model.custom_model`.
        value: The value of the setting.
        why: The harm that the value can do, in words.
        entry: The entry that `trust` needs: code itself, `module:name`, or else the setting.
    """

    setting: str
    value: Any
    why: str
    entry: str

    def is_settled(self, trust: Collection[str]) -> bool:
        """Return whether `trust` names it; a setting that is a dict stands for what is in it."""
        if self.why == CODE:
            return self.entry in trust
        names = self.entry.split(".")
        return any(".".join(names[:length]) in trust for length in range(1, len(names) + 1))


def doubts_of(
    settings_class: type[Settings],
    values: Mapping[str, Any],
    within: str = "",
    *,
    besides: Collection[str] = (),
) -> Iterator[Doubt]:
    """Yield what of a checkpoint's settings is not harmless.

    Args:
        settings_class: The class that declares the settings.
        values: Settings that have passed its `check`.
        within: The path of the dict that they are in, e.g. `model.`.
        besides: Names of settings that others judge. Names of code are found in them, too.
    """
    declared = settings_class.settings()
    for name, value in values.items():
        path, setting = f"{within}{name}", declared[name]
        named = list(untrusted_names(value))
        yield from (Doubt(path, code, CODE, code) for code in named)
        inside = settings_class.settings_inside(name)
        if name in besides or setting.is_harmless(value):
            continue
        if inside is not None and isinstance(value, dict):
            yield from doubts_of(inside, value, f"{path}.", besides=besides)
        elif setting.is_code:
            for code in _code_in(value):
                if not (code is None or callable(code) or code in named):
                    yield Doubt(path, code, CODE, code if isinstance(code, str) else path)
        elif not isinstance(value, UntrustedName):
            yield Doubt(path, value, setting.why_trust, path)


def refuse(doubts: Iterable[Doubt], trust: Collection[str], what: str) -> None:
    """Refuse what `trust` does not name.

    Raises:
        NotTrusted: naming all of it, and what `trust` would have to be.
    """
    trust = [trust] if isinstance(trust, str) else trust  # `in` would find its parts, too
    open_ones = [doubt for doubt in doubts if not doubt.is_settled(trust)]
    if not open_ones:
        return
    shown = list(dict.fromkeys(f"{d.setting} = {_short(d.value)} ({d.why})" for d in open_ones))
    entries = [str(entry) for entry in dict.fromkeys([*trust, *(d.entry for d in open_ones)])]
    raise NotTrusted(
        f"{what} asks for what needs trust: {'; '.join(shown)}. If you trust who made it, pass "
        f"trust={entries!r} (on the command line --trust, once for each)"
    )


def resolved(value: Any, trust: Collection[str], what: str) -> Any:
    """Return a checkpoint's value with the callables that it names; import what `trust` allows.

    Raises:
        CheckpointError: naming the callable that is not trusted.
        ConfigError: if there is no such callable.
    """
    if isinstance(value, UntrustedName):
        refuse([Doubt("a callable", value, CODE, value)], trust, what)
        return resolve_callable(str(value))
    if isinstance(value, dict):
        return {key: resolved(item, trust, what) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, trust, what) for item in value]
    return value


def untrusted_names(value: Any) -> Iterator[UntrustedName]:
    """Yield names of code anywhere in a value: callables when the checkpoint was written."""
    if isinstance(value, UntrustedName):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from untrusted_names(item)


def _code_in(value: Any) -> Iterator[Any]:
    """Yield what stands for code in a setting of code: itself, a dict's `type`, a list's items.

    What else such a dict holds are arguments of the code: who trusts it trusts what it is given.
    """
    if isinstance(value, list):
        for item in value:
            yield from _code_in(item)
    else:
        yield value["type"] if isinstance(value, dict) and "type" in value else value


class _Shortened(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200
        self.maxlong = 40

    def repr_UntrustedName(self, value: str, level: int) -> str:
        return self.repr_str(str(value), level)


_short = _Shortened().repr
