"""Every block of the site is run by a test, or a comment in the page says why none can."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from page_blocks import PAGES, ROOT, TEXT, Block, code_in, every_block, text_of

# What a call takes from a page, by the function's name; `given` are the texts that it is given.
TAKEN: dict[str, Callable[[str, list[str], dict[str, str]], list[Block]]] = {
    "blocks": lambda page, given, _: [b for b in code_in(page) if b.language == given[0]],
    "block_with": lambda page, given, _: [b for b in code_in(page) if given[0] in b.code],
    "write_files": lambda page, *_: [b for b in code_in(page) if b.file],
    "follow": lambda page, _, named: code_in(page, named.get("start", ""), named.get("end", "")),
}


def constant(node: ast.expr, known: dict[str, str]) -> str | None:
    """The text that an expression is, if it is clear without running it."""
    if isinstance(node, ast.JoinedStr):
        parts = [constant(part, known) for part in node.values]
        return None if None in parts else "".join(filter(None, parts))
    if isinstance(node, ast.FormattedValue):
        return constant(node.value, known)
    if isinstance(node, ast.Name):
        return known.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def assigned(body: list[ast.stmt], known: dict[str, str]) -> dict[str, str]:
    """The names that these statements give to texts, besides those that are known."""
    known = dict(known)
    for node in body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if (text := constant(node.value, known)) is not None:
            known[node.targets[0].id] = text
    return known


def calls(source: str) -> Iterator[tuple[str, str, list[Block]]]:
    """The calls by which a module's functions take code from pages.

    Yields:
        The function in which it is, the call, and the blocks.
    """
    tree = ast.parse(source)
    of_module = assigned(tree.body, {})
    for owner in tree.body:
        body = getattr(owner, "body", [])
        known = assigned(body, of_module)
        for node in ast.walk(owner):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            given = [constant(argument, known) for argument in node.args]
            if node.func.id in TAKEN and given and given[0] is not None:
                named = {k.arg: constant(k.value, known) for k in node.keywords if k.arg}
                texts = {name: text for name, text in named.items() if text is not None}
                take = TAKEN[node.func.id]
                blocks = take(given[0], [text or "" for text in given[1:]], texts)
                yield getattr(owner, "name", "the module"), ast.unparse(node), blocks


def test_every_block_is_run_or_says_why_not() -> None:
    run: set[Block] = set()
    empty = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        source = file.read_text(encoding="utf-8")
        if "page_blocks" not in source and "page_commands" not in source:
            continue
        for owner, call, blocks in calls(source):
            run.update(blocks)
            if not blocks:
                empty.append(f"{file.relative_to(ROOT)}: {owner}: {call}")
    assert not empty, "\n".join(["these calls take nothing:", *empty])
    left = [
        f"{block.page}:{block.line}: {block.language or 'a block without language'}"
        for page in PAGES
        for block in every_block(page)
        if block not in run and block.reason is None and block.language != TEXT
    ]
    told = "have a test run these, or write `<!-- not run: the reason -->` on the line before each:"
    assert not left, "\n".join([told, *left])


def test_the_pages_are_those_of_the_site() -> None:
    menu = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = set(re.findall(r": (\S+\.md)$", menu, re.MULTILINE))
    assert len(listed) > 40
    assert {page for page in listed if not page.startswith("reference/")} <= set(PAGES)


def test_no_fence_is_left_out() -> None:
    """Each fence opens or ends a block that is counted; each comment is of the block after it."""
    for page in PAGES:
        found, text = every_block(page), text_of(page)
        fences = re.findall(r"^ *(?:```|~~~)", text, re.MULTILINE)
        assert len(fences) == 2 * len(found), page
        marks = re.findall(r"^ *<!-- not run", text, re.MULTILINE)
        assert len(marks) == sum(block.reason is not None for block in found), page


PAGE = """
```python
# one.py
```
## Part
- item
  <!-- not run: it needs a cluster -->
  ```bash
  ray up
  ```

```text
said
```
```
tree
```
"""


def test_blocks_are_seen(tmp_path: Path) -> None:
    one, marked, text, unnamed = every_block("page.md", PAGE)
    assert (one.line, one.file, one.reason) == (2, "one.py", None)
    assert (marked.line, marked.code, marked.reason) == (8, "ray up\n", "it needs a cluster")
    assert (text.language, unnamed.language) == (TEXT, "")
    assert code_in("page.md", text=PAGE) == [one, unnamed]
    assert code_in("page.md", start="## Part", text=PAGE) == [unnamed]
    assert code_in("page.md", end="## Part", text=PAGE) == [one]


def test_calls_are_seen() -> None:
    source = """
GUIDE = "README.md"
def test_a(page):
    blocks(GUIDE, "yaml"), blocks(page, "bash")
def test_b():
    page = f"{GUIDE}"
    follow(page, folder, {}, end="## "), block_with("README.md", "no such words")
"""
    [a, b, c] = calls(source)
    assert a[:2] == ("test_a", "blocks(GUIDE, 'yaml')") and len(a[2]) == 1
    assert (b[0], c[2]) == ("test_b", [])
