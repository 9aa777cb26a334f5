"""A plain `tune.Tuner` in MLflow, logged as a spec's sweep is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyarrow.fs import LocalFileSystem

from analysis.credentials import without_credentials
from analysis.names import ENV_STEPS
from analysis.results.mlflow_tags import BEST_TAG, BEST_TRIAL_TAG
from analysis.results.rows import ResultsError
from experiments.spec.paths import BEST_FOLDER, absolute_tracking_uri, default_tracking_uri
from experiments.tracking.logger import MLflowLogger
from experiments.tracking.names import FAILED, FINISHED, KILLED, as_params
from experiments.tracking.writer import MAX_PENDING_METRICS

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

    from analysis.results.records import Sweep

_SQLITE = "sqlite:///"


class MLflowCallback(MLflowLogger):
    """Logs what a `tune.Tuner` runs to MLflow, as `tunescape run` logs a sweep.

    A parent run with a description and the best policy, and in it a run per trial: its settings,
    its metrics by env step (by training iteration, if it counts no env steps), and how it ended.
    `Tuner.restore` continues the runs. Nothing that MLflow does delays or ends the trials. All is
    written, and the parent run ended, when `fit` returns.

    Args:
        tracking_uri: MLflow's tracking URI; by default the environment's `MLFLOW_TRACKING_URI`,
            else `mlflow.db` in the Tuner's storage folder, which `tunescape ui <folder>` shows.
        experiment_name: The MLflow experiment, made if it does not exist.
        run_name: The name of the parent run; by default that of the Tuner's run.
        metric: The objective, as in `tune.TuneConfig`; of results that lack it none is best.
        mode: "max" or "min".
        tags: Extra tags of the parent and of every trial's run.
        log_model: Whether the policy of the best checkpoint is written to `best/` in the run's
            folder and logged, if the trials are algorithms of `trainables`.
        register_as: The name under which that model is registered; None registers none.
        artifact_location: Where a new experiment keeps its artifacts; by default `mlartifacts`
            beside a database on this machine, else as the server decides.
        system_metrics: Whether the use of this machine is logged on the parent.
        step_metric: The result key that counts steps, the x axis of every metric.
        max_pending_metrics: Metric values that wait for a slow server at most.

    Raises:
        ValueError: `mode` is neither; or, when the first trial begins, the storage is remote and no
            tracking URI is given.

    Example:
        >>> callback = MLflowCallback(metric="episode_return_mean", mode="max")
        >>> run_config = tune.RunConfig(name="first", callbacks=[callback])
        >>> tune.Tuner(PPO, param_space=config, run_config=run_config).fit()
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        experiment_name: str = "tunescape",
        *,
        run_name: str | None = None,
        metric: str = "episode_return_mean",
        mode: str = "max",
        tags: dict[str, str] | None = None,
        log_model: bool = True,
        register_as: str | None = None,
        artifact_location: str | None = None,
        system_metrics: bool = False,
        step_metric: str = ENV_STEPS,
        max_pending_metrics: int = MAX_PENDING_METRICS,
    ) -> None:
        super().__init__(
            tracking_uri or "",
            run_name or "",
            experiment_name=experiment_name,
            artifact_location=artifact_location,
            tags=tags,
            metric=metric,
            mode=mode,
            log_model=log_model,
            register_as=register_as,
            system_metrics=system_metrics,
            max_pending_metrics=max_pending_metrics,
            step_metric=step_metric,
        )
        self._given = (tracking_uri, run_name, artifact_location)
        self._begun = False
        self._folder: Path | None = None
        self._info: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        uri, *others = self._given
        return {**super().__getstate__(), "given": (uri and without_credentials(uri), *others)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._given = state["given"]
        self._begun, self._folder, self._info = False, None, {}

    # -- Tune's hooks ----------------------------------------------------------------------------

    def setup(self, *args: Any, **info: Any) -> None:
        """Wait for the first trial: only a trial knows the name and the folder of the whole."""
        self._begun = False
        self._info = {key: value for key, value in info.items() if _is_plain(value)}

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        self._begin(trials)  # of a Tuner that is restored; else the first trial starts in a step
        super().on_step_begin(iteration, trials, **info)

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._begin([trial, *trials])
        super().on_trial_start(iteration, trials, trial, **info)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        super().on_experiment_end(trials, **info)
        if self._begun:
            self._guard(self._log_outcome, trials)
            self.close(_status(trials))

    def _begin(self, trials: Sequence[Trial]) -> None:
        """Open the parent run, once."""
        if self._begun or not trials:
            return
        self._begun = True
        trial = trials[0]
        storage = trial.storage
        assert storage is not None, "a trial that begins has a folder"
        uri, name, place = self._given
        folder = Path(storage.experiment_fs_path)
        if self._folder not in (None, folder):  # the same object in another Tuner
            self.sweep = replace(self.sweep, sweep_id=uuid4().hex)
            self._reset_session()
        self._folder = folder
        uri = uri or os.environ.get("MLFLOW_TRACKING_URI")
        if not uri and not isinstance(storage.storage_filesystem, LocalFileSystem):
            raise ValueError(
                f"MLflowCallback: the storage {storage.storage_fs_path} is remote, so "
                "MLflow's database cannot lie there; give tracking_uri"
            )
        home = Path(storage.storage_fs_path)
        self.tracking_uri = absolute_tracking_uri(uri) if uri else default_tracking_uri(home)
        self.sweep = self._runs.sweep = replace(
            self.sweep,
            name=name or storage.experiment_dir_name,
            artifact_location=place or _artifacts(self.tracking_uri),
            params=as_params({"trainable": trial.trainable_name, **self._info}),
        )
        super().setup()
        self._guard(self._reconcile, trials)

    # -- what came out ---------------------------------------------------------------------------

    def _log_outcome(self, trials: list[Trial]) -> None:
        """Mark the best trial, keep its policy, and describe what came out."""
        from analysis.ranking.best import best_trial
        from analysis.results.load import load_sweep

        folder = self._folder
        if folder is None or not folder.is_dir():
            return
        try:
            records = load_sweep(folder)
        except ResultsError:  # no trial began
            return
        if not (self.sweep.log_model and _leaves_policies(trials) and self._log_policy(records)):
            try:
                best = best_trial(records, self.sweep.metric, self.sweep.mode)
            except ResultsError:  # no trial reported the metric
                best = None
            if best is not None:
                self._submit_tags(None, {BEST_TRIAL_TAG: best.trial_id})
                self._submit_tags(best.trial_id, {BEST_TAG: "true"})
        self.log_results(records)

    def _log_policy(self, records: Sweep) -> bool:
        from analysis.export import export_checkpoint
        from analysis.ranking.best import best_checkpoint

        metric, mode = self.sweep.metric, self.sweep.mode
        try:
            best = best_checkpoint(records, metric, mode)
            policy = export_checkpoint(best, records.path / BEST_FOLDER, metric, mode)
        except ResultsError:  # it has no checkpoints
            return False
        self.log_best(best.trial.trial_id, str(policy), checkpoint=str(best.path))
        return True


def _status(trials: Sequence[Trial]) -> str:
    if not all(trial.is_finished() for trial in trials):
        return KILLED  # Ctrl-C, or a time budget
    return FAILED if all(trial.status == "ERROR" for trial in trials) else FINISHED


def _leaves_policies(trials: Sequence[Trial]) -> bool:
    from trainables.algorithm import Algorithm

    found = trials[0].get_trainable_cls() if trials else None
    return isinstance(found, type) and issubclass(found, Algorithm)


def _artifacts(uri: str) -> str | None:
    """Where a database's experiments keep their artifacts; None: a server decides for itself."""
    if not uri.startswith(_SQLITE):
        return None
    return (Path(uri.removeprefix(_SQLITE)).parent / "mlartifacts").as_uri()


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, dict)) and value != {}
