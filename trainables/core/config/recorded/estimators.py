"""Settings inside the entries of `off_policy_estimation_methods`: each type's keywords.

The estimators themselves are in `core.estimation`; each derives from its settings here, so that a
config is checked without any of it being imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.model import ModelConfig
from trainables.core.config.settings import Settings, contains_search_domain, setting
from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion

METHODS = "off_policy_estimation_methods"


@dataclass
class EvaluatorSettings(Settings):
    """Keywords of what tells of a policy from recorded episodes."""

    what: ClassVar[str] = "keyword"

    @classmethod
    def unknown(cls, name: str) -> ConfigError:
        of = cls.__name__.removesuffix("Settings")
        return ConfigError(f"unknown {cls.what} {name!r} of {of}{cls.hint(name)}")


@dataclass
class EstimatorSettings(EvaluatorSettings):
    """Keywords of whatever estimates what a policy is worth."""

    gamma: float | None = setting(
        None,
        "evaluation",
        "discount factor of the estimate; None: the algorithm's. If a sweep searches gamma, set a "
        "value for all trials",
        ge=0,
        le=1,
    )
    confidence: float = setting(0.95, "evaluation", "confidence level of the interval", gt=0, lt=1)
    num_resamples: int = setting(
        1000,
        "evaluation",
        "bootstrap resamples of the episodes for the interval",
        ge=10,
        le=10**6,
    )


@dataclass
class ImportanceSamplingSettings(EstimatorSettings):
    """Keywords of importance sampling, weighted or not."""

    per_decision: bool = setting(
        True,
        "evaluation",
        "weigh each reward by the product of the ratios up to its step, not of all",
    )


@dataclass
class QModelSettings(EstimatorSettings):
    """Keywords of estimators with a Q-function of the policy: how it is fitted."""

    renamed: ClassVar[dict[str, str]] = {
        "n_iters": "num_updates",
        "batch_size": "minibatch_size",
        "polyak_coef": "tau",
        "clip_grad_norm": "grad_clip",
    }

    q_model_type: str = setting(
        "fqe",
        "evaluation",
        "'fqe': fitted Q evaluation, by bootstrapping; 'qreg': regression on importance-weighted "
        "returns, which needs overlap",
        choices=("fqe", "qreg"),
    )
    q_model_config: dict[str, Any] = setting(
        {"fcnet_hiddens": [64, 64]}, "evaluation", "the model of the Q-function"
    )
    num_updates: int = setting(2000, "evaluation", "gradient steps per fit", ge=0, le=10**7)
    minibatch_size: int = setting(256, "evaluation", "rows per gradient step", ge=1, le=10**6)
    lr: float = setting(1e-3, "evaluation", "learning rate of Adam", gt=0)
    tau: float = setting(
        0.05,
        "evaluation",
        "target' <- tau online + (1 - tau) target after each gradient step (fqe)",
        gt=0,
        le=1,
    )
    grad_clip: float = setting(10.0, "evaluation", "greatest L2 norm of a gradient", gt=0)
    num_actions: int = setting(
        10,
        "evaluation",
        "sampled actions for the expectation of Q over the policy, if actions are not one "
        "discrete choice",
        ge=1,
        le=10_000,
    )

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        return {"q_model_config": ModelConfig}

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        values = {cls.renamed.get(name, name): value for name, value in values.items()}
        return super().check(values)


@dataclass
class DirectMethodSettings(QModelSettings):
    """Keywords of the direct method."""

    num_refits: int = setting(
        0,
        "evaluation",
        "fits on resampled episodes for the interval; 0: no interval (NaN). At least 2 are "
        "needed, 20 or more for a useful interval",
        ge=0,
        le=10_000,
    )


@dataclass
class DoublyRobustSettings(QModelSettings):
    """Keywords of doubly robust estimation."""

    k: int = setting(5, "evaluation", "folds of the episodes (cross-fitting)", ge=2, le=1000)


@dataclass
class FeatureImportanceSettings(EvaluatorSettings):
    """Keywords of feature importance."""

    repeat: int = setting(1, "evaluation", "shuffles of each feature", ge=1, le=10_000)
    limit_fraction: float = setting(
        1.0, "evaluation", "share of the steps that is used, drawn at random", gt=0, le=1
    )


TYPES: dict[str, type[EvaluatorSettings]] = {
    "ImportanceSampling": ImportanceSamplingSettings,
    "WeightedImportanceSampling": ImportanceSamplingSettings,
    "DirectMethod": DirectMethodSettings,
    "DoublyRobust": DoublyRobustSettings,
    "FeatureImportance": FeatureImportanceSettings,
}
"""The keywords of each type of ours."""

SHORT = {
    "is": "ImportanceSampling",
    "wis": "WeightedImportanceSampling",
    "dm": "DirectMethod",
    "dr": "DoublyRobust",
}
"""The reference's short names."""


def known_type(given: Any) -> str | None:
    """Return the name in `TYPES` of a type of ours, by any of its names; None: it is none."""
    if not isinstance(given, str):
        return None
    # The reference's paths, ray.rllib.offline.estimators.doubly_robust::DoublyRobust, dotted, too.
    name = given.replace("::", ".").rpartition(".")[2] if given.startswith("ray.") else given
    name = SHORT.get(name, name)
    return name if name in TYPES else None


def is_known_type(given: Any) -> bool:
    """Tell whether an entry's `type` is an estimator of ours, which runs no other code."""
    return known_type(given) is not None


def parted(name: str, given: Any) -> tuple[Any, dict[str, Any]]:
    """Return the type and the keywords of an entry.

    Raises:
        ConfigError: if it is no dict with a type.
    """
    if not isinstance(given, Mapping) or "type" not in given:
        raise ConfigError(
            f"{METHODS}: {name!r} = {given!r} is not allowed; allowed: a dict with 'type' and "
            "keywords of that type"
        )
    return given["type"], {key: value for key, value in given.items() if key != "type"}


def check_methods(methods: Mapping[str, Any]) -> None:
    """Check entries of the setting; code that they name is not imported, and domains pass.

    Raises:
        ConfigError: naming the entry and what is allowed.
    """
    for name, given in methods.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ConfigError(
                f"{METHODS}: the name {name!r} is not allowed; allowed: a text without '/'"
            )
        kind, keywords = parted(name, given)
        known = known_type(kind)
        if known is not None:
            check_keywords(name, TYPES[known], keywords)
        elif inspect.isclass(kind) and issubclass(kind, EvaluatorSettings):
            check_keywords(name, kind, keywords)
        elif not (contains_search_domain(kind) or (isinstance(kind, str) and ":" in kind)):
            raise wrong_type(name, kind)


def check_keywords(
    name: str, kind: type[EvaluatorSettings], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return checked keywords of an entry; domains pass.

    Raises:
        ConfigError: naming the entry and the keyword.
    """
    try:
        return kind.check(keywords)
    except ConfigError as error:
        raise ConfigError(f"{METHODS}: {name!r}: {error}") from None


def wrong_type(name: str, kind: Any) -> ConfigError:
    """Return the error of an entry whose type is none."""
    names = ", ".join(repr(each) for each in [*TYPES, *SHORT])
    return ConfigError(
        f"{METHODS}: {name!r}: type = {kind!r} is not allowed; allowed: {names}, or a class of "
        f"OfflineEvaluator, as itself or as 'module:name'{suggestion(str(kind), [*TYPES, *SHORT])}"
    )
