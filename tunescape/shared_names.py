"""Tunescape's packages beside a project's own of the same names.

`analysis` and `experiments` are names that projects give to folders and files of their own. Python
knows one module by a name, that of the first folder on `sys.path`: where it is the project's, ours
cannot be imported, nor what imports it. So the two are joined. The name stays the project's: its
file is run when something in it is first used. Below the name the modules of both are found.

Two that both have a module of one name (`analysis/plots.py`) cannot be joined. In a script of the
project that is an error. In our own processes, the command's and Ray's workers, the name is ours
then, and of the project's modules those are found that we have none of.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = ("trainables", "search_spaces", "experiments", "analysis")

_HOME = Path(os.path.abspath(__file__)).parents[1]
_WORKERS = f"{__name__}.make_room_in_worker"
_WORKERS_VARIABLE = "__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"  # Ray's workers inherit it
_joined: set[str] = set()


class SharedNameError(ImportError):
    """A project's package has the name of one of ours, and they cannot be joined."""


def make_room(first: Sequence[str] = (), *, is_ours: bool = False) -> None:
    """See that our packages can be imported where others on `sys.path` have their names.

    Args:
        first: Folders whose packages are joined as if they came first on `sys.path`.
        is_ours: Whether the process is ours, so that a name is ours rather than an error.

    Raises:
        SharedNameError: Two packages cannot be joined; the message names the folder.
    """
    for name in PACKAGES:
        if name not in _joined:
            _settle(name, first, is_ours)
    # Ray puts this folder first on its workers' path.
    if needs_room_in_workers():
        os.environ.setdefault(_WORKERS_VARIABLE, _WORKERS)


def make_room_in_worker() -> None:
    """Call `make_room` in a process of Ray's, before anything is unpickled there.

    Ray puts the driver's folders first on the path only when the first task comes.
    """
    from ray._private import worker

    process: Any = worker.global_worker
    job = process.core_worker.get_job_config()
    make_room([*reversed(job.py_driver_sys_path), os.getcwd()], is_ours=True)


def needs_room_in_workers() -> str | None:
    """Return the function that Ray's workers have to call first; None if no name is shared."""
    path = ["", *sys.path]
    return _WORKERS if any(_other(name, path) for name in PACKAGES) else None


@functools.cache
def our_package(name: str) -> Any:
    """Return one of `PACKAGES`, also where a project's has its name."""
    make_room()
    module = importlib.import_module(name)
    if _is_ours(module.__spec__, name):
        return module
    # Our `__init__` once more, under no name: it finds its modules below the joined one.
    spec = _our_spec(name)
    module = importlib.util.module_from_spec(spec)
    _run(spec, module)
    return module


def _folders_of(path: Iterable[str]) -> list[str]:
    """Return the folders of a path, of which "" is the one that we are in, if that is there."""
    try:
        here = [os.getcwd()]
    except OSError:  # deleted: a process can go on in it
        here = []
    return [folder for entry in path for folder in ([entry] if entry else here)]


def _settle(name: str, first: Sequence[str], is_ours: bool) -> None:
    module = sys.modules.get(name)
    theirs = module.__spec__ if module is not None else _other(name, [*first, *sys.path])
    if module is None and theirs is None:
        if _find(name, sys.path) is None:  # on no path: this folder was found in another way
            _import_ours(name)
        return
    if theirs is None or _is_ours(theirs, name):
        return
    shared = _modules([*_folders(theirs)]) & _modules([str(_HOME / name)])
    if not shared:
        _join(name, theirs)
    elif is_ours and module is None:
        _import_ours(name).__path__ += _folders(theirs)
    else:
        raise SharedNameError(
            f"{_place(theirs)} hides Tunescape's package {name!r}, and the two cannot be joined: "
            f"both have {', '.join(f'{name}.{module}' for module in sorted(shared))}; rename that "
            f"folder, or move it into another package (my_project/{name})",
            name=name,
        )


def _join(name: str, theirs: ModuleSpec) -> None:
    """Let the modules of both be found below the name, which stays theirs."""
    module = sys.modules.get(name)
    if module is None:
        module = importlib.util.module_from_spec(theirs)
        _run_when_used(theirs, module)
        sys.modules[name] = module
    _joined.add(name)
    module.__path__ = [*getattr(module, "__path__", ()), str(_HOME / name)]


def _run_when_used(spec: ModuleSpec, module: ModuleType) -> None:
    """Run their file when a name in it is asked for: it may be a script, not to be run."""
    ours = _modules([str(_HOME / spec.name)])
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    is_script = script is not None and spec.origin is not None and _same(script, spec.origin)

    def use(attribute: str) -> Any:
        if attribute in ours:
            return importlib.import_module(f"{spec.name}.{attribute}")
        if is_script or (attribute.startswith("__") and attribute != "__all__"):
            raise AttributeError(f"module {spec.name!r} has no attribute {attribute!r}")
        del vars(module)["__getattr__"]
        try:
            _run(spec, module)
        except BaseException:
            vars(module)["__getattr__"] = use
            raise
        return getattr(module, attribute)

    vars(module)["__getattr__"] = use


def _import_ours(name: str) -> Any:
    spec = _our_spec(name)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    _run(spec, module)
    return module


def _run(spec: ModuleSpec, module: ModuleType) -> None:
    assert spec.loader is not None
    spec.loader.exec_module(module)


def _our_spec(name: str) -> ModuleSpec:
    folder = _HOME / name
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    return spec


def _other(name: str, path: Iterable[str]) -> ModuleSpec | None:
    """Return what the name is on a path, if it is not ours."""
    spec = _find(name, path)
    return None if spec is None or _is_ours(spec, name) else spec


def _find(name: str, path: Iterable[str]) -> ModuleSpec | None:
    spec = PathFinder.find_spec(name, _folders_of(path))
    # A folder without `__init__.py`, perhaps of specs, hides no package.
    return spec if spec is not None and spec.loader is not None and spec.origin else None


def _is_ours(spec: ModuleSpec | None, name: str) -> bool:
    origin = spec.origin if spec is not None else None
    return origin is not None and _same(Path(origin).parent, _HOME / name)


def _same(one: str | Path, other: str | Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _folders(spec: ModuleSpec) -> list[str]:
    return list(spec.submodule_search_locations or ())


def _modules(folders: list[str]) -> set[str]:
    return {module.name for module in pkgutil.iter_modules(folders)}


def _place(spec: ModuleSpec) -> str:
    """Return the folder or file that holds their package."""
    return (_folders(spec) or [str(spec.origin)])[0]
