"""Tunescape in one name: `import tunescape`, then `tunescape.PPO`, `tunescape.leaderboard`, ….

It has every public name of `trainables`, `search_spaces`, `experiments` and `analysis`, each the
very object that its package has. Nothing is imported until a name is used. A project may have
packages of its own with those four names (`tunescape.shared_names` says how).

Example:
    >>> import tunescape as ts
    >>> ts.load_space("ppo")
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tunescape.shared_names import PACKAGES, SharedNameError, make_room, our_package

if TYPE_CHECKING:
    from analysis import *  # noqa: F403
    from experiments import *  # noqa: F403
    from search_spaces import *  # noqa: F403
    from trainables import *  # noqa: F403

    __version__: str

with suppress(SharedNameError):  # whoever asks for a name is told; the command makes room itself
    make_room()


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        make_room()
        value = importlib.import_module("trainables.registry").VERSION
    elif name == "__all__":
        return sorted({public for package in PACKAGES for public in our_package(package).__all__})
    else:
        homes = [] if name.startswith("__") else map(our_package, PACKAGES)
        home = next((package for package in homes if name in package.__all__), None)
        if home is None:
            raise AttributeError(f"module 'tunescape' has no attribute {name!r}{_hint(name)}")
        value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__"), "__version__"})


def _hint(name: str) -> str:
    """Say what becomes of a name that is not here, or which one was probably meant."""
    from trainables.core.config.reference.planned import whats_become_of
    from trainables.core.suggestions import suggestion

    if name.startswith("_"):
        return ""
    words = whats_become_of(name)
    return f": {words}" if words else suggestion(name, __dir__())
