"""A search space as the define-by-run function that Ray Tune's `OptunaSearch` takes.

Tune's own domains know no transforms and no conditions, so a space that has them cannot be handed
to Optuna as a `param_space`. As a function it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from search_spaces.documents import SpecError
from search_spaces.domains import (
    Choice,
    Domain,
    Grid,
    LogRandInt,
    LogUniform,
    QUniform,
    RandInt,
    Uniform,
)
from search_spaces.parameter import KeyPath, Parameter

if TYPE_CHECKING:
    from optuna.trial import BaseTrial


class DefineByRun:
    """Suggests the active ones of a space's parameters; returns their values, by path with slashes.

    The study knows a setting under its own name, also where it holds the searched value: a `gamma`
    of 0.01 in the study is the discount 0.99 in the trial's config.

    Args:
        parameters: The space's parameters, each after those that its conditions name.
    """

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        for parameter in parameters:
            if isinstance(parameter.domain, Grid):
                raise SpecError(f"{parameter.key}: Optuna cannot search a grid; write choice")
        self.parameters = parameters

    def __call__(self, trial: BaseTrial) -> dict[str, Any]:
        """Suggest one configuration."""
        settings: dict[KeyPath, Any] = {}
        for parameter in self.parameters:
            if parameter.active(settings):
                searched = suggest(trial, "/".join(parameter.path), parameter.domain)
                settings[parameter.path] = parameter.domain.value(searched)
        return {"/".join(path): value for path, value in settings.items()}


def suggest(trial: BaseTrial, name: str, domain: Domain) -> Any:
    """Return the searched value of a domain that Optuna suggests.

    A choice is suggested by its label. A step of a float range comes without the float noise of
    Optuna's arithmetic, so that it equals the value that a condition or another search writes.
    """
    if isinstance(domain, Choice):
        labels = domain.labels()
        return domain.values[labels.index(trial.suggest_categorical(name, labels))]
    if isinstance(domain, RandInt):
        high = domain.high - 1
        return trial.suggest_int(name, domain.low, high, log=isinstance(domain, LogRandInt))
    if isinstance(domain, QUniform):
        if domain.whole:
            low, high, step = int(domain.low), int(domain.high), int(domain.step)
            return trial.suggest_int(name, low, high, step=step)
        suggested = trial.suggest_float(name, domain.low, domain.high, step=domain.step)
        return domain.at(round((suggested - domain.low) / domain.step))
    assert isinstance(domain, Uniform)
    log = isinstance(domain, LogUniform)
    return trial.suggest_float(name, domain.low, domain.high, log=log)
