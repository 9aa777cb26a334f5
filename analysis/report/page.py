"""The page: what the sweeps say becomes one HTML file that needs nothing else.

plotly.js and the figures' data are packed (gzip, base64) and unpacked by the page itself, so that
the file stays near 2 MB. The page's own policy forbids every request and every script but the two
that it brings, which are named by their hashes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.figures import theme
from analysis.report.blocks import Block, SweepPage
from analysis.report.markup import template_environment, with_code
from analysis.report.sections import Panel

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).parent


@dataclass
class Page:
    """What the page shows.

    Attributes:
        title: Its title.
        sweeps: A part for each sweep.
        before: What stands above them, e.g. their comparison.
    """

    title: str
    sweeps: list[SweepPage]
    before: list[Block] = field(default_factory=list)


def render(page: Page) -> str:
    """Return the page as HTML.

    All text is escaped; figures are packed, so that nothing in them can end their element.
    """
    script = (_FOLDER / "script.js").read_text(encoding="utf-8")
    figures = _figures(page)
    return _template().render(
        title=page.title,
        written=f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
        before=page.before,
        sweeps=page.sweeps,
        themes=theme.VARIABLES,
        style=(_FOLDER / "style.css").read_text(encoding="utf-8"),
        script=script,
        policy=_policy(script),
        plotly_packed=_packed_plotly() if figures else "",
        figures_packed=_packed(_json(figures)) if figures else "",
    )


@lru_cache(maxsize=1)
def _template() -> Template:
    """Return the page's template; compiling it takes longer than filling it in."""
    environment = template_environment(_FOLDER)
    environment.filters.update(words=with_code, same_captions=_same_captions)
    return environment.get_template("template.html.j2")


def _same_captions(row: list[Panel]) -> bool:
    """Tell whether figures side by side have one caption, which then stands below them all."""
    return len(row) > 1 and bool(row[0].caption) and len({panel.caption for panel in row}) == 1


def _figures(page: Page) -> dict[str, Any]:
    """Return the figures by id, with both templates; empty if there are none."""
    blocks = [*page.before, *(part for sweep in page.sweeps for part in sweep.parts)]
    panels = [panel for block in blocks if block.panels for panel in block.panels.all]
    if not panels:
        return {}
    return {
        "figures": {panel.key: panel.figure for panel in panels},
        "templates": {name: theme.template(name) for name in ("light", "dark")},
    }


def _json(document: dict[str, Any]) -> str:
    from plotly.io.json import to_json_plotly

    text: str = to_json_plotly(document)
    return text


def _policy(script: str) -> str:
    """Allow no request; only our script and plotly's run, whatever a sweep's names hold."""
    sources = " ".join(f"'sha256-{_digest(text)}'" for text in (script, _plotly()))
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=1)
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text


@lru_cache(maxsize=1)
def _packed_plotly() -> str:
    return _packed(_plotly())


def _packed(text: str) -> str:
    # No time in the archive: the same report is the same file.
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
