"""The experiment state that we write is what Tune would have written, for less."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.train._internal.checkpoint_manager import _CheckpointManager
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial

from experiments.durability.state_file import StateWriter


class Controller:
    """As much of Tune's controller as saving it takes."""

    save_to_dir = TuneController.save_to_dir
    _get_trial_checkpoints = TuneController._get_trial_checkpoints

    def __init__(self, folder: Path) -> None:
        nothing = SimpleNamespace(save_to_dir=lambda *_, **__: None)
        self._storage = SimpleNamespace(experiment_driver_staging_path=str(folder))
        self._search_alg = self._callbacks = nothing
        self._trials_to_cache: set[Trial] = set()
        self._trial_metadata: dict[str, Any] = {}
        self._start_time, self._session_str = 1.5, "now"
        self._iteration = 3
        self.experiment_state_file_name = "state.json"

    @property
    def experiment_state_path(self) -> str:
        return str(Path(self._storage.experiment_driver_staging_path, "state.json"))

    def __getstate__(self) -> dict[str, Any]:
        """As Tune does: all but what it names."""
        left_out = {"_storage", "_search_alg", "_callbacks", "_trials_to_cache", "_trial_metadata"}
        return {key: value for key, value in self.__dict__.items() if key not in left_out}


def trial(name: str) -> Trial:
    made = Trial("__fake", stub=True, trial_id=name, config={"lr": 0.1, "text": 'a "b" \\ é\n'})
    made.run_metadata.checkpoint_manager = _CheckpointManager(None)
    return made


def test_it_is_what_tune_writes(tmp_path: Path) -> None:
    trials = [trial("a"), trial("b")]
    written = []
    for name in ("tune", "ours"):
        folder = tmp_path / name
        folder.mkdir()
        controller: Any = Controller(folder)
        if name == "ours":
            StateWriter(controller)
        for iteration in (1, 2):  # at the second time only one trial has changed
            for changed in trials[:: 1 if iteration == 1 else 2]:
                changed.run_metadata.last_result = {"training_iteration": iteration}
                changed.invalidate_json_state()
                controller._trials_to_cache.add(changed)
            controller.save_to_dir()
        data = json.loads((folder / "state.json").read_text())
        states = [(json.loads(state), json.loads(more)) for state, more in data["trial_data"]]
        data["trial_data"] = sorted(states, key=lambda pair: pair[0]["trial_id"])
        written.append(data)
    assert written[0] == written[1]
    assert [more["last_result"] for _, more in written[1]["trial_data"]] == [
        {"training_iteration": 2},
        {"training_iteration": 1},
    ]


def test_only_changed_trials_are_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller: Any = Controller(tmp_path)
    StateWriter(controller)
    trials = [trial(str(number)) for number in range(5)]
    controller._trials_to_cache.update(trials)
    controller.save_to_dir()
    encoded = []
    original = Trial.get_json_state
    monkeypatch.setattr(
        Trial, "get_json_state", lambda self: encoded.append(self.trial_id) or original(self)
    )
    controller._trials_to_cache.add(trials[3])
    controller.save_to_dir()
    assert encoded == ["3"]
    assert len(json.loads((tmp_path / "state.json").read_text())["trial_data"]) == 5
    # One copy of the text: Tune's own are given up.
    assert not controller._trial_metadata
    assert all(made._state_json is None for made in trials)
