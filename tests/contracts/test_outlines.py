"""A config class that is read without its module's imports is that of the algorithm."""

from __future__ import annotations

from typing import Any

import pytest

from trainables import registry
from trainables.core.config.outline import outline
from trainables.core.errors import ConfigError

TRAITS = ("without", "model_without", "composites", "older_entries", "exploration_types")
WRONG = (
    *({"lrr": 1}, {"learning_rate": 1}, {"gamma": 2}, {"model": {"fcnet_hidden": [1]}}),
    *({"optimization_config": {"x": 1}}, {"num_workers": -1}, {"exploration_config": {"a": 1}}),
    *({"entropy_koeff": 0}, {"n_step": 0}, {"replay_buffer_config": {"capacity": 0}}),
)


def checked(config_class: Any, given: dict[str, Any]) -> Any:
    try:
        return config_class.check(given)
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize("name", registry.algorithm_names())
def test_an_outline_checks_as_the_config_class_does(name: str) -> None:
    whole = registry.get_algorithm(name).config_class
    outlined = outline(whole.__module__)[whole.__name__]
    assert outlined is not whole
    assert list(outlined.settings()) == list(whole.settings())
    assert outlined.settings() == whole.settings()
    assert {t: getattr(outlined, t) for t in TRAITS} == {t: getattr(whole, t) for t in TRAITS}
    defaults = {key: setting.default for key, setting in whole.settings().items()}
    assert outlined.check(defaults) == whole.check(defaults)
    for given in WRONG:
        assert checked(outlined, given) == checked(whole, given)
