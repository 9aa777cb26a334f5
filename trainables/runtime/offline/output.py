"""`Output`: what an env runner samples goes to files, or to a writer of one's own."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.recorded.input_shares import is_code_name
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.io_context import IOContext
from trainables.runtime.offline.own_writer import ColumnsWriter, own_writer
from trainables.runtime.offline.recorder import RolloutRecorder
from trainables.runtime.offline.source import EpisodeWriter
from trainables.runtime.offline.write_thread import WriteThread
from trainables.runtime.offline.writers import make_writer
from trainables.runtime.sampling.env_runner import EnvRunner


@dataclass(frozen=True)
class OutputPlan:
    """Where the env runners of a trial write to.

    Attributes:
        folder: A path or URL; empty with a writer of one's own.
        log_dir: The trial's folder.
        trial: The trial's id, which names of files and episodes begin with.
        env_id: The environment, as files name it.
    """

    folder: str
    log_dir: str
    trial: str
    env_id: str


class Output:
    """Records what an env runner samples, in all slots, until it is closed.

    Names of files and ids of episodes are its own: those of an env runner that takes the place of
    one that died are others.

    Args:
        worker: The env runner.
        plan: Where to.

    Attributes:
        recorders: What records the slots of each module, by module id.
    """

    def __init__(self, worker: EnvRunner, plan: OutputPlan):
        self._config, self._plan = worker.config, plan
        self._worker = worker
        config = worker.config
        self._name = f"{plan.trial}-worker{worker.worker_index}-{uuid.uuid4().hex[:8]}"
        own = not plan.folder
        self._thread = WriteThread(
            self._own_writer if own else self._file_writer,
            f"{config.output!r}" if own else f"{plan.folder}/{self._name}",
        )
        self.recorders = {
            module_id: RolloutRecorder(
                acting.policy,
                acting.actor.explores,
                module_id,
                self._thread,
                self._name if len(worker.recorders) == 1 else f"{self._name}-{module_id}",
            )
            for module_id, acting in worker.recorders.items()
        }
        for module_id, acting in worker.recorders.items():
            acting.listener = self.recorders[module_id]
        self._spaces = next(iter(self.recorders.values())).spaces
        self._num_writers = 0

    def flush(self) -> None:
        """Have the episodes that have ended in whole files; those that run stay in memory.

        Raises:
            DataError: if something could not be written.
        """
        for recorder in self.recorders.values():
            recorder.hand_over()
        self._thread.flush()

    def cut(self) -> None:
        """Write all that there is: running episodes do not go on.

        Raises:
            DataError: if something could not be written.
        """
        for recorder in self.recorders.values():
            recorder.cut()
        self._thread.flush()

    def close(self) -> None:
        """Write all that there is, and end.

        Raises:
            DataError: if something could not be written.
        """
        try:
            for recorder in self.recorders.values():
                recorder.cut()
        finally:
            self._thread.close()

    def _file_writer(self) -> EpisodeWriter:
        config = self._config
        kind, folder = config.output_config.get("format", "parquet"), self._plan.folder
        if kind == "minari":  # whose data sets are folders, each written once
            folder = f"{folder}/{self._name}-{self._num_writers}-v0"
        self._num_writers += 1
        return file_writer(config, folder, self._name, self._spaces, self._plan.env_id)

    def _own_writer(self) -> EpisodeWriter:
        context = IOContext(
            self._plan.log_dir, self._config, self._worker.worker_index, self._worker
        )
        assert self._config.output is not None
        return ColumnsWriter(own_writer(self._config.output, context), self._spaces)


def file_writer(
    config: AlgorithmConfig, folder: str, name: str, spaces: DataSpaces, env_id: str
) -> EpisodeWriter:
    """Return what writes files as a config says.

    Args:
        config: The algorithm's config.
        folder: A path or URL.
        name: What names of files begin with.
        spaces: What is written.
        env_id: The environment, as files name it.
    """
    return make_writer(
        folder,
        spaces,
        format=config.output_config.get("format", "parquet"),
        compress_columns=config.output_compress_columns,
        max_file_size=config.output_max_file_size,
        max_rows_per_file=config.output_max_rows_per_file,
        prefix=name,
        env_id=env_id,
    )


def writes_itself(output: Any) -> bool:
    """Tell whether a value of `output` is code that makes a writer."""
    return not isinstance(output, str) or is_code_name(output)
