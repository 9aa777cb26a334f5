"""Templates and marked-up text of the pages: the report, the live page, a notebook's cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from jinja2 import Environment


def template_environment(folder: Path) -> Environment:
    """Return the environment of a folder's templates: text is escaped, an unknown name an error."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def with_code(text: str) -> Markup:
    """Return a text with `code` set as code; `5 %` is not broken."""
    parts = text.replace(" %", "\u00a0%").split("`")
    if len(parts) % 2 == 0:  # a backtick without a partner
        return escape(text)
    marked = [
        Markup("<code>{}</code>").format(p) if n % 2 else escape(p) for n, p in enumerate(parts)
    ]
    return Markup("").join(marked)
