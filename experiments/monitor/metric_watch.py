"""Ends a sweep whose trials do not report what it cannot do without: metrics, or checkpoints.

What our own algorithms report is known before a sweep starts (`experiments.spec.metrics`). Of any
other trainable the first result shows it: without the objective a search would learn nothing, and
without the metric of its stop criterion a trial would never end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray import tune

from analysis.names import HOST
from analysis.results.rows import flatten
from experiments.errors import SweepError
from experiments.spec.schema import SweepSpec
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

_PATIENCE = 1000  # results in which a metric that depends on a trial's progress must appear
_NOT_METRICS = ("config/", "done", "trial_id", "hostname", "node_ip", "pid", "date", "timestamp")


class MetricWatch(tune.Callback):
    """Looks for each metric until some trial has reported it.

    Args:
        wanted: The metrics, each with the key of the spec that asks for it.
        later: Prefixes of metrics that need not be in a trial's first results.
    """

    def __init__(self, wanted: dict[str, str], later: tuple[str, ...] = ()) -> None:
        self._wanted = dict(wanted)
        self._later = later
        self._seen: dict[str, int] = {}

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """See whether the result holds what is still looked for; raises `SweepError`."""
        if not self._wanted:  # the usual case after the first result
            return
        row = flatten(result)
        for metric in [metric for metric in self._wanted if metric in row]:
            del self._wanted[metric]
        seen = self._seen[trial.trial_id] = self._seen.get(trial.trial_id, 0) + 1
        for metric, key in self._wanted.items():
            if seen >= self._patience(metric, trial.config):
                raise SweepError(_message(metric, key, trial.trial_id, seen, row))

    def _patience(self, metric: str, config: dict[str, Any]) -> int:
        """Return in how many results of a trial the metric must appear at the latest."""
        if metric.startswith("evaluation/"):
            return int(config.get("evaluation_interval") or 1) + 1
        return _PATIENCE if metric.startswith(self._later) else 1


def watched_metrics(spec: SweepSpec) -> dict[str, str]:
    """Return the metrics that a sweep needs, each with the key of the spec that names it."""
    objectives = spec.objectives or [spec.objective]
    wanted = {f"{objective.metric}": "objective.metric" for objective in objectives}
    for metric in spec.stop:
        wanted.setdefault(metric, f"stop.{metric}")
    time_attr = getattr(spec.scheduler, "time_attr", None)
    if time_attr is not None:
        wanted.setdefault(time_attr, "scheduler.time_attr")
    return wanted


def _message(metric: str, key: str, trial_id: str, seen: int, row: dict[str, Any]) -> str:
    reported = sorted(
        name
        for name, value in row.items()
        if isinstance(value, (int, float)) and not (name == HOST or name.startswith(_NOT_METRICS))
    )
    results = "the first result" if seen == 1 else f"the first {seen} results"
    where = key if key.endswith(metric) else f"{key} = {metric!r}"
    return (
        f"{where}: {results} of trial {trial_id} held no metric {metric!r}; allowed: "
        f"{', '.join(reported)}{suggestion(metric, reported)}"
    )


class PauseWatch(tune.Callback):
    """Sees that every trial that is saved has a checkpoint; a function is asked only by a pause.

    A paused trial goes on from its checkpoint; one without begins anew each time, for ever.

    Args:
        trainable: The trainable, a function, as the spec names it.
        scheduler: The scheduler, which pauses trials.
    """

    def __init__(self, trainable: str, scheduler: str) -> None:
        self._message = (
            f"scheduler: {scheduler} pauses trials and continues them from checkpoints, but "
            f"{trainable} reported none: report one with each result, tune.report(metrics, "
            "checkpoint=…), or use scheduler: asha, median_stopping or fifo"
        )

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        if trial.checkpoint is None:
            raise SweepError(self._message)
