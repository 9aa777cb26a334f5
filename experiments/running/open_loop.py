"""Pictures of what a world model expects of an episode: of `tunescape evaluate`, and of a sweep."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.errors import ExperimentError
from trainables.core.checkpoint import CheckpointError, load_state
from trainables.core.errors import ConfigError

if TYPE_CHECKING:
    from trainables.core.policy.actable import Actable
    from trainables.runtime.evaluation.first_episode import FirstEpisode

logger = logging.getLogger(__name__)

CONTEXT, STEPS = 5, 50
"""Observations that the model sees, and steps that it dreams at most."""
_MODULE, _POLICY = "dreamer", "policy"


def first_episode_of(policy: Actable) -> FirstEpisode:
    """Return what looks on as a policy with a world model plays.

    Raises:
        ExperimentError: It has none.
    """
    from trainables.core.policy.policy import Policy
    from trainables.runtime.evaluation.first_episode import FirstEpisode

    if not isinstance(policy, Policy) or policy.options["module"]["type"] != _MODULE:
        raise ExperimentError(
            "--open-loop: the policy has no world model; allowed: policies of DreamerV3, not "
            "exported as a graph"
        )
    return FirstEpisode(policy, CONTEXT + STEPS)


def draw_open_loop_of(episode: FirstEpisode, out: Path) -> Path:
    """Draw an episode beside what the world model of the policy that played it expects.

    Args:
        episode: What was seen and done.
        out: The picture.

    Raises:
        ExperimentError: The episode was cut off by the user.
        ResultsError: The picture cannot be written.
    """
    from analysis.plots.open_loop import plot_open_loop
    from trainables.dreamerv3.open_loop import open_loop

    if not episode.is_whole:
        raise ExperimentError("--open-loop: the first episode was not played to its end")
    obs = episode.obs
    context = min(CONTEXT, len(obs) - 1)
    done, rewards = episode.actions, episode.rewards
    predicted = open_loop(episode.policy, obs, done, rewards, episode.terminated, context=context)
    return plot_open_loop(predicted, out)


def draw_open_loop_of_best(folder: Path, out: Path) -> Path | None:
    """Play an episode with a sweep's best policy and draw what its world model expects.

    A picture is not worth a sweep: where the environment is gone it is a warning.

    Args:
        folder: The policy's.
        out: The picture.

    Returns:
        The picture; None of a policy without a world model, or if it could not be drawn.
    """
    from trainables.core.policy.policy import Policy
    from trainables.runtime.evaluation.play import evaluate_policy

    if not _has_world_model(folder):
        return None
    try:
        policy = Policy.load(folder)
        episode = first_episode_of(policy)
        evaluate_policy(
            policy,
            policy.metadata["env"],
            policy.metadata["env_config"],
            num_episodes=1,
            num_envs=1,
            time_limit=CONTEXT + STEPS,
            watches=[episode],
        )
        return draw_open_loop_of(episode, out)
    except (ExperimentError, ConfigError) as error:
        logger.warning("no picture of what the world model expects: %s", error)
        return None


def _has_world_model(folder: Path) -> bool:
    """Tell whether a policy's folder is of DreamerV3; no code that it names is looked at."""
    if not (folder / f"{_POLICY}.json").is_file():  # that of several agents is a folder of folders
        return False
    try:
        return bool(load_state(folder, _POLICY)["options"]["module"]["type"] == _MODULE)
    except (CheckpointError, LookupError, TypeError):  # one's own trainable saves what it likes
        return False
