"""What every test needs: one torch thread, and Ray workers that find the tests' helpers."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# The machine's cores are few, and one thread repeats to the bit.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Worker processes inherit the environment, not what pytest has put on sys.path.
_paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in _paths if path)

import torch  # noqa: E402 - after the environment is set

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """A Ray of 2 CPUs for a module's sweeps, set up as `experiments.run` would have it."""
    import ray

    from experiments.cluster import sweep_environment

    with sweep_environment():
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()
