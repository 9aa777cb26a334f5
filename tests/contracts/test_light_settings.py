"""Config classes are read without their algorithms, and are those of the algorithms."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from trainables import registry

LIGHT = """
import sys
from trainables import registry
from trainables.core.errors import ConfigError

for name in registry.algorithm_names():
    kind = registry.config_class_of(name)
    kind.check({key: setting.default for key, setting in kind.settings().items()})
    try:
        kind.check({"lrr": 1})
    except ConfigError as error:
        assert "lr" in str(error)
    else:
        raise AssertionError(name)
heavy = {"torch", "ray", "trainables.algorithm"} & {*sys.modules}
assert not heavy, heavy
"""


def test_settings_are_checked_without_pytorch_and_ray() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)


@pytest.mark.parametrize("name", registry.algorithm_names())
def test_a_config_class_is_a_name_of_its_algorithm(name: str) -> None:
    light = registry.config_class_of(name)
    algorithm = registry.get_algorithm(name)
    assert light is algorithm.config_class
    assert light().own_algorithm() is algorithm
    home = sys.modules[light.__module__]
    assert getattr(home, light.__name__) is light
    assert pickle.loads(pickle.dumps(light)) is light
