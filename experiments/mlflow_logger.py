"""Every sweep in MLflow: a parent run, and a child run per trial.

The parent holds the spec, the sweep's parameters and the best policy; a child holds its trial's
hyperparameters, its metrics by env step, and how it ended. `MLflowLogger` collects; the thread of
`experiments.mlflow_writer` writes.

A resumed sweep continues the runs of the one that was killed: they are found by the tags
`tunescape.sweep_id` and `tunescape.trial_id`, so nothing depends on how recent Tune's snapshot is.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from ray import tune

from analysis.rows import flatten
from experiments.mlflow_writer import (
    MLflowWriter,
    Row,
    ensure_experiment,
    find_runs,
    log_params_and_tags,
    log_rows,
)
from experiments.provenance import git_commit, package_versions, user_name
from experiments.trial_info import (
    error_cause,
    numeric_metrics,
    read_json_lines,
    trial_folder,
    was_pruned,
)

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)

PARENT_TAG = "mlflow.parentRunId"  # the tag by which MLflow's UI nests runs
SWEEP_TAG = "tunescape.sweep_id"
TRIAL_TAG = "tunescape.trial_id"
OUTCOME_TAG = "tunescape.outcome"
BEST_ARTIFACT = "best_policy"

FINISHED, FAILED, KILLED = "FINISHED", "FAILED", "KILLED"


class MLflowLogger(tune.Callback):
    """Logs a sweep to MLflow without ever delaying or ending it.

    Args:
        tracking_uri: MLflow's tracking URI, e.g. `sqlite:////abs/runs/mlflow.db` or `http://...`.
        sweep_name: the parent run's name.
        experiment_name: the MLflow experiment, made if it does not exist.
        artifact_location: where a new experiment keeps its artifacts; None lets MLflow choose.
        tags: extra tags of the parent and of every child.
        params: parameters of the parent, flattened.
        spec_path: the spec file, kept as an artifact of the parent.
        metric: the objective; the parent shows its best value so far as `best/<metric>`.
        mode: "max" or "min".
        step_metric: the result key that counts env steps, the x axis of every metric. A result
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
        step_metric: str = "num_env_steps_sampled_lifetime",
    ) -> None:
        if mode not in ("max", "min"):
            raise ValueError(f'mode must be "max" or "min", got {mode!r}')
        self.tracking_uri = tracking_uri
        self.sweep_name = sweep_name
        self.experiment_name = experiment_name
        # It travels with this object into Tune's tuner.pkl: the same sweep, however often resumed.
        self.sweep_id = uuid.uuid4().hex
        self._artifact_location = artifact_location
        self._tags = {str(k): str(v) for k, v in (tags or {}).items()}
        self._params = _as_params(params or {})
        self._spec_path = os.path.abspath(spec_path) if spec_path else None
        self._metric = metric
        self._mode = mode
        self._step_metric = step_metric
        self._parent_run_id: str | None = None
        self._run_ids: dict[str, str] = {}
        self._reset_session()

    def _reset_session(self) -> None:
        """Clears what belongs to one process: the thread and what was seen by it."""
        self._writer: MLflowWriter | None = None
        self._reconciled = False
        self._trials: dict[str, Trial] = {}  # started and not yet ended
        self._configs: dict[str, Mapping[str, Any]] = {}  # as last logged
        self._opened: set[str] = set()  # trials whose run was opened by this process
        self._ended: dict[str, str] = {}  # trial id -> run status
        self._best: float | None = None
        # For the thread. Status of the runs found at a resume; env step up to which a run already
        # holds its rows; env step of its last row.
        self._experiment_id = ""
        self._provenance: dict[str, str] = {}
        self._found: dict[str, str] = {}
        self._skip_until: dict[str, int] = {}
        self._last_step: dict[str, int] = {}
        self._reported_non_finite: set[str] = set()

    @property
    def parent_run_id(self) -> str | None:
        """The parent's run id; None until MLflow has answered (`close` waits for it)."""
        return self._parent_run_id

    @property
    def run_ids(self) -> dict[str, str]:
        """Run id by trial id, of the trials whose run exists so far."""
        return dict(self._run_ids)

    # -- state: Tune calls setup() after set_state() ---------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the thread and the live trials out of Tune's tuner.pkl."""
        kept = {
            "tracking_uri",
            "sweep_name",
            "experiment_name",
            "sweep_id",
            "_artifact_location",
            "_tags",
            "_params",
            "_spec_path",
            "_metric",
            "_mode",
            "_step_metric",
            "_parent_run_id",
            "_run_ids",
        }
        return {k: v for k, v in self.__dict__.items() if k in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset_session()

    def get_state(self) -> dict[str, Any]:
        return {
            "sweep_id": self.sweep_id,
            "parent_run_id": self._parent_run_id,
            "run_ids": dict(self._run_ids),
            "best": self._best,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.sweep_id = state["sweep_id"]
        self._parent_run_id = state["parent_run_id"]
        self._run_ids = dict(state["run_ids"])
        self._best = state["best"]

    # -- Tune's hooks ----------------------------------------------------------------------------

    def setup(self, *args: Any, **info: Any) -> None:
        if self._writer is not None:
            return
        self._writer = MLflowWriter(self.tracking_uri, self._write_rows)
        if self.known_unreachable:
            self._writer.already_told("unreachable")
        self._writer.submit(None, self._open_parent)
        atexit.register(self.close, KILLED)  # for a driver that ends without calling close()

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        self._guard(self._reconcile, trials)

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._guard(self._start_trial, trial)

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        self._guard(self._queue_result, trial, result)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._guard(self._end_trial, trial, FINISHED)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._guard(self._end_trial, trial, FAILED)

    def on_trial_recover(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._guard(self._recover_trial, trial)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        self._guard(self._reconcile, trials)  # a resumed sweep may have had no step left to make
        self._guard(self._kill_open_runs)

    # -- called by whoever runs the sweep --------------------------------------------------------

    def log_best(self, trial_id: str, policy_dir: str, *, checkpoint: str | None = None) -> None:
        """Marks the winner and keeps its exported policy as the parent's `best_policy` artifact.

        Args:
            trial_id: the best trial.
            policy_dir: folder of the exported policy; uploaded whole.
            checkpoint: path of the checkpoint it was exported from, kept as a tag.
        """
        self._submit(None, self._write_best, trial_id, os.path.abspath(policy_dir), checkpoint)

    def close(self, status: str = FINISHED) -> None:
        """Ends the parent run and waits, for a bounded time, until all is written.

        Args:
            status: "FINISHED", "FAILED" or "KILLED".
        """
        if self._writer is None:
            return
        if status not in (FINISHED, FAILED, KILLED):
            raise ValueError(f"status must be FINISHED, FAILED or KILLED, got {status!r}")
        atexit.unregister(self.close)
        self._kill_open_runs()
        self._submit(None, self._end_parent, status)
        self._writer.close()
        self._writer = None

    # -- on the Tune loop: collect and queue -----------------------------------------------------

    def _guard(self, call: Any, *args: Any) -> None:
        """Runs `call`; an exception in a callback would end Tune's loop."""
        try:
            call(*args)
        except Exception as error:
            if self._writer is not None:
                self._writer.warn_once("internal", f"MLflow logging: {error!r}; the sweep goes on.")
            logger.debug("MLflow logging failed", exc_info=True)

    def _submit(self, run: str | None, call: Any, *args: Any) -> None:
        if self._writer is not None:
            self._writer.submit(run, lambda: call(*args))

    def _reconcile(self, trials: list[Trial]) -> None:
        """Brings runs of a killed sweep in line, once, with what Tune knows after a resume."""
        if self._reconciled:
            return
        self._reconciled = True
        known = {trial.trial_id for trial in trials}
        self._submit(None, self._close_orphans, known)
        for trial in trials:
            if trial.is_finished():  # ended before the kill; its end may not have been written
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
        path, iteration = trial_folder(trial) / "result.json", until.get("training_iteration", 0)
        self._submit(trial.trial_id, self._backfill, trial.trial_id, path, iteration)

    def _open_trial_run(self, trial: Trial, *, reopen: bool = True) -> None:
        self._opened.add(trial.trial_id)
        config = flatten(trial.config)
        tags = {
            **self._tags,
            TRIAL_TAG: trial.trial_id,
            SWEEP_TAG: self.sweep_id,
            "tunescape.sweep": self.sweep_name,
            "tunescape.kind": "trial",
            "tunescape.trial_dir": str(trial_folder(trial)),
        }
        if "seed" in config:
            tags["tunescape.seed"] = str(config["seed"])
        params = _as_params(config)
        self._submit(trial.trial_id, self._open_run, trial.trial_id, tags, params, reopen)

    def _queue_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        if self._writer is None or not result:
            return
        trial_id = trial.trial_id
        if trial_id not in self._opened:  # ended by a resume, before it was started again
            self._open_trial_run(trial, reopen=False)
        values, non_finite = numeric_metrics(result)
        step = self._step(values)
        if trial.config is not self._configs.get(trial_id, trial.config):
            values.update(self._changed_settings(trial, step))
        if non_finite and trial_id not in self._reported_non_finite:
            self._reported_non_finite.add(trial_id)
            tag = {"tunescape.non_finite": f"at env step {step}: {', '.join(non_finite)}"}
            self._submit(trial_id, self._tag_run, trial_id, tag)
        self._writer.submit_row(trial_id, Row(step, _timestamp_ms(result), values))

    def _step(self, values: Mapping[str, float]) -> int:
        return int(values.get(self._step_metric, values.get("training_iteration", 0)))

    def _changed_settings(self, trial: Trial, step: int) -> dict[str, float]:
        """Returns settings that a scheduler changed in mid-trial as metrics `config/<setting>`.

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
            if _is_number(value):
                changed[f"config/{key}"] = float(value)
                if _is_number(old) and self._writer is not None:
                    start = Row(0, int(time.time() * 1000), {f"config/{key}": float(old)})
                    self._writer.submit_row(trial.trial_id, start)
            else:
                others[f"tunescape.config.{key}"] = f"{_as_text(value)} (from env step {step})"
        if others:
            self._submit(trial.trial_id, self._tag_run, trial.trial_id, others)
        return changed

    def _end_trial(self, trial: Trial, status: str) -> None:
        trial_id = trial.trial_id
        self._trials.pop(trial_id, None)
        self._configs.pop(trial_id, None)
        if status == FAILED:
            tags = {OUTCOME_TAG: "failed", "tunescape.error": error_cause(trial)}
        else:
            tags = {OUTCOME_TAG: "pruned" if was_pruned(trial) else "finished"}
        tags["tunescape.status"] = trial.status if status == FAILED else "TERMINATED"
        self._submit(trial_id, self._end_run, trial_id, status, tags)
        self._ended[trial_id] = status
        self._queue_best(trial)

    def _queue_best(self, trial: Trial) -> None:
        """Logs the best objective so far on the parent, by the number of ended trials."""
        value = (trial.last_result or {}).get(self._metric)
        if self._writer is None or not _is_number(value) or not math.isfinite(value):
            return
        better = self._best is None or (
            value > self._best if self._mode == "max" else value < self._best
        )
        if better:
            self._best = float(value)
            row = Row(
                len(self._ended), int(time.time() * 1000), {f"best/{self._metric}": self._best}
            )
            self._writer.submit_row(None, row)

    def _kill_open_runs(self) -> None:
        for trial_id in list(self._trials):  # cut off: Ctrl-C, or a time budget
            self._submit(trial_id, self._end_run, trial_id, KILLED, {OUTCOME_TAG: "killed"})
        self._trials.clear()

    def _recover_trial(self, trial: Trial) -> None:
        """Its actor died and it starts again from its checkpoint: rows up to now will repeat."""
        trial_id = trial.trial_id
        self._submit(trial_id, self._skip_repeated, trial_id)
        cause = {"tunescape.recovered_from": error_cause(trial)}
        self._submit(trial_id, self._tag_run, trial_id, cause)

    # -- on the writer's thread ------------------------------------------------------------------

    def _client(self) -> Any:
        assert self._writer is not None
        return self._writer.client

    def _open_parent(self) -> None:
        client = self._client()
        self._provenance = _provenance_tags(self._spec_path)
        self._experiment_id = ensure_experiment(
            client, self.experiment_name, self._artifact_location
        )
        runs = find_runs(client, self._experiment_id, SWEEP_TAG, self.sweep_id)
        parents = [run for run in runs if PARENT_TAG not in run.data.tags]
        if parents:
            self._parent_run_id = parents[0].info.run_id
            client.update_run(self._parent_run_id, status="RUNNING")
            children = {run.data.tags[TRIAL_TAG]: run for run in runs if TRIAL_TAG in run.data.tags}
            self._run_ids = {trial_id: run.info.run_id for trial_id, run in children.items()}
            self._found = {trial_id: run.info.status for trial_id, run in children.items()}
            return
        self._run_ids = {}
        tags = {
            **self._provenance,
            **self._tags,
            SWEEP_TAG: self.sweep_id,
            "tunescape.sweep": self.sweep_name,
            "tunescape.kind": "sweep",
            "tunescape.objective": f"{self._mode} {self._metric}",
        }
        run = client.create_run(self._experiment_id, run_name=self.sweep_name, tags=tags)
        self._parent_run_id = run.info.run_id
        log_params_and_tags(client, run.info.run_id, self._params, {})
        if self._spec_path and os.path.isfile(self._spec_path):
            client.log_artifact(run.info.run_id, self._spec_path)

    def _open_run(
        self, trial_id: str, tags: dict[str, str], params: dict[str, str], reopen: bool
    ) -> None:
        client = self._client()
        run_id = self._run_ids.get(trial_id)
        if run_id is None:
            parent = {PARENT_TAG: self._parent_run_id}
            run = client.create_run(
                self._experiment_id, run_name=trial_id, tags={**self._provenance, **parent, **tags}
            )
            self._run_ids[trial_id] = run.info.run_id
            log_params_and_tags(client, run.info.run_id, params, {})
        elif reopen:
            self._note_logged(trial_id, run_id)
            client.update_run(run_id, status="RUNNING")

    def _note_logged(self, trial_id: str, run_id: str) -> None:
        """Notes, once, how far a run found at a resume was logged before the sweep was killed."""
        if self._found.pop(trial_id, None) is None:
            return
        history = self._client().get_metric_history(run_id, "training_iteration")
        if history:
            self._last_step[trial_id] = max(metric.step for metric in history)
            self._skip_repeated(trial_id)

    def _is_ended(self, trial_id: str) -> bool:
        """Tells whether a run found at a resume had already been given its end."""
        return self._found.get(trial_id) in (FINISHED, FAILED)

    def _skip_repeated(self, trial_id: str) -> None:
        if trial_id in self._last_step:
            self._skip_until[trial_id] = self._last_step[trial_id]

    def _write_rows(self, trial_id: str | None, rows: list[Row]) -> None:
        if trial_id is None:
            if self._parent_run_id is not None:
                log_rows(self._client(), self._parent_run_id, rows)
            return
        run_id = self._run_ids.get(trial_id)
        if run_id is None or self._is_ended(trial_id):
            return
        self._note_logged(trial_id, run_id)
        # A trial continued from a checkpoint reports again what its run already holds.
        limit = self._skip_until.get(trial_id)
        if limit is not None:
            rows = [row for row in rows if row.step > limit]
        if rows:
            log_rows(self._client(), run_id, rows)
            self._skip_until.pop(trial_id, None)
            self._last_step[trial_id] = rows[-1].step

    def _backfill(self, trial_id: str, path: Path, until: int) -> None:
        """Logs what a killed sweep had in its folder, but had not yet sent to MLflow."""
        if trial_id not in self._run_ids or self._is_ended(trial_id):
            return
        by_iteration: dict[int, Row] = {}
        for result in read_json_lines(path):  # of repeated iterations the last counts
            values, _ = numeric_metrics(result)
            iteration = int(values.get("training_iteration", 0))
            if iteration <= until:
                by_iteration[iteration] = Row(self._step(values), _timestamp_ms(result), values)
        self._write_rows(trial_id, [by_iteration[i] for i in sorted(by_iteration)])

    def _tag_run(self, trial_id: str, tags: dict[str, str]) -> None:
        if trial_id in self._run_ids:
            log_params_and_tags(self._client(), self._run_ids[trial_id], {}, tags)

    def _end_run(self, trial_id: str, status: str, tags: dict[str, str]) -> None:
        if trial_id in self._run_ids and not self._is_ended(trial_id):
            self._tag_run(trial_id, tags)
            self._client().set_terminated(self._run_ids[trial_id], status=status)

    def _close_orphans(self, known: set[str]) -> None:
        """Ends the runs of trials that were lost with the process that had made them."""
        for trial_id in set(self._run_ids) - known:
            self._end_run(trial_id, KILLED, {OUTCOME_TAG: "killed"})

    def _write_best(self, trial_id: str, policy_dir: str, checkpoint: str | None) -> None:
        client = self._client()
        if self._parent_run_id is None:
            return
        tags = {"tunescape.best_trial_id": trial_id, "tunescape.best_policy": policy_dir}
        if checkpoint:
            tags["tunescape.best_checkpoint"] = checkpoint
        if trial_id in self._run_ids:
            tags["tunescape.best_run_id"] = self._run_ids[trial_id]
            best = {"tunescape.best": "true", "tunescape.best_policy": policy_dir}
            if checkpoint:
                best["tunescape.best_checkpoint"] = checkpoint
            self._tag_run(trial_id, best)
        log_params_and_tags(client, self._parent_run_id, {}, tags)
        client.log_artifacts(self._parent_run_id, policy_dir, artifact_path=BEST_ARTIFACT)

    def _end_parent(self, status: str) -> None:
        if self._parent_run_id is None:
            return
        tags = {OUTCOME_TAG: status.lower(), "tunescape.num_trials": str(len(self._run_ids))}
        log_params_and_tags(self._client(), self._parent_run_id, {}, tags)
        self._client().set_terminated(self._parent_run_id, status=status)


def _provenance_tags(spec_path: str | None) -> dict[str, str]:
    tags = {f"tunescape.version.{name}": v for name, v in package_versions().items()}
    tags["mlflow.source.name"] = os.path.basename(spec_path) if spec_path else "tunescape"
    tags["mlflow.source.type"] = "LOCAL"
    commit = git_commit()
    if commit:
        tags["mlflow.source.git.commit"] = commit
    user = user_name()
    if user:
        tags["mlflow.user"] = user
    if spec_path:
        tags["tunescape.spec"] = os.path.basename(spec_path)
    return tags


def _as_params(config: Mapping[str, Any]) -> dict[str, str]:
    return {key: _as_text(value) for key, value in flatten(config).items()}


def _as_text(value: Any) -> str:
    """Returns a setting as MLflow shows it: callables by name, containers as JSON."""
    if isinstance(value, str):
        return value
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{getattr(value, '__module__', '?')}:{name}"
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, default=_as_text)
    return str(value)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _timestamp_ms(result: Mapping[str, Any]) -> int:
    """Returns when a result was made; the same result logged twice is then the same point."""
    return int(1000 * float(result.get("timestamp") or time.time()))
