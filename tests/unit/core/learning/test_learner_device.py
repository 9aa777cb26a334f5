"""Which GPU the learner in the trial's process computes on."""

from __future__ import annotations

import pytest
import torch

from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.devices import learner_device


def config(**resources: float) -> PPOConfig:
    made: PPOConfig = PPOConfig().environment("CartPole-v1").resources(**resources)
    return made


def test_the_index_counts_the_gpus_that_pytorch_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert learner_device(config()) == torch.device("cpu")
    assert learner_device(config(num_gpus=1)) == torch.device("cuda", 0)
    assert learner_device(config(num_gpus=0.5, local_gpu_idx=1)) == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="local_gpu_idx = 2 is not allowed; allowed: 0 to 1"):
        learner_device(config(num_gpus=1, local_gpu_idx=2))


def test_an_index_without_a_gpu_has_no_effect_and_is_refused() -> None:
    with pytest.raises(ConfigError, match="local_gpu_idx = 1 has no effect"):
        config(local_gpu_idx=1).validate()
