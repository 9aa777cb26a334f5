"""What every test needs: one torch thread, and Ray workers that find the tests' helpers."""

import gc
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cheap_sweeps import make_cheap
from golden_texts import check_golden
from tiers import is_later, without_stand_in

# Importing all tests makes little garbage, and looking for it takes a fifth of the time.
gc.set_threshold(20_000, 10, 10)
# The machine's cores are few, and one thread repeats to the bit.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A process keeps what it was first told of tokens, and the tests have clusters of several kinds.
os.environ["RAY_AUTH_MODE"] = "disabled"
# Converted data lie in a folder of the session, which goes away with it.
_data_cache = tempfile.TemporaryDirectory(prefix="tunescape-data-cache-")
os.environ["TUNESCAPE_DATA_CACHE"] = _data_cache.name
# No folder is known as this user's own, and nothing is noted in the user's home: what needs trust
# is told by tests that save it themselves.
os.environ["XDG_STATE_HOME"] = f"{os.devnull}/none"
# A run in the background or under nohup passes ignored signals on to the sweeps that it starts.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Worker processes inherit the environment, not what pytest has put on sys.path.
_paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in _paths if path)

import torch  # noqa: E402 - after the environment is set

torch.set_num_threads(1)

HERE = Path(__file__).parent
CPU_SECONDS = 20  # for one test of the default tier, in its own process
LONGEST_FIRST = ("learning", "integration", "contracts", "unit")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the tests of this folder take."""
    parser.addoption("--times", help="append each test's seconds, by kind, to this file")
    parser.addoption("--shuffle", type=int, help="files, and tests in each, in random order")
    parser.addoption("--write-golden", action="store_true", help="write the texts in golden/ anew")


def pytest_configure(config: pytest.Config) -> None:
    """Have pytest-xdist keep our order: by itself it begins with the files of most tests."""
    config.option.loadscopereorder = False
    if times := config.getoption("times"):
        from suite_times import SuiteTimes

        config.pluginmanager.register(SuiteTimes(Path(times)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files where processes share them: all end together, and start few Rays.

    The folders of long files come first, and in them the modules that share a Ray.
    """
    asked_for_by_name = any("::" in argument for argument in config.args)
    if not asked_for_by_name and (problems := without_stand_in(items)):
        raise pytest.UsageError("\n".join(problems))
    seed = config.getoption("shuffle")
    if seed is not None:
        drawn = random.Random(seed)
        drawn.shuffle(items)
        files = sorted({item.path for item in items})
        places = dict(zip(drawn.sample(files, len(files)), itertools.count()))
        items.sort(key=lambda item: places[item.path])
    elif hasattr(config, "workerinput"):
        sharing = _sharing(items)
        items.sort(
            key=lambda item: (
                LONGEST_FIRST.index(item.path.relative_to(HERE).parts[0]),
                sharing.get(item.path, (sys.maxsize, False)),
            )
        )


def pytest_collection_finish() -> None:
    """Keep what was imported out of garbage collections, which would take a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Keep the default tier short: by CPU seconds, which a busy machine hardly changes."""
    before = time.process_time()
    result = yield
    spent = time.process_time() - before
    if spent > CPU_SECONDS and not is_later(item):
        pytest.fail(f"{spent:.0f} s of CPU, more than {CPU_SECONDS}: make it cheaper, or `full`")
    return result


def _sharing(items: list[pytest.Item]) -> dict[Path, tuple[int, bool]]:
    """The modules that use `ray_here`, the number of CPUs of each, and whether workers are real."""
    return {
        item.path: (getattr(item.module, "NUM_CPUS", 2), _wants_real_workers(item.module))
        for item in items
        if isinstance(item, pytest.Function) and "ray_here" in item.fixturenames
    }


def _wants_real_workers(module: object) -> bool:
    """Whether only a sweep's own Ray has forks: where the test is of processes themselves."""
    return getattr(module, "REAL_WORKERS", False)


