"""The commands are listed without their modules, and `-v` may stand anywhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments import cli
from experiments.commands import reading, shell
from search_spaces.documents import Document, SpecError


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_is_listed_as_it_says_of_itself(name: str) -> None:
    _, text = cli.COMMANDS[name]
    assert cli.command_of(name).help == text


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from experiments import cli\n"
        "assert 'quickstart' not in CliRunner().invoke(cli.app, ['--help']).output\n"
        "print(*sorted(name for name in sys.modules if name.startswith('experiments.commands.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["experiments.commands.shell"]


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        (["space", "PPO"], 0),
        (["-v", "space", "PPO"], 1),
        (["space", "-vv", "PPO"], 2),
        (["-v", "space", "PPO", "--verbose"], 2),
    ],
)
def test_verbosity_counts_wherever_it_stands(arguments: list[str], level: int) -> None:
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    assert shell.verbosity() == level


def test_verbosity_alone_is_no_command() -> None:
    result = CliRunner().invoke(cli.app, ["-v"])
    assert result.exit_code == CliRunner().invoke(cli.app, []).exit_code != 0
    assert "Usage:" in result.output


def test_workers_are_prepared_before_a_spec_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that they are forked from imports PyTorch while the checks do."""
    started: list[str] = []
    monkeypatch.setattr(reading, "start_server", lambda: started.append("here"))

    def read(begins: bool, options: dict[str, object]) -> None:
        options = {"num_sample": 3, "storage": str(tmp_path), **options}  # a key that is unknown
        with pytest.raises(SpecError, match="num_samples"), shell.until_end:
            reading.read_specs("quickstart", None, options, None, begins=begins, overwrite=False)

    read(False, {})
    read(True, {"resources.address": "10.0.0.1:6379"})
    assert not started
    read(True, {})
    assert started == ["here"]
    reading.before_checks(False)(Document({"resources": "wrong"}, "spec"))  # told by the checks
