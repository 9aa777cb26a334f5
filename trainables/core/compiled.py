"""Functions as `torch.compile` makes them, whose failures name the setting that asked for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from trainables.core.config.resolved import CompileOptions
from trainables.core.errors import ConfigError
from trainables.core.features import Feature


def compiled(
    function: Callable[..., Any], options: CompileOptions, setting: str
) -> Callable[..., Any]:
    """Return a function compiled by `torch.compile`, which does it when it is called first.

    Args:
        function: The function.
        options: Backend and mode.
        setting: What asked for it, for messages.

    Raises:
        ConfigError: if PyTorch cannot compile here, at once or when it is called first.
    """
    # Here, since they cost more than a second of every start.
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import InductorError

    try:
        made = torch.compile(function, backend=options.backend, mode=options.mode)
    except RuntimeError as error:
        raise _cannot_compile(setting, error) from None

    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return made(*args, **keywords)
        except (TorchDynamoException, InductorError) as error:
            raise _cannot_compile(setting, error) from None

    return call


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


def _cannot_compile(setting: str, error: Exception) -> ConfigError:
    reason = str(error).strip().partition("\n")[0]
    return ConfigError(f"{setting} = True: PyTorch cannot compile here: {reason}")


class Compiling(Feature):
    """Compiles losses, and what acts."""

    losses = CompiledLosses

    def acting(self, function: Callable[..., Any], options: CompileOptions) -> Callable[..., Any]:
        """Return what acts, compiled when it is called first: `torch_compile_worker`.

        Raises:
            ConfigError: if PyTorch cannot compile here.
        """
        # See `CompiledLosses`: trials that a process has run before leave no room.
        torch.compiler.reset()
        return compiled(function, options, "torch_compile_worker")


FEATURE = Compiling()
