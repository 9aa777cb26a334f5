"""A sweep's own callbacks of Tune's: trackers, and what a user wrote. None of them can harm it.

An exception in a callback would end Tune's loop, and what a callback holds would be pickled into
the sweep's folder, keys included. So each is called through `GuardedCallback`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from ray import tune

from analysis.credentials import scrubbed
from experiments.errors import PreflightError, SweepError
from experiments.spec.callback_classes import Wanted, callback_class, wanted_callbacks
from experiments.spec.schema import SweepSpec

logger = logging.getLogger(__name__)


def _passed_on(hook: str) -> Callable[..., None]:
    """Return a hook of Tune's that calls the same one of the guarded callback."""

    def call(self: GuardedCallback, *args: Any, **info: Any) -> None:
        self._guarded(hook, *args, **info)

    return call


class GuardedCallback(tune.Callback):
    """Calls a callback, and keeps its exceptions from ending the sweep.

    One in `setup`, such as a tracker that refuses the key, ends the sweep before a trial begins.
    Later each kind is told once per hook, and the callback is called again with the next event.

    Args:
        wanted: What the spec asks for.
        callback: The callback, made from it.
    """

    IS_CALLBACK_CONTAINER = True  # Tune then checks that every hook is passed on

    def __init__(self, wanted: Wanted, callback: tune.Callback) -> None:
        self.key, self.name = wanted.key, wanted.name
        self._callback: tune.Callback | None = callback
        self._told: set[tuple[str, str]] = set()

    @property
    def callback(self) -> tune.Callback:
        """The callback itself; not of one that was unpickled (see `callbacks_of`)."""
        if self._callback is None:
            raise RuntimeError(f"{self.key}: it is made anew from the spec when a sweep is resumed")
        return self._callback

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the callback out of Tune's tuner.pkl: it may hold keys, and need not pickle."""
        return {"key": self.key, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.key, self.name = state["key"], state["name"]
        self._callback, self._told = None, set()

    def setup(self, *args: Any, **info: Any) -> None:
        setup = self.callback.setup
        try:
            inspect.signature(setup).bind(*args, **info)
        except TypeError:  # as Tune does with one that takes nothing
            args, info = (), {}
        try:
            setup(*args, **info)
        except Exception as error:
            raise SweepError(
                f"{self.key}: {self.name} cannot begin: {_said(error)}; fix it, or remove it from "
                "the spec"
            ) from error

    def get_state(self) -> dict[str, Any] | None:
        state = self._guarded("get_state")
        # Another callback may stand in its place when the sweep goes on.
        return None if state is None else {"name": self.name, "state": state}

    def set_state(self, state: dict[str, Any]) -> None:
        if state["name"] == self.name:
            self._guarded("set_state", state["state"])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        # A copy: Tune goes on with the one it gives, and the search was told of it already.
        info |= {"iteration": iteration, "trials": trials, "trial": trial, "result": dict(result)}
        self._guarded("on_trial_result", **info)

    on_step_begin = _passed_on("on_step_begin")
    on_step_end = _passed_on("on_step_end")
    on_trial_start = _passed_on("on_trial_start")
    on_trial_restore = _passed_on("on_trial_restore")
    on_trial_save = _passed_on("on_trial_save")
    on_trial_complete = _passed_on("on_trial_complete")
    on_trial_recover = _passed_on("on_trial_recover")
    on_trial_error = _passed_on("on_trial_error")
    on_checkpoint = _passed_on("on_checkpoint")
    on_experiment_end = _passed_on("on_experiment_end")

    def _guarded(self, hook: str, *args: Any, **info: Any) -> Any:
        try:
            return getattr(self.callback, hook)(*args, **info)
        except Exception as error:
            kind = (hook, type(error).__name__)
            if kind not in self._told:
                self._told.add(kind)
                logger.warning(
                    "%s: %s failed in %s: %s. The sweep continues; repeats are not shown.",
                    self.key,
                    self.name,
                    hook,
                    _said(error),
                )
            logger.debug("%s: %s", self.key, hook, exc_info=True)
            return None


def callbacks_of(spec: SweepSpec) -> list[tune.Callback]:
    """Return the callbacks that a spec's `loggers` and `callbacks` ask for, made and guarded.

    A sweep that is resumed makes them anew: what they hold of it comes with their state.

    Raises:
        PreflightError: One of them cannot be made.
    """
    made: list[tune.Callback] = []
    for wanted in wanted_callbacks(spec):
        try:
            callback = callback_class(wanted.name)(**wanted.args)
        except Exception as error:
            raise PreflightError(
                f"{wanted.key}: {wanted.name} cannot be made: {_said(error)}"
            ) from error
        made.append(GuardedCallback(wanted, callback))
    return made


def _said(error: Exception) -> str:
    lines = scrubbed(str(error)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
