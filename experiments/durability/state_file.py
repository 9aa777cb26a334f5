"""Tune's experiment state, written with only those trials encoded anew that changed.

Tune keeps each trial's state as JSON text of some 14 kB and encodes all of them, as one document,
whenever it saves: a sweep of 1,000 trials would spend most of its time on that.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.internals.tune import (
    STATE_ENCODER,
    changed_trials,
    save_search_and_callbacks,
    start_time,
    storage_of,
    take_trial_states,
)

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController


class StateWriter:
    """Saves what `TuneController.save_to_dir` saves, in the same format.

    Args:
        controller: Tune's loop, whose state it is; its `save_to_dir` is replaced.
    """

    def __init__(self, controller: TuneController) -> None:
        self._controller = controller
        self._trials: dict[str, bytes] = {}  # as JSON, compressed: 3 kB instead of 17 a trial
        controller.save_to_dir = self.save_to_dir  # type: ignore[method-assign]

    def save_to_dir(self) -> None:
        """Write the trials', the loop's, the searcher's and the callbacks' states."""
        controller = self._controller
        self._encode_changed()
        loop = controller.__getstate__()
        del loop["save_to_dir"]  # what stands in place of Tune's is no state
        rest = {
            "runner_data": loop,
            "stats": {"start_time": start_time(controller)},
        }
        folder = storage_of(controller).experiment_driver_staging_path
        os.makedirs(folder, exist_ok=True)
        with Path(controller.experiment_state_path).open("wb") as stream:
            stream.write(b'{"trial_data": [')
            for number, state in enumerate(self._trials.values()):
                stream.write(b", " if number else b"")
                stream.write(zlib.decompress(state))
            stream.write(b"], ")
            stream.write(json.dumps(rest, cls=STATE_ENCODER)[1:].encode())
        save_search_and_callbacks(controller)

    def _encode_changed(self) -> None:
        changed = changed_trials(self._controller)
        for trial_id, state in take_trial_states(self._controller).items():
            text = json.dumps(state, cls=STATE_ENCODER)
            self._trials[trial_id] = zlib.compress(text.encode(), level=1)
        for trial in changed:
            trial.invalidate_json_state()
            trial.run_metadata.invalidate_cache()
