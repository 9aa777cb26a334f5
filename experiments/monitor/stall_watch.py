"""Tells of trials that wait although nothing runs: what they wait for, and what the nodes have.

Ray waits for ever for resources that never come: a node died, others use the cluster, an actor of a
trial asks for more than its bundle. Tune's own warning compares sums over the cluster, and says
nothing of trials whose processes do not fit on its nodes. A trial that has its resources waits,
too: Tune calls it pending until its process has imported everything and made its environments.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import ray
from ray import tune

from experiments.internals.ray import free_on_nodes, is_starting_actors
from trainables.runtime.actors.feasibility import live_nodes, placement_problem, side_by_side, total

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)

FIRST_S, FACTOR = 60.0, 4.0  # seconds until the first warning; each later one waits longer


class StallWatch(tune.Callback):
    """Warns while trials wait and none of them has started or reported for a while.

    Args:
        first_s: Seconds of standstill until the first warning; the next ones come at 4, 16, …
            times that.
    """

    def __init__(self, first_s: float = FIRST_S) -> None:
        self.first_s = first_s
        self._reset()

    def _reset(self) -> None:
        self._since = self._last_look = time.monotonic()
        self._next_s = self.first_s

    def __getstate__(self) -> dict[str, Any]:
        return {"first_s": self.first_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def setup(self, *args: Any, **info: Any) -> None:
        """Begin to wait, here and whenever a trial starts, reports or ends."""
        self._reset()

    on_trial_start = on_trial_result = on_trial_complete = setup

    def on_step_end(self, iteration: int, trials: list[Trial], **_: Any) -> None:
        now = time.monotonic()
        if now - self._since < self._next_s:
            return
        # A running trial may take its time for a result: that is no wait for resources.
        if any(trial.status == "RUNNING" for trial in trials):
            self._since = now
            return
        waiting = [trial for trial in trials if trial.status == "PENDING"]
        if not waiting:
            self._since = now
            return
        self._next_s *= FACTOR
        try:
            logger.warning(standstill(waiting, now - self._since))
        except Exception:  # Ray may be ending; an exception here would end the sweep
            logger.debug("no warning of a standstill", exc_info=True)


def standstill(waiting: list[Trial], seconds: float) -> str:
    """Return what waiting trials need, and what the nodes have, in all and free; or what starts."""
    if starting(waiting):
        return (
            f"No trial has begun to train for {seconds:.0f} s: {len(waiting)} wait, and processes "
            "of this sweep are still starting (they import libraries and make environments and "
            "networks; their resources are reserved). On a loaded machine that takes minutes; if "
            "it continues, set-up may wait for something: -vv shows what the processes print."
        )
    request: Any = waiting[0].placement_group_factory
    bundles = [dict(bundle) for bundle in request.bundles]
    alive = live_nodes()
    problem = placement_problem(bundles, request.strategy, alive)
    needs = side_by_side(bundle for bundle in bundles if any(bundle.values()))
    free = free_on_nodes()
    have = side_by_side(alive) or "no node"
    left = side_by_side(free) or "nothing"
    text = (
        f"No trial has run for {seconds:.0f} s: {len(waiting)} wait, each for {needs or 'nothing'}"
        f" [{request.strategy}]. The {len(alive)} live nodes have {have}, of which {left} is free. "
    )
    if problem:
        return (
            f"{text}This can never start: {problem}. A node may have died: add one, or stop the "
            "sweep with Ctrl-C and resume it on a larger cluster with --address."
        )
    if total(free, "CPU") < total(bundles, "CPU") or total(free, "GPU") < total(bundles, "GPU"):
        return f"{text}Something else uses the rest; the sweep continues when it is free."
    return f"{text}The processes start slowly, or the free resources lie on different nodes."


def starting(waiting: list[Trial]) -> bool:
    """Tell whether some of the trials have their resources and are being set up.

    In a new process, which Ray does not call alive before that is done; or in one that another
    trial has left, which Tune gives to a trial that it still calls pending.
    """
    if any(_process_of(trial) is not None for trial in waiting):
        return True
    return is_starting_actors(ray.get_runtime_context().get_job_id())


def _process_of(trial: Trial) -> Any:
    return getattr(getattr(trial, "temporary_state", None), "ray_actor", None)
