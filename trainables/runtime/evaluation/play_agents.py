"""Evaluation with several agents: each slot plays one episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.policy.fixed_policy import PlayEnded
from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.custom_metrics import MetricsLogger
from trainables.runtime.callbacks.hooks import Hooks
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.evaluation.endless import EvaluationWatch
from trainables.runtime.evaluation.result import EvaluationResult
from trainables.runtime.evaluation.watch import Outcome
from trainables.runtime.random_streams import draw_seed
from trainables.runtime.sampling.agents.agent_hooks import acting_policies, agent_hooks
from trainables.runtime.sampling.agents.agent_lanes import AgentLanes
from trainables.runtime.sampling.agents.episode_book import EpisodeBook, log_returns

_STEPS_AT_ONCE = 64  # of which columns are made; nobody keeps them


def play_agents(
    config: AlgorithmConfig,
    policies: Mapping[str, Policy],
    env: AgentsVectorEnv,
    seed: np.random.SeedSequence,
    *,
    first_episode: int = 0,
    env_runner: Any = None,
    callbacks: Hooks | None = None,
    max_steps_per_episode: int,
    time_limit: int | None = None,
    watches: Sequence[AgentsWatch] = (),
    stopped: Callable[[], bool] = lambda: False,
    max_steps: int | None = None,
    cut_off: Callable[[], bool] | None = None,
    if_endless: str,
) -> EvaluationResult | None:
    """Play one episode in every slot; see `play_episodes`.

    Args:
        config: The config of the evaluation.
        policies: The policies with networks, by module id.
        env: The slots, which are reset first.
        seed: The seed of environments and exploration.
        first_episode: The number of the first slot's episode.
        env_runner: Who plays, as policy mappings and callbacks are told.
        callbacks: Callbacks whose hooks of episodes are called.
        max_steps_per_episode: An episode longer than this raises.
        time_limit: An episode longer than this is cut off: it counts as truncated.
        watches: What looks on.
        stopped: Asked before each step.
        max_steps: Steps of all slots together, after which running episodes are cut off.
        cut_off: Asked as `stopped` is: running episodes are cut off there.
        if_endless: What is to be done about an episode that never ends, for the message.

    Returns:
        The episodes in order of the slots; None if it was stopped, or a policy ended it.
    """
    env_seed, action_seed = seed.spawn(2)
    seeds = [draw_seed(child) for child in env_seed.spawn(env.num_envs)]
    for watch in watches:
        watch.enter(env)
    shown = env.reset(seeds)
    for watch in watches:
        watch.begin(env.groups, seeds)
    lanes = AgentLanes(config, policies, env, "an evaluation")
    book = EpisodeBook(
        env.groups,
        env.num_envs,
        env_runner,
        first_episode,
        policy_map=acting_policies(policies, lanes),
        is_evaluation=True,
    )
    book.begin(shown)
    logger = MetricsLogger()
    hooks = agent_hooks(callbacks, logger, book, env, env_runner, is_evaluation=True)
    runs = np.ones(env.num_envs, bool)
    if hooks is not None:
        hooks.create(runs)
    lanes.reset(shown, book, action_seed)
    if hooks is not None:
        hooks.start(runs)
    endless: EvaluationWatch | None = None
    if max_steps is None and cut_off is None:  # else something ends it
        endless = EvaluationWatch(config.env, max_steps_per_episode, if_endless)
    returns, lengths = np.zeros(env.num_envs), np.zeros(env.num_envs, np.int64)
    num_steps = left = 0
    while runs.any():
        if stopped():
            return None
        if num_steps and (
            num_steps >= (max_steps or math.inf) or (cut_off is not None and cut_off())
        ):
            break
        if not left:
            lanes.end(0, False)
            lanes.begin(_STEPS_AT_ONCE)
            left = _STEPS_AT_ONCE
        left -= 1
        try:
            actions = lanes.act()
        except PlayEnded:
            return None
        if hooks is not None:
            hooks.act(actions)
        for watch in watches:
            watch.act(shown, actions, book.episodes, runs & ~shown.is_over)
        step = shown = env.step(actions)
        book.count(step)
        is_over = step.is_over
        if time_limit is not None:
            is_over = is_over | (book.lengths >= time_limit)
        for watch in watches:
            watch.step(step, is_over)
        for slot in np.flatnonzero(runs & is_over).tolist():
            episode = book.episodes[slot]
            returns[slot], lengths[slot] = episode.total_reward, episode.length
            log_returns(episode, logger)
            ends = book.now.ends(slot) if step.is_over[slot] else (False, True)
            for watch in watches:
                outcome = Outcome(float(returns[slot]), int(lengths[slot]), *ends)
                watch.ended(slot, episode, outcome)
        num_steps += int(np.count_nonzero(runs & ~step.resets))
        runs &= ~is_over
        if hooks is not None:
            hooks.create(step.resets)
        lanes.observe(step, book, left)
        if hooks is not None:
            hooks.row(step)
            for slot in np.flatnonzero(step.is_over).tolist():
                hooks.close(slot)  # it is stepped on only since others are not done
        if endless is not None:
            endless.look(int((book.lengths * runs).max()), not runs.all())
    return EvaluationResult(
        returns[~runs],
        lengths[~runs],
        logger.take(),
        cut_lengths=book.lengths[runs & (book.lengths > 0)],
    )
