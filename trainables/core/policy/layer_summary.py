"""A network seen by its layers: their table, and its parameters by the reference's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

_COLUMNS = ("Layer (type)", "Weights", "Param #")


def summary_of(module: nn.Module, name: str) -> str:
    """Return the table of a network's layers that have parameters, and how many these are.

    Args:
        module: The network.
        name: What the table calls it.
    """
    rows = [_COLUMNS]
    for path, layer in module.named_modules():
        own = list(layer.parameters(recurse=False))
        if own:
            shapes = ", ".join(str(tuple(parameter.shape)) for parameter in own)
            count = sum(parameter.numel() for parameter in own)
            rows.append((f"{path} ({type(layer).__name__})".strip(), shapes, f"{count:,}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    total = sum(parameter.numel() for parameter in module.parameters())
    trainable = sum(p.numel() for p in module.parameters() if p.requires_grad)
    return "\n".join(
        [
            f'Model: "{name}"',
            *lines,
            f"Total params: {total:,}",
            f"Trainable params: {trainable:,}",
            f"Non-trainable params: {total - trainable:,}",
        ]
    )


class LayerView:
    """A network with `summary()` and `variables()`; all else is the network's own.

    Args:
        module: The network.
        name: What errors and the table call it.
        instead: What to say of names that it does not have.
    """

    def __init__(self, module: nn.Module, name: str, instead: Mapping[str, str] | None = None):
        self._module, self._name, self._instead = module, name, instead or {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._module(*arguments, **keywords)

    def summary(self) -> None:
        """Print the table of its layers."""
        print(summary_of(self._module, self._name))

    def variables(self, as_dict: bool = False) -> list[Tensor] | dict[str, Tensor]:
        """All parameters, in order or by name."""
        named: dict[str, Tensor] = dict(self._module.named_parameters())
        return named if as_dict else list(named.values())

    def trainable_variables(self, as_dict: bool = False) -> list[Tensor] | dict[str, Tensor]:
        """Return the parameters that learn, in order or by name."""
        named: dict[str, Tensor] = {
            n: p for n, p in self._module.named_parameters() if p.requires_grad
        }
        return named if as_dict else list(named.values())

    def __repr__(self) -> str:
        return repr(self._module)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._module, name, value)

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """The network's, or an error that says what to call."""
            if name.startswith("_"):  # also while it is copied
                raise AttributeError(name)
            try:
                return getattr(self._module, name)
            except AttributeError:
                said = self._instead.get(name, "does not exist; policy.module is the network")
                raise AttributeError(f"{self._name}.{name} {said}") from None
