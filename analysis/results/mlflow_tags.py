"""The tags of MLflow's runs: what is written to a store is found by them."""

from __future__ import annotations

# MLflow's own.
PARENT_TAG = "mlflow.parentRunId"
"""The tag by which MLflow's UI nests runs."""
NOTE_TAG = "mlflow.note.content"
"""What MLflow shows as a description."""

# Of a sweep's run and of its trials' runs.
KIND_TAG = "tunescape.kind"
"""`SWEEP_KIND` or `TRIAL_KIND`."""
SWEEP_KIND, TRIAL_KIND = "sweep", "trial"
NAME_TAG = "tunescape.sweep"
SWEEP_TAG = "tunescape.sweep_id"
SPEC_TAG = "tunescape.spec"
VERSION_TAGS = "tunescape.version."
"""With the name of a package behind it."""
OUTCOME_TAG = "tunescape.outcome"
MODEL_TAG = "tunescape.model_uri"
BEST_POLICY_TAG = "tunescape.best_policy"
BEST_CHECKPOINT_TAG = "tunescape.best_checkpoint"

# Of a sweep's run.
OBJECTIVE_TAG = "tunescape.objective"
FINAL_OF_TAG = "tunescape.final_of"
NUM_TRIALS_TAG = "tunescape.num_trials"
NUM_HOSTS_TAG = "tunescape.num_hosts"
"""Of processes that several trials share."""
NUM_PLACES_TAG = "tunescape.num_places"
"""Of trials at a time, in all of them."""
BEST_TRIAL_TAG = "tunescape.best_trial_id"
BEST_RUN_TAG = "tunescape.best_run_id"
MODEL_CHECKPOINT_TAG = "tunescape.model_checkpoint"
REGISTERED_MODEL_TAG = "tunescape.registered_model"
DROPPED_METRICS_TAG = "tunescape.dropped_metrics"

# Of a trial's run.
TRIAL_TAG = "tunescape.trial_id"
FOLDER_TAG = "tunescape.trial_dir"
SEED_TAG = "tunescape.seed"
HOST_TAG = "tunescape.host"
"""Which of the sweep's processes trained it last, if it shared one."""
STATUS_TAG = "tunescape.status"
BEST_TAG = "tunescape.best"
ERROR_TAG = "tunescape.error"
RECOVERED_TAG = "tunescape.recovered_from"
NON_FINITE_TAG = "tunescape.non_finite"
CHANGED_TAGS = "tunescape.config."
"""With a setting behind it that a scheduler changed to what is no number."""
