"""Recorded data as a feature: what is sampled goes to files, and training reads from some."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.recorded.feature import DATASET, LOGDIR
from trainables.core.features import Feature


class Offline(Feature):
    """Writes what env runners sample, and reads what algorithms with replay learn from."""

    def experience(self, config: Any, policy: Any, *others: Any) -> Any:
        """Return what a policy learns from; see `make_offline_experience`."""
        from trainables.runtime.offline.experience import make_offline_experience

        return make_offline_experience(config, policy, *others)

    def data_spaces(self, config: Any, module_id: str | None) -> Any:
        """Return the spaces that data say; see the function of the name."""
        from trainables.runtime.offline.experience import data_spaces

        return data_spaces(config, module_id)

    def renewed(self, before: Any, make: Callable[[], Any]) -> Any:
        """Return a policy's experience, where its agents may be others by now.

        Args:
            before: What it has learned from; without agents any more it goes on with that.
            make: Returns what it would begin with now.
        """
        from trainables.runtime.offline.agent_rows import NoRowsError
        from trainables.runtime.offline.experience import renewed

        try:
            return renewed(before, make())
        except NoRowsError:
            return before

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
