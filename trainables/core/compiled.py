"""Functions as `torch.compile` makes them, whose failures name the setting that asked for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trainables.core.config.resolved import CompileOptions
from trainables.core.errors import ConfigError


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


def _cannot_compile(setting: str, error: Exception) -> ConfigError:
    reason = str(error).strip().partition("\n")[0]
    return ConfigError(f"{setting} = True: PyTorch cannot compile here: {reason}")
