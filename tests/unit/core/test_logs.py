"""What a trial logs, at which level, and that it makes no line when nobody asked for one."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from every_row import check_rows
from small_runs import settings_of

from trainables import DQN, PPO, PPOConfig
from trainables.core import logs
from trainables.core.errors import ConfigError


@pytest.fixture(autouse=True)
def quiet_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    yield
    logs.set_log_level("WARN")


def run(tmp_path: Path, algorithm: Any = PPO, **values: Any) -> None:
    """Set up, train, evaluate, save, load and stop."""
    settings = settings_of(algorithm.__name__, evaluation_duration=2, **values)
    with algorithm(config=settings) as algo:
        algo.train()
        algo.evaluate()
        algo.restore(algo.save(str(tmp_path)))


def test_info_tells_what_happens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, log_level="INFO", seed=3)
    for part in (
        "PPO on 'CartPole-v1': ",
        "slots in process, train batches of ",
        "seed 3; set up in ",
        "resources: 1 ",
        "default_policy: observations Box(",
        "actions Discrete(2)",
        "default_policy: ActorCritic, ",
        " parameters on cpu, model={",
        "evaluation after 1 training steps: episode_return_mean ",
        "saved checkpoint ",
        "loaded checkpoint ",
        "stops after 1 training steps",
    ):
        assert part in caplog.text, part
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_debug_tells_the_flow_of_data(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, log_level="DEBUG")
    assert "env runner 0 sampled " in caplog.text
    assert "obs: float32[" in caplog.text and "rewards: float32[" in caplog.text
    assert "learner 0 updates with {" in caplog.text
    assert "iteration of " in caplog.text
    run(tmp_path, DQN, log_level="DEBUG")
    assert " updates with rows of {" in caplog.text


@pytest.mark.parametrize("level", [None, "WARN", "WARNING", "ERROR"])
def test_other_levels_make_no_line(
    level: str | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(data: Any) -> str:
        raise AssertionError("a line was made that nobody sees")

    for module in (
        "trainables.runtime.sampling.sampling_worker",
        "trainables.core.learning.learner",
    ):
        monkeypatch.setattr(f"{module}.shapes", refuse)
    run(tmp_path, log_level=level)
    assert [r for r in caplog.records if r.levelno < logging.WARNING] == []


def test_the_reference_levels_are_accepted() -> None:
    def check(level: str | None) -> None:
        assert PPOConfig().debugging(log_level=level).log_level == level

    check_rows(check, [*logs.LEVELS, None])


def test_another_level_is_refused() -> None:
    with pytest.raises(ConfigError, match="log_level = 'LOUD' is not allowed; allowed: one of"):
        PPOConfig().debugging(log_level="LOUD")


@pytest.mark.parametrize(
    ("level", "asked", "expected"),
    [
        (None, None, logging.WARNING),
        (None, "DEBUG", logging.DEBUG),
        (None, "nonsense", logging.WARNING),
        ("ERROR", "DEBUG", logging.ERROR),
        ("INFO", None, logging.INFO),
    ],
)
def test_a_level_of_its_own_goes_before_that_of_the_command_line(
    level: str | None, asked: str | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if asked is not None:
        monkeypatch.setenv(logs.VARIABLE, asked)
    logs.set_log_level(level)
    assert logs.logger.level == expected


def test_lines_are_seen_where_nobody_handles_them() -> None:
    code = (
        "from trainables.core.logs import logger, set_log_level\n"
        "for level in ('INFO', 'INFO', 'DEBUG'): set_log_level(level)\n"
        "logger.debug('flow %d', 7)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("DEBUG trainables: flow 7") == 1


def test_shapes() -> None:
    data = {"obs": torch.zeros(2, 3), "more": [np.zeros(4, np.int64)] * 8, "state": None}
    assert logs.shapes(data) == (
        "{obs: float32[2, 3], more: [" + "int64[4], " * 6 + "… 2 more], state: None}"
    )
    record = np.zeros(2, [("a", np.float32), ("b", np.int8)])
    assert logs.shapes((record, "text", object())) == "[record[2], 'text', object]"
