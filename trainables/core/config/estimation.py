"""Settings of off-policy estimation: what a policy is worth, told from recorded episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainables.core.config.agents.named_dicts import by_name, estimators
from trainables.core.config.experience import OfflineSettings
from trainables.core.config.recorded.estimators import check_methods
from trainables.core.config.recorded.input_shares import SAMPLER, parse_input
from trainables.core.config.settings import (
    CODE,
    Settings,
    is_search_domain,
    refuse_given,
    setting,
)
from trainables.core.errors import ConfigError

OF_DATA = ("input_", "input_config", "actions_in_input_normalized")
"""What `evaluation_config` may say of the data that are evaluated on."""


@dataclass(kw_only=True)
class EstimationSettings(OfflineSettings):
    """Settings of off-policy estimation: see `core.estimation`."""

    off_policy_estimation_methods: dict[str, Any] = setting(
        {},
        "evaluation",
        "off-policy estimators by your own names, on the data of input_, or of "
        "evaluation_config's input_: {'type': 'ImportanceSampling', 'WeightedImportanceSampling', "
        "'DirectMethod', 'DoublyRobust' (short: is, wis, dm, dr), 'FeatureImportance' or a class, "
        "**its keywords}",
        risk=CODE,
    )
    ope_split_batch_by_episode: bool = setting(
        True,
        "evaluation",
        "estimate from episodes; False: each step is an episode, as for bandits",
        harmless=True,
    )

    @classmethod
    def settings_inside(cls, name: str) -> type[Settings] | None:
        if name == "off_policy_estimation_methods":
            inner: Any = estimators()
            return by_name(inner)
        return super().settings_inside(name)

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked settings; a search domain passes.

        Raises:
            ConfigError: for a name or value that is not allowed.
        """
        checked = super().check(values)
        methods = checked.get("off_policy_estimation_methods")
        if methods and not is_search_domain(methods):
            check_methods(methods)
        return checked

    @property
    def estimation_inputs(self) -> list[Any]:
        """What estimates are made from: files, without shares; callables, too, as they are given.

        That of `evaluation_config`, else of training, without what is sampled.
        """
        given = self.evaluation_config.get("input_", self.input_)
        return [item for item in parse_input(given) if item != SAMPLER]

    def validate(self) -> None:
        super().validate()
        if not self.off_policy_estimation_methods:
            refuse_given(
                self,
                "ope_split_batch_by_episode",
                "off_policy_estimation_methods = {}: nothing is estimated",
            )
            for name in OF_DATA:
                if name in self.evaluation_config:
                    raise ConfigError(
                        f"evaluation_config: {name!r} has no effect without "
                        "off_policy_estimation_methods: evaluations play in the environment"
                    )
            return
        if not self.estimation_inputs:
            raise ConfigError(
                f"off_policy_estimation_methods = {self.off_policy_estimation_methods!r} needs "
                "recorded data: set input_, or evaluation_config={'input_': …}"
            )
