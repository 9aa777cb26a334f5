"""Every name of ours in the guides for those who come from other libraries is one of the code."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from importlib import import_module
from typing import cast

import pytest
import typer
from click import Context, Group
from page_blocks import text_of

import tunescape
from experiments import cli
from experiments.spec.metrics import declared_metrics
from experiments.spec.schema import SweepSpec
from trainables import Algorithm
from trainables.core.config.callbacks import HOOKS
from trainables.core.config.reference.compatibility import ALIASES
from trainables.core.config.reference.worker_calls import CallsWorkers
from trainables.core.policy.calls.model_view import QModelView
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import MODULE, OLDER
from trainables.registry import algorithm_names, get_algorithm
from trainables.runtime.callbacks.episode import Episode
from trainables.runtime.sampling.env_runner import EnvRunner

GUIDES = ["from_rllib", "from_stable_baselines3", "from_cleanrl"]


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Settings, keys of a spec, metrics, and attributes of what users hold."""
    names = {field.name for field in fields(Episode)}
    names |= {*ALIASES, *HOOKS, *SweepSpec.model_fields, *tunescape.__all__}
    for name in algorithm_names():
        config_class = get_algorithm(name).config_class
        names |= {*config_class.settings(), *dir(config_class), *dir(get_algorithm(name))}
        for inner in config_class.nested_settings().values():
            names |= set(inner.settings())
    for metric in declared_metrics():
        names |= set(metric.name.replace(MODULE, "default_policy").split("/"))
    names |= {part for old in OLDER for part in old.split("/")}
    for owner in (Policy, QModelView, EnvRunner, CallsWorkers, Algorithm):
        names |= set(dir(owner))
        for _, method in inspect.getmembers(owner):
            if inspect.isfunction(method) or inspect.ismethod(method):
                names |= set(inspect.signature(method).parameters)
    return names


# Parts of examples, and of what Tune, Python and the pages' own files are called.
EXAMPLES = {
    *("algo", "config", "from", "import", "trainables", "custom_model", "torch", "nn", "Module"),
    *("metric", "mode", "frequency", "num_to_keep", "agent0", "hist_stats", "x_mean"),
    *("module", "Class"),
    *("_min", "_max"),  # of `hist_stats/x_mean`
}


def spans(guide: str) -> list[str]:
    """Code in the last column of the tables with two columns, which are written by hand."""
    rows = re.findall(r"^\| [^\n]* \|$", text_of(f"trainables/guides/{guide}.md"), re.MULTILINE)
    cells = [re.split(r"(?<!\\)\|", row.strip("| ")) for row in rows]
    return [code for c in cells if len(c) == 2 for code in re.findall(r"`([^`]+)`", c[1])]


def names_in(code: str) -> set[str]:
    """What a piece of code calls settings, methods, keys and metrics; no values."""
    code = re.sub(r'"[^"]*"|\'[^\']*\'', "", code)
    keys = re.findall(r"(\w+)(?:=|:\s|\()", code)
    attributes = re.findall(r"\.([a-z]\w+)", code)
    words = [code] if re.fullmatch(r"\w+", code) else []
    metrics = re.findall(r"\w+", code) if re.fullmatch(r"\w+(/\w+)+", code) else []
    return {*keys, *attributes, *words, *metrics}


def test_names_of_ours_are_in_the_code(known: set[str]) -> None:
    group = cast("Group", typer.main.get_command(cli.app))
    commands = set(group.list_commands(Context(group)))
    for code in (code for guide in GUIDES for code in spans(guide)):
        if code.startswith("tunescape "):
            assert code.split()[1] in commands, code
        elif code.startswith("core."):
            module, _, name = f"trainables.{code}".rpartition(".")
            assert hasattr(import_module(module), name), code
        elif not code.startswith("from ") and not code.startswith("train file"):
            assert names_in(code) <= known | EXAMPLES, (code, names_in(code) - known - EXAMPLES)


def test_a_wrong_name_is_seen(known: set[str]) -> None:
    assert names_in('model={"use_lstm": 1}, num_envs=8') - known == {"num_envs"}
    assert names_in("learner/default_policy/los") - known == {"los"}


def test_tables_are_what_the_code_says() -> None:
    peer_tables = pytest.importorskip("experiments.benchmarks.peer_tables")  # is not built
    for part in peer_tables.PARTS:
        assert part.current() == part.text(), f"run python -m {part.command} --write"
