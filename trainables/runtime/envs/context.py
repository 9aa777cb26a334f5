"""`EnvContext`: what an environment's creator is given.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from typing import Any


class EnvContext(dict[str, Any]):
    """The `env_config` given to an environment's creator, and which instance it is to be.

    A constructor with keyword arguments gets those of the attributes that it has a parameter for.

    Attributes:
        worker_index: Index of the env runner; 0 samples in the trial's own process.
        vector_index: Index of the slot within the env runner.
        num_workers: Number of env-runner actors.
        remote: Whether the slot has a process of its own.
    """

    def __init__(
        self,
        env_config: dict[str, Any],
        worker_index: int = 0,
        vector_index: int = 0,
        num_workers: int = 0,
        remote: bool = False,
    ):
        super().__init__(env_config)
        self.worker_index, self.vector_index = worker_index, vector_index
        self.num_workers, self.remote = num_workers, remote

    @property
    def num_rollout_workers(self) -> int:
        """Another name of `num_workers`."""
        return self.num_workers

    num_env_runners = num_rollout_workers
