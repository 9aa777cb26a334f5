"""The pages keep to `docs/style.md`: its list of words is a rule, long sentences are a warning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from page_blocks import PAGES, text_of

STYLE = "docs/style.md"
MOST_WORDS = 35


def listed() -> list[str]:
    """The phrases in the first column of the style page's list of words."""
    table = text_of(STYLE).partition("## Words")[2]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    return [phrase for row in rows[1:] for phrase in row.split(", ")]


def prose(text: str) -> str:
    """A page without its code, its quotations in backticks and its links' targets."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "x", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def found(text: str, phrases: list[str]) -> list[str]:
    """The phrases that a text has; those in capitals count as such only."""
    flags = {phrase: 0 if phrase.isupper() else re.IGNORECASE for phrase in phrases}
    text = " ".join(prose(text).split())
    return [p for p in phrases if re.search(rf"(?<!\w){re.escape(p)}(?!\w)", text, flags[p])]


def sentences(text: str) -> Iterator[str]:
    """Sentences of paragraphs and list items; a table's cells are their own."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ?)|\|", prose(text)):
        yield from re.split(r"(?<=[.:;?!]) ", " ".join(block.split()))


def test_no_page_has_a_listed_phrase() -> None:
    phrases = listed()
    assert len(phrases) > 10
    hits = {page: found(text_of(page), phrases) for page in PAGES if page != STYLE}
    assert {name: hit for name, hit in hits.items() if hit} == {}


def test_long_sentences_are_told() -> None:
    long = [
        f"{page}: {sentence[:80]} …"
        for page in PAGES
        for sentence in sentences(text_of(page))
        if len(sentence.split()) > MOST_WORDS
    ]
    if long:
        told = f"{len(long)} sentences of more than {MOST_WORDS} words:\n" + "\n".join(long)
        warnings.warn(told, stacklevel=1)


def test_phrases_are_seen(tmp_path: Path) -> None:
    phrases = ["of one's own", "MISSED"]
    assert found("A file of\none's own. Missed.", phrases) == ["of one's own"]
    assert found("The aim is MISSED.", phrases) == ["MISSED"]
    assert found("`of one's own` and\n```\nMISSED\n```", phrases) == []
    assert list(sentences("One two. Three\nfour: five\n\n- six")) == [
        "One two.",
        "Three four:",
        "five",
        "- six",
    ]
