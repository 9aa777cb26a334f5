"""Gradient clipping, optimisers and schedules."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trainables.core.learning.learner import Learner
from trainables.core.learning.schedules import scheduled


class Two(nn.Module):
    """Two parameters whose gradients are what the batch says."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))

    def forward(self, features: Tensor) -> Tensor:
        return (features[:, :2] * self.a).sum() + (features[:, 2:] * self.b).sum()


def step(grad_clip: float | None, by: str, optimizer: dict[str, Any]) -> tuple[list[float], float]:
    module = Two()
    learner = Learner(module, optimizer, grad_clip, by)
    learner.set_lr(1.0)

    def loss_fn(module: Two, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        output = module(batch["features"])
        return output, {"loss": output.detach()}

    metrics = learner.update_step({"features": torch.tensor([[3.0, 4.0, 12.0]])}, loss_fn)
    moved = [-x for x in module.a.tolist() + module.b.tolist()]
    return moved, metrics["grad_norm"].item()


SGD = {"type": "sgd"}


@pytest.mark.parametrize(
    ("clip", "by", "expected"),
    [
        (None, "global_norm", [3, 4, 12]),
        (6.5, "global_norm", [1.5, 2, 6]),  # the norm of all three is 13
        (100.0, "global_norm", [3, 4, 12]),
        (3.5, "value", [3, 3.5, 3.5]),
        (2.5, "norm", [1.5, 2, 2.5]),  # norms 5 and 12, each to 2.5
    ],
)
def test_gradient_clipping(clip: float | None, by: str, expected: list[float]) -> None:
    moved, norm = step(clip, by, SGD)
    assert moved == pytest.approx(expected, rel=1e-4)
    assert norm == pytest.approx(13)  # what is reported is the norm before clipping


@pytest.mark.parametrize("kind", ["adam", "adamw", "rmsprop", "sgd"])
def test_optimisers_are_the_libraries(kind: str) -> None:
    theirs = {
        "adam": lambda p: torch.optim.Adam(p, lr=0.1, eps=1e-5),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, eps=1e-5, weight_decay=0.0),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, eps=1e-5, alpha=0.99),
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    }[kind]
    mine, reference = nn.Linear(3, 2), nn.Linear(3, 2)
    reference.load_state_dict(mine.state_dict())
    learner, optimizer = Learner(mine, {"type": kind}), theirs(reference.parameters())
    learner.set_lr(0.1)
    torch.manual_seed(1)
    for _ in range(5):
        x = torch.randn(7, 3)
        learner.update_step({"x": x}, lambda net, batch: (net(batch["x"]).square().mean(), {}))
        optimizer.zero_grad()
        reference(x).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(mine.weight, reference.weight)


def test_a_restored_learner_goes_on_with_its_own_rate() -> None:
    """Under PBT the moments are the donor's and the settings the clone's."""
    donor, clone = (
        Learner(nn.Linear(2, 1), {"beta1": 0.9}),
        Learner(nn.Linear(2, 1), {"beta1": 0.5}),
    )
    donor.set_lr(0.1)
    clone.set_lr(0.7)
    donor.update_step({}, lambda net, batch: (net(torch.ones(4, 2)).sum(), {}))
    clone.set_state(donor.get_state())
    group = clone.optimizer.param_groups[0]
    assert (group["lr"], group["betas"][0]) == (0.7, 0.5)
    moments = clone.optimizer.state_dict()["state"][0]["exp_avg"]
    assert torch.equal(moments, donor.optimizer.state_dict()["state"][0]["exp_avg"])


def test_metrics_are_means_over_all_steps() -> None:
    learner = Learner(nn.Linear(1, 1), SGD)
    learner.set_lr(0.0)
    batch = {"features": torch.arange(10.0).unsqueeze(1)}
    result = learner.update(
        batch,
        lambda net, part: (net(part["features"]).sum(), {"x": part["features"].mean()}),
        num_epochs=2,
        minibatch_size=5,
        generator=torch.Generator().manual_seed(0),
    )
    assert result["x"] == pytest.approx(4.5)


def test_schedule() -> None:
    points, steps = [[0, 1.0], [100, 0.0], [200, 0.5]], (0, 50, 100, 150, 200, 10**9)
    assert [scheduled(points, t) for t in steps] == [1.0, 0.5, 0.0, 0.25, 0.5, 0.5]
    assert scheduled(3e-4, 10**9) == 3e-4
    assert scheduled([[0, 2]], 7) == 2.0
