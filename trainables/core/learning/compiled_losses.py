"""`CompiledLosses`: losses as `torch.compile` makes them, for `torch_compile_learner`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from trainables.core.compiled import compiled
from trainables.core.config.resolved import CompileOptions


class CompiledLosses:
    """Compiles each loss when it is used first.

    What is compiled is kept by its function. A loss whose numbers change from update to update is a
    `functools.partial` of one function that is given them, and not a new function each time.

    Args:
        options: Backend and mode.
    """

    def __init__(self, options: CompileOptions):
        self._options = options
        self._compiled: dict[Callable[..., Any], Callable[..., Any]] = {}
        # Compiled code is kept by where it stands in the source: the trials that a process
        # has run before would use up the number of its versions.
        torch.compiler.reset()

    def __call__(self, loss_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a loss that computes the same."""
        if isinstance(loss_fn, partial):
            return partial(self._of(loss_fn.func), *loss_fn.args, **loss_fn.keywords)
        return self._of(loss_fn)

    def _of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if function not in self._compiled:
            self._compiled[function] = compiled(function, self._options, "torch_compile_learner")
        return self._compiled[function]
