"""The settings of off-policy estimation: what a policy is worth, told from recorded episodes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainables.core.config.experience import OF_DATA, SAMPLER
from trainables.core.config.model import ModelConfig
from trainables.core.config.named_dicts import Declared, by_name
from trainables.core.config.recorded.estimators import check_methods, is_known_type
from trainables.core.config.recorded.input_shares import parse_input
from trainables.core.config.settings import (
    CODE,
    Setting,
    Settings,
    is_numbers,
    is_search_domain,
    refuse_given,
)
from trainables.core.errors import ConfigError
from trainables.core.features import FeatureSettings


class EstimateSettings(FeatureSettings):
    """Which estimators there are, and what they estimate from."""

    def check_values(self, config_class: Any, checked: Mapping[str, Any]) -> None:
        methods = checked.get("off_policy_estimation_methods")
        if methods and not is_search_domain(methods):
            check_methods(methods)

    def check(self, config: Any) -> None:
        if not config.off_policy_estimation_methods:
            refuse_given(
                config,
                "ope_split_batch_by_episode",
                "off_policy_estimation_methods = {}: nothing is estimated",
            )
            for name in OF_DATA:
                if name in config.evaluation_config:
                    raise ConfigError(
                        f"evaluation_config: {name!r} has no effect without "
                        "off_policy_estimation_methods: evaluations play in the environment"
                    )
            return
        if not self.inputs(config):
            raise ConfigError(
                f"off_policy_estimation_methods = {config.off_policy_estimation_methods!r} needs "
                "recorded data: set input_, or evaluation_config={'input_': …}"
            )

    def inside(self, config_class: Any, name: str) -> type[Settings] | None:
        inner: Any = estimators()
        return by_name(inner) if name == "off_policy_estimation_methods" else None

    def inputs(self, config: Any) -> list[Any]:
        """Return what estimates are made from, without what is sampled."""
        given = config.evaluation_config.get("input_", config.input_)
        return [item for item in parse_input(given) if item != SAMPLER]


@functools.cache
def estimators() -> type[Settings]:
    """Return what judges the dict of an off-policy estimator: its type, and its keywords.

    The type may be code, and the model of a Q-function may have some; numbers are harmless.
    """
    named = Setting(
        "type",
        "evaluation",
        "the estimator",
        default=None,
        annotation=Any,
        harmless=is_known_type,
        risk=CODE,
    )
    keyword = Setting(
        "", "evaluation", "a keyword of it", default=None, annotation=Any, harmless=is_numbers
    )
    model = replace(keyword, name="q_model_config", harmless=None)

    class Estimator(Settings):
        @classmethod
        def settings(cls) -> dict[str, Setting]:  # type: ignore[override]  # not cached
            return Declared({"type": named, "q_model_config": model}, keyword)

        @classmethod
        def settings_inside(cls, name: str) -> type[Settings] | None:
            return ModelConfig if name == "q_model_config" else None

    return Estimator


SETTINGS = EstimateSettings()
