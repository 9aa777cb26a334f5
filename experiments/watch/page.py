"""The live page: its frame, which `page.js` fills, in the look of a report."""

from __future__ import annotations

from pathlib import Path

from analysis import report
from analysis.figures import theme
from analysis.report.markup import template_environment

_FOLDER = Path(__file__).parent
SCRIPT = _FOLDER / "page.js"


def page_of(name: str) -> str:
    """Return the page as HTML.

    Args:
        name: The sweep's name.
    """
    style = Path(str(report.__file__)).with_name("style.css")
    return (
        template_environment(_FOLDER)
        .get_template("page.html.j2")
        .render(
            name=name,
            themes=theme.VARIABLES,
            templates={key: theme.template(key) for key in ("light", "dark")},
            colors={"best": theme.BLUE, "other": theme.GREY},
            style=style.read_text(encoding="utf-8"),
        )
    )
