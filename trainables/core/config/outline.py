"""The config class of an algorithm whose module is not imported: that takes PyTorch and Ray.

Mistakes in settings are told without them, and without the seconds that they take.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar  # noqa: F401  # dataclasses look the latter up here

_OURS = "trainables."
# Modules of ours that are imported as they are; of others an outline is made, too.
_LIGHT = ("trainables.core.config.", "trainables.core.errors", "trainables.dreamerv3.sizes")


@functools.cache
def outline(module: str) -> dict[str, Any]:
    """Return what a module of ours defines without PyTorch and Ray, by name.

    Its file is run, less what needs what is not there: networks, losses, the algorithm's class. Its
    config classes are whole, as their settings and checks need neither.

    Args:
        module: One of `trainables`, which is not imported.
    """
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, module
    names: dict[str, Any] = {"__name__": __name__}
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.Import, ast.If, ast.Expr)):
            continue
        if isinstance(node, ast.ImportFrom) and not _is_light(node.module or ""):
            names |= _of_another(node)
            continue
        with suppress(NameError):
            exec(compile(ast.Module([node], []), spec.origin, "exec"), names)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
            own = names[node.name].__annotations__
            own.update({name: eval(text, names) for name, text in own.items()})
    return names


def _is_light(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names or module.startswith(_LIGHT)


def _of_another(node: ast.ImportFrom) -> dict[str, Any]:
    """Return the config classes and constants that are imported from another module of ours."""
    wanted = [a.name for a in node.names if a.name.isupper() or a.name.endswith("Config")]
    if not wanted or not (node.module or "").startswith(_OURS):
        return {}
    found = outline(node.module or "")
    return {name: found[name] for name in wanted if name in found}
