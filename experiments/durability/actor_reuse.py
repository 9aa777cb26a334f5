"""Trials that take over the process of an ended one, where Tune's own loop can stand still.

A trainable may refuse to become another trial: its `reset_config` returns False. Tune then fails
the trial without telling the search, which waits for it for ever: no further trial is made, and for
up to 10 minutes at a time the loop does not even look at Ctrl-C. Here such a trial gets a process
of its own, as if none had been there to take over.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)

_WAIT_S = 1.0  # for a searcher that has no trial now, until Ctrl-C is looked at


def has_own(trainable: type, method: str) -> bool:
    """Whether a trainable has a method; Tune's base class has each, to say that there is none."""
    return _owner(trainable, method) != "ray.tune.trainable.trainable"


def has_own_reset(trainable: type) -> bool:
    """Whether a trainable says itself how it becomes another trial.

    Of a function Tune says it: another one begins when the first returns, which it may not.
    """
    return not _owner(trainable, "reset_config").startswith("ray.tune.")


def _owner(trainable: type, method: str) -> str:
    """The module of the class that defines a trainable's method."""
    return next(base.__module__ for base in trainable.__mro__ if method in vars(base))


def replace_failed_resets(controller: TuneController) -> None:
    """Make Tune's loop start a process for a trial whose `reset_config` returned False.

    Args:
        controller: Tune's loop. It gets a class of its own, as what is set on the object itself
            would be written into the sweep's state.
    """
    told = False

    class Replacing(type(controller)):  # type: ignore[misc]
        def _on_trial_reset(self, trial: Trial, success: bool) -> None:
            nonlocal told
            if success:
                super()._on_trial_reset(trial, success)
                return
            if not told:
                logger.warning(
                    "reset_config of %s returned False for trial %s: such trials get a process of "
                    "their own. With `resources.reuse_actors: false` it is not asked.",
                    trial.trainable_name,
                    trial.trial_id,
                )
                told = True
            self._resetting_trials.remove(trial)
            actor = self._trial_to_actor.pop(trial)
            self._actor_to_trial.pop(actor)
            trial.set_ray_actor(None)
            self._remove_actor(tracked_actor=actor)
            # Those that wait to be taken over hold what a new process needs, and would refuse, too.
            self._cleanup_cached_actors(force_all=True)
            self._schedule_trial_actor(trial)

        def _process_trial_failure(self, trial: Trial, exception: Any) -> None:
            # Tune leaves a trial that fails in its reset among those that are being reset: when
            # it is tried again, no process would be started for it.
            self._resetting_trials.discard(trial)
            super()._process_trial_failure(trial, exception)

        def _update_trial_queue(self, blocking: bool = False, timeout: float = _WAIT_S) -> bool:
            made: bool = super()._update_trial_queue(blocking, min(timeout, _WAIT_S))
            return made

    controller.__class__ = Replacing
