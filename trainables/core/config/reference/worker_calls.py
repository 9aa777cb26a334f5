"""Calls to all workers of a group, by the reference's names and keywords."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

# What is not possible with these keywords.
_REFUSED = {
    ("healthy_only", False): "only healthy workers can be asked; restore_workers() makes others",
    ("return_obj_refs", True): "results are returned themselves",
    ("mark_healthy", True): "a worker that has failed is made again by restore_workers()",
}

# Names of the reference's groups that are not here, with what to call.
_INSTEAD = {
    "remote_workers": "foreach_worker(function, local_worker=False) asks the actors",
    "num_remote_workers": "len(foreach_worker(function, local_worker=False)) counts the actors",
}


class CallsWorkers:
    """Methods of a group of workers, in process or in actors, by the reference's names."""

    if TYPE_CHECKING:  # what a group has itself

        def foreach_env_runner(
            self,
            function: Callable[[Any], T],
            local_env_runner: bool = True,
            env_runner_ids: Iterable[int] | None = None,
            timeout_s: float | None = None,
        ) -> list[T]: ...

        def local_worker(self) -> Any: ...

    def foreach_worker(
        self,
        func: Callable[[Any], T],
        *,
        local_worker: bool | None = None,
        remote_worker_ids: Iterable[int] | None = None,
        timeout_seconds: float | None = None,
        **options: bool,
    ) -> list[T]:
        """Apply a function to every healthy worker; see `foreach_env_runner`.

        Args:
            func: Sent to the actors, so it must be serialisable by Ray.
            local_worker: With actors: True puts the result of `local_worker()` before theirs.
                Without: False leaves it out. None: all workers that have environments.
            remote_worker_ids: The actors that are asked, from 1; None: all.
            timeout_seconds: How long each may take; None: as long as it takes.
            options: The reference's `healthy_only=True`, `return_obj_refs=False` and
                `mark_healthy=False`, which are always so.

        Raises:
            TypeError: for other options.
        """
        for name, value in options.items():
            if (name, not value) in _REFUSED:
                continue
            why = _REFUSED.get((name, value), "there is no such keyword")
            raise TypeError(f"foreach_worker({name}={value!r}): {why}")
        ids = remote_worker_ids
        results: list[T] = []
        mine = self.local_worker()
        in_process = getattr(self, "local_env_runner", None) is mine
        if local_worker and not in_process:
            results = [func(mine)]
        if in_process:
            return self.foreach_env_runner(func, local_worker is not False, None, timeout_seconds)
        return results + self.foreach_env_runner(func, False, ids, timeout_seconds)

    def foreach_worker_with_id(self, func: Callable[[int, Any], T], **options: Any) -> list[T]:
        """Do as `foreach_worker`; the function gets the worker's index first."""
        return self.foreach_worker(lambda worker: func(worker.worker_index, worker), **options)

    foreach_worker_with_index = foreach_worker_with_id

    def foreach_env(self, func: Callable[[Any], T]) -> list[list[T]]:
        """Apply a function to each environment of every worker; a list for each worker."""
        return self.foreach_env_runner(lambda worker: worker.foreach_env(func))

    def foreach_env_with_context(self, func: Callable[[Any, Any], T]) -> list[list[T]]:
        """Do as `foreach_env`; the function also gets what the environment was made with."""
        return self.foreach_env_runner(lambda worker: worker.foreach_env_with_context(func))

    def foreach_policy(self, func: Callable[[Any, str], T]) -> list[T]:
        """Apply a function to each policy of every worker, and its id; results one after another.

        With actors these are their copies: what is set there lasts until the next weights come.
        """
        of_workers = self.foreach_env_runner(lambda worker: worker.foreach_policy(func))
        return [result for results in of_workers for result in results]


def worker_call(group: Any, name: str) -> Any:
    """Return a method of `CallsWorkers` for a group of workers.

    Raises:
        AttributeError: saying what to call in the place of what is not there.
    """
    function = None if name.startswith("_") else vars(CallsWorkers).get(name)
    if function is None:
        hint = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise AttributeError(f"{type(group).__name__!r} object has no attribute {name!r}{hint}")
    return MethodType(function, group)
