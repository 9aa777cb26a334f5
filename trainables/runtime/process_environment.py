"""Environment variables of a trial's processes, and the threads that they decide."""

from __future__ import annotations

import os
from collections.abc import Mapping

# By variable, its value before anyone set it, under None, and then by who has set it, in order.
_values: dict[str, dict[object, str | None]] = {}


class ProcessEnvironment:
    """Variables of this process that are set for a while. Several may set the same one."""

    def set(self, variables: Mapping[str, str]) -> None:
        """Set variables; those that were set earlier are taken back first."""
        self.take_back()
        for name, value in variables.items():
            _values.setdefault(name, {None: os.environ.get(name)})[self] = value
        os.environ.update(variables)

    def take_back(self) -> None:
        """Give every variable the value that it has without this one."""
        for name in [name for name, values in _values.items() if self in values]:
            values = _values[name]
            del values[self]
            *_, value = values.values()
            if len(values) == 1:
                del _values[name]
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def num_threads(variables: Mapping[str, str], num_cpus: float) -> int:
    """Return the threads of PyTorch in a process: its CPUs, unless OMP_NUM_THREADS says more.

    PyTorch reads that variable when it is imported, which a trial's process has done long before.
    """
    given = variables.get("OMP_NUM_THREADS")
    return int(given) if given else max(1, int(num_cpus))
