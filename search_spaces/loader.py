"""Search spaces by name (`ppo`: the file `ppo.yaml` beside this one) or by path."""

from __future__ import annotations

from pathlib import Path

from search_spaces.documents import Document, SpecError, load_document, nearest
from search_spaces.space import SearchSpace

_FOLDER = Path(__file__).parent
_KEYS = ("trainable", "description", "parameters")


def space_names() -> list[str]:
    """The search spaces that ship with the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def load_space_document(name_or_path: str) -> Document:
    """Read a search-space file and check its outer keys.

    Raises:
        SpecError: There is no such space, or the file has an unknown or missing key.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = _FOLDER / f"{name_or_path}.yaml"
        if name_or_path not in space_names():
            hint = nearest(name_or_path, space_names())
            raise SpecError(
                f"unknown search space {name_or_path!r}; allowed: "
                f"{', '.join(space_names())}, or the path of a .yaml file{hint}"
            )
    document = load_document(path)
    for key in document.data:
        if key not in _KEYS:
            hint = nearest(key, _KEYS)
            raise document.error((key,), f"unknown key {key!r}; allowed: {', '.join(_KEYS)}{hint}")
    if "parameters" not in document.data:
        raise document.error((), "missing key 'parameters': the settings to search")
    return document


def load_space(name_or_path: str) -> SearchSpace:
    """Load a search space by name or path.

    Example:
        >>> load_space("ppo").keys[0]
        'lr'

    Raises:
        SpecError: The file is missing or wrong; the message names file, line and key.
    """
    return SearchSpace.parse_document(load_space_document(name_or_path), ("parameters",))
