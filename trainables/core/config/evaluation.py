"""Settings of evaluations during training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from trainables.core.config.reference.defaults import is_default
from trainables.core.config.settings import CODE, MOST_ACTORS, PROCESSES, Settings, setting
from trainables.core.errors import ConfigError

# Slots that are stepped together. Not those of training: the episodes would depend on them.
_SLOTS = 8


@dataclass(kw_only=True)
class EvaluationSettings(Settings):
    """Settings of evaluations during training."""

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
        "length of an evaluation; 'auto': as many whole episodes (or timesteps) as fit beside the "
        "training iteration, with evaluation_parallel_to_training",
        ge=1,
        harmless=(1, 1_000_000),
        risk="time",
    )
    evaluation_duration_unit: str = setting(
        "episodes",
        "evaluation",
        "unit of evaluation_duration; 'timesteps': episodes are cut off where they are played, "
        "and means are of those that have ended, NaN if none has",
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
        {"explore": False},
        "evaluation",
        "what differs in an evaluation: env, env_config, explore, and num_envs_per_env_runner, the "
        "slots that are stepped together (8 unless it is given; 1 where the duration is timesteps "
        "or 'auto')",
    )
    evaluation_parallel_to_training: bool = setting(
        False,
        "evaluation",
        "evaluate beside the training iteration, with the weights that it begins with; needs "
        "evaluation_num_env_runners",
        harmless=True,
    )
    evaluation_sample_timeout_s: int | float = setting(
        180,
        "evaluation",
        "seconds to wait for evaluation actors; the result is of those that have answered",
        gt=0,
        harmless=True,
    )
    custom_evaluation_function: str | Callable[..., Any] | None = setting(
        None,
        "evaluation",
        "evaluates instead: called with the algorithm and its eval_env_runner_group, returns a "
        "dict of numbers. 'module:name' or a callable",
        risk=CODE,
    )
    always_attach_evaluation_results: bool = setting(
        True,
        "evaluation",
        "every result carries the latest evaluation (the first one follows iteration 1)",
        harmless=True,
    )

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

    def validate_evaluation(self) -> None:
        """Check what concerns several settings of evaluations.

        Raises:
            ConfigError: naming the settings that do not fit together.
        """
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
        if self.evaluation_num_env_runners:
            return
        if self.evaluation_parallel_to_training:
            raise ConfigError(
                "evaluation_parallel_to_training = True needs actors that evaluate: set "
                "evaluation_num_env_runners, e.g. to 1"
            )
        if not is_default("evaluation_sample_timeout_s", self.evaluation_sample_timeout_s):
            raise ConfigError(
                f"evaluation_sample_timeout_s = {self.evaluation_sample_timeout_s} has no effect "
                "without evaluation_num_env_runners: an evaluation in the trial's own process is "
                "played to its end"
            )
