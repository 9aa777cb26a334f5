"""Environments by name, class or callable, as vector environments that reset on the next step."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.data.team import PLAYS_AS_TEAM
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.suggestions import suggestion
from trainables.runtime.envs.kinds import AnyVectorEnv, SeveralAgents, is_named_for_several
from trainables.runtime.envs.slots import (
    LIMIT,
    EnvContext,
    EnvOptions,
    MakesAllSlots,
    SlotMaker,
    check_limit,
    check_vector_class,
    is_gymnasiums,
)
from trainables.runtime.envs.sub_environment import SubEnvironmentError

if TYPE_CHECKING:
    from trainables.core.config.config import AlgorithmConfig

__all__ = ["EnvContext", "EnvName", "EnvOptions", "env_name", "make_vector_env"]

EnvName = str | type | Callable[..., Any] | None


# A module and a class in it. What gymnasium has registered under such a name goes before.
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


class EnvMakingError(ConfigError):
    """An environment could not be made; of what it needs outside, another attempt may find more."""


def env_name(env: EnvName) -> str:
    """Return how an environment is called in messages and metadata."""
    return env if isinstance(env, str) else callable_name(env) if env is not None else "None"


def make_slots(
    config: AlgorithmConfig,
    env: EnvName,
    env_config: dict[str, Any] | None = None,
    num_envs: int = 1,
    *,
    worker_index: int = 0,
    num_workers: int = 0,
    options: EnvOptions | None = None,
) -> AnyVectorEnv:
    """Make slots of an environment, with one agent or several; see `make_vector_env`.

    Several policies act for several agents: with them, an environment of one agent becomes one of
    several with that agent alone. Of an algorithm that plays as a team it is the other way round.
    With `centralized_critic` each agent's observation has what all of them see.

    Args:
        config: The algorithm's config, for whether there are several policies.
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_envs: Number of slots.
        worker_index: Index of the env runner.
        num_workers: Number of env-runner actors.
        options: How they are made and stepped.

    Raises:
        ConfigError: naming the environment and what is wrong with it.
    """
    instance = {"worker_index": worker_index, "num_workers": num_workers, "options": options}
    is_made = is_named_for_several(env) or _is_for_several(config)
    if not is_made:
        try:
            return make_vector_env(env, env_config, num_envs, **instance)  # type: ignore[arg-type]
        except SeveralAgents:
            pass
    slots: AnyVectorEnv = feature("agents").make_slots(
        config, env, env_config, num_envs, **instance, has_several=not is_made
    )
    return slots


def _is_for_several(config: AlgorithmConfig) -> bool:
    """Tell whether settings are of several agents, which the environment then is to have."""
    return (
        config.is_multi_agent()
        or config.plays_as_team
        or config.centralized_critic
        or config.observation_fn is not None
    )


def make_played_slots(
    metadata: Mapping[str, Any],
    env: EnvName,
    env_config: dict[str, Any] | None = None,
    num_envs: int = 1,
    *,
    options: EnvOptions | None = None,
) -> VectorEnv:
    """Make slots for a policy to play in, without the config that it was trained with.

    Args:
        metadata: Those of who acts: they say whether it acts for a team.
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_envs: Number of slots.
        options: How they are made and stepped.

    Raises:
        ConfigError: naming the environment and what is wrong with it.
    """
    mask_key = metadata.get(PLAYS_AS_TEAM)
    if mask_key is None:
        return make_vector_env(env, env_config, num_envs, options=options)
    slots: VectorEnv = feature("agents").make_team_slots(
        env, env_config, num_envs, options=options, mask_key=mask_key
    )
    return slots


def make_vector_env(
    env: EnvName,
    env_config: dict[str, Any] | None = None,
    num_envs: int = 1,
    *,
    worker_index: int = 0,
    num_workers: int = 0,
    options: EnvOptions | None = None,
) -> VectorEnv:
    """Make `num_envs` slots of an environment, stepped together.

    Args:
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_envs: Number of slots.
        worker_index: Index of the env runner.
        num_workers: Number of env-runner actors.
        options: How they are made and stepped. Without, as they are, in this process.

    Returns:
        A vector environment whose slots reset on the step after an episode's end.

    Raises:
        ConfigError: naming the environment and what is wrong with it.
    """
    env_config, options = dict(env_config or {}), options or EnvOptions()
    if isinstance(env, str) and env.startswith("envpool:"):
        _check_vector_options(env, options)
        pool: VectorEnv = feature("games").make_envpool(
            env.removeprefix("envpool:"), env_config, num_envs
        )
        return pool
    with making(env, env_config, options):
        slot = SlotMaker(
            env_name(env), resolve_env(env), env_config, worker_index, 0, num_workers, options
        )
        vector_env = _make(slot, num_envs)
    mode = vector_env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    if mode != AutoresetMode.NEXT_STEP:
        vector_env.close()
        raise ConfigError(
            f"env {env_name(env)!r} resets in mode {mode}; only AutoresetMode.NEXT_STEP is "
            "supported"
        )
    return vector_env


@contextmanager
def making(env: EnvName, env_config: dict[str, Any], options: EnvOptions) -> Iterator[None]:
    """Within it, whatever an environment's constructor raises is told as one error.

    Raises:
        ConfigError: naming the environment and what is wrong with it.
    """
    try:
        yield
    except (ConfigError, SubEnvironmentError):
        raise
    except Exception as error:  # whatever a user's constructor raises is theirs to read
        known = feature("games").why_not_made(env, error)
        if known is not None:
            raise known from error
        if options.renders and "render_mode" in str(error):
            what = "render_env" if options.video is None else options.video.asked_by
            raise ConfigError(
                f"{what}: env {env_name(env)!r} cannot be drawn: it takes no render_mode ({error})"
            ) from error
        raise EnvMakingError(
            f"env {env_name(env)!r} cannot be made with env_config={env_config!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def training_options(
    config: AlgorithmConfig, worker_index: int, video_folder: str | None
) -> EnvOptions:
    """Return how the slots of an env runner are made.

    Args:
        config: The algorithm's config.
        worker_index: Index of the env runner; with actors, 0 only reads the spaces.
        video_folder: Where videos go; None if there are none.
    """
    samples = worker_index > 0 or config.num_env_runners == 0
    shows = worker_index == min(1, config.num_env_runners)
    video = None
    if shows and video_folder is not None:
        video = feature("video").of_training(video_folder, config.video_interval)
    return EnvOptions(
        check=worker_index == 0 and not config.disable_env_checking,
        mask_key=config.action_mask_key,
        restart=samples and config.restart_failed_sub_environments,
        finite=config.env_to_module_connector is None,
        remote=samples and config.remote_worker_envs,
        window=shows and config.render_env,
        video=video,
    )


def evaluation_options(
    config: AlgorithmConfig, worker_index: int, iteration: int, video_folder: str | None
) -> EnvOptions:
    """Return how the slots of an evaluation are made; the first one's first episode is recorded.

    Args:
        config: That of evaluations.
        worker_index: Index of who evaluates: 0 in process, 1, 2, … for actors.
        iteration: The iteration of training, which names videos.
        video_folder: Where videos go; None if there are none.
    """
    video = None
    if video_folder is not None:
        video = feature("video").of_evaluation(video_folder, iteration)
    return EnvOptions(
        restart=config.restart_failed_sub_environments,
        finite=config.env_to_module_connector is None,
        remote=config.remote_worker_envs,
        window=worker_index <= 1 and config.render_env,
        video=video,
    )


def _make(first: SlotMaker, num_envs: int) -> VectorEnv:
    """Make a class of vector environments, gymnasium's native one if there is one, or slots."""
    creator, options = first.creator, first.options
    if isinstance(creator, type) and issubclass(creator, VectorEnv):
        _check_vector_options(first.name, options)
        check_vector_class(creator, first.env_config, first.name)
        vector_class: Any = creator
        made: VectorEnv = vector_class(num_envs=num_envs, **first.env_config)
        if options.check:
            try:
                feature("env_checks").check_all(made, first.name, options.mask_key)
            except BaseException:
                made.close()
                raise
        return made
    # The native vector environment does not render, and its slots cannot be replaced.
    stays_whole = not options.needs_single_slots and "render_mode" not in first.env_config
    if stays_whole and isinstance(creator, MakesAllSlots):
        games = creator.vector(num_envs, first.env_config)
        if games is not None:
            return games
    is_native = isinstance(creator, EnvSpec) and creator.vector_entry_point is not None
    if is_native and (stays_whole or _filmed_whole(creator, options)):
        return _native(first, creator, num_envs)
    makers = [replace(first, vector_index=index) for index in range(num_envs)]
    if options.remote:
        apart: VectorEnv = feature("actors").slots(makers)
        return apart
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP)


