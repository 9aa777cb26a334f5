"""The examples of the guide to updates of one's own run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_blocks import block_with, write_files
from small_runs import settings_of
from torch import nn

from trainables import Policy
from trainables.core.learning.learner import Learner
from trainables.registry import get_algorithm

PAGE = "trainables/guides/own_updates.md"
MODULE = "learner/default_policy"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = write_files(PAGE, tmp_path)
    yield
    for name in names:
        sys.modules.pop(name, None)


def example(name: str) -> Any:
    return importlib.import_module(name)


@pytest.mark.usefixtures("modules")
def test_two_policies_by_slot() -> None:
    names: dict[str, Any] = {}
    code = block_with(PAGE, "from my_sizes import TwoSizes")
    small = ".training(train_batch_size_per_learner=64, minibatch_size=32)\nwith config.build"
    assert code.count("\nwith config.build") == 1
    exec(code.replace("\nwith config.build", small), names)
    assert names["action"] in (0, 1) and names["units"] == [16]
    policy: Policy = names["policy"]
    assert policy.options["model"]["fcnet_hiddens"] == [64]


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("memory", [False, True])
def test_a_loss_of_fresh_rows(memory: bool) -> None:
    settings = settings_of("PPO", "CartPole-v1")
    if memory:
        settings["model"] = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 8}
    with example("my_penalty").Penalised(config=settings) as algo:
        before = algo.get_weights()["default_policy"]
        result = [algo.train() for _ in range(2)][-1]
        after = algo.get_weights()["default_policy"]
    reported = {name.removeprefix(f"{MODULE}/") for name in result if name.startswith(MODULE)}
    assert {"pull", "total_loss", "curr_lr", "advantage_std"} <= reported
    assert not reported & {"policy_loss", "clip_fraction"}
    assert any((after[name] != weight).any() for name, weight in before.items())


@pytest.mark.parametrize("kind", ["PPO", "A2C"])
def test_a_loss_may_add_to_that_of_the_algorithm(kind: str) -> None:
    base: Any = get_algorithm(kind)

    class Doubled(base):  # type: ignore[misc]
        @classmethod
        def make_loss(cls, worker: Any, module_id: str, coefficients: Any) -> Any:
            of_base = super().make_loss(worker, module_id, coefficients)

            def loss(module: Any, batch: Any) -> Any:
                value, metrics = of_base(module, batch)
                return 2 * value, {**metrics, "asked_of": torch.tensor(float(len(module_id)))}

            return loss

    with Doubled(config=settings_of(kind, "CartPole-v1")) as algo:
        assert algo.train()[f"{MODULE}/asked_of"] == len("default_policy")


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_loss_of_replayed_rows(compiled: bool) -> None:
    settings = settings_of("DQN", "CartPole-v1", temperature=0.5)
    settings["replay_buffer_config"] = {"type": "PrioritizedReplayBuffer", "capacity": 1000}
    if compiled:
        settings |= {"torch_compile_learner": True}
        settings |= {"torch_compile_learner_dynamo_backend": "aot_eager"}
    with example("my_soft_q").SoftQ(config=settings) as algo:
        before = algo.get_weights()["default_policy"]
        result = algo.train()
        after = algo.get_weights()["default_policy"]
        assert result[f"{MODULE}/qf_loss"] > 0
        assert any((after[name] != weight).any() for name, weight in before.items())


@pytest.mark.usefixtures("modules")
def test_values_that_rows_keep_and_lambda_returns() -> None:
    settings = settings_of("DQN", "CartPole-v1")
    with example("my_returns").Returns(config=settings) as algo:
        assert algo.train()[f"{MODULE}/lambda_return"] > 0
        rows = algo.experience["default_policy"].sample_sequences(64, 8)
        assert rows["is_last"].any()
        kept = rows["valid"] | rows["is_last"]
        assert rows["value"][kept].count_nonzero() > 0
        assert rows["value"][~kept].count_nonzero() == 0


def test_members_with_coefficients_of_their_own() -> None:
    names: dict[str, Any] = {}
    exec(block_with(PAGE, "from torch.func import grad, vmap"), names)
    of_inputs, of_values = names["gradients"]
    assert of_inputs.shape == (3, 64, 2) and of_values.shape == (3, 64)
    coefficients = names["clips"][1], names["entropies"][1]
    one = {name: column[1] for name, column in names["batch"].items()}
    inputs = names["outputs"][0][1].requires_grad_()
    names["loss_of"](inputs, names["outputs"][1][1], one, *coefficients)[0].backward()
    torch.testing.assert_close(of_inputs[1], inputs.grad)


def test_losses_with_optimizers_of_their_own_and_a_network_beside() -> None:
    names: dict[str, Any] = {"MyAlgorithm": object}
    exec(block_with(PAGE, "class WorldModel"), names)
    module = nn.Module()
    module.world, module.actor, module.critic = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
    options = names["WorldModel"].learner_options(None, module)
    learner = Learner(module, {"type": "adam"}, **options)
    batch = {"features": torch.randn(32, 4), "rewards": torch.randn(32)}
    parts: dict[str, nn.Module] = {
        "world": module.world,
        "actor": module.actor,
        "critic": module.critic,
        "decoder": learner.networks["decoder"],
        "slow": learner.targets["critic"].network,
    }
    before = {n: [p.detach().clone() for p in part.parameters()] for n, part in parts.items()}
    first = names["world_model_step"](learner, batch)
    for name, part in parts.items():
        pairs = zip(part.parameters(), before[name], strict=True)
        assert any(not torch.equal(after, earlier) for after, earlier in pairs), name
    for _ in range(20):
        last = names["world_model_step"](learner, batch)
    assert last["model_loss"] < first["model_loss"]
    assert np.isfinite(float(last["actor_loss"]))
