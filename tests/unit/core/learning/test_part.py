"""`LearnerPart`: what it cannot train beside is refused, and what it reports is of the round."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_runs import settings_of
from thread_ranks import on_ranks
from torch import Tensor, nn

from trainables import DQN, PPO
from trainables.core.data.batch import Batch, Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner, Metrics
from trainables.core.learning.part import LearnerPart, Parts
from trainables.core.learning.ranks import Ranks


class Part(LearnerPart):
    """A linear network."""

    def __init__(self, device: str = "cpu"):
        network = nn.Linear(2, 1)
        learner = Learner(network, {})
        super().__init__(network.to(device), learner)


class OfRollouts(Part):
    """Reports of the first rollout."""

    count = 0

    def on_rollout(self, rollout: Rollout) -> Rollout:
        self.count += 1
        if self.count == 1:
            self.metrics = {"seen": 1.0}
        return rollout


class OfBatches(Part):
    """Changes nothing."""

    def on_batch(self, batch: Batch, share: Tensor | float | None = None) -> Batch:
        return batch


class OfBoth(OfRollouts, OfBatches):
    """Has what either algorithm calls."""


def made(kind: type[PPO] | type[DQN], part: type[Part], device: str = "cpu") -> Any:
    def make_learner_parts(cls: Any, config: Any, policy: Any) -> Parts:
        return {"extra": part(device)}

    own = type("Own", (kind,), {"make_learner_parts": classmethod(make_learner_parts)})
    return own(settings_of(kind.__name__, "CartPole-v1"))


@pytest.mark.parametrize(
    ("kind", "part", "message"),
    [
        (PPO, OfBatches, "'extra' overrides on_batch, .* override on_rollout"),
        (DQN, OfRollouts, "'extra' overrides on_rollout, .* override on_batch"),
    ],
)
def test_a_part_that_nothing_calls_is_refused(
    kind: type[PPO] | type[DQN], part: type[Part], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(kind, part)
    made(kind, OfBoth).stop()


def test_networks_on_another_device_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'extra' is on meta, .* \.to\(policy.device\)"):
        made(PPO, OfRollouts, "meta")


def test_what_was_reported_of_a_rollout_before_is_gone() -> None:
    name = "learner/default_policy/extra/seen"
    with made(PPO, OfRollouts) as algo:
        assert algo.train()[name] == 1.0
        assert name not in algo.train()


@pytest.mark.parametrize("size", [1, 2])
def test_without_valid_rows_nothing_is_trained(size: int) -> None:
    parts = [Part() for _ in range(size)]

    def loss(network: nn.Module, batch: Batch) -> tuple[Tensor, Metrics]:
        value = network(batch["x"]).mean()
        return value, {"loss": value.detach()}

    def trained(ranks: Ranks) -> dict[str, float]:
        part = parts[ranks.rank]
        part.join(ranks, seed=0)
        return part.train({"x": torch.ones(3, 2, 2)}, torch.zeros(3, 2, dtype=torch.bool), loss)

    before = [part.networks.weight.clone() for part in parts]  # type: ignore[operator, union-attr]
    assert on_ranks(size, trained) == [{}] * size
    torch.testing.assert_close([part.networks.weight for part in parts], before)


def test_rollouts_of_other_lengths_train_together() -> None:
    """As fragments of whole episodes: each rank pads to the longest of its own."""
    torch.manual_seed(0)
    columns = [torch.randn(3, 2, 2), torch.randn(5, 1, 2)]
    parts = [Part(), Part(), Part()]
    for part in parts:
        part.networks.load_state_dict(parts[0].networks.state_dict())

    def loss(network: nn.Module, batch: Batch) -> tuple[Tensor, Metrics]:
        value = network(batch["x"]).square().mean()
        return value, {"loss": value.detach()}

    def trained(ranks: Ranks) -> dict[str, float]:
        part, x = parts[ranks.rank], columns[ranks.rank]
        part.join(ranks, seed=0)
        part.learner.set_lr(0.1)
        return part.train({"x": x}, torch.ones(x.shape[:2], dtype=torch.bool), loss)

    found = on_ranks(2, trained)
    parts[2].learner.set_lr(0.1)
    every = torch.cat([x.flatten(0, 1) for x in columns])[:, None]
    alone = parts[2].train({"x": every}, torch.ones(len(every), 1, dtype=torch.bool), loss)
    assert found[0]["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    torch.testing.assert_close(parts[0].networks.state_dict(), parts[1].networks.state_dict())
    torch.testing.assert_close(parts[0].networks.state_dict(), parts[2].networks.state_dict())
