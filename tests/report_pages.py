"""Reads a report as a browser would: its elements, texts, attributes and packed parts."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

_VOID = {"meta", "br", "img", "link", "input", "hr"}


@dataclass
class ParsedPage(HTMLParser):
    """A page's parts.

    Attributes:
        tags: How often each element occurs.
        attributes: Element, name and value of every attribute.
        ids: All ids.
        scripts: Attributes and content of each script.
        styles: Content of each style element.
        text: All text outside of scripts and styles.
    """

    tags: Counter[str] = field(default_factory=Counter)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    scripts: list[tuple[dict[str, str], str]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in given.items()]
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "script":
            self.scripts.append((given, ""))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        where = self._open[-1] if self._open else ""
        if where == "script":
            given, before = self.scripts[-1]
            self.scripts[-1] = (given, before + data)
        elif where == "style":
            self.styles.append(data)
        else:
            self.text += data

    def packed(self, key: str) -> str:
        """The content of a packed part, unpacked."""
        (content,) = [text for given, text in self.scripts if given.get("id") == f"packed-{key}"]
        return gzip.decompress(base64.b64decode(content)).decode()

    @property
    def figures(self) -> dict[str, Any]:
        """The figures by their ids."""
        figures: dict[str, Any] = json.loads(self.packed("figures"))["figures"]
        return figures


def parse_page(path: Path) -> ParsedPage:
    """The parts of a page."""
    page = ParsedPage()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert not page._open, f"left open: {page._open}"
    return page
