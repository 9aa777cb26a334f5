"""What stands in the pages for newcomers runs as it stands; their tables are what code gives."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_blocks import blocks, text_of, write_files
from page_commands import run_commands

from experiments import cli, load_spec
from experiments.benchmarks import peer_tables
from experiments.benchmarks.peer_defaults import RLLIB, SB3
from experiments.commands.show import gallery_table
from experiments.spec.files import spec_names
from experiments.spec.metrics import declared_metrics
from trainables.core.config.reference.compatibility import ALIASES
from trainables.core.reported_metrics import MODULE
from trainables.registry import get_algorithm

BUILDS = True  # what the pages show has to be buildable

FAQ = "experiments/faq.md"
GALLERY = "experiments/gallery.md"
RLLIBS = "trainables/guides/from_rllib.md"
SB3S = "trainables/guides/from_stable_baselines3.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that holds the modules in the FAQ."""
    modules = write_files(FAQ, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in modules:
        sys.modules.pop(name, None)


def test_specs_can_be_run(folder: Path) -> None:
    texts = [*blocks(FAQ, "yaml"), *blocks(RLLIBS, "yaml"), *blocks(SB3S, "yaml")]
    assert len(texts) >= 6
    for text in texts:
        (folder / "spec.yaml").write_text(text, encoding="utf-8")
        spec = load_spec("spec.yaml")
        with get_algorithm(spec.trainable)(config=dict(spec.config)) as algo:
            result = algo.train()
        assert np.isfinite(result[spec.objective.metric]), text
        assert set(spec.stop) <= set(result), text


def test_the_other_examples_in_the_faq(folder: Path) -> None:
    examples = [text for text in blocks(FAQ, "python") if not text.startswith("# my_")]
    assert examples
    for example in examples:
        exec(example, {})


def test_the_example_for_stable_baselines3(folder: Path) -> None:
    [example] = blocks(SB3S, "python")
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["action"] in (0, 1)
    assert names["result"]["episode_return_mean"] > 40  # it learns


@pytest.mark.usefixtures("ray_here")
def test_the_examples_for_rllib(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = blocks(RLLIBS, "python")
    monkeypatch.setenv("HOME", str(folder))
    names: dict[str, Any] = {}
    exec(example, names)
    assert len(names["results"]) == 2 and not names["results"].errors
    assert names["best"].metrics["num_env_steps_sampled_lifetime"] >= 3000


def test_commands_that_show_something(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: each of them shows something, and starts nothing."""
    texts = [*blocks(GALLERY, "bash"), *blocks("search_spaces/README.md", "bash")]
    commands = "".join(texts).splitlines()
    assert commands
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command, comments=True))
        with pytest.raises(SystemExit) as status:
            cli.main()
        assert status.value.code in (0, None), command


@pytest.mark.full("test_commands_that_show_something")
def test_the_commands_for_rllib(folder: Path) -> None:
    for text in blocks(RLLIBS, "yaml"):
        (folder / f"{text.partition(':')[0]}.yaml").write_text(text, encoding="utf-8")
    for text in blocks(RLLIBS, "bash"):
        run_commands(text, folder)
    assert (folder / "runs" / "cartpole-ppo" / "best").is_dir()


# ------------------------------------------------------------------ tables


def test_tables_are_what_the_generators_give() -> None:
    for part in [*peer_tables.PARTS, gallery_table.PART]:
        assert part.current() == part.text(), f"run python -m {part.command} --write"


def test_the_gallery_has_every_spec_and_a_line_about_it() -> None:
    for name in spec_names():
        [row] = [line for line in text_of(GALLERY).splitlines() if f"[`{name}`]" in line]
        assert len(row.split(" | ")[1]) > 20, row
    assert set(gallery_table.PICTURES) <= set(spec_names())


def test_metrics_of_stable_baselines3_have_counterparts() -> None:
    known = {m.name.replace(MODULE, "default_policy") for m in declared_metrics()}
    known |= {name.rpartition("/")[2] for name in known}
    section = text_of(SB3S).partition("## Metrics")[2]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`([^`]+)`", row[1])
        assert named and set(named) <= known, row


def test_defaults_of_stable_baselines3_are_its_own() -> None:
    module = pytest.importorskip("stable_baselines3")
    for name, ours in SB3.items():
        theirs = inspect.signature(getattr(module, name).__init__).parameters
        known = {k: p.default for k, p in theirs.items() if k not in ("self", "policy", "env")}
        del known["_init_setup_model"]
        assert ours == known, name


def test_defaults_of_rllib_are_its_own() -> None:
    """Read from its source, which comes with Ray: nothing of it is imported."""
    spec = importlib.util.find_spec("ray")
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).parent / "rllib" / "algorithms"
    if not source.is_dir():
        pytest.skip("this Ray comes without RLlib's source")
    bases = {"APPO": ["impala"]}
    shared = assigned(source / "algorithm_config.py", "AlgorithmConfig")
    for name, ours in RLLIB.items():
        theirs = dict(shared)
        for module in (*bases.get(name, []), name.lower()):
            theirs |= assigned(source / module / f"{module}.py", f"{module.upper()}Config")
        named = {ALIASES.get(key, key): value for key, value in theirs.items()} | theirs
        for setting, value in ours.items():
            outer, _, inner = setting.partition(".")
            found = named[outer][inner] if inner else named[outer]
            assert found == value, f"{name}: {setting}"


def assigned(file: Path, class_name: str) -> dict[str, Any]:
    """The literals that a class's `__init__` gives to attributes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    [owner] = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name]
    [init] = [n for n in owner.body if getattr(n, "name", "") == "__init__"]
    found: dict[str, Any] = {}
    for node in ast.walk(init):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
            continue
        try:
            found.setdefault(node.targets[0].attr, value_of(node.value))
        except ValueError:
            continue  # no plain value
    return found


def value_of(node: ast.expr) -> Any:
    """A literal, also one in which `int(1e6)` stands for a number."""
    if isinstance(node, ast.Dict):
        keys = [ast.literal_eval(key) for key in node.keys if key is not None]
        return dict(zip(keys, map(value_of, node.values), strict=True))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int":
        return int(ast.literal_eval(node.args[0]))
    return ast.literal_eval(node)
