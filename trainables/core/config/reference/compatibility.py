"""Names of the reference API that are not settings of their own here, each with what becomes of it.

- `ALIASES`: an older name for a setting.
- `COMPOSITES`: a dict of several settings.
- `CONSTANTS`: accepted only with the value that is always so here.
- `PLANNED`: a feature that is not there yet; using it raises.
- `REFUSED`: what will not come, with the reason; using it raises.

A value that the reference has by default uses nothing: `core.config.reference.defaults` has those.

The table in `trainables/settings.md` is generated from this module and the config classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trainables.core.config.callbacks import HOOKS
from trainables.core.config.reference.other_libraries import METHODS
from trainables.core.config.reference.planned import OFFLINE_EVALUATION

ALIASES: dict[str, str] = {
    "num_workers": "num_env_runners",
    "num_rollout_workers": "num_env_runners",
    "num_envs_per_worker": "num_envs_per_env_runner",
    "num_cpus_per_worker": "num_cpus_per_env_runner",
    "num_gpus_per_worker": "num_gpus_per_env_runner",
    "custom_resources_per_worker": "custom_resources_per_env_runner",
    "worker_cls": "env_runner_cls",
    "max_requests_in_flight_per_sampler_worker": "max_requests_in_flight_per_env_runner",
    "validate_workers_after_construction": "validate_env_runners_after_construction",
    "ignore_worker_failures": "ignore_env_runner_failures",
    "recreate_failed_workers": "restart_failed_env_runners",
    "num_consecutive_worker_failures_tolerance": "num_consecutive_env_runner_failures_tolerance",
    "worker_health_probe_timeout_s": "env_runner_health_probe_timeout_s",
    "worker_restore_timeout_s": "env_runner_restore_timeout_s",
    "num_cpus_for_driver": "num_cpus_for_main_process",
    "num_cpus_for_local_worker": "num_cpus_for_main_process",
    "num_gpus": "num_gpus_per_learner",
    "num_gpus_per_learner_worker": "num_gpus_per_learner",
    "num_cpus_per_learner_worker": "num_cpus_per_learner",
    "num_learner_workers": "num_learners",
    "_fake_gpus": "fake_gpus",
    "train_batch_size": "train_batch_size_per_learner",
    "num_sgd_iter": "num_epochs",
    "sgd_minibatch_size": "minibatch_size",
    "mini_batch_size_per_learner": "minibatch_size",
    "lambda": "lambda_",
    "lr_schedule": "lr",
    "entropy_coeff_schedule": "entropy_coeff",
    "model_config": "model",
    "evaluation_num_episodes": "evaluation_duration",
    "evaluation_num_workers": "evaluation_num_env_runners",
    "min_iter_time_s": "min_time_s_per_iteration",
    "timesteps_per_iteration": "min_sample_timesteps_per_iteration",
    "monitor": "record_env",
    "callbacks": "callbacks_class",
    "metrics_smoothing_episodes": "metrics_num_episodes_for_smoothing",
    "shuffle_sequences": "shuffle_batch_per_epoch",
    "custom_eval_function": "custom_evaluation_function",
    "_train_batch_size_per_learner": "train_batch_size_per_learner",
    "_is_atari": "is_atari",
    "input": "input_",
    "_per_module_overrides": "algorithm_config_overrides_per_module",
    "_learner_class": "learner_class",
    "_learner_connector": "learner_connector",
    "_env_to_module_connector": "env_to_module_connector",
    "_module_to_env_connector": "module_to_env_connector",
    **{f"callbacks_{hook}": hook for hook in HOOKS},  # as the reference keeps them in its own dicts
}

# The section of an older name where it is another than its setting's.
ALIAS_SECTIONS: dict[str, str] = {
    "max_requests_in_flight_per_sampler_worker": "training",
    "worker_cls": "debugging",
}


class Composite(NamedTuple):
    """A name of a dict that stands for several settings."""

    section: str
    meaning: str


COMPOSITES: dict[str, Composite] = {
    "multiagent": Composite("multi_agent", "a dict of the settings of the section"),
    "input_evaluation": Composite("offline_data", "off_policy_estimation_methods"),
}

METHOD_ALIASES: dict[str, str] = {"rollouts": "env_runners"}


class Constant(NamedTuple):
    """A name that is accepted with one value only."""

    section: str
    value: Any
    why: str
    later: bool = False  # whether other values are planned


CONSTANTS: dict[str, Constant] = {
    "framework": Constant("framework", "torch", "everything here is PyTorch"),
    "enable_async_evaluation": Constant(
        "evaluation", True, "actors that evaluate never wait for each other"
    ),
    **dict.fromkeys(
        ("create_env_on_local_worker", "create_env_on_driver"),
        Constant("env_runners", False, "with env-runner actors the main process samples nothing"),
    ),
    "create_local_env_runner": Constant(
        "env_runners", True, "the main process has the spaces and plays without actors"
    ),
    "gym_env_vectorize_mode": Constant(
        "env_runners", "sync", "remote_worker_envs=True steps every slot in a process of its own"
    ),
    "merge_env_runner_states": Constant(
        "env_runners", "training_only", "filter statistics of training env runners are merged"
    ),
    "broadcast_env_runner_states": Constant(
        "env_runners", True, "filter statistics go to all env runners with the weights"
    ),
    "evaluation_force_reset_envs_before_iteration": Constant(
        "evaluation", True, "an evaluation plays whole episodes"
    ),
    "enable_connectors": Constant("env_runners", True, "a Policy holds the connectors"),
    "use_worker_filter_stats": Constant(
        "env_runners", True, "filter statistics of all env runners are merged"
    ),
    "update_worker_filter_stats": Constant(
        "env_runners", True, "filter statistics go to all env runners with the weights"
    ),
    **dict.fromkeys(
        ("synchronize_filter", "synchronize_filters"),
        Constant("env_runners", True, "filter statistics of all env runners are merged"),
    ),
    "preprocessor_pref": Constant(
        "env_runners",
        "deepmind",
        "Atari games are preprocessed so, unless is_atari is False; of others the space decides",
    ),
    "num_aggregation_workers": Constant(
        "training", 0, "the learner puts fragments side by side itself: they are columns already"
    ),
    "num_aggregator_actors_per_learner": Constant(
        "learners", 0, "the learner puts fragments side by side itself: they are columns already"
    ),
    "minibatch_buffer_size": Constant(
        "training",
        1,
        "passes over a train batch follow each other; replay_proportion brings fragments back",
    ),
    "compress_observations": Constant("env_runners", False, "rollouts cross processes zero-copy"),
    "sample_async": Constant(
        "env_runners", False, "the algorithm decides: IMPALA and APPO sample asynchronously"
    ),
    "keep_per_episode_custom_metrics": Constant(
        "reporting",
        False,
        "results are flat numbers, which every logger takes; on_episode_end can write the others",
    ),
    "postprocess_inputs": Constant(
        "offline_data",
        True,
        "returns and targets are computed of what is drawn, with the present networks",
    ),
    "offline_sampling": Constant(
        "offline_data",
        True,
        "data are drawn by the batch, whatever the number of environments",
    ),
    "materialize_mapped_data": Constant(
        "offline_data", True, "files are converted once, into columns that are mapped"
    ),
    "output_write_remaining_data": Constant(
        "offline_data", True, "what has been sampled by then is written at the end"
    ),
    "output_write_episodes": Constant(
        "offline_data", False, "files hold a row for each step, which every reader of tables takes"
    ),
    "torch_compile_learner_what_to_compile": Constant(
        "framework", "forward_train", "the loss is compiled; the optimiser's step is fused anyway"
    ),
    "enable_rl_module_and_learner": Constant("api_stack", True, "there is one API stack"),
    "enable_env_runner_and_connector_v2": Constant("api_stack", True, "there is one API stack"),
    "_enable_learner_api": Constant("training", True, "a Learner does every update"),
    "_enable_new_api_stack": Constant("experimental", True, "there is one API stack"),
    "_disable_preprocessor_api": Constant(
        "experimental", False, "observations are preprocessed by the Policy"
    ),
    "_disable_action_flattening": Constant("experimental", True, "actions are stored as they are"),
    "_disable_execution_plan_api": Constant("experimental", True, "`training_step` is the loop"),
    "_disable_initialize_loss_from_dummy_batch": Constant(
        "experimental", True, "no loss is run on dummy data"
    ),
}


class Planned(NamedTuple):
    """A name whose feature comes later."""

    section: str
    feature: str


class Refused(NamedTuple):
    """A name that will not come."""

    section: str
    why: str


def _planned(section: str, feature: str, names: str) -> dict[str, Planned]:
    return {name: Planned(section, feature) for name in names.split()}


def _refused(section: str, why: str, names: str) -> dict[str, Refused]:
    return {name: Refused(section, why) for name in names.split()}


PLANNED: dict[str, Planned] = {
    **_planned(
        "evaluation",
        OFFLINE_EVALUATION,
        "offline_evaluation_interval num_offline_eval_runners offline_evaluation_type "
        "offline_eval_runner_class offline_loss_for_module_fn offline_evaluation_duration "
        "offline_evaluation_parallel_to_training offline_evaluation_timeout_s "
        "num_cpus_per_offline_eval_runner num_gpus_per_offline_eval_runner "
        "custom_resources_per_offline_eval_runner restart_failed_offline_eval_runners "
        "ignore_offline_eval_runner_failures max_num_offline_eval_runner_restarts "
        "offline_eval_runner_restore_timeout_s max_requests_in_flight_per_offline_eval_runner "
        "validate_offline_eval_runners_after_construction "
        "offline_eval_runner_health_probe_timeout_s offline_eval_rl_module_inference_only "
        "broadcast_offline_eval_runner_states offline_eval_batch_size_per_runner "
        "dataset_num_iters_per_eval_runner",
    ),
    **_planned(
        "callbacks",
        OFFLINE_EVALUATION,
        "callbacks_on_offline_eval_runners_recreated callbacks_on_evaluate_offline_start "
        "callbacks_on_evaluate_offline_end",
    ),
}

_TF = "TensorFlow only; everything here is PyTorch"
_CONNECTORS = "own connectors stand before or behind the policy's, which are always there"
_TIME_LIMIT = (
    "use env_config={'max_episode_steps': N}, a time limit for environments of every kind: the "
    "episode is truncated after N steps"
)

REFUSED: dict[str, Refused] = {
    **_refused(
        "offline_data",
        "names of files say how they are read, else input_config={'format': 'json'}",
        "input_read_method input_read_method_kwargs",
    ),
    **_refused(
        "offline_data",
        "columns are known by their names, ours and RLlib's; rename others in the file",
        "input_read_schema input_read_episodes input_read_sample_batches",
    ),
    **_refused(
        "offline_data",
        "rows are drawn from mapped columns, as many as train_batch_size_per_learner says",
        "input_read_batch_size map_batches_kwargs iter_batches_kwargs",
    ),
    **_refused(
        "offline_data",
        "data are mapped from a folder on the disk (TUNESCAPE_DATA_CACHE), not held in memory",
        "materialize_data",
    ),
    **_refused(
        "offline_data",
        "write a URL, e.g. input_='s3://bucket/data'; its query holds the filesystem's options",
        "input_filesystem input_filesystem_kwargs",
    ),
    **_refused(
        "offline_data",
        "write a URL, e.g. output='s3://bucket/data'; its query holds the filesystem's options",
        "output_filesystem output_filesystem_kwargs",
    ),
    **_refused(
        "offline_data",
        "which columns are compressed is seen from the files",
        "input_compress_columns",
    ),
    **_refused("offline_data", "spaces in files are JSON", "input_spaces_jsonable"),
    **_refused(
        "offline_data",
        "values bootstrap from the last observation of an episode that does not terminate",
        "ignore_final_observation",
    ),
    **_refused(
        "offline_data",
        "for an InputReader of your own give a callable as input_",
        "offline_data_class",
    ),
    **_refused(
        "offline_data",
        "override the algorithm's `prepare`, which gets the rows that were drawn",
        "prelearner_class prelearner_buffer_class prelearner_buffer_kwargs "
        "prelearner_module_synch_period prelearner_use_recorded_module_states",
    ),
    **_refused(
        "offline_data",
        "use output_config={'format': …}: parquet, json or minari",
        "output_write_method output_write_method_kwargs",
    ),
    **_refused(
        "framework",
        _TF,
        "eager_tracing eager_max_retraces tf_session_args local_tf_session_args",
    ),
    **_refused("env_runners", _TF, "enable_tf1_exec_eagerly"),
    **_refused("experimental", _TF, "_tf_policy_handles_more_than_one_loss"),
    **_refused(
        "environment",
        "the gym package has ended; port the environment to gymnasium",
        "auto_wrap_old_gym_envs",
    ),
    **_refused(
        "env_runners",
        f"{_TIME_LIMIT}, and values bootstrap from it",
        "horizon no_done_at_end",
    ),
    **_refused(
        "env_runners",
        f"{_TIME_LIMIT}, and the environment is reset",
        "soft_horizon",
    ),
    **_refused(
        "env_runners",
        "rollouts are columns [T, N], not per-episode objects",
        "sample_collector episode_lookback_horizon episodes_to_numpy",
    ),
    **_refused(
        "env_runners",
        "filter statistics go to all env runners with the weights",
        "use_env_runner_state_server env_runner_state_server_max_concurrency "
        "sync_filters_on_rollout_workers_timeout_s _dont_auto_sync_env_runner_states",
    ),
    **_refused(
        "env_runners",
        "an algorithm samples its environment",
        "_is_online _env_runners_only",
    ),
    **_refused("env_runners", _CONNECTORS, "add_default_connectors_to_env_to_module_pipeline"),
    **_refused("env_runners", _CONNECTORS, "add_default_connectors_to_module_to_env_pipeline"),
    **_refused("training", _CONNECTORS, "add_default_connectors_to_learner_pipeline"),
    **_refused(
        "fault_tolerance",
        "restarts are bounded by num_consecutive_env_runner_failures_tolerance",
        "max_num_env_runner_restarts max_num_worker_restarts "
        "delay_between_env_runner_restarts_s delay_between_worker_restarts_s",
    ),
    **_refused(
        "resources",
        "give them to env runners with custom_resources_per_env_runner",
        "custom_resources_for_main_process custom_resources_per_learner",
    ),
    **_refused(
        "evaluation",
        "give evaluation_duration as a number, or 'auto' beside training",
        "evaluation_auto_duration_min_env_steps_per_sample "
        "evaluation_auto_duration_max_env_steps_per_sample",
    ),
    **_refused(
        "evaluation",
        "an evaluation waits evaluation_sample_timeout_s for its actors",
        "evaluation_unhealthy_workers_timeout_s evaluation_error_after_n_consecutive_skips",
    ),
    **_refused(
        "evaluation", "evaluation_config says what differs in an evaluation", "in_evaluation"
    ),
    **_refused("evaluation", "use custom_evaluation_function", "custom_async_evaluation_function"),
    **_refused(
        "env_runners",
        "time/… metrics are plain seconds of the iteration, not averages",
        "sampler_perf_stats_ema_coef",
    ),
    **_refused(
        "reporting",
        "episodes arrive with the rollouts; nothing is collected apart",
        "metrics_episode_collection_timeout_s collect_metrics_timeout",
    ),
    **_refused("reporting", "results are flat numbers", "stats_cls_lookup log_gradients"),
    **_refused(
        "callbacks", "make the environment so in its own class", "callbacks_on_environment_created"
    ),
    **_refused("debugging", "Tune's callbacks log results", "logger_creator logger_config"),
    **_refused(
        "debugging", "measure with the repository's experiments/benchmarks instead", "fake_sampler"
    ),
    **_refused(
        "training",
        "a batch is columns, not a multi-agent batch: override the algorithm's `prepare`",
        "before_learn_on_batch",
    ),
    **_refused(
        "training",
        "a batch is moved to the GPU in one piece, by the learner itself",
        "num_gpu_loader_threads num_multi_gpu_tower_stacks simple_optimizer",
    ),
    **_refused(
        "training",
        "samples are taken as they arrive, and awaited for learner_queue_timeout at most",
        "timeout_s_sampler_manager",
    ),
    **_refused(
        "training",
        "there are no aggregation workers: the learner puts fragments side by side itself",
        "timeout_s_aggregator_manager max_requests_in_flight_per_aggregator_worker "
        "max_requests_in_flight_per_aggregator_actor",
    ),
    **_refused(
        "learners",
        "learners work in step, each on one part of a batch",
        "max_requests_in_flight_per_learner torch_ddp_kwargs",
    ),
    **_refused("training", "the algorithm always learns", "_skip_learners"),
    **_refused("training", "override `training_step`", "after_train_step"),
    **_refused("training", "give a subclass of Learner as learner_class", "learner_config_dict"),
    **_refused(
        "training",
        "override `Learner.update_step`",
        "torch_skip_nan_gradients _torch_grad_scaler_class",
    ),
    **_refused(
        "training", "lr takes a schedule, [[env step, value], …]", "_torch_lr_scheduler_classes"
    ),
    **_refused("training", "use learner_queue_size", "simple_queue_size"),
    **_refused(
        "training", "priorities follow from the learner's errors", "worker_side_prioritization"
    ),
    **_refused(
        "training", "with a memory it is max_seq_len and burn_in_len", "replay_sequence_length"
    ),
    **_refused("training", "spaces decide how observations are read", "use_state_preprocessor"),
    **_refused("exploration", "use exploration_config", "_prior_exploration_config"),
    **_refused("experimental", "a config is always checked", "_validate_config"),
    **_refused("checkpointing", "checkpoints are JSON and safetensors", "_use_msgpack_checkpoints"),
    **_refused("experimental", "there is one API stack", "_enable_rl_module_api"),
    **_refused("rl_module", "use model", "_model_config"),
    **_refused(
        "rl_module",
        "use model={'custom_model': 'module:Class'}",
        "_rl_module_spec",
    ),
    **_refused(
        "training",
        "use target_network_update_freq",
        "target_update_frequency",
    ),
    **_refused(
        "training",
        "there is none with circular_buffer_num_batches=1 and "
        "circular_buffer_iterations_per_batch=1",
        "use_circular_buffer",
    ),
    **_refused(
        "training",
        "PyTorch's Beta sampler takes no generator, so a run could not be repeated",
        "_use_beta_distribution",
    ),
    **_refused(
        "training", "give it with the networks: model={'vf_share_layers': …}", "vf_share_layers"
    ),
    **_refused("rl_module", "use model={'custom_model': 'module:Class'}", "rl_module_spec"),
}

# Methods of the reference's Algorithm and AlgorithmConfig that are not methods here.
METHODS_REFUSED: dict[str, str] = {
    "import_policy_model_from_h5": _TF,
    "import_model": _TF,
    "get_default_policy_class": "there is one Policy class; an algorithm chooses its module",
    "train_buffered": "call train(): Tune's result buffer (TUNE_RESULT_BUFFER_LENGTH) is broken "
    "in this version of Ray",
    "save_to_object": "a checkpoint is a folder: save(dir)",
    "restore_from_object": "a checkpoint is a folder: restore(dir)",
    "delete_checkpoint": "a checkpoint is a folder: delete it, or let Tune keep the best",
}


def missing_attribute(owner: type, name: str) -> AttributeError:
    """Return the error for an attribute that is not there, with the reason where there is one."""
    if name in METHODS_REFUSED:
        reason = f"is not supported: {METHODS_REFUSED[name]}"
    elif name in METHODS:
        reason = f"does not exist: {METHODS[name]}"
    else:
        reason = "does not exist"
    return AttributeError(f"{owner.__name__}.{name} {reason}")
