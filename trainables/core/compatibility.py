"""Names of the reference API that are not settings of their own here, each with what becomes of it.

- `ALIASES`: an older name for a setting.
- `CONSTANTS`: accepted only with the value that is always so here.
- `PLANNED`: a feature that is not there yet; using it raises.
- `REFUSED`: what will not come, with the reason; using it raises.

The table in `trainables/README.md` is generated from this module and the config classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

ALIASES: dict[str, str] = {
    "num_workers": "num_env_runners",
    "num_rollout_workers": "num_env_runners",
    "num_envs_per_worker": "num_envs_per_env_runner",
    "num_cpus_per_worker": "num_cpus_per_env_runner",
    "custom_resources_per_worker": "custom_resources_per_env_runner",
    "num_cpus_for_driver": "num_cpus_for_main_process",
    "num_cpus_for_local_worker": "num_cpus_for_main_process",
    "num_gpus": "num_gpus_per_learner",
    "num_gpus_per_learner_worker": "num_gpus_per_learner",
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
    "min_iter_time_s": "min_time_s_per_iteration",
    "timesteps_per_iteration": "min_sample_timesteps_per_iteration",
    "metrics_smoothing_episodes": "metrics_num_episodes_for_smoothing",
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
    "num_learners": Constant(
        "learners", 0, "the learner runs in the trial's own process so far", later=True
    ),
    "num_learner_workers": Constant("learners", 0, "an older name of num_learners"),
    "evaluation_num_env_runners": Constant(
        "evaluation", 0, "evaluation runs in the trial's own process so far", later=True
    ),
    "evaluation_num_workers": Constant(
        "evaluation", 0, "an older name of evaluation_num_env_runners"
    ),
    "evaluation_parallel_to_training": Constant(
        "evaluation", False, "evaluation runs between training iterations so far", later=True
    ),
    "enable_async_evaluation": Constant(
        "evaluation", False, "evaluation runs between training iterations so far", later=True
    ),
    "exploration_config": Constant(
        "exploration",
        {"type": "StochasticSampling"},
        "a policy explores by sampling; DQN has epsilon, noisy and "
        "categorical_distribution_temperature",
    ),
    "batch_mode": Constant(
        "env_runners", "truncate_episodes", "fragments of fixed length; values bootstrap at the cut"
    ),
    "create_env_on_local_worker": Constant(
        "env_runners", False, "with env-runner actors the main process samples nothing"
    ),
    "remote_worker_envs": Constant(
        "env_runners",
        False,
        "sub-environments are stepped in the env runner's process so far",
        later=True,
    ),
    "enable_connectors": Constant("env_runners", True, "a Policy holds the connectors"),
    "use_worker_filter_stats": Constant(
        "env_runners", True, "filter statistics of all env runners are merged"
    ),
    "update_worker_filter_stats": Constant(
        "env_runners", True, "filter statistics go to all env runners with the weights"
    ),
    "synchronize_filter": Constant(
        "env_runners", True, "filter statistics of all env runners are merged"
    ),
    "preprocessor_pref": Constant(
        "env_runners", None, "the space decides: one-hot for discrete, flat float32 for boxes"
    ),
    "compress_observations": Constant("env_runners", False, "rollouts cross processes zero-copy"),
    "sample_async": Constant("env_runners", False, "sampling is synchronous so far", later=True),
    "restart_failed_sub_environments": Constant(
        "fault_tolerance",
        False,
        "an environment's error ends the trial with its cause so far",
        later=True,
    ),
    "ignore_env_runner_failures": Constant(
        "fault_tolerance",
        False,
        "a dead env runner ends the trial with its cause so far",
        later=True,
    ),
    "ignore_worker_failures": Constant(
        "fault_tolerance", False, "an older name of ignore_env_runner_failures"
    ),
    "restart_failed_env_runners": Constant(
        "fault_tolerance",
        False,
        "a dead env runner ends the trial with its cause so far",
        later=True,
    ),
    "recreate_failed_workers": Constant(
        "fault_tolerance", False, "an older name of restart_failed_env_runners"
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
    **_planned("environment", "curricula", "env_task_fn"),
    **_planned("environment", "rendering during training", "render_env monitor"),
    **_planned("environment", "environment checking", "disable_env_checking"),
    **_planned("environment", "Atari wrapping", "is_atari"),
    **_planned("environment", "action masks", "action_mask_key"),
    **_planned(
        "env_runners",
        "custom connectors and env runners",
        "env_to_module_connector module_to_env_connector env_runner_cls",
    ),
    **_planned("debugging", "custom connectors and env runners", "worker_cls"),
    **_planned("env_runners", "environments in processes of their own", "remote_env_batch_wait_ms"),
    **_planned(
        "env_runners",
        "asynchronous sampling",
        "max_requests_in_flight_per_env_runner sample_timeout_s",
    ),
    **_planned("training", "asynchronous sampling", "max_requests_in_flight_per_sampler_worker"),
    **_planned(
        "env_runners",
        "env runners with GPUs",
        "num_gpus_per_env_runner num_gpus_per_worker",
    ),
    **_planned(
        "fault_tolerance",
        "fault-tolerant env runners",
        "num_consecutive_env_runner_failures_tolerance num_consecutive_worker_failures_tolerance "
        "validate_env_runners_after_construction validate_workers_after_construction "
        "env_runner_health_probe_timeout_s worker_health_probe_timeout_s "
        "env_runner_restore_timeout_s worker_restore_timeout_s",
    ),
    **_planned("training", "learners and learner connectors of your own", "learner_class"),
    **_planned("training", "custom connectors", "learner_connector"),
    **_planned(
        "learners",
        "learner actors",
        "num_cpus_per_learner num_cpus_per_learner_worker local_gpu_idx "
        "num_aggregator_actors_per_learner",
    ),
    **_planned(
        "evaluation",
        "evaluation workers",
        "evaluation_sample_timeout_s custom_evaluation_function",
    ),
    **_planned(
        "evaluation",
        "offline evaluation",
        "off_policy_estimation_methods ope_split_batch_by_episode",
    ),
    **_planned(
        "offline_data",
        "offline data",
        "input_ input_config actions_in_input_normalized input_evaluation postprocess_inputs "
        "shuffle_buffer_size output output_config output_compress_columns output_max_file_size "
        "offline_sampling dataset_num_iters_per_learner",
    ),
    **_planned(
        "multi_agent",
        "multi-agent training",
        "policies policy_map_capacity policy_map_cache policy_mapping_fn policies_to_train "
        "observation_fn count_steps_by replay_mode algorithm_config_overrides_per_module "
        "policy_states_are_swappable multiagent",
    ),
    **_planned("callbacks", "callbacks", "callbacks_class"),
    **_planned("reporting", "custom metrics", "keep_per_episode_custom_metrics"),
    **_planned("checkpointing", "multi-agent training", "checkpoint_trainable_policies_only"),
    **_planned(
        "framework",
        "torch.compile with other algorithms than DQN and SAC",
        "torch_compile_learner torch_compile_learner_dynamo_mode "
        "torch_compile_learner_dynamo_backend",
    ),
    **_planned(
        "framework",
        "torch.compile beyond the learner's loss",
        "torch_compile_learner_what_to_compile "
        "torch_compile_worker torch_compile_worker_dynamo_backend torch_compile_worker_dynamo_mode",
    ),
    **_planned(
        "python_environment",
        "environment variables per process",
        "extra_python_environs_for_driver extra_python_environs_for_worker",
    ),
    **_planned("rl_module", "custom modules", "rl_module_spec"),
    **_planned("training", "recurrent and attention models", "burn_in_len"),
}

# Settings of `.training()` that only algorithms have which are not there yet.
ALGORITHMS_PLANNED: dict[str, str] = {
    "IMPALA": "vtrace vtrace_clip_rho_threshold vtrace_clip_pg_rho_threshold "
    "num_gpu_loader_threads num_multi_gpu_tower_stacks minibatch_buffer_size replay_proportion "
    "replay_buffer_num_slots learner_queue_size learner_queue_timeout timeout_s_sampler_manager "
    "timeout_s_aggregator_manager broadcast_interval opt_type decay momentum epsilon "
    "_separate_vf_optimizer _lr_vf num_aggregation_workers "
    "max_requests_in_flight_per_aggregator_worker",
    "APPO": "vtrace target_network_update_freq tau target_worker_clipping "
    "circular_buffer_num_batches circular_buffer_iterations_per_batch target_update_frequency",
    "MARWIL": "beta bc_logstd_coeff moving_average_sqd_adv_norm_update_rate "
    "moving_average_sqd_adv_norm_start vf_coeff",
    "BC": "beta bc_logstd_coeff moving_average_sqd_adv_norm_update_rate "
    "moving_average_sqd_adv_norm_start vf_coeff",
    "CQL": "bc_iters temperature num_actions lagrangian lagrangian_thresh min_q_weight "
    "deterministic_backup",
}


# Settings of `.training()` that some algorithms have and others do not.
ALGORITHMS_HAVE: dict[str, str] = {
    "PPO": "use_critic use_gae lambda_ use_kl_loss kl_coeff kl_target clip_param vf_loss_coeff "
    "vf_clip_param entropy_coeff",
    "DQN": "target_network_update_freq replay_buffer_config store_buffer_in_checkpoints epsilon "
    "adam_epsilon num_steps_sampled_before_learning_starts tau num_atoms v_min v_max noisy sigma0 "
    "dueling hiddens double_q n_step training_intensity td_error_loss_fn "
    "categorical_distribution_temperature",
    "SAC": "twin_q q_model_config policy_model_config tau initial_alpha target_entropy n_step "
    "store_buffer_in_checkpoints replay_buffer_config training_intensity optimization_config "
    "actor_lr critic_lr alpha_lr target_network_update_freq _deterministic_loss "
    "num_steps_sampled_before_learning_starts",
}


def _algorithms_of_names(names_of: dict[str, str]) -> dict[str, str]:
    """The algorithms of each name, as a list in words."""
    algorithms: dict[str, list[str]] = {}
    for algorithm, names in names_of.items():
        for name in names.split():
            algorithms.setdefault(name, []).append(algorithm)
    return {name: ", ".join(having) for name, having in algorithms.items()}


SOME_HAVE = _algorithms_of_names(ALGORITHMS_HAVE)
PLANNED |= {
    name: Planned("training", f"with {having}")
    for name, having in _algorithms_of_names(ALGORITHMS_PLANNED).items()
    if name not in SOME_HAVE
}

_TF = "TensorFlow only; everything here is PyTorch"

REFUSED: dict[str, Refused] = {
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
        "use env_config={'max_episode_steps': …}: a time limit is a truncation, and values "
        "bootstrap from it",
        "horizon soft_horizon no_done_at_end",
    ),
    **_refused(
        "env_runners",
        "rollouts are columns [T, N], not per-episode objects",
        "sample_collector episode_lookback_horizon",
    ),
    **_refused(
        "env_runners",
        "time/… metrics are plain seconds of the iteration, not averages",
        "sampler_perf_stats_ema_coef",
    ),
    **_refused(
        "reporting",
        "episodes arrive with the rollouts; nothing is collected apart",
        "metrics_episode_collection_timeout_s",
    ),
    **_refused("debugging", "Tune's callbacks log results", "logger_creator logger_config"),
    **_refused("debugging", "measure with experiments/benchmarks instead", "fake_sampler"),
    **_refused(
        "training",
        "a batch is columns, not a multi-agent batch: override the algorithm's `prepare`",
        "before_learn_on_batch",
    ),
    **_refused(
        "training",
        "PyTorch's Beta sampler takes no generator, so a run could not be repeated",
        "_use_beta_distribution",
    ),
    **_refused(
        "training", "give it with the networks: model={'vf_share_layers': …}", "vf_share_layers"
    ),
}

# The dict given as `model`: what is not a setting of ModelConfig yet.
MODEL_PLANNED: dict[str, str] = {
    **dict.fromkeys(("conv_filters", "conv_activation", "dim", "grayscale"), "image encoders"),
    **dict.fromkeys(
        (
            "use_lstm",
            "lstm_cell_size",
            "max_seq_len",
            "lstm_use_prev_action",
            "lstm_use_prev_reward",
            "use_attention",
        ),
        "recurrent and attention models",
    ),
    **dict.fromkeys(
        ("custom_model", "custom_model_config", "custom_action_dist"), "custom modules"
    ),
    **dict.fromkeys(("framestack", "zero_mean"), "Atari wrapping"),
}

# Methods of the reference's Algorithm and AlgorithmConfig that are not methods here.
METHODS_PLANNED: dict[str, str] = {
    "add_policy": "multi-agent training",
    "remove_policy": "multi-agent training",
    "get_multi_agent_setup": "multi-agent training",
    "multiagent": "multi-agent training",
    "restore_workers": "fault-tolerant env runners",
}
METHODS_REFUSED: dict[str, str] = {
    "import_policy_model_from_h5": _TF,
    "import_model": _TF,
    "get_default_policy_class": "there is one Policy class; an algorithm chooses its module",
    "train_buffered": "Tune's result buffer is broken in this version of Ray",
    "save_to_object": "a checkpoint is a folder: save(dir)",
    "restore_from_object": "a checkpoint is a folder: restore(dir)",
    "delete_checkpoint": "a checkpoint is a folder: delete it, or let Tune keep the best",
}


def missing_attribute(owner: type, name: str) -> AttributeError:
    """The error for an attribute that is not there, with the reason where there is one."""
    if name in METHODS_PLANNED:
        reason = f"is not supported yet ({METHODS_PLANNED[name]})"
    elif name in METHODS_REFUSED:
        reason = f"is not supported: {METHODS_REFUSED[name]}"
    else:
        reason = "does not exist"
    return AttributeError(f"{owner.__name__}.{name} {reason}")
