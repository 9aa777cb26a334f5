"""No setting of a checkpoint that nobody vouches for does anything to whoever loads it.

For every setting of every algorithm, and for what is inside those that are dicts, hostile values
are put into a checkpoint, with the digest put right. Python's audit events tell what loading does.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from every_row import check_rows
from forged import forge_config
from small_runs import settings_of, trusted
from tiers import rarely

from trainables import Algorithm
from trainables.core.config.settings import CODE, Setting, Settings
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

PLANTED = "planted_module"
_CALLABLE = {"__callable__": f"{PLANTED}:thing"}


def declared(
    settings_class: type[Settings], *path: str
) -> Iterator[tuple[tuple[str, ...], Setting]]:
    """Every setting by its path, and those inside of settings that are dicts."""
    for name, setting in settings_class.settings().items():
        yield (*path, name), setting
        inside = settings_class.settings_inside(name)
        if inside is not None and not path:
            yield from declared(inside, name)


def hostile_values(folder: Path) -> list[Any]:
    """What a stranger could write in the place of any setting."""
    planted, place = f"{PLANTED}:thing", str(folder / "planted")
    return [
        planted,
        PLANTED,
        place,
        _CALLABLE,
        [planted],
        [place, _CALLABLE],
        {"type": planted, "path": place},
        {"type": _CALLABLE},
        {"PYTHONPATH": str(folder), "LD_PRELOAD": place},
        {"xml_file": place, "id": planted},
        {"CPU": 0, "node:10.0.0.1": 1},
        {"grid_search": [planted]},
        {"__items__": [[1, planted]]},
        True,
        False,
        0.001,
        100_000,
        [100_000],
        1e300,
    ]


def own_settings(name: str) -> list[tuple[str, ...]]:
    """Those that no algorithm tried before it declares alike."""
    first = ["PPO", "DQN", "SAC"]  # of which others have most
    order = [*first, *(other for other in algorithm_names() if other not in first)]
    before = [dict(declared(get_algorithm(other).config_class)) for other in order]
    before, mine = before[: order.index(name)], before[order.index(name)]
    return [path for path, s in mine.items() if all(other.get(path) != s for other in before)]


_OF_PROCESSES = (
    "os.putenv",
    "os.unsetenv",
    "os.system",
    "os.fork",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.connect",
    "ctypes.dlopen",
)


class Watch:
    """What this process does that outlives it, from Python's audit events, while it looks."""

    def __init__(self) -> None:
        self.looks, self.seen = False, list[str]()
        self.own = tempfile.gettempdir() + "/tunescape-"  # the log folder of every trainable

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.looks:
            return
        first = str(arguments[0]) if arguments else ""
        writes = event == "open" and any(c in str(arguments[1] or "r") for c in "wxa+")
        if writes or event in ("os.mkdir", "os.rename", "os.remove", "os.symlink"):
            is_told = not first.startswith((self.own, "/dev/null")) and not first.isdigit()
        else:
            imports = event == "import" and first.startswith(PLANTED)
            is_told = imports or event in _OF_PROCESSES
        if is_told:
            self.seen.append(f"{event} {first}")


_watch = Watch()  # an audit hook is for ever, so there is one


@pytest.fixture(scope="module")
def watch() -> Watch:
    sys.addaudithook(_watch)
    return _watch


@pytest.mark.parametrize("name", algorithm_names())
@pytest.mark.parametrize("shares", rarely([(0,), range(1, 20)], [(0,)]), ids=["one", "others"])
def test_no_setting_of_a_strangers_checkpoint_does_anything(
    name: str,
    shares: Collection[int],
    tmp_path: Path,
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    for module in (PLANTED, "sitecustomize"):
        (trap / f"{module}.py").write_text(f"open({str(trap / 'ran')!r}, 'w')\nthing = int\n")
    monkeypatch.syspath_prepend(str(trap))
    monkeypatch.chdir(trap)
    monkeypatch.setattr(ray, "init", lambda *args, **kwargs: pytest.fail("Ray was started"))
    algorithm = get_algorithm(name)
    with algorithm(config=settings_of(name)) as algo:
        forged = Path(algo.save(str(tmp_path / "forged")).checkpoint.path)
        usual = algo.config.to_dict()
    whole = (forged / "checkpoint.json").read_bytes()
    with Algorithm.from_checkpoint(forged, trust=trusted(name)):
        pass  # what is imported late, but by any checkpoint
    before, here = dict(os.environ), sorted(trap.iterdir())
    num_loaded = num_refused = 0
    own = own_settings(name)
    for i, path in enumerate(own):
        for j, value in enumerate(hostile_values(trap)):
            if (i + j) % 20 not in shares:  # by default one value, of each setting another
                continue
            given = value if len(path) == 1 else {**(usual[path[0]] or {}), path[1]: value}
            (forged / "checkpoint.json").write_bytes(whole)
            forge_config(forged, **{path[0]: given})
            loaded, watch.looks = False, True
            start = time.monotonic()
            try:
                Algorithm.from_checkpoint(forged, trust=trusted(name)).stop()
                loaded = True
            except ConfigError:
                num_refused += 1
            finally:
                watch.looks = False
            num_loaded += loaded
            where = f"{'.'.join(path)} = {value!r}"
            assert watch.seen == [], where
            assert PLANTED not in sys.modules, where
            assert dict(os.environ) == before, where
            assert sorted(trap.iterdir()) == here, where
            assert time.monotonic() - start < 20, where
    # It is about something.
    assert num_refused > len(own) / 10 and (num_loaded > 0 or len(shares) == 1)


def test_settings_of_code_are_declared_as_such() -> None:
    """A setting that takes a callable takes its name, too: a declaration must say so."""

    def check(name: str, path: tuple[str, ...], setting: Setting) -> None:
        kinds = str(setting.annotation)
        if "Callable" in kinds or "type |" in kinds or "| type" in kinds:
            assert setting.risk == CODE, path
        elif setting.annotation in (str, dict[str, Any]) and setting.choices is None:
            inside = get_algorithm(name).config_class.settings_inside(path[0])
            assert inside or setting.risk or setting.harmless is True, path

    of_all = {name: get_algorithm(name).config_class for name in algorithm_names()}
    check_rows(check, [(name, *row) for name, of in of_all.items() for row in declared(of)])
