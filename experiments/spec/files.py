"""The files of specs: by path, or by the name of one that ships with the package."""

from __future__ import annotations

from pathlib import Path

from analysis.home import expanded
from search_spaces.documents import SpecError
from trainables.core.suggestions import suggestion

_FOLDER = Path(__file__).parents[1]
YAML_SUFFIXES = (".yaml", ".yml")


def spec_names() -> list[str]:
    """Return the specs that ship with the package, as `load_spec` takes them."""
    files = [*_FOLDER.glob("*.yaml"), *_FOLDER.glob("tuned/**/*.yaml")]
    return sorted(file.relative_to(_FOLDER).with_suffix("").as_posix() for file in files)


def find_spec(path: str | Path) -> Path:
    """Return the file of a spec given by path or by the name of one that ships with the package."""
    if str(path) in spec_names() and not Path(path).is_file():
        return _FOLDER / f"{path}.yaml"
    if not Path(path).exists() and Path(path).suffix not in YAML_SUFFIXES:
        hint = suggestion(path, spec_names())
        raise SpecError(
            f"{path}: no such file, and no spec of that name; "
            f"known names: {', '.join(spec_names())}{hint}"
        )
    return Path(path)


def find_part(name: str, folder: Path) -> Path:
    """Return the file that `extends` or `include` names, relative to the folder of its own file.

    Raises:
        SpecError: There is no such file, and no shipped spec of that name.
    """
    beside = folder / expanded(name)
    if beside.is_file():
        return beside
    if name in spec_names():
        return _FOLDER / f"{name}.yaml"
    known = [file.name for file in folder.iterdir() if file.suffix in YAML_SUFFIXES]
    raise SpecError(
        f"no file {beside}, and no shipped spec {name!r}{suggestion(name, [*known, *spec_names()])}"
    )


def is_python_file(path: object) -> bool:
    """Tell whether a spec is given as a Python file, by its name."""
    return str(path).endswith(".py")
