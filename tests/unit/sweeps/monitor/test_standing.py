"""What a line of progress knows of all trials does not take longer with each of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiments.monitor import progress_text
from experiments.monitor.progress_text import Standing


def trial(number: int, **settings: Any) -> Any:
    return SimpleNamespace(trial_id=str(number), evaluated_params=settings, last_result={})


def test_varying_settings() -> None:
    known, trials = Standing(), [trial(0, lr=0.1, gamma=0.9)]
    assert known.varying(trials, trials[0]) == ["lr", "gamma"]
    trials.append(trial(1, lr=0.2, gamma=0.9))
    assert known.varying(trials, trials[1]) == ["lr"]
    trials.append(trial(2, lr=0.2, gamma=0.99))
    assert known.varying(trials, trials[2]) == ["lr", "gamma"]
    # A resume: the trials from before are not started again.
    assert Standing().varying(trials, trials[2]) == ["lr", "gamma"]


def test_each_trial_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(settings: Any) -> Any:
        nonlocal calls
        calls += 1
        return settings

    monkeypatch.setattr(progress_text, "flatten", counted)
    known, trials = Standing(), []
    for number in range(200):
        trials.append(trial(number, lr=number))
        assert known.varying(trials, trials[-1]) == ["lr"]
    assert calls == 200
