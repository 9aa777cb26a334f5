"""A sweep in a project with packages of the names of ours: Ray's workers find both, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
# As an installed command is started: the current folder is not on its path.
COMMAND = "import sys; sys.path.remove(''); from tunescape.command import main; main()"
SPEC = {
    "trainable": "PPO",
    "config": {
        "env": "experiments.envs:Mine",
        "num_epochs": 1,
        "train_batch_size_per_learner": 256,
        "minibatch_size": 128,
    },
    "seeds": [1, 2],  # their class is `experiments.seeds.multi_seed`'s, in the worker
    "stop": {"training_iteration": 2},
    "resources": {"num_cpus": 2},
    "mlflow": {"enabled": False},
}


@pytest.mark.full("unit/package/test_shared_names.py::test_both_packages_are_found")
def test_a_sweep(tmp_path: Path) -> None:
    """An `experiments` that clashes with ours, an `analysis` and a script that do not."""
    for name in ("experiments", "analysis"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('theirs is run')\n")
    (tmp_path / "trainables.py").write_text("raise SystemExit('a script of theirs')\n")
    (tmp_path / "experiments" / "seed_hosts.py").write_text("raise SystemExit('their hosts')\n")
    (tmp_path / "experiments" / "envs.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\n"
        "class Mine(CartPoleEnv):\n    pass\n"
    )
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(SPEC))
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", "x.yaml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runs" / "x" / "best").is_dir()
