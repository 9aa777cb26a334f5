"""Tic-tac-toe as a user has it: trained, judged by random play, and played against by hand."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.cli import app
from trainables import PPO, PPOConfig

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("pettingzoo")
    config = PPOConfig(
        env="pettingzoo:classic.tictactoe_v3",
        seed=0,
        num_envs_per_env_runner=16,
        train_batch_size_per_learner=2048,
        minibatch_size=256,
        num_epochs=4,
        lr=1e-3,
        entropy_coeff=0.01,
    )
    config.multi_agent(policies=["main"], league={"freeze_every": 2})
    folder = tmp_path_factory.mktemp("tictactoe") / "checkpoint"
    with PPO(config=config) as algo:
        for _ in range(4):
            algo.train()
        algo.save_checkpoint(str(folder))
    yield folder


def test_it_beats_random_play_in_both_seats_and_the_first_one_more(checkpoint: Path) -> None:
    words = ["evaluate", str(checkpoint), "--opponent", "random", "--episodes", "120"]
    shown = CliRunner().invoke(app, [*words, "--as", "json"])
    assert shown.exit_code == 0, shown.output
    standings = json.loads(shown.stdout)["against"]["standings"]
    first, second = standings["player_1"], standings["player_2"]
    assert first["win_rate_low"] > 0.5 and second["wins"] > second["losses"]
    assert first["win_rate"] > second["win_rate"]


def test_a_human_sees_the_board_and_is_asked_again(checkpoint: Path) -> None:
    """Every cell is typed in each turn until one is free: the game ends whoever wins it."""
    typed = "\n".join(["9", *(str(cell) for _ in range(5) for cell in range(9))]) + "\n"
    words = ["evaluate", str(checkpoint), "--opponent", "human", "--episodes", "1"]
    shown = CliRunner().invoke(app, [*words, "--seat", "player_2"], input=typed)
    assert shown.exit_code == 0, shown.output
    told = shown.stderr
    assert "You are player_1." in told and "'9' is not allowed; allowed: 0-8" in told
    assert "Of what you observe x is plane 0, o is plane 1." in told
    empty, later = told.split("player_1, your action (0-8): ")[::2][:2]
    assert empty.splitlines()[-3:] == [" 0   1   2", " 3   4   5", " 6   7   8"]
    board = [cell for line in later.splitlines()[1:4] for cell in line.split()]
    # The human has taken the first cell, the policy another one; all others are free.
    assert board[0] == "x" and board.count("o") == 1
    assert all(cell in ("x", "o", str(place)) for place, cell in enumerate(board))


@pytest.mark.full("test_a_human_sees_the_board_and_is_asked_again")
def test_ctrl_c_at_the_prompt_leaves(checkpoint: Path) -> None:
    """On a terminal, where nothing else would end the waiting for a line."""
    command = [sys.executable, "-m", "experiments.cli", "evaluate", str(checkpoint)]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*command, "--opponent", "human"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        _read_until(ours, b"your action")
        time.sleep(0.5)  # a signal between the prompt and the waiting would be told after a line
        process.send_signal(signal.SIGINT)
        _read_until(ours, b"You left before a game had ended.")
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read_until(terminal: int, words: bytes, timeout_s: float = 120.0) -> None:
    seen, end = b"", time.monotonic() + timeout_s
    while words not in seen:
        readable, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert readable, seen.decode(errors="replace")
        seen += os.read(terminal, 4096)
