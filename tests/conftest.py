"""What every test needs: one torch thread, and Ray workers that find the tests' helpers."""

import os
from pathlib import Path

# The machine's cores are few, and one thread repeats to the bit.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Worker processes inherit the environment, not what pytest has put on sys.path.
_paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in _paths if path)

import torch  # noqa: E402 - after the environment is set

torch.set_num_threads(1)