def _native(first: SlotMaker, spec: Any, num_envs: int) -> VectorEnv:
    check_limit(first.env_config.get(LIMIT))
    env = gym.make_vec(
        spec, num_envs=num_envs, vectorization_mode="vector_entry_point", **first.env_config
    )
    video = first.options.video
    if video is None:
        return env
    filmed: VectorEnv = feature("video").filmed(env, spec, first.env_config, video, first.name)
    return filmed


def _filmed_whole(spec: Any, options: EnvOptions) -> bool:
    """Tell whether the first episodes of a native vector environment are to be filmed, and can be.

    Training's videos take slots apart, whose state a checkpoint keeps.
    """
    if options.video is None or not options.video.files:
        return False
    only_films = not replace(options, video=None).needs_single_slots
    return only_films and feature("video").can_film(spec)


def is_filmed_apart(env: EnvName) -> bool:
    """Tell whether filming takes slots apart that are one environment otherwise.

    They have other random streams then.
    """
    creator = resolve_env(env)
    if isinstance(creator, MakesAllSlots):
        return True
    if not isinstance(creator, EnvSpec) or creator.vector_entry_point is None:
        return False
    return not feature("video").can_film(creator)


def _check_vector_options(name: str, options: EnvOptions) -> None:
    """Refuse what needs environments apart where all slots are one environment."""
    video = options.video
    asked = {
        "render_env": options.window,
        "record_env" if video is None else video.asked_by: video is not None,
        "restart_failed_sub_environments": options.restart,
        "remote_worker_envs": options.remote,
    }
    for setting, is_asked in asked.items():
        if is_asked:
            raise ConfigError(
                f"{setting} is not supported with env {name!r}: it is one vector environment, "
                "whose slots cannot be taken apart"
            )


