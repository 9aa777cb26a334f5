"""What the reference has by default, of settings that are not, or not always, settings here.

A config of the reference carries all of its defaults along (`to_dict`, `DEFAULT_CONFIG`). Given so,
a name that is refused, planned or without effect here asks for nothing: it is accepted and does
nothing. Any other value is an error as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.settings import NOT_GIVEN, SAY_NOTHING, Named, is_one_of


def _each(names: str, *values: Any) -> dict[str, tuple[Any, ...]]:
    return dict.fromkeys(names.split(), values)


# Left out wherever they are given: for the setting here they are no value.
_SAY_NOTHING: dict[str, tuple[Any, ...]] = {
    **SAY_NOTHING,
    **_each(
        "worker_cls sgd_minibatch_size monitor evaluation_num_episodes metrics_smoothing_episodes "
        "timesteps_per_iteration min_iter_time_s",
        NOT_GIVEN,
    ),
    **_each("_train_batch_size_per_learner mini_batch_size_per_learner", None),
    "callbacks": SAY_NOTHING["callbacks_class"],
}

# Of names that are refused, planned, or have one value here; and of settings where they have no
# effect, which `without` of an algorithm's config, or its `validate`, says.
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    # framework
    **_each("eager_tracing", True, False),
    **_each("eager_max_retraces", 20),
    "tf_session_args": (
        {
            "intra_op_parallelism_threads": 2,
            "inter_op_parallelism_threads": 2,
            "gpu_options": {"allow_growth": True},
            "log_device_placement": False,
            "device_count": {"CPU": 1},
            "allow_soft_placement": True,
        },
        {},
        None,
    ),
    "local_tf_session_args": (
        {"intra_op_parallelism_threads": 8, "inter_op_parallelism_threads": 8},
        {},
        None,
    ),
    **_each("enable_tf1_exec_eagerly", False),
    **_each("_tf_policy_handles_more_than_one_loss", False, True),
    **_each("torch_compile_learner torch_compile_worker", False, None),
    **_each("torch_compile_learner_what_to_compile", "forward_train", None),
    **_each("torch_compile_learner_dynamo_backend", "inductor", "aot_eager", None),
    **_each("torch_compile_worker_dynamo_backend", "onnxrt", "aot_eager", None),
    **_each("torch_compile_learner_dynamo_mode torch_compile_worker_dynamo_mode", None),
    **_each("torch_ddp_kwargs", {}),
    **_each("torch_skip_nan_gradients", False),
    **_each("_torch_grad_scaler_class _torch_lr_scheduler_classes", None),
    # environments and sampling
    **_each("auto_wrap_old_gym_envs", True, NOT_GIVEN, None),
    **_each("horizon", None),
    **_each("soft_horizon no_done_at_end", False, None),
    **_each("sample_collector", Named("SimpleListCollector"), None),
    **_each("episode_lookback_horizon", 1),
    **_each("sampler_perf_stats_ema_coef", None),
    **_each("sample_async create_env_on_driver", False),
    **_each("enable_connectors", False, NOT_GIVEN),
    **_each("synchronize_filter synchronize_filters", NOT_GIVEN),
    **_each("create_local_env_runner episodes_to_numpy", True),
    **_each("add_default_connectors_to_env_to_module_pipeline", True),
    **_each("add_default_connectors_to_module_to_env_pipeline", True),
    **_each("add_default_connectors_to_learner_pipeline", True),
    **_each("merge_env_runner_states", "training_only"),
    **_each("broadcast_env_runner_states", True),
    **_each("use_env_runner_state_server _dont_auto_sync_env_runner_states", False, True),
    **_each("env_runner_state_server_max_concurrency", 16),
    **_each("sync_filters_on_rollout_workers_timeout_s", 10, 60),
    **_each("_is_online", True),
    # faults: without actors, or where a failure ends the trial, they have no effect
    **_each("restart_failed_env_runners", True),
    **_each("sample_timeout_s", 60),
    **_each("env_runner_health_probe_timeout_s", 30, 60),
    **_each("max_num_env_runner_restarts max_num_worker_restarts", 1000),
    **_each("delay_between_env_runner_restarts_s delay_between_worker_restarts_s", 60),
    # resources
    **_each("custom_resources_for_main_process custom_resources_per_learner", {}),
    **_each("max_requests_in_flight_per_learner max_requests_in_flight_per_aggregator_actor", 3),
    # training
    **_each("max_requests_in_flight_per_env_runner", 1, 2),
    **_each("num_epochs", 1),
    **_each("minibatch_size", None),
    **_each("shuffle_batch_per_epoch", True, False),
    **_each("before_learn_on_batch after_train_step", None),
    **_each("num_gpu_loader_threads", 8),
    **_each("num_multi_gpu_tower_stacks", 1),
    **_each("num_aggregation_workers", NOT_GIVEN),
    **_each("timeout_s_sampler_manager timeout_s_aggregator_manager", 0),
    **_each("max_requests_in_flight_per_aggregator_worker", 2, NOT_GIVEN),
    **_each("target_update_frequency", 1, NOT_GIVEN),
    **_each("use_circular_buffer use_critic", True),
    **_each("simple_queue_size", 32),
    **_each("replay_proportion", 0),
    **_each("replay_buffer_num_slots", 0, 100),
    **_each("_lr_vf", 0.0005),
    **_each("_use_beta_distribution _env_runners_only _skip_learners", False),
    **_each("vf_share_layers use_state_preprocessor simple_optimizer", NOT_GIVEN),
    **_each("worker_side_prioritization", NOT_GIVEN, False),
    **_each("replay_sequence_length", None, NOT_GIVEN, 1),
    **_each("learner_config_dict", {}),
    # modules and API stacks
    **_each("rl_module_spec _rl_module_spec", None),
    **_each("_model_config _per_module_overrides", {}),
    "_prior_exploration_config": (
        None,
        {"type": "StochasticSampling"},
        {
            "type": "EpsilonGreedy",
            "initial_epsilon": 1.0,
            "final_epsilon": 0.02,
            "epsilon_timesteps": 10000,
        },
    ),
    **_each("enable_rl_module_and_learner enable_env_runner_and_connector_v2", False),
    **_each("_enable_learner_api _enable_new_api_stack", False),
    **_each("_enable_rl_module_api", False, True, NOT_GIVEN),
    **_each("_disable_action_flattening _disable_initialize_loss_from_dummy_batch", False),
    **_each("_disable_execution_plan_api", NOT_GIVEN),
    **_each("_validate_config", True),
    **_each("_use_msgpack_checkpoints", False),
    # several agents: of these each default gives way to what the older dict `multiagent` has
    **_each("policies", {}, None),
    **_each("policy_map_capacity", 100),
    **_each("policy_map_cache policy_mapping_fn policies_to_train observation_fn", None),
    **_each("count_steps_by", "env_steps"),
    **_each("replay_mode", "independent"),
    # offline data
    **_each("input input_", "sampler"),
    **_each("input_config input_read_method_kwargs input_read_schema", {}),
    **_each("input_filesystem_kwargs map_batches_kwargs iter_batches_kwargs", {}),
    **_each("prelearner_buffer_kwargs output_config output_write_method_kwargs", {}),
    **_each("output_filesystem_kwargs off_policy_estimation_methods", {}),
    **_each("custom_resources_per_offline_eval_runner", {}),
    **_each("actions_in_input_normalized postprocess_inputs offline_sampling", False),
    **_each("input_read_episodes input_read_sample_batches materialize_data", False),
    **_each("ignore_final_observation prelearner_use_recorded_module_states", False),
    **_each("output_write_remaining_data offline_evaluation_parallel_to_training", False),
    **_each("ignore_offline_eval_runner_failures offline_eval_rl_module_inference_only", False),
    **_each("broadcast_offline_eval_runner_states", False),
    **_each("input_spaces_jsonable materialize_mapped_data output_write_episodes", True),
    **_each("restart_failed_offline_eval_runners", True),
    **_each("validate_offline_eval_runners_after_construction", True),
    **_each("ope_split_batch_by_episode", True),
    **_each("output input_read_batch_size input_filesystem output_filesystem", None),
    **_each("offline_data_class prelearner_class prelearner_buffer_class", None),
    **_each("output_max_rows_per_file dataset_num_iters_per_learner", None),
    **_each("offline_evaluation_interval offline_eval_runner_class", None),
    **_each("offline_loss_for_module_fn callbacks_on_offline_eval_runners_recreated", None),
    **_each("callbacks_on_evaluate_offline_start callbacks_on_evaluate_offline_end", None),
    **_each("input_evaluation", NOT_GIVEN, None),
    **_each("shuffle_buffer_size num_offline_eval_runners", 0),
    **_each("num_gpus_per_offline_eval_runner", 0),
    **_each("offline_evaluation_duration num_cpus_per_offline_eval_runner", 1),
    **_each("max_requests_in_flight_per_offline_eval_runner", 1),
    **_each("dataset_num_iters_per_eval_runner", 1),
    **_each("prelearner_module_synch_period", 10),
    **_each("max_num_offline_eval_runner_restarts", 1000),
    **_each("offline_eval_runner_restore_timeout_s", 1800),
    **_each("offline_eval_runner_health_probe_timeout_s", 30),
    **_each("offline_evaluation_timeout_s", 120),
    **_each("offline_eval_batch_size_per_runner", 256),
    **_each("offline_evaluation_type", "eval_loss", None),
    **_each("input_read_method", "read_parquet"),
    **_each("output_write_method", "write_parquet"),
    **_each("input_compress_columns output_compress_columns", ["obs", "new_obs"]),
    **_each("output_max_file_size", 64 * 1024 * 1024),
    # evaluation, reporting and debugging
    **_each("enable_async_evaluation", False, NOT_GIVEN),
    **_each("custom_async_evaluation_function", NOT_GIVEN, None),
    **_each("evaluation_sample_timeout_s", 120, 180),
    **_each("evaluation_auto_duration_min_env_steps_per_sample", 100),
    **_each("evaluation_auto_duration_max_env_steps_per_sample", 2000),
    **_each("evaluation_unhealthy_workers_timeout_s", 0),
    **_each("evaluation_error_after_n_consecutive_skips", None),
    **_each("evaluation_force_reset_envs_before_iteration", True),
    **_each("in_evaluation log_gradients fake_sampler", False),
    **_each("metrics_episode_collection_timeout_s", 60, 180),
    **_each("collect_metrics_timeout", NOT_GIVEN),
    **_each("logger_creator logger_config callbacks_on_environment_created", None),
    "stats_cls_lookup": (
        {
            "mean": Named("MeanStats"),
            "ema": Named("EmaStats"),
            "min": Named("MinStats"),
            "max": Named("MaxStats"),
            "sum": Named("SumStats"),
            "lifetime_sum": Named("LifetimeSumStats"),
            "percentiles": Named("PercentilesStats"),
            "item": Named("ItemStats"),
            "item_series": Named("ItemSeriesStats"),
        },
    ),
}

# Inside `model`: what is refused there, and what has no effect on some algorithms.
_OF_MODEL: dict[str, tuple[Any, ...]] = {
    **_each("custom_action_dist custom_preprocessor encoder_latent_dim", None),
    **_each("post_fcnet_hiddens", []),
    **_each("post_fcnet_activation", "relu", None),
    **_each("no_final_linear _time_major always_check_shapes", False),
    **_each("framestack zero_mean", True),
    **_each("dim", 84),
    **_each("grayscale", False),
    **_each("_disable_preprocessor_api _disable_action_flattening", False),
    **_each("_use_default_native_models", NOT_GIVEN, False),
    **_each("lstm_use_prev_action_reward", NOT_GIVEN),
    **_each("log_std_clip_param", 20),
    **_each("fcnet_weights_initializer fcnet_weights_initializer_config", None),
    **_each("fcnet_bias_initializer fcnet_bias_initializer_config", None),
    **_each("conv_kernel_initializer conv_kernel_initializer_config", None),
    **_each("conv_bias_initializer conv_bias_initializer_config", None),
    **_each("conv_transpose_kernel_initializer conv_transpose_kernel_initializer_config", None),
    **_each("conv_transpose_bias_initializer conv_transpose_bias_initializer_config", None),
    **_each("post_fcnet_weights_initializer post_fcnet_weights_initializer_config", None),
    **_each("post_fcnet_bias_initializer post_fcnet_bias_initializer_config", None),
    **_each("lstm_weights_initializer lstm_weights_initializer_config", None),
    **_each("lstm_bias_initializer lstm_bias_initializer_config", None),
    **_each("vf_share_layers", True, False),
    **_each("free_log_std", False),
    **_each("max_seq_len", 20),
}

# Names whose default the reference keeps beside the name that it reads, which comes first here.
_YIELD: dict[str, tuple[str, tuple[Any, ...]]] = {
    "num_gpus": ("num_gpus_per_learner", (0, 1)),
    "num_gpus_per_learner_worker": ("num_gpus", (0,)),
    "actor_learning_rate": ("actor_lr", (3e-4,)),
    "critic_learning_rate": ("critic_lr", (3e-4,)),
    "entropy_learning_rate": ("alpha_lr", (3e-4,)),
}

_DEFAULT_POLICY = "default_policy"
_SPEC = ("policy_class", "observation_space", "action_space", "config")


def defaults_of(name: str) -> tuple[Any, ...]:
    """Return the reference's defaults of a name that is no setting here, or not everywhere."""
    return (*_DEFAULTS.get(name, ()), *_SAY_NOTHING.get(name, ()))


