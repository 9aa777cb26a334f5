"""What a world model expected of an episode beside what happened, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.curves import dress, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainables.dreamerv3.open_loop import OpenLoop

_HAPPENED, _SEEN, _DREAMED = "0.35", "#0b6bcb", "#c2410c"
_MOST_CURVES = 6  # parts of a vector that are drawn, those that vary most
_FRAMES = 9  # of a film strip
_CURVE_INCHES, _STRIP_INCHES = 1.1, 0.8  # height of a panel, and of a row of images


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
    heights = [3 * _STRIP_INCHES] * len(strips) + [_CURVE_INCHES] * len(curves)
    figure = new_figure(8.0, sum(heights) + 0.6)
    panels: Any = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, name in zip(panels, strips, strict=False):
        _draw_strip(axes, predicted, name)
    for axes, (title, happened, expected) in zip(panels[len(strips) :], curves, strict=True):
        _draw_curve(axes, predicted.context, title, happened, expected)
    for axes in panels[len(strips) : -1]:
        axes.tick_params(labelbottom=False)
    panels[-1].set_xlabel("step of the episode")
    panels[-1].set_ylim(-0.05, 1.1)  # a probability
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
    rewards = predicted.rewards.astype(float)
    rewards[0] = np.nan  # nothing led to the first observation
    found.append(("reward", rewards, predicted.predicted_rewards))
    goes_on = predicted.continues.astype(float)
    return [*found, ("goes on", goes_on, predicted.predicted_continues)]


def _draw_curve(
    axes: Axes, context: int, title: str, happened: np.ndarray, expected: np.ndarray
) -> None:
    steps = np.arange(len(happened))
    axes.plot(steps, happened, color=_HAPPENED, lw=1.2, label="what happened")
    axes.plot(steps[:context], expected[:context], color=_SEEN, lw=1.6, label="seen")
    # From the last seen one on, so that the line has no gap.
    axes.plot(
        steps[context - 1 :], expected[context - 1 :], color=_DREAMED, lw=1.6, label="dreamed"
    )
    axes.axvline(context - 0.5, color="0.6", lw=0.8, ls=":")
    axes.set_ylabel(title, rotation=0, ha="right", va="center")
    axes.margins(x=0.01)
    dress(axes)


def _draw_strip(axes: Axes, predicted: OpenLoop, name: str) -> None:
    happened, expected = predicted.images[name], predicted.predicted_images[name]
    length = len(happened)
    chosen = np.unique(np.linspace(0, length - 1, min(_FRAMES, length)).round().astype(int))
    low, high = float(happened.min()), float(happened.max())
    scale = (high - low) or 1.0
    rows = [_side_by_side((images[chosen] - low) / scale) for images in (happened, expected)]
    rows.append(np.abs(rows[0] - rows[1]))
    axes.imshow(np.concatenate(rows).clip(0, 1), cmap="gray", aspect="auto", interpolation="none")
    height, width = happened.shape[1:3]
    axes.set_yticks([height * (row + 0.5) for row in range(3)], ["happened", "expected", "apart"])
    axes.set_xticks(
        [width * (place + 0.5) for place in range(len(chosen))],
        [f"{step}" if step < predicted.context else f"{step} dreamed" for step in chosen],
        fontsize="small",
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _side_by_side(images: np.ndarray) -> np.ndarray:
    """Return images `[N, H, W, C]` as one, `[H, N W, 3]`: of 1 or 3 channels, else their mean."""
    if images.shape[-1] not in (1, 3):
        images = images.mean(-1, keepdims=True)
    strip = np.concatenate(list(images), axis=1)
    return strip if strip.shape[-1] == 3 else np.repeat(strip, 3, axis=-1)
