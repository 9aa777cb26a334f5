"""Slots of any environment: with one agent or several, by name, class, callable or object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector import VectorEnv

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.kinds import (
    PETTINGZOO,
    SeveralAgents,
    has_several_agents,
    speaks_in_dicts,
)
from trainables.runtime.envs.make import (
    EnvName,
    EnvOptions,
    env_name,
    make_vector_env,
    making,
    resolve_env,
)
from trainables.runtime.envs.multi_agent.checks import check_multi_agent_env
from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.global_state import telling_state
from trainables.runtime.envs.multi_agent.joint_observations import JointObservations
from trainables.runtime.envs.multi_agent.multi_agent_env import MultiAgentEnv
from trainables.runtime.envs.multi_agent.native import NATIVE
from trainables.runtime.envs.multi_agent.observation_fn import observation_wrapper
from trainables.runtime.envs.multi_agent.pettingzoo import make_pettingzoo, wrap_pettingzoo
from trainables.runtime.envs.multi_agent.remote_slot import RemoteMaker
from trainables.runtime.envs.multi_agent.single_agent import SingleAgent
from trainables.runtime.envs.multi_agent.team import TeamVectorEnv
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv
from trainables.runtime.envs.slots import SlotMaker

_Slots = VectorEnv | AgentsVectorEnv
_Wrap = Callable[[MultiAgentEnv], MultiAgentEnv]


def make_slots(
    config: AlgorithmConfig,
    env: EnvName,
    env_config: dict[str, Any] | None = None,
    num_envs: int = 1,
    *,
    worker_index: int = 0,
    num_workers: int = 0,
    options: EnvOptions | None = None,
    has_several: bool = False,
) -> _Slots:
    """Make slots of an environment where there are several agents; see `envs.make.make_slots`.

    Args:
        config: The algorithm's config, for whether there are several policies.
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_envs: Number of slots.
        worker_index: Index of the env runner.
        num_workers: Number of env-runner actors.
        options: How they are made and stepped.
        has_several: Whether the environment is known to have several agents.

    Raises:
        ConfigError: naming the environment and what is wrong with it.
    """
    asked = _Asked(
        env, dict(env_config or {}), num_envs, worker_index, num_workers, options or EnvOptions()
    )
    observed, is_of_several = observation_wrapper(config), has_several or config.is_multi_agent()
    if config.plays_as_team:
        return _team_slots(asked, config.action_mask_key, observed)
    made = _make_slots(asked, observed, is_of_several=is_of_several)
    return _with_joint_observations(made, asked.env) if config.centralized_critic else made


def _with_joint_observations(made: _Slots, env: EnvName) -> JointObservations:
    """Return slots whose agents also observe what all of them see; they close with it."""
    try:
        if not isinstance(made, AgentsVectorEnv):
            raise ConfigError(
                f"centralized_critic = True is not possible with env {env_name(env)!r}, which has "
                "one agent; allowed: False, or critic_obs_key for what only its value function sees"
            )
        return JointObservations(made)
    except BaseException:
        made.close()
        raise


def make_team_slots(
    env: EnvName,
    env_config: dict[str, Any] | None,
    num_envs: int,
    *,
    options: EnvOptions | None,
    mask_key: str,
) -> VectorEnv:
    """Make slots whose agents are one agent together; see `make_played_slots`.

    Args:
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_envs: Number of slots.
        options: How they are made and stepped.
        mask_key: The key of an agent's observation that says which actions are allowed.

    Raises:
        ConfigError: naming the environment and what is wrong with it.
    """
    asked = _Asked(env, dict(env_config or {}), num_envs, 0, 0, options or EnvOptions())
    return _team_slots(asked, mask_key)


class _Asked(NamedTuple):
    """The arguments of `make_slots`."""

    env: EnvName
    env_config: dict[str, Any]
    num_envs: int
    worker_index: int
    num_workers: int
    options: EnvOptions


def _team_slots(asked: _Asked, mask_key: str, observed: _Wrap | None = None) -> VectorEnv:
    """Make slots whose agents are one agent together; those of one agent are as they are."""
    made = _make_slots(asked, observed, tells_state=True)
    if not isinstance(made, AgentsVectorEnv):
        return made
    try:
        return TeamVectorEnv(made, env_name(asked.env), mask_key)
    except BaseException:
        made.close()
        raise


def _make_slots(
    asked: _Asked,
    observed: _Wrap | None = None,
    *,
    is_of_several: bool = False,
    tells_state: bool = False,
) -> _Slots:
    """Make slots of an environment, of several agents by themselves; see `make_slots`.

    Args:
        asked: Of what.
        observed: What `observation_fn` puts around an environment.
        is_of_several: Whether one of one agent is to be of several.
        tells_state: Whether its infos are to tell the global state.
    """
    env, given, num_envs, worker_index, num_workers, options = asked
    if isinstance(env, str) and env in NATIVE:
        if observed is not None:
            raise _no_dicts(env, "steps the agents of all slots at once, without dicts by agent")
        _refuse_options(env, options, is_native=True)
        return NATIVE[env](given, num_envs)
    make: Callable[[SlotMaker], Any] | None = None
    if isinstance(env, str) and env.startswith(PETTINGZOO):
        make = _pettingzoo_maker(env)
    elif is_of_several or _is_of_several(env):
        make = _agents_of_slot
    if make is None:
        try:
            made = make_vector_env(
                env,
                given,
                num_envs,
                worker_index=worker_index,
                num_workers=num_workers,
                options=options,
            )
        except SeveralAgents:
            make = _agents_of_slot
        else:
            if observed is not None:
                made.close()
                raise _no_dicts(
                    env, "has one agent, whose observations an env_to_module_connector changes"
                )
            return made
    is_game = make is not _agents_of_slot
    creator = _no_creator if is_game else resolve_env(env)
    if observed is not None:
        make = _observed(make, observed)
    if tells_state:
        make = _observed(make, telling_state)
    plain = replace(options, check=False, restart=False)
    name = env_name(env)
    makers = [
        SlotMaker(name, creator, given, worker_index, index, num_workers, plain)
        for index in range(num_envs)
    ]
    return _dict_slots(make, makers, env, given, options)


def _dict_slots(
    make: Callable[[SlotMaker], Any],
    makers: list[SlotMaker],
    env: EnvName,
    env_config: dict[str, Any],
    options: EnvOptions,
) -> DictSlots:
    """Make slots of environments apart, and check the first one.

    Raises:
        ConfigError: naming the environment and what is wrong with it.
    """
    _refuse_options(env, options)
    plain = partial(making, env, env_config, makers[0].options)
    checking = partial(_checking, make, makers[0], env, env_config, options)
    made = [partial(make, maker) for maker in makers]
    remote = [RemoteMaker(own, plain if n else checking) for n, own in enumerate(made)]
    with plain() if options.remote else checking():
        return DictSlots(
            remote if options.remote else made,
            restart=options.restart,
            finite=options.finite,
            names=[str(maker) for maker in makers],
        )


@contextmanager
def _checking(
    make: Callable[[SlotMaker], Any],
    maker: SlotMaker,
    env: EnvName,
    env_config: dict[str, Any],
    options: EnvOptions,
) -> Iterator[None]:
    """Check an environment, if that is asked for; within it, errors are told as in `making`."""
    with making(env, env_config, maker.options):
        if options.check:
            checked = make(maker)
            try:
                check_multi_agent_env(checked, env_name(env), options.mask_key)
            finally:
                checked.close()
        yield


def _observed(make: Callable[[SlotMaker], Any], wrap: _Wrap) -> Callable[[SlotMaker], Any]:
    """Return what makes an environment with something around it, e.g. `observation_fn`."""

    def make_observed(maker: SlotMaker) -> Any:
        made = make(maker)
        try:
            return wrap(made)
        except BaseException:
            made.close()
            raise

    return make_observed


def _no_dicts(env: EnvName, why: str) -> ConfigError:
    """Return the error for an environment that `observation_fn` cannot be applied to."""
    return ConfigError(
        f"observation_fn is not supported with env {env_name(env)!r}: it {why}; allowed: a "
        "MultiAgentEnv or an environment of PettingZoo"
    )


def _no_creator() -> None:
    """Stand where a `SlotMaker` has a creator: a game of PettingZoo is made by its name."""


def _is_of_several(env: EnvName) -> bool:
    return isinstance(env, type) and issubclass(env, MultiAgentEnv)


def _pettingzoo_maker(env: str) -> Callable[[SlotMaker], Any]:
    def make(maker: SlotMaker) -> Any:
        return make_pettingzoo(env, dict(maker.context()))

    return make


def _agents_of_slot(maker: SlotMaker) -> Any:
    """Return the environment of a slot as one with several agents."""
    made = maker.make_any()
    if speaks_in_dicts(made):
        return made
    if has_several_agents(made):
        return wrap_pettingzoo(made)
    if isinstance(made, gym.Env):
        return SingleAgent(made)
    raise ConfigError(
        f"env {maker.name!r} made a {type(made).__name__}; allowed: a gymnasium.Env, a "
        "MultiAgentEnv, or one of PettingZoo's"
    )


def _refuse_options(env: EnvName, options: EnvOptions, *, is_native: bool = False) -> None:
    """Refuse what slots with several agents cannot do.

    Raises:
        ConfigError: naming the setting.
    """
    asked = {
        "remote_worker_envs": is_native and options.remote,
        "restart_failed_sub_environments": is_native and options.restart,
        "render_env": options.window,
        "record_env": options.video is not None,
    }
    why = "has several agents"
    if is_native:
        why += ", those of all slots stepped together in array operations"
    for setting, is_asked in asked.items():
        if is_asked:
            raise ConfigError(f"{setting} is not supported with env {env_name(env)!r}, which {why}")