def resolve_env(env: EnvName) -> EnvSpec | Callable[..., Any]:
    """Return a spec of gymnasium's registry, or what makes an environment or all slots."""
    if env is None:
        raise ConfigError("env is not set: give an environment, e.g. env='CartPole-v1'")
    if not isinstance(env, str):
        return env
    registered = _tune_creator(env)
    if registered is not None:
        return registered
    if not is_gymnasiums(gym.registry.get(env)):
        known: Callable[..., Any] | None = feature("games").creator(env)
        if known is not None:
            return known
    if ":" in env and env not in gym.registry:
        return _resolve_in_module(env)
    if env in gym.registry:
        return gym.spec(env)
    if _DOTTED.fullmatch(env):
        return _resolve_dotted(env)
    raise _unknown(env)


def _resolve_in_module(env: str) -> EnvSpec | Callable[..., Any]:
    """Return what `module:name` is: code, or a gymnasium id that importing the module registers."""
    module, _, name = env.partition(":")
    try:
        return resolve_callable(env)
    except ConfigError:
        if module in sys.modules and name in gym.registry:
            return gym.spec(name)
        raise


def _resolve_dotted(env: str) -> Callable[..., Any]:
    """Return what `package.module.Class` is: the reference's words for `package.module:Class`."""
    module, _, name = env.rpartition(".")
    try:
        found: Callable[..., Any] = resolve_callable(f"{module}:{name}")
    except ConfigError as error:
        raise ConfigError(f"{_unknown(env)}; as a class, {error}") from None
    return found


def _unknown(env: str) -> ConfigError:
    hint = suggestion(env, gym.registry, most=3, cutoff=0.5)
    return ConfigError(
        f"env {env!r} is unknown: it is no gymnasium id, no name given to tune.register_env and no "
        f"'module:name' or 'package.module.Class'{hint}"
    )


def _tune_creator(name: str) -> Callable[..., Any] | None:
    """Return what `tune.register_env` registered under a name, looked up only if Ray is in use."""
    if "ray.tune" not in sys.modules:
        return None
    from ray.tune.registry import ENV_CREATOR, _global_registry

    if not _global_registry.contains(ENV_CREATOR, name):
        return None
    return _global_registry.get(ENV_CREATOR, name)


def is_tune_name(env: str) -> bool:
    """Tell whether a name was given to `tune.register_env`, which goes before gymnasium's ids."""
    return _tune_creator(env) is not None


def is_name_safe(env: str) -> bool:
    """Tell whether resolving an environment's name imports nothing that the name itself chooses."""
    if env.startswith(("envpool:", "pettingzoo:")) or is_tune_name(env):
        return True  # `pettingzoo_names` imports modules of games alone
    return ":" not in env and (env in gym.registry or _DOTTED.fullmatch(env) is None)
