"""Algorithms keep their names when one process starts a second cluster, as notebooks do."""

import subprocess
import sys

import pytest
from ray import tune
from ray.tune.registry import get_trainable_cls
from small_ray import small_ray

from trainables import PPO
from trainables.registry import algorithm_names, get_algorithm, register_algorithm


class Own(PPO):
    """A user's."""


@pytest.mark.full("integration/test_tune_traps.py::test_tune_is_given_a_class_and_a_limit")
def test_names_outlive_a_cluster() -> None:
    register_algorithm(Own)
    for number in range(2):
        with small_ray(num_cpus=1):
            assert get_trainable_cls("Own") is Own
            for name in algorithm_names():
                assert get_trainable_cls(name) is get_algorithm(name)
            if number == 0:  # a name that a user gives to something else is the user's
                tune.register_trainable("PPO", Own)
                assert get_trainable_cls("PPO") is Own


_TUNER = """
{line}
import sys
from ray import tune
from ray.tune.registry import get_trainable_cls

tune.Tuner("PPO", param_space={{"env": "CartPole-v1"}})
others = [name for name in {names} if name != "{imported}"]
assert not [name for name in others if f"trainables.{{name.lower()}}" in sys.modules]
for name in {names}:
    assert get_trainable_cls(name).__name__ == name
"""


@pytest.mark.full("integration/test_tune_traps.py::test_tune_is_given_a_class_and_a_limit")
@pytest.mark.parametrize(
    ("line", "imported"),
    [
        ("from trainables import SACConfig", "SAC"),
        ("from trainables.ppo import PPOConfig", "PPO"),
        ("from trainables.algorithm import Algorithm", ""),
    ],
)
def test_every_name_is_known_after_any_import(line: str, imported: str) -> None:
    """As the documents of the reference have it; and the other algorithms are not imported."""
    names = [name for name in algorithm_names() if name != "Own"]
    code = _TUNER.format(line=line, names=names, imported=imported)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
