"""Recorded data as a feature: what is sampled goes to files, and training reads from some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.recorded.feature import DATASET, LOGDIR
from trainables.core.features import Feature


class Offline(Feature):
    """Writes what env runners sample."""

    def output_plan(
        self, config: AlgorithmConfig, log_dir: str, trial_id: str | None, env_id: str
    ) -> Any:
        """Return the `OutputPlan` of the setting `output`, for `SamplingWorker.write_output`.

        Args:
            config: The algorithm's config.
            log_dir: The trial's folder.
            trial_id: The id of the trial, if it is one.
            env_id: The environment, as files name it.
        """
        from trainables.runtime.offline.locating import absolute
        from trainables.runtime.offline.output import OutputPlan, writes_itself

        output = config.output
        if writes_itself(output):
            folder = ""
        elif output == LOGDIR:
            folder = str(Path(log_dir) / "output")
        else:
            folder = absolute(str(config.output_config["path"] if output == DATASET else output))
        return OutputPlan(folder, log_dir, trial_id or "run", env_id)

    def record(self, env_runner: Any, plan: Any) -> Any:
        """Record what an env runner of one agent samples; see `Output`."""
        from trainables.runtime.offline.output import Output

        return Output(env_runner, plan)


FEATURE = Offline()