class _SharedRay:
    """The Ray that a process' modules share, as long as they want the same.

    Attributes:
        wanted: The modules that share one, and what each wants: the number of CPUs, and whether
            workers are real.
    """

    def __init__(self, wanted: dict[Path, tuple[int, bool]]) -> None:
        self.wanted = wanted
        self._started: tuple[tuple[int, bool], str] | None = None  # what was wanted, and address

    def start(self, wanted: tuple[int, bool]) -> None:
        """Start one, unless the one that runs will do."""
        import ray
        from small_ray import only_the_needed

        if ray.is_initialized():
            if self._started == (wanted, ray.get_runtime_context().gcs_address):
                return
            self.end()
        num_cpus, _ = wanted
        options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False}
        with only_the_needed():
            ray.init(address="local", num_cpus=num_cpus, **options)
        self._started = (wanted, ray.get_runtime_context().gcs_address)

    def end(self) -> None:
        """End whichever runs, also what an algorithm with actors has started by itself."""
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            ray.shutdown()


@pytest.fixture(autouse=True)
def _own_path() -> Iterator[None]:
    """Take back what a test puts on sys.path: a model that MLflow loads brings code of its own."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(scope="module", autouse=True)
def _own_algorithms() -> Iterator[None]:
    """Take back what a module registers: the next one may go through all algorithms."""
    from trainables import registry

    before = set(registry._MODULES)
    yield
    for name in set(registry._MODULES) - before:
        del registry._MODULES[name]
        registry._registered.pop(name, None)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_built(request: pytest.FixtureRequest) -> Iterator[None]:
    """Read specs without building their algorithms, except in modules that have `BUILDS`.

    Each would be built in a process of its own, which takes longer than all else of reading.
    """
    load = sys.modules.get("experiments.sweep.load")
    with pytest.MonkeyPatch.context() as patch:
        if load is not None and not getattr(request.module, "BUILDS", False):
            patch.setattr(load, "check_build", lambda *_: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _cheap_sweeps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Leave out what a sweep draws at its end, except where a test says `with drawn()`."""
    with pytest.MonkeyPatch.context() as patch:
        make_cheap(patch, tmp_path_factory.getbasetemp() / "mlflow.db")
        yield


@pytest.fixture(scope="session")
def _shared_ray(request: pytest.FixtureRequest) -> Iterator[_SharedRay]:
    shared = _SharedRay(_sharing(request.session.items))
    yield shared
    shared.end()


@pytest.fixture(scope="module", autouse=True)
def _no_ray_is_left(request: pytest.FixtureRequest, _shared_ray: _SharedRay) -> Iterator[None]:
    """End what others have started, unless both modules share it: this one may want its own."""
    shares = request.path in _shared_ray.wanted
    if not shares:
        _shared_ray.end()
    yield
    if not shares:
        _shared_ray.end()


@pytest.fixture(scope="module", autouse=True)
def _forked_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the workers of Rays be forks, except in modules that have `REAL_WORKERS`."""
    if HERE / "unit" in request.path.parents or _wants_real_workers(request.module):
        yield
        return
    from experiments.workers.warm import warm_workers

    with warm_workers():
        yield


@pytest.fixture(scope="module")
def ray_here(request: pytest.FixtureRequest, _shared_ray: _SharedRay) -> Iterator[None]:
    """A Ray for a module's sweeps, set up as `experiments.run` would have it.

    It has the module's `NUM_CPUS`, or 2. More than the machine has do where actors hardly compute
    at a time. Modules that come one after another and want the same number share it.
    """
    from experiments.cluster.session import sweep_environment

    with sweep_environment():
        _shared_ray.start(_shared_ray.wanted[request.path])
        yield


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Callable[[str, Mapping[str, str]], None]:
    """Compares texts, by case, with those of `golden/<name>.txt`."""
    return partial(check_golden, write=pytestconfig.getoption("write_golden"))
