"""Learners of one's own, written as PyTorch's examples are: each does what Adam would do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from page_blocks import block_with
from torch import Tensor, nn

from trainables import PPOConfig
from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner, LossFn, Metrics

PAGE = "trainables/guides/your_own.md"


def optimizer_zero_grad(learner: Learner, loss: Callable[[], Tensor]) -> None:
    learner.optimizer.zero_grad()
    loss().backward()
    learner.optimizer.step()


def optimizer_zero_grad_in_place(learner: Learner, loss: Callable[[], Tensor]) -> None:
    learner.optimizer.zero_grad(set_to_none=False)
    loss().backward()
    learner.optimizer.step()


def module_zero_grad(learner: Learner, loss: Callable[[], Tensor]) -> None:
    learner.module.zero_grad()
    loss().backward()
    learner.optimizer.step()


def grad_set_to_none(learner: Learner, loss: Callable[[], Tensor]) -> None:
    for parameter in learner.module.parameters():
        parameter.grad = None
    loss().backward()
    learner.optimizer.step()


def grad_assigned(learner: Learner, loss: Callable[[], Tensor]) -> None:
    parameters = list(learner.module.parameters())
    gradients = torch.autograd.grad(loss(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    learner.optimizer.step()


def grad_of_the_optimizers_own(learner: Learner, loss: Callable[[], Tensor]) -> None:
    learner.module.zero_grad()
    loss().backward()
    learner.collect_gradients()
    for group in learner.optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = 1.0 * parameter.grad
    learner.optimizer.step()


def closure(learner: Learner, loss: Callable[[], Tensor]) -> None:
    def evaluate() -> float:
        learner.optimizer.zero_grad()
        found = loss()
        found.backward()
        return found.item()

    learner.optimizer.step(evaluate)


def double_backward(learner: Learner, loss: Callable[[], Tensor]) -> None:
    """Autograd does not add in place then."""
    learner.optimizer.zero_grad()
    loss().backward(create_graph=True)
    learner.optimizer.step()


IDIOMS = [
    optimizer_zero_grad,
    optimizer_zero_grad_in_place,
    module_zero_grad,
    grad_set_to_none,
    grad_assigned,
    grad_of_the_optimizers_own,
    closure,
    double_backward,
]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def grouped(module: nn.Module) -> dict[str, list[nn.Parameter]]:
    assert isinstance(module, nn.Sequential)
    return {"a": list(module[0].parameters()), "b": list(module[2].parameters())}


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("in_groups", [False, True])
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda f: f.__name__)
def test_every_idiom_steps_as_adam_does(idiom: Any, in_groups: bool) -> None:
    module = network()
    twin = copy.deepcopy(module)
    groups = grouped(module) if in_groups else None
    learner = Learner(module, {"type": "adam", "eps": 1e-8}, groups=groups)
    learner.set_lr(0.1)
    reference = torch.optim.Adam(twin.parameters(), lr=0.1, eps=1e-8)
    for step in range(4):
        x = torch.randn(7, 3, generator=torch.Generator().manual_seed(step))

        def loss(net: nn.Module = module, x: Tensor = x) -> Tensor:
            return (net(x) - 1).square().mean()

        idiom(learner, loss)
        reference.zero_grad()
        loss(twin).backward()
        reference.step()
        torch.testing.assert_close(module.state_dict(), twin.state_dict())


def test_gradients_are_clipped_wherever_they_are() -> None:
    module = network()
    twin = copy.deepcopy(module)
    learner = Learner(module, {"type": "sgd"})
    learner.set_lr(0.1)
    x = torch.randn(7, 3)
    module.zero_grad()
    (module(x) - 1).square().sum().backward()
    norm = nn.utils.clip_grad_norm_(module.parameters(), 0.01)
    learner.optimizer.step()
    (twin(x) - 1).square().sum().backward()
    theirs = nn.utils.clip_grad_norm_(twin.parameters(), 0.01)
    torch.optim.SGD(twin.parameters(), lr=0.1).step()
    assert norm == theirs > 0.01
    torch.testing.assert_close(module.state_dict(), twin.state_dict())


def mean_square(module: nn.Module, batch: Batch) -> tuple[Tensor, Metrics]:
    loss = (module(batch["x"]) - 1).square().mean()
    return loss, {"loss": loss.detach()}


class CutsFirst(Learner):
    """Leaves the views cut for the step of the base class."""

    def update_step(self, batch: Batch, loss_fn: LossFn, *args: Any, **options: Any) -> Metrics:
        self.module.zero_grad()
        return super().update_step(batch, loss_fn, *args, **options)


def test_the_step_of_the_base_class_finds_gradients_anywhere() -> None:
    module = network()
    twin = copy.deepcopy(module)
    learners = [kind(net, {}, 0.5) for kind, net in ((CutsFirst, module), (Learner, twin))]
    for step in range(3):
        batch = {"x": torch.randn(7, 3, generator=torch.Generator().manual_seed(step))}
        norms = [learner.update_step(batch, mean_square)["grad_norm"] for learner in learners]
        assert norms[0] == norms[1] > 0
    torch.testing.assert_close(module.state_dict(), twin.state_dict())


@pytest.mark.parametrize("how", ["double", "replaced"])
def test_a_network_that_was_moved_is_refused(how: str) -> None:
    """What is stepped is no longer what computes."""
    module = network()
    learner = Learner(module, {})
    if how == "double":
        module.double()
    else:
        parameter = next(module.parameters())
        parameter.data = parameter.data.clone()
    x = torch.randn(7, 3, dtype=torch.float64 if how == "double" else torch.float32)
    with pytest.raises(ConfigError, match=r"learner_class: .* moved"):
        learner.update_step({"x": x}, mean_square)


def test_the_example_of_the_guide_learns() -> None:
    code = block_with(PAGE, "class NoisyGradients")
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(code, PAGE, "exec"), names)
    config = PPOConfig().environment("CartPole-v1").debugging(seed=0)
    config.training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=2)
    weights = {}
    for name, learner_class in {"theirs": names["NoisyGradients"], "ours": None}.items():
        with config.copy(copy_frozen=False).training(learner_class=learner_class).build() as algo:
            before = algo.get_policy().get_weights()
            result = algo.train()
            after = algo.get_policy().get_weights()
        assert all((before[key] != after[key]).any() for key in before), name
        assert result["learner/default_policy/grad_norm"] > 0
        weights[name] = after
    assert any((weights["theirs"][key] != weights["ours"][key]).any() for key in before)
