"""The config object of an algorithm: of the class that was given, or that very object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.own_settings import StaysHere
from trainables.core.errors import ConfigError
from trainables.core.features import feature


class Configures:
    """What an algorithm makes its `config` from, at first and in every reset.

    A config class of one's own stays what it is: its `validate` is asked, its settings are known.

    Args:
        config_class: The algorithm's.
        config: What it was given: a config object, a dict of settings, or None.

    Attributes:
        given: Its settings, a new dict.
    """

    def __init__(
        self, config_class: type[AlgorithmConfig], config: AlgorithmConfig | dict[str, Any] | None
    ):
        self._config_class = config_class
        self._model: AlgorithmConfig | None = None
        self._is_ours = False
        self.given: dict[str, Any] = {}
        self.take(config)

    def take(self, config: AlgorithmConfig | Mapping[str, Any] | None) -> dict[str, Any]:
        """Follow a config object from now on. Returns its settings, or the dict that was given.

        Raises:
            ConfigError: if it is the config of another algorithm.
        """
        if isinstance(config, AlgorithmConfig):
            ours, theirs = self._config_class, type(config)
            if not (issubclass(theirs, ours) or issubclass(ours, theirs)):
                raise ConfigError(f"a {theirs.__name__} is given; allowed: {ours.__name__}, dict")
            self._is_ours = bool(vars(config).pop("_is_given_away", False))
            self._model = config if self._is_ours else config.copy(copy_frozen=False)
            self.given = config.to_dict()
        else:
            self.given = dict(config or {})
        return self.given

    def made_of(self, settings: Mapping[str, Any], algorithm: type) -> AlgorithmConfig:
        """Return the config with these settings; others have their defaults.

        Args:
            settings: As `setup` was given them.
            algorithm: The class that it configures.

        Raises:
            ConfigError: for a setting that is not allowed.
        """
        made = self._made_of(settings)
        if "_algo_class" in vars(self._model or made):
            made._algo_class = StaysHere(algorithm)
        return made

    def _made_of(self, settings: Mapping[str, Any]) -> AlgorithmConfig:
        model, is_ours, self._is_ours = self._model, self._is_ours, False
        if not isinstance(model, self._config_class):
            # One of a base class, e.g. AlgorithmConfig(algo_class=MyPPO).
            return self._config_class.from_dict(settings)
        if not is_ours:
            return model.with_settings(settings)
        model._is_frozen = False
        return model.update_from_dict(settings)


def with_one_name_each(
    config_class: type[AlgorithmConfig], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of a trial, each setting by one name: of two names the later one counts.

    Ray's population-based training puts what it mutates into a trial's dict under the name that it
    was given, e.g. `train_batch_size`, behind `train_batch_size_per_learner` from a config object.

    Only of settings that may change in mid-run. What else is given twice stays, and is an error
    unless both are equal. A `…_schedule` counts in any place, so it stays as well.

    Args:
        config_class: Says which settings may change.
        values: A trial's dict, in the order in which Tune and its scheduler have filled it.
    """
    if values.keys() <= config_class.settings().keys():
        return dict(values)
    kept: dict[str, Any] = feature("reference").with_one_name_each(config_class, values)
    return kept
