"""What a world model expected of an episode beside what happened, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.curves import dress, new_figure, save, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainables.dreamerv3.open_loop import OpenLoop

IMAGE_TITLES = ("happened", "expected", "apart")
_HAPPENED, SEEN, DREAMED = "0.72", "#0b6bcb", "#c2410c"
_MOST_CURVES = 6  # parts of a vector that are drawn, those that vary most
_FRAMES = 9  # of a film strip
_REWARD_SPAN = 0.2  # of the largest reward: what is less apart is drawn as equal
_CURVE_INCHES = 1.1  # height of a panel
_IMAGE_INCHES = 0.9  # for an image side by side with others, and
_HIGHEST = 1.2  # how high it may be, in inches
_GAP = 16  # the part of an image's side that lies between two


def plot_open_loop(predicted: OpenLoop, out: str | Path) -> Path:
    """Draw an episode and what a world model made of it; see `draw_open_loop`.

    Args:
        predicted: The episode.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: It cannot be written.
    """
    return save(draw_open_loop(predicted), out)


def draw_open_loop(predicted: OpenLoop) -> Figure:
    """Return a figure: each image as a film strip, parts of the vector, rewards and continuation.

    A strip has three rows: what happened, what was expected, and by how much they differ.

    Args:
        predicted: The episode.
    """
    curves = _curves(predicted)
    strips = list(predicted.images)
    heights = [_strip_inches(predicted.images[name]) for name in strips]
    heights += [_CURVE_INCHES] * len(curves)
    figure = new_figure(8.0, sum(heights) + 0.6)
    panels: Any = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, name in zip(panels, strips, strict=False):
        _draw_strip(axes, predicted, name)
    for axes, (title, happened, expected) in zip(panels[len(strips) :], curves, strict=True):
        _draw_curve(axes, predicted.context, title, happened, expected)
    for axes in panels[len(strips) : -1]:
        axes.tick_params(labelbottom=False)
    figure.align_ylabels(panels[len(strips) :])
    panels[-1].set_xlabel("step of the episode")
    panels[-1].set_ylim(-0.05, 1.1)  # a probability
    _widen(panels[-2], _REWARD_SPAN * float(np.abs(predicted.rewards).max()))
    length, context = len(predicted.rewards), predicted.context
    panels[0].set_title(
        f"the model saw {context} observations, then only the actions of {length - context} steps",
        fontsize="medium",
        loc="left",
    )
    lines, labels = panels[-1].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper right", frameon=False, ncols=3)
    return figure


def _curves(predicted: OpenLoop) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return what is drawn as curves: a title, what happened, and what was expected, `[T]`."""
    found = []
    if predicted.vector is not None and predicted.predicted_vector is not None:
        vector, expected = predicted.vector, predicted.predicted_vector
        most = np.argsort(-vector.std(axis=0), kind="stable")[:_MOST_CURVES]
        found = [(f"obs[{part}]", vector[:, part], expected[:, part]) for part in sorted(most)]
    rewards, expected = predicted.rewards.astype(float), predicted.predicted_rewards.astype(float)
    rewards[0] = expected[0] = np.nan  # nothing led to the first observation
    found.append(("reward", rewards, expected))
    goes_on = predicted.continues.astype(float)
    return [*found, ("goes on", goes_on, predicted.predicted_continues)]


def _draw_curve(
    axes: Axes, context: int, title: str, happened: np.ndarray, expected: np.ndarray
) -> None:
    steps = np.arange(len(happened))
    # Wide, as what was expected may lie right upon it.
    axes.plot(steps, happened, color=_HAPPENED, lw=3.2, label="what happened")
    axes.plot(steps[:context], expected[:context], color=SEEN, lw=1.6, label="seen")
    # From the last seen one on, so that the line has no gap.
    axes.plot(steps[context - 1 :], expected[context - 1 :], color=DREAMED, lw=1.6, label="dreamed")
    axes.axvline(context - 0.5, color="0.6", lw=0.8, ls=":")
    axes.set_ylabel(title, rotation=0, ha="right", va="center")
    axes.set_xlim(-0.01 * len(steps), 1.01 * len(steps) - 1)  # of all: a reward is not of all steps
    dress(axes)


def _widen(axes: Axes, span: float) -> None:
    """Let an axis span so much at least, lest it shows differences that are none."""
    low, high = axes.get_ylim()
    if high - low < span:
        axes.set_ylim((low + high - span) / 2, (low + high + span) / 2)


def _strip_inches(images: np.ndarray) -> float:
    """Return how high the three rows of a strip are."""
    height, width = images.shape[1:3]
    return 3 * min(_HIGHEST, _IMAGE_INCHES * height / width)


def _draw_strip(axes: Axes, predicted: OpenLoop, name: str) -> None:
    shown = shown_images(predicted, name)
    length, height, width = shown[0].shape[:3]
    chosen = np.unique(np.linspace(0, length - 1, min(_FRAMES, length)).round().astype(int))
    gap = -(-min(height, width) // _GAP)
    apart = ((0, 0), (0, gap), (0, gap), (0, 0))
    padded = [np.pad(images[chosen], apart, constant_values=1.0) for images in shown]  # white
    rows = [np.concatenate(list(images), axis=1) for images in padded]
    axes.imshow(np.concatenate(rows), interpolation="none")
    axes.set_anchor("W")
    if len(predicted.images) > 1:
        axes.set_ylabel(shortened(name))
    axes.set_yticks([(height + gap) * row + height / 2 for row in range(3)], IMAGE_TITLES)
    places = [(width + gap) * place + width / 2 for place in range(len(chosen))]
    axes.set_xticks(places, [str(step) for step in chosen])
    for label, step in zip(axes.get_xticklabels(), chosen, strict=True):
        label.set_color(SEEN if step < predicted.context else DREAMED)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def shown_images(predicted: OpenLoop, name: str) -> list[np.ndarray]:
    """Return an image as it is drawn, one array for each of `IMAGE_TITLES`, `[T, H, W, 3]`.

    What happened goes from 0 to 1. Of other than 1 or 3 channels it is their mean.

    Args:
        predicted: The episode.
        name: The image's.
    """
    happened, expected = predicted.images[name], predicted.predicted_images[name]
    low, high = float(happened.min()), float(happened.max())
    shown = [_in_colour((part - low) / ((high - low) or 1.0)) for part in (happened, expected)]
    return [*shown, np.abs(shown[0] - shown[1])]


def _in_colour(images: np.ndarray) -> np.ndarray:
    if images.shape[-1] not in (1, 3):
        images = images.mean(-1, keepdims=True)
    return np.broadcast_to(images, (*images.shape[:-1], 3)).clip(0, 1)
