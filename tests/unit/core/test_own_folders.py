"""Folders that this user's own processes wrote need no trust; all others do."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from analysis.export import export_folder
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.commands.results.summary import evaluate_command
from trainables import PPO
from trainables.core import own_folders
from trainables.core.checkpoint import CheckpointError, policy_folder
from trainables.core.policy.policy import Policy

ENV = "own_env:Corridor"
SMALL = {"env": ENV, "model": {"fcnet_hiddens": [8]}}


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of notes, in a state directory of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tunescape" / "written"


@pytest.fixture
def saved(tmp_path: Path, notes: Path) -> Path:
    with PPO(SMALL) as algo:
        algo.save(str(tmp_path / "own"))
    return tmp_path / "own"


def as_it_is(obs: Any) -> Any:
    """A connector of one's own."""
    return obs


def is_known(folder: Path) -> bool:
    """Whether it is loaded without trust, by each of the ways; they agree."""
    asked = not own_folders.is_own(policy_folder(folder), "policy")
    command = evaluate_command(policy_folder(folder))
    assert ("--trust" in command) is asked
    for load in (PPO.from_checkpoint, lambda path: evaluate_folder(path, episodes=1)):
        try:
            found = load(folder)
        except CheckpointError as error:
            assert ENV in str(error) and "needs trust" in str(error)
            assert asked
        else:
            assert not asked
            if isinstance(found, PPO):
                found.stop()
    return not asked


def test_what_one_has_saved_needs_no_trust_and_copies_do(saved: Path, notes: Path) -> None:
    assert is_known(saved)
    assert stat.S_IMODE(notes.stat().st_mode) == 0o600
    copy = saved.with_name("copy")
    shutil.copytree(saved, copy)
    assert not is_known(copy)
    link = saved.with_name("link")
    link.symlink_to(saved)
    assert is_known(link)  # the same folder
    shutil.rmtree(saved)
    copy.rename(saved)
    assert is_known(saved)  # the same content where it was


def test_a_changed_folder_is_nobodys(saved: Path) -> None:
    from trainables.core.checkpoint import load_state, save_state

    folder = policy_folder(saved)
    for path in (saved / "checkpoint.json", folder / "policy.json"):
        text = path.read_text()
        path.write_text(text.replace("Corridor", "Corridox"))
        with pytest.raises(CheckpointError, match="changed"):
            PPO.from_checkpoint(saved) if path.parent == saved else Policy.load(folder)
        path.write_text(text)
    # Written as a stranger would, with digests that are right.
    state = load_state(folder, "policy")
    save_state(folder, "policy", {**state, "metadata": {**state["metadata"], "iteration": 7}})
    assert not own_folders.is_own(folder, "policy")


def test_only_this_users_own_private_notes_are_believed(
    saved: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known() -> bool:
        return own_folders.is_own(saved, "checkpoint")

    assert known()
    for path, mode in ((notes, 0o640), (notes, 0o606), (notes.parent, 0o777), (saved, 0o777)):
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        assert not known(), (path, oct(mode))
        path.chmod(before)
        assert known()
    with monkeypatch.context() as patch:  # files of another user
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not known()
    with monkeypatch.context() as patch:  # another machine, which shares the home
        found = os.uname()
        patch.setattr(os, "uname", lambda: os.uname_result((found[0], "other", *found[2:])))
        assert not known()
    elsewhere = notes.with_name("moved")
    notes.rename(elsewhere)
    notes.symlink_to(elsewhere)
    assert not known()
    notes.unlink()
    os.mkfifo(notes, 0o600)
    assert not known()  # and nothing waits for a writer
    with PPO(SMALL) as algo:
        algo.save(str(saved.with_name("another")))  # that it cannot be noted is no error


def test_a_strangers_folder_cannot_make_itself_known(
    saved: Path, notes: Path, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger"
    shutil.copytree(saved, stranger)
    known = notes.read_text()
    policy = policy_folder(stranger)
    # Loaded, and saved or exported elsewhere: it still names the stranger's environment.
    Policy.load(policy).save(tmp_path / "again")
    assert not own_folders.is_own(tmp_path / "again", "policy")
    export_folder(policy, tmp_path / "exported", {})
    assert not own_folders.is_own(tmp_path / "exported", "policy")
    # What lies in a folder that one saves to is not vouched for by that.
    given = tmp_path / "given"
    shutil.copytree(policy, given / "policies" / "evil")
    with PPO(SMALL) as algo:
        algo.save(str(given))
    assert not own_folders.is_own(given / "policies" / "evil", "policy")
    assert notes.read_text() == known


def test_an_export_of_ones_own_is_ones_own(saved: Path, tmp_path: Path) -> None:
    export_folder(policy_folder(saved), tmp_path / "best", {})
    assert own_folders.is_own(tmp_path / "best", "policy")
    assert len(evaluate_folder(tmp_path / "best", episodes=1).episodes) == 1
    with PPO(SMALL) as algo:
        algo.export_policy_checkpoint(str(tmp_path / "written"))
    assert own_folders.is_own(tmp_path / "written", "policy")


def test_a_refusal_is_told_in_a_line(saved: Path, tmp_path: Path) -> None:
    """Of our code a traceback shows what was called, and no more."""
    shutil.copytree(saved, tmp_path / "copy")
    space = gym.spaces.Box(-1, 1, (2,))
    Policy(space, space, env_to_module_connector=as_it_is).save(tmp_path / "model")
    for load, folder in ((PPO.from_checkpoint, "copy"), (Policy.load, "model")):
        with pytest.raises(CheckpointError, match="needs trust") as told:
            load(tmp_path / folder)
        assert {entry.name for entry in told.traceback[1:]} == {load.__name__}
        assert told.value.__cause__ is None and told.value.__suppress_context__


def test_old_notes_go(notes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(own_folders, "_MOST_BYTES", 2000)
    folders = []
    for number in range(40):
        folders.append(tmp_path / f"f{number}")
        folders[-1].mkdir()
        (folders[-1] / "policy.json").write_text(json.dumps({"sha256": str(number)}))
        own_folders.note_own(folders[-1])
    known = [own_folders.is_own(folder, "policy") for folder in folders]
    assert known[-1] and not known[0] and 5 < np.sum(known) < 40
    assert notes.stat().st_size <= 2000 and stat.S_IMODE(notes.stat().st_mode) == 0o600
    assert [path.name for path in notes.parent.iterdir()] == ["written"]


def test_a_relative_state_directory_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", "/nowhere")
    assert own_folders._notes_file() == Path("/nowhere/.local/state/tunescape/written")
