"""Every sweep in MLflow: a parent run, and a child run per trial.

The parent holds the spec, the sweep's parameters and the best policy; a child holds its trial's
hyperparameters, its metrics by env step, and how it ended. `MLflowLogger` collects on the Tune loop
and queues; the thread of `experiments.tracking.writer` works the queue off; what each request
writes is in `experiments.tracking.runs`, what things are called in `experiments.tracking.names`.

A resumed sweep continues the runs of the one that was killed: they are found by the tags
`tunescape.sweep_id` and `tunescape.trial_id`, so nothing depends on how recent Tune's snapshot is.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ray import tune

from analysis.credentials import without_credentials
from analysis.names import ENV_STEPS, ITERATION, host_of
from analysis.results.mlflow_tags import (
    CHANGED_TAGS,
    ERROR_TAG,
    FOLDER_TAG,
    HOST_TAG,
    KIND_TAG,
    NAME_TAG,
    NON_FINITE_TAG,
    OUTCOME_TAG,
    RECOVERED_TAG,
    SEED_TAG,
    STATUS_TAG,
    SWEEP_TAG,
    TRIAL_KIND,
    TRIAL_TAG,
)
from analysis.results.rows import flatten
from experiments.tracking.names import (
    FAILED,
    FINISHED,
    KILLED,
    as_params,
    as_text,
    is_number,
    timestamp_ms,
)
from experiments.tracking.runs import SweepInfo, SweepRuns
from experiments.tracking.store import Row
from experiments.tracking.system_metrics import SystemMetrics
from experiments.tracking.writer import MAX_PENDING_METRICS, MLflowWriter
from experiments.trial_info import error_cause, numeric_metrics, trial_folder, was_pruned

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

    from analysis.results.records import Sweep

logger = logging.getLogger(__name__)


class MLflowLogger(tune.Callback):
    """Logs a sweep to MLflow without ever delaying or ending it.

    Args:
        tracking_uri: MLflow's tracking URI, e.g. `sqlite:////abs/runs/mlflow.db` or `http://...`.
        sweep_name: The parent run's name.
        experiment_name: The MLflow experiment, made if it does not exist.
        artifact_location: Where a new experiment keeps its artifacts; None lets MLflow choose.
        tags: Extra tags of the parent and of every child.
        params: Parameters of the parent, flattened.
        spec_path: The spec file, kept as an artifact of the parent.
        metric: The objective; the parent shows its best value so far as `best/<metric>`.
        mode: "max" or "min".
        config: The fixed settings of all trials; names the environment.
        log_model: Whether the best policy is logged as an MLflow model.
        register_as: The name under which that model is registered; None registers none.
        system_metrics: Whether the use of this machine is logged on the parent.
        max_pending_metrics: Metric values that wait for a slow server at most.
        step_metric: The result key that counts env steps, the x axis of every metric. A result
            without it is logged by its training iteration.

    How a trial ended is its run's status and the tag `tunescape.outcome`:

    | Run status | Outcome   | Meaning                                                         |
    |------------|-----------|-----------------------------------------------------------------|
    | FINISHED   | finished  | it met its stop criterion, or ended itself                      |
    | FINISHED   | pruned    | a scheduler ended it early (see `experiments.trial_info`)       |
    | FAILED     | failed    | it raised; the tag `tunescape.error` names the exception        |
    | KILLED     | killed    | the sweep ended first; a resumed sweep sets it back to RUNNING  |
    """

    known_unreachable = False  # set to True by who has already told the user

    def __init__(
        self,
        tracking_uri: str,
        sweep_name: str,
        *,
        experiment_name: str = "tunescape",
        artifact_location: str | None = None,
        tags: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
        spec_path: str | None = None,
        metric: str = "episode_return_mean",
        mode: str = "max",
        config: Mapping[str, Any] | None = None,
        log_model: bool = True,
        register_as: str | None = None,
        system_metrics: bool = False,
        max_pending_metrics: int = MAX_PENDING_METRICS,
        step_metric: str = ENV_STEPS,
    ) -> None:
        if mode not in ("max", "min"):
            raise ValueError(f'mode must be "max" or "min", got {mode!r}')
        self.tracking_uri = tracking_uri
        self.sweep = SweepInfo(
            name=sweep_name,
            # It travels with this object into Tune's tuner.pkl: the same sweep, however often
            # resumed.
            sweep_id=uuid.uuid4().hex,
            experiment_name=experiment_name,
            artifact_location=artifact_location,
            tags={str(k): str(v) for k, v in (tags or {}).items()},
            params=as_params(params or {}),
            spec_path=os.path.abspath(spec_path) if spec_path else None,
            metric=metric,
            mode=mode,
            step_metric=step_metric,
            config=dict(config or {}),
            log_model=log_model,
            register_as=register_as,
        )
        self.system_metrics = system_metrics
        self.max_pending_metrics = max_pending_metrics
        self._started = time.time()  # of the sweep: the zero of its system metrics
        self._reset_session()

    def _reset_session(self) -> None:
        """Clear what belongs to one process: the thread and what was seen by it."""
        self._writer: MLflowWriter | None = None
        self._monitor: SystemMetrics | None = None
        self._runs = SweepRuns(self.sweep, self._running_writer)
        self._reconciled = False
        self._trials: dict[str, Trial] = {}  # started and not yet ended
        self._configs: dict[str, Mapping[str, Any]] = {}  # as last logged
        self._opened: set[str] = set()  # trials whose run was opened by this process
        self._ended: dict[str, str] = {}  # trial id -> run status
        self._hosts: dict[str, int] = {}  # by trial id, as last logged
        self._best: float | None = None
        self._reported_non_finite: set[str] = set()

    def _running_writer(self) -> MLflowWriter:
        assert self._writer is not None, "requests run on the writer's thread"
        return self._writer

    @property
    def parent_run_id(self) -> str | None:
        """The parent's run id; None until MLflow has answered (`close` waits for it)."""
        return self._runs.parent_run_id

    @property
    def run_ids(self) -> dict[str, str]:
        """Run id by trial id, of the trials whose run exists so far."""
        return dict(self._runs.run_ids)

    @property
    def model_uri(self) -> str:
        """Of the best policy as a model, by its registered name if it has one; "" before it."""
        return self._runs.model_uri

    def start_anew(self, trial_ids: frozenset[str]) -> None:
        """Give failed trials that start from the beginning new runs; the failed ones stay.

        Call it on a restored logger, before Tune starts.
        """
        self._runs.anew = trial_ids

    def tag_sweep(self, tags: Mapping[str, str]) -> None:
        """Give the sweep's own run more tags; in place of those that a resumed one has.

        Call it before Tune starts.
        """
        self._runs.tags = tags

    # -- state: Tune calls setup() after set_state() ---------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Leave the thread and the live trials out of Tune's tuner.pkl."""
        return {
            # Who restores it puts the credentials back: see `experiments.running.tuner`.
            "tracking_uri": without_credentials(self.tracking_uri),
            "system_metrics": self.system_metrics,
            "max_pending_metrics": self.max_pending_metrics,
            "started": self._started,
            "sweep": self.sweep,
            "parent_run_id": self.parent_run_id,
            "run_ids": self.run_ids,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.tracking_uri, self.sweep = state["tracking_uri"], state["sweep"]
        self.system_metrics = state["system_metrics"]
        self.max_pending_metrics = state["max_pending_metrics"]
        self._started = state["started"]
        self._reset_session()
        self._runs.parent_run_id, self._runs.run_ids = state["parent_run_id"], state["run_ids"]

    def get_state(self) -> dict[str, Any]:
        return {
            "sweep_id": self.sweep.sweep_id,
            "parent_run_id": self.parent_run_id,
            "run_ids": self.run_ids,
            "best": self._best,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.sweep = self._runs.sweep = replace(self.sweep, sweep_id=state["sweep_id"])
        self._runs.parent_run_id = state["parent_run_id"]
        self._runs.run_ids = dict(state["run_ids"])
        self._best = state["best"]

    # -- Tune's hooks ----------------------------------------------------------------------------

    def setup(self, *args: Any, **info: Any) -> None:
        if self._writer is not None:
            return
        self._writer = MLflowWriter(
            self.tracking_uri,
            self._runs.write_rows,
            max_pending_metrics=self.max_pending_metrics,
        )
        if self.known_unreachable:
            self._writer.already_told("unreachable")
        self._writer.submit(None, self._runs.open_parent)
        if self.system_metrics:
            self._monitor = SystemMetrics(self._queue_sample)
        atexit.register(self.close, KILLED)  # for a driver that ends without calling close()

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        self._guard(self._reconcile, trials)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._guard(self._start_trial, trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **_: Any
    ) -> None:
        self._guard(self._queue_result, trial, result)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._guard(self._end_trial, trial, FINISHED)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._guard(self._end_trial, trial, FAILED)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._guard(self._recover_trial, trial)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        self._guard(self._reconcile, trials)  # a resumed sweep may have had no step left to make
        self._guard(self._kill_open_runs)

    # -- called by whoever runs the sweep --------------------------------------------------------

    def log_best(
        self, trial_id: str, policy_dir: str | None, *, checkpoint: str | None = None
    ) -> None:
        """Mark the winner; keep its exported policy as an artifact of the parent and as a model.

        Args:
            trial_id: The best trial.
            policy_dir: Folder of the exported policy; uploaded whole. None: it has none, as
                trainables of one's own may not.
            checkpoint: Path of the checkpoint it was exported from, kept as a tag.
        """
        best = (trial_id, os.path.abspath(policy_dir) if policy_dir else None, checkpoint)
        self._submit(None, self._runs.write_best, *best)
        if self.sweep.log_model and policy_dir:
            self._submit(None, self._runs.write_model, *best)

    def log_results(self, records: Sweep) -> None:
        """Keep the report, pictures and tables of the sweep's folder as artifacts of the parent.

        Its description there says what came out.

        Args:
            records: The sweep's trials, with all that they reported.
        """
        self._submit(None, self._runs.write_results, records)

    def close(self, status: str = FINISHED) -> None:
        """End the parent run and wait, for a bounded time, until all is written.

        Args:
            status: "FINISHED", "FAILED" or "KILLED".
        """
        if self._writer is None:
            return
        if status not in (FINISHED, FAILED, KILLED):
            raise ValueError(f"status must be FINISHED, FAILED or KILLED, got {status!r}")
        atexit.unregister(self.close)
        self._kill_open_runs()
        if self._monitor is not None:
            self._monitor.close()
        self._submit(None, self._runs.end_parent, status)
        self._writer.close()
        self._writer = None

    # -- on the Tune loop: collect and queue -----------------------------------------------------

    def _guard(self, call: Any, *args: Any) -> None:
        """Run `call`; an exception in a callback would end Tune's loop."""
        try:
            call(*args)
        except Exception as error:
            if self._writer is not None:
                self._writer.warn_once(
                    "internal", f"MLflow logging: {error!r}; the sweep continues."
                )
            logger.debug("MLflow logging failed", exc_info=True)

    def _submit(self, run: str | None, call: Any, *args: Any) -> None:
        if self._writer is not None:
            self._writer.submit(run, lambda: call(*args))

    def _submit_tags(self, run: str | None, tags: Mapping[str, str]) -> None:
        if self._writer is not None:
            self._writer.submit_tags(run, tags)

    def _reconcile(self, trials: list[Trial]) -> None:
        """Bring runs of a killed sweep in line, once, with what Tune knows after a resume."""
        if self._reconciled:
            return
        self._reconciled = True
        known = {trial.trial_id for trial in trials}
        self._submit(None, self._runs.close_orphans, known)
        for trial in trials:
            # It ended before the kill; its end may not have been written. One that starts anew and
            # waits for its turn still looks as it failed: that belongs to its earlier run.
            if trial.is_finished() and trial.trial_id not in self._runs.anew:
                self._open_trial_run(trial, reopen=False)
                self._submit_backfill(trial, trial.last_result or {})
                self._queue_result(trial, trial.last_result or {})
                self._end_trial(trial, FINISHED if trial.status == "TERMINATED" else FAILED)

    def _start_trial(self, trial: Trial) -> None:
        trial_id = trial.trial_id
        self._trials[trial_id] = trial
        self._ended.pop(trial_id, None)
        self._configs.setdefault(trial_id, trial.config)
        is_first = trial_id not in self._opened
        self._open_trial_run(trial)
        if is_first and trial.latest_checkpoint_result is not None:  # continued after a kill
            self._submit_backfill(trial, trial.latest_checkpoint_result.metrics)

    def _submit_backfill(self, trial: Trial, until: Mapping[str, Any]) -> None:
        path, iteration = trial_folder(trial) / "result.json", until.get(ITERATION, 0)
        self._submit(trial.trial_id, self._runs.backfill, trial.trial_id, path, iteration)

    def _open_trial_run(self, trial: Trial, *, reopen: bool = True) -> None:
        self._opened.add(trial.trial_id)
        config = flatten(trial.config)
        tags = {
            **self.sweep.tags,
            TRIAL_TAG: trial.trial_id,
            SWEEP_TAG: self.sweep.sweep_id,
            NAME_TAG: self.sweep.name,
            KIND_TAG: TRIAL_KIND,
            FOLDER_TAG: str(trial_folder(trial)),
        }
        if "seed" in config:
            tags[SEED_TAG] = str(config["seed"])
        self._submit(
            trial.trial_id,
            self._runs.open_run,
            trial.trial_id,
            tags,
            as_params(config),
            trial.config,
            reopen,
        )

    def _queue_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        if self._writer is None or not result:
            return
        trial_id = trial.trial_id
        if trial_id not in self._opened:  # ended by a resume, before it was started again
            self._open_trial_run(trial, reopen=False)
            self._submit_backfill(trial, result)  # rows that the killed driver had not yet sent
        values, non_finite = numeric_metrics(result)
        step = self.sweep.step_of(values)
        self._note_host(trial_id, result)
        if trial.config is not self._configs.get(trial_id, trial.config):
            values.update(self._changed_settings(trial, step))
        if non_finite and trial_id not in self._reported_non_finite:
            self._reported_non_finite.add(trial_id)
            tag = {NON_FINITE_TAG: f"at env step {step}: {', '.join(non_finite)}"}
            self._submit_tags(trial_id, tag)
        values = self.sweep.objective_first(values)
        self._writer.submit_row(trial_id, Row(step, timestamp_ms(result), values))

    def _note_host(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Tag a trial with the process that it shares; anew where it went on in another one."""
        host = host_of(result)
        if host is not None and self._hosts.get(trial_id) != host:
            self._hosts[trial_id] = host
            self._submit_tags(trial_id, {HOST_TAG: str(host)})

    def _changed_settings(self, trial: Trial, step: int) -> dict[str, float]:
        """Return settings that a scheduler changed in mid-trial as metrics `config/<setting>`.

        MLflow's parameters can be written only once. The first change also logs the value before
        it, at step 0, so that the plot starts where the trial did.
        """
        before = flatten(self._configs[trial.trial_id])
        after = flatten(trial.config)
        self._configs[trial.trial_id] = trial.config
        changed: dict[str, float] = {}
        others: dict[str, str] = {}
        for key, value in after.items():
            old = before.get(key)
            if value == old:
                continue
            if is_number(value):
                changed[f"config/{key}"] = float(value)
                if is_number(old) and self._writer is not None:
                    start = Row(0, int(time.time() * 1000), {f"config/{key}": float(old)})
                    self._writer.submit_row(trial.trial_id, start)
            else:
                others[f"{CHANGED_TAGS}{key}"] = f"{as_text(value)} (from env step {step})"
        if others:
            self._submit_tags(trial.trial_id, others)
        return changed

    def _end_trial(self, trial: Trial, status: str) -> None:
        trial_id = trial.trial_id
        self._trials.pop(trial_id, None)
        self._configs.pop(trial_id, None)
        if status == FAILED:
            tags = {OUTCOME_TAG: "failed", ERROR_TAG: error_cause(trial)}
        else:
            tags = {OUTCOME_TAG: "pruned" if was_pruned(trial) else "finished"}
        tags[STATUS_TAG] = trial.status if status == FAILED else "TERMINATED"
        self._submit_tags(trial_id, tags)
        self._submit(trial_id, self._runs.end_run, trial_id, status)
        self._ended[trial_id] = status
        self._queue_best(trial)

    def _queue_best(self, trial: Trial) -> None:
        """Log the best objective so far on the parent, by the number of ended trials."""
        value = (trial.last_result or {}).get(self.sweep.metric)
        if self._writer is None or not is_number(value) or not math.isfinite(value):
            return
        better = self._best is None or (
            value > self._best if self.sweep.mode == "max" else value < self._best
        )
        if better:
            self._best = float(value)
            row = Row(
                len(self._ended), int(time.time() * 1000), {f"best/{self.sweep.metric}": self._best}
            )
            self._writer.submit_row(None, row)

    def _queue_sample(self, values: dict[str, float]) -> None:
        """Log a sample of the machine's use on the parent, by the sweep's age in seconds."""
        now = time.time()
        if self._writer is not None:
            self._writer.submit_row(None, Row(int(now - self._started), int(1000 * now), values))

    def _kill_open_runs(self) -> None:
        for trial_id in list(self._trials):  # cut off: Ctrl-C, or a time budget
            self._submit_tags(trial_id, {OUTCOME_TAG: "killed"})
            self._submit(trial_id, self._runs.end_run, trial_id, KILLED)
        self._trials.clear()

    def _recover_trial(self, trial: Trial) -> None:
        """Its actor died and it starts again from its checkpoint: rows up to now will repeat."""
        trial_id = trial.trial_id
        self._submit(trial_id, self._runs.skip_repeated, trial_id)
        cause = {RECOVERED_TAG: error_cause(trial)}
        self._submit_tags(trial_id, cause)
