"""Settings of how environments are sampled, explored, and what happens when they fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from trainables.core.config.settings import (
    CODE,
    MEMORY,
    MOST_ACTORS,
    MOST_ROWS,
    MOST_SLOTS,
    PROCESSES,
    RESOURCES,
    Settings,
    setting,
)


@dataclass(kw_only=True)
class SamplingSettings(Settings):
    """Settings of how environments are sampled, explored, and what happens when they fail."""

    num_env_runners: int = setting(
        0,
        "env_runners",
        "env-runner actors; 0 samples in the trial's own process",
        ge=0,
        le=MOST_ACTORS,
        harmless=(0, 64),
        risk=PROCESSES,
    )
    num_envs_per_env_runner: int = setting(
        8,
        "env_runners",
        "environment slots that an env runner steps together",
        ge=1,
        le=MOST_SLOTS,
        harmless=(1, 1024),
        risk=MEMORY,
    )
    rollout_fragment_length: int | Literal["auto"] = setting(
        "auto",
        "env_runners",
        "steps per slot and sample; 'auto' fits the train batch",
        ge=1,
        le=MOST_ROWS,
        harmless=True,
    )
    batch_mode: str = setting(
        "truncate_episodes",
        "env_runners",
        "'complete_episodes': a sample holds complete episodes only, at least one of each slot "
        "and at least rollout_fragment_length x slots steps; unfinished episodes come with a "
        "later sample, so their first steps may have older weights",
        choices=("truncate_episodes", "complete_episodes"),
    )
    observation_filter: str = setting(
        "NoFilter",
        "env_runners",
        "MeanStdFilter scales each observation element by running mean and standard deviation",
        choices=("NoFilter", "MeanStdFilter"),
    )
    env_to_module_connector: str | type | Callable[..., Any] | dict[str, Any] | list[Any] | None = (
        setting(
            None,
            "env_runners",
            "connectors from raw observations to the inputs of the networks: a function of "
            "tensors, a class, 'module:name', {'type': …, arguments}, or a list of these",
            risk=CODE,
        )
    )
    module_to_env_connector: str | type | Callable[..., Any] | dict[str, Any] | list[Any] | None = (
        setting(
            None,
            "env_runners",
            "connectors from the policy's actions to the environment's, in the same form as "
            "env_to_module_connector, but functions of arrays",
            risk=CODE,
        )
    )
    num_cpus_per_env_runner: int | float = setting(
        1, "env_runners", "CPUs of an env-runner actor", ge=0, harmless=(1, 64), risk=RESOURCES
    )
    num_gpus_per_env_runner: int | float = setting(
        0,
        "env_runners",
        "GPUs of an env-runner actor; may be a fraction",
        ge=0,
        harmless=(0, 1),
        risk=RESOURCES,
    )
    custom_resources_per_env_runner: dict[str, Any] = setting(
        {}, "env_runners", "custom Ray resources of an env-runner actor", risk=RESOURCES
    )
    env_runner_cls: str | type | None = setting(
        None,
        "env_runners",
        "a subclass of trainables.runtime.sampling.env_runner.EnvRunner to sample with, or "
        "'module:name' of one; None: EnvRunner",
        risk=CODE,
    )
    max_requests_in_flight_per_env_runner: int = setting(
        2,
        "env_runners",
        "for algorithms that sample asynchronously: greatest number of pending fragments of an "
        "env-runner actor",
        ge=1,
        harmless=True,
    )
    sample_timeout_s: int | float | None = setting(
        None,
        "env_runners",
        "seconds after which an env-runner actor without a sample is ended and counts as failed; "
        "None waits for ever",
        gt=0,
        harmless=True,
    )
    validate_env_runners_after_construction: bool = setting(
        True,
        "env_runners",
        "wait until all env-runner actors are built; False starts with those that are ready",
        harmless=True,
    )
    remote_worker_envs: bool = setting(
        False,
        "env_runners",
        "step every slot in a separate process, for slow environments",
        risk=PROCESSES,
    )
    remote_env_batch_wait_ms: int | float = setting(
        0,
        "env_runners",
        "with remote_worker_envs: milliseconds to wait for more slots, once one is ready, before "
        "the policy acts",
        ge=0,
        harmless=True,
    )
    explore: bool = setting(
        True,
        "exploration",
        "explore while sampling; False takes the most likely actions",
        fixed="it does not change how a trial learns",
    )
    exploration_config: dict[str, Any] = setting(
        {},
        "exploration",
        "type and options of exploration, see ExplorationConfig; {}: the algorithm's default",
    )
    ignore_env_runner_failures: bool = setting(
        False,
        "fault_tolerance",
        "continue without env-runner actors that die, hang (see sample_timeout_s), or whose "
        "environment raises, as long as one is left; num_healthy_workers counts the live ones",
    )
    restart_failed_env_runners: bool = setting(
        False,
        "fault_tolerance",
        "restart env-runner actors that die, hang, or whose environment raises, with the same "
        "index, weights, filter and tasks, while the others sample; a hanging one is only noticed "
        "with sample_timeout_s; excludes ignore_env_runner_failures",
    )
    num_consecutive_env_runner_failures_tolerance: int = setting(
        100,
        "fault_tolerance",
        "number of failures of env-runner actors that have not sampled since, after which the "
        "trial ends",
        ge=0,
    )
    env_runner_health_probe_timeout_s: int | float = setting(
        30,
        "fault_tolerance",
        "seconds within which an idle env-runner actor must answer a health check, once an "
        "iteration with restart_failed_env_runners",
        gt=0,
    )
    env_runner_restore_timeout_s: int | float = setting(
        1800,
        "fault_tolerance",
        "seconds within which an env-runner actor must start and make its environments",
        gt=0,
    )
    restart_failed_sub_environments: bool = setting(
        False,
        "fault_tolerance",
        "replace a slot's environment if it raises or returns NaN or infinity, and continue; 6 "
        "failures in a row end the trial",
    )
