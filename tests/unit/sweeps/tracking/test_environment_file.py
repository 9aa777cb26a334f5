"""`environment.json`: what each start of a sweep ran on."""

from __future__ import annotations

import getpass
import json
import platform
import socket
from pathlib import Path

import pytest

from experiments.environment_file import ENVIRONMENT_FILE, note_environment


def test_each_start_is_kept(tmp_path: Path) -> None:
    note_environment(tmp_path, {"CPU": 2.0, "memory": 1e9, "node:1.2.3.4": 1.0})
    note_environment(tmp_path, {"CPU": 8.0, "GPU": 1.0, "accelerator_type:H200": 1.0})
    first, second = json.loads((tmp_path / ENVIRONMENT_FILE).read_text())["runs"]
    assert first["versions"]["python"] == platform.python_version()
    assert {"started", "commit", "versions", "machine"} <= first.keys()
    assert first["machine"]["CPUs for trials"] == "2" and "nodes" not in first["machine"]
    assert second["machine"]["GPUs for trials"] == "1"
    assert second["machine"]["GPU models"] == "H200"


def test_it_names_no_user_host_or_folder(tmp_path: Path) -> None:
    note_environment(tmp_path)
    text = (tmp_path / ENVIRONMENT_FILE).read_text()
    assert str(tmp_path) not in text and "node_ip" not in text
    for name in (getpass.getuser(), socket.gethostname()):
        assert f'"{name}"' not in text


@pytest.mark.parametrize("wound", ["", "{", "[]", '{"runs": 3}'])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, wound: str) -> None:
    (tmp_path / ENVIRONMENT_FILE).write_text(wound)
    note_environment(tmp_path)
    assert len(json.loads((tmp_path / ENVIRONMENT_FILE).read_text())["runs"]) == 1


def test_a_folder_that_cannot_be_written_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note_environment(tmp_path / "gone")
    assert "could not be written" in caplog.text
