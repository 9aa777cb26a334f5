"""What commands print: help, lists, specs with all defaults, and plans of sweeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forked_drivers import ROOT
from refusals import Golden
from typed_commands import Run, typed

from experiments import cli
from experiments.spec.files import spec_names

_DRAWN = re.compile(r"\x1b\[[\d;]*m|[╭╮╰╯│─]")
_PLANNED = (
    *("quickstart", "cartpole_final", "pbt_cartpole", "rainbow_parts"),
    *("multi_agent_cartpole", "frozenlake_curiosity", "tuned/sac/pendulum"),
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return typed(monkeypatch, capsys)


def test_help_of_every_command(run: Run, golden: Golden) -> None:
    texts = {}
    for command in ("", *cli.COMMANDS, "train file"):
        status, output, _ = run(*command.split(), "--help")
        assert status == 0, command
        texts[f"{command} --help".strip()] = _undrawn(output)
    golden("cli/help", texts)


def _undrawn(text: str) -> str:
    """The words of a help page: how frames and columns are drawn is that of libraries."""
    lines = (" ".join(_DRAWN.sub(" ", line).split()) for line in text.splitlines())
    return "\n".join(filter(None, lines))


def test_lists(run: Run, golden: Golden) -> None:
    status, output, _ = run("list")
    assert status == 0
    golden("cli/list", {"list": output})


def test_every_spec_with_all_defaults(run: Run, golden: Golden) -> None:
    """With the address of a cluster, so that environments of extras are not made."""
    specs, wrong = [*spec_names()], []
    assert len(specs) > 50
    for name in specs:
        status, output, errors = run("show", name, "--set", "resources.address=auto")
        try:
            assert status == 0, errors
            shown = output.replace(str(ROOT), "<repository>")
            golden(f"cli/show_{name.replace('/', '_')}", {f"show {name}": shown})
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)


def test_plans_of_sweeps(
    run: Run, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    texts = {}
    for name in _PLANNED:
        here = ("--storage", str(tmp_path), "--set", "resources.num_cpus=2")
        status, output, errors = run("run", name, "--dry-run", *here)
        assert status == 0, errors
        texts[f"run {name} --dry-run"] = output.replace(str(tmp_path), "<storage>")
    golden("cli/dry_run", texts)
    assert not list(tmp_path.iterdir())
