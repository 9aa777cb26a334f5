"""Records the data that a spec asks for before its trials, once."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.activity import doing, nothing_to_tell
from experiments.errors import SweepError
from experiments.spec.paths import shown_path
from experiments.spec.recorded_data import EPISODES, EXPERT
from experiments.spec.schema import Expert, Record, SweepSpec
from experiments.terminal import say

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.core.config.config import AlgorithmConfig
    from trainables.core.policy.actable import Actable
    from trainables.core.policy.policy import Policy


def record_data(spec: SweepSpec, console: Console) -> None:
    """Record what `record` asks for, unless the data are there.

    They appear under their name when all of them are written: whoever is killed before leaves
    nothing that is taken for them. Of two sweeps that record the same at once one keeps its data.

    Args:
        spec: The sweep.
        console: Where it is told.

    Raises:
        ConfigError: The environment or the policy's training does not work.
        SweepError: The folder cannot be written.
    """
    section = spec.record
    if section is None:
        return
    assert section.folder is not None, "loading a spec has settled it"
    folder = Path(section.folder)
    data = folder / EPISODES
    if data.is_dir():
        say(console, f"Data: {shown_path(data)}, recorded before")
        return
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)  # of an earlier process of this number
        part.mkdir(parents=True)
        said = _record(section, part)
        if not data.is_dir():
            part.rename(folder)
    except OSError as error:
        if not data.is_dir():  # else another sweep was faster
            raise SweepError(
                f"record: {folder} cannot be written ({error.strerror}); allowed: another "
                "record.folder"
            ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    nothing_to_tell()
    say(console, f"Data: {shown_path(data)}: {said}")


def _record(section: Record, folder: Path) -> str:
    """Train who plays, record episodes, and return what was recorded, in words."""
    from trainables.runtime.evaluation.record import Behaves, record_episodes, uniform_policy
    from trainables.runtime.evaluation.record_agents import uniform_agents

    with ExitStack() as stack:
        policy: Actable
        if section.train is None:
            assert section.env is not None
            env, env_config = section.env, None
            random = uniform_agents(env, None, num_envs_per_env_runner=Behaves.num_envs)
            if random is not None:
                return _record_agents(section, folder, random, {}, "random actions")
            policy, described = uniform_policy(env, None), "random actions"
        else:
            algorithm, described = _trained(section.train)
            stack.callback(algorithm.stop)
            config = _played_with(section, algorithm.config)
            if _plays_agents(config):
                for module_id, own in algorithm.policies.items():
                    own.save(folder / EXPERT / module_id)
                return _record_agents(section, folder, config, algorithm.policies, described)
            trained = algorithm.get_policy()
            trained.save(folder / EXPERT)
            policy, config = trained, algorithm.config
            env, env_config = section.env or config.env, config.env_config
        doing(f"recording {section.episodes:,} episodes")
        behaves = Behaves(
            section.episodes,
            section.seed,
            section.epsilon,
            section.random_share,
            section.explore,
        )
        recorded = record_episodes(
            policy, env, env_config, folder / EPISODES, behaves, name=folder.name.strip(".")[:8]
        )
    returns = [each.outcome.total for each in recorded.episodes]
    of_random = f" ({recorded.num_random} uniformly random)" if recorded.num_random else ""
    return (
        f"{len(returns):,} episodes{of_random}, {recorded.num_steps:,} steps, return "
        f"{sum(returns) / len(returns):.4g} on average; {described}"
    )


def _plays_agents(config: AlgorithmConfig) -> bool:
    """Tell whether several agents play, each by itself, with one policy or several."""
    from trainables.runtime.evaluation.record_agents import uniform_agents

    if config.is_multi_agent() or config.plays_as_team or config.env is None:
        return config.is_multi_agent()
    return uniform_agents(config.env, config.env_config) is not None


def _played_with(section: Record, config: AlgorithmConfig) -> AlgorithmConfig:
    """Return the config that policies which were trained with one play with."""
    from trainables.runtime.evaluation.record import Behaves

    played = config.copy(copy_frozen=False)
    played.env = section.env or config.env
    played.num_envs_per_env_runner = Behaves.num_envs
    played.explore = section.explore
    return played


def _record_agents(
    section: Record,
    folder: Path,
    config: AlgorithmConfig,
    policies: Mapping[str, Policy],
    described: str,
) -> str:
    """Record episodes of several agents, and return what was recorded, in words."""
    from trainables.core.errors import ConfigError
    from trainables.runtime.evaluation.record_agents import record_agents

    if section.epsilon or section.random_share:
        raise ConfigError(
            "record: epsilon and random_share are not possible with several agents; allowed: 0"
        )
    doing(f"recording {section.episodes:,} episodes")
    recorded = record_agents(
        config,
        policies,
        folder / EPISODES,
        num_episodes=section.episodes,
        seed=section.seed,
        name=folder.name.strip(".")[:8],
    )
    returns = recorded.played.returns
    return (
        f"{len(returns):,} episodes of several agents, {recorded.num_steps:,} steps of theirs, "
        f"return {returns.mean():.4g} on average; {described}"
    )


def _trained(expert: Expert) -> tuple[Any, str]:
    """Return an algorithm that has trained until it may stop, and what it has reached."""
    import torch

    from trainables.registry import get_algorithm

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a trial on one CPU has them
    start = time.monotonic()
    algorithm = get_algorithm(expert.trainable).config_class.from_dict(expert.config).build()
    try:
        result: dict[str, Any] = {}
        while not any(result.get(name, float("-inf")) >= at for name, at in expert.stop.items()):
            result = algorithm.train()
            reached = result.get("episode_return_mean", float("nan"))
            doing(f"training {expert.trainable}, which will play: return {reached:.4g}")
    except BaseException:
        algorithm.stop()
        raise
    finally:
        torch.set_num_threads(threads)
    seconds = time.monotonic() - start
    return algorithm, f"{expert.trainable} was trained for {seconds:.0f} s"
