"""What an algorithm is built of: its environment, policies and learners."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.features import feature, feature_settings
from trainables.core.policy.policy import Policy
from trainables.lifecycle.spaces import Spaces
from trainables.runtime.devices import learner_device
from trainables.runtime.envs.kinds import AgentSlots, AnyVectorEnv
from trainables.runtime.envs.make import EnvContext, env_name, make_slots, training_options
from trainables.runtime.process_environment import num_threads


def trial_threads(config: AlgorithmConfig, trial_info: Any) -> int:
    """Return as many as the process has CPUs: a scheduler may give it more than the config.

    Args:
        config: The algorithm's config.
        trial_info: What Tune tells of its trial, if it is one.
    """
    given = getattr(getattr(trial_info, "trial_resources", None), "head_cpus", 0)
    cpus = max(given, config.num_cpus_for_main_process)
    return num_threads(config.extra_python_environs_for_driver, cpus)


def make_env(
    config: AlgorithmConfig,
    video_folder: str | None,
    validate: Callable[[Any, EnvContext], None],
) -> AnyVectorEnv | None:
    """Return all slots of the in-process env runner; with actors one, to read the spaces from.

    An algorithm whose training steps no environment reads the spaces from one, too, if it is given
    any.

    Args:
        config: The algorithm's config.
        video_folder: Where `record_env` writes, if it does.
        validate: Raises for an environment that the algorithm does not take.
    """
    if config.env is None:
        return None
    in_process = config.needs_env and config.num_env_runners == 0
    num_envs = config.num_envs_per_env_runner if in_process else 1
    env = make_slots(
        config,
        config.env,
        config.env_config_for(training=True),
        num_envs,
        num_workers=config.num_env_runners,
        options=training_options(config, 0, video_folder),
    )
    try:
        if isinstance(env, AgentSlots):
            # Also where one policy acts for all of them.
            feature_settings("agents").refuse_for_several_agents(config)
        elif config.env_task_fn is not None:
            feature("tasks").check(env, env_name(config.env))
        validate(env, EnvContext(config.env_config))
    except BaseException:
        env.close()
        raise
    return env


def make_policy(
    config: AlgorithmConfig,
    spaces: Spaces,
    module: dict[str, Any],
    seed: int,
    weights: Mapping[str, Any] | None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Policy:
    """Return the policy of a config.

    Args:
        config: The algorithm's config.
        spaces: The spaces that it acts in.
        module: What the policy is made of, see `Algorithm.module_options`.
        seed: The seed of the initial weights.
        weights: Those that it will be given, see `Policy`.
        options: Arguments of `Policy` in place of those that the config gives; of a dict `model`
            each setting is in place of the config's.
    """
    resolved = config.resolve()
    if isinstance(options.get("model"), Mapping):
        options = {**options, "model": {**resolved.model.given, **options["model"]}}
    given: dict[str, Any] = {
        "model": resolved.model,
        "module": module,
        "observation_filter": config.observation_filter,
        "normalize_actions": config.normalize_actions,
        "clip_actions": config.clip_actions,
        "frame_stack": resolved.num_frames,
        "action_mask_key": config.action_mask_key,
        "critic_obs_key": resolved.critic_key,
        "env_to_module_connector": config.env_to_module_connector,
        "module_to_env_connector": config.module_to_env_connector,
        "explore": config.explore,
        "exploration": resolved.exploration,
    }
    policy = Policy(
        spaces.observation,
        spaces.action,
        **{**given, **options},
        seed=seed,
        device=learner_device(config),
        weights=weights,
    )
    if resolved.compile_acting is not None:
        policy.compile_acting(resolved.compile_acting)
    return policy


def trained_ids(trained: Collection[str], module_ids: Collection[str]) -> list[str]:
    """Return the ids of the modules that learn, in order of the modules.

    Args:
        trained: What `Algorithm.trained_modules` says.
        module_ids: The ids of all modules.

    Raises:
        ConfigError: if it is none, or one is none of the modules.
    """
    if not trained or not set(trained) <= set(module_ids):
        raise ConfigError(
            f"trained_modules = {list(trained)} is not allowed; allowed: at least one of "
            + ", ".join(map(repr, module_ids))
        )
    return [module_id for module_id in module_ids if module_id in trained]


def of_module(module_id: str, method: Callable[..., Any], *args: Any) -> Any:
    """Return what a method says of a module; one of a subclass may take no `module_id`.

    Args:
        module_id: The id of the module.
        method: Of an algorithm.
        args: Its other arguments.
    """
    takes_id = _takes_module_id(getattr(method, "__func__", method))
    return method(*args, module_id=module_id) if takes_id else method(*args)


@lru_cache(maxsize=256)
def _takes_module_id(function: Callable[..., Any]) -> bool:
    """Tell whether a function has an argument `module_id`; asked in every training step."""
    return "module_id" in inspect.signature(function).parameters
