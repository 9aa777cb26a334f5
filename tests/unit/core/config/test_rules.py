"""Rules between settings read settings, and features name the settings that they check."""

from __future__ import annotations

from trainables import PPOConfig
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.rules import RULES, features_given
from trainables.core.features import SETTINGS, feature_settings


def test_every_rule_reads_settings() -> None:
    known = AlgorithmConfig.settings()
    for rule in RULES:
        assert rule.settings
        assert not [name for name in rule.settings if name not in known]


def test_every_feature_that_a_setting_names_is_there() -> None:
    named = {declared.feature for declared in PPOConfig.settings().values()} - {None}
    assert named == {"agents", "offline", "estimates"}
    assert named <= SETTINGS.keys()
    for name in SETTINGS:
        assert feature_settings(name) is feature_settings(name)


def test_a_feature_is_asked_where_a_setting_is_not_its_default() -> None:
    config = PPOConfig()
    assert features_given(config, config.to_dict()) == []
    given = {"lr": 1e-3, "output": "logdir", "policies": ["a"]}
    assert features_given(config, given) == ["agents", "offline"]