def defaults_of_model(name: str) -> tuple[Any, ...]:
    """Return the same for a key of `model`."""
    return _OF_MODEL.get(name, ())


def says_nothing(name: str, value: Any) -> bool:
    """Tell whether a value stands for "not given", whatever the name is here."""
    return is_one_of(_SAY_NOTHING.get(name, ()), value)


def is_default(name: str, value: Any) -> bool:
    """Tell whether the reference has this value by default, so that it asks for nothing."""
    if name == "policies" and _is_one_plain_policy(value):
        return True
    return is_one_of(defaults_of(name), value)


def is_model_default(name: str, value: Any) -> bool:
    """Return the same for a key of `model`."""
    return is_one_of(_OF_MODEL.get(name, ()), value)


def yields(name: str, value: Any, given: Mapping[str, Any]) -> bool:
    """Whether a default gives way to the name that the reference reads, which is given, too."""
    read, defaults = _YIELD.get(name, ("", ()))
    return read in given and is_one_of(defaults, value)


def _is_one_plain_policy(value: Any) -> bool:
    """Tell whether `policies` names the one default policy, without a class or space of its own."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return set(value) == {_DEFAULT_POLICY}
    if not isinstance(value, Mapping) or set(value) != {_DEFAULT_POLICY}:
        return False
    spec = value[_DEFAULT_POLICY]
    if isinstance(spec, Mapping):
        spec = [*spec.values()]
    elif not isinstance(spec, (list, tuple)):
        spec = [getattr(spec, part, None) for part in _SPEC]
    return not any(spec)
