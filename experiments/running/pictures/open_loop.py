"""What a world model expects of an episode, drawn: for `tunescape evaluate`, and of a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.home import expanded
from experiments.errors import ExperimentError
from experiments.running.pictures.source import Best
from trainables.core.checkpoint import CheckpointError, load_state

if TYPE_CHECKING:
    import numpy as np

    from trainables.core.policy.actable import Actable
    from trainables.runtime.evaluation.first_episode import FirstEpisode

CONTEXT, STEPS = 5, 50
"""Observations that the model sees, and those that it dreams at most."""
_PLAYED = CONTEXT + STEPS - 1  # an episode has one observation more than steps
PICTURES, FILMS = (".png", ".svg", ".pdf"), (".gif", ".mp4")
"""How files of one picture end, and those of a frame a step, which are of images alone."""
_FPS = 5  # slow enough to compare
_MODULE, _POLICY = "dreamer", "policy"


def first_episode_of(policy: Actable, out: Path) -> FirstEpisode:
    """Return what looks on as a policy with a world model plays.

    Args:
        policy: Who plays.
        out: What is to be drawn.

    Raises:
        ExperimentError: It has no world model, or sees no images and `out` is a film.
        ConfigError: `out` is a film that cannot be written here.
    """
    from trainables.core.policy.policy import Policy
    from trainables.runtime.evaluation.first_episode import FirstEpisode

    if not isinstance(policy, Policy) or policy.options["module"]["type"] != _MODULE:
        raise ExperimentError(
            "--open-loop: the policy has no world model; allowed: policies of DreamerV3, not "
            "exported as a graph"
        )
    if out.suffix in FILMS:
        if not policy.observations.preprocessor.spec.images:
            raise ExperimentError(
                f"--open-loop {out}: the policy sees no images, so there can be no film; allowed: "
                f"names that end in {', '.join(PICTURES)}"
            )
        if out.suffix == ".mp4":
            from trainables.runtime.envs.video import check_encoder

            check_encoder(f"--open-loop {out}")
    return FirstEpisode(policy, _PLAYED)


def draw_open_loop_of(episode: FirstEpisode, out: Path) -> Path:
    """Draw an episode beside what the world model of the policy that played it expects.

    Args:
        episode: What was seen and done.
        out: The picture, or the film.

    Raises:
        ExperimentError: The episode was cut off by the user, or the film cannot be written.
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
    if out.suffix not in FILMS:
        return plot_open_loop(predicted, out)
    from analysis.plots.open_loop_frames import open_loop_frames

    try:
        return _write_film(open_loop_frames(predicted), out)
    except OSError as error:
        raise ExperimentError(f"--open-loop {out}: cannot write the film ({error})") from error


def _write_film(frames: Iterator[np.ndarray], out: Path) -> Path:
    """Write a GIF or an mp4, whole or not at all; return its absolute path."""
    target = expanded(out).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".part{target.suffix}")
    try:
        if target.suffix == ".gif":
            from PIL import Image  # which matplotlib stands on

            first, *others = map(Image.fromarray, frames)
            ms = 1000 // _FPS
            first.save(part, save_all=True, append_images=others, duration=ms, loop=0)
        else:
            from trainables.runtime.envs.video import open_mp4

            start = next(frames)
            with closing(open_mp4(part, start, _FPS)) as film:
                for frame in chain([start], frames):
                    film.send(frame)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def draw_open_loop_of_best(best: Best, out: Path) -> Path | None:
    """Play an episode with a sweep's best policy and draw what its world model expects.

    Args:
        best: The policy.
        out: The picture.

    Returns:
        The picture; None of a policy without a world model.

    Raises:
        ConfigError: Its environment is gone.
    """
    from trainables.core.policy.policy import Policy
    from trainables.runtime.evaluation.play import evaluate_policy

    if not _has_world_model(best.policy):
        return None
    policy = Policy.load(best.policy)
    episode = first_episode_of(policy, out)
    evaluate_policy(
        policy,
        policy.metadata["env"],
        policy.metadata["env_config"],
        num_episodes=1,
        num_envs=1,
        time_limit=_PLAYED,
        watches=[episode],
    )
    return draw_open_loop_of(episode, out)


def _has_world_model(folder: Path) -> bool:
    """Tell whether a policy's folder is of DreamerV3; no code that it names is looked at."""
    if not (folder / f"{_POLICY}.json").is_file():  # that of several agents is a folder of folders
        return False
    try:
        return bool(load_state(folder, _POLICY)["options"]["module"]["type"] == _MODULE)
    except (CheckpointError, LookupError, TypeError):  # one's own trainable saves what it likes
        return False
