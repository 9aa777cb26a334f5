"""The sizes of models by name, each with a learning rate and a warm-up."""

from __future__ import annotations

from typing import NamedTuple

from trainables.core.networks.world_model.sizes import ModelSize


class SizePreset(NamedTuple):
    """What `model_size` stands for.

    Attributes:
        size: The widths of the networks.
        lr: Learning rate.
        warmup_updates: Gradient steps over which the learning rate rises from 0.
    """

    size: ModelSize
    lr: float = 4e-5
    warmup_updates: int = 1000


def _of_author(deter: int, units: int, depth: int) -> SizePreset:
    return SizePreset(ModelSize(deter, units, 32, depth, units, 3, depth))


def _of_paper(deter: int, units: int, depth: int, layers: int) -> SizePreset:
    return SizePreset(ModelSize(deter, units, 32, 32, units, layers, depth))


# Ours, for small environments and two cores: they learn faster and warm up for a fraction of the
# few updates that they are given there.
_OWN = {
    "nano": SizePreset(ModelSize(64, 32, 8, 8, 32, 1, 4, blocks=4), 1e-3, 50),
    "micro": SizePreset(ModelSize(128, 64, 16, 8, 64, 1, 4, blocks=4), 1e-3, 50),
    "mini": SizePreset(ModelSize(256, 128, 16, 16, 128, 2, 8), 4e-4, 100),
    "XXS": SizePreset(ModelSize(256, 256, 32, 16, 256, 1, 16), 2e-4, 200),
}
# Those of the paper of January 2023 that the reference names; the layers are the present ones.
_PAPER = {
    "XS": _of_paper(256, 256, 24, 1),
    "S": _of_paper(512, 512, 32, 2),
    "M": _of_paper(1024, 640, 48, 3),
    "L": _of_paper(2048, 768, 64, 4),
    "XL": _of_paper(4096, 1024, 96, 5),
}
# Those of the author's present code.
_AUTHOR = {
    "1M": _of_author(512, 64, 4),
    "12M": _of_author(2048, 256, 16),
    "25M": _of_author(3072, 384, 24),
    "50M": _of_author(4096, 512, 32),
    "100M": _of_author(6144, 768, 48),
    "200M": _of_author(8192, 1024, 64),
    "400M": _of_author(12288, 1536, 96),
}
SIZES: dict[str, SizePreset] = {**_OWN, **_PAPER, **_AUTHOR}
"""Every `model_size`."""
