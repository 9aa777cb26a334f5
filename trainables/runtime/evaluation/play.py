"""Evaluation: play episodes with a frozen policy."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv

from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.spaces import space_mismatch
from trainables.core.errors import ConfigError
from trainables.core.policy.actable import Actable
from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.custom_metrics import MetricsLogger
from trainables.runtime.callbacks.hooks import Hooks, episode_hooks
from trainables.runtime.envs.all_slots import reset_seeds, reset_with_infos
from trainables.runtime.envs.make import EnvName, EnvOptions, make_played_slots
from trainables.runtime.envs.sub_environment import RESTARTS
from trainables.runtime.envs.video import Video, end_video
from trainables.runtime.evaluation.endless import LONGEST_EVALUATED, EvaluationWatch
from trainables.runtime.evaluation.plan import EvaluationPlan, part_seed
from trainables.runtime.evaluation.result import EvaluationResult
from trainables.runtime.evaluation.watch import Outcome, PlayedStep, Watch
from trainables.runtime.random_streams import random_streams
from trainables.runtime.sampling.acting import SlotActor
from trainables.runtime.sampling.module_slots import (
    ModuleSlots,
    SlotsOf,
    join_slots,
    module_seeds,
    together,
)
from trainables.runtime.sampling.row_checks import Place, check_rewards

__all__ = ["EvaluationResult", "evaluate_policy", "play_episodes"]

_SLOTS = 8  # as many as an algorithm's evaluations have


def evaluate_policy(
    policy: Actable | Mapping[str, Actable],
    env: EnvName,
    env_config: dict[str, Any] | None = None,
    *,
    module_slots: ModuleSlots | None = None,
    num_episodes: int = 10,
    seed: int | np.random.SeedSequence | None = 0,
    explore: bool = False,
    num_envs: int = _SLOTS,
    max_steps_per_episode: int = LONGEST_EVALUATED,
    time_limit: int | None = None,
    options: EnvOptions | None = None,
    callbacks: Hooks | None = None,
    watches: Sequence[Watch] = (),
    videos: Sequence[Path] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> EvaluationResult:
    """Play episodes; neither policies nor their filter statistics change.

    These are the episodes that `Algorithm.evaluate` plays if the algorithm's setting `seed` is this
    one and `evaluation_duration` is `num_episodes`: the same parts (see `EvaluationPlan`) on the
    same random streams. Every slot of a part plays one episode, so that short ones are not favoured
    as they would be if the first to end were taken.

    Args:
        policy: The policy that acts, or those that do by module id.
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        module_slots: Which module plays which episode, by its number as that of a slot of the env
            runner 0; None: the only one plays all.
        num_episodes: How many.
        seed: The seed of environments and exploration: the same seed plays the same episodes. A
            `SeedSequence` is the root of the parts' streams itself; None draws one.
        explore: Whether to sample actions instead of taking the most likely ones.
        num_envs: Slots that are stepped together. Another number plays other episodes.
        max_steps_per_episode: An episode longer than this raises.
        time_limit: An episode longer than this is cut off: it counts as truncated.
        options: How the slots are made and stepped.
        callbacks: Callbacks whose hooks of episodes are called.
        watches: What looks on.
        videos: mp4 files for the first episodes, one each. An environment that steps all slots at
            once cannot be filmed, CartPole excepted: for the parts with these episodes slots apart
            take its place, which have other random streams (`is_filmed_apart`).
        stopped: Asked before each step, perhaps set by a signal.

    Returns:
        What the parts gave that were played to the end: all, unless it was stopped.

    Raises:
        ConfigError: if the environment cannot be made, does not fit a policy, cannot be filmed,
            or never ends.
    """
    policies = policy if isinstance(policy, Mapping) else {DEFAULT_MODULE_ID: policy}
    module_slots = module_slots or ModuleSlots([*policies])
    metadata = next(iter(policies.values())).metadata
    for name, value in {"num_episodes": num_episodes, "num_envs": num_envs}.items():
        if value < 1:
            raise ConfigError(f"{name} = {value} is not allowed; allowed: int, >= 1")
    root = seed if isinstance(seed, np.random.SeedSequence) else random_streams(seed).evaluation
    plan = EvaluationPlan(num_episodes, "episodes", num_envs)
    played: dict[int, EvaluationResult] = {}
    vector_env: VectorEnv | None = None
    made_for: tuple[int, tuple[str, ...]] | None = None
    to_film = [str(path) for path in videos]
    try:
        for part in plan.missing(played, 0.0):
            files, to_film = tuple(to_film[: part.num_slots]), to_film[part.num_slots :]
            if vector_env is None or made_for != (part.num_slots, files):
                if vector_env is not None:
                    vector_env.close()  # which also ends its videos
                made_for = (part.num_slots, files)
                slot_options = options or EnvOptions()
                if files:
                    slot_options = replace(slot_options, video=Video("", "", files=files))
                vector_env = make_played_slots(
                    metadata, env, env_config, part.num_slots, options=slot_options
                )
            result = play_episodes(
                policies,
                module_slots.of(0, part.num_slots, part.first_episode),
                vector_env,
                env,
                part_seed(root, part.number),
                explore=explore,
                max_steps_per_episode=max_steps_per_episode,
                time_limit=time_limit,
                callbacks=callbacks,
                watches=watches,
                stopped=stopped,
            )
            if result is None:
                break
            played[part.number] = result
    finally:
        if vector_env is not None:
            vector_env.close()
    return plan.result(played) or EvaluationResult(np.empty(0), np.empty(0, np.int64))


def play_episodes(
    policies: Mapping[str, Actable],
    slots_of: SlotsOf,
    vector_env: VectorEnv,
    env: EnvName,
    seed: np.random.SeedSequence,
    *,
    explore: bool = False,
    max_steps_per_episode: int = LONGEST_EVALUATED,
    time_limit: int | None = None,
    callbacks: Hooks | None = None,
    env_runner: Any = None,
    watches: Sequence[Watch] = (),
    stopped: Callable[[], bool] = lambda: False,
    max_steps: int | None = None,
    cut_off: Callable[[], bool] | None = None,
    if_endless: str = "or time_limit (--max-steps) cuts episodes off",
) -> EvaluationResult | None:
    """Play one episode in every slot of an environment.

    Args:
        policies: The policies that act, by module id.
        slots_of: The slots in which each acts that acts in any, `[M]` by module id.
        vector_env: The slots, which are reset first.
        env: The name of the environment, for messages.
        seed: The seed of environments and exploration.
        explore: See `evaluate_policy`.
        max_steps_per_episode: See `evaluate_policy`.
        time_limit: See `evaluate_policy`.
        callbacks: See `evaluate_policy`.
        env_runner: What callbacks are told that plays.
        watches: See `evaluate_policy`.
        stopped: Asked before each step, perhaps set from another thread.
        max_steps: Steps of all slots together, after which running episodes are cut off.
        cut_off: Asked as `stopped` is: running episodes are cut off there.
        if_endless: What else is to be done about an episode that never ends, for the message.

    Returns:
        The episodes in order of the slots; None if it was stopped.
    """
    num_slots = vector_env.num_envs
    env_seed, action_seed = seed.spawn(2)
    place = Place(env, "an evaluation")
    actors = _actors(policies, slots_of, vector_env, place, action_seed, explore)
    acting = together(actors, slots_of)
    seeds, share = reset_seeds(vector_env, env_seed)
    obs, infos = reset_with_infos(vector_env, env_seed)
    logger = MetricsLogger()
    hooks = None
    if callbacks is not None:
        hooks = episode_hooks(
            callbacks,
            logger,
            _with_modules(policies),
            slots_of,
            vector_env,
            env_runner,
            is_evaluation=True,
        )
    if hooks is not None:
        hooks.was_reset(obs, infos)
        hooks.begin()
    for watch in watches:
        watch.begin(seeds, share)
    step_watches = [watch for watch in watches if watch.wants_steps]
    longest = max(max_steps_per_episode, time_limit or 0)
    endless: EvaluationWatch | None = None
    if max_steps is None and cut_off is None:  # else something ends it
        endless = EvaluationWatch(env, longest, if_endless)
    num_steps = 0  # of the episodes that count
    is_first, is_over = np.ones(num_slots, bool), np.zeros(num_slots, bool)
    rewards, runs = np.zeros(num_slots), np.ones(num_slots, bool)
    returns, lengths = np.zeros(num_slots), np.zeros(num_slots, np.int64)
    steps = lengths  # also of episodes that have just ended
    outcomes: list[Outcome | None] = [None] * num_slots
    while runs.any():
        if stopped():
            return None
        if num_steps and (
            num_steps >= (max_steps or math.inf) or (cut_off is not None and cut_off())
        ):
            break
        acting.observe(obs, rewards, is_first, steps)
        actions = acting.act(is_over, steps)
        seen = copy.deepcopy(obs) if step_watches else None  # some are written over in place
        obs, rewards, terminated, truncated, infos = vector_env.step(actions)
        if RESTARTS in infos:  # an episode whose environment was replaced counts nowhere
            replaced = infos[RESTARTS] > 0
            returns[replaced], lengths[replaced] = 0.0, 0
            is_over = is_over | replaced
        is_first = is_over
        rewards = np.where(is_first, 0.0, rewards)  # nobody acted, whatever an environment gives
        check_rewards(rewards, lengths, place)
        returns += rewards
        lengths += ~is_first
        steps = lengths.copy()
        if hooks is not None:
            hooks.act(actions)
            hooks.row(obs, rewards, terminated, truncated, infos, ~is_first)
        counts = runs & ~is_first
        num_steps += int(np.count_nonzero(counts))
        is_over = terminated | truncated
        if time_limit is not None:
            is_cut = counts & ~is_over & (lengths >= time_limit)
            truncated = truncated | is_cut
        for watch in step_watches:
            watch.step(
                PlayedStep(
                    seen,
                    actions,
                    rewards,
                    terminated,
                    truncated,
                    lengths,
                    counts,
                    slots_of,
                    obs,
                    lambda: _policy_outputs(actors, slots_of),
                )
            )
        for slot in np.flatnonzero(terminated | truncated).tolist():
            if counts[slot]:  # else one that is over already, or was when it reset
                outcome = Outcome(
                    float(returns[slot]),
                    int(lengths[slot]),
                    bool(terminated[slot]),
                    bool(truncated[slot]),
                )
                outcomes[slot], runs[slot] = outcome, False
                for watch in watches:
                    watch.ended(slot, outcome)
                if hooks is not None:
                    hooks.close(slot)  # it is stepped on only since others are not done
                if not is_over[slot]:
                    end_video(vector_env, slot)
            if is_over[slot]:
                returns[slot], lengths[slot] = 0.0, 0
        if endless is not None:
            endless.look(int((lengths * runs).max()), not runs.all())
    ended = [outcome for outcome in outcomes if outcome is not None]
    return EvaluationResult(
        np.array([e.total for e in ended]),
        np.array([e.length for e in ended], np.int64),
        logger.take(),
        cut_lengths=lengths[runs & (lengths > 0)],
    )


def _actors(
    policies: Mapping[str, Actable],
    slots_of: SlotsOf,
    env: VectorEnv,
    place: Place,
    seed: np.random.SeedSequence,
    explore: bool,
) -> dict[str, SlotActor]:
    """Return what acts in the slots of each module.

    Raises:
        ConfigError: if the environment does not fit a policy.
    """
    for module_id in slots_of:
        _check_spaces(policies[module_id], env.single_observation_space, env.single_action_space)
    seeds = module_seeds(slots_of, seed)
    return {
        m: SlotActor(policies[m], len(slots), place._replace(slots=slots), seeds[m], explore)
        for m, slots in slots_of.items()
    }


def _policy_outputs(actors: Mapping[str, SlotActor], slots_of: SlotsOf) -> dict[str, np.ndarray]:
    """Return what policies thought of their last actions, of all slots: what all give alike."""
    of_modules = {m: actor.policy_outputs() for m, actor in actors.items()}
    found = {}
    for name, first in next(iter(of_modules.values())).items():
        values = {m: outputs[name] for m, outputs in of_modules.items() if name in outputs}
        shapes = {rows.shape[1:] for rows in values.values()}
        if len(values) == len(actors) and shapes == {first.shape[1:]}:
            found[name] = join_slots(values, slots_of)
    return found


def _with_modules(policies: Mapping[str, Actable]) -> dict[str, Policy]:
    """Return the policies as callbacks get them.

    Raises:
        ConfigError: if one is an exported graph.
    """
    found = {m: policy for m, policy in policies.items() if isinstance(policy, Policy)}
    if len(found) < len(policies):
        raise ConfigError("callbacks are called with a policy's module; an exported graph has none")
    return found


def _check_spaces(policy: Actable, observation_space: gym.Space, action_space: gym.Space) -> None:
    for what, mine, theirs in (
        ("observation", policy.observation_space, observation_space),
        ("action", policy.action_space, action_space),
    ):
        problem = space_mismatch(mine, theirs)
        if problem is not None:
            raise ConfigError(
                f"the policy's {what} space {mine} does not fit the environment's {theirs}: "
                f"{problem}"
            )
