"""Optimisers of one's own: they step as they do elsewhere, follow schedules, and are stored."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_blocks import block_with
from refusals import Golden, refusals
from small_runs import settings_of
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from trainables.core.config.model import OptimizerConfig
from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner, Metrics
from trainables.core.learning.optimizers import make_optimizer, step
from trainables.registry import get_algorithm


class ByNAdam(Learner):
    def make_optimizer(
        self, groups: list[dict[str, Any]], settings: OptimizerConfig
    ) -> torch.optim.Optimizer:
        return torch.optim.NAdam(groups, eps=settings.eps)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def mean_square(module: nn.Module, batch: Batch) -> tuple[Tensor, Metrics]:
    loss = (module(batch["x"]) - 1).square().mean()
    return loss, {"loss": loss.detach()}


def test_it_steps_as_it_does_elsewhere() -> None:
    module = network()
    twin = copy.deepcopy(module)
    learner = ByNAdam(module, {"eps": 1e-6})
    reference = torch.optim.NAdam(twin.parameters(), eps=1e-6)
    for number, lr in enumerate((0.1, 0.1, 0.01, 0.0)):
        batch = {"x": torch.randn(7, 3, generator=torch.Generator().manual_seed(number))}
        learner.set_lr(lr)
        learner.update_step(batch, mean_square)
        reference.param_groups[0]["lr"] = lr
        reference.zero_grad()
        mean_square(twin, batch)[0].backward()
        reference.step()
        torch.testing.assert_close(module.state_dict(), twin.state_dict())


def weights(algo: Any) -> np.ndarray:
    return np.concatenate([w.ravel() for w in algo.get_weights()["default_policy"].values()])


@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_a_resumed_run_goes_on_with_its_moments(name: str, tmp_path: Path) -> None:
    rate = {"lr": [[0, 1e-2], [2000, 1e-3]]} if name == "PPO" else {}
    settings = settings_of(name, learner_class=ByNAdam, seed=1, **rate)
    kind = get_algorithm(name)
    with kind(config=settings) as whole:
        whole.train()
        whole.save(str(tmp_path / "saved"))
        moments = whole.learners.worker.learners["default_policy"].get_state()["moments"]
        assert {"mu_product", "exp_avg"} <= set(moments[0])
        metrics = whole.train()
        if rate:
            assert metrics["learner/default_policy/curr_lr"] < 1e-2  # NAdam's follows the schedule
        expected = weights(whole)
    with kind(config=settings) as resumed:
        resumed.restore(str(tmp_path / "saved"))
        resumed.train()
        np.testing.assert_array_equal(weights(resumed), expected)
    with kind(config={**settings, "learner_class": None}) as other:
        other.restore(str(tmp_path / "saved"))  # the moments of another kind are left out
        other.train()
        assert (weights(other) != expected).any()


class OfTheNetwork(Learner):
    def make_optimizer(self, groups: Any, settings: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.module.parameters())


class Reversed(Learner):
    def make_optimizer(self, groups: Any, settings: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(groups[::-1])


class WithClosure(Learner):
    def make_optimizer(self, groups: Any, settings: Any) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(groups[0]["params"])


class NoOptimizer(Learner):
    def make_optimizer(self, groups: Any, settings: Any) -> Any:
        return {"adam": torch.optim.Adam(groups)}


class WithoutRate(Learner):
    def make_optimizer(self, groups: Any, settings: Any) -> torch.optim.Optimizer:
        made = torch.optim.Adam(groups)
        for group in made.param_groups:
            del group["lr"]
        return made


def test_what_cannot_be_stepped_is_refused(golden: Golden) -> None:
    def act(learner_class: type[Learner]) -> None:
        module = network()
        assert isinstance(module, nn.Sequential)
        in_two = {"a": module[0].parameters(), "b": module[2].parameters()}
        groups = None if learner_class is WithClosure else in_two
        learner_class(module, {}, groups=groups)

    cases = [OfTheNetwork, Reversed, WithClosure, NoOptimizer, WithoutRate]
    golden("own_optimizer/what_cannot_be_stepped_is_refused", refusals(act, cases))


class Remembers(torch.optim.SGD):
    """Keeps what no checkpoint holds."""

    def step(self, closure: Any = None) -> Any:
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter].setdefault("history", []).append(0.0)
        return super().step(closure)


class RemembersAll(Learner):
    def make_optimizer(self, groups: Any, settings: Any) -> torch.optim.Optimizer:
        return Remembers(groups)


def test_a_state_that_cannot_be_stored_is_named() -> None:
    learner = RemembersAll(network(), {})
    learner.update_step({"x": torch.randn(7, 3)}, mean_square)
    with pytest.raises(ConfigError, match="Remembers keeps 'history' as list, which a checkpoint"):
        learner.get_state()


@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_the_example_of_the_guide_learns(name: str) -> None:
    names: dict[str, Any] = {"__name__": __name__}
    exec(block_with("trainables/guides/your_own.md", "class SlowMoments"), names)
    settings = settings_of(name, learner_class=names["SlowMoments"], seed=1)
    with get_algorithm(name)(config=settings) as algo:
        before = weights(algo)
        algo.train()
        assert (weights(algo) != before).any()
        learner = algo.learners.worker.learners["default_policy"]
        assert type(learner.optimizer) is torch.optim.NAdam
        slow = [group["betas"][1] == 0.9999 for group in learner.optimizer.param_groups]
        assert slow == [group == "critic" for group in learner.groups]


def test_optimizers_are_made_and_stored_and_step_without_the_compiler() -> None:
    """Importing it takes longer than all else that begins a trial."""
    code = (
        "import sys, torch\n"
        "from trainables.core.config.model import OptimizerConfig\n"
        "from trainables.core.learning.optimizers import make_optimizer, step\n"
        "for kind in ('adam', 'adamw', 'laprop', 'rmsprop', 'sgd'):\n"
        "    weights = torch.nn.Parameter(torch.ones(3))\n"
        "    groups = [{'params': [weights], 'lr': 0.1}]\n"
        "    optimizer = make_optimizer(groups, OptimizerConfig(type=kind))\n"
        "    optimizer.load_state_dict(optimizer.state_dict())\n"
        "    weights.grad = torch.ones(3)\n"
        "    step(optimizer)\n"
        "    assert (weights < 1).all() and weights.requires_grad, kind\n"
        "    assert 'torch._dynamo' not in sys.modules, kind\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.parametrize("kind", ["adam", "adamw", "laprop", "rmsprop", "sgd"])
def test_a_step_is_that_of_the_optimizer(kind: str) -> None:
    def stepped(by: Callable[[torch.optim.Optimizer], object]) -> torch.Tensor:
        weights = torch.nn.Parameter(torch.linspace(-1, 1, 5))
        settings = OptimizerConfig(type=kind, weight_decay=0.0 if kind == "laprop" else 0.1)
        optimizer = make_optimizer([{"params": [weights], "lr": 0.1}], settings)
        for number in range(3):
            weights.grad = torch.arange(5.0) - number
            by(optimizer)
        return weights.detach()

    assert torch.equal(stepped(step), stepped(lambda optimizer: optimizer.step()))


@pytest.mark.parametrize("added", ["before", "after", "before any", "instance"])
def test_whoever_wants_to_be_told_of_steps_is_told(added: str) -> None:
    weights = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weights], lr=0.1)
    weights.grad = torch.ones(3)
    told: list[str] = []
    own = optimizer.register_step_pre_hook(lambda *_: None)

    def tell(*_: object) -> None:
        told.append(added)

    handle = None
    if added == "before":
        optimizer.register_step_pre_hook(tell)
    elif added == "after":
        optimizer.register_step_post_hook(tell)
    elif added == "before any":
        handle = register_optimizer_step_pre_hook(tell)
    else:
        optimizer.step = tell  # type: ignore[method-assign]
    try:
        step(optimizer, own)
    finally:
        if handle is not None:
            handle.remove()
    assert told == [added]
