"""Settings of evaluations during training, of results, checkpoints and logs, and the seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from trainables.core.config.settings import (
    CODE,
    MOST_ACTORS,
    PROCESSES,
    is_given,
    refuse_given,
    setting,
)
from trainables.core.config.training import TrainingSettings
from trainables.core.errors import ConfigError
from trainables.core.logs import LEVELS

# Slots that are stepped together. Not those of training: the episodes would depend on them.
_SLOTS = 8
# What an evaluation does unless `evaluation_config` says otherwise, whatever else that says.
OF_EVALUATION = {"explore": False}

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


@dataclass(kw_only=True)
class ReportingSettings(TrainingSettings):
    """Settings of evaluations during training, of results, checkpoints and logs, and the seed."""

    evaluation_interval: int | None = setting(
        None,
        "evaluation",
        "training iterations between evaluations; None or 0: never",
        ge=0,
        harmless=True,
    )
    evaluation_duration: int | Literal["auto"] = setting(
        10,
        "evaluation",
        "length of an evaluation; 'auto': as many complete episodes (or timesteps) as fit into "
        "the training iteration, with evaluation_parallel_to_training",
        ge=1,
        harmless=(1, 1_000_000),
        risk="time",
    )
    evaluation_duration_unit: str = setting(
        "episodes",
        "evaluation",
        "unit of evaluation_duration; 'timesteps': episodes are cut off after these steps, and "
        "means cover the episodes that ended, NaN if none did",
        choices=("episodes", "timesteps"),
    )
    evaluation_num_env_runners: int = setting(
        0,
        "evaluation",
        "env-runner actors that evaluate; 0 evaluates in the trial's process",
        ge=0,
        le=MOST_ACTORS,
        harmless=(0, 64),
        risk=PROCESSES,
    )
    evaluation_config: dict[str, Any] = setting(
        dict(OF_EVALUATION),
        "evaluation",
        "settings of evaluations: env, env_config, explore (False by default), policy_mapping_fn, "
        "seed, render_env (not switched on by training's), callbacks_class (for its episodes), "
        "and num_envs_per_env_runner, the slots that are stepped together (8 by default; 1 if the "
        "duration is timesteps or 'auto'). num_env_runners in it is evaluation_num_env_runners",
    )
    evaluation_parallel_to_training: bool = setting(
        False,
        "evaluation",
        "evaluate in parallel with the training iteration, with the weights from its start; needs "
        "evaluation_num_env_runners",
        harmless=True,
    )
    evaluation_sample_timeout_s: int | float = setting(
        180,
        "evaluation",
        "seconds to wait for evaluation actors; the result covers those that have answered",
        gt=0,
        harmless=True,
    )
    custom_evaluation_function: str | Callable[..., Any] | None = setting(
        None,
        "evaluation",
        "your own evaluation: called with the algorithm and its eval_env_runner_group, returns a "
        "dict of numbers. 'module:name' or a callable",
        risk=CODE,
    )
    always_attach_evaluation_results: bool = setting(
        True,
        "evaluation",
        "every result carries the latest evaluation (the first one follows iteration 1)",
        harmless=True,
    )

    metrics_num_episodes_for_smoothing: int = setting(
        100, "reporting", "episode statistics cover at least this many last episodes", ge=1
    )
    min_time_s_per_iteration: float | None = setting(
        None, "reporting", "least duration of train(), seconds", ge=0
    )
    min_train_timesteps_per_iteration: int | None = setting(
        None, "reporting", "least number of environment steps that train() trains on", ge=0
    )
    min_sample_timesteps_per_iteration: int | None = setting(
        None, "reporting", "least number of environment steps that train() samples", ge=0
    )
    max_env_steps_without_episode: int = setting(
        1_000_000,
        "reporting",
        "environment steps within which a first episode must end (with batch_mode = "
        "'complete_episodes' every episode; the steps of all slots of an env runner count); for "
        "an episode of an evaluation it is a tenth of them, or 100000 if that is more, but never "
        "more than all of them",
        ge=1,
    )
    export_native_model_files: bool = setting(
        False, "checkpointing", "also store each policy as a torch.export program in checkpoints"
    )
    log_level: str | None = setting(
        None,
        "debugging",
        "log level of all processes of a trial: INFO for events, DEBUG also for the flow of data; "
        "None: INFO or DEBUG by the command line's -v or -vv, else WARN",
        choices=LEVELS,
    )
    log_sys_usage: bool = setting(False, "debugging", "report CPU and memory use (needs psutil)")
    seed: int | None = setting(
        None, "debugging", "root of every random stream; None draws one", ge=0, harmless=True
    )

    @property
    def evaluation_env(self) -> Any:
        """What evaluations play in: `env`, or what `evaluation_config` puts in its place."""
        return self.evaluation_config.get("env", self.env)

    @property
    def evaluation_slots(self) -> int:
        """Slots that an evaluation steps together.

        Of several slots that play timesteps, each has an episode cut off, and "auto" ends with
        training: they would play further than was asked.
        """
        given: int | None = self.evaluation_config.get("num_envs_per_env_runner")
        if given is not None:
            return given
        in_episodes = self.evaluation_duration_unit == "episodes"
        return _SLOTS if in_episodes and self.evaluation_duration != "auto" else 1

    def validate(self) -> None:
        super().validate()
        self._validate_actors()
        self._validate_evaluation()

    def _validate_actors(self) -> None:
        """Check what env-runner actors of training and of evaluations have in common."""
        num_actors = self.num_env_runners + self.evaluation_num_env_runners
        if not num_actors + self.num_learners:
            refuse_given(
                self,
                "extra_python_environs_for_worker",
                "num_env_runners = 0, evaluation_num_env_runners = 0 and num_learners = 0: there "
                "is only the trial's own process (extra_python_environs_for_driver)",
            )
        if not num_actors:
            for name in _OF_ENV_RUNNER_ACTORS:
                refuse_given(
                    self,
                    name,
                    "num_env_runners = 0 and evaluation_num_env_runners = 0: the trial's own "
                    "process samples, and fails with its environments",
                )
        elif not (self.ignore_env_runner_failures or self.restart_failed_env_runners):
            for name in _OF_TOLERANCE:
                refuse_given(
                    self,
                    name,
                    "neither ignore_env_runner_failures nor restart_failed_env_runners: the first "
                    "failure ends the trial",
                )
        if self.num_gpus_per_env_runner and not num_actors:
            raise ConfigError(
                f"num_gpus_per_env_runner = {self.num_gpus_per_env_runner} has no effect with "
                "num_env_runners = 0: the trial's process samples on num_gpus_per_learner"
            )

    def _validate_evaluation(self) -> None:
        if self.evaluation_duration == "auto" and not self.evaluation_parallel_to_training:
            raise ConfigError(
                "evaluation_duration = 'auto' is as long as the training iteration beside it: set "
                "evaluation_parallel_to_training=True, or a number"
            )
        if self.evaluation_parallel_to_training and self.custom_evaluation_function is not None:
            raise ConfigError(
                "custom_evaluation_function is called in the trial's own process, which trains: it "
                "is not allowed with evaluation_parallel_to_training=True"
            )
        if self.evaluation_config.get("render_env") and self.record_env:
            raise ConfigError(
                "evaluation_config: render_env and record_env are both set; an environment renders "
                "to a window or to arrays: choose one"
            )
        if self.evaluation_num_env_runners:
            return
        if self.evaluation_parallel_to_training:
            raise ConfigError(
                "evaluation_parallel_to_training = True needs actors that evaluate: set "
                "evaluation_num_env_runners, e.g. to 1"
            )
        if is_given(self, "evaluation_sample_timeout_s"):
            raise ConfigError(
                f"evaluation_sample_timeout_s = {self.evaluation_sample_timeout_s} has no effect "
                "without evaluation_num_env_runners: an evaluation in the trial's own process is "
                "played to its end"
            )
