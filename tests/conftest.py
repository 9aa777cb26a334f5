"""What every test needs: one torch thread, and Ray workers that find the tests' helpers."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The machine's cores are few, and one thread repeats to the bit.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A process keeps what it was first told of tokens, and the tests have clusters of several kinds.
os.environ["RAY_AUTH_MODE"] = "disabled"
# A run in the background or under nohup passes ignored signals on to the sweeps that it starts.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Worker processes inherit the environment, not what pytest has put on sys.path.
_paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in _paths if path)

import torch  # noqa: E402 - after the environment is set

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _own_path() -> Iterator[None]:
    """Take back what a test puts on sys.path: a model that MLflow loads brings code of its own."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(scope="module", autouse=True)
def _no_ray_is_left() -> Iterator[None]:
    """End what an algorithm with actors has started by itself: the next module may want its own."""
    yield
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


@pytest.fixture(scope="module")
def ray_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """A Ray for a module's sweeps, set up as `experiments.run` would have it.

    It has the module's `NUM_CPUS`, or 2. More than the machine has do where actors hardly compute
    at a time.
    """
    import ray

    from experiments.cluster import sweep_environment

    with sweep_environment():
        num_cpus = getattr(request.module, "NUM_CPUS", 2)
        ray.init(address="local", num_cpus=num_cpus, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()
