"""What Tune's loop does where a process cannot be taken over; the sweeps are in test_own_sweeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from experiments.sweep.actor_reuse import replace_failed_resets


class Controller:
    """The part of Tune's loop that is replaced."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.done: list[tuple[str, Any]] = []
        self._resetting_trials: set[Any] = set()
        self._trial_to_actor: dict[Any, Any] = {}
        self._actor_to_trial: dict[Any, Any] = {}

    def _update_trial_queue(self, blocking: bool = False, timeout: float = 600) -> bool:
        self.waits.append(timeout)
        return False

    def _on_trial_reset(self, trial: Any, success: bool) -> None:
        self.done.append(("reset", success))

    def _process_trial_failure(self, trial: Any, exception: Any) -> None:
        self.done.append(("failed", exception))

    def _remove_actor(self, tracked_actor: Any) -> None:
        self.done.append(("removed", tracked_actor))

    def _cleanup_cached_actors(self, force_all: bool) -> None:
        self.done.append(("flushed", force_all))

    def _schedule_trial_actor(self, trial: Any) -> None:
        self.done.append(("started", trial))


class Trial(SimpleNamespace):
    __hash__ = object.__hash__

    def set_ray_actor(self, actor: Any) -> None:
        self.actor = actor


def replaced() -> Any:
    controller = Controller()
    replace_failed_resets(controller)  # type: ignore[arg-type]
    return controller


def test_ctrl_c_is_looked_at_while_the_search_has_no_trial() -> None:
    """Tune would sit there for 10 minutes, whatever is pressed."""
    controller = replaced()
    assert not controller._update_trial_queue(blocking=True)
    assert not controller._update_trial_queue(True, 600)
    assert max(controller.waits) <= 1.0


def test_a_refused_reset_starts_a_process() -> None:
    controller, trial = replaced(), Trial(trial_id="a", trainable_name="X", actor="old")
    controller._resetting_trials.add(trial)
    controller._trial_to_actor[trial], controller._actor_to_trial["old"] = "old", trial
    controller._on_trial_reset(trial, False)
    assert controller.done == [("removed", "old"), ("flushed", True), ("started", trial)]
    assert not controller._resetting_trials and not controller._actor_to_trial
    assert trial.actor is None


def test_a_reset_that_succeeds_is_tunes() -> None:
    controller, trial = replaced(), Trial(trial_id="a", trainable_name="X")
    controller._on_trial_reset(trial, True)
    assert controller.done == [("reset", True)]


def test_a_trial_that_fails_in_its_reset_is_not_waited_for() -> None:
    controller, trial = replaced(), Trial(trial_id="a", trainable_name="X")
    controller._resetting_trials.add(trial)
    controller._process_trial_failure(trial, "why")
    assert controller.done == [("failed", "why")] and not controller._resetting_trials
