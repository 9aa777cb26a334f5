"""The images of an episode and what a world model expected of them, a frame for each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.curves import new_figure, shortened
from analysis.plots.open_loop import DREAMED, IMAGE_TITLES, SEEN, shown_images

if TYPE_CHECKING:
    from trainables.dreamerv3.open_loop import OpenLoop

_DPI = 100
_INCHES = 1.7  # for an image
_ABOVE = 0.6  # for the headings; all in all an even number of pixels, as mp4 wants it


def open_loop_frames(predicted: OpenLoop) -> Iterator[np.ndarray]:
    """Yield a frame for each step: what happened, what was expected, and how far they are apart.

    All frames are of one size, bytes `[height, width, 3]`; a row for each image.

    Args:
        predicted: An episode that has images.
    """
    names = list(predicted.images)
    shown = [shown_images(predicted, name) for name in names]
    figure = new_figure(3 * _INCHES, len(names) * _INCHES + _ABOVE)
    figure.set_dpi(_DPI)
    panels: Any = figure.subplots(len(names), 3, squeeze=False)
    drawn = [
        [axes.imshow(images[0], interpolation="none", vmin=0, vmax=1) for axes, images in row]
        for row in (zip(*pair, strict=True) for pair in zip(panels, shown, strict=True))
    ]
    for axes, title in zip(panels[0], IMAGE_TITLES, strict=True):
        axes.set_title(title, fontsize="medium")
    for axes in panels.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    if len(names) > 1:
        for axes, name in zip(panels[:, 0], names, strict=True):
            axes.set_ylabel(shortened(name))
    heading = figure.suptitle(" ", fontsize="medium")
    canvas: Any = figure.canvas
    for step in range(len(predicted.rewards)):
        for artists, of_image in zip(drawn, shown, strict=True):
            for artist, images in zip(artists, of_image, strict=True):
                artist.set_data(images[step])
        is_seen = step < predicted.context
        heading.set_text(f"step {step}: {'seen' if is_seen else 'dreamed'}")
        heading.set_color(SEEN if is_seen else DREAMED)
        canvas.draw()
        yield np.ascontiguousarray(np.asarray(canvas.buffer_rgba())[..., :3])
