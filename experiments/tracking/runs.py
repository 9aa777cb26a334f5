"""What a sweep writes to MLflow, request by request: all of it runs on the writer's thread.

`experiments.tracking.logger` decides on the Tune loop what is written; here it is written. A run is
found again by the tags `tunescape.sweep_id` and `tunescape.trial_id`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.names import ENV_STEPS, ITERATION
from analysis.results.mlflow_tags import (
    BEST_CHECKPOINT_TAG,
    BEST_POLICY_TAG,
    BEST_RUN_TAG,
    BEST_TAG,
    BEST_TRIAL_TAG,
    DROPPED_METRICS_TAG,
    KIND_TAG,
    MODEL_CHECKPOINT_TAG,
    MODEL_TAG,
    NAME_TAG,
    NUM_TRIALS_TAG,
    OBJECTIVE_TAG,
    OUTCOME_TAG,
    PARENT_TAG,
    REGISTERED_MODEL_TAG,
    SWEEP_KIND,
    SWEEP_TAG,
    TRIAL_TAG,
)
from experiments.tracking.dataset import dataset_inputs
from experiments.tracking.names import (
    BEST_ARTIFACT,
    FAILED,
    FINISHED,
    KILLED,
    provenance_tags,
    run_name,
    timestamp_ms,
)
from experiments.tracking.store import (
    Row,
    ensure_experiment,
    find_runs,
    is_connection_error,
    log_batch,
)
from experiments.tracking.view import VariedSettings, share_view
from experiments.trial_info import numeric_metrics, read_json_lines

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput
    from mlflow.tracking import MlflowClient

    from analysis.results.records import Sweep
    from experiments.tracking.writer import MLflowWriter

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SweepInfo:
    """What is known of a sweep before it starts; see `experiments.tracking.logger.MLflowLogger`."""

    name: str
    sweep_id: str
    experiment_name: str = "tunescape"
    artifact_location: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    spec_path: str | None = None
    metric: str = "episode_return_mean"
    mode: str = "max"
    step_metric: str = ENV_STEPS
    config: Mapping[str, Any] = field(default_factory=dict)
    log_model: bool = True
    register_as: str | None = None

    def step_of(self, values: Mapping[str, float]) -> int:
        """Return the env step of a result; its training iteration if it counts no env steps."""
        return int(values.get(self.step_metric, values.get(ITERATION, 0)))

    def objective_first(self, values: dict[str, float]) -> dict[str, float]:
        """Return a result's metrics with the objective first, as MLflow's pages open on that."""
        if self.metric not in values:
            return values
        return {self.metric: values[self.metric], **values}


class SweepRuns:
    """The parent run and its children.

    Args:
        sweep: The sweep.
        writer: Gives the writer that carries out the requests; called on the thread only.

    Attributes:
        parent_run_id: None until MLflow has answered.
        run_ids: Run id by trial id, of the runs that exist so far.
        model_uri: The URI of the best policy, if it is logged as a model.
        tags: Tags of the parent alone, written when it is opened; again where it is found.
    """

    def __init__(self, sweep: SweepInfo, writer: Callable[[], MLflowWriter]) -> None:
        self.sweep = sweep
        self.parent_run_id: str | None = None
        self.run_ids: dict[str, str] = {}
        self._writer = writer
        self.model_uri = ""
        self.tags: Mapping[str, str] = {}
        self._experiment_id = ""
        self._provenance: dict[str, str] = {}
        # Parameters and config of new runs, until they are logged.
        self._unlogged: dict[str, tuple[Mapping[str, str], Mapping[str, Any] | None]] = {}
        self._found: dict[str, str] = {}  # status of the runs found at a resume
        self.anew: frozenset[str] = frozenset()  # trials that get a new run at a resume
        self._skip_until: dict[str, int] = {}  # env step up to which a run already holds its rows
        self._last_step: dict[str, int] = {}  # env step of a run's last row
        self._settings = VariedSettings(sweep.config)
        self._created_ms = int(time.time() * 1000)

    @property
    def _client(self) -> MlflowClient:
        return self._writer().client

    def open_parent(self) -> None:
        """Make the sweep's run, or find it and its children."""
        client, sweep = self._client, self.sweep
        self._provenance = provenance_tags(sweep.spec_path)
        self._experiment_id = ensure_experiment(
            client, sweep.experiment_name, sweep.artifact_location
        )
        runs = find_runs(client, self._experiment_id, SWEEP_TAG, sweep.sweep_id)
        parents = [run for run in runs if PARENT_TAG not in run.data.tags]
        if parents:
            self.parent_run_id = parents[0].info.run_id
            client.update_run(self.parent_run_id, status="RUNNING")
            log_batch(client, self.parent_run_id, tags=self.tags)  # no request without any
            children = {run.data.tags[TRIAL_TAG]: run for run in runs if TRIAL_TAG in run.data.tags}
            for trial_id in self.anew & set(children):
                run_id = children.pop(trial_id).info.run_id
                client.set_tag(run_id, TRIAL_TAG, f"{trial_id} before its restart")
            self.run_ids = {trial_id: run.info.run_id for trial_id, run in children.items()}
            self._found = {trial_id: run.info.status for trial_id, run in children.items()}
            self._created_ms = parents[0].info.start_time
            for child in children.values():
                self._settings.add(child.data.params)
            return
        self.run_ids = {}
        tags = {
            **self._provenance,
            **sweep.tags,
            **self.tags,
            SWEEP_TAG: sweep.sweep_id,
            NAME_TAG: sweep.name,
            KIND_TAG: SWEEP_KIND,
            OBJECTIVE_TAG: f"{sweep.mode} {sweep.metric}",
        }
        run = client.create_run(self._experiment_id, run_name=sweep.name, tags=tags)
        self.parent_run_id = run.info.run_id
        log_batch(client, run.info.run_id, params=sweep.params)
        self._log_inputs(run.info.run_id, dataset_inputs(sweep.config))
        if sweep.spec_path and os.path.isfile(sweep.spec_path):
            client.log_artifact(run.info.run_id, sweep.spec_path)

    def open_run(
        self,
        trial_id: str,
        tags: dict[str, str],
        params: dict[str, str],
        config: Mapping[str, Any],
        reopen: bool,
    ) -> None:
        """Make a trial's run, or set the one there is back to RUNNING if `reopen`."""
        client = self._client
        run_id = self.run_ids.get(trial_id)
        if run_id is None:
            # Versions are the same in all runs of a sweep: the parent has them.
            source = {k: v for k, v in self._provenance.items() if k.startswith("mlflow.")}
            tags = {**source, PARENT_TAG: self.parent_run_id or "", **tags}
            run = client.create_run(
                self._experiment_id,
                run_name=run_name(trial_id, params, self.sweep.config),
                tags=tags,
            )
            self.run_ids[trial_id] = run.info.run_id
            self._unlogged[trial_id] = params, config
            if not self._writer().is_waiting(trial_id):  # else they go with its metrics
                self._log(trial_id)
            if self._settings.add(params) or len(self.run_ids) == 1:
                self._writer().submit(None, self._share_view)
        elif reopen:
            self._note_logged(trial_id, run_id)
            client.update_run(run_id, status="RUNNING")

    def _share_view(self) -> None:
        """Write how MLflow's page shows this sweep; who may not write that logs all the same."""
        sweep = self.sweep
        try:
            share_view(
                self._client,
                self._experiment_id,
                sweep.sweep_id,
                run_id=self.parent_run_id or "",
                name=sweep.name,
                metric=sweep.metric,
                mode=sweep.mode,
                settings=self._settings.names,
                created_ms=self._created_ms,
            )
        except Exception as error:
            if is_connection_error(error):
                raise
            logger.debug("MLflow keeps no view of %s", sweep.name, exc_info=True)

    def _log_inputs(self, run_id: str, inputs: list[DatasetInput]) -> None:
        """Log what a run learns from, its environment and its data."""
        if inputs:
            self._client.log_inputs(run_id, datasets=inputs)

    def _log(
        self, trial_id: str, rows: Sequence[Row] = (), tags: Mapping[str, str] | None = None
    ) -> None:
        """Write to a trial's run, with what is still to be written of its beginning."""
        run_id = self.run_ids[trial_id]
        params, config = self._unlogged.get(trial_id, ({}, None))
        if config is not None:
            self._log_inputs(run_id, dataset_inputs(config))
        log_batch(self._client, run_id, rows, params, tags)
        self._unlogged.pop(trial_id, None)

    def _note_logged(self, trial_id: str, run_id: str) -> None:
        """Note, once, how far a run found at a resume was logged before the sweep was killed."""
        if self._found.pop(trial_id, None) is None:
            return
        history = self._client.get_metric_history(run_id, ITERATION)
        if history:
            self._last_step[trial_id] = max(metric.step for metric in history)
            self.skip_repeated(trial_id)

    def _is_ended(self, trial_id: str) -> bool:
        """Tell whether a run found at a resume had already been given its end."""
        return self._found.get(trial_id) in (FINISHED, FAILED)

    def skip_repeated(self, trial_id: str) -> None:
        """Leave out the rows that a trial, continued from a checkpoint, will report again."""
        if trial_id in self._last_step:
            self._skip_until[trial_id] = self._last_step[trial_id]

    def write_rows(
        self, trial_id: str | None, rows: list[Row], tags: Mapping[str, str] | None = None
    ) -> None:
        """Log rows and tags of a trial, or of the parent (None)."""
        if trial_id is None:
            if self.parent_run_id is not None:
                log_batch(self._client, self.parent_run_id, rows, tags=tags)
            return
        run_id = self.run_ids.get(trial_id)
        if run_id is None or self._is_ended(trial_id):
            return
        self._note_logged(trial_id, run_id)
        # A trial continued from a checkpoint reports again what its run already holds.
        limit = self._skip_until.get(trial_id)
        if limit is not None:
            rows = [row for row in rows if row.step > limit]
        if rows or tags:
            self._log(trial_id, rows, tags)
        if rows:
            self._skip_until.pop(trial_id, None)
            self._last_step[trial_id] = rows[-1].step

    def backfill(self, trial_id: str, path: Path, until: int) -> None:
        """Log what a killed sweep had in its folder, but had not yet sent to MLflow."""
        if trial_id not in self.run_ids or self._is_ended(trial_id):
            return
        by_iteration: dict[int, Row] = {}
        for result in read_json_lines(path):  # of repeated iterations the last counts
            values, _ = numeric_metrics(result)
            iteration = int(values.get(ITERATION, 0))
            if iteration <= until:
                by_iteration[iteration] = Row(
                    self.sweep.step_of(values),
                    timestamp_ms(result),
                    self.sweep.objective_first(values),
                )
        self.write_rows(trial_id, [by_iteration[i] for i in sorted(by_iteration)])

    def end_run(self, trial_id: str, status: str) -> None:
        """End a trial's run, unless it had been ended before a resume."""
        if trial_id in self.run_ids and not self._is_ended(trial_id):
            if trial_id in self._unlogged:  # it ended without a result
                self._log(trial_id)
            self._client.set_terminated(self.run_ids[trial_id], status=status)

    def close_orphans(self, known: set[str]) -> None:
        """End the runs of trials that were lost with the process that had made them."""
        for trial_id in set(self.run_ids) - known:
            self.write_rows(trial_id, [], {OUTCOME_TAG: "killed"})
            self.end_run(trial_id, KILLED)

    def write_best(self, trial_id: str, policy_dir: str | None, checkpoint: str | None) -> None:
        """Mark the winner and keep its policy, if it has one, with the parent."""
        client = self._client
        if self.parent_run_id is None:
            return
        places = {BEST_POLICY_TAG: policy_dir, BEST_CHECKPOINT_TAG: checkpoint}
        kept = {name: place for name, place in places.items() if place}
        tags = {BEST_TRIAL_TAG: trial_id, **kept}
        if trial_id in self.run_ids:
            tags[BEST_RUN_TAG] = self.run_ids[trial_id]
            self._log(trial_id, tags={BEST_TAG: "true", **kept})
        log_batch(client, self.parent_run_id, tags=tags)
        if policy_dir:
            client.log_artifacts(self.parent_run_id, policy_dir, artifact_path=BEST_ARTIFACT)

    def write_model(self, trial_id: str, policy_dir: str, checkpoint: str | None) -> None:
        """Log the winner's policy as a model, and register it if asked.

        Of several policies each is a model of its id, registered as `<name>-<id>`.

        A sweep that is resumed after its end finds the same winner: it has its model already.
        """
        from experiments.tracking.model import (
            MODEL_NAME,
            load_policy,
            log_model,
            provenance,
            register_model,
        )

        client, sweep = self._client, self.sweep
        if self.parent_run_id is None:
            return
        known = client.get_run(self.parent_run_id).data.tags
        if checkpoint and known.get(MODEL_CHECKPOINT_TAG) == checkpoint:
            self.model_uri = known.get(REGISTERED_MODEL_TAG, known[MODEL_TAG])
            return
        run_id = self.run_ids.get(trial_id, self.parent_run_id)
        tags: dict[str, str] = {MODEL_CHECKPOINT_TAG: checkpoint} if checkpoint else {}
        several = sorted(path.parent for path in Path(policy_dir).glob("*/policy.json"))
        for folder in several or [Path(policy_dir)]:
            name = folder.name if several else MODEL_NAME
            try:
                policy = load_policy(str(folder))
            except ValueError as error:  # a trainable of the user's own, with its own format
                if sweep.register_as:
                    self._writer().warn_once("model", f"No model is registered: {error}")
                return
            model = log_model(
                client,
                policy,
                folder,
                experiment_id=self._experiment_id,
                run_ids=list(dict.fromkeys([run_id, self.parent_run_id])),
                tags={NAME_TAG: sweep.name, TRIAL_TAG: trial_id},
                name=name,
            )
            tags.setdefault(MODEL_TAG, model.model_uri)  # of several policies the first one's
            if sweep.register_as:
                own = f"{sweep.register_as}-{name}" if several else sweep.register_as
                version = register_model(client, model, own, provenance(folder))
                tags.setdefault(REGISTERED_MODEL_TAG, f"models:/{own}/{version}")
        log_batch(client, self.parent_run_id, tags=tags)
        self.model_uri = tags.get(REGISTERED_MODEL_TAG, model.model_uri)

    def write_results(self, records: Sweep) -> None:
        """Keep what the sweep's folder holds of results with the parent, and describe it."""
        from experiments.tracking.artifacts import log_results

        if self.parent_run_id is not None:
            sweep = self.sweep
            place = self._experiment_id, self.parent_run_id
            log_results(self._client, *place, records, sweep.metric, sweep.mode)

    def end_parent(self, status: str) -> None:
        """End the sweep's run, and note there what MLflow has not got."""
        if self.parent_run_id is None:
            return
        tags = {OUTCOME_TAG: status.lower(), NUM_TRIALS_TAG: str(len(self.run_ids))}
        if self._writer().num_dropped:
            tags[DROPPED_METRICS_TAG] = str(self._writer().num_dropped)
        log_batch(self._client, self.parent_run_id, tags=tags)
        self._client.set_terminated(self.parent_run_id, status=status)
