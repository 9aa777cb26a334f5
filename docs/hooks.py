"""Adds the repository's pages to the site, and makes the API reference.

Each package keeps its guides beside its code. The site has them at the same paths, with the files
that they link to, so that one link works in the site and in the repository. A reference page lists
a package's public names.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("trainables", "search_spaces", "experiments", "analysis")
PAGES = (*PACKAGES, "docs")
TABLES = ("trainables/settings.md", "trainables/metrics.md", "trainables/promises.md")
_SHIM, _SHIM_FILE = "https://unpkg.com/iframe-worker/shim", "iframe_worker.js"
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_FILTER = '<input type="search" class="table-filter" placeholder="Filter the rows of all tables …">'


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository, the files that they link to, and the reference."""
    pages = [*ROOT.glob("*.md"), *(p for name in PAGES for p in (ROOT / name).rglob("*.md"))]
    pages.append(ROOT / "tests" / "README.md")
    linked = {target for page in pages for target in _linked_files(page)}
    for path in sorted({*pages, *linked}):
        uri = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    for package in PACKAGES:
        content = _reference(package)
        files.append(File.generated(config, f"reference/{package}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give pages of long tables a box that filters their rows, and a high rank in a search."""
    if page.file.src_uri in TABLES:
        page.meta["search"] = {"boost": 4}
        head, _, rest = markdown.partition("\n")
        return f"{head}\n\n{_FILTER}\n{rest}"
    return markdown


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load the search from disk from the site itself, not from the network."""
    return output.replace(_SHIM, get_relative_url(_SHIM_FILE, page.url))


def on_post_template(output_content: str, **_: Any) -> str:
    """See `on_post_page`; the page 404 is a template."""
    return output_content.replace(_SHIM, _SHIM_FILE)


def _linked_files(page: Path) -> list[Path]:
    """The files of this repository, other than pages, that a page links to or shows."""
    targets = (page.parent / link for link in _LINK.findall(page.read_text(encoding="utf-8")))
    files = (target.resolve() for target in targets if target.is_file())
    return [file for file in files if file.suffix != ".md" and file.is_relative_to(ROOT)]


def _reference(package: str) -> str:
    """The page of a package's public names, from the imports in its `__init__.py`."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    names = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package)
        for alias in node.names
    }
    parts = [f"# `{package}`", f"The public names of `{package}`; `tunescape` has them all, too."]
    parts += [f"::: {path}" for name, path in sorted(names.items()) if not name.startswith("_")]
    return "\n\n".join(parts) + "\n"
