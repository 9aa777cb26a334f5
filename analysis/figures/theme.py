"""Colours and plotly templates of the report: one palette for light and dark.

Every colour of the palette has a contrast of at least 3:1 on both backgrounds (WCAG 2.2, 1.4.11),
and neighbours differ for the common forms of colour blindness. Colour never speaks alone: figures
use dashes, symbols or words besides.
"""

from __future__ import annotations

import re
from typing import Any

from analysis.names import setting_label
from analysis.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, RED

PALETTE = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
"""The best or first is blue, the failed red, all others grey."""
SEQUENTIAL = "Cividis"
"""Of filled maps, which bring their own background."""
LINES = ((0.0, GREY), (0.5, BLUE), (1.0, ORANGE))
"""Of lines and points coloured by a value: from the worst to the best."""

BACKGROUND = {"light": "#ffffff", "dark": "#15181d"}
_TEXT = {"light": "#1d2127", "dark": "#e6e9ee"}
_GRID = {"light": "#e3e6ea", "dark": "#2d333b"}
VARIABLES = {
    "light": {
        **{"background": BACKGROUND["light"], "text": _TEXT["light"], "muted": "#565d67"},
        **{"soft": "#f4f6f8", "line": "#e3e6ea", "edge": "#8a8f98", "link": "#0b62ad"},
        **{"alert": RED, "shadow": "rgba(20,30,45,.22)"},
    },
    "dark": {
        **{"background": BACKGROUND["dark"], "text": _TEXT["dark"], "muted": "#a3abb6"},
        **{"soft": "#1e232a", "line": "#2d333b", "edge": "#8a8f98", "link": "#6db4f2"},
        **{"alert": RED, "shadow": "rgba(0,0,0,.75)"},
    },
}
"""The page's own colours, as CSS variables."""
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_SHORT = 28


def template(theme: str) -> dict[str, Any]:
    """Return the plotly template of `"light"` or `"dark"`, as JSON values.

    Figures themselves set no background and no colour of text: the page changes the template when
    the theme changes.
    """
    text, grid, background = _TEXT[theme], _GRID[theme], BACKGROUND[theme]
    axis = {
        "gridcolor": grid,
        "linecolor": grid,
        "zerolinecolor": grid,
        "tickcolor": grid,
        "automargin": True,
        "title": {"standoff": 8},
    }
    return {
        "layout": {
            "font": {"family": _FONT, "size": 13, "color": text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": list(PALETTE),
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"bgcolor": "rgba(0,0,0,0)"},
            "hoverlabel": {
                "bgcolor": background,
                "bordercolor": grid,
                "font": {"family": _FONT, "color": text},
                "align": "left",
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": BLUE},
            "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        }
    }


def rgba(color: str, alpha: float) -> str:
    """Return a colour of the palette with an opacity, for bands and areas."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def plain(text: object) -> str:
    """Return a text that plotly shows as it is: it takes `<b>` and `<a href=…>` for markup."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(name: object, length: int = _SHORT) -> str:
    """Leave out the middle of a long name: its end says most, `model/…/fcnet_activation`."""
    text = setting_label(str(name))
    if len(text) <= length:
        return plain(text)
    head = length // 3
    return plain(f"{text[:head]}…{text[len(text) - (length - head - 1) :]}")


def folded(name: object, width: int) -> str:
    """Return a name in lines of about as many characters, for a title that has no more room.

    It is folded behind a space, a slash or an underscore.
    """
    lines = [""]
    for part in re.findall(r"[^ /_]*[ /_]?", short(name, 2 * width)):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "<br>".join(line.rstrip() for line in lines)
