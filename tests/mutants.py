"""Which tests notice a mistake: 120 small mutations, each tried against the tests near it.

    python tests/mutants.py make                    # choose them, seeded, into mutants.json
    python tests/mutants.py try --column near       # as the tree is now, with the tests near each
    python tests/mutants.py try --column default    # only the default tier, of those killed before
    python tests/mutants.py try --column full       # the tier `full`, of those that are left
    python tests/mutants.py table                   # how many each column killed

A mutation changes a comparison, a constant or a sign, removes a statement or swaps two arguments.
Near are the test files that import the mutated module: tests of units first, those of the same
folder, those that import fewest others; then those that import a module that imports it. Each
mutation is made in a copy of the tree, in a process that is forked from one that has imported the
libraries, and killed if a test fails or hangs. Those that change nothing are marked `equivalent` by
hand; as others take their place, more are made than are needed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "mutants.json"
PACKAGES = ("trainables", "search_spaces", "experiments", "analysis")
COUNT, SPARE, SEED = 120, 40, 20261128
SECONDS = 150  # for one mutation with all the tests near it
NEAR_FILES = 6
TIERS = {"near": "not slow", "default": "not slow and not full", "full": "full"}

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def mutations(path: Path) -> list[dict[str, Any]]:
    """Every mutation that a file offers: what is replaced, and by what."""
    text = path.read_text(encoding="utf-8")
    found = []
    for node in _code(ast.parse(text)):
        for kind, new in _mutated(node):
            old = ast.get_source_segment(text, node)
            if old is not None and old != new:
                where = {"file": str(path.relative_to(ROOT)), "line": node.lineno}
                found.append({**where, "kind": kind, "old": old, "new": new})
    return found


def _code(tree: ast.AST) -> list[ast.AST]:
    """The nodes within functions, without annotations, decorators and what builds messages."""
    nodes: list[ast.AST] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            return
        if inside:
            nodes.append(node)
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                visit(statement, True)
            return
        annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
        for child in ast.iter_child_nodes(node):
            if child not in annotations:
                visit(child, inside)

    visit(tree, False)
    return nodes


def _mutated(node: ast.AST) -> list[tuple[str, str]]:
    """The mutations of one node, each with its source."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in COMPARISONS:
            others = [COMPARISONS[type(op)](), *node.ops[1:]]
            return [("comparison", ast.unparse(ast.Compare(node.left, others, node.comparators)))]
        case ast.BinOp(op=op) if type(op) in SIGNS and not _crashes(node):
            changed = ast.BinOp(node.left, SIGNS[type(op)](), node.right)
            return [("sign", f"({ast.unparse(changed)})")]
        case ast.Constant(value=bool() as value):
            return [("constant", str(not value))]
        case ast.Constant(value=int() | float() as value):
            return [("constant", repr(value + 1))]
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            return [("removed statement", "pass")]
        case ast.Call(args=[first, second, *rest], keywords=keywords) if not _crashes(node):
            swapped = ast.Call(node.func, [second, first, *rest], keywords)
            return [("swapped arguments", ast.unparse(swapped))]
    return []


def _crashes(node: ast.AST) -> bool:
    """Whether a mutation could not but fail wherever it runs: paths, lists, questions of types."""
    if isinstance(node, ast.BinOp):
        sides = ast.unparse(node)
        return bool(re.search(r"folder|path|root|FILE|FOLDER|[\[\]'\"{]", sides))
    assert isinstance(node, ast.Call)
    known = {"isinstance", "hasattr", "getattr", "setattr", "issubclass", "zip", "next", "partial"}
    is_known = isinstance(node.func, ast.Name) and node.func.id in known
    return is_known or any(isinstance(one, ast.Starred) for one in node.args[:2])


