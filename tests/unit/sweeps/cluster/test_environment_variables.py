"""A sweep leaves the process as it found it."""

import os

import pytest

from experiments.cluster.session import sweep_environment


def test_tunes_variables_are_set_for_the_sweep_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "mine")
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)
    before = dict(os.environ)
    with pytest.raises(RuntimeError), sweep_environment():
        assert os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] == "1"
        assert os.environ["RAY_AIR_NEW_OUTPUT"] == "0"
        raise RuntimeError
    assert dict(os.environ) == before
