"""Trials that take over the process of an ended one, where Tune's own loop can stand still.

A trainable may refuse to become another trial: its `reset_config` returns False. Tune then fails
the trial without telling the search, which waits for it for ever: no further trial is made, and for
up to 10 minutes at a time the loop does not even look at Ctrl-C. Here such a trial gets a process
of its own, as if none had been there to take over.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)

_WAIT_S = 1.0  # for a searcher that has no trial now, until Ctrl-C is looked at


def has_own(trainable: type, method: str) -> bool:
    """Tell whether a trainable has a method; Tune's base class has each, to say there is none."""
    return _owner(trainable, method) != "ray.tune.trainable.trainable"


def has_own_reset(trainable: type) -> bool:
    """Tell whether a trainable says itself how it becomes another trial.

    Of a function Tune says it: another one begins when the first returns, which it may not.
    """
    return not _owner(trainable, "reset_config").startswith("ray.tune.")


def _owner(trainable: type, method: str) -> str:
    """Return the module of the class that defines a trainable's method."""
    return next(base.__module__ for base in trainable.__mro__ if method in vars(base))


def replace_failed_resets(controller: TuneController) -> None:
    """Make Tune's loop start a process for a trial whose `reset_config` returned False."""
    from experiments.internals.tune import start_where_reset_fails  # a check imports this module

    told = False

    def refused(trial: Trial) -> None:
        nonlocal told
        if not told:
            logger.warning(
                "reset_config of %s returned False for trial %s: such trials get a process of "
                "their own. With `resources.reuse_actors: false` it is not asked.",
                trial.trainable_name,
                trial.trial_id,
            )
            told = True

    start_where_reset_fails(controller, refused, _WAIT_S)
