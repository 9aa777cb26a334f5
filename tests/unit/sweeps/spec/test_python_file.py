"""`train file x.py`: what a Python file's `config` and `stop` become, and what is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from refusals import Golden, refusals

from experiments.sweep.load import load_spec
from search_spaces.documents import SpecError

BEGIN = "from ray import tune\n\nfrom trainables import PPOConfig\n\n"
numbers = iter(range(1000))


@pytest.fixture(autouse=True)
def paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file's folder is added to goes back to what it was."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))


def written(folder: Path, text: str, begin: str = BEGIN) -> Path:
    """A file of a name of its own: a module is imported once in a process."""
    file = folder / f"own_training_{next(numbers)}.py"
    file.write_text(begin + text)
    return file


def test_config_and_stop(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "config = PPOConfig().environment('CartPole-v1').training(lr=1e-3, train_batch_size=256)\n"
        "config.training(minibatch_size=128)\n"
        "stop = {'training_iteration': 2, 'evaluation': {'episode_return_mean': 400}}\n"
        "config.evaluation(evaluation_interval=1)\n",
    )
    spec = load_spec(file)
    assert (spec.name, spec.trainable) == (file.stem, "PPO")
    assert spec.config == {
        "env": "CartPole-v1",
        "lr": 1e-3,
        "train_batch_size_per_learner": 256,
        "minibatch_size": 128,
        "evaluation_interval": 1,
    }
    assert spec.stop == {"training_iteration": 2, "evaluation/episode_return_mean": 400}
    assert load_spec(file, ["config.lr=0.5", "stop={training_iteration: 1}"]).config["lr"] == 0.5


def test_domains_become_the_search_space(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "config = PPOConfig().environment('CartPole-v1').training(\n"
        "    lr=tune.loguniform(1e-4, 1e-2), gamma=tune.quniform(0.9, 1.0, 0.05),\n"
        "    num_epochs=tune.randint(1, 5), clip_param=tune.grid_search([0.1, 0.2]),\n"
        "    lambda_=tune.uniform(0.9, 1.0),\n"
        "    model={'fcnet_activation': 'relu', 'fcnet_hiddens': tune.choice([[8], [16]])},\n"
        ")\n"
        "stop = {'training_iteration': 1}\n",
    )
    spec = load_spec(file)
    assert spec.search_space == {
        "lr": {"loguniform": [1e-4, 1e-2]},
        "gamma": {"quniform": [0.9, 1.0, 0.05]},
        "num_epochs": {"randint": [1, 5]},
        "clip_param": {"grid": [0.1, 0.2]},
        "lambda_": {"uniform": [0.9, 1.0]},
        "model.fcnet_hiddens": {"choice": [[8], [16]]},
    }
    assert spec.config == {"env": "CartPole-v1", "model": {"fcnet_activation": "relu"}}


def test_classes_of_the_file(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "import gymnasium as gym\n\nfrom trainables import PPO\n\n\n"
        "class Env(gym.Wrapper):\n    def __init__(self):\n"
        "        super().__init__(gym.make('CartPole-v1'))\n\n\n"
        "class Own(PPO):\n    pass\n\n\n"
        "config = PPOConfig(algo_class=Own).environment(Env)\nstop = {'training_iteration': 1}\n",
    )
    spec = load_spec(file)
    assert spec.config == {"env": f"{file.stem}:Env"}
    assert spec.trainable == f"{file.stem}:Own"


CARTPOLE = "config = PPOConfig().environment('CartPole-v1')\n"


UNTRAINABLE = [
    "settings = {}\n",
    "config = {'lr': 1}\n",
    "config = 1 / 0\n",
    "raise SystemExit(3)\n",
    f"{CARTPOLE}stop = 5\n",
    "config = PPOConfig().environment('CartPole-v1').training(lr=tune.randn(1, 2))\n",
    "from trainables import AlgorithmConfig\nconfig = AlgorithmConfig()\n",
    "class PPOConfig:\n    __module__ = 'ray.rllib.algorithms.ppo'\n\n\nconfig = PPOConfig()\n",
]


def test_what_cannot_be_trained_is_named(tmp_path: Path, golden: Golden) -> None:
    texts: dict[str, str] = {}
    for text in UNTRAINABLE:
        file = written(tmp_path, text)
        names = {str(tmp_path): "<folder>", file.stem: "file"}
        texts |= refusals(lambda _, file=file: load_spec(file), [text], SpecError, replace=names)
    golden("sweeps/python_files", texts)


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "yaml.py"
    file.write_text(BEGIN + CARTPOLE)
    with pytest.raises(SpecError, match=r"yaml.py: its name 'yaml' is that of .*; rename the file"):
        load_spec(file)
    assert str(tmp_path) not in os.environ["PYTHONPATH"] and str(tmp_path) not in sys.path


@pytest.mark.parametrize("url", ["https://example.org/own.py", "http://127.0.0.1:1/a/own.py"])
def test_a_url_is_never_run(url: str) -> None:
    with pytest.raises(SpecError, match="a Python file is run, so it is not fetched: download it"):
        load_spec(url)


def test_a_file_that_is_not_there() -> None:
    missing: Any = "no_such_training.py"
    with pytest.raises(SpecError, match=r"no_such_training.py: no such file"):
        load_spec(missing)
