"""PettingZoo's games by name: `classic.tictactoe_v3` is a module, and only modules of games are.

A name comes from a spec or a checkpoint, so nothing else may be imported by one.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import warnings
from types import ModuleType

from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.envs.kinds import PETTINGZOO

# The families of games in the package pettingzoo. MPE's games are a package of their own now.
_FAMILIES = ("atari", "butterfly", "classic", "mpe", "sisl")
_MPE2 = "mpe2"
_GAME = re.compile(r"[A-Za-z]\w*_v\d+", re.ASCII)


def game_module(name: str) -> ModuleType:
    """Import the module of a game.

    Args:
        name: `<family>.<game>_v<version>` or `mpe2.<game>_v<version>`, with or without
            `pettingzoo:` before it.

    Raises:
        ConfigError: if there is no such game, or what it needs is not installed.
    """
    path = name.removeprefix(PETTINGZOO)
    family, _, game = path.partition(".")
    package = package_of(family)
    if package is None:
        raise _unknown(name)
    if game not in games_of(package):
        raise _moved(name, game) if family == "mpe" and _is_moved() else _unknown(name)
    try:
        with warnings.catch_warnings():
            # It asks for `pettingzoo.make`, which older releases do not have.
            warnings.filterwarnings("ignore", "The old environment creation", DeprecationWarning)
            return importlib.import_module(f"{package}.{game}")
    except ImportError as error:
        raise missing_dependency(name, error) from error


def package_of(family: str) -> str | None:
    """Return the package that a family's games lie in, None if there is no such family."""
    if family == _MPE2:
        return _MPE2
    return f"pettingzoo.{family}" if family in _FAMILIES else None


def games_of(package: str) -> list[str]:
    """List the modules of a package's games, without importing any.

    Raises:
        ConfigError: if PettingZoo, or MPE2, is not installed.
    """
    library = package.partition(".")[0]
    if importlib.util.find_spec(library) is None:
        raise ConfigError(
            f"the games of {package} need the library {library}, which is not installed: "
            "pip install 'tunescape[pettingzoo]'"
        )
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return [m.name for m in pkgutil.iter_modules(places) if _GAME.fullmatch(m.name)]


def missing_dependency(name: str, error: ImportError) -> ConfigError:
    """Return the error of a game that cannot be imported, or made, for want of a library."""
    family = name.removeprefix(PETTINGZOO).partition(".")[0]
    extra = "mpe2" if family == _MPE2 else f"pettingzoo[{family}]"
    if isinstance(error, ModuleNotFoundError) and error.name:
        lack = f"needs the library {error.name}, which is not installed"
    else:
        lack = f"cannot be imported: {error}"
    return ConfigError(f"env {name!r} {lack}: pip install '{extra}'")


def _is_moved() -> bool:
    return not games_of("pettingzoo.mpe")


def _moved(name: str, game: str) -> ConfigError:
    return ConfigError(
        f"env {name!r} is no longer in PettingZoo: its MPE games are the package mpe2 now "
        f"(pip install 'tunescape[pettingzoo]'); write '{PETTINGZOO}{_MPE2}.{game}'"
    )


def _unknown(name: str) -> ConfigError:
    path = name.removeprefix(PETTINGZOO)
    families = (*_FAMILIES, _MPE2)
    # One that exists means it, and its game in another version.
    searched = [family for family in families if path.startswith(f"{family}.")] or families
    known = [f"{PETTINGZOO}{family}.{game}" for family in searched for game in _found(family)]
    hint = suggestion(PETTINGZOO + path, known, cutoff=0.8)
    return ConfigError(
        f"env {name!r} is no game of PettingZoo; allowed: '{PETTINGZOO}<family>.<game>_v<version>' "
        f"with a family of {', '.join(families)}{hint}"
    )


def _found(family: str) -> list[str]:
    """List a family's games, none if its library is not installed."""
    try:
        return games_of(package_of(family) or "")
    except ConfigError:
        return []
