"""What must hold between settings: an ordered list of rules, by which a config is checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from trainables.core.config.callbacks import CALLBACK_SETTINGS, check_callbacks, check_connectors
from trainables.core.config.environment import is_ale, is_envpool
from trainables.core.config.experience import OF_DATA
from trainables.core.config.exploration import ExplorationConfig, how_actions_are_chosen
from trainables.core.config.settings import is_given, refuse_given
from trainables.core.errors import ConfigError
from trainables.core.features import SETTINGS, feature_settings

JOINT_OBS = "joint_observation"
"""The key of what all agents see, in the observation of each, with `centralized_critic`."""


def critic_key(config: Any) -> str | None:
    """Return the key of a Dict observation that only the value function sees; None: it has none.

    Args:
        config: An algorithm's config.
    """
    key: str | None = JOINT_OBS if config.centralized_critic else config.critic_obs_key
    return key


# What has no effect where a failure ends the trial, and where there are no env-runner actors.
_OF_TOLERANCE = (
    "num_consecutive_env_runner_failures_tolerance",
    "env_runner_health_probe_timeout_s",
)
_OF_ENV_RUNNER_ACTORS = (
    "ignore_env_runner_failures",
    "restart_failed_env_runners",
    "sample_timeout_s",
    *_OF_TOLERANCE,
)


def _check_environment(config: Any) -> None:
    if config.env is None and config.needs_env:
        raise ConfigError("env is not set: give an environment, e.g. env='CartPole-v1'")
    _check_clip_rewards(config)
    if config.is_atari and not (is_ale(config.env) or is_envpool(config.env)):
        raise ConfigError(
            f"is_atari = True is not allowed with env = {config.env!r}; allowed: games of "
            "gymnasium, 'ALE/…', and of EnvPool; wrap others yourself"
        )
    if config.render_env and config.record_env:
        raise ConfigError(
            "render_env and record_env are both set; an environment renders to a window or to "
            "arrays: choose one"
        )
    if (
        not config.record_env
        and config.video_interval != type(config).settings()["video_interval"].default
    ):
        raise ConfigError(
            f"video_interval = {config.video_interval} has no effect without record_env"
        )


def _check_clip_rewards(config: Any) -> None:
    bound = config.clip_rewards
    if bound is None or isinstance(bound, bool):
        return
    bounds = bound if isinstance(bound, list) else [-bound, bound]
    if len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise ConfigError(
            f"clip_rewards = {bound!r} is not allowed; allowed: True, False, None, a number "
            "> 0, or two bounds [a, b] with a < b"
        )


def _check_sampling(config: Any) -> None:
    for name in ("env_to_module_connector", "module_to_env_connector"):
        check_connectors(getattr(config, name), name)
    if config.remote_env_batch_wait_ms and not config.remote_worker_envs:
        raise ConfigError(
            f"remote_env_batch_wait_ms = {config.remote_env_batch_wait_ms} has no effect without "
            "remote_worker_envs=True"
        )
    if config.ignore_env_runner_failures and config.restart_failed_env_runners:
        raise ConfigError(
            "ignore_env_runner_failures and restart_failed_env_runners are both set; a failed "
            "env runner is either left out or made again: choose one"
        )


def _check_training(config: Any) -> None:
    check_connectors(config.learner_connector, "learner_connector")
    minibatch, batch = config.minibatch_size, config.total_train_batch_size
    if minibatch is not None and minibatch > batch:
        raise ConfigError(
            f"minibatch_size = {minibatch} is larger than the train batch of {batch} steps "
            "(train_batch_size_per_learner)"
        )
    _check_variables(config)
    if not config.num_learners:
        refuse_given(config, "num_cpus_per_learner", "num_learners = 0: nothing learns in actors")
    shared = config.needs_env and config.learners_share_slots
    if shared and config.num_learners > config.num_slots:
        raise ConfigError(
            f"num_learners = {config.num_learners} is more than the {config.num_slots} environment "
            "slots (num_env_runners x num_envs_per_env_runner) that they share: each needs one"
        )
    if config.local_gpu_idx and (config.num_learners or not config.num_gpus_per_learner):
        raise ConfigError(
            f"local_gpu_idx = {config.local_gpu_idx} has no effect with num_learners = "
            f"{config.num_learners} and num_gpus_per_learner = {config.num_gpus_per_learner:g}: it "
            "is the GPU of a learner in the trial's own process"
        )


# What is read before a trial's process knows its settings, and what Ray sets itself.
_TOO_LATE = ("PYTHONPATH", "PYTHONHASHSEED", "LD_LIBRARY_PATH", "LD_PRELOAD")
_OF_RAY = ("CUDA_VISIBLE_DEVICES",)


def _check_variables(settings: Any) -> None:
    """Refuse environment variables that are none, and those that would have no effect.

    Raises:
        ConfigError: naming the variable.
    """
    for name in ("extra_python_environs_for_driver", "extra_python_environs_for_worker"):
        for variable, value in getattr(settings, name).items():
            told = f"{name}: {variable!r}: {value!r}"
            is_name = isinstance(variable, str) and variable and not set("=\0") & set(variable)
            if not (is_name and isinstance(value, str)) or "\0" in value:
                raise ConfigError(f"{told} is not allowed; allowed: names and values are strings")
            if variable == "OMP_NUM_THREADS" and not (value.isdecimal() and int(value)):
                raise ConfigError(f"{told} is not allowed; allowed: a whole number >= 1")
            if variable in _OF_RAY:
                raise ConfigError(
                    f"{told} is not allowed: Ray sets it for the GPUs that a process asked for"
                )
            if name.endswith("driver") and variable in _TOO_LATE:
                raise ConfigError(
                    f"{told} has no effect: it is read before a process knows its settings; set it "
                    "where Ray is started, or in extra_python_environs_for_worker"
                )


def check_gpus_per_learner(amount: Any, num_learners: Any) -> None:
    """Refuse more than one GPU for a learner, which computes on one: the others would be idle.

    Args:
        amount: Of `num_gpus_per_learner`, as it was given.
        num_learners: What is given with it; None: nothing is.

    Raises:
        ConfigError: naming how several GPUs learn.
    """
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount <= 1:
        return
    number = num_learners if type(num_learners) is int and num_learners > 1 else 1
    every = number * amount
    raise ConfigError(
        f"num_gpus_per_learner = {amount:g} (num_gpus) is not allowed: a learner computes on one "
        f"GPU, and has all of the model on it; for {every:g} GPUs set "
        f"num_learners={math.ceil(every)} and num_gpus_per_learner=1"
    )


def _check_actors(config: Any) -> None:
    """Check what env-runner actors of training and of evaluations have in common."""
    num_actors = config.num_env_runners + config.evaluation_num_env_runners
    if not num_actors + config.num_learners:
        refuse_given(
            config,
            "extra_python_environs_for_worker",
            "num_env_runners = 0, evaluation_num_env_runners = 0 and num_learners = 0: there "
            "is only the trial's own process (extra_python_environs_for_driver)",
        )
    if not num_actors:
        for name in _OF_ENV_RUNNER_ACTORS:
            refuse_given(
                config,
                name,
                "num_env_runners = 0 and evaluation_num_env_runners = 0: the trial's own "
                "process samples, and fails with its environments",
            )
    elif not (config.ignore_env_runner_failures or config.restart_failed_env_runners):
        for name in _OF_TOLERANCE:
            refuse_given(
                config,
                name,
                "neither ignore_env_runner_failures nor restart_failed_env_runners: the first "
                "failure ends the trial",
            )
    if config.num_gpus_per_env_runner and not num_actors:
        raise ConfigError(
            f"num_gpus_per_env_runner = {config.num_gpus_per_env_runner} has no effect with "
            "num_env_runners = 0: the trial's process samples on num_gpus_per_learner"
        )


def _check_evaluation(config: Any) -> None:
    if config.evaluation_duration == "auto" and not config.evaluation_parallel_to_training:
        raise ConfigError(
            "evaluation_duration = 'auto' is as long as the training iteration beside it: set "
            "evaluation_parallel_to_training=True, or a number"
        )
    if config.evaluation_parallel_to_training and config.custom_evaluation_function is not None:
        raise ConfigError(
            "custom_evaluation_function is called in the trial's own process, which trains: it "
            "is not allowed with evaluation_parallel_to_training=True"
        )
    if config.evaluation_config.get("render_env") and config.record_env:
        raise ConfigError(
            "evaluation_config: render_env and record_env are both set; an environment renders "
            "to a window or to arrays: choose one"
        )
    if config.evaluation_num_env_runners:
        return
    if config.evaluation_parallel_to_training:
        raise ConfigError(
            "evaluation_parallel_to_training = True needs actors that evaluate: set "
            "evaluation_num_env_runners, e.g. to 1"
        )
    if is_given(config, "evaluation_sample_timeout_s"):
        raise ConfigError(
            f"evaluation_sample_timeout_s = {config.evaluation_sample_timeout_s} has no effect "
            "without evaluation_num_env_runners: an evaluation in the trial's own process is "
            "played to its end"
        )


def _check_data(config: Any) -> None:
    _check_feature("offline", config)
    if any(name in config.evaluation_config for name in OF_DATA):  # for estimates, or for nothing
        feature_settings("estimates").check(config)
    else:
        _check_feature("estimates", config)


def _check_callbacks(config: Any) -> None:
    for name in CALLBACK_SETTINGS:
        check_callbacks(name, getattr(config, name))


def _check_no_env(config: Any) -> None:
    if not config.needs_env:
        feature_settings("offline").check_no_env(config)


def _check_agents(config: Any) -> None:
    _check_feature("agents", config)


def _check_feature(name: str, config: Any) -> None:
    """Check the settings of a feature, if one is not its default, also in an evaluation."""
    known = config.settings()
    if name in features_given(config, config.evaluation_config) or any(
        declared.feature == name and is_other(config[own], declared.default)
        for own, declared in known.items()
    ):
        feature_settings(name).check(config)


def features_given(config: Any, values: Any) -> list[str]:
    """Return the features of which some values give settings, in the order that they are asked in.

    Args:
        config: A config, or its class.
        values: Checked names and any values.
    """
    known = config.settings()
    given = {
        known[name].feature
        for name, value in values.items()
        if name in known and is_other(value, known[name].default)
    }
    return [name for name in SETTINGS if name in given]


def is_other(value: Any, default: Any) -> bool:
    """Tell whether a value is not the default; of another type it always is."""
    return value is not default and not (type(value) is type(default) and bool(value == default))


def _check_per_worker(config: Any) -> None:
    if not config.resolve().explores_per_worker:
        return
    scheduled = ExplorationConfig.scheduled_options()
    acting = how_actions_are_chosen(config.exploration_config)
    given = [name for name in acting if name in scheduled]
    if given:
        raise ConfigError(
            f"exploration_config: {', '.join(given)} has no effect with type = "
            f"{acting['type']!r} and num_env_runners = "
            f"{config.num_env_runners}: each env runner has a constant of its own"
        )


def _check_critic(config: Any) -> None:
    """Refuse settings under which a value function could see no more than what acts.

    Args:
        config: An algorithm's config.

    Raises:
        ConfigError: naming both settings.
    """
    if critic_key(config) is None:
        return
    name = "centralized_critic" if config.centralized_critic else "critic_obs_key"
    given = f"{name} = {config[name]!r}"
    if config.centralized_critic and config.critic_obs_key is not None:
        raise ConfigError(
            f"{given} and critic_obs_key = {config.critic_obs_key!r} exclude each other: with the "
            f"first the key is {JOINT_OBS!r}; allowed: one of them"
        )
    if config.resolve().model.vf_share_layers:
        raise ConfigError(
            f"{given} is not possible with model={{'vf_share_layers': True}}: what acts would see "
            "it, too; allowed: False"
        )
    if not getattr(config, "use_critic", True):
        raise ConfigError(f"{given} has no effect with use_critic=False, which learns no values")


def _check_counts(config: Any) -> None:
    intrinsic = config.resolve().intrinsic
    if intrinsic is None or intrinsic.type != "Counts":
        return
    if config.observation_filter == "MeanStdFilter":
        raise ConfigError(
            "observation_filter = 'MeanStdFilter' does not go with exploration_config of the "
            "type 'Counts': its scale moves, and with it the states that are counted; allowed: "
            "'NoFilter', as Counts has a scale of its own"
        )


class Rule(NamedTuple):
    """A condition between settings.

    Attributes:
        settings: Those that it reads first.
        check: Raises a `ConfigError` for a config that does not meet it.
    """

    settings: tuple[str, ...]
    check: Callable[[Any], None]


RULES = (
    Rule(("env", "clip_rewards", "is_atari", "render_env", "video_interval"), _check_environment),
    Rule(("remote_worker_envs", "restart_failed_env_runners"), _check_sampling),
    Rule(("minibatch_size", "num_learners", "local_gpu_idx"), _check_training),
    Rule(("num_env_runners", "evaluation_num_env_runners", "num_learners"), _check_actors),
    Rule(("evaluation_duration", "evaluation_config"), _check_evaluation),
    Rule(("input_", "output", "off_policy_estimation_methods"), _check_data),
    Rule(CALLBACK_SETTINGS, _check_callbacks),
    Rule(("input_",), _check_no_env),
    Rule(("exploration_config", "num_env_runners"), _check_per_worker),
    Rule(("policies", "policy_mapping_fn", "league"), _check_agents),
    Rule(("critic_obs_key", "centralized_critic"), _check_critic),
    Rule(("exploration_config", "observation_filter"), _check_counts),
)
"""In the order in which they are checked."""
