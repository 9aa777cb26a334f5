"""What is drawn again and again, as one output of a notebook's cell."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType

_WIDTH = 140
_FORMAT = '<pre style="white-space:pre;overflow-x:auto;line-height:1.3">{code}</pre>'


class NotebookOutput:
    """The part of `rich.live.Live` that a live table needs; rich's own wants ipywidgets.

    Args:
        console: Where lines that stay are printed.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._handle: Any = None

    def start(self) -> None:
        """Nothing is shown before the first update."""

    def update(self, renderable: RenderableType, *, refresh: bool) -> None:
        """Show this instead of what was shown before."""
        from IPython.display import HTML, display

        shown = HTML(as_html(renderable))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def stop(self) -> None:
        """Leave the last state where it is."""


def as_html(renderable: RenderableType) -> str:
    """Return what rich would draw on a terminal, as HTML with colours."""
    console = Console(record=True, file=io.StringIO(), width=_WIDTH, force_jupyter=False)
    console.print(renderable)
    return console.export_html(inline_styles=True, code_format=_FORMAT)
