"""Links, files and folders that the pages name are there, and pages are short enough to read."""

from __future__ import annotations

import re
from pathlib import Path

import page_blocks
from page_blocks import ROOT

PAGES = [ROOT / page for page in page_blocks.PAGES]


def without_code(text: str) -> str:
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]()]", "", code.group()), text)


def anchors(text: str) -> set[str]:
    """The headings of a page as links name them."""
    blocks = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", blocks, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            found.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            found.append(f"{target}: no such heading")
    return found


def test_links_lead_somewhere() -> None:
    found = {page.relative_to(ROOT).as_posix(): broken(page) for page in PAGES}
    assert {page: links for page, links in found.items() if links} == {}


def test_files_that_a_page_names_are_there() -> None:
    """By their path from the root, or from the page's package."""
    missing = []
    for page in PAGES:
        folders = (ROOT, ROOT / page.relative_to(ROOT).parts[0])
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`([\w/]+/[\w.]+\.(?:py|yaml|md))`", text):
            if not any((folder / name).is_file() for folder in folders):
                missing.append((page.name, name))
    # The changelog tells of files as they were.
    assert [(page, name) for page, name in missing if page != "CHANGELOG.md"] == []


def test_a_package_names_its_folders() -> None:
    for package in (ROOT / "trainables", ROOT / "experiments", ROOT / "analysis"):
        table = (package / "README.md").read_text(encoding="utf-8").partition("## What is where")
        named = {name.rstrip("/") for name in re.findall(r"`([\w/]+/)`", table[2])}
        modules = package.rglob("*/__init__.py")
        folders = {file.parent.relative_to(package).as_posix() for file in modules}
        assert folders <= named and all((package / name).is_dir() for name in named)


def test_pages_are_short() -> None:
    """What is written by hand has at most 300 lines."""
    made = {"CHANGELOG.md", "settings.md", "metrics.md", "promises.md"}
    lines = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in PAGES}
    assert [page for page, n in lines.items() if page.name not in made and n > 300] == []
    assert lines[ROOT / "trainables/README.md"] <= 200 >= lines[ROOT / "experiments/README.md"]


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`?\n[a](none.md) [b](#one-two) [c](#three)\n`x[0](y)`\n")
    assert broken(page) == ["none.md: no such file", "#three: no such heading"]
