"""The site builds without a warning, has every page and public name, and works from disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from page_blocks import PAGES, every_block

import tunescape

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.full("unit/test_page_links.py::test_links_lead_somewhere")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a dead link or anchor is an error."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-f", "docs/mkdocs.yml", "-d", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_can_be_reached(site: Path) -> None:
    """By the navigation or by a link on another page."""
    start = (site / "index.html").read_text(encoding="utf-8")
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")} - {"404.html"}
    texts = {page: (site / page).read_text(encoding="utf-8") for page in pages}
    linked = {
        os.path.normpath(os.path.join(os.path.dirname(page), target))
        for page, text in texts.items()
        for target in re.findall(r'href="([^":#]+\.html)', text)
    }
    assert len(pages) > 40 and "Coming from" in start
    assert pages - linked == set()


def test_why_code_is_not_run_is_for_writers_only(site: Path) -> None:
    """A comment before a block is one in the page, too: a reader does not see it."""
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    marked = [block for page in PAGES for block in every_block(page) if block.reason]
    assert marked
    for block in marked:
        name = re.sub(r"README\.md$", "index.md", block.page).replace(".md", ".html")
        text = (site / name).read_text(encoding="utf-8")
        comment = f"not run: {block.reason}"
        assert comment in text and comment not in re.sub("<!--.*?-->", "", text), name
        assert comment not in index


def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)\b[^>]*\bsrc="(\w+:[^"]+)"', text)
        loaded += re.findall(
            r'<link\b[^>]*rel="(?:stylesheet|preload)"[^>]*href="(\w+:[^"]+)"', text
        )
        assert loaded == [], page


def test_one_search_finds_settings_classes_and_guides(site: Path) -> None:
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    entries = json.loads(text[text.index("{") : text.rindex("}") + 1])["docs"]
    found = {
        entry["location"].partition("#")[0] for entry in entries if "clip_param" in entry["text"]
    }
    assert "trainables/settings.html" in found
    words = (re.match(r"\w*", re.sub("<[^>]+>", "", entry["title"])) for entry in entries)
    titles = {word.group() for word in words if word}
    assert set(tunescape.__all__) - titles - {"__version__"} == set()


def test_the_tables_can_be_filtered(site: Path) -> None:
    assert 'class="table-filter"' in (site / "trainables/settings.html").read_text(encoding="utf-8")
    assert (site / "table_filter.js").is_file()


def test_the_workflow_publishes_the_site() -> None:
    text = (ROOT / ".github/workflows/site.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["publish"]["steps"]
    assert any("mkdocs build -f docs/mkdocs.yml" in step.get("run", "") for step in steps)
