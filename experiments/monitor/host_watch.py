"""Tells of a host whose trials all wait: for whom, where it is, and what to do about it.

Trials of a host compute one after the other, or as one program. An environment that hangs, in one
of them, therefore holds them all, and Tune waits for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ray
from ray import tune

from trainables.runtime.members.handle import MemberHandle

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)

FIRST_S, FACTOR = 60.0, 4.0  # seconds until the first warning; each later one waits longer
_TIMES_LONGER = 10.0  # than anything before: what takes long in every iteration does not hang
_LOOK_S = 0.5
_ANSWER_S = 10.0
_SHOWN = 8


@dataclass
class _Watched:
    """A host.

    Attributes:
        since: When a trial of it last did anything.
        next_s: For how long nothing happens before it is asked.
        question: What it was asked, until it answers.
        asked: When.
    """

    since: float
    next_s: float
    question: Any = field(default=None)
    asked: float = 0.0


class HostWatch(tune.Callback):
    """Warns of hosts that have been busy with one thing for long.

    Args:
        first_s: Seconds without a result of a host until it is asked first; then 4, 16, … times
            that.
    """

    def __init__(self, first_s: float = FIRST_S) -> None:
        self.first_s = first_s
        self._hosts: dict[Any, _Watched] = {}
        self._last_look = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {"first_s": self.first_s, "_hosts": {}, "_last_look": 0.0}

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        """Note that a trial's host goes on."""
        member = _member_of(trial)
        if member is not None:
            self._hosts.pop(member.host, None)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **_: Any
    ) -> None:
        """Note that a trial's host goes on."""
        self.on_trial_start(iteration, trials, trial)

    def on_step_end(self, iteration: int, trials: list[Trial], **_: Any) -> None:
        """Ask hosts that have been quiet for long what they do."""
        now = time.monotonic()
        if now - self._last_look < _LOOK_S:
            return
        self._last_look = now
        waiting: dict[Any, list[Trial]] = {}
        for trial in trials:
            member = _member_of(trial) if trial.status == "RUNNING" else None
            if member is not None:
                waiting.setdefault(member.host, []).append(trial)
        self._hosts = {host: self._hosts.get(host, _Watched(now, self.first_s)) for host in waiting}
        for host, watched in self._hosts.items():
            try:
                self._look_at(host, watched, waiting[host], now)
            except Exception:  # it may be ending; an exception here would end the sweep
                watched.question, watched.since = None, now
                logger.debug("no answer of a host", exc_info=True)

    def _look_at(self, host: Any, watched: _Watched, waiting: list[Trial], now: float) -> None:
        quiet = now - watched.since
        if watched.question is None:
            if quiet >= watched.next_s:
                watched.question, watched.asked = host.work.remote(), now
            return
        ready, _ = ray.wait([watched.question], timeout=0)
        if not ready:
            if now - watched.asked < _ANSWER_S:
                return
            work = None
        else:
            work = ray.get(watched.question)
            if work["seconds"] < max(self.first_s, _TIMES_LONGER * work["longest"]):
                watched.question = None
                watched.next_s = quiet + self.first_s
                return
        watched.question = None
        watched.next_s = quiet * FACTOR
        logger.warning(standstill(work, waiting, quiet))


def standstill(work: Mapping[str, Any] | None, waiting: Sequence[Trial], seconds: float) -> str:
    """Return what a host does, for whom it waits, and how to go on.

    Args:
        work: What `Host.work` says; None: it does not answer.
        waiting: The trials that wait for it.
        seconds: Since it last gave a result.
    """
    by_member = {member.name: trial for trial in waiting if (member := _member_of(trial))}
    ids = [trial.trial_id for trial in waiting]
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    held = f"{len(ids)} trials wait for it: {', '.join(ids[:_SHOWN])}{more}."
    if work is None:
        return (
            f"A process of several trials has given no result for {seconds:.0f} s and does not "
            f"answer: native code, for example of an environment, may hang. {held} {_ADVICE}"
        )
    if work["name"] is None:
        whose = "work for several of them"
    elif work["name"] in by_member:
        whose = f"trial {by_member[work['name']].trial_id}"
    else:
        whose = "a trial that begins or ends"
    return (
        f"The process {work['pid']} of several trials has been busy for {work['seconds']:.0f} s "
        f"with {whose}; an environment may hang. It is at {' > '.join(work['where'])}. {held} "
        f"{_ADVICE.replace('its id', str(work['pid']))}"
    )


_ADVICE = (
    "Ctrl-C ends the sweep, and `tunescape resume` continues it; `kill -9 its id` ends only that "
    "process, and its trials continue from their latest checkpoints in another one, up to "
    "max_failures times."
)


def _member_of(trial: Trial) -> MemberHandle | None:
    actor = getattr(getattr(trial, "temporary_state", None), "ray_actor", None)
    return actor if isinstance(actor, MemberHandle) else None