def choose() -> list[dict[str, Any]]:
    """As many from each sub-package as come by turns, of each kind as many as come by turns."""
    drawn = random.Random(SEED)
    by_package: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "benchmarks" not in path.parts and path.name != "__init__.py":
                by_package[str(path.parent.relative_to(ROOT))] += mutations(path)
    for offered in by_package.values():
        drawn.shuffle(offered)
    kinds = ("comparison", "constant", "sign", "removed statement", "swapped arguments")
    chosen: list[dict[str, Any]] = []
    while len(chosen) < COUNT + SPARE:
        for package in drawn.sample(sorted(by_package), len(by_package)):
            wanted = kinds[len(chosen) % len(kinds)]
            offered = by_package[package]
            offered.sort(key=lambda one: one["kind"] == wanted)  # stable: the last is wanted
            if offered and len(chosen) < COUNT + SPARE:
                chosen.append(offered.pop())
    for number, one in enumerate(chosen):
        one["id"] = number
    return chosen


def near(module: str) -> list[str]:
    """The test files near a module, nearest first."""
    imports = {path: _imported(path) for path in (ROOT / "tests").rglob("*.py")}
    tests = [path for path in imports if path.name.startswith("test_")]
    helpers = {path.stem: found for path, found in imports.items() if path not in tests}

    def all_of(path: Path) -> set[str]:
        own = imports[path]
        return own.union(*(helpers[name] for name in own if name in helpers))

    def ranked(targets: set[str]) -> list[Path]:
        direct = [path for path in tests if targets & imports[path]]
        through = [path for path in tests if path not in direct and targets & all_of(path)]
        same = set(module.split(".")[1:])

        def distance(path: Path) -> tuple[Any, ...]:
            is_slow = "unit" not in path.parts  # tests of units are quicker, and as near
            return is_slow, path in through, -len(set(path.parts) & same), len(imports[path]), path

        return sorted([*direct, *through], key=distance)

    product = {
        _module(path): _imported(path)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    ring, seen, found = {module}, {module}, ranked({module})
    while len(found) < NEAR_FILES and ring:
        ring = {name for name, used in product.items() if used & ring} - seen
        seen |= ring
        found += [path for path in ranked(ring) if path not in found]
    return [str(path.relative_to(ROOT)) for path in found[:NEAR_FILES]]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _imported(path: Path) -> set[str]:
    """The modules that a file names in imports, or as `module:name` in a text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(re.findall(r"\b(?:trainables|experiments|analysis)(?:\.\w+)+", node.value))
    return names


def apply(mutation: dict[str, Any], tree: Path) -> None:
    """Mutate a file of a tree; the place is found again where lines have moved.

    Raises:
        LookupError: The mutated code is not in the file any more.
    """
    path = tree / mutation["file"]
    text = path.read_text(encoding="utf-8")
    same = [
        node
        for node in _code(ast.parse(text))
        if ast.get_source_segment(text, node) == mutation["old"]
        and (mutation["kind"], mutation["new"]) in _mutated(node)
    ]
    if not same:
        raise LookupError(f"{mutation['file']}:{mutation['line']}: {mutation['old']!r} is gone")
    node: Any = min(same, key=lambda n: (abs(n.lineno - mutation["line"]), n.col_offset))
    lines = text.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    data = text.encode()
    path.write_bytes(data[:start] + mutation["new"].encode() + data[end:])


def killed_by(mutation: dict[str, Any], tree: Path, tier: str) -> str | None:
    """The first test near a mutation that fails, or hangs; None where all pass."""
    original = (tree / mutation["file"]).read_bytes()
    files = near(_module(ROOT / mutation["file"]))
    killer = str(mutation.get("near")).partition("::")[0]  # the quickest way to a known answer
    files = [file for file in dict.fromkeys([killer, *files]) if (tree / file).is_file()]
    if not files:  # pytest would take all tests
        return None
    try:
        apply(mutation, tree)
        return _failing(files, tree, tier)
    finally:
        (tree / mutation["file"]).write_bytes(original)


def _failing(files: list[str], tree: Path, tier: str) -> str | None:
    """Run pytest in a fork of this process, in a group of its own, until the first failure."""
    report = tree / "failed.txt"
    report.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(tree)
        with open(tree / "output.txt", "w", encoding="utf-8") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        sys.path.insert(0, str(tree))
        sys.dont_write_bytecode = True
        os.environ.update(PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=str(tree))
        import pytest

        class Notes:
            def pytest_runtest_logreport(self, report: Any) -> None:
                if report.failed:
                    (tree / "failed.txt").write_text(report.nodeid, encoding="utf-8")

            def pytest_collectreport(self, report: Any) -> None:
                self.pytest_runtest_logreport(report)

        options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout=100", "-m", TIERS[tier]]
        status = pytest.main([*options, *files], plugins=[Notes()])
        os._exit(int(status))
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.1)
    else:
        status = None
    _end_group(child)
    if status is None:
        os.waitpid(child, 0)
        return f"{files[0]}::(too slow)" if tier == "near" else None
    code = os.waitstatus_to_exitcode(status)
    if code in (0, 5):
        return None
    return report.read_text(encoding="utf-8") if report.is_file() else f"{files[0]}::({code})"


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _copy() -> Path:
    """A copy of what git tracks, as it is in the working tree."""
    tree = Path(tempfile.mkdtemp(prefix="tunescape-mutants-"))
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def _import_libraries() -> None:
    """What most tests import, once for all mutations."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["RAY_AUTH_MODE"] = "disabled"
    for name in ("torch", "torch._dynamo", "ray.tune", "mlflow", "hypothesis", "scipy.stats"):
        __import__(name)
    import optuna  # noqa: F401
    import pandas  # noqa: F401
    import sklearn  # noqa: F401


def try_all(column: str, share: tuple[int, int]) -> None:
    """Try the mutations that a column is about, and write down what killed each."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    before = {"near": None, "default": "near", "full": "default"}[column]
    _import_libraries()
    tree = _copy()
    for mutation in table:
        wanted = not mutation.get("equivalent") and column not in mutation
        wanted &= mutation["id"] % share[1] == share[0]
        if before == "near":
            wanted &= bool(mutation.get("near"))
        if before == "default":
            wanted &= bool(mutation.get("near")) and mutation.get("default", "") is None
        if not wanted:
            continue
        began = time.monotonic()
        test = killed_by(mutation, tree, column)
        seconds = time.monotonic() - began
        print(f"{mutation['id']:4} {seconds:5.0f} s {mutation['file']}: {test}", flush=True)
        _note(mutation["id"], column, test)
    shutil.rmtree(tree)


def _note(number: int, column: str, test: str | None) -> None:
    """Write one result into the table, which another process may write, too."""
    import fcntl

    with open(TABLE, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        table = json.load(file)
        next(one for one in table if one["id"] == number)[column] = test
        file.seek(0)
        file.truncate()
        file.write(json.dumps(table, indent=1) + "\n")


def counts() -> str:
    """How many mutations each column killed, in a sentence each."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    tried = [one for one in table if "near" in one and not one.get("equivalent")]
    known = [one for one in tried if one["near"]]
    lines = [f"{len(known)} of {len(tried)} mutants are killed near by."]
    default = [one for one in known if one.get("default")]
    both = [one for one in known if one.get("default") or one.get("full")]
    lines.append(f"The default tier kills {len(default)} of them, with full {len(both)}.")
    return "\n".join(lines)


def main() -> None:
    """Run one of the four commands."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=["make", "try", "table"])
    parser.add_argument("--column", choices=list(TIERS), default="near")
    parser.add_argument("--share", default="0/1", help="which of so many processes this one is")
    arguments = parser.parse_args()
    if arguments.command == "make":
        TABLE.write_text(json.dumps(choose(), indent=1) + "\n", encoding="utf-8")
    elif arguments.command == "try":
        one, of = map(int, arguments.share.split("/"))
        try_all(arguments.column, (one, of))
    else:
        print(counts())


if __name__ == "__main__":
    main()
